"""Words and numbers as every report writes them."""

import re
from collections.abc import Mapping, Sequence
from typing import TypeVar

_HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
"""Control characters but for tabs and line ends, and what turns the direction of a text or shows nothing."""
_WORDS = re.compile(r"(?<=[a-z])(?=[A-Z])")
Key = TypeVar("Key", str, tuple[str, str])


def printable(text: str) -> str:
    """Return the text without what steers a terminal: names come from files and clusters."""
    return "".join(c if c.isprintable() else "�" for c in text)


def escaped(json: str) -> str:
    """Return a JSON text in which what `printable` leaves out is escaped; it can only be in texts."""
    return _HIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", json)


def visible(page: str) -> str:
    """Return a page without characters that a terminal or a browser obeys instead of showing them."""
    return _HIDDEN.sub("�", page)


def count(number: int, what: str) -> str:
    """Return `1 node`, `4,980 nodes`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def most_first(counts: Mapping[Key, int]) -> dict[Key, int]:
    """Return the counts in order: the largest first, equal ones by their keys."""
    return dict(sorted(counts.items(), key=lambda each: (-each[1], each[0])))


def duration(seconds: float) -> str:
    """Return a time, the less precise the longer it is."""
    if seconds < 120.0:
        return f"{seconds:.1f} s"
    whole = int(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    if whole < 86_400:
        return f"{whole // 3600} h {whole % 3600 // 60:02} min"
    return f"{whole // 86_400} d {whole % 86_400 // 3600:02} h"


def some(names: Sequence[str], most: int) -> str:
    """Return the first few names, and the number of others."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most:,} more" if len(names) > most else shown


def spaced(plugin: str) -> str:
    """Return a plugin's name that can be wrapped."""
    return _WORDS.sub(" ", plugin)


def asked(requests: Mapping[str, object], claims: Mapping[str, str] | None = None) -> str:
    """Return resources, and claims for devices, that a pod asks for."""
    parts = [f"{amount} {name}" for name, amount in requests.items()]
    parts += [f"claim {name} ({what})" for name, what in (claims or {}).items()]
    return ", ".join(parts) or "nothing"


def percent(part: float) -> str:
    """Return a share as percent with one decimal."""
    return f"{100 * part:.1f} %"
