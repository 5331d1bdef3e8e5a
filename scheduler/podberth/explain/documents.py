"""API objects out of the text that kubectl prints: JSON or YAML, one object, a List, or several documents.

Objects stay bytes here, `podberth.explain.world` decodes the kinds that a decision reads. JSON is told from YAML by its
first character: a JSON dump of 50,000 pods takes a second this way, and minutes through a YAML parser.
"""

import codecs
import re
from bisect import bisect_left
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from podberth.explain.broken_json import Span, outlines
from podberth.explain.groups import called
from podberth.explain.older import upgraded
from podberth.explain.yaml_documents import Fault, lowered, yaml_documents, yaml_parts
from podberth.explain.yaml_documents import ObjectError as ObjectError
from podberth.model.mistakes import kind_of

_READABLE = "expected API objects as `kubectl get nodes,pods,namespaces -A -o yaml` prints them"
_SMALL = 1 << 20
_MOST = 500_000
"""Objects that a text may hold: a cluster has some 150,000 pods at most, and a packed text may be mostly air."""
_MOST_YAML, _MOST_LINES = 32 << 20, 1_000_000
"""Bytes and lines of YAML that are read: half a minute."""
_LISTS = 8
"""So many lists may be within each other."""


class Document(NamedTuple):
    """One API object, and where it stands in its text. `kind`: as `podberth.explain.groups` calls it."""

    kind: str
    raw: bytes | msgspec.Raw
    place: str


class _Envelope(msgspec.Struct):
    """What tells one object from a list of them."""

    kind: str = ""
    items: list[msgspec.Raw] | None = None
    version: Any = msgspec.field(name="apiVersion", default="")


_ENCODINGS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
"""What a text begins with that some editors and shells write."""
_UNMARKED = (
    (re.compile(rb"[^\0]\0[^\0]\0"), "utf-16-le"),
    (re.compile(rb"\0[^\0]\0[^\0]"), "utf-16-be"),
)
"""How a text begins that has no such mark."""
_LOG = b"==== START logs for container "
_LOGS = re.compile(
    rb"^==== START (logs for container [^\n]*) ====\r?\n.*?^==== END \1 ====\r?$", re.MULTILINE | re.DOTALL
)
"""What `kubectl cluster-info dump` prints after its lists."""
_QUOTED = re.compile(rb"\s*\{\s*\"")
"""What begins so is JSON, or nobody's YAML."""
_LINE_END = re.compile(rb"\n")
_VISIBLE = re.compile(rb"[^\n]")
_array = msgspec.json.Decoder(list[msgspec.Raw])
_envelope = msgspec.json.Decoder(_Envelope)
_trailing = re.compile(r"trailing characters \(byte (\d+)\)")
_byte = re.compile(r" ?\(byte (\d+)\)")


def plain(document: Document) -> dict[str, Any]:
    """The object as plain values.

    Raises ObjectError.
    """
    try:
        found = msgspec.json.decode(document.raw)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ObjectError(_join(document.place, document.kind, lowered(error))) from None
    assert isinstance(found, dict)
    return found


def read(text: bytes) -> list[Document]:
    """All objects of a text.

    Raises ObjectError.
    """
    found, faults = readable(text)
    if faults:
        raise ObjectError("\n".join(faults))
    return found


def readable(text: bytes) -> tuple[list[Document], list[str]]:
    """The objects of a text that can be read, and why others can't, a line for each."""
    if not text.strip():
        return [], [f"is empty: {_READABLE}"]
    found: list[Document] = []
    faults: list[str] = []
    try:
        text = _decoded(text)
        if not _looks_like_json(text) and (len(text) > _MOST_YAML or text.count(b"\n") > _MOST_LINES):
            most = f"{_MOST_YAML >> 20} MB and {_MOST_LINES:,} lines"
            raise ObjectError(f"expected at most {most} of YAML: what `kubectl get -o json` prints may be larger")
        if _looks_like_json(text) and (wrong := _not_utf8(text)):
            faults.append(wrong)
            text = text.decode(errors="replace").encode()
        for each in _read(text):
            if len(found) + len(faults) >= _MOST:
                raise ObjectError(f"expected at most {_MOST:,} objects")
            if isinstance(each, Fault):
                faults.append(each.text)
            else:
                found.append(each._replace(raw=upgraded(each.kind, each.raw)))
    except ObjectError as error:
        faults.append(str(error))
    if not found and not faults:
        faults.append(f"holds no object: {_READABLE}")
    return found, faults


def parse(text: bytes) -> Any:
    """One JSON or YAML document as plain values (a configuration).

    Raises ObjectError.
    """
    text = _decoded(text)
    if _looks_like_json(text):
        if wrong := _not_utf8(text):
            raise ObjectError(wrong)
        try:
            return msgspec.json.decode(text)
        except msgspec.DecodeError as error:
            if len(text) > _SMALL:
                raise ObjectError(_json_problem(text, error)) from None
        except RecursionError:
            raise ObjectError("is nested too deep") from None
    documents = [document for document in yaml_documents(text) if document is not None]
    if len(documents) > 1:
        raise ObjectError(f"expected one YAML document, got {len(documents)}")
    return documents[0] if documents else None


