"""The order in which it really happened, where nothing determines it, and what Berth would have said by then.

- A controller creates pods side by side. Those of a DaemonSet are each for a node: which of them comes first may decide
  who gets one. So they are simulated again in the order in which they were made.
- A pod's message is about the moment of its attempt. Which other pods had got their nodes by then is not determined:
  the attempts of two pods may come in either order, where an event about a third wakes one of them. So a message counts
  as foretold, too, if it is what Berth says of the pod on the cluster between two of the Bindings that there were.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from podberth.cli.given import given
from podberth.framework.decision import fit_error
from tests.as_created.town import Town
from tests.controlplane.api import Object
from tests.differential.generate.dice import REQUIRED

Said = Mapping[str, set[str]]
"""Pod, namespace/name → what is said of it at one moment or another."""


def version(town: Town) -> str:
    """The moment that it is now."""
    return str(town.plane.api.get("/api/v1/pods", limit=1)["metadata"]["resourceVersion"])


def course(town: Town, since: str) -> list[Object]:
    """What became of pods since a version: events of a watch, in the order in which it was stored."""
    return list(town.plane.api.watch("/api/v1/pods", resourceVersion=since, timeoutSeconds=1))


def as_made(dumped: Path, events: list[Object]) -> Path:
    """The dump with the nodes in the order in which DaemonSets made pods for them."""
    whole = json.loads(dumped.read_text())
    made = [event["object"] for event in events if event["type"] == "ADDED"]
    order = [str(_required(pod)) for pod in made if any(of["kind"] == "DaemonSet" for of in _owners(pod))]

    def place(found: Object) -> int:
        text = f"'{found['metadata']['name']}'" if found["kind"] == "Node" else ""
        return next((i for i, each in enumerate(order) if text and text in each), len(order))

    file = dumped.with_name("as-made.json")
    file.write_text(json.dumps({**whole, "items": sorted(whole["items"], key=place)}))
    return file


def _owners(pod: Object) -> list[Object]:
    found: list[Object] = pod["metadata"].get("ownerReferences", [])
    return found


def _required(pod: Object) -> object:
    return pod["spec"].get("affinity", {}).get("nodeAffinity", {}).get(REQUIRED)


def said_in(town: Town, dumped: Path, events: list[Object]) -> Said:
    """What is said of the pods that waited, from the moment of a dump on."""
    objects = json.loads(dumped.read_text())["items"]
    pods = {made["metadata"]["uid"]: made for made in objects if made["kind"] == "Pod"}
    others = [made for made in objects if made["kind"] != "Pod"]
    found: dict[str, set[str]] = defaultdict(set)
    before: object = None
    for event in events:
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
