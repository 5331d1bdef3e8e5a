"""A small cluster with every reason to say no, and pods that ask for it."""

from collections.abc import Iterable
from typing import Any

from podberth.explain.explain import explain
from podberth.explain.explanation import Explanation
from podberth.explain.objects.documents import Document
from podberth.explain.objects.world import World
from podberth.explain.written import Written, of_cluster
from podberth.framework.config import default_configuration
from podberth.framework.profiles import build
from podberth.framework.runtime import Framework
from podberth.model import wire
from podberth.model.pod import Pod
from podberth.plugins.registry import IN_TREE
from tests.builders import namespace, node, pod

Object = dict[str, Any]

NODES = [
    node("a-1", "4", "8Gi", zone="a", labels={"disk": "ssd"}),
    node("a-2", "4", "8Gi", zone="a", labels={"disk": "hdd"}),
    node(
        "b-1",
        "8",
        "16Gi",
        zone="b",
        labels={"disk": "ssd"},
        cordoned=True,
        taints=["node.kubernetes.io/unschedulable:NoSchedule"],
    ),
    node("b-2", "2", "4Gi", zone="b", labels={"disk": "ssd"}, pods="2"),
    node("gpu-1", "16", "64Gi", zone="c", labels={"disk": "ssd"}, taints=["gpu=true:NoSchedule"]),
]
PLACED = [
    pod(
        "db-0", "3", "4Gi", namespace="shop", labels={"app": "db"}, on="a-1", ports=["5432"], apart=["app=db per zone"]
    ),
    pod("cache-0", "1500m", "2Gi", namespace="shop", labels={"app": "cache"}, on="a-2"),
    pod("job-0", "500m", "1Gi", namespace="shop", labels={"app": "job"}, on="b-2"),
    pod("job-1", "500m", "1Gi", namespace="shop", labels={"app": "job"}, on="b-2"),
]
BIG = pod("big", "2500m", "6Gi", namespace="shop", labels={"app": "big"}, select={"disk": "ssd"})
DB = pod("db-1", "1", "1Gi", namespace="shop", labels={"app": "db"}, ports=["5432"], apart=["app=db per zone"])
WEB = pod("web", "500m", "512Mi", namespace="shop", labels={"app": "web"}, rather_near=[(80, "app=cache per zone")])
CLUSTER = [namespace("shop"), *NODES, *PLACED]
"""Objects of a dump, without the pods that wait."""
DUMP: dict[str, Any] = {"apiVersion": "v1", "kind": "List", "items": [*CLUSTER, BIG, DB, WEB]}


def framework() -> Framework:
    """The default profile."""
    return build(default_configuration(), IN_TREE)["berth"]


def world(objects: list[Object]) -> World:
    """A world of API dicts."""
    made = World()
    made.add_all(objects)
    return made


def explained(
    incoming: Object, objects: list[Object] = CLUSTER, *, written: Object | None = None, waiting: Iterable[Object] = ()
) -> Explanation:
    """The explanation of a pod that comes to these objects. `written`: as somebody wrote it; `waiting`: other pods."""
    there = world([*objects, *waiting])
    decoded = there.decode(incoming)
    assert isinstance(decoded, Pod)
    answer = explain(
        decoded,
        framework(),
        there.cluster,
        written=as_written(written or incoming, decoded, there),
        others=there.waiting.values(),
    )
    assert not [note for note in answer.notes if note.startswith("plugin ")], answer.notes
    return answer


def as_written(incoming: Object, decoded: Pod, there: World) -> Written:
    """A pod as one that waits in a world is read."""
    there.add_document(Document("Pod", wire.encode(incoming), ""))
    found = of_cluster(decoded, there)
    there.gone("Pod", decoded.namespace, decoded.name, there.waiting[decoded.key].uid)
    assert found is not None
    return found


def why(answer: Explanation, name: str) -> list[str]:
    """The details of one node, those of later plugins with their plugin."""
    [found] = [each for each in answer.rejected if each.node == name]
    return [f.detail for f in found.findings] + [f"{f.plugin}: {f.detail}" for f in found.also]
