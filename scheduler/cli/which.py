"""Which pods a command is about, when it is about several: those that wait, of a namespace, an owner or a selector."""

from collections.abc import Callable, Iterable, Mapping

from scheduler.apiserver.selectors import parse_labels
from scheduler.apiserver.status import StatusError
from scheduler.cli.errors import InputError
from scheduler.framework.spelling import near_names
from scheduler.model.pod import Pod
from scheduler.whatif.judging.schema import shown
from scheduler.whatif.pending import owner_of
from scheduler.whatif.world import World

_ALIASES = {
    "Deployment": ("deployment", "deployments", "deploy", "deployment.apps", "deployments.apps"),
    "ReplicaSet": ("replicaset", "replicasets", "rs"),
    "StatefulSet": ("statefulset", "statefulsets", "sts"),
    "DaemonSet": ("daemonset", "daemonsets", "ds"),
    "Job": ("job", "jobs"),
    "CronJob": ("cronjob", "cronjobs", "cj"),
    "ReplicationController": ("replicationcontroller", "replicationcontrollers", "rc"),
}
_KINDS = {alias: kind for kind, aliases in _ALIASES.items() for alias in aliases}
_MADE_BY = {"Deployment": "ReplicaSet", "CronJob": "Job"}
"""Kinds whose pods are owned by an object of another kind, named after it with a suffix."""


def owner(argument: str) -> tuple[str, str] | None:
    """(kind, name) of `deploy/web`; None for the name of a pod, with its namespace or without."""
    first, slash, name = argument.partition("/")
    kind = _KINDS.get(first.lower()) if slash else None
    return (kind, name) if kind is not None else None


def labelled(selector: str | None) -> Callable[[Mapping[str, str]], bool]:
    """Whether labels are those of `--selector`; without one, all are. Raises InputError."""
    try:
        matches = parse_labels(selector) if selector else None
    except (ValueError, StatusError) as error:
        raise InputError(f"--selector: {shown(selector)}: {error}") from None
    return matches or (lambda labels: True)


def waiting(world: World, *, namespace: str | None, of: tuple[str, str] | None, selector: str | None) -> list[Pod]:
    """The pods that wait; `namespace` None: of all namespaces. Raises InputError."""
    found = _of(world.waiting.values(), namespace, of, selector)
    if found or of is None:
        return found
    if _of(world.placed.values(), namespace, of, selector):
        return []
    kind, name = of
    owners = {
        owner_of(pod).rpartition("/")[2] for pod in (*world.waiting.values(), *world.placed.values()) if pod.owner
    }
    stems = {each.rpartition("-")[0] if kind in _MADE_BY else each for each in owners}
    near = near_names(name, sorted(stems))
    where = f"in namespace {namespace}" if namespace else "in any namespace"
    said = f" (did you mean {', '.join(near)}?)" if near else ""
    raise InputError(f"{kind} {name}: no pod {where} is owned by it{said}")


def anybody(world: World, selector: str) -> bool:
    """Whether any pod has these labels, placed or not. Raises InputError."""
    return any(_of(pods.values(), None, None, selector) for pods in (world.waiting, world.placed))


def _of(pods: Iterable[Pod], namespace: str | None, of: tuple[str, str] | None, selector: str | None) -> list[Pod]:
    matches = labelled(selector)
    return [
        pod
        for pod in pods
        if (namespace is None or pod.namespace == namespace) and (of is None or _owned(pod, of)) and matches(pod.labels)
    ]


def _owned(pod: Pod, of: tuple[str, str]) -> bool:
    if pod.owner is None:
        return False
    kind, name = of
    if kind in _MADE_BY:
        return pod.owner[0] == _MADE_BY[kind] and pod.owner[1].rpartition("-")[0] == name
    return pod.owner[:2] == (kind, name)
