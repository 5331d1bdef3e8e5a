"""Dumps in every form that kubectl and people produce, and what is said of those that are none."""

import json

import pytest

from podberth.explain.objects.documents import ObjectError, parse, read, readable

NODE = '{"kind": "Node", "metadata": {"name": "n"}}'
POD = '{"kind": "Pod", "metadata": {"name": "p"}}'


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param(NODE, [("Node", "")], id="one JSON object"),
        pytest.param(
            f'{{"kind": "List", "items": [{NODE}, {POD}]}}', [("Node", "items[0]"), ("Pod", "items[1]")], id="List"
        ),
        pytest.param(
            '{"kind": "PodList", "items": [{"metadata": {}}]}', [("Pod", "items[0]")], id="a list of raw items"
        ),
        pytest.param(
            f'{NODE}\n{{"kind": "List", "items": [{POD}]}}\n',
            [("Node", "document 1"), ("Pod", "document 2: items[0]")],
            id="JSON after JSON",
        ),
        pytest.param(
            f"---\n{NODE}\n---\n{POD}", [("Node", "document 1"), ("Pod", "document 2")], id="JSON as YAML documents"
        ),
        pytest.param(
            "kind: Node\nmetadata: {name: n}\n---\n# nothing\n", [("Node", "document 1")], id="YAML with an empty end"
        ),
        pytest.param("kind: List\nitems:\n- kind: Pod\n", [("Pod", "items[0]")], id="YAML List"),
        pytest.param("{kind: Pod, metadata: {name: p}}", [("Pod", "")], id="flow style"),
        pytest.param(
            f'{{"kind": "List", "items": [{{"kind": "PodList", "items": [{{"metadata": {{}}}}]}}, {NODE}]}}',
            [("Pod", "items[0]: items[0]"), ("Node", "items[1]")],
            id="a list in a list",
        ),
        pytest.param(f"\n\n  {NODE}  \n", [("Node", "")], id="space around"),
    ],
)
def test_reads(text: str, want: list[tuple[str, str]]) -> None:
    """Every object comes out with its kind and its place."""
    assert [(kind, place) for kind, _, place in read(text.encode())] == want


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(b"", "is empty", id="empty"),
        pytest.param(b" \n ", "is empty", id="blank"),
        pytest.param(b"# only a comment", "holds no object", id="comment"),
        pytest.param(b"hello", "got text", id="text"),
        pytest.param(b"- a\n- b", "got a list", id="list"),
        pytest.param(b"[1, 2]", "got a list", id="JSON list"),
        pytest.param(b"a: 1", "without kind", id="no kind"),
        pytest.param(b"\x00\x01\xff", "expected text, got a binary file", id="binary"),
        pytest.param(b"a: [1\nb: 2", "line 2, column 2: not YAML", id="broken YAML"),
        pytest.param(b'{"kind": "List",\n "items": [}', "line 2, column 12: not JSON", id="broken JSON"),
        pytest.param(
            b'{"kind":"List","items":[' * 9 + b"]}" * 9, "items[0]: List: too many lists", id="lists in lists in lists"
        ),
        pytest.param(b'{"kind": "List", "items": [{', "not JSON: input data was truncated", id="truncated JSON"),
        pytest.param(b"kind: Pod\nkind: Node", 'line 2, column 1: not YAML: "kind" is there twice', id="key twice"),
        pytest.param(b"a: &a [*a]", "aliases expand beyond all bounds", id="an alias of itself"),
        pytest.param(b'{"a":' * 100_000, "nested too deep", id="deep JSON"),
        pytest.param(b"[" * 100_000, "", id="deep list"),
        pytest.param(b"kind: Pod\nn: !!int abc", "not YAML: a value is not what its tag says", id="a tag of another"),
        pytest.param(b"kind: Pod\nn: !!bool maybe", "not YAML: a value is not what", id="a tag of another value"),
        pytest.param(b"kind: Pod\nn: !!map [a]", "not YAML: a value is not what", id="a list that is called a map"),
        pytest.param(b"kind: Pod\nn: !!timestamp x", "not YAML: a value is not what", id="no time"),
        *(
            pytest.param(
                b"kind: Pod\nn: %b" % number, "line 2, column 4: not YAML: expected a finite number", id=number.decode()
            )
            for number in (b".inf", b"-.inf", b".nan", b"1.0e400", b"!!float inf")
        ),
        pytest.param(b"kind: Pod\nn: !!binary /w==", "not YAML: a value is not what", id="base64 of no text"),
        pytest.param(b"- kind: Pod\n  n: 0x" + b"f" * 4000, "a number has too many digits", id="digits in a list"),
        pytest.param(b"kind: Pod\nn: !!python/name:os.system", "not YAML: could not determine", id="a tag of Python"),
        pytest.param(b"kind: Pod\n~: 1", "line 2, column 1: not YAML: a key is null: expected text", id="a null key"),
        pytest.param(
            b"kind: Pod\n? [a]\n: 1", "line 2, column 3: not YAML: a key is a list: expected text", id="a list"
        ),
        pytest.param(b"\xff\xfek\x00i\x00n\x00d", "it begins as utf-16 and is not", id="half a character"),
        pytest.param(b"kind: [a]", "expected API objects", id="kind of a wrong type"),
        pytest.param(b'{"kind": "List", "items": [5]}', "items[0]: expected an API object", id="item of a wrong type"),
    ],
)
def test_refuses(text: bytes, said: str) -> None:
    """A text that is no dump is refused in one line that says why."""
    with pytest.raises(ObjectError) as found:
        read(text)
    assert said in str(found.value)
    assert len(str(found.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("tag", "each"), [("", "{}"), ("!!pairs", "k: {}"), ("!!omap", "k{}: {}")], ids=["list", "pairs", "ordered"]
)
def test_refuses_a_bomb_of_aliases(tag: str, each: str) -> None:
    """A few hundred bytes of anchors that stand for a billion values are refused before they are expanded."""
    levels = []
    for i in range(9):
        inner = f"*l{i - 1}" if i else "x"
        parts = ", ".join(each.format(*([inner] if each.count("{}") == 1 else [j, inner])) for j in range(10))
        levels.append(f"l{i}: &l{i} {tag} [{parts}]")
    with pytest.raises(ObjectError, match="aliases expand beyond all bounds"):
        read("\n".join(levels).encode())


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("a: 2024-01-01T00:00:00Z", {"a": "2024-01-01T00:00:00Z"}, id="times stay text"),
        pytest.param("a: 1:30", {"a": "1:30"}, id="no base-60 numbers"),
        pytest.param("a: =", {"a": "="}, id="a lone equals sign"),
        pytest.param("a: 010\nb: 1.5\nc: true", {"a": 8, "b": 1.5, "c": True}, id="numbers and booleans"),
        pytest.param('{"a": 1}', {"a": 1}, id="JSON"),
        pytest.param("", None, id="nothing"),
        pytest.param("on: a\nNo: b\n1: c\n2.5: d", {"true": "a", "false": "b", 1: "c", 2.5: "d"}, id="keys"),
        pytest.param("base: &b {x: 1}\nmore: {<<: *b, y: 2}", {"base": {"x": 1}, "more": {"x": 1, "y": 2}}, id="merge"),
        pytest.param("a: !!pairs [b: 1]\nc: !!omap [d: 2]", {"a": [{"b": 1}], "c": [{"d": 2}]}, id="pairs"),
        pytest.param("a: !!set {b, c}", {"a": {"b": None, "c": None}}, id="a set"),
        pytest.param("a: !!binary aGVsbG8=", {"a": "hello"}, id="text in base64"),
        pytest.param("a: !!timestamp 2024-01-01", {"a": "2024-01-01"}, id="a time by its tag"),
    ],
)
def test_parses_as_the_api_clients_do(text: str, want: object) -> None:
    """Scalars are read as Kubernetes' own YAML library reads them."""
    assert parse(text.encode()) == want


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
@pytest.mark.parametrize("text", [NODE, "kind: Node\nmetadata: {name: n}\n"], ids=["JSON", "YAML"])
def test_reads_what_shells_and_editors_write(text: str, encoding: str) -> None:
    """With a mark of the encoding at its beginning."""
    (found,) = read(text.encode(encoding))
    assert (found.kind, json.loads(bytes(found.raw))["metadata"]) == ("Node", {"name": "n"})


