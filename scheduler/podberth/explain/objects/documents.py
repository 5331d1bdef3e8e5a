"""Reads API objects out of the text that kubectl prints: JSON or YAML, one object, a List, or several documents.

A JSON text that can't be read as a whole is taken apart (`outlines`), so that each object is read by itself. A field
of the wrong type is complained of as `field.path: value: what was expected` (`complaint`).
"""

import codecs
import json
import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec
import yaml

from podberth.explain.objects.versions import called, upgraded
from podberth.model import wire
from podberth.model.mistakes import as_json, in_words, kind_of, misfit

# --- YAML -------------------------------------------------------------------------------------------------------------

DIGITS = "integer string conversion"
"""Part of what Python says of a number with thousands of digits."""
_DEEPEST = 500
"""The largest number of nested levels in a document."""
_MOST_MERGED = 500_000
"""The largest number of entries that the mappings of a document merge from others."""
_MERGE, _NULL, _BOOL, _STR = (f"tag:yaml.org,2002:{name}" for name in ("merge", "null", "bool", "str"))


class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """YAML as the API's clients read it: no dates, no base-60 numbers, no key twice in one mapping; keys are texts."""

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
            if isinstance(key, yaml.ScalarNode) and key.tag != _MERGE:
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
_BEGINS = re.compile(rb"^---(?=\s|\Z)", re.MULTILINE)
"""The first line of a YAML document; no line within a document begins so."""
_DIRECTIVE = re.compile(rb"^%", re.MULTILINE)
_COMMENTS = re.compile(rb"\s*(?:#[^\n]*(?:\n\s*|\Z))*")


class ObjectError(ValueError):
    """Objects that can't be read: each line of the text says where, which field, and what was expected."""


class Fault(NamedTuple):
    """Why a part of a text is no object."""

    text: str


def yaml_parts(text: bytes) -> list[Any]:
    """Return the documents of a text, with a Fault for each that can't be read."""
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
    """Yield the documents of a text before they are read, with the number of lines before each; none if that is not
    sure.
    """
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
    """Return the documents of a text. `before`: the lines before it. Raises ObjectError."""
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
    """Return the number of values in a tree, counted as often as aliases repeat them; above the bound for one that
    holds itself.
    """
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


# --- what is wrong with an object that does not decode ----------------------------------------------------------------

_TEXT = re.compile(r"(?P<what>.*?)(?: - at `(?P<key>key in )?\$(?P<path>[^`]*)`)?$", re.S)
_AMOUNT = re.compile(r"`(?=[^`]*\bstr\b)(?=[^`]*\bint\b)(?=[^`]*\bfloat\b)[^`]*`")
"""The decoder's name of the type of a quantity."""
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\[(\.\.\.)\]")
_SHOWN = 60

_CONTAINER: dict[str, Any] = {"resources": wire.ResourceRequirements, "ports": list[wire.ContainerPort]}
_REPORT: dict[str, Any] = {"allocatedResources": wire.Amounts, "resources": wire.ResourceRequirements}
_RAW: dict[str, dict[str, Any]] = {
    "Pod": {
        "metadata.labels": dict[str, str],
        "spec.nodeSelector": dict[str, str],
        "spec.affinity": wire.Affinity,
        "spec.tolerations": list[wire.Toleration],
        "spec.overhead": wire.Amounts,
        "spec.resources": wire.ResourceRequirements,
        "spec.containers[]": _CONTAINER,
        "spec.initContainers[]": _CONTAINER,
        "status.containerStatuses[]": _REPORT,
        "status.initContainerStatuses[]": _REPORT,
        "status.allocatedResources": wire.Amounts,
        "status.resources": wire.ResourceRequirements,
    },
    "Node": {
        "metadata.labels": dict[str, str],
        "spec.taints": list[wire.Taint],
        "status.allocatable": wire.Amounts,
        "status.images": list[wire.ContainerImage],
    },
    "Namespace": {"metadata.labels": dict[str, str]},
    "Service": {"spec.selector": dict[str, str]},
    "ReplicationController": {"spec.selector": dict[str, str]},
    "ReplicaSet": {"spec.selector": wire.LabelSelector},
    "StatefulSet": {"spec.selector": wire.LabelSelector},
    "PodDisruptionBudget": {"spec.selector": wire.LabelSelector},
}
"""Kind → path of a part that stays raw → its type; a path with `[]` gives the parts of each element of a list."""


