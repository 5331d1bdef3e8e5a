"""Reads API objects out of the text that kubectl prints: JSON or YAML, one object, a List, or several documents.

A text that does not parse ends where it is broken; what is wrong with the objects of one that does is told of each.
"""

import gzip
import json
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from math import isfinite
from typing import Any, NamedTuple

import msgspec
import yaml

from podberth.explain.judging.schema import Misfit, fitting, type_of
from podberth.explain.objects.versions import called, upgraded
from podberth.model.mistakes import kind_of, misfit

# --- YAML -------------------------------------------------------------------------------------------------------------

DIGITS = "integer string conversion"
"""Part of what Python says of a number with thousands of digits."""
_DEEPEST = 500
"""The largest number of nested levels in a document."""
_MOST_MERGED = 500_000
"""The largest number of entries that the mappings of a document merge from others."""
_MERGE, _NULL, _BOOL, _STR = (f"tag:yaml.org,2002:{name}" for name in ("merge", "null", "bool", "str"))


class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """YAML as the API's clients read it: no dates, no base-60 numbers, no key twice in one mapping; keys are texts.

    Whatever tags say, it gives mappings, lists, texts, numbers and booleans.
    """

    _depth = 0
    _merged = 0

    def descend_resolver(self, node: yaml.Node | None, index: Any) -> None:
        """Called before each value is read. What reads them calls itself for each level, until the stack is full."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise RecursionError

    def ascend_resolver(self) -> None:
        """Called after each value."""
        self._depth -= 1

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Take over what a mapping merges (`<<`). It counts like aliases: a list of one alias nine times, in each of
        a few mappings, makes thousands of millions of entries.
        """
        for key, value in node.value:
            if key.tag == _MERGE:
                for each in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                    if isinstance(each, yaml.MappingNode):
                        self.flatten_mapping(each)
                        self._merged += len(each.value)
                        if self._merged > _MOST_MERGED:
                            raise yaml.constructor.ConstructorError(
                                None, None, "its merge keys expand beyond all bounds", key.start_mark
                            )
        super().flatten_mapping(node)

    def construct_document(self, node: yaml.Node) -> Any:
        """Return the values of a document, refusing those that are not what their tags say."""
        try:
            return super().construct_document(node)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            many = DIGITS in str(error)
            said = "a number has too many digits" if many else "a value is not what its tag says, such as !!int"
            raise yaml.constructor.ConstructorError(None, None, said, node.start_mark) from None

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Return a mapping, refusing a key that is there twice: one of the values would be lost unnoticed."""
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                what = "mapping" if isinstance(key, yaml.MappingNode) else "list"
                raise yaml.constructor.ConstructorError(None, None, f"a key is a {what}: expected text", key.start_mark)
            if key.tag != _MERGE:
                if key.tag == _NULL:
                    raise yaml.constructor.ConstructorError(None, None, "a key is null: expected text", key.start_mark)
                if key.tag == _BOOL:
                    key.tag, key.value = _STR, str(self.bool_values[key.value.lower()]).lower()
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"{json.dumps(key.value)} is there twice", key.start_mark
                    )
                seen.add(key.value)
        found: dict[Any, Any] = super().construct_mapping(node, deep)
        return found

    def construct_number(self, node: yaml.ScalarNode) -> int:
        """Return a whole number that can be written in decimal digits, whatever digits it was written in."""
        found = int(self.construct_yaml_int(node))
        str(found)
        return found

    def construct_fraction(self, node: yaml.ScalarNode) -> float:
        """Return a number with a fraction. One that is not finite can't be written as JSON, which has null for it."""
        found = float(self.construct_yaml_float(node))
        if not isfinite(found):
            raise yaml.constructor.ConstructorError(
                None, None, f"expected a finite number, got {node.value}", node.start_mark
            )
        return found

    def construct_packed(self, node: yaml.ScalarNode) -> str:
        """Return the text that somebody wrote in base64."""
        return str(self.construct_yaml_binary(node).decode())

    def construct_time(self, node: yaml.ScalarNode) -> str:
        """Return a time as it was written, if it is one."""
        self.construct_yaml_timestamp(node)
        return str(self.construct_scalar(node))


