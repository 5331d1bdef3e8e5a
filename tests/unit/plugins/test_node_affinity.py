"""nodeSelector, required and preferred node affinity, and what the profile adds."""

from typing import Any

import pytest

from podberth.framework.status import PluginError
from tests.builders import Object, node, node_selector, node_term, pod
from tests.unit.plugins.small import a_node, a_pod, cluster, normalized, plugin, pre_filter, rejected, scored

MISMATCH = "!node(s) didn't match Pod's node affinity/selector"
ENFORCED = "!node(s) didn't match scheduler-enforced node affinity"
NODES = [
    node("a1", zone="a", labels={"gen": "1"}),
    node("a7", zone="a", labels={"gen": "007", "gpu": ""}),
    node("b", zone="b", labels={"gen": "1_000"}),
    node("none"),
]


@pytest.mark.parametrize(
    ("given", "fits"),
    [
        (pod("p"), "a1 a7 b none"),
        (pod("p", select={"zone": "a"}), "a1 a7"),
        (pod("p", select={"gpu": ""}), "a7"),
        (pod("p", select={"gen": "7"}), ""),
        (pod("p", need=["zone in a,b"]), "a1 a7 b"),
        (pod("p", need=["zone notin a"]), "b none"),
        (pod("p", need=["!zone"]), "none"),
        (pod("p", need=["gen > 0"]), "a1 a7"),
        (pod("p", need=["gen < 7"]), "a1"),
        (pod("p", need=["gen in 007"]), "a7"),
        (pod("p", need=["zone in a;gen > 1"]), "a7"),
        (pod("p", need=["zone in b", "gen in 1"]), "a1 b"),
        (pod("p", need=[""]), ""),
        (pod("p", need=["", "zone in b"]), "b"),
        (pod("p", need=["gen > x", "zone in b"]), "b"),
        (pod("p", need=["gen > x"]), ""),
        (pod("p", select={"zone": "a"}, need=["gen in 1"]), "a1"),
        (pod("p", need=["@name in a1"]), "a1"),
        (pod("p", need=["@name notin a1"]), "a7 b none"),
        (pod("p", need=["@name notin a1;zone in a"]), "a7"),
        (pod("p", need=["@name notin gone"]), "a1 a7 b none"),
        (pod("p", need=["@namespace in x"]), ""),
        (pod("p", need=["@namespace notin x"]), "a1 a7 b none"),
    ],
)
def test_filter(given: Object, fits: str) -> None:
    """Terms are ORed, requirements ANDed; null, empty and broken terms match nothing."""
    others = {node["metadata"]["name"] for node in NODES} - set(fits.split())
    assert rejected(plugin("NodeAffinity"), given, *NODES) == {name: [MISMATCH] for name in others}


@pytest.mark.parametrize(
    ("need", "narrowed"),
    [
        ([], None),
        (["zone in a"], None),
        (["@name in a1"], ["a1"]),
        (["@name in a1", "@name in b;zone in b"], ["a1", "b"]),
        (["@name in a1", "zone in b"], None),
        (["@name in a1;@name in b"], "pod affinity terms conflict"),
        (["@name in gone"], ["gone"]),
    ],
)
def test_pre_filter(need: list[str], narrowed: Any) -> None:
    """Only names that every term gives narrow the search; names that exclude each other end it."""
    assert pre_filter(plugin("NodeAffinity"), pod("p", need=need), *NODES) == narrowed


def test_added_affinity_comes_first() -> None:
    """A node outside both is rejected for the profile's."""
    added = {"requiredDuringSchedulingIgnoredDuringExecution": node_selector("zone in a")}
    found = rejected(plugin("NodeAffinity", addedAffinity=added), pod("p", need=["gen in 1"]), *NODES)
    assert found == {"a7": [MISMATCH], "b": [ENFORCED], "none": [ENFORCED]}


PREFER = [(10, "zone in a"), (5, "gen > 5"), (100, ""), (1, "@name notin b")]


