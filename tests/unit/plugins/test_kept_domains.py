"""The domains of spread constraints: kept while what they read stays as it is, and right whatever changes."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podberth.cache.cluster import Cluster
from podberth.plugins import pod_topology_spread
from tests.builders import Object, node, pod
from tests.unit.plugins.small import a_node, a_pod, cluster, plugin

ZONE = "topology.kubernetes.io/zone"
KEYS = (ZONE, "rack")


def spreading(*keys: str, selects: dict[str, str] | None = None, **more: object) -> Object:
    """A pod that must be spread evenly over the values of these keys."""
    made = pod("p", labels={"app": "db"})
    constraint = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "db"}}}
    made["spec"]["topologySpreadConstraints"] = [constraint | {"topologyKey": key} | more for key in keys]
    if selects:
        made["spec"]["nodeSelector"] = selects
    return made


def n1(**more: Any) -> Object:
    return node("n1", **{"zone": "a", "labels": {"disk": "ssd"}, **more})


class Made:
    """How often domains were worked out."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.number = 0
        before = pod_topology_spread.Spread

        def counting(*args: Any, **more: Any) -> pod_topology_spread.Spread:
            self.number += 1
            return before(*args, **more)

        monkeypatch.setattr(pod_topology_spread, "Spread", counting)


PLAIN, AFFINE = spreading(ZONE), spreading(ZONE, selects={"disk": "ssd"})
HONORING = spreading(ZONE, nodeTaintsPolicy="Honor")
TWO = spreading(ZONE, "rack")
CHANGES: dict[str, tuple[Object, Object | None, int]] = {
    "what it can hold": (PLAIN, n1(cpu="8"), 0),
    "an image": (PLAIN, n1(images={"web": 1 << 20}), 0),
    "cordoned": (PLAIN, n1(cordoned=True), 0),
    "a label that nothing reads": (PLAIN, n1(labels={"disk": "hdd"}), 0),
    "a new label that nothing reads": (PLAIN, n1(labels={"disk": "ssd", "fresh": "yes"}), 0),
    "a taint that nothing reads": (PLAIN, n1(taints=["x:NoSchedule"]), 0),
    "nothing at all": (HONORING, n1(), 0),
    "its zone": (PLAIN, n1(zone="b"), 1),
    "a key that no node had": (TWO, n1(labels={"disk": "ssd", "rack": "r1"}), 1),
    "a label that the pod's affinity reads": (AFFINE, n1(labels={"disk": "hdd"}), 1),
    "a taint that the constraint honors": (HONORING, n1(taints=["x:NoSchedule"]), 1),
    "a node more": (PLAIN, node("n3", zone="a"), 1),
    "a node less": (PLAIN, None, 1),
}


@pytest.mark.parametrize("change", CHANGES)
def test_worked_out_again_only_for_what_they_read(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kubelets report every few seconds what has nothing to do with domains."""
    document, changed, times = CHANGES[change]
    made, asks = plugin("PodTopologySpread"), a_pod(document)
    there = cluster(n1(), node("n2", zone="b", labels={"disk": "ssd"}))
    made.filter(asks, there)
    counted = Made(monkeypatch)
    if changed is None:
        there.drop_node("n1")
    else:
        there.put_node(a_node(changed))
    made.filter(asks, there)
    made.filter(asks, there)
    assert counted.number == times


values = st.sampled_from([None, "a", "b", "c"])
nodes = st.builds(
    lambda i, zone, rack, disk, tainted, cpu: node(
        f"n{i}",
        cpu,
        labels={k: v for k, v in ((ZONE, zone), ("rack", rack), ("disk", disk)) if v},
        taints=["x:NoSchedule"] if tainted else [],
    ),
    st.integers(0, 4),
    values,
    values,
    st.sampled_from([None, "ssd"]),
    st.booleans(),
    st.sampled_from(["4", "8"]),
)
steps = st.one_of(
    st.tuples(st.just("node"), nodes),
    st.tuples(st.just("gone"), st.integers(0, 4)),
    st.tuples(st.just("pod"), st.integers(0, 4)),
    st.tuples(st.just("sweep"), st.none()),
)
ASKS = [
    a_pod(document)
    for document in (PLAIN, AFFINE, HONORING, TWO, spreading("rack", whenUnsatisfiable="ScheduleAnyway"))
]


def answers(made: Any, there: Cluster) -> list[Any]:
    """What a plugin says of each pod, on all rows."""
    every, found = np.flatnonzero(there.nodes.alive[: there.nodes.rows]), []
    for asks in ASKS:
        scores = made.score(asks, there, every)
        rejected = {(reason.text, *np.flatnonzero(where).tolist()) for reason, where in made.filter(asks, there)}
        found.append((rejected, None if scores is None else scores.tolist()))
    return found


@settings(max_examples=150, deadline=None)
@given(st.lists(steps, max_size=20))
def test_right_after_any_changes(happenings: list[Any]) -> None:
    """A plugin that keeps domains over all changes says what one says that has kept nothing."""
    there, kept = Cluster(), plugin("PodTopologySpread")
    for i, (what, detail) in enumerate(happenings):
        match what:
            case "node":
                there.put_node(a_node(detail))
            case "gone":
                there.drop_node(f"n{detail}")
            case "pod":
                there.put_pod(a_pod(pod(f"q{i}", labels={"app": "db"}, on=f"n{detail}")))
            case "sweep":
                there.nodes.sweep()
        assert answers(kept, there) == answers(plugin("PodTopologySpread"), there)
