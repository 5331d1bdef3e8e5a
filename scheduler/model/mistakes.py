"""What is wrong with a document, in words that its author knows: no names of Python's types and exceptions."""

import re

WORDS = {
    "object": "a mapping",
    "array": "a list",
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "null": "nothing",
}
"""The decoder's names of types."""
_TEXT = re.compile(r"(?P<what>.*?)(?: - at `(?:key in )?\$(?P<path>[^`]*)`)?", re.DOTALL)
_DEEP = "it is nested too deeply"


def kind_of(value: object) -> str:
    """What a value of a JSON or YAML document is: `a list`, `text`, …"""
    if value is None:
        return "nothing"
    for kind, word in ((bool, "true or false"), (int | float, "a number"), (str, "text"), (dict, "a mapping")):
        if isinstance(value, kind):
            return word
    return "a list"


def misfit(error: Exception, where: str = "") -> str:
    """The decoder's complaint about a document as `path: expected …, got …`, below the path `where`."""
    if isinstance(error, RecursionError):
        return f"{where}: {_DEEP}" if where else _DEEP
    if isinstance(error, UnicodeError):
        return f"{where}: it is not UTF-8" if where else "it is not UTF-8"
    found = _TEXT.fullmatch(" ".join(str(error).split()))
    assert found is not None
    what = re.sub(r"`([^`]*)`", _word, found["what"]).replace("Object missing required field", "missing the field")
    path = (where + (found["path"] or "")).removeprefix(".")
    what = f"{what[:1].lower()}{what[1:]}" if what.startswith(("Expected", "Object", "Invalid")) else what
    return f"{path}: {what}" if path else what


def _word(match: re.Match[str]) -> str:
    words = [word.strip() for word in match[1].split("|")]
    return " or ".join(WORDS.get(word, f"`{word}`") for word in words if word != "null" or len(words) == 1)
