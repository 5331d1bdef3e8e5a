"""Deletes and evictions: preconditions, grace periods, finalizers, and the last update that lets an object go.

An eviction deletes a pod only as far as its PodDisruptionBudget lets it go.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from podberth.apiserver.resources import Registry, Resource
from podberth.apiserver.rules.disruption import Budget, Evicted, draws_on
from podberth.apiserver.rules.selectors import label_selector
from podberth.apiserver.rules.status import JsonObject, StatusError, bad_request, conflict, forbidden, not_found
from podberth.apiserver.rules.strategy import GIVEN, set_condition, timestamp
from podberth.apiserver.storage import Store, Stored

IMMORTAL = frozenset({"default", "kube-system", "kube-public"})


@dataclass(frozen=True)
class DeleteOptions:
    """The options that a client gives with a delete."""

    grace: int | None = None
    uid: str = ""
    revision: str = ""
    dry_run: bool = False

    @staticmethod
    def read(body: JsonObject, query: Any) -> DeleteOptions:
        """Read them from the body; query parameters fill in what it leaves open."""
        grace = body.get("gracePeriodSeconds")
        if grace is None and query.get("gracePeriodSeconds"):
            text = query["gracePeriodSeconds"]
            if not text.lstrip("-").isdecimal():
                raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
            grace = int(text)
        preconditions = body.get("preconditions") or {}
        return DeleteOptions(
            grace=grace,
            uid=preconditions.get("uid") or "",
            revision=str(preconditions.get("resourceVersion") or ""),
            dry_run=bool(body.get("dryRun")) or query.get("dryRun") == "All",
        )


@dataclass(frozen=True)
class Deleted:
    """The end of a delete: the object's last or marked state, and whether it is gone."""

    stored: Stored
    gone: bool


class Deletion:
    """Deletes objects, at once or in steps."""

    def __init__(self, store: Store, registry: Registry) -> None:
        self._store = store
        self._registry = registry

    def delete(self, resource: Resource, stored: Stored, options: DeleteOptions) -> Deleted:
        """Delete an object, or mark it as being deleted when something still holds it."""
        check_preconditions(resource, stored, options)
        grace = _grace(resource, stored.obj, options)
        metadata = stored.obj["metadata"]
        is_namespace = resource.is_a("Namespace")
        if is_namespace and stored.key in IMMORTAL:
            raise forbidden("", "namespaces", stored.key, "this namespace may not be deleted")
        held = bool(metadata.get("finalizers")) or is_namespace
        graceful = resource.is_a("Pod")
        if options.dry_run:
            marked_obj = _marked(resource, stored.obj, grace) if graceful or held else stored.obj
            return Deleted(Stored(stored.key, marked_obj, stored.revision), gone=True)
        if not held and not graceful:
            answer = stored
            if resource.kind == "CustomResourceDefinition":
                answer = Stored(stored.key, _marked(resource, stored.obj, grace), stored.revision)
            self._store.delete(resource, stored)
            return Deleted(answer, gone=True)
        if metadata.get("deletionTimestamp") and grace and grace >= (metadata.get("deletionGracePeriodSeconds") or 0):
            return Deleted(stored, gone=False)
        # Graceful kinds are marked in storage even when they go right after: watchers see MODIFIED, then DELETED.
        marked = self._store.update(resource, stored, _marked(resource, stored.obj, grace))
        if is_namespace:
            return self._finish_namespace(resource, marked)
        if held or grace:
            return Deleted(marked, gone=False)
        return Deleted(self._store.delete(resource, marked), gone=True)

    def _finish_namespace(self, resource: Resource, marked: Stored) -> Deleted:
        """Empty a namespace and let it go, which is the namespace controller's work where one runs."""
        name = marked.key
        for other in list(self._registry):
            if not other.namespaced or other.view:
                continue
            for stored in self._store.collection(other.collection).ordered():
                if stored.key.startswith(f"{name}/"):
                    self.delete(other, stored, DeleteOptions(grace=0))
        if marked.obj["metadata"].get("finalizers"):
            return Deleted(marked, gone=False)
        self._store.delete(resource, marked)
        return Deleted(marked, gone=False)


def lets_go(resource: Resource, obj: JsonObject) -> bool:
    """Return whether an update takes away the last thing that held an object which is being deleted."""
    metadata = obj["metadata"]
    return bool(
        metadata.get("deletionTimestamp")
        and not metadata.get("finalizers")
        and not metadata.get("deletionGracePeriodSeconds")
        and not (resource.kind == "Namespace" and (obj.get("spec") or {}).get("finalizers"))
    )


def check_preconditions(resource: Resource, stored: Stored, options: DeleteOptions) -> None:
    """Refuse to delete another object than the one that was meant (rest.BeforeDelete)."""
    name = stored.obj["metadata"]["name"]
    if why := precondition_failed(stored, options):
        raise conflict(resource.group, resource.kind, name, why)


def precondition_failed(stored: Stored, options: DeleteOptions) -> str:
    """Return why the object is not the one that was meant; empty when it is."""
    for asked, found, what, might in (
        (options.uid, stored.uid, "UID", "deleted and then recreated"),
        (options.revision, str(stored.revision), "ResourceVersion", "modified"),
    ):
        if asked and asked != found:
            return (
                f"the {what} in the precondition ({asked}) does not match the {what} in record ({found}). The object "
                f"might have been {might}"
            )
    return ""


def _grace(resource: Resource, obj: JsonObject, options: DeleteOptions) -> int:
    """Return seconds until the object may go; only bound, running pods are given any."""
    if not resource.is_a("Pod"):
        return 0
    spec = obj["spec"]
    phase = (obj.get("status") or {}).get("phase")
    if not spec.get("nodeName") or phase in {"Failed", "Succeeded"}:
        return 0
    period = spec.get("terminationGracePeriodSeconds", 0) if options.grace is None else options.grace
    return 1 if period < 0 else int(period)


