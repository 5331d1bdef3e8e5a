"""The plugins that only a profile's wish enables, on the real API server: affinity by annotation, and by Service."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from typing import Any

from tests.controlplane.api import Object
from tests.controlplane.cluster import Cluster
from tests.integration import checks
from tests.integration.berth import Berth, Harbour
from tests.integration.objects import node, on, pod, pods_path

KEY = "scheduler.alpha.kubernetes.io/affinity"


def started(harbour: Harbour, cluster: Cluster, plugin: str, **args: Any) -> Berth:
    """Berth with one profile that names this plugin."""
    name = f"berth-{secrets.token_hex(4)}"
    profile = {
        "schedulerName": name,
        "plugins": {"multiPoint": {"enabled": [{"name": plugin}]}},
        "pluginConfig": [{"name": plugin, "args": args}],
    }
    return harbour.berth(cluster, name, profiles=[profile])


def noted(made: Object, text: str) -> Object:
    made["metadata"]["annotations"] = {KEY: text}
    return made


def test_affinity_by_annotation(
    control_plane: Cluster, real_namespace: str, harbour: Harbour, add_nodes: Callable[..., None]
) -> None:
    """It lands as asked; one that can't be read stays pending with condition and event, until it is mended."""
    api, path, run = control_plane.api, pods_path(real_namespace), secrets.token_hex(4)
    names = [f"note-{run}-{i}" for i in range(3)]
    add_nodes(control_plane, [node(name, labels={"run": name}) for name in names])
    berth = started(harbour, control_plane, "AnnotationAffinity")
    here, there = (json.dumps(on("run", [name])) for name in names[1:])
    api.create(path, noted(pod("asks", berth.scheduler_name), here))
    api.create(path, noted(pod("overrides", berth.scheduler_name, affinity=on("run", names[:1])), there))
    api.create(path, noted(pod("garbled", berth.scheduler_name), here[:-1]))
    placed = {each["metadata"]["name"]: checks.node_of(each) for each in checks.wait_bound(api, real_namespace, 2)}
    assert (placed["asks"], placed["overrides"]) == (names[1], names[2])

    found = checks.condition(checks.wait_condition(api, real_namespace, "garbled", f"annotation {KEY}: not JSON"))
    assert (found["status"], found["reason"]) == ("False", "Unschedulable")
    (event,) = checks.wait_events(api, real_namespace, "FailedScheduling", 1)
    assert (event["regarding"]["name"], event["action"]) == ("garbled", "Scheduling")
    assert f"annotation {KEY}: not JSON" in event["note"]

    api.patch(f"{path}/garbled", {"metadata": {"annotations": {KEY: here}}})
    placed = {each["metadata"]["name"]: checks.node_of(each) for each in checks.wait_bound(api, real_namespace, 3)}
    assert placed["garbled"] == names[1]
    berth.end()


def test_service_affinity(
    control_plane: Cluster, real_namespace: str, harbour: Harbour, add_nodes: Callable[..., None]
) -> None:
    """Where the first pod of a Service goes, the others follow; a pod of no Service may go anywhere."""
    api, path, run = control_plane.api, pods_path(real_namespace), secrets.token_hex(4)
    label, regions = f"region-{run}", ("north", "south")
    add_nodes(
        control_plane, [node(f"{region}-{run}-{i}", labels={label: region}) for region in regions for i in (0, 1)]
    )
    service = {"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}}
    api.create(f"/api/v1/namespaces/{real_namespace}/services", service)
    berth = started(harbour, control_plane, "ServiceAffinity", affinityLabels=[label])
    web = {"app": "web"}
    api.create(path, pod("first", berth.scheduler_name, labels=web, nodeSelector={label: "south"}))
    checks.wait_bound(api, real_namespace, 1)
    api.create_many(path, [pod(f"more-{i}", berth.scheduler_name, labels=web) for i in range(8)])
    api.create(path, pod("other", berth.scheduler_name, nodeSelector={label: "north"}))
    placed = {each["metadata"]["name"]: checks.node_of(each) for each in checks.wait_bound(api, real_namespace, 10)}
    assert placed.pop("other").startswith("north-")
    assert {name: place.partition("-")[0] for name, place in placed.items()} == dict.fromkeys(placed, "south")
    berth.end()
