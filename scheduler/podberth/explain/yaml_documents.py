"""YAML as kubectl prints it: the documents of a text, and a fault for each that can't be read."""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
import yaml

from podberth.explain.yaml_loader import DIGITS, Loader
from podberth.model.mistakes import misfit

_NODES = 20_000_000
"""Bound on what a document may expand to through its aliases (a bomb of YAML anchors is a few hundred bytes)."""
_BEGINS = re.compile(rb"^---(?=\s|\Z)", re.MULTILINE)
"""Where a YAML document begins: in no document a line begins so."""
_DIRECTIVE = re.compile(rb"^%", re.MULTILINE)
_COMMENTS = re.compile(rb"\s*(?:#[^\n]*(?:\n\s*|\Z))*")


class ObjectError(ValueError):
    """Objects that can't be read: each line of the text says where, which field, and what was expected."""


class Fault(NamedTuple):
    """Why a part of a text is no object."""

    text: str


def yaml_parts(text: bytes) -> list[Any]:
    """The documents of a text, with a Fault for each that can't be read."""
    try:
        return yaml_documents(text)
    except ObjectError as error:
        whole = Fault(str(error))
    found: list[Any] = []
    parts = list(_parts(text))
    for line, part in parts if len(parts) > 1 else ():
        try:
            found += yaml_documents(part, line) or [None]
        except ObjectError as error:
            found.append(Fault(str(error)))
    return found if any(isinstance(each, Fault) for each in found) else [whole]


def _parts(text: bytes) -> Iterator[tuple[int, bytes]]:
    """The documents of a text before they are read, with the number of lines before each; none if that is not sure."""
    if _DIRECTIVE.search(text):
        return
    begins = [found.start() for found in _BEGINS.finditer(text)]
    if not begins or not _COMMENTS.fullmatch(text[: begins[0]]):
        begins.insert(0, 0)
    line = text[: begins[0]].count(b"\n")
    for begin, end in zip(begins, [*begins[1:], len(text)], strict=True):
        yield line, text[begin:end]
        line += text[begin:end].count(b"\n")


def yaml_documents(text: bytes, before: int = 0) -> list[Any]:
    """The documents of a text. `before`: the lines before it. Raises ObjectError."""
    try:
        documents = list(yaml.load_all(text, Loader=Loader))
        if b"&" in text and _size(documents, {}) > _NODES:
            raise ObjectError("its aliases expand beyond all bounds")
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {before + mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise ObjectError(f"{where}not YAML: {error.problem or error.context}") from None
    except yaml.reader.ReaderError as error:
        raise ObjectError(f"expected text, got a binary file ({error.reason} at byte {error.position})") from None
    except yaml.YAMLError as error:
        raise ObjectError(f"not YAML: {lowered(error)}") from None
    except UnicodeDecodeError as error:
        raise ObjectError(f"expected UTF-8 text ({error.reason} at byte {error.start})") from None
    except (RecursionError, MemoryError):
        raise ObjectError("is nested too deep") from None
    return documents


def _size(value: Any, sizes: dict[int, int]) -> int:
    """Values in a tree, counted as often as aliases repeat them; beyond the bound for one that holds itself."""
    if not isinstance(value, dict | list):
        return 1
    size = sizes.get(id(value))
    if size is None:
        sizes[id(value)] = _NODES + 1
        inner = value.values() if isinstance(value, dict) else value
        size = sizes[id(value)] = 1 + sum(_size(each, sizes) for each in inner)
    return size


def lowered(error: BaseException) -> str:
    """Return what a parser or decoder says, in one line that begins with a small letter."""
    ours = isinstance(error, RecursionError | msgspec.DecodeError)
    text = misfit(error) if ours and isinstance(error, Exception) else " ".join(str(error).split())
    if DIGITS in text:
        return "a number has too many digits"
    return f"{text[:1].lower()}{text[1:]}"