def complaint(kind: str, raw: bytes | msgspec.Raw, error: Exception) -> str:
    """Return one line for an object that did not decode."""
    text = misfit(error) if isinstance(error, RecursionError) else str(error)
    try:
        document = msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return _one_line(text)
    for path, value, wanted in _raw_parts(kind, document):
        try:
            msgspec.json.decode(msgspec.json.encode(value), type=wanted)
        except msgspec.ValidationError as found:
            return _said(document, str(found), path)
    return _said(document, text, "")


def _raw_parts(kind: str, document: Any) -> Iterator[tuple[str, Any, Any]]:
    for path, wanted in _RAW.get(kind, {}).items():
        value = _at(document, "." + path.removesuffix("[]"))
        if value is None:
            continue
        if not path.endswith("[]"):
            yield path, value, wanted
        elif isinstance(value, list):
            for i, element in enumerate(value):
                for name, part in wanted.items():
                    if isinstance(element, dict) and element.get(name) is not None:
                        yield f"{path[:-2]}[{i}].{name}", element[name], part


def _said(document: Any, text: str, prefix: str) -> str:
    match = _TEXT.match(text)
    if match is None:
        return _one_line(text)
    path = (f".{prefix}" if prefix else "") + (match["path"] or "")
    if path.endswith("[...]") and not match["key"]:
        path = _which(document, path.removesuffix("[...]"), text)
    value = _at(document, path)
    what = in_words(_AMOUNT.sub("a quantity such as 500m or 2Gi", match["what"])).partition(", got ")[0]
    where = path.removeprefix(".") or "object"
    shown = f"{as_json(value, _SHOWN)}: " if path and value is not None else ""
    return _one_line(f"{where}: {shown}{what.removeprefix(shown)}")


def _which(document: Any, path: str, text: str) -> str:
    """Return the first entry of a mapping that is of the type that was found instead."""
    mapping = _at(document, path)
    got = re.search(r"got `(\w+)`", text)
    if isinstance(mapping, dict) and got is not None:
        for key, value in mapping.items():
            if _type_of(value) == got[1]:
                return f"{path}[{key}]"
    return path


def _at(document: Any, path: str) -> Any:
    """Return the value at a path of the form `.a.b[0][key]`, None where there is none."""
    value = document
    while path:
        step = _STEP.match(path)
        if step is None:
            key = path[1:-1]
            return value.get(key) if isinstance(value, dict) else None
        path = path[step.end() :]
        if step[1] is not None and isinstance(value, dict):
            value = value.get(step[1])
        elif step[2] is not None and isinstance(value, list) and int(step[2]) < len(value):
            value = value[int(step[2])]
        else:
            return None
    return value


def _type_of(value: Any) -> str:
    names = {str: "str", bool: "bool", int: "int", float: "float", list: "array", dict: "object", type(None): "null"}
    return names.get(type(value), "")


