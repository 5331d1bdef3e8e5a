"""A pod as a person wrote it, completed as the API server would on creation: defaults, and what admission adds.

Mirrors `pkg/apis/core/v1/defaults.go` (requests from limits, host ports of host-network pods)
and the admission plugins Priority and DefaultTolerationSeconds. LimitRange and RuntimeClass are not applied.
A workload's manifest stands for the pod that it would create.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from scheduler.whatif.documents import Document, ObjectError, plain
from scheduler.whatif.templates import KINDS, makes_no_pods, number_of_pods, path_of, templates
from scheduler.whatif.world import PriorityClass

_SYSTEM_PRIORITIES = {
    "system-cluster-critical": PriorityClass(value=2_000_000_000),
    "system-node-critical": PriorityClass(value=2_000_001_000),
}
_UNREACHABLE = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_SECONDS = 300


class Workload(NamedTuple):
    """What makes pods: a pod itself, or an object with a template of them.

    `wanted`: how many; None for a DaemonSet, which wants one on each node. `claims`: those that a StatefulSet makes for
    each pod; its pods are numbered from `start`.
    """

    kind: str
    name: str
    place: str
    pod: dict[str, Any]
    wanted: int | None = 1
    claims: Sequence[Mapping[str, Any]] = ()
    start: int = 0

    @property
    def alone(self) -> bool:
        """Whether it is one pod, which has the name that it was given."""
        return self.kind in ("Pod", "PodTemplate")

    def named(self, number: int) -> str:
        """The name of one of its pods."""
        return self.name if self.alone else f"{self.prefix}{self.start + number}"

    @property
    def prefix(self) -> str:
        """What the names of its pods begin with, before their numbers."""
        return f"{self.name}-"


def workloads(documents: Iterable[Document]) -> list[Workload]:
    """What makes pods in a file, in its order.

    Raises ObjectError.
    """
    found: list[Workload] = []
    for document in documents:
        if not makes_no_pods(document.kind):
            found += _workloads(document.kind, plain(document), document.place)
    return found


def pods(documents: Iterable[Document]) -> list[dict[str, Any]]:
    """The pods in a file, those of templates named after their workload.

    Raises ObjectError.
    """
    return [workload.pod for workload in workloads(documents)]


def without_pods(documents: Iterable[Document]) -> list[str]:
    """Objects of kinds that may make pods in a way that is not known here."""
    strange = []
    for document in documents:
        kind, _, place = document
        if kind not in KINDS and not makes_no_pods(kind):
            whole = plain(document)
            if not templates(kind, whole):
                metadata = whole.get("metadata")
                name = metadata.get("name", "?") if isinstance(metadata, dict) else "?"
                strange.append(
                    f"{f'{place}: ' if place else ''}{kind} {name}: it has no pod template that is known here"
                )
    return strange


def _workloads(kind: str, whole: Any, place: str) -> Iterable[Workload]:
    where = f"{place}: " if place else ""
    metadata = _mapping(whole.get("metadata"), f"{where}metadata")
    namespace = metadata.get("namespace")
    if namespace is not None and not isinstance(namespace, str):
        raise ObjectError(f"{where}{kind} {metadata.get('name', '?')}: metadata.namespace: expected text")
    name = str(metadata.get("name") or metadata.get("generateName") or "pod").removesuffix("-")
    found = templates(kind, whole)
    if not found and kind in KINDS:
        raise ObjectError(f"{where}{kind} {metadata.get('name', '?')}: {path_of(kind)}: expected a mapping")
    for number, template in enumerate(found):
        pod = template.pod
        called = f"{name}-{number}" if len(found) > 1 else name
        if kind != "Pod":
            own = _mapping(pod.get("metadata"), f"{where}{template.path}.metadata")
            kept = {key: own[key] for key in ("labels", "annotations") if key in own}
            pod = {**pod, "metadata": {"name": called, "namespace": namespace, **kept}}
        spec = pod.get("spec")
        if not isinstance(spec, dict) or not spec.get("containers"):
            field = "spec.containers" if isinstance(spec, dict) else "spec"
            raise ObjectError(f"{where}{kind} {metadata.get('name', '?')}: {field}: Required value")
        try:
            count = None if kind == "DaemonSet" else number_of_pods(kind, template)
        except ObjectError as error:
            raise ObjectError(f"{where}{kind}: {error}") from None
        claims = template.beside.get("volumeClaimTemplates") or () if kind == "StatefulSet" else ()
        if not isinstance(claims, list | tuple) or not all(isinstance(each, dict) for each in claims):
            raise ObjectError(f"{where}{kind}: spec.volumeClaimTemplates: expected a list of mappings")
        ordinals = template.beside.get("ordinals") if kind == "StatefulSet" else None
        start = ordinals.get("start", 0) if isinstance(ordinals, dict) else 0
        yield Workload(kind, called, place, {"apiVersion": "v1", **pod, "kind": "Pod"}, count, claims, start)


def completed(
    pod: Mapping[str, Any],
    namespace: str | None,
    usual: str,
    priority_classes: Mapping[str, PriorityClass],
    notes: list[str],
) -> dict[str, Any]:
    """The pod with what the API server would add, in `namespace`, else its own, else the `usual` one.

    `notes` gets what is not known. Raises ObjectError.
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
    if name is not None and not isinstance(name, str):
        raise ObjectError("spec.priorityClassName: expected text")
    if name:
        found = classes.get(name) or _SYSTEM_PRIORITIES.get(name)
        if found is None:
            notes.append(f"the PriorityClass {name} is not known: the pod counts as priority 0")
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
