"""pods/eviction: deleting a pod only as far as its PodDisruptionBudget lets it go.

Upstream: pkg/registry/core/pod/storage/eviction.go.
"""

from __future__ import annotations

from typing import Any

from scheduler.apiserver.deletion import DeleteOptions, Deletion, precondition_failed
from scheduler.apiserver.resources import Registry
from scheduler.apiserver.selectors import label_selector
from scheduler.apiserver.status import JsonObject, StatusError, bad_request, forbidden, not_found
from scheduler.apiserver.storage import Store, Stored
from scheduler.apiserver.strategy import set_condition, timestamp

MAX_DISRUPTED_PODS = 2000
_NO = "Cannot evict pod as it would violate the pod's disruption budget."


def _too_many(cause: str, retry_after: int) -> StatusError:
    details: JsonObject = {"causes": [{"reason": "DisruptionBudget", "message": cause}]}
    if retry_after:
        details["retryAfterSeconds"] = retry_after
    return StatusError(429, "TooManyRequests", _NO, details, retry_after)


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
        if not _ignores_budgets(pod.obj):
            budgets = self._matching(namespace, pod.obj)
            if len(budgets) > 1:
                raise StatusError(
                    500,
                    "",
                    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
                )
            if budgets and not _is_free(pod.obj, budgets[0].obj):
                self._take_one(budgets[0], name, options.dry_run)
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

    def _take_one(self, budget: Stored, pod_name: str, dry_run: bool) -> None:
        """Use up one allowed disruption (checkAndDecrement)."""
        obj, name = budget.obj, budget.obj["metadata"]["name"]
        status = dict(obj.get("status") or {})
        if status.get("observedGeneration", 0) < obj["metadata"].get("generation", 0):
            raise _too_many(f"The disruption budget {name} is still being processed by the server.", 10)
        allowed = status.get("disruptionsAllowed", 0)
        if allowed < 0:
            raise forbidden("policy", "poddisruptionbudget", name, "pdb disruptions allowed is negative")
        if len(status.get("disruptedPods") or {}) > MAX_DISRUPTED_PODS:
            raise forbidden(
                "policy",
                "poddisruptionbudget",
                name,
                "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
            )
        if allowed == 0:
            raise _too_many(_why_not(obj, status, name), 0)
        status["disruptionsAllowed"] = allowed - 1
        if status["disruptionsAllowed"] == 0:
            status["conditions"] = _none_allowed(status.get("conditions") or [], status.get("observedGeneration", 0))
        status["disruptedPods"] = {**(status.get("disruptedPods") or {}), pod_name: timestamp()}
        if not dry_run:
            self._store.update(self._budgets, budget, {**obj, "status": status})


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


def _why_not(obj: JsonObject, status: JsonObject, name: str) -> str:
    condition = _condition(obj, "DisruptionAllowed")
    told = condition.get("status") == "False" and condition.get("message")
    healthy, desired = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
    if told and condition.get("reason") == "SyncFailed":
        return (
            f"The disruption budget {name} does not allow evicting pods currently because it failed sync: "
            f"{condition['message']}"
        )
    if healthy <= desired:
        return f"The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
    if told:
        return (
            f"The disruption budget {name} does not allow evicting pods currently ({condition.get('reason', '')}): "
            f"{condition['message']}"
        )
    return f"The disruption budget {name} does not allow evicting pods currently"


def _ignores_budgets(pod: JsonObject) -> bool:
    phase = (pod.get("status") or {}).get("phase")
    return phase in {"Succeeded", "Failed", "Pending"} or bool(pod["metadata"].get("deletionTimestamp"))


def _is_free(pod: JsonObject, budget: JsonObject) -> bool:
    """An unready pod that doesn't count towards its budget costs nothing."""
    if _condition(pod, "Ready").get("status") == "True":
        return False
    if (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status") or {}
    desired: int = status.get("desiredHealthy", 0)
    healthy: int = status.get("currentHealthy", 0)
    return healthy >= desired > 0


def _precondition(pod: Stored, options: DeleteOptions) -> None:
    """The eviction's own check, which names the kind instead of the resource."""
    name = pod.obj["metadata"]["name"]
    if why := precondition_failed(pod, options):
        text = f'Operation cannot be fulfilled on Pod "{name}": {why}'
        raise StatusError(409, "Conflict", text, {"name": name, "kind": "Pod"})
