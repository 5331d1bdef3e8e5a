"""Reads what the argument of a command is about: a pod, what has pods, or a pod group. As kubectl writes it:
`deploy/web`."""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from podberth.cli.errors import InputError
from podberth.explain.judging.schema import shown
from podberth.explain.objects.controllers import Workload
from podberth.model.pod_group import COSCHEDULING, NATIVE

POD = "a pod's name, or NAMESPACE/NAME"
_ANY = f"{POD}, or KIND/NAME of what has pods, such as deploy/web, job/x or podgroup/train"
_IN_FILE = "a name, or KIND/NAME, such as web or deploy/web"
_PODS = ("pod", "pods", "po")
_KINDS = {
    "Deployment": ("apps", ("deployment", "deployments", "deploy")),
    "ReplicaSet": ("apps", ("replicaset", "replicasets", "rs")),
    "StatefulSet": ("apps", ("statefulset", "statefulsets", "sts")),
    "DaemonSet": ("apps", ("daemonset", "daemonsets", "ds")),
    "Job": ("batch", ("job", "jobs")),
    "CronJob": ("batch", ("cronjob", "cronjobs", "cj")),
    "ReplicationController": ("", ("replicationcontroller", "replicationcontrollers", "rc")),
}
"""Kind → its group, and what it is called on command lines."""
_OWNERS = {
    called: kind
    for kind, (group, names) in _KINDS.items()
    for name in names
    for called in ((name, f"{name}.{group}", f"{name}.v1.{group}") if group else (name,))
}
_GROUPS = {
    "podgroup": "",
    "podgroups": "",
    "pg": "",
    f"podgroup.{NATIVE}": NATIVE,
    f"podgroups.{NATIVE}": NATIVE,
    f"podgroup.{COSCHEDULING}": COSCHEDULING,
    f"podgroups.{COSCHEDULING}": COSCHEDULING,
}


class PodName(NamedTuple):
    """A pod. `space`: what stands before the name, a namespace or a kind that is not known; None without."""

    space: str | None
    name: str


class Owner(NamedTuple):
    """An object that has pods."""

    kind: str
    name: str


class Group(NamedTuple):
    """A pod group. `api`: empty where it was not said."""

    api: str
    name: str


def subject(argument: str, wanted: str = _ANY) -> PodName | Owner | Group:
    """Return what an argument names. `wanted`: what to say was expected. Raises InputError for what has no name."""
    parts = argument.split("/")
    if len(parts) > 2 or not all(part.strip() for part in parts):
        raise InputError(f"{shown(argument)}: expected {wanted}")
    if len(parts) == 1:
        return PodName(None, argument)
    first, name = parts
    kind = first.lower()
    if kind in _OWNERS:
        return Owner(_OWNERS[kind], name)
    if kind in _GROUPS:
        return Group(_GROUPS[kind], name)
    return PodName(None if kind in _PODS else first, name)


def pod_named(argument: str) -> PodName:
    """Return a pod, where nothing else will do. Raises InputError."""
    found = subject(argument, POD)
    if not isinstance(found, PodName):
        raise InputError(f"{shown(argument)}: expected {POD}")
    return found


def in_file(argument: str | None) -> PodName | Owner | Group | None:
    """Return one of the things that a file holds; None where none is named. Raises InputError."""
    return None if argument is None else subject(argument, _IN_FILE)


def chosen(found: Iterable[Workload], asked: PodName | Owner | Group | None) -> list[Workload]:
    """Return those of a file that are meant; all where nothing was asked for. A Rollout may be called `rollout/web`."""
    if asked is None:
        return list(found)
    if isinstance(asked, Group):
        return []
    named = [each for each in found if each.name == asked.name]
    if isinstance(asked, Owner):
        return [each for each in named if each.kind == asked.kind]
    return [each for each in named if _is_kind(asked.space, each)] or named


def namespace_of(asked: PodName | Owner | Group | None, workload: Workload, namespace: str | None) -> str | None:
    """Return what `shop/web` says of the namespace, else what -n says. Raises InputError where they differ."""
    if not isinstance(asked, PodName) or asked.space is None or _is_kind(asked.space, workload):
        return namespace
    return _one(asked, namespace)


def place_of(asked: PodName, namespace: str | None) -> str | None:
    """Return the namespace that a pod's argument or -n names. Raises InputError where they differ."""
    return namespace if asked.space is None else _one(asked, namespace)


def called(asked: PodName | Owner | Group) -> str:
    """Return what is asked for, in messages."""
    kind = asked.kind if isinstance(asked, Owner) else "pod group" if isinstance(asked, Group) else "pod"
    return f"{kind} named {asked.name}"


def unknown(space: str | None, namespaces: Collection[str]) -> str:
    """Return what to say of a word before a name that is neither; nothing where it is a namespace, or none is known."""
    if space is None or not namespaces or space in namespaces:
        return ""
    return f": {space} is no namespace there, and no kind whose pods are known (deploy, rs, sts, ds, job, cj, rc)"


def _one(asked: PodName, namespace: str | None) -> str | None:
    if namespace and namespace != asked.space:
        raise InputError(f"{asked.space}/{asked.name}: the pod's namespace is {asked.space}, and -n says {namespace}")
    return asked.space


def _is_kind(word: str | None, workload: Workload) -> bool:
    kind = workload.kind.lower()
    return word is not None and word.lower() in (kind, f"{kind}s")
