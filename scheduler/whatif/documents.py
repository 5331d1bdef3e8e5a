"""API objects out of the text that kubectl prints: JSON or YAML, one object, a List, or several documents.

Objects stay bytes here, `scheduler.whatif.world` decodes the kinds that a decision reads. JSON is told from YAML by its
first character: a JSON dump of 50,000 pods takes a second this way, and minutes through a YAML parser.
"""

import codecs
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
import yaml

from scheduler.model.mistakes import kind_of, misfit

_READABLE = "expected API objects as `kubectl get nodes,pods,namespaces -A -o yaml` prints them"
_SMALL = 1 << 20
_DIGITS = "integer string conversion"
"""Part of what Python says of a number with thousands of digits."""
_NODES = 20_000_000
"""Bound on what a document may expand to through its aliases (a bomb of YAML anchors is a few hundred bytes)."""


class ObjectError(ValueError):
    """Objects that can't be read: each line of the text says where, which field, and what was expected."""


class Document(NamedTuple):
    """One API object, and where it stands in its text."""

    kind: str
    raw: bytes | msgspec.Raw
    place: str


class Fault(NamedTuple):
    """Why a part of a text is no object."""

    text: str


class _Envelope(msgspec.Struct):
    """What tells one object from a list of them."""

    kind: str = ""
    items: list[msgspec.Raw] | None = None


_ENCODINGS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
"""What a text begins with that some editors and shells write."""
_BEGINS = re.compile(rb"^---(?=\s|\Z)", re.MULTILINE)
"""Where a YAML document begins: in no document a line begins so."""
_DIRECTIVE = re.compile(rb"^%", re.MULTILINE)
_COMMENTS = re.compile(rb"\s*(?:#[^\n]*(?:\n\s*|\Z))*")
_DEEPEST = 500
"""Levels that a YAML document may have."""
_envelope = msgspec.json.Decoder(_Envelope)
_trailing = re.compile(r"trailing characters \(byte (\d+)\)")
_byte = re.compile(r" ?\(byte (\d+)\)")


