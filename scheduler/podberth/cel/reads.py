"""Finds the attributes of a device that an expression can read, as far as its text tells.

Devices that differ in other attributes only are the same to it. What is not plainly the lookup of one attribute, such
as a loop over all of them, counts as reading all. The scheduler starts with this, and without the rest of CEL.
"""

import re
from typing import Final

_DEVICE: Final = re.compile(r"\bdevice\b", re.ASCII)
_LOOKUP: Final = re.compile(
    r"""
    \s*\.\s*
    (?: (?:driver|capacity|allowMultipleAllocations)\b
      | attributes\s*\[\s*\??\s*(?:"(?P<domain>[^"\\]+)"|'(?P<domain_>[^'\\]+)')\s*\]\s*
        (?: \.\s*\??\s*(?P<field>[A-Za-z_]\w*)(?!\w|\s*(?:\(|//))
          | \[\s*\??\s*(?:"(?P<name>[^"\\]+)"|'(?P<name_>[^'\\]+)')\s*\] ) )
    """,
    re.VERBOSE | re.ASCII,
)
"""After the name of the device. A name that brackets follow is a function of all attributes of the domain."""


def attributes_read(expression: str) -> frozenset[str] | None:
    """Return the names of the attributes that an expression reads, qualified by a domain; None: it may read any."""
    found: set[str] = set()
    for device in _DEVICE.finditer(expression):
        lookup = _LOOKUP.match(expression, device.end())
        if lookup is None:
            return None
        domain = lookup["domain"] or lookup["domain_"]
        if domain is not None:
            found.add(f"{domain}/{lookup['field'] or lookup['name'] or lookup['name_']}")
    return frozenset(found)
