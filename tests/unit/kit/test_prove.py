"""The kit finds out plugins that lie, each in one sentence, and lets honest ones pass."""

import socket
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from podberth.kit import (
    NODE,
    OWN_STATE,
    PODS_ELSEWHERE,
    PODS_HERE,
    SOURCES,
    ClusterEvent,
    Explainer,
    Hold,
    Plugin,
    Reads,
    Reject,
    Source,
    Unschedulable,
    Wait,
)
from podberth.kit.testing import node, pod, prove
from podberth.model.pod import Pod

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


class OneWord(Explainer):
    def explain(self, inquiry: Any, row: int, reason: Any) -> Any:
        return "crowded"


class Wordless(Crowded):
    explainer = OneWord


class Less(Explainer):
    def fixes(self, inquiry: Any, row: int, reasons: Any) -> Any:
        return ["less"]


class NoSuchFix(Crowded):
    explainer = Less


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


def test_pods_of_one_name() -> None:
    """In two namespaces: none hides the other."""
    proof = prove(Crowded, nodes=NODES[:1], pods=[pod("web", namespace="a", cpu="9"), pod("web", namespace="b")])
    assert (proof.nodes, list(proof.messages)) == ({"b/web": "n0"}, ["a/web"])


def test_a_declaration() -> None:
    """Said before anything is tried."""

    class Slip(Crowded):
        depend_on = NODE

    with pytest.raises(AssertionError, match="Slip: it has depend_on, which means nothing: did you mean depends_on"):
        prove(Slip, nodes=NODES, pods=PODS)


class Late(Score):
    """Blocks in one way or another, and may swallow that it was found out."""

    depends_on = OWN_STATE
    way: Any
    swallows = False

    def score(self, pod: Any, cluster: Any, feasible: Any) -> Any:
        try:
            type(self).way()
        except Exception:
            if not self.swallows:
                raise
        return 1


@pytest.mark.parametrize("swallows", [False, True])
@pytest.mark.parametrize(
    ("way", "says"),
    [
        (lambda: time.sleep(600), "it sleeps"),
        (lambda: socket.create_connection(("127.0.0.1", 1)), "it looks up a host|it connects a socket"),
        (lambda: urllib.request.urlopen("http://127.0.0.1:1/"), "it looks up a host|it connects a socket"),
        (lambda: subprocess.run(["true"]), "it starts a program"),
    ],
    ids=["sleep", "socket", "HTTP", "program"],
)
def test_a_call_that_blocks(way: Any, says: str, swallows: bool) -> None:
    """It is told where, and how outside data is read instead; nobody has to wait for it."""

    class Blocks(Late):
        pass

    Blocks.way, Blocks.swallows = staticmethod(way), swallows
    said = rf'running Score plugin "Score": ({says}) while all pods wait: see Source in docs/plugins.md \(test_prove.py'
    with pytest.raises(AssertionError, match=said):
        prove(Blocks, nodes=NODES, pods=PODS)


