"""The kit finds out plugins that lie, each in one sentence, and lets honest ones pass."""

from typing import Any

import numpy as np
import pytest

from scheduler.kit import (
    NODE,
    OWN_STATE,
    PODS_ELSEWHERE,
    PODS_HERE,
    ClusterEvent,
    Hold,
    Plugin,
    Reject,
    Unschedulable,
    Wait,
)
from scheduler.kit.testing import node, pod, prove
from scheduler.model.pod import Pod

NODES = [node(f"n{i}", labels={"zone": "ab"[i % 2]}) for i in range(4)]
PODS = [pod(f"p{i}", labels={"app": "web"}) for i in range(6)]
CROWDED = Unschedulable("crowded")


class Crowded(Plugin):
    """Two pods a node."""

    name = "Crowded"
    depends_on = PODS_HERE
    events = ClusterEvent.NODE_ADDED | ClusterEvent.POD_GONE

    def filter(self, pod: Any, cluster: Any) -> Any:
        return [(CROWDED, cluster.nodes.pods[: cluster.nodes.rows] >= 2)]


class SaysNode(Crowded):
    depends_on = NODE


class LiesAboutOne(Crowded):
    def filter_one(self, pod: Any, nodes: Any, row: int) -> bool:
        return bool(nodes.pods[row] < 3)


class CountsAllRows(Crowded):
    depends_on = NODE | PODS_HERE

    def filter(self, pod: Any, cluster: Any) -> Any:
        pods = cluster.nodes.pods[: cluster.nodes.rows]
        return [(CROWDED, pods > pods.min())]


class Deaf(Crowded):
    events = ClusterEvent.NODE_TAINTS


class Wordless(Crowded):
    def explain(self, inquiry: Any, row: int, reason: Any) -> Any:
        return "crowded"


class NoSuchFix(Crowded):
    def fixes(self, inquiry: Any, row: int, reasons: Any) -> Any:
        return ["less"]


class DeafHint(Crowded):
    def pod_hint(self, pod: Any, event: Any, other: Any) -> bool:
        return False


class Signless(Crowded):
    """Goes by labels, which are no part of the shape."""

    def filter(self, pod: Any, cluster: Any) -> Any:
        return [(CROWDED, np.full(cluster.nodes.rows, pod.labels.get("app") != "web"))]


class ShortMask(Crowded):
    def filter(self, pod: Any, cluster: Any) -> Any:
        return [(CROWDED, np.zeros(1, dtype=np.bool_))]


class Raises(Crowded):
    def filter(self, pod: Any, cluster: Any) -> Any:
        raise KeyError("zone")


class Score(Plugin):
    name = "Score"
    depends_on = NODE

    def score(self, pod: Any, cluster: Any, feasible: Any) -> Any:
        return np.arange(len(feasible)) * 7 % 100


class TooMuch(Score):
    depends_on = OWN_STATE

    def score(self, pod: Any, cluster: Any, feasible: Any) -> Any:
        return np.full(len(feasible), 101)


class Gated(Plugin):
    """Waits, writes nothing, and goes on: every point after the decision, and a coroutine."""

    name = "Gated"

    def reserve(self, pod: Pod, cluster: Any, row: int) -> str:
        return pod.name

    def permit(self, assumed: Any, cluster: Any) -> Hold | None:
        waiting = list(assumed.waiting_pods)
        for other in waiting:
            other.allow(self.name)
        return None if waiting else Hold(20.0)

    async def pre_bind(self, assumed: Any) -> None:
        assert assumed.reserved == assumed.pod.name


class Refuses(Plugin):
    name = "Refuses"

    def reserve(self, pod: Any, cluster: Any, row: int) -> Any:
        return Reject("full")  # type: ignore[arg-type]


class WaitsForEver(Plugin):
    name = "WaitsForEver"

    def pre_bind(self, assumed: Any, cluster: Any) -> Any:
        return Wait(5.0)


class SkipsTooMuch(Crowded):
    """Says that it has nothing to say, and would."""

    def skips(self, shape: Any) -> Any:
        return ("filter",)


class Apart(Plugin):
    """Reads other nodes' pods, and says so."""

    name = "Apart"
    depends_on = NODE | PODS_ELSEWHERE

    def filter(self, pod: Any, cluster: Any) -> Any:
        here = cluster.count_pods(pod.namespace, {"app": "web"})
        return [(CROWDED, cluster.nodes.label("zone").total(here) >= 2)]


@pytest.mark.parametrize("plugin", [Crowded, Apart, Gated], ids=lambda plugin: plugin.__name__)
@pytest.mark.parametrize("seed", range(3))
def test_honest_plugins(plugin: type[Plugin], seed: int) -> None:
    """Nothing to find, whatever happens."""
    prove(plugin, nodes=NODES, pods=PODS, seed=seed)


@pytest.mark.parametrize(
    ("plugin", "says"),
    [
        (SaysNode, "Crowded: a decision differs from the same with nothing kept"),
        (SkipsTooMuch, "Crowded: a decision differs from the same with nothing kept"),
        (LiesAboutOne, "Crowded: filter rejects node n0 when it is asked about all, and passes it by filter_one"),
        (CountsAllRows, "Crowded: "),
        (Deaf, "waits, although node n"),
        (DeafHint, "events names too few changes, or a hint says no where it should say yes"),
        (ShortMask, r'running Filter plugin "Crowded": want \(Reason, bool\[4\]\) pairs, got bool\[1\]'),
        (Raises, 'running Filter plugin "Crowded": there is no entry "zone"'),
        (Score, "Score: "),
        (WaitsForEver, 'running PreBind plugin "WaitsForEver": timed out'),
        (Wordless, r'could not explain its rejections: want \(text, data\), got "crowded"'),
        (NoSuchFix, "could not say what would help: \\[0\\]: expected a list, got text"),
        (TooMuch, "returns an invalid score 101"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_lies(plugin: type[Plugin], says: str) -> None:
    """Each is found out."""
    with pytest.raises(AssertionError, match=says):
        prove(plugin, nodes=NODES, pods=PODS, changes=300)


def test_a_signature_that_leaves_something_out() -> None:
    """Pods of one shape and other labels get each other's answers."""
    with pytest.raises(AssertionError, match="Does depends_on, or signature, leave something out"):
        prove(Signless, nodes=NODES, pods=[*PODS, pod("other", labels={"app": "db"})])


def test_a_declaration() -> None:
    """Said before anything is tried."""

    class Slip(Crowded):
        by_shape = True

    with pytest.raises(AssertionError, match="Slip: it has by_shape, which means nothing any more: see depends_on in"):
        prove(Slip, nodes=NODES, pods=PODS)
