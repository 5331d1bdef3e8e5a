"""Does what the API server does to a pod that is created, on the classes, limits and quotas of a cluster.

It is done as the embedded API server does it (`podberth.apiserver.rules.plugins.created`), which tests hold to the
real one. A class that is not among the objects refuses nothing here: dumps seldom have it.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from podberth.apiserver.rules import defaults, plugins, validation
from podberth.apiserver.rules.plugins import Surroundings, created
from podberth.apiserver.rules.podgroups import PRIORITY_CLASSES
from podberth.apiserver.rules.status import StatusError, decoding
from podberth.explain.objects.documents import Document, ObjectError, located, named
from podberth.model.pod import Pod

Object = dict[str, Any]
_PRIORITY = ("priority", "preemptionPolicy")
_NOT_THERE = {
    "priorityClassName": "there is no PriorityClass {} among the objects: the pod counts as priority 0",
    "runtimeClassName": "there is no RuntimeClass {} among the objects: what it adds to its pods is not known",
}
KINDS = ("PriorityClass", "RuntimeClass", "LimitRange", "ResourceQuota")


class RefusedError(ObjectError):
    """The API server would refuse to create a pod."""


class Admission:
    """The objects that admission reads. `of_kind`: kind → namespace (empty for classes) → name → object."""

    def __init__(self) -> None:
        system = {
            name: {"metadata": {"name": name}, "value": value, "preemptionPolicy": "PreemptLowerPriority"}
            for name, (value, _) in PRIORITY_CLASSES.items()
        }
        self.of_kind: dict[str, dict[str, dict[str, Object]]] = {kind: {} for kind in KINDS}
        self.of_kind["PriorityClass"][""] = system
        self._knows_priorities = False

    def add(self, document: Document) -> None:
        """Add an object of one of `KINDS`. Raises ObjectError."""
        kind, (found, namespace, name) = document.kind, named(document)
        try:
            defaults.apply(kind, found)
        except StatusError as error:
            raise ObjectError(located(document.place, f"{kind} {name}: {error.message}")) from None
        classed = kind in ("PriorityClass", "RuntimeClass")
        space = "" if classed else namespace
        self._knows_priorities |= kind == "PriorityClass"
        self.of_kind[kind].setdefault(space, {})[name] = found

    def created(self, pod: Mapping[str, Any], notes: list[str]) -> Object:
        """Return the pod as it would be stored; `notes` gets what is not known. Raises RefusedError."""
        around = Surroundings(
            self.of_kind["PriorityClass"][""],
            self.of_kind["RuntimeClass"].get("", {}),
            self._of("LimitRange", pod["metadata"]["namespace"]),
        )
        spec, kept = dict(pod["spec"]), dict[str, Any]()
        unknown = () if self._knows_priorities else _PRIORITY
        for field, known, with_it in (
            ("priorityClassName", around.priority_classes, _PRIORITY),
            ("runtimeClassName", around.runtime_classes, ("overhead",)),
        ):
            name = spec.get(field)
            if name is not None and not isinstance(name, str):
                raise ObjectError(f"spec.{field}: expected text")
            if name and name not in known:
                unknown = (*unknown, field, *with_it)
                if not any(spec.get(each) for each in with_it):
                    notes.append(_NOT_THERE[field].format(name))
        for field in unknown:
            if spec.get(field) is not None:
                kept[field] = spec[field]
        try:
            made = created({**pod, "spec": {key: value for key, value in spec.items() if key not in kept}}, around)
        except StatusError as error:
            raise RefusedError(f"the API server refuses its pods: {error.message}") from None
        if "priorityClassName" in kept:
            made["spec"] |= {"priority": 0, "preemptionPolicy": "PreemptLowerPriority"}
        made["spec"] |= kept
        return made

    def wrong(self, pod: Mapping[str, Any]) -> set[str]:
        """Return the validation errors of a pod as it would be stored."""
        try:
            with decoding("v1", "Pod"):
                return {f"{each.field}: {each.text()}" for each in validation.pod(dict(pod))}
        except StatusError as error:
            return {error.message}

    def quotas(self, namespace: str, there: Iterable[Pod]) -> list[Object]:
        """Return copies of a namespace's quotas, in which the caller may go on counting.

        `there`: the pods of the cluster, which count where a quota does not say itself how much is used.
        """
        found = []
        for quota in self._of("ResourceQuota", namespace):
            spec, status = quota.get("spec") or {}, quota.get("status") or {}
            hard = dict(status.get("hard") or spec.get("hard") or {})
            used = dict(status["used"]) if status.get("used") else _used(hard, namespace, there)
            found.append({**quota, "status": {"hard": hard, "used": used}})
        return found

    def _of(self, kind: str, namespace: str) -> list[Object]:
        known = self.of_kind[kind].get(namespace, {})
        return [known[name] for name in sorted(known)]


def lets(pod: Object, number: int, known: list[Object]) -> plugins.Verdict | None:
    """Return what quotas refuse of this many equal pods; those that they allow count from now on. None: nothing."""
    verdict = plugins.allowed(pod, number, known)
    plugins.charge(pod, number if verdict is None else verdict.allowed, known)
    return verdict


def _used(hard: Object, namespace: str, there: Iterable[Pod]) -> Object:
    """Return what the pods of a namespace use of a quota, as far as that is known: their number and requests."""
    pods = [pod for pod in there if pod.namespace == namespace]
    used = {}
    for name in hard:
        resource = name.removeprefix("requests.")
        if name in ("pods", "count/pods"):
            used[name] = str(len(pods))
        elif not name.startswith("limits."):
            total = sum(pod.shape.requests.get(resource, 0) for pod in pods)
            used[name] = f"{total}m" if resource == "cpu" else str(total)
    return used