for _name, _construct in {
    "int": Loader.construct_number,
    "float": Loader.construct_fraction,
    "binary": Loader.construct_packed,
    "timestamp": Loader.construct_time,
    "omap": Loader.construct_yaml_seq,
    "pairs": Loader.construct_yaml_seq,
    "set": Loader.construct_yaml_map,
}.items():
    Loader.add_constructor(f"tag:yaml.org,2002:{_name}", _construct)

_NOT_OURS = {"tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:value"}
_PLAIN_NUMBERS = {
    "tag:yaml.org,2002:int": re.compile(r"[-+]?(?:0b[01]+|0x[0-9a-fA-F]+|0[0-7]+|0|[1-9][0-9]*)$"),
    "tag:yaml.org,2002:float": re.compile(r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?$|[-+]?\.(?:inf|nan)$"),
}
Loader.yaml_implicit_resolvers = {
    first: [(tag, _PLAIN_NUMBERS.get(tag, pattern)) for tag, pattern in resolvers if tag not in _NOT_OURS]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


_NODES = 20_000_000
"""Bound on what a document may expand to through its aliases (a bomb of YAML anchors is a few hundred bytes)."""


class ObjectError(ValueError):
    """Objects that can't be read: each line of the text says where, which field, and what was expected."""


@contextmanager
def unpacking(place: str = "") -> Iterator[None]:
    """Have what is wrong with a packed text be an ObjectError, whichever of Python's it is."""
    try:
        yield
    except (zlib.error, gzip.BadGzipFile, EOFError) as error:
        said = "it is damaged" if isinstance(error, zlib.error) else str(error)
        raise ObjectError(located(place, f"expected a gzip file: {said}")) from None


GZIP = b"\x1f\x8b"
"""The bytes that packed texts begin with."""
_UNPACKED, _TIMES = 64 << 20, 200
"""A packed text may unpack to so many bytes, or to so many times its size."""


def unpacked(raw: bytes) -> bytes:
    """Return a packed text as it was. Raises ObjectError."""
    most = max(_UNPACKED, _TIMES * len(raw))
    with unpacking(), gzip.GzipFile(fileobj=BytesIO(raw)) as packed:
        found = packed.read(most + 1)
    if len(found) > most:
        raise ObjectError(f"unpacks to more than {_TIMES} times its size")
    return found


class Fault(NamedTuple):
    """Why a part of a text is no object."""

    text: str


def yaml_documents(text: bytes) -> list[Any]:
    """Return the documents of a text. Raises ObjectError."""
    try:
        documents = list(yaml.load_all(text, Loader=Loader))
        if b"&" in text and _size(documents, {}) > _NODES:
            raise ObjectError("its aliases expand beyond all bounds")
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
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
    """Return the number of values with all aliases repeated; above the bound for a tree that holds itself."""
    if not isinstance(value, dict | list):
        return 1
    size = sizes.get(id(value))
    if size is None:
        sizes[id(value)] = _NODES + 1
        inner = value.values() if isinstance(value, dict) else value
        size = sizes[id(value)] = 1 + sum(_size(each, sizes) for each in inner)
    return size


def lowered(error: BaseException) -> str:
    """Return the message of a parser or decoder as one line that begins with a small letter."""
    ours = isinstance(error, RecursionError | msgspec.DecodeError)
    text = misfit(error) if ours and isinstance(error, Exception) else " ".join(str(error).split())
    if DIGITS in text:
        return "a number has too many digits"
    return f"{text[:1].lower()}{text[1:]}"


# --- documents --------------------------------------------------------------------------------------------------------

_READABLE = "expected API objects as `kubectl get nodes,pods,namespaces -A -o yaml` prints them"
_SMALL = 1 << 20
_MOST = 500_000
"""The largest number of objects in a text: a cluster has some 150,000 pods, and a packed text may be mostly air."""
_MOST_YAML, _MOST_LINES = 32 << 20, 1_000_000
"""Bytes and lines of YAML that are read: half a minute."""
_LISTS = 8
"""The largest number of lists within each other."""


class Document(NamedTuple):
    """One API object, and where it stands in its text. `kind`: as `podberth.explain.objects.versions` calls it."""

    kind: str
    raw: bytes | msgspec.Raw
    place: str


class _Envelope(msgspec.Struct):
    """The fields that tell one object from a list of them."""

    kind: str = ""
    items: list[msgspec.Raw] | None = None
    version: Any = msgspec.field(name="apiVersion", default="")


_LOG = b"==== START logs for container "
_LOGS = re.compile(
    rb"^==== START (logs for container [^\n]*) ====\r?\n.*?^==== END \1 ====\r?$", re.MULTILINE | re.DOTALL
)
"""The logs that `kubectl cluster-info dump` prints after its lists."""
_QUOTED = re.compile(rb"\s*\{\s*\"")
"""The beginning of JSON, which YAML written by people does not have."""
_array = msgspec.json.Decoder(list[msgspec.Raw])
_envelope = msgspec.json.Decoder(_Envelope)
_trailing = re.compile(r"trailing characters \(byte (\d+)\)")
_byte = re.compile(r" ?\(byte (\d+)\)")


def plain(document: Document) -> dict[str, Any]:
    """Return the object as plain values.

    Raises ObjectError.
    """
    try:
        found = msgspec.json.decode(document.raw)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ObjectError(located(document.place, document.kind, lowered(error))) from None
    assert isinstance(found, dict)
    return found


def named(document: Document) -> tuple[dict[str, Any], str, str]:
    """Return (the known fields of an object of a kind of Kubernetes, its namespace, its name).

    Raises ObjectError with a line for each value of a wrong type, and for an object without a name.
    """
    misfits: list[Misfit] = []
    found = fitting(plain(document), type_of(document.kind), misfits, strict=False)
    metadata = found.get("metadata") or {}
    name = metadata.get("name") or ""
    wrong = [each.text for each in misfits if not each.unknown]
    if not (name or wrong):
        wrong = ["metadata.name: Required value"]
    if wrong:
        which = f"{document.kind} {name or '?'}"
        raise ObjectError("\n".join(located(document.place, which, text) for text in wrong))
    return found, metadata.get("namespace") or "default", name


def read(text: bytes) -> list[Document]:
    """Return all objects of a text.

    Raises ObjectError.
    """
    found, faults = readable(text)
    if faults:
        raise ObjectError("\n".join(faults))
    return found


def readable(text: bytes) -> tuple[list[Document], list[str]]:
    """Return the objects of a text that can be read, and why others can't, a line for each."""
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
            raise ObjectError(wrong)
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
    """Return one JSON or YAML document as plain values (a configuration).

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
    """Return the text in UTF-8, whatever its first bytes say it is in, without the logs between objects."""
    encoding = json.detect_encoding(text)
    if encoding != "utf-8":
        try:
            text = text.decode(encoding).encode()
        except UnicodeError:
            raise ObjectError(f"expected text: it begins as {encoding} and is not") from None
    return _LOGS.sub(lambda found: b"\n" * found[0].count(b"\n"), text) if _LOG in text else text


def _not_utf8(text: bytes) -> str:
    """Return where a text is not UTF-8; empty: it is."""
    try:
        text.decode()
    except UnicodeDecodeError as error:
        return f"{_position(text, error.start)}: expected UTF-8 text ({error.reason})"
    return ""


def _read(text: bytes) -> Iterator[Document | Fault]:
    if _looks_like_json(text):
        some = False
        try:
            for each in _read_json(memoryview(text)):
                some = True
                yield each
            return
        except msgspec.DecodeError as error:
            # What opens with a brace may still be YAML's flow style, but nobody prints a big dump that way.
            problem = _json_problem(text, error)
            if some or isinstance(error, msgspec.ValidationError) or len(text) > _SMALL or text.lstrip()[:2] == b'{"':
                raise ObjectError(problem) from None
        except RecursionError:
            raise ObjectError("is nested too deep") from None
    try:
        documents = yaml_documents(text)
    except ObjectError:
        if _QUOTED.match(text):
            raise ObjectError(problem) from None
        raise
    for number, document in enumerate(documents, start=1):
        place = f"document {number}" if len(documents) > 1 else ""
        if document is None:
            continue
        if isinstance(document, list) and any(isinstance(each, dict) for each in document):
            document = {"kind": "List", "items": document}
        if not isinstance(document, dict):
            yield Fault(located(place, f"{_READABLE}, got {kind_of(document)}"))
            continue
        try:
            yield from _flat(msgspec.json.encode(document), place)
        except (msgspec.MsgspecError, TypeError, ValueError, RecursionError) as error:
            yield Fault(located(place, f"{_READABLE}: {lowered(error)}"))


def _read_json(text: memoryview) -> Iterator[Document | Fault]:
    """Yield one JSON object, or several one after the other (what a few `kubectl get -o json` leave in one file).

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


def _shifted(error: msgspec.DecodeError, start: int) -> msgspec.DecodeError:
    return type(error)(_byte.sub(lambda found: f" (byte {start + int(found[1])})", str(error)))


def _flat(
    raw: bytes | memoryview | msgspec.Raw,
    place: str,
    envelope: _Envelope | None = None,
    implied: str = "",
    depth: int = 1,
) -> Iterator[Document | Fault]:
    """Yield the object itself, or the items of a list; items of a PodList say no kind, theirs is Pod.

    `depth`: how many lists it is in, itself counted.
    """
    envelope = envelope or _envelope.decode(raw)
    if envelope.items is None:
        if kind := envelope.kind or implied:
            yield Document(called(kind, envelope.version), bytes(raw), place)
        else:
            yield Fault(located(place, f"{_READABLE}, got an object without kind"))
        return
    implied = envelope.kind.removesuffix("List")
    for i, item in enumerate(envelope.items):
        try:
            inner = _envelope.decode(item)
        except msgspec.DecodeError as error:
            yield Fault(located(place, f"items[{i}]", f"expected an API object: {lowered(error)}"))
            continue
        kind = inner.kind or implied
        if inner.items is not None and kind.endswith("List"):
            if depth == _LISTS:
                yield Fault(located(place, f"items[{i}]", f"{kind}: too many lists are within each other"))
            else:
                yield from _flat(item, located(place, f"items[{i}]"), inner, depth=depth + 1)
        elif kind:
            yield Document(called(kind, inner.version or envelope.version), item, located(place, f"items[{i}]"))
        else:
            yield Fault(located(place, f"items[{i}]", "kind: Required value"))


def _looks_like_json(text: bytes) -> bool:
    return text.lstrip()[:1] in (b"{", b"[")


def _json_problem(text: bytes, error: msgspec.DecodeError) -> str:
    """Return the reason for which a text is no list of objects."""
    if isinstance(error, msgspec.ValidationError):
        said = "got a list" if text.lstrip()[:1] == b"[" else lowered(error).replace("`", "")
        return f"{_READABLE}, {said}"
    found = _byte.search(str(error))
    said = _byte.sub("", str(error)).removeprefix("JSON is malformed: ")
    if found is None:
        return f"not JSON: {said[:1].lower()}{said[1:]}"
    return f"{_position(text, int(found[1]))}: not JSON: {said}"


def _position(text: bytes, at: int) -> str:
    """Return the line and column of a byte."""
    line, begin = text.count(b"\n", 0, at) + 1, text.rfind(b"\n", 0, at)
    return f"line {line}, column {at - begin}"


def located(*parts: str) -> str:
    """Return a message behind where it is about: the parts that are not empty, with colons between them."""
    return ": ".join(part for part in parts if part)
