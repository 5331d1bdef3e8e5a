"""What is kept of preemption's trials says what trying everything anew says, whatever happened in between."""

from copy import deepcopy
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.framework.config import default_configuration
from scheduler.framework.profiles import build
from scheduler.framework.runtime import Framework
from scheduler.model.kinds import Decoder
from scheduler.model.pod import Pod
from scheduler.plugins.registry import registry
from scheduler.state.cluster import Cluster
from tests.builders import node, pod

ASKS = [("ask", 2, 4), ("ask", 2, 2)]
decoder = Decoder()
NODES = 6


def _node(i: int, cpu: int, cordoned: bool) -> Any:
    made = node(f"n{i}", cpu=str(cpu), pods="5")
    made["spec"]["unschedulable"] = cordoned
    return decoder.node(msgspec.json.encode(made))


def _pod(name: str, priority: int, cpu: int, app: int = 0, started: int = 0) -> Pod:
    made = pod(name, cpu=f"{cpu}")
    made["metadata"]["labels"] = {"app": f"a{app}"}
    made["spec"]["priority"] = priority
    if app:
        # It repels others, though none that is asked about here.
        term = {"labelSelector": {"matchLabels": {"app": "none"}}, "topologyKey": "kubernetes.io/hostname"}
        made["spec"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    if started:
        made["status"] = {"startTime": f"2026-01-01T00:00:0{started}Z"}
    return decoder.pod(msgspec.json.encode(made))


def _budget(app: int, allowed: int) -> Any:
    document = {
        "metadata": {"name": f"b{app}", "namespace": "default", "uid": f"b{app}"},
        "spec": {"selector": {"matchLabels": {"app": f"a{app}"}}},
        "status": {"disruptionsAllowed": allowed},
    }
    return decoder.of_kind("PodDisruptionBudget")(msgspec.json.encode(document))


rows = st.integers(0, NODES - 1)
pods = st.tuples(st.integers(0, 1), st.sampled_from((2, 2, 4)), st.integers(0, 1))
asking = st.tuples(st.just("ask"), st.just(2), st.sampled_from((2, 4, 4)))
events = st.one_of(
    st.tuples(st.just("node"), rows, st.sampled_from((2, 4, 4)), st.booleans()),
    st.tuples(st.just("drop node"), rows),
    st.tuples(st.just("place"), rows, pods),
    st.tuples(st.just("start"), st.integers(0, 20), st.integers(1, 9)),
    st.tuples(st.just("start"), st.integers(0, 2 * NODES), st.integers(1, 9)),
    st.tuples(st.just("remove"), st.integers(0, 20)),
    st.tuples(st.just("budget"), st.integers(0, 1), st.integers(0, 2)),
    st.tuples(st.just("nominate"), rows, st.integers(1, 3), st.integers(1, 4)),
    st.tuples(st.just("forget"), st.integers(0, 30)),
    asking,
    asking,
    asking,
)


def _answer(framework: Framework, preemptor: Pod, cluster: Cluster) -> tuple[str | None, set[str], str]:
    decision = framework.decide(preemptor, cluster)
    if len(decision.feasible):
        return "fits", set(), ""
    result = framework.post_filter_result(preemptor, cluster, decision)
    return result.node, {victim.uid for victim in result.victims}, result.text


@settings(max_examples=120, deadline=None)
@given(st.lists(pods, min_size=2 * NODES, max_size=2 * NODES), st.lists(events, min_size=10, max_size=40))
def test_kept_trials_agree(start: list[Any], happenings: list[Any]) -> None:
    """After any sequence of events: the same node, the same victims, the same words."""
    cluster = Cluster()
    long_lived = build(default_configuration(), registry())["berth"]
    for i in range(NODES):
        cluster.put_node(_node(i, 4, cordoned=False))
    count = 0
    filled = [("place", i % NODES, placed) for i, placed in enumerate(start)]
    for what, *detail in [*filled, *ASKS, *happenings, *ASKS]:
        match what, detail:
            case "node", (i, cpu, cordoned):
                cluster.put_node(_node(i, cpu, cordoned))
            case "drop node", (i,):
                cluster.drop_node(f"n{i}")
            case "place", (i, (priority, cpu, app)):
                placed = _pod(f"p{count}", priority, cpu, app)
                cluster.put_pod(msgspec.structs.replace(placed, node_name=f"n{i}"))
                count += 1
            case "start", (i, second):
                placement = cluster.placement(f"default/p{i}")
                if placement is not None:
                    began = f"2026-01-01T00:00:0{second}Z"
                    name = cluster.nodes.names[placement.row] or ""
                    cluster.put_pod(msgspec.structs.replace(placement.pod, node_name=name, started=began))
            case "remove", (i,):
                cluster.drop_pod(f"default/p{i}")
            case "budget", (app, allowed):
                cluster.put_selecting(_budget(app, allowed))
            case "nominate", (i, priority, cpu):
                cluster.nominations.put(_pod(f"w{count}", priority, cpu), f"n{i}")
                count += 1
            case "forget", (i,):
                cluster.nominations.drop(f"default/w{i}")
            case "ask", (priority, cpu):
                preemptor = _pod(f"q{count}", priority, cpu)
                fresh = build(default_configuration(), registry())["berth"]
                # In a copy, since trying touches every row: nothing kept would survive it.
                assert _answer(long_lived, preemptor, cluster) == _answer(fresh, preemptor, deepcopy(cluster))


def test_a_start_counts() -> None:
    """Of two nodes that cost the same, the one whose pod runs longer is spared, from the moment when that is known."""
    cluster = Cluster()
    framework = build(default_configuration(), registry())["berth"]
    for i in range(2):
        cluster.put_node(_node(i, 4, cordoned=False))
        cluster.put_pod(msgspec.structs.replace(_pod(f"p{i}", 0, 4), node_name=f"n{i}"))
    assert _answer(framework, _pod("q", 2, 4), cluster)[0] == "n0"
    started = _pod("p0", 0, 4, started=1)
    cluster.put_pod(msgspec.structs.replace(started, node_name="n0"))
    assert _answer(framework, _pod("q", 2, 4), cluster)[0] == "n1"