def _one_line(text: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


# --- JSON that can't be read as a whole -------------------------------------------------------------------------------

_TOKEN = re.compile(rb'\n[ \t]*+|"(?:[^"\\\n]|\\[^\n])*+"?|[\[\]{}]')
_NEXT_LINE = re.compile(rb"[ \t\r]*+\n([ \t]*+)")
_OPENS = {b"}": b"{", b"]": b"["}
_ITEM = 2
"""The bracket level of the `items` of an object."""
_LOOKED_AT = 100
"""Open brackets among which the one that is closed is looked for."""


class Span(NamedTuple):
    """The place of an object, and the beginning of what stands before it; None: it is right behind another that does
    not end."""

    before: int | None
    start: int
    stop: int


class Outline(NamedTuple):
    """An object that stands by itself: its items, and where these begin and end; None: it is no list."""

    span: Span
    items: list[Span]
    inside: tuple[int, int] | None


class _Open(NamedTuple):
    bracket: bytes
    indent: int
    begins: bool
    """True if it is the first of its line."""
    inner: int | None
    """The indent of the next line; None: it has more on its own."""


class _Bracket(NamedTuple):
    at: int
    opens: bool
    level: int
    of_items: bool


def outlines(text: bytes) -> list[Outline]:
    """Return the objects of a text that stand one after the other."""
    brackets = list(_brackets(text))
    return [Outline(span, *_items(brackets, span)) for span in _spans(brackets, 0, 0, len(text))]


def _items(brackets: Sequence[_Bracket], outer: Span) -> tuple[list[Span], tuple[int, int] | None]:
    within = _between(brackets, outer.start, outer.stop)
    for i, one in enumerate(within):
        if one.of_items:
            stop = next((after.at for after in within[i + 1 :] if after.level < _ITEM), outer.stop)
            return _spans(within, _ITEM, one.at + 1, stop), (one.at + 1, stop)
    return [], None


def _spans(brackets: Sequence[_Bracket], level: int, begin: int, end: int) -> list[Span]:
    found: list[Span] = []
    start: int | None = None
    before: int | None = begin
    for one in _between(brackets, begin, end):
        if one.level != level:
            continue
        if start is not None:
            found.append(Span(before, start, one.at if one.opens else one.at + 1))
            before = None if one.opens else one.at + 1
        start = one.at if one.opens else None
    return found if start is None else [*found, Span(before, start, end)]


def _between(brackets: Sequence[_Bracket], begin: int, end: int) -> Sequence[_Bracket]:
    at = itemgetter(0)
    return brackets[bisect_left(brackets, begin, key=at) : bisect_left(brackets, end, key=at)]


def _brackets(text: bytes) -> Iterator[_Bracket]:
    """Yield the brackets of objects, of `items`, and of what is in those; a pair has one level."""
    stack: list[_Open] = []
    after_items = False
    indent, line = 0, len(text) - len(text.lstrip())
    for token in _TOKEN.finditer(text):
        said, at = token[0], token.start()
        if said[:1] == b"\n":
            indent, line = len(said) - 1, token.end()
            continue
        of_items, after_items = after_items and said == b"[", said == b'"items"' and len(stack) == 1
        if said[:1] == b'"':
            continue
        begins = at == line
        if said in _OPENS:
            level = _closed(stack, _OPENS[said], indent if begins else None)
            if level is None:
                continue
            del stack[level:]
        else:
            if begins and said == b"{":
                del stack[_ended(stack, indent) :]
            level = len(stack)
            stack.append(_Open(said, indent, begins, _inner(text, token.end())))
        if level <= _ITEM:
            yield _Bracket(at, said not in _OPENS, level, of_items and level == 1)


def _closed(stack: Sequence[_Open], bracket: bytes, indent: int | None) -> int | None:
    """Return the open bracket that a closing one belongs to; None: none."""
    top = len(stack) - 1
    innermost: int | None = None
    for level in range(top, max(top - _LOOKED_AT, -1), -1):
        one = stack[level]
        if one.bracket == bracket:
            if indent is not None and one.indent == indent:
                return level
            innermost = level if innermost is None else innermost
            if indent is None:
                break
    if innermost is None or innermost == top or (bracket == b"[" and stack[innermost].inner is None):
        return innermost
    return None


def _ended(stack: Sequence[_Open], indent: int) -> int:
    """Return the number of brackets that are still open where an object begins a line."""
    for level in (0, _ITEM):
        if level < len(stack):
            one = stack[level]
            deeper = one.inner is None or one.inner > indent
            if one.bracket == b"{" and one.begins and deeper and one.indent == indent:
                return level
    return len(stack)


def _inner(text: bytes, end: int) -> int | None:
    found = _NEXT_LINE.match(text, end)
    return None if found is None else len(found[1])


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


_ENCODINGS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
"""The marks that some editors and shells put before a text."""
_UNMARKED = (
    (re.compile(rb"[^\0]\0[^\0]\0"), "utf-16-le"),
    (re.compile(rb"\0[^\0]\0[^\0]"), "utf-16-be"),
)
"""The beginnings of texts that have no such mark."""
_LOG = b"==== START logs for container "
_LOGS = re.compile(
    rb"^==== START (logs for container [^\n]*) ====\r?\n.*?^==== END \1 ====\r?$", re.MULTILINE | re.DOTALL
)
"""The logs that `kubectl cluster-info dump` prints after its lists."""
_QUOTED = re.compile(rb"\s*\{\s*\"")
"""The beginning of JSON, which YAML written by people does not have."""
_LINE_END = re.compile(rb"\n")
_VISIBLE = re.compile(rb"[^\n]")
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
    """Return the text in UTF-8, where its first bytes say that it is in another encoding, without the logs between
    objects.
    """
    begins = [encoding for mark, encoding in _ENCODINGS.items() if text.startswith(mark)]
    begins += [encoding for first, encoding in _UNMARKED if first.match(text)]
    if begins:
        try:
            text = text.decode(begins[0]).encode()
        except UnicodeError:
            raise ObjectError(f"expected text: it begins as {begins[0]} and is not") from None
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
            yield Fault(located(place, document.text))
        elif document is None:
            continue
        elif isinstance(document, list) and any(isinstance(each, dict) for each in document):
            yield from _flat(msgspec.json.encode({"kind": "List", "items": document}), place)
        elif not isinstance(document, dict):
            yield Fault(located(place, f"{_READABLE}, got {kind_of(document)}"))
        else:
            try:
                raw = msgspec.json.encode(document)
                yield from _flat(raw, place)
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


def _one_by_one(text: bytes, whole: Fault) -> Iterator[Document | Fault]:
    """Yield the objects of a JSON text that can't be read as a whole. `whole`: why, in case each of them can."""
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
    """Return the items of a list, which stand between `begin` and `stop`, and what is wrong with it."""
    blank = _VISIBLE.sub(b" ", text[begin:stop])
    around = text[outer.start : begin] + blank + text[stop : outer.stop]
    implied, wrong = "", list[Fault]()
    try:
        implied = _envelope.decode(around).kind.removesuffix("List")
    except (msgspec.DecodeError, RecursionError) as error:
        wrong = [Fault(located(place, _json_problem(text, error, outer.start)))]
    found: list[Document | Fault] = []
    number, end = -1, begin
    for item in items:
        here = located(place, f"items[{number + 1}]")
        stray = _stray(text, here, item.before, item.start, comma=number >= 0)
        found += _after(stray, _piece(text, here, item.start, item.stop, implied))
        number += 1
        end = item.stop
    found += _stray(text, place, end, stop)
    # A list that does not end is what comes of a bracket that is missing in one of its items.
    return found if wrong and any(isinstance(each, Fault) for each in found) else [*found, *wrong]


def _piece(text: bytes, place: str, begin: int, stop: int, implied: str = "") -> list[Document | Fault]:
    """Return the document, or the fault, that one object of a JSON text is."""
    try:
        return list(_flat(text[begin:stop], place, implied=implied))
    except (msgspec.DecodeError, RecursionError) as error:
        return [Fault(located(place, _json_problem(text, error, begin)))]


def _after(stray: list[Fault], piece: list[Document | Fault]) -> list[Document | Fault]:
    """Return the results of `stray` and `piece`. After an extra closing bracket only objects count: other text may be
    part of one.
    """
    return [*stray, *(each for each in piece if not stray or isinstance(each, Document))]


def _stray(text: bytes, place: str, begin: int | None, end: int, *, comma: bool = False) -> list[Fault]:
    """Return the complaint about text between two objects, or before the first or after the last."""
    if begin is None:
        return []
    between = text[begin:end].lstrip()
    if comma and not between.startswith(b","):
        said = "expected a comma between objects"
    else:
        between = between[comma:].lstrip()
        said = "expected an API object" if between else ""
    return [Fault(located(place, f"{_position(text, end - len(between))}: not JSON: {said}"))] if said else []


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


def _json_problem(text: bytes, error: msgspec.DecodeError | RecursionError, begin: int = 0) -> str:
    """Return the reason for which a text is no list of objects, or what of it begins there."""
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
    """Return the line and column of a byte."""
    ends = _line_ends(text)
    line = bisect_left(ends, at)
    return f"line {line + 1}, column {at - (ends[line - 1] if line else -1)}"


@lru_cache(maxsize=1)
def _line_ends(text: bytes) -> list[int]:
    """Return the positions at which lines end. They are kept, as one text may have thousands of faults."""
    return [found.start() for found in _LINE_END.finditer(text)]


def located(*parts: str) -> str:
    """Return a message behind where it is about: the parts that are not empty, with colons between them."""
    return ": ".join(part for part in parts if part)