_MERGE, _NULL, _BOOL, _STR = (f"tag:yaml.org,2002:{name}" for name in ("merge", "null", "bool", "str"))


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """YAML as the API's clients read it: no dates, no base-60 numbers, no key twice in one mapping; keys are texts."""

    _depth = 0

    def descend_resolver(self, node: yaml.Node | None, index: Any) -> None:
        """Called before each value is read. What reads them calls itself for each level, until the stack is full."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise ObjectError("is nested too deep")

    def ascend_resolver(self) -> None:
        """Called after each value."""
        self._depth -= 1

    def construct_document(self, node: yaml.Node) -> Any:
        """The values of a document, refusing those that are not what their tags say."""
        try:
            return super().construct_document(node)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            many = _DIGITS in str(error)
            said = "a number has too many digits" if many else "a value is not what its tag says, such as !!int"
            raise yaml.constructor.ConstructorError(None, None, said, node.start_mark) from None

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """A mapping, refusing a key that is there twice: one of the values would be lost unnoticed."""
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != _MERGE:
                if key.tag == _NULL:
                    raise yaml.constructor.ConstructorError(None, None, "a key is null: expected text", key.start_mark)
                if key.tag == _BOOL:
                    key.tag, key.value = _STR, str(self.bool_values[key.value.lower()]).lower()
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(None, None, f"{key.value!r} is there twice", key.start_mark)
                seen.add(key.value)
        found: dict[Any, Any] = super().construct_mapping(node, deep)
        return found


_NOT_OURS = {"tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:value"}
_PLAIN_NUMBERS = {
    "tag:yaml.org,2002:int": re.compile(r"[-+]?(?:0b[01]+|0x[0-9a-fA-F]+|0[0-7]+|0|[1-9][0-9]*)$"),
    "tag:yaml.org,2002:float": re.compile(r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?$|[-+]?\.(?:inf|nan)$"),
}
_Loader.yaml_implicit_resolvers = {
    first: [(tag, _PLAIN_NUMBERS.get(tag, pattern)) for tag, pattern in resolvers if tag not in _NOT_OURS]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def plain(document: Document) -> dict[str, Any]:
    """The object as plain values.

    Raises ObjectError.
    """
    try:
        found = msgspec.json.decode(document.raw)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ObjectError(_join(document.place, document.kind, _lowered(error))) from None
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
        for each in _read(_decoded(text)):
            if isinstance(each, Fault):
                faults.append(each.text)
            else:
                found.append(each)
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
        try:
            return msgspec.json.decode(text)
        except msgspec.DecodeError as error:
            if len(text) > _SMALL:
                raise ObjectError(_json_problem(text, error)) from None
        except RecursionError:
            raise ObjectError("is nested too deep") from None
    documents = [document for document in _yaml(text) if document is not None]
    if len(documents) > 1:
        raise ObjectError(f"expected one YAML document, got {len(documents)}")
    return documents[0] if documents else None


def _decoded(text: bytes) -> bytes:
    """The text in UTF-8, where its first bytes say that it is in another encoding."""
    for mark, encoding in _ENCODINGS.items():
        if text.startswith(mark):
            try:
                return text.decode(encoding).encode()
            except UnicodeError:
                raise ObjectError(f"expected text: it begins as {encoding} and is not") from None
    return text


def _read(text: bytes) -> Iterator[Document | Fault]:
    if _looks_like_json(text):
        try:
            yield from list(_read_json(memoryview(text)))
            return
        except msgspec.ValidationError as error:
            said = "got a list" if text.lstrip()[:1] == b"[" else _lowered(error).replace("`", "")
            raise ObjectError(f"{_READABLE}, {said}") from None
        except msgspec.DecodeError as error:
            # What opens with a brace may still be YAML's flow style, but nobody prints a big dump that way.
            if len(text) > _SMALL or text.lstrip()[:2] == b'{"':
                raise ObjectError(_json_problem(text, error)) from None
        except RecursionError:
            raise ObjectError("is nested too deep") from None
    documents = _yaml_parts(text)
    for number, document in enumerate(documents, start=1):
        place = f"document {number}" if len(documents) > 1 else ""
        if isinstance(document, Fault):
            yield Fault(_join(place, document.text))
        elif document is None:
            continue
        elif not isinstance(document, dict):
            yield Fault(_join(place, f"{_READABLE}, got {kind_of(document)}"))
        else:
            try:
                raw = msgspec.json.encode(document)
                yield from _flat(raw, place)
            except (msgspec.MsgspecError, TypeError, ValueError, RecursionError) as error:
                yield Fault(_join(place, f"{_READABLE}: {_lowered(error)}"))


def _read_json(text: memoryview) -> Iterator[Document | Fault]:
    """One JSON object, or several one after the other (what a few `kubectl get -o json` leave in one file)."""
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


def _shifted(error: msgspec.DecodeError, start: int) -> msgspec.DecodeError:
    return type(error)(_byte.sub(lambda found: f" (byte {start + int(found[1])})", str(error)))


def _flat(raw: bytes | memoryview, place: str, envelope: _Envelope | None = None) -> Iterator[Document | Fault]:
    """The object itself, or the items of a list; items of a PodList say no kind, theirs is Pod."""
    envelope = envelope or _envelope.decode(raw)
    if envelope.items is None:
        if envelope.kind:
            yield Document(envelope.kind, bytes(raw), place)
        else:
            yield Fault(_join(place, f"{_READABLE}, got an object without kind"))
        return
    implied = envelope.kind.removesuffix("List")
    for i, item in enumerate(envelope.items):
        try:
            kind = _envelope.decode(item).kind or implied
        except msgspec.DecodeError as error:
            yield Fault(_join(place, f"items[{i}]", f"expected an API object: {_lowered(error)}"))
            continue
        if kind:
            yield Document(kind, item, _join(place, f"items[{i}]"))
        else:
            yield Fault(_join(place, f"items[{i}]", "kind: Required value"))


def _yaml_parts(text: bytes) -> list[Any]:
    """The documents of a text, with a Fault for each that can't be read."""
    try:
        return _yaml(text)
    except ObjectError as error:
        whole = Fault(str(error))
    found: list[Any] = []
    parts = list(_parts(text))
    for line, part in parts if len(parts) > 1 else ():
        try:
            found += _yaml(part, line) or [None]
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


def _yaml(text: bytes, before: int = 0) -> list[Any]:
    """The documents of a text. `before`: the lines before it. Raises ObjectError."""
    try:
        documents = list(yaml.load_all(text, Loader=_Loader))
        if b"&" in text and _size(documents, {}) > _NODES:
            raise ObjectError("its aliases expand beyond all bounds")
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {before + mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise ObjectError(f"{where}not YAML: {error.problem or error.context}") from None
    except yaml.reader.ReaderError as error:
        raise ObjectError(f"expected text, got a binary file ({error.reason} at byte {error.position})") from None
    except yaml.YAMLError as error:
        raise ObjectError(f"not YAML: {_lowered(error)}") from None
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


def _looks_like_json(text: bytes) -> bool:
    return text.lstrip()[:1] in (b"{", b"[")


def _json_problem(text: bytes, error: msgspec.DecodeError) -> str:
    found = _byte.search(str(error))
    said = _byte.sub("", str(error)).removeprefix("JSON is malformed: ")
    if found is None:
        return f"not JSON: {said[:1].lower()}{said[1:]}"
    before = text[: int(found[1])]
    line = before.count(b"\n") + 1
    column = len(before) - (before.rfind(b"\n") + 1) + 1
    return f"line {line}, column {column}: not JSON: {said}"


def _lowered(error: BaseException) -> str:
    ours = isinstance(error, RecursionError | msgspec.DecodeError)
    text = misfit(error) if ours and isinstance(error, Exception) else " ".join(str(error).split())
    if _DIGITS in text:
        return "a number has too many digits"
    return f"{text[:1].lower()}{text[1:]}"


def _join(*parts: str) -> str:
    return ": ".join(part for part in parts if part)
