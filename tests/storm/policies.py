"""Users who write policies, and what must hold of them, judged from the server's store.

P1: no pod gets past a policy that is in force for longer than news take, and none is refused by one that is gone.
P2: in the end the status of each policy speaks of its newest spec.
P3: in the end each replica's cache is what is stored.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from podberth.apiserver.storage import Change
from podberth.policy.operator.replica import RESYNC_SECONDS
from podberth.policy.parse import parse
from tests.storm.actors import MERGE
from tests.storm.judge import PROMPT_SECONDS

if TYPE_CHECKING:
    from tests.storm.world import World

JsonObject = dict[str, Any]
COLLECTION = "metadatapolicies.podberth.dev"
CRD: JsonObject = yaml.safe_load(
    (Path(__file__).parents[2] / "helm" / "files" / "crd-metadatapolicies.yaml").read_text()
)
LEADS_SECONDS = 30.0
"""Somebody leads by then."""
STATUS_SECONDS = 30.0
"""A status speaks of the newest spec after so long, when nothing is wrong."""
RULES = ("reject", "stamp", "warn", "bad")
"""What a policy does: refuse its app's pods, label them, only warn of them, or say what can't be accepted."""


class Policies:
    """Writes them, and judges what came of it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._writes = 0
        self._changed: dict[str, float] = {}
        """Namespace → when a spec last changed there."""
        world.server.call("user", "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", CRD)
        world.server.store.collection(COLLECTION).listeners[self] = None

    # -- users -------------------------------------------------------------------------------------------------------

    def write(self, namespace: str, name: str, rule: str, app: str) -> None:
        """A policy is made, or its spec replaced."""
        self._writes += 1
        path = f"/apis/podberth.dev/v1alpha1/namespaces/{namespace}/metadatapolicies"
        body = {"apiVersion": "podberth.dev/v1alpha1", "kind": "MetadataPolicy", "metadata": {"name": name}}
        body["spec"] = self._spec(name, rule, app)
        code, _ = self._world.server.call("user", "POST", path, body)
        if code == 409:
            code, _ = self._world.server.call("user", "PATCH", f"{path}/{name}", {"spec": body["spec"]}, MERGE)
        if code == 0:
            self._world.after(2.0, lambda: self.write(namespace, name, rule, app))
        elif code == 422:
            raise RuntimeError(f"the schema refuses {body}")

    def delete(self, namespace: str, name: str) -> None:
        """A policy is deleted."""
        path = f"/apis/podberth.dev/v1alpha1/namespaces/{namespace}/metadatapolicies/{name}"
        code, _ = self._world.server.call("user", "DELETE", path)
        if code == 0:
            self._world.after(2.0, lambda: self.delete(namespace, name))

    def _spec(self, name: str, rule: str, app: str) -> JsonObject:
        action: JsonObject = {"reject": True, "message": f"{name} says no"}
        if rule == "stamp":
            action = {"updatedLabels": {f"team-{name}": f"v{self._writes}"}}
        elif rule == "bad":
            action = {"updatedLabels": {"not a key!": "x"}}
        predicate = {"labelSelector": {"matchLabels": {"app": app}}}
        return {
            "mode": "warn" if rule == "warn" else "enforce",
            "rules": [{"name": rule, "policyPredicate": predicate, "policyAction": action}],
        }

    def offer(self, change: Change) -> None:
        old, new = change.old, change.new.obj
        if change.type == "DELETED" or old is None or old.obj["spec"] != new["spec"]:
            self._changed[new["metadata"]["namespace"]] = self._world.now
            if change.type != "DELETED":
                self._world.after(STATUS_SECONDS, lambda: self._look(new["metadata"]))

    # -- the judge ---------------------------------------------------------------------------------------------------

    def reviewed(self, pod: JsonObject, allowed: bool, who: str) -> None:
        """P1: a pod may be created, or not."""
        world, namespace = self._world, pod["metadata"]["namespace"]
        since = world.now - self._changed.get(namespace, float("-inf"))
        if not who or since <= world.judge.news() or world.judge.unsure():
            return
        wanted, labels = self._applies(pod)
        what = f"{namespace}/{pod['metadata']['name']}, by {who}, {since:.1f} s after the last change"
        if wanted != allowed:
            world.judge.say("P1", f"{'allowed' if allowed else 'refused'}: {what}")
        elif allowed:
            found = {key: value for key, value in pod["metadata"]["labels"].items() if key.startswith("team-")}
            if found != labels:
                world.judge.say("P1", f"labelled {found}, want {labels}: {what}")
        world.survived["reviewed"] += 1

    def _applies(self, pod: JsonObject) -> tuple[bool, dict[str, str]]:
        """Whether the stored policies allow a pod, and how they label it."""
        meta = pod["metadata"]
        labels: dict[str, str] = {}
        allowed = True
        for policy in self._world.server.store.objects(COLLECTION):
            spec, rule = policy["spec"], policy["spec"]["rules"][0]
            app = rule["policyPredicate"]["labelSelector"]["matchLabels"]["app"]
            if policy["metadata"]["namespace"] != meta["namespace"] or app != meta["labels"].get("app"):
                continue
            if spec.get("mode") == "warn" or rule["name"] == "bad":
                continue
            allowed = allowed and not rule["policyAction"].get("reject")
            labels |= rule["policyAction"].get("updatedLabels") or {}
        return allowed, labels

    def finish(self) -> None:
        """P2 and P3."""
        world = self._world
        leaders = [one for one in world.operators if one.alive and one.elector is not None and one.elector.leading]
        if len(leaders) != 1:
            world.judge.say("L2", f"{len(leaders)} operators lead: {[one.user for one in leaders]}")
        stored = world.server.store.objects(COLLECTION)
        for policy in stored:
            for line in self._status(policy):
                world.judge.say("P2", f"{policy['metadata']['namespace']}/{policy['metadata']['name']}: {line}")
        for replica in world.admissions:
            if not replica.ready or replica.replica is None:
                world.judge.say("P3", f"{replica.user} is not ready: {replica.ended[-1:]}")
                continue
            cache = replica.replica.cache
            for policy in stored:
                meta = policy["metadata"]
                known = cache.of(meta["namespace"])
                bad = policy["spec"]["rules"][0]["name"] == "bad"
                if meta["name"] not in known.refused if bad else parse(policy) not in known.specs:
                    world.judge.say("P3", f"{replica.user} does not know {meta['namespace']}/{meta['name']}")
            if len(cache.reflector) != len(stored):
                world.judge.say("P3", f"{replica.user} knows {len(cache.reflector)} policies, there are {len(stored)}")

    def _look(self, then: JsonObject) -> None:
        """Whether the status has followed a spec that was stored `STATUS_SECONDS` ago."""
        world = self._world
        found = world.server.store.collection(COLLECTION).items.get(f"{then['namespace']}/{then['name']}")
        calm = world.judge.news() == PROMPT_SECONDS and world.now > LEADS_SECONDS + STATUS_SECONDS
        if found is None or not calm or world.judge.unsure():
            return
        meta, status = found.obj["metadata"], found.obj.get("status") or {}
        still = (meta["uid"], meta["generation"]) == (then["uid"], then["generation"])
        if still and status.get("observedGeneration") != meta["generation"]:
            world.judge.say("P2", f"{meta['namespace']}/{meta['name']} has no status {STATUS_SECONDS:g} s later")

    def _status(self, policy: JsonObject) -> list[str]:
        meta, status = policy["metadata"], policy.get("status") or {}
        found = []
        if (
            self._world.now - self._world.lost_at.get("metadatapolicies", float("-inf"))
            < RESYNC_SECONDS + STATUS_SECONDS
        ):
            return []
        if status.get("observedGeneration") != meta["generation"]:
            found.append(f"the status is of {status.get('observedGeneration')}, the spec of {meta['generation']}")
        truth = {one["type"]: one["status"] for one in status.get("conditions") or ()}
        wanted = "False" if policy["spec"]["rules"][0]["name"] == "bad" else "True"
        if truth.get("Accepted") != wanted:
            found.append(f"Accepted is {truth.get('Accepted')}, want {wanted}")
        return found