def _decoded(text: bytes) -> bytes:
    """The text in UTF-8, where its first bytes say that it is in another encoding, without the logs between objects."""
    begins = [encoding for mark, encoding in _ENCODINGS.items() if text.startswith(mark)]
    begins += [encoding for first, encoding in _UNMARKED if first.match(text)]
    if begins:
        try:
            text = text.decode(begins[0]).encode()
        except UnicodeError:
            raise ObjectError(f"expected text: it begins as {begins[0]} and is not") from None
    return _LOGS.sub(lambda found: b"\n" * found[0].count(b"\n"), text) if _LOG in text else text


def _not_utf8(text: bytes) -> str:
    """Return where a text is not UTF-8; empty where it is."""
    try:
        text.decode()
    except UnicodeDecodeError as error:
        return f"{_position(text, error.start)}: expected UTF-8 text ({error.reason})"
    return ""


def _read(text: bytes) -> Iterator[Document | Fault]:
    if _looks_like_json(text):
        try:
            yield from list(islice(_read_json(memoryview(text)), _MOST + 1))
            return
        except msgspec.DecodeError as error:
            # What opens with a brace may still be YAML's flow style, but nobody prints a big dump that way.
            whole = Fault(_json_problem(text, error))
            if isinstance(error, msgspec.ValidationError) or len(text) > _SMALL or text.lstrip()[:2] == b'{"':
                yield from _one_by_one(text, whole)
                return
        except RecursionError:
            raise ObjectError("is nested too deep") from None
    documents = yaml_parts(text)
    if _QUOTED.match(text) and len(documents) == 1 and isinstance(documents[0], Fault):
        yield from _one_by_one(text, whole)
        return
    for number, document in enumerate(documents, start=1):
        place = f"document {number}" if len(documents) > 1 else ""
        if isinstance(document, Fault):
            yield Fault(_join(place, document.text))
        elif document is None:
            continue
        elif isinstance(document, list) and any(isinstance(each, dict) for each in document):
            yield from _flat(msgspec.json.encode({"kind": "List", "items": document}), place)
        elif not isinstance(document, dict):
            yield Fault(_join(place, f"{_READABLE}, got {kind_of(document)}"))
        else:
            try:
                raw = msgspec.json.encode(document)
                yield from _flat(raw, place)
            except (msgspec.MsgspecError, TypeError, ValueError, RecursionError) as error:
                yield Fault(_join(place, f"{_READABLE}: {lowered(error)}"))


def _read_json(text: memoryview) -> Iterator[Document | Fault]:
    """One JSON object, or several one after the other (what a few `kubectl get -o json` leave in one file).

    A list of objects, as `jq .items` leaves it, is read like the items of a List.
    """
    if bytes(text[:_SMALL]).lstrip()[:1] == b"[":
        items = _array.decode(text)
        if any(bytes(item).startswith(b"{") for item in items):
            yield from _flat(text, "", _Envelope("List", items))
        else:
            yield Fault(f"{_READABLE}, got a list")
        return
    end = len(text)
    number = 0
    start = 0
    while start < end:
        rest = text[start:]
        number += 1
        try:
            envelope = _envelope.decode(rest)
            stop = end
        except msgspec.DecodeError as error:
            more = _trailing.search(str(error))
            if more is None:
                if start:
                    raise _shifted(error, start) from None
                raise
            stop = start + int(more[1]) - 1  # it counts the first byte of the next object as read
            envelope = _envelope.decode(text[start:stop])
        several = start > 0 or stop < end
        yield from _flat(text[start:stop], f"document {number}" if several else "", envelope)
        start = stop


def _one_by_one(text: bytes, whole: Fault) -> Iterator[Document | Fault]:
    """The objects of a JSON text that can't be read as a whole. `whole`: why, in case each of them can."""
    found: list[Document | Fault] = []
    documents = outlines(text)
    end: int | None = 0
    for number, (span, items, inside) in enumerate(documents, start=1):
        place = f"document {number}" if len(documents) > 1 else ""
        stray = _stray(text, place, span.before, span.start)
        piece = _listed(text, place, span, items, *inside) if inside else _piece(text, place, span.start, span.stop)
        found += _after(stray, piece)
        end = span.stop
    found += _stray(text, "", end, len(text))
    yield from found if any(isinstance(each, Fault) for each in found) else [*found, whole]


