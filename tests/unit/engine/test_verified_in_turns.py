"""A cluster that is made anew for a verification takes its turns, and so does what would cost too much."""

from typing import Any

import pytest

from scheduler.engine.instructions import Bind, Verified
from scheduler.framework import verify
from scheduler.state.rebuild import rebuilt
from scheduler.state.validate import validate

from .conftest import Harness, node, pod

TERM = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "a1"}}}
AVOIDS = {
    "podAntiAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 7, "podAffinityTerm": TERM}],
    }
}


def test_a_large_cluster_is_made_anew_some_rows_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The decision that is verified is the one at which all rows are as they are; what changed meanwhile is seen."""
    monkeypatch.setattr(verify, "ROWS", 7)
    harness = Harness(verify=1)
    harness.put(*(node(f"n{i}", zone="ab"[i % 2]) for i in range(40)))
    harness.put(*(pod(f"there{i}", nodeName=f"n{i}") for i in range(9)))
    verified = []
    for i in range(60):
        harness.put(pod(f"p{i}", affinity=AVOIDS if i % 3 else {}, labels={"app": f"a{i % 4}"}))
        if i % 5 == 0:
            harness.put(node(f"n{i % 40}", cpu=str(1 + i % 4), zone="c"))
        if i % 7 == 0:
            harness.gone("Node", f"n{(i + 3) % 40}")
        if i % 4 == 0:
            harness.gone("Pod", f"there{i % 9}")
        verified += [(i, one) for one in harness.cycle() if isinstance(one, Verified)]
        if i == 30:
            harness.engine.cluster.adopt(rebuilt(harness.engine.cluster))
    assert [one for _, one in verified if one.difference is not None or one.given_up] == []
    assert 4 < len(verified) < 15
    assert validate(harness.engine.cluster) == []


def test_a_verification_that_costs_too_much_is_given_up() -> None:
    """The first decision stands."""
    harness = Harness(verify=1)
    harness.put(node("n1"), node("n2"), pod("web"))
    framework = harness.engine.queue.frameworks["berth"]

    def ask(plugin: Any, point: Any, *args: Any) -> Any:
        if framework.plugin(plugin.name) is not plugin:
            harness.engine.cluster.effort.charge(4_000)  # one of those that know nothing yet
        return point(*args)

    framework.guard.timed = ask
    done = harness.cycle()
    assert [one.given_up for one in done if isinstance(one, Verified)] == [True]
    assert len([one for one in done if isinstance(one, Bind)]) == 1
    assert not harness.engine.cluster.effort.over
