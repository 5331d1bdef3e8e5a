"""A pod as a person wrote it, completed as the API server would on creation: defaults, and what admission adds.

Mirrors `pkg/apis/core/v1/defaults.go` (requests from limits, host ports of host-network pods)
and the admission plugins Priority and DefaultTolerationSeconds. LimitRange and RuntimeClass are not applied.
A workload's manifest stands for the pod that it would create.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from scheduler.whatif.documents import Document, ObjectError
from scheduler.whatif.world import PriorityClass

_TEMPLATES = {
    "Deployment": ("spec", "template"),
    "ReplicaSet": ("spec", "template"),
    "StatefulSet": ("spec", "template"),
    "DaemonSet": ("spec", "template"),
    "Job": ("spec", "template"),
    "ReplicationController": ("spec", "template"),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
    "PodTemplate": ("template",),
}
KINDS = ("Pod", *_TEMPLATES)
_SYSTEM_PRIORITIES = {
    "system-cluster-critical": PriorityClass(value=2_000_000_000),
    "system-node-critical": PriorityClass(value=2_000_001_000),
}
_UNREACHABLE = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_SECONDS = 300


def pods(documents: Iterable[Document]) -> list[dict[str, Any]]:
    """The pods in a file, those of templates named after their workload.

    Raises ObjectError.
    """
    found = []
    for kind, raw, place in documents:
        if kind not in KINDS:
            continue
        whole = msgspec.json.decode(raw)
        where = f"{place}: " if place else ""
        metadata = _mapping(whole.get("metadata"), f"{where}metadata")
        pod: Any = whole
        for i, step in enumerate(_TEMPLATES.get(kind, ())):
            pod = _mapping(pod.get(step), f"{where}{'.'.join(_TEMPLATES[kind][: i + 1])}")
        if kind != "Pod":
            own = _mapping(pod.get("metadata"), f"{where}template.metadata")
            kept = {key: own[key] for key in ("labels", "annotations") if key in own}
            pod = {**pod, "metadata": {"name": metadata.get("name"), "namespace": metadata.get("namespace"), **kept}}
        spec = pod.get("spec")
        if not isinstance(spec, dict) or not spec.get("containers"):
            field = "spec.containers" if isinstance(spec, dict) else "spec"
            raise ObjectError(f"{where}{kind} {metadata.get('name', '?')}: {field}: Required value")
        found.append({"apiVersion": "v1", **pod, "kind": "Pod"})
    return found


def replicas(document: Document) -> int | None:
    """How many pods a workload wants, None for a pod itself.

    Raises ObjectError.
    """
    kind, raw, place = document
    if kind in ("Pod", "PodTemplate"):
        return None
    where = f"{place}: " if place else ""
    if kind == "DaemonSet":
        raise ObjectError(f"{where}DaemonSet: wants a pod on each node, which is not simulated: expected the pods")
    field = "parallelism" if kind == "Job" else "replicas"
    spec = _mapping(msgspec.json.decode(raw).get("spec"), f"{where}spec")
    found = spec.get(field, 1)
    if not isinstance(found, int) or isinstance(found, bool) or found < 0:
        raise ObjectError(f"{where}{kind}: spec.{field}: {found!r}: expected a whole number, 0 or more")
    return found


def completed(
    pod: Mapping[str, Any],
    namespace: str | None,
    usual: str,
    priority_classes: Mapping[str, PriorityClass],
    notes: list[str],
) -> dict[str, Any]:
    """The pod with what the API server would add, in `namespace`, else its own, else the `usual` one.

    `notes` gets what is not known.
    """
    metadata = {key: value for key, value in (pod.get("metadata") or {}).items() if value is not None}
    metadata.setdefault("name", metadata.pop("generateName", "pod"))
    spec = dict(pod["spec"])
    metadata["namespace"] = namespace or metadata.get("namespace") or usual
    for field in ("containers", "initContainers"):
        if isinstance(spec.get(field), list):
            spec[field] = [_container(each, host=spec.get("hostNetwork") is True) for each in spec[field]]
    _tolerate_failing_nodes(spec)
    _prioritise(spec, priority_classes, notes)
    return {**pod, "kind": "Pod", "metadata": metadata, "spec": spec}


def _container(container: Any, *, host: bool) -> Any:
    """Requests default to limits; on the host's network every container port is a host port."""
    if not isinstance(container, dict):
        return container
    done = dict(container)
    resources = done.get("resources")
    if isinstance(resources, dict) and isinstance(resources.get("limits"), dict):
        requests = resources.get("requests") or {}
        if isinstance(requests, dict):
            done["resources"] = {**resources, "requests": {**resources["limits"], **requests}}
    if isinstance(done.get("ports"), list):
        done["ports"] = [_port(port, host=host) for port in done["ports"]]
    return done


def _port(port: Any, *, host: bool) -> Any:
    if not isinstance(port, dict):
        return port
    done = {"protocol": "TCP", **port}
    if host and not done.get("hostPort"):
        done["hostPort"] = done.get("containerPort", 0)
    return done


def _tolerate_failing_nodes(spec: dict[str, Any]) -> None:
    """DefaultTolerationSeconds: five minutes on a node that is not ready or unreachable."""
    tolerations = spec.get("tolerations") or []
    if not isinstance(tolerations, list):
        return
    added = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _SECONDS}
        for key in _UNREACHABLE
        if not any(isinstance(t, dict) and t.get("key") in (key, None, "") and _no_execute(t) for t in tolerations)
    ]
    spec["tolerations"] = [*tolerations, *added]


def _no_execute(toleration: Mapping[str, Any]) -> bool:
    return toleration.get("effect") in ("NoExecute", None, "")


def _prioritise(spec: dict[str, Any], classes: Mapping[str, PriorityClass], notes: list[str]) -> None:
    """Priority: the class's value, else that of the global default, else 0."""
    if spec.get("priority") is not None:
        return
    name = spec.get("priorityClassName")
    if name:
        found = classes.get(name) or _SYSTEM_PRIORITIES.get(name)
        if found is None:
            notes.append(f"there is no PriorityClass {name} among the objects: the pod counts as priority 0")
    else:
        found = max((c for c in classes.values() if c.global_default), key=lambda c: c.value, default=None)
    if found is not None:
        spec["priority"] = found.value
        if found.preemption_policy and not spec.get("preemptionPolicy"):
            spec["preemptionPolicy"] = found.preemption_policy


def _mapping(value: Any, path: str) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ObjectError(f"{path}: expected a mapping")
    return value
