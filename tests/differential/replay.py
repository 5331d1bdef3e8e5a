"""Berth's answers to recorded questions of four kinds, and what of them is not kube-scheduler's."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

from podberth.explain import cases
from podberth.explain.objects.world import World
from podberth.framework.runtime import Framework
from podberth.framework.status import PluginError
from podberth.model.pod import Pod
from tests.conformance.comparison import Case, described
from tests.differential import groups, groups_here, hints, verdict


def one(vector: Case) -> list[str]:
    """A question about a cluster as it is."""
    return list(verdict.judged(vector).texts)


def changing(vector: Case) -> list[str]:
    """Questions about a cluster that changes in between, in full and with what is kept for the pod's class."""
    return [line for lines in _told(vector) for line in lines]


def engine(vector: Case) -> list[str]:
    """What the engine does with pods and groups, step by step."""
    return groups.compared(vector, vector["want"], groups_here.answer(vector))


def hint(vector: Case) -> list[str]:
    """Whether a change wakes a pod."""
    woken = hints.is_woken(vector)
    return [] if woken == vector["want"] else [f"{vector['id']}: got {woken}, want {vector['want']}"]


KINDS: dict[str, Callable[[Case], list[str]]] = {f.__name__: f for f in (one, changing, engine, hint)}


def _told(vector: Case) -> Iterator[list[str]]:
    framework, world, _ = cases.asked({**vector, "objects": [], "pod": vector["steps"][0]["pod"]}, json.loads)
    for number, step in enumerate(vector["steps"]):
        for kind, namespace, name, uid in step["gone"]:
            world.gone(kind, namespace, name, uid)
        world.add_all(step["put"])
        if vector.get("nominees") != "queued":
            cases.nominate_stubs(world)
        pod = world.decode({**step["pod"], "kind": "Pod"})
        assert isinstance(pod, Pod)
        case, want = {"id": f"{vector['id']}, step {number}"}, step["want"]
        yield described(case, _got(framework, world, pod), want)
        if "error" not in want:
            yield _quickly(case["id"], framework, world, pod, want)


def _got(framework: Framework, world: World, pod: Pod) -> Case:
    try:
        return cases.got(framework.decide(pod, world.cluster, score_always=True), framework, world)
    except PluginError as error:
        return {"error": str(error)}


def _quickly(name: str, framework: Framework, world: World, pod: Pod, want: Case) -> list[str]:
    """The best nodes, as the engine asks for them."""
    decision = framework.decide_quickly(pod, world.cluster)
    if not decision.quick:
        return []
    nodes = world.cluster.nodes
    best = sorted(nodes.names[row] or "" for row in decision.feasible.tolist())
    right = want["best"] if len(want["feasible"]) > 1 else want["feasible"]
    if best == right and decision.passing == len(want["feasible"]):
        return []
    return [f"{name} best: got {best} of {decision.passing}, want {right} of {len(want['feasible'])}"]


def differences(vector: Case) -> list[str]:
    """What is not kube-scheduler's answer to a question of any kind."""
    return KINDS[vector["kind"]](vector)