def test_a_call_that_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it waits for."""
    clock = iter(range(0, 1000, 3))
    monkeypatch.setattr("podberth.kit.blocking.perf_counter", lambda: float(next(clock)))
    with pytest.raises(AssertionError, match=r"it took 3\.0 s while all pods wait"):
        prove(Crowded, nodes=NODES, pods=PODS)


class Asks(Plugin):
    """A coroutine may use the network, and may not block."""

    name = "Asks"
    blocks = False

    async def pre_bind(self, assumed: Any) -> None:
        with socket.socket() as asked:
            asked.setblocking(self.blocks)
            asked.connect_ex(("127.0.0.1", 1))


class AsksBadly(Asks):
    blocks = True


def test_a_coroutine_that_blocks() -> None:
    """Told apart by the socket."""
    prove(Asks, nodes=NODES, pods=PODS)
    with pytest.raises(AssertionError, match=r'running PreBind plugin "Asks": it connects a socket .* at .*test_prove'):
        prove(AsksBadly, nodes=NODES, pods=PODS)


def test_the_line_that_raised() -> None:
    """File and line of the plugin, in full; the line of the point where an answer is refused."""
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    raised = 1 + lines.index('        raise KeyError("zone")')
    with pytest.raises(AssertionError, match=rf"\(test_prove.py:{raised}\), at {__file__}:{raised}$"):
        prove(Raises, nodes=NODES, pods=PODS)
    refused = 2 + lines.index("class ShortMask(Crowded):")
    with pytest.raises(AssertionError, match=rf"got bool\[1\] .*\(test_prove.py:{refused}\)"):
        prove(ShortMask, nodes=NODES, pods=PODS)


class Busy(Plugin):
    """Rejects nodes that a source names."""

    name = "Busy"
    depends_on = NODE | SOURCES
    busy = Unschedulable("busy")

    def __init__(self, args: Any) -> None:
        self.names = Source[tuple[str, ...]]("names", self._fetch, ())
        self.reads = Reads(sources=(self.names,))

    async def _fetch(self) -> tuple[str, ...]:
        raise NotImplementedError

    def filter(self, pod: Any, cluster: Any) -> Any:
        return [(self.busy, np.array([name in self.names.value for name in cluster.nodes.names]))]


class BusyForEver(Busy):
    """Keeps answers under a question that does not name the value."""

    def filter(self, pod: Any, cluster: Any) -> Any:
        nodes = cluster.nodes
        names = self.names.value
        return [(self.busy, nodes.label("kubernetes.io/hostname").where(nodes.rows, "busy", lambda of: of in names))]


class DeafToSources(Busy):
    events = ClusterEvent.NODE_ADDED


def test_the_value_of_a_source() -> None:
    """A test sets it; the default counts now and then, and who waits for another value is woken."""
    full = [node["metadata"]["name"] for node in NODES]
    assert prove(Busy, nodes=NODES, pods=PODS[:1], sources={"names": full[1:]}).nodes == {"p0": "n0"}
    assert "4 busy" in prove(Busy, nodes=NODES, pods=PODS[:1], sources={"names": full}).messages["p0"]
    assert prove(Busy, nodes=NODES[:1], pods=PODS[:1]).nodes == {"p0": "n0"}
    with pytest.raises(AssertionError, match=r"Busy: a decision differs|Busy: pod .* waits, although"):
        prove(BusyForEver, nodes=NODES, pods=PODS, sources={"names": full})
    with pytest.raises(AssertionError, match="events names too few changes"):
        prove(DeafToSources, nodes=NODES, pods=PODS, sources={"names": full})
    with pytest.raises(AssertionError, match="Busy has no source tide: it has names"):
        prove(Busy, nodes=NODES, pods=PODS, sources={"tide": 1})


def test_an_annotation_that_is_not_declared() -> None:
    """The plugin would not see it."""
    noted = node("n", annotations={"example.com/tier": "gold"})
    with pytest.raises(AssertionError, match=r"Node n has the annotation example.com/tier, which Crowded does not"):
        prove(Crowded, nodes=[noted], pods=PODS)
    prove(Crowded, nodes=[node("n", annotations={"podberth.dev/x": "y"})], pods=PODS, changes=1)


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (
            lambda: node("a", annotation={"a": "b"}),
            r'node\("a"\), which takes fields of the spec: it has no annotation',
        ),
        (lambda: node("a", taint=[]), "it has no taint; did you mean taints?"),
        (lambda: node("a", taints=[{"keys": "a"}]), r"taints\[0\].keys: unknown field; did you mean key?"),
        (lambda: node("a", unschedulable="yes"), "unschedulable: "),
        (
            lambda: pod("p", node_selector={}),
            r'pod\("p"\), which takes .* no node_selector; did you mean nodeSel',
        ),
        (lambda: pod("p", images=["a"]), "it has no images"),
    ],
)
def test_what_a_spec_does_not_have(made: Any, says: str) -> None:
    """It is refused, not put into the spec, where nobody would read it."""
    with pytest.raises(TypeError, match=says):
        made()
