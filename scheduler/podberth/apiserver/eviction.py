"""pods/eviction: deleting a pod only as far as its PodDisruptionBudget lets it go.

Upstream: pkg/registry/core/pod/storage/eviction.go.
"""

from __future__ import annotations

from typing import Any

from podberth.apiserver.deletion import DeleteOptions, Deletion, precondition_failed
from podberth.apiserver.disruption import Budget, Evicted, draws_on
from podberth.apiserver.resources import Registry
from podberth.apiserver.selectors import label_selector
from podberth.apiserver.status import JsonObject, StatusError, bad_request, not_found
from podberth.apiserver.storage import Store, Stored
from podberth.apiserver.strategy import set_condition, timestamp


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
    """The budget's condition once it is used up (UpdateDisruptionAllowedCondition)."""
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
