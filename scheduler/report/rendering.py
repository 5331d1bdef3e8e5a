"""The templates of pages: all text is escaped on its way into them, and a value that is missing is an error."""

from jinja2 import Environment, PackageLoader, StrictUndefined


def templates() -> Environment:
    """Those of this room."""
    environment = Environment(
        loader=PackageLoader("scheduler.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.filters["thousands"] = "{:,}".format
    return environment