def test_yaml_ends_where_it_is_broken() -> None:
    """The fault is told with its place in the whole text; of documents that parse, each is told that is no object."""
    assert readable(b"# of two\n---\nkind: Pod\n---\nkind: [1\nb: 2\n")[1] == [
        "line 6, column 2: not YAML: did not find expected ',' or ']'"
    ]
    found, faults = readable(b"kind: Pod\n---\n- a\n---\nkind: Node\n")
    assert [(one.kind, one.place) for one in found] == [("Pod", "document 1"), ("Node", "document 3")]
    assert [fault.startswith("document 2: expected API objects") for fault in faults] == [True]


def test_json_ends_where_it_is_broken() -> None:
    """Objects before the fault are there, and the fault is told with its place in the whole text."""
    found, faults = readable(f'{NODE}\n{{"kind": "List",\n"items": [{POD},]}}\n{POD}'.encode())
    assert [one.kind for one in found] == ["Node"]
    assert [fault.partition(": not JSON")[0] for fault in faults] == ["line 3, column 54"]


def test_json_that_is_no_utf8() -> None:
    """It is told with its place; also in a configuration."""
    assert readable(b'{"kind": "Pod",\n"metadata": {"name": "\xff"}}')[1] == [
        "line 2, column 23: expected UTF-8 text (invalid start byte)"
    ]
    with pytest.raises(ObjectError, match="line 1, column 8: expected UTF-8 text"):
        parse(b'{"a": "\xff"}')


def test_a_configuration_is_one_document() -> None:
    """Two documents are no configuration."""
    with pytest.raises(ObjectError, match="expected one YAML document, got 2"):
        parse(b"a: 1\n---\nb: 2")


def test_a_big_dump_stays_bytes() -> None:
    """Items of a JSON list are not decoded here: their bytes are those of the file."""
    item = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"x": [1, 2, {"y": None}]}}
    [document] = read(json.dumps({"kind": "List", "items": [item]}).encode())
    assert bytes(document.raw) == json.dumps(item).encode()
