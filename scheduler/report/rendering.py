"""The templates of pages: all text is escaped on its way into them, and a value that is missing is an error."""

from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined


def render(template: str, **values: Any) -> str:
    """One of this room's templates with these values: a page that needs no other file and no network."""
    environment = Environment(
        loader=PackageLoader("scheduler.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.filters["thousands"] = "{:,}".format
    environment.policies["json.dumps_kwargs"] = {"ensure_ascii": False}  # the keys keep their order, too
    return environment.get_template(template).render(**values)
