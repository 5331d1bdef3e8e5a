"""A small full cluster for preemption: nodes, pods of two priorities, budgets, and events that change them."""

from copy import deepcopy
from typing import Any

import msgspec
from hypothesis import strategies as st

from podberth.cache.cluster import Cluster
from podberth.framework.config import default_configuration
from podberth.framework.profiles import build
from podberth.framework.runtime import Framework
from podberth.model.kinds import Decoder
from podberth.model.pod import Pod
from tests.builders import node, pod
from tests.registered import registry

decoder = Decoder()
NODES = 6

rows = st.integers(0, NODES - 1)
pods = st.tuples(st.integers(0, 1), st.sampled_from((2, 2, 4)), st.integers(0, 1))
changes = st.one_of(
    st.tuples(st.just("node"), rows, st.sampled_from((2, 4, 4)), st.booleans()),
    st.tuples(st.just("drop node"), rows),
    st.tuples(st.just("place"), rows, pods),
    st.tuples(st.just("start"), st.integers(0, 20), st.integers(1, 9)),
    st.tuples(st.just("start"), st.integers(0, 2 * NODES), st.integers(1, 9)),
    st.tuples(st.just("remove"), st.integers(0, 20)),
    st.tuples(st.just("budget"), st.integers(0, 1), st.integers(0, 2)),
    st.tuples(st.just("nominate"), rows, st.integers(1, 3), st.integers(1, 4)),
    st.tuples(st.just("forget"), st.integers(0, 30)),
)


def a_framework() -> Framework:
    """The default profile, which knows nothing yet."""
    return build(default_configuration(), registry())["berth"]


def a_node(i: int, cpu: int, *, cordoned: bool = False) -> Any:
    """Room for five pods."""
    made = node(f"n{i}", cpu=str(cpu), pods="5")
    made["spec"]["unschedulable"] = cordoned
    return decoder.node(msgspec.json.encode(made))


def a_pod(name: str, priority: int, cpu: int, app: int = 0, started: int = 0) -> Pod:
    """A pod; one of app 1 repels others, though none that is asked about."""
    made = pod(name, cpu=f"{cpu}")
    made["metadata"]["labels"] = {"app": f"a{app}"}
    made["spec"]["priority"] = priority
    if app:
        term = {"labelSelector": {"matchLabels": {"app": "none"}}, "topologyKey": "kubernetes.io/hostname"}
        made["spec"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    if started:
        made["status"] = {"startTime": f"2026-01-01T00:00:0{started}Z"}
    return decoder.pod(msgspec.json.encode(made))


def a_budget(name: str, allowed: int, selector: Any, *disrupted: str) -> Any:
    """A PodDisruptionBudget. `disrupted`: pods whose eviction the API server has counted already."""
    document = {
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"selector": selector},
        "status": {
            "disruptionsAllowed": allowed,
            "disruptedPods": dict.fromkeys(disrupted, "2026-01-01T00:00:00Z"),
        },
    }
    return decoder.of_kind("PodDisruptionBudget")(msgspec.json.encode(document))


class Crowd:
    """A cluster of full nodes, and what happens to it."""

    def __init__(self, start: list[Any]) -> None:
        self.cluster = Cluster()
        self._made = 0
        for i in range(NODES):
            self.cluster.put_node(a_node(i, 4))
        for i, placed in enumerate(start):
            self.change("place", i % NODES, placed)

    def change(self, what: str, *detail: Any) -> None:
        """Let one of `changes` happen."""
        cluster = self.cluster
        match what, detail:
            case "node", (i, cpu, cordoned):
                cluster.put_node(a_node(i, cpu, cordoned=cordoned))
            case "drop node", (i,):
                cluster.drop_node(f"n{i}")
            case "place", (i, (priority, cpu, app)):
                placed = a_pod(f"p{self._made}", priority, cpu, app)
                cluster.put_pod(msgspec.structs.replace(placed, node_name=f"n{i}"))
                self._made += 1
            case "start", (i, second):
                placement = cluster.placement(f"default/p{i}")
                if placement is not None:
                    began = f"2026-01-01T00:00:0{second}Z"
                    name = cluster.nodes.names[placement.row] or ""
                    cluster.put_pod(msgspec.structs.replace(placement.pod, node_name=name, started=began))
            case "remove", (i,):
                cluster.drop_pod(f"default/p{i}")
            case "budget", (app, allowed):
                cluster.put_selecting(a_budget(f"b{app}", allowed, {"matchLabels": {"app": f"a{app}"}}))
            case "nominate", (i, priority, cpu):
                cluster.nominations.put(a_pod(f"w{self._made}", priority, cpu), f"n{i}")
                self._made += 1
            case "forget", (i,):
                cluster.nominations.drop(f"default/w{i}")


def answer(framework: Framework, preemptor: Pod, cluster: Cluster) -> tuple[str | None, set[str], str]:
    """(node, victims, what is said)."""
    decision = framework.decide(preemptor, cluster)
    if len(decision.feasible):
        return "fits", set(), ""
    result = framework.post_filter_result(preemptor, cluster, decision)
    return result.node, {victim.uid for victim in result.victims}, result.text


def anew(preemptor: Pod, cluster: Cluster) -> tuple[str | None, set[str], str]:
    """The answer of somebody who knows nothing yet, in a copy."""
    return answer(a_framework(), preemptor, deepcopy(cluster))
