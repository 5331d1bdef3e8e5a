"""The values of a device that an expression names, in words: `model is "L4"`."""

import json
import re
from collections.abc import Iterator

from podberth.model.devices import DeviceTraits

_REFERENCE = re.compile(
    r"""device\.(?P<kind>attributes|capacity)\[\??(?P<quote>["'])(?P<domain>[^"']+)(?P=quote)\]"""
    r"""(?:\.\??(?P<name>[A-Za-z_]\w*)|\[\??["'](?P<quoted>[^"']+)["']\])"""
)
_SHOWN = 3
"""Values of one expression that are told."""


def values(expression: str, traits: DeviceTraits) -> str:
    """The attributes and capacities that an expression names, as the device has them; empty: it names none."""
    return ", ".join(list(dict.fromkeys(_values(expression, traits)))[:_SHOWN])


def attribute(name: str, traits: DeviceTraits) -> str:
    """The value of a fully qualified attribute; empty: the device has none."""
    found = traits.attribute(name)
    return "" if found is None else _text(found[1])


def _values(expression: str, traits: DeviceTraits) -> Iterator[str]:
    if "device.driver" in expression:
        yield f"driver is {_text(traits.driver)}"
    for found in _REFERENCE.finditer(expression):
        name = found["name"] or found["quoted"]
        whole = f"{found['domain']}/{name}"
        if found["kind"] == "attributes":
            value = attribute(whole, traits)
        else:
            capacity = traits.capacity.get(whole)
            if capacity is None and found["domain"] == traits.driver:
                capacity = traits.capacity.get(name)
            value = "" if capacity is None else capacity.text
        yield f"{name} is {value}" if value else f"it has no {name}"


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str | bool | int) else str(value)