def test_score() -> None:
    """Weights of matching terms are summed; an empty term counts for nothing."""
    assert scored(plugin("NodeAffinity"), pod("p", prefer=PREFER), *NODES) == {"a1": 11, "a7": 16, "b": 0, "none": 1}


def test_normalized_by_the_best_of_the_feasible() -> None:
    """The maximum is taken over feasible nodes only."""
    made = plugin("NodeAffinity")
    assert normalized(made, pod("p", prefer=PREFER), *NODES) == {"a1": 68, "a7": 100, "b": 0, "none": 6}
    assert normalized(made, pod("p", prefer=PREFER), *NODES, among="b none") == {"b": 0, "none": 100}


def test_takes_part_only_with_preferences() -> None:
    """Preferences that count for nothing are preferences still."""
    preferred = [{"weight": 3, "preference": node_term("zone in a")}]
    added = plugin("NodeAffinity", addedAffinity={"preferredDuringSchedulingIgnoredDuringExecution": preferred})
    empty = [{"weight": 3, "preference": {}}]
    nothing = plugin("NodeAffinity", addedAffinity={"preferredDuringSchedulingIgnoredDuringExecution": empty})
    assert scored(plugin("NodeAffinity"), pod("p"), *NODES) is None
    assert scored(plugin("NodeAffinity"), pod("p", prefer=[(1, "")]), *NODES) == dict.fromkeys(
        ["a1", "a7", "b", "none"], 0
    )
    assert scored(added, pod("p"), *NODES) == {"a1": 3, "a7": 3, "b": 0, "none": 0}
    assert scored(nothing, pod("p"), *NODES) == dict.fromkeys(["a1", "a7", "b", "none"], 0)


def test_a_preference_that_does_not_parse_fails_the_pod() -> None:
    """Unlike a required term, which just never matches."""
    with pytest.raises(PluginError, match=r'^running PreScore plugin "NodeAffinity": spec\..*values'):
        scored(plugin("NodeAffinity"), pod("p", prefer=[(1, "gen > x")]), *NODES)


@pytest.mark.parametrize(
    ("old", "new", "wakes"),
    [
        (None, NODES[0], True),
        (None, NODES[2], False),
        (NODES[2], NODES[0], True),
        (NODES[0], NODES[1], False),
        (NODES[0], NODES[2], False),
    ],
)
def test_wakes_when_a_node_comes_to_match(old: Object | None, new: Object, wakes: bool) -> None:
    """It matched before: then something else was in the way."""
    asks = a_pod(pod("p", need=["zone in a"]))
    assert plugin("NodeAffinity").node_hint(asks, old and a_node(old), a_node(new)) is wakes


def test_a_dead_row_is_no_match_by_name() -> None:
    """Pods bound to a name without a node leave a row, not a node."""
    there = cluster(node("n"), pod("e", on="gone"))
    ((_, rows),) = plugin("NodeAffinity").filter(a_pod(pod("p", need=["@name in gone"])), there)
    assert rows.all()


@pytest.mark.parametrize(
    ("need", "wakes"), [([], [True, False]), (["zone in b"], [False, False]), (["gen"], [True, False])]
)
def test_wakes_only_within_the_added_affinity(need: list[str], wakes: list[bool]) -> None:
    """The profile's affinity holds for all its pods; one of two terms is enough for either."""
    added = {"requiredDuringSchedulingIgnoredDuringExecution": node_selector("zone in a", "zone in c")}
    made, asks = plugin("NodeAffinity", addedAffinity=added), a_pod(pod("p", need=[*need, "zone in d"] if need else []))
    there = [a_node(node("n", zone=zone, labels={"gen": "1"})) for zone in "ab"]
    assert [made.node_hint(asks, None, one) for one in there] == wakes
    assert made.node_hint(asks, there[1], there[0]) is wakes[0], "it comes to match the added affinity"
