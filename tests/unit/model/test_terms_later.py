"""Thousands of terms in one pod: read by whoever schedules it, a part at a time, and the same as if read at once."""

from contextlib import suppress
from typing import Any

import msgspec
import pytest

from scheduler.model import terms, wire
from scheduler.model.kinds import Decoder
from scheduler.model.pod import Pod
from scheduler.model.selectors import SelectorError, parse_label_selector
from scheduler.model.shape import LONG, PodShape
from scheduler.model.wire import encode
from tests.builders import pod
from tests.unit.work import lines

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
PART = 600
"""Steps that no part goes beyond."""
MOST_LINES = 50_000
"""So many lines of Python take some milliseconds: each pass over all that is there is a few for each."""


def _not_in(count: int, **more: Any) -> list[dict[str, Any]]:
    return [
        {
            "topologyKey": "zone",
            "labelSelector": {"matchExpressions": [{"key": "zz", "operator": "NotIn", "values": [f"x{i}"]}]},
            "namespaceSelector": {},
            **more,
        }
        for i in range(count)
    ]


def _weighted(key: str, found: list[Any]) -> list[dict[str, Any]]:
    return [{"weight": 1 + i % 100, key: one} for i, one in enumerate(found)]


def _nodes(count: int, operator: str = "NotIn") -> list[dict[str, Any]]:
    return [{"matchExpressions": [{"key": "host", "operator": operator, "values": [f"n{i}"]}]} for i in range(count)]