def _listed(text: bytes, place: str, outer: Span, items: list[Span], begin: int, stop: int) -> list[Document | Fault]:
    """The items of a list, which stand between `begin` and `stop`, and what is wrong with it."""
    blank = _VISIBLE.sub(b" ", text[begin:stop])
    around = text[outer.start : begin] + blank + text[stop : outer.stop]
    implied, wrong = "", list[Fault]()
    try:
        implied = _envelope.decode(around).kind.removesuffix("List")
    except (msgspec.DecodeError, RecursionError) as error:
        wrong = [Fault(_join(place, _json_problem(text, error, outer.start)))]
    found: list[Document | Fault] = []
    number, end = -1, begin
    for item in items:
        here = _join(place, f"items[{number + 1}]")
        stray = _stray(text, here, item.before, item.start, comma=number >= 0)
        found += _after(stray, _piece(text, here, item.start, item.stop, implied))
        number += 1
        end = item.stop
    found += _stray(text, place, end, stop)
    # A list that does not end is what comes of a bracket that is missing in one of its items.
    return found if wrong and any(isinstance(each, Fault) for each in found) else [*found, *wrong]


def _piece(text: bytes, place: str, begin: int, stop: int, implied: str = "") -> list[Document | Fault]:
    """Return what one object of a JSON text is."""
    try:
        return list(_flat(text[begin:stop], place, implied=implied))
    except (msgspec.DecodeError, RecursionError) as error:
        return [Fault(_join(place, _json_problem(text, error, begin)))]


def _after(stray: list[Fault], piece: list[Document | Fault]) -> list[Document | Fault]:
    """`stray` and `piece`. Behind a bracket too many only objects count, as what begins there may be a part of one."""
    return [*stray, *(each for each in piece if not stray or isinstance(each, Document))]


def _stray(text: bytes, place: str, begin: int | None, end: int, *, comma: bool = False) -> list[Fault]:
    """Return what is wrong with what stands between two objects, or before the first and after the last."""
    if begin is None:
        return []
    between = text[begin:end].lstrip()
    if comma and not between.startswith(b","):
        said = "expected a comma between objects"
    else:
        between = between[comma:].lstrip()
        said = "expected an API object" if between else ""
    return [Fault(_join(place, f"{_position(text, end - len(between))}: not JSON: {said}"))] if said else []


def _shifted(error: msgspec.DecodeError, start: int) -> msgspec.DecodeError:
    return type(error)(_byte.sub(lambda found: f" (byte {start + int(found[1])})", str(error)))


def _flat(
    raw: bytes | memoryview | msgspec.Raw,
    place: str,
    envelope: _Envelope | None = None,
    implied: str = "",
    depth: int = 1,
) -> Iterator[Document | Fault]:
    """The object itself, or the items of a list; items of a PodList say no kind, theirs is Pod.

    `depth`: how many lists it is in, itself counted.
    """
    envelope = envelope or _envelope.decode(raw)
    if envelope.items is None:
        if kind := envelope.kind or implied:
            yield Document(called(kind, envelope.version), bytes(raw), place)
        else:
            yield Fault(_join(place, f"{_READABLE}, got an object without kind"))
        return
    implied = envelope.kind.removesuffix("List")
    for i, item in enumerate(envelope.items):
        try:
            inner = _envelope.decode(item)
        except msgspec.DecodeError as error:
            yield Fault(_join(place, f"items[{i}]", f"expected an API object: {lowered(error)}"))
            continue
        kind = inner.kind or implied
        if inner.items is not None and kind.endswith("List"):
            if depth == _LISTS:
                yield Fault(_join(place, f"items[{i}]", f"{kind}: too many lists are within each other"))
            else:
                yield from _flat(item, _join(place, f"items[{i}]"), inner, depth=depth + 1)
        elif kind:
            yield Document(called(kind, inner.version or envelope.version), item, _join(place, f"items[{i}]"))
        else:
            yield Fault(_join(place, f"items[{i}]", "kind: Required value"))


def _looks_like_json(text: bytes) -> bool:
    return text.lstrip()[:1] in (b"{", b"[")


def _json_problem(text: bytes, error: msgspec.DecodeError | RecursionError, begin: int = 0) -> str:
    """Return why a text is no list of objects, or what of it begins there."""
    if isinstance(error, RecursionError):
        return "is nested too deep"
    if isinstance(error, msgspec.ValidationError):
        said = "got a list" if text[begin:].lstrip()[:1] == b"[" else lowered(error).replace("`", "")
        return f"{_READABLE}, {said}"
    found = _byte.search(str(error))
    said = _byte.sub("", str(error)).removeprefix("JSON is malformed: ")
    if found is None:
        said = f"not JSON: {said[:1].lower()}{said[1:]}"
        return f"{_position(text, begin)}: {said}: what begins here does not end" if begin else said
    return f"{_position(text, begin + int(found[1]))}: not JSON: {said}"


def _position(text: bytes, at: int) -> str:
    """The line and column of a byte."""
    ends = _line_ends(text)
    line = bisect_left(ends, at)
    return f"line {line + 1}, column {at - (ends[line - 1] if line else -1)}"


@lru_cache(maxsize=1)
def _line_ends(text: bytes) -> list[int]:
    """Return where lines end. Kept, as thousands of faults may be in one text."""
    return [found.start() for found in _LINE_END.finditer(text)]


def _join(*parts: str) -> str:
    return ": ".join(part for part in parts if part)
