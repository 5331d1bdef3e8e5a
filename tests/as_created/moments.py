"""What Berth would say of pods that wait, at each moment of what really happened.

A pod's message is about the moment of its attempt. Which other pods had got their nodes by then is not determined: the
attempts of two pods may come in either order, where an event about a third wakes one of them. So a message counts as
foretold, too, if it is what Berth says of the pod on the cluster between two of the Bindings that there were.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from scheduler.cli.given import given
from scheduler.framework.decision import fit_error
from tests.as_created.town import Town
from tests.controlplane.api import Object

Said = Mapping[str, set[str]]
"""Pod, namespace/name → what is said of it at one moment or another."""


def version(town: Town) -> str:
    """The moment that it is now."""
    return str(town.plane.api.get("/api/v1/pods", limit=1)["metadata"]["resourceVersion"])


def said_since(town: Town, dumped: Path, since: str) -> Said:
    """What is said of the pods that waited, from the moment of a dump on. `since`: its version."""
    objects = json.loads(dumped.read_text())["items"]
    pods = {made["metadata"]["uid"]: made for made in objects if made["kind"] == "Pod"}
    others = [made for made in objects if made["kind"] != "Pod"]
    found: dict[str, set[str]] = defaultdict(set)
    before: object = None
    for event in town.plane.api.watch("/api/v1/pods", resourceVersion=since, timeoutSeconds=1):
        pod = {"apiVersion": "v1", "kind": "Pod", **event["object"]}
        if event["type"] == "DELETED":
            pods.pop(pod["metadata"]["uid"], None)
        else:
            pods[pod["metadata"]["uid"]] = pod
        now = {uid: each["spec"].get("nodeName") for uid, each in pods.items()}
        if now != before:
            _say(town, dumped.with_name("moment.json"), [*others, *pods.values()], found)
            before = now
    return found


def _say(town: Town, file: Path, objects: list[Object], found: dict[str, set[str]]) -> None:
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    read = given(
        str(town.berth.config),
        [str(file)],
        [],
        scheduler=None,
        validate=False,
        kubeconfig=None,
        context=None,
        timeout="30s",
    )
    [framework] = read.frameworks.values()
    cluster = read.world.cluster
    for key, pod in read.world.waiting.items():
        decision = framework.decide(pod, cluster)
        if not len(decision.feasible):
            found[key].add(fit_error(decision, framework.post_filter_result(pod, cluster, decision).text))
