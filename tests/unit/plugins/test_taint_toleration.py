"""Hard taints reject, soft ones cost."""

import pytest

from tests.builders import Object, node, pod
from tests.unit.plugins.small import a_node, a_pod, normalized, plugin, rejected, scored

GATE = {"featureGates": {"TaintTolerationComparisonOperators": True}}
TAINTED = "!node(s) had untolerated taint(s)"
NODES = [
    node("free"),
    node("gpu", taints=["gpu=a:NoSchedule"]),
    node("evicts", taints=["gpu=a:NoExecute", "spot:PreferNoSchedule"]),
    node("soft", taints=["spot:PreferNoSchedule", "old:PreferNoSchedule"]),
]


@pytest.mark.parametrize(
    ("tolerate", "out"),
    [
        ([], "gpu evicts"),
        (["gpu"], ""),
        (["gpu=a"], ""),
        (["gpu=b"], "gpu evicts"),
        (["gpu:NoSchedule"], "evicts"),
        (["*"], ""),
        (["*:NoExecute"], "gpu"),
    ],
)
def test_filter(tolerate: list[str], out: str) -> None:
    """PreferNoSchedule never rejects."""
    found = rejected(plugin("TaintToleration"), pod("p", tolerate=tolerate), *NODES)
    assert found == {name: [TAINTED] for name in out.split()}


@pytest.mark.parametrize(
    ("tolerate", "raw", "final"),
    [
        ([], [0, 0, 1, 2], [100, 100, 50, 0]),
        (["spot"], [0, 0, 0, 1], [100, 100, 100, 0]),
        (["spot:PreferNoSchedule", "old:NoSchedule"], [0, 0, 0, 1], [100, 100, 100, 0]),
        (["*"], [0, 0, 0, 0], [100, 100, 100, 100]),
    ],
)
def test_score(tolerate: list[str], raw: list[int], final: list[int]) -> None:
    """Intolerable soft taints are counted; the node with most gets 0."""
    made, asks, names = plugin("TaintToleration"), pod("p", tolerate=tolerate), ["free", "gpu", "evicts", "soft"]
    assert scored(made, asks, *NODES) == dict(zip(names, raw, strict=True))
    assert normalized(made, asks, *NODES) == dict(zip(names, final, strict=True))


@pytest.mark.parametrize(
    ("old", "new", "wakes"),
    [(None, NODES[0], True), (None, NODES[1], False), (NODES[1], NODES[0], True), (NODES[0], NODES[3], False)],
)
def test_wakes_when_the_taints_are_tolerated(old: Object | None, new: Object, wakes: bool) -> None:
    """They were before: then something else was in the way."""
    assert plugin("TaintToleration").node_hint(a_pod(pod("p")), old and a_node(old), a_node(new)) is wakes


RATED = [
    node("low", taints=["sla=900:NoSchedule"]),
    node("high", taints=["sla=999:NoSchedule"]),
    node("named", taints=["sla=best:NoSchedule"]),
    node("soft", taints=["sla=900:PreferNoSchedule"]),
]


@pytest.mark.parametrize(
    ("gate", "tolerate", "out", "cost"),
    [
        (True, "sla>950", "low named", 1),
        (True, "sla<950", "high named", 0),
        (True, "sla<950:NoExecute", "low high named", 1),
        (False, "sla>950", "low high named", 1),
        (False, "sla<950", "low high named", 1),
    ],
)
def test_numbers_are_compared_with_the_gate(gate: bool, tolerate: str, out: str, cost: int) -> None:
    """In filter, score and hint."""
    made, asks = plugin("TaintToleration", **(GATE if gate else {})), pod("p", tolerate=[tolerate])
    assert rejected(made, asks, *RATED) == {name: [TAINTED] for name in out.split()}
    assert scored(made, asks, *RATED) == {"low": 0, "high": 0, "named": 0, "soft": cost}
    for there in RATED:
        name = there["metadata"]["name"]
        assert made.node_hint(a_pod(asks), None, a_node(there)) is (name not in out.split())


def test_no_other_gate_is_known() -> None:
    """One line names the field."""
    made = plugin("TaintToleration")
    said = made.check(made.Args(feature_gates={"Other": True, "TaintTolerationComparisonOperators": True}), "args")
    assert said == ['args.featureGates: Invalid value: "Other": the only gate is TaintTolerationComparisonOperators']


def test_no_taint_anywhere_is_the_best_score_everywhere() -> None:
    """Nothing is counted, and fewest is best."""
    assert scored(plugin("TaintToleration"), pod("p"), node("n"), node("m")) == {"n": 0, "m": 0}
    assert normalized(plugin("TaintToleration"), pod("p"), node("n"), node("m")) == {"n": 100, "m": 100}
