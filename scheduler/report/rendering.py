"""The templates of pages: all text is escaped on its way into them, and a value that is missing is an error."""

from jinja2 import Environment, PackageLoader, StrictUndefined


def templates() -> Environment:
    """Those of this room."""
    return Environment(
        loader=PackageLoader("scheduler.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
