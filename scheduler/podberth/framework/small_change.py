"""What all small changes are: data with a text, and with a cost by which the cheap ones are tried first."""

from typing import ClassVar

from msgspec import Struct


def _tag(name: str) -> str:
    return name[0].lower() + name[1:]


class SmallChange(Struct, frozen=True, rename="camel", tag_field="kind", tag=_tag):
    """A change that people may make. `cost`: how much work it is for them."""

    cost: ClassVar[float]

    def __hash__(self) -> int:
        return hash(str(self))
