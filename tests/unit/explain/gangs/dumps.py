"""Pod groups as API objects, and what an engine does with them: the judge of every answer about a group."""

from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

from podberth.cache.validate import validate
from podberth.engine.schedule_one import Choice
from podberth.explain.gangs.answer import GroupExplanation
from podberth.explain.gangs.explain import explain_group
from podberth.explain.gangs.gang import gang_of
from podberth.explain.objects.documents import Document
from podberth.explain.objects.world import World
from podberth.explain.simulate.simulation import Simulation
from podberth.explain.written import of_cluster
from podberth.framework.config import decode
from podberth.framework.profiles import build
from podberth.framework.runtime import Framework
from podberth.model import wire
from podberth.model.pod_group import COSCHEDULING, LABEL, NATIVE, GroupKey
from podberth.plugins.registry import IN_TREE
from tests.builders import Object, configuration, pod, profile
from tests.unit.explain.story import framework, world


def group(needed: int | None = 8, name: str = "train", **spec: Any) -> Object:
    """A PodGroup of scheduling.k8s.io; `needed` None: with the policy basic."""
    policy: Object = {"basic": {}} if needed is None else {"gang": {"minCount": needed}}
    return {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default", "uid": f"group/{name}"},
        "spec": {"schedulingPolicy": policy, **spec},
    }


def labelled_group(needed: int, name: str = "train") -> Object:
    """A PodGroup of scheduling.x-k8s.io."""
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default", "uid": f"theirs/{name}"},
        "spec": {"minMember": needed},
    }


def member(name: str, cpu: str | None = "4", memory: str | None = None, of: str = "train", **more: Any) -> Object:
    """A pod of a group of scheduling.k8s.io."""
    made = pod(name, cpu, memory, **more)
    made["spec"]["schedulingGroup"] = {"podGroupName": of}
    return made


def labelled(name: str, cpu: str | None = "4", of: str = "train") -> Object:
    """A pod of a group of scheduling.x-k8s.io."""
    return pod(name, cpu, labels={LABEL: of})


def members(count: int, cpu: str | None = "4", of: str = "train", **more: Any) -> list[Object]:
    """Several equal ones."""
    return [member(f"{of}-{i}", cpu, of=of, **more) for i in range(count)]


def by_topology() -> Framework:
    """The default profile, with the plugins that keep a group in one domain."""
    plugins = {"multiPoint": {"enabled": [{"name": "TopologyPlacementGenerator"}, {"name": "PodGroupPodsCount"}]}}
    return build(decode(configuration(profile(plugins=plugins))), IN_TREE)["berth"]


def asked(
    objects: Sequence[Object], name: str = "train", api: str = NATIVE, *, topology: bool = False, **more: Any
) -> GroupExplanation:
    """The answer about a group. The cluster is as before afterwards."""
    waiting = [each for each in objects if each["kind"] == "Pod" and "nodeName" not in each["spec"]]
    there = world([each for each in objects if each not in waiting])
    there.add_documents(Document("Pod", wire.encode(each), "") for each in waiting)
    gang = gang_of(GroupKey("default", name, api), there.cluster)
    assert gang is not None
    before = {placement.pod.uid for placement in there.cluster.placements()}
    state = there.cluster.pod_groups.state(GroupKey("default", name, api))
    assert state is not None
    known = list(state.pods)
    claims = there.cluster.storage.claims
    answer = explain_group(
        gang,
        by_topology() if topology else framework(),
        there.cluster,
        written=lambda pod: of_cluster(pod, there),
        **more,
    )
    assert validate(there.cluster) == []
    assert {placement.pod.uid for placement in there.cluster.placements()} == before
    assert sorted(state.pods) == sorted(known)
    assert all(claims.get(one.key) is claims.stored(one.key) for one in claims), "what was assumed is taken back"
    return answer


def bound(objects: Sequence[Object], name: str = "train", api: str = NATIVE, *, topology: bool = False) -> set[str]:
    """The pods of a group that an engine binds, by their names."""
    key = GroupKey("default", name, api)
    return {pod.name for pod, _ in played(objects, topology=topology).bound.values() if pod.scheduling_group == key}


def played(objects: Sequence[Object], *, topology: bool = False) -> Simulation:
    """An engine that has scheduled what waits. Of equally good nodes it takes the first one, whatever its seed."""
    there: World = world(list(objects))
    with patch.object(Choice, "pick", lambda self, uid, equals: 0):
        simulation = Simulation({"berth": by_topology() if topology else framework()}, there.cluster)
        simulation.put_all(there.waiting.values())
        simulation.settle()
    return simulation


__all__ = ["COSCHEDULING", "asked", "bound", "group", "labelled", "labelled_group", "member", "members", "played"]