def _spread(count: int) -> list[dict[str, Any]]:
    return [
        {"maxSkew": 1 + i, "topologyKey": f"k{i}", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
        for i in range(count)
    ]


def _keys(count: int) -> list[dict[str, Any]]:
    """Each by a topology key of its own, and with nothing else: a pod holds 50,000 of these."""
    return [{"topologyKey": f"k{i}"} for i in range(count)]


LARGE = {"matchExpressions": [{"key": f"k{i}", "operator": "DoesNotExist"} for i in range(500)]}
"""A selector that is read in parts itself."""
ASKS: dict[str, dict[str, Any]] = {
    "apart": {"affinity": {"podAntiAffinity": {REQUIRED: _not_in(700)}}},
    "near": {"affinity": {"podAffinity": {REQUIRED: _not_in(300, namespaces=["a", "b"])}}},
    "rather": {
        "affinity": {
            "podAffinity": {PREFERRED: _weighted("podAffinityTerm", _not_in(200))},
            "podAntiAffinity": {PREFERRED: _weighted("podAffinityTerm", _not_in(200))},
        }
    },
    "keys of their own": {
        "affinity": {
            "podAffinity": {PREFERRED: _weighted("podAffinityTerm", _keys(1_500))},
            "podAntiAffinity": {REQUIRED: _keys(2_000)},
        }
    },
    "large among small": {
        "affinity": {"podAntiAffinity": {REQUIRED: [*_not_in(150), *_not_in(1, labelSelector=LARGE)]}}
    },
    "nodes": {
        "affinity": {
            "nodeAffinity": {
                REQUIRED: {"nodeSelectorTerms": [*_nodes(300), {"matchFields": []}, LARGE]},
                PREFERRED: _weighted("preference", [*_nodes(300), {}, *_nodes(1, "Gt")]),
            }
        }
    },
    "spread": {"topologySpreadConstraints": _spread(300)},
    "spread that is wrong": {
        "topologySpreadConstraints": [
            *_spread(150),
            _spread(1)[0] | {"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}},
        ]
    },
    "terms that are wrong": {
        "affinity": {
            "podAntiAffinity": {
                REQUIRED: [
                    *_not_in(150),
                    *_not_in(1, labelSelector={"matchExpressions": [{"key": "a", "operator": "Lt", "values": ["1"]}]}),
                ]
            }
        }
    },
}
FIELDS = (
    "affinity_terms",
    "anti_affinity_terms",
    "preferred_pod_terms",
    "required_node_affinity",
    "preferred_node_terms",
    "preferred_error",
    "has_preferred_node_affinity",
    "spread",
    "problem",
)


def _pod(spec: dict[str, Any]) -> dict[str, Any]:
    made = pod("p", uid="p")
    made["spec"] |= spec
    return made


def _decoded(name: str, **more: Any) -> Pod:
    raw = encode(_pod(ASKS[name] | more))
    assert len(raw) > LONG
    return Decoder().pod(raw)


@pytest.mark.parametrize("name", ASKS)
def test_terms_are_the_same_whenever_they_are_read(name: str) -> None:
    """In parts, none of which is long; because somebody asks for one field; and at once, for a pod on a node."""
    later, asked, placed = _decoded(name), _decoded(name), _decoded(name, nodeName="n1")
    assert placed.shape.complete
    assert not later.shape.complete
    parts: list[int] = []
    later.shape.read(parts.append)
    assert later.shape.complete
    assert max(parts) <= PART
    assert len(parts) > 2
    for found, kept in ((later.shape.anti_affinity_terms, "by_key"), (later.shape.preferred_pod_terms, "by_sign")):
        assert kept in found.__dict__ or len(found) <= 200
    assert asked.shape.spread == placed.shape.spread
    assert asked.shape.complete
    for field in FIELDS:
        assert getattr(later.shape, field) == getattr(placed.shape, field)
        assert getattr(asked.shape, field) == getattr(placed.shape, field)
    assert (later.shape.problem is not None) == ("wrong" in name)


def _noting(read: list[str], real: Any) -> Any:
    """The function, which notes the last argument of each call."""

    def parse(*given: Any) -> Any:
        read.append(given[-1])
        return real(*given)

    return parse


@pytest.mark.parametrize("name", ["apart", "rather", "near", "spread"])
def test_decoding_reads_no_small_term(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a tenant's terms cost is for its pod to pay: others' pods wait behind it on the watch meanwhile."""
    read: list[str] = []
    for function in ("parse_affinity_term", "parse_spread_constraint"):
        real = getattr(terms, function)
        monkeypatch.setattr(terms, function, _noting(read, real))
    found = _decoded(name)
    assert read == []
    found.shape.read(lambda _: None)
    assert len(read) >= 300


class OverError(Exception):
    """A part was read."""


def read_a_part(shape: PodShape) -> int:
    """The steps that one part took."""

    def charge(steps: int) -> None:
        taken.append(steps)
        raise OverError

    taken: list[int] = []
    with suppress(OverError):
        shape.read(charge)
    return sum(taken)


def test_an_interrupted_reader_goes_on() -> None:
    """What the slice ends is not read again, and no field is there before all are."""
    whole, one = _decoded("apart"), _decoded("apart")
    parts: list[int] = []
    whole.shape.read(parts.append)
    taken: list[int] = []
    while not one.shape.complete:
        taken.append(read_a_part(one.shape))
    assert taken == [*parts, 0]
    assert one.shape.anti_affinity_terms == whole.shape.anti_affinity_terms


def test_pods_that_count_at_once_are_read_at_once() -> None:
    """A pod on a node, and one that a node is kept for, whoever was seen before. What is being read is left alone."""
    decoder = Decoder()
    waits = _pod(ASKS["apart"])
    waiting = decoder.pod(encode(waits))
    assert not waiting.shape.complete
    kept = decoder.pod(encode(waits | {"status": {"nominatedNodeName": "n1"}}))
    assert kept.shape.complete
    assert not waiting.shape.complete
    placed = decoder.pod(encode(_pod(ASKS["apart"] | {"nodeName": "n1"})))
    assert placed.shape is kept.shape
    again = decoder.pod(encode(waits))
    assert again.shape is kept.shape
    assert waiting.shape.digest == kept.shape.digest != 0


LABELS = {f"example.com/k{i * 7_919 % 20_000}": f"v{i % 7}" for i in range(20_000)}
EXPRESSIONS = [{"key": f"k{i}", "operator": "NotIn", "values": ["x"]} for i in range(10_000)]
VALUES = [
    {"key": "app", "operator": "NotIn", "values": [f"v{i}" for i in range(50_000)]},
    {"key": "tier", "operator": "Exists"},
]


@pytest.mark.parametrize("kind", ["anti-affinity", "spread", "nodes"])
@pytest.mark.parametrize(
    "selector",
    [{"matchLabels": LABELS}, {"matchExpressions": EXPRESSIONS}, {"matchExpressions": VALUES}],
    ids=["labels", "expressions", "values"],
)
def test_a_term_of_very_many_requirements_is_read_in_parts(kind: str, selector: dict[str, Any]) -> None:
    """By whoever schedules its pod: what comes after it on the watch waits for it to be decoded, and for no more."""
    if kind == "nodes" and "matchLabels" in selector:
        return
    document = pod("large")
    if kind == "spread":
        constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
        document["spec"]["topologySpreadConstraints"] = [{**constraint, "labelSelector": selector}]
    elif kind == "nodes":
        document["spec"]["affinity"] = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [selector]}}}
    else:
        term = {"topologyKey": "zone", "labelSelector": selector}
        document["spec"]["affinity"] = {"podAntiAffinity": {REQUIRED: [term]}}
    raw = encode(document)
    count, large = lines(lambda: Decoder().beside().pod(raw))
    assert count < 1_000 + 4 * len(selector.get("matchExpressions", ()))
    parts = []
    while not large.shape.complete:
        parts.append(lines(lambda: read_a_part(large.shape))[0])
    assert max(parts) < MOST_LINES
    assert len(parts) > 50
    at_once = Decoder().pod(encode(document | {"spec": document["spec"] | {"nodeName": "n1"}}))
    for field in FIELDS:
        assert getattr(large.shape, field) == getattr(at_once.shape, field)
    if kind != "nodes":
        shape = large.shape
        found = shape.spread[0].selector if kind == "spread" else shape.anti_affinity_terms[0].selector
        count, _ = lines(lambda: (hash(found), found.conditions, found.size, found.matches({"app": "x"})))
        assert count < 100
        wired = msgspec.convert(selector, wire.LabelSelector)
        small = parse_label_selector(wired, "at")
        assert set(found.requirements) == set(small.requirements)
        assert set(found.conditions or ()) == set(small.conditions or ())


def test_labels_that_are_none_are_named() -> None:
    """Also if they are many, and whether the key or the value is wrong."""
    for key, value, where in (("a b", "v", "matchLabels[a b].key"), ("a", "v w", "matchLabels[a].values[0]")):
        selector = wire.LabelSelector(match_labels={**{f"k{i}": "" for i in range(50)}, key: value})
        with pytest.raises(SelectorError) as wrong:
            parse_label_selector(selector, "at")
        assert str(wrong.value).startswith(f"at.{where}: Invalid value")
