"""One HTTP extender for kube-scheduler and Berth at once: the same nodes, the same words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.controlplane.api import Api, Object
from tests.controlplane.cluster import ControlPlane
from tests.extender import ExtenderServer, keep, rate
from tests.integration import checks
from tests.integration.berth import Harbour
from tests.integration.objects import nodes, pod, pods_path

WHY = {"quay-0": "the crane is out of order", "quay-1": "too shallow", "quay-2": "too shallow"}


def rules(api: Api) -> dict[str, Callable[[Object], Any]]:
    """Pods named nowhere-… are kept from everywhere, others go to two nodes of four, best to the third."""

    def choose(asked: Object) -> Any:
        if asked["Pod"]["metadata"]["name"].startswith("nowhere"):
            return keep(failed={"quay-0": WHY["quay-0"]}, hopeless=WHY)(asked)
        return keep("quay-1", "quay-2", failed={"quay-0": WHY["quay-0"]})(asked)

    def bind(asked: Object) -> Object:
        binding = {
            "metadata": {"name": asked["PodName"], "uid": asked["PodUID"]},
            "target": {"kind": "Node", "name": asked["Node"]},
        }
        api.create(f"{pods_path(asked['PodNamespace'])}/{asked['PodName']}/binding", binding)
        return {}

    return {"filter": choose, "rank": rate(**{"quay-2": 9, "quay-1": 1}), "bind": bind}


@pytest.mark.parametrize("capable", [False, True], ids=["whole nodes", "names"])
def test_side_by_side(
    audited: ControlPlane, audited_namespace: str, harbour: Harbour, add_nodes: Callable[..., None], capable: bool
) -> None:
    """Each binds a pod through the extender where it scores best, and says of another why it goes nowhere."""
    api, path = audited.api, pods_path(audited_namespace)
    add_nodes(audited, nodes(4, "quay"))
    with ExtenderServer(rules(api)) as server:
        extender = {
            "urlPrefix": server.url,
            "filterVerb": "filter",
            "prioritizeVerb": "rank",
            "bindVerb": "bind",
            "weight": 50,
            "nodeCacheCapable": capable,
            "httpTimeout": "30s",
        }
        berth = harbour.berth(audited, extenders=[extender])
        kube_name = f"kube-{berth.scheduler_name}"
        kube = audited.start_kube_scheduler({"extenders": [extender]}, kube_name)
        harbour.started.append(kube)
        schedulers = {"ours": berth.scheduler_name, "theirs": kube_name}
        for whose, name in schedulers.items():
            api.create_many(path, [pod(f"{what}-{whose}", name) for what in ("somewhere", "nowhere")])
        pods = checks.wait_bound(api, audited_namespace, 2)
        said = {
            whose: checks.condition(checks.wait_condition(api, audited_namespace, f"nowhere-{whose}"))
            for whose in schedulers
        }
        events = checks.wait_events(api, audited_namespace, "Scheduled", 2)
        berth.end()
        kube.stop()
    bound = {found["metadata"]["name"]: checks.node_of(found) for found in pods if checks.node_of(found)}
    assert bound == {"somewhere-ours": "quay-2", "somewhere-theirs": "quay-2"}
    assert said["ours"]["message"] == said["theirs"]["message"]
    assert said["ours"]["reason"] == said["theirs"]["reason"] == "Unschedulable"
    assert "1 the crane is out of order, 2 too shallow" in said["ours"]["message"]
    assert {event["note"].split()[-1] for event in events} == {"quay-2"}
    asked: dict[str, list[tuple[str, Object]]] = {"ours": [], "theirs": []}
    for verb, body in server.asked:
        name = body["PodName"] if verb == "bind" else body["Pod"]["metadata"]["name"]
        if name.startswith("somewhere"):
            asked[name.partition("-")[2]].append((verb, body))
    assert [verb for verb, _ in asked["ours"]] == [verb for verb, _ in asked["theirs"]] == ["filter", "rank", "bind"]
    for (verb, ours), (_, theirs) in zip(asked["ours"], asked["theirs"], strict=True):
        assert set(ours) == set(theirs), verb
