"""The templates of pages: all text is escaped on its way into them, and a value that is missing is an error."""

import re
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from podberth.explain.report.wording import visible

_JOINT = re.compile(r"(?<=\w-)(?=\d)|(?<=\w[=:])(?=\w)")


def render(template: str, **values: Any) -> str:
    """One of this room's templates with these values: a page that needs no other file and no network."""
    environment = Environment(
        loader=PackageLoader("podberth.explain.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.filters["thousands"] = "{:,}".format
    environment.filters["breakable"] = breakable
    environment.policies["json.dumps_kwargs"] = {"ensure_ascii": False}  # the keys keep their order, too
    return visible(environment.get_template(template).render(**values))


def breakable(text: object) -> Markup:
    """A text whose names may go on in the next line after any dash, and labels and taints after their signs.

    By itself a browser takes no dash before a digit, and breaks `key=value:NoSchedule` anywhere.
    """
    return Markup(_JOINT.sub("<wbr>", escape(text)))