def _marked(resource: Resource, obj: JsonObject, grace: int) -> JsonObject:
    metadata = dict(obj["metadata"])
    graceful = resource.is_a("Pod")
    if not metadata.get("deletionTimestamp") or grace:
        metadata["deletionTimestamp"] = timestamp(GIVEN.wall() + grace)
    if not resource.is_a("Namespace"):
        metadata["deletionGracePeriodSeconds"] = grace
    # Already marked: only the time may shrink, which is no new generation.
    if metadata.get("generation") and graceful and not obj["metadata"].get("deletionTimestamp"):
        metadata["generation"] += 1
    marked = {**obj, "metadata": metadata}
    if resource.is_a("Namespace"):
        marked["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}
    return marked


def _condition(obj: JsonObject, type_: str) -> JsonObject:
    conditions = (obj.get("status") or {}).get("conditions") or []
    return next((condition for condition in conditions if condition.get("type") == type_), {})


class Evictions:
    """Evicts pods."""

    def __init__(self, store: Store, registry: Registry, deletion: Deletion) -> None:
        self._store = store
        self._deletion = deletion
        self._pods = registry.built_in("pods")
        self._budgets = registry.built_in("poddisruptionbudgets")

    def evict(self, namespace: str, name: str, eviction: JsonObject, query: Any) -> None:
        """Evict one pod, or raise why it may not go."""
        if (eviction.get("metadata") or {}).get("name", "") != name:
            raise bad_request("name in URL does not match name in Eviction object")
        options = DeleteOptions.read(eviction.get("deleteOptions") or {}, query)
        pod = self._store.get(self._pods, self._pods.key(namespace, name))
        if pod is None:
            raise not_found("", "pods", name)
        budgets = {stored.obj["metadata"]["name"]: stored for stored in self._matching(namespace, pod.obj)}
        drawn = draws_on(_evicted(pod.obj), [_budget(stored.obj) for stored in budgets.values()])
        if drawn is not None and not options.dry_run:
            self._take_one(budgets[drawn.name], name)
        self._delete(pod, options)

    def _delete(self, pod: Stored, options: DeleteOptions) -> None:
        _precondition(pod, options)
        if options.dry_run:
            return
        status = dict(pod.obj.get("status") or {})
        status["conditions"] = set_condition(
            status.get("conditions") or [],
            {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "EvictionByEvictionAPI",
                "message": "Eviction API: evicting",
            },
        )
        marked = self._store.update(self._pods, pod, {**pod.obj, "status": status})
        self._deletion.delete(self._pods, marked, DeleteOptions(grace=options.grace, uid=options.uid))

    def _matching(self, namespace: str, pod: JsonObject) -> list[Stored]:
        labels = pod["metadata"].get("labels") or {}
        found = []
        for stored in self._store.collection(self._budgets.collection).ordered():
            if not stored.key.startswith(f"{namespace}/"):
                continue
            try:
                matches = label_selector((stored.obj.get("spec") or {}).get("selector"))
            except ValueError:
                continue  # a budget whose selector can't be read matches nothing
            if matches(labels):
                found.append(stored)
        return found

    def _take_one(self, budget: Stored, pod_name: str) -> None:
        """Use up one allowed disruption (checkAndDecrement)."""
        status = dict(budget.obj.get("status") or {})
        status["disruptionsAllowed"] -= 1
        if status["disruptionsAllowed"] == 0:
            status["conditions"] = _none_allowed(status.get("conditions") or [], status.get("observedGeneration", 0))
        status["disruptedPods"] = {**(status.get("disruptedPods") or {}), pod_name: timestamp()}
        self._store.update(self._budgets, budget, {**budget.obj, "status": status})


def _none_allowed(conditions: list[JsonObject], generation: int) -> list[JsonObject]:
    """Return the budget's condition once it is used up (UpdateDisruptionAllowedCondition)."""
    condition = {
        "type": "DisruptionAllowed",
        "status": "False",
        "observedGeneration": generation,
        "lastTransitionTime": timestamp(),
        "reason": "InsufficientPods",
        "message": "",
    }
    return [item for item in conditions if item.get("type") != "DisruptionAllowed"] + [condition]


def _evicted(pod: JsonObject) -> Evicted:
    phase = (pod.get("status") or {}).get("phase") or ""
    terminating = bool(pod["metadata"].get("deletionTimestamp"))
    return Evicted(phase, terminating, _condition(pod, "Ready").get("status") == "True")


def _budget(obj: JsonObject) -> Budget:
    meta, status, condition = obj["metadata"], obj.get("status") or {}, _condition(obj, "DisruptionAllowed")
    said = condition.get("status") == "False" and condition.get("message")
    return Budget(
        meta["name"],
        status.get("disruptionsAllowed", 0),
        status.get("currentHealthy", 0),
        status.get("desiredHealthy", 0),
        seen=status.get("observedGeneration", 0) >= meta.get("generation", 0),
        always_allow=(obj.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow",
        disrupted=len(status.get("disruptedPods") or {}),
        told=(condition.get("reason", ""), condition["message"]) if said else None,
    )


def _precondition(pod: Stored, options: DeleteOptions) -> None:
    """The eviction's own check, which names the kind instead of the resource."""
    name = pod.obj["metadata"]["name"]
    if why := precondition_failed(pod, options):
        text = f'Operation cannot be fulfilled on Pod "{name}": {why}'
        raise StatusError(409, "Conflict", text, {"name": name, "kind": "Pod"})
