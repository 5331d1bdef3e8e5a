"""Which pods a command is about, when it is about several: those that wait, of a namespace, an owner or a selector."""

from collections.abc import Iterable, Iterator
from itertools import chain

from podberth.cli.errors import InputError
from podberth.cli.options import labels
from podberth.cli.subject import Owner
from podberth.explain.objects.world import World
from podberth.explain.report.wording import some
from podberth.explain.spelling import near_names
from podberth.model.pod import Pod

_LISTED = 8
_MADE_BY = {"Deployment": "ReplicaSet", "CronJob": "Job"}
"""Kinds whose pods are owned by an object of another kind, named after it with a suffix."""


def home(world: World, of: Owner, usual: str) -> str | None:
    """The namespace of an owner that was named without one: the usual one, else the only one that has it.

    None where nobody is owned by it. Raises InputError.
    """
    spaces = sorted({pod.namespace for pod in _all(world) if _owned(pod, of)})
    if usual in spaces:
        return usual
    if len(spaces) > 1:
        raise InputError(f"{of.kind} {of.name}: there is one in {some(spaces, _LISTED)}: say which with -n")
    return next(iter(spaces), None)


def waiting(world: World, *, namespace: str | None, of: Owner | None, selector: str | None) -> list[Pod]:
    """The pods that wait; `namespace` None: of all namespaces. Raises InputError."""
    found = _of(world.waiting.values(), namespace, of, selector)
    if found or of is None or any(_owned(pod, of) for pod in _all(world) if namespace in (None, pod.namespace)):
        return found
    where = f"in namespace {namespace}" if namespace else "in any namespace"
    raise InputError(f"{of.kind} {of.name}: no pod {where} is owned by it{_meant(world, of)}")


def _meant(world: World, of: Owner) -> str:
    """Return where else it is, or how it is perhaps spelt."""
    elsewhere = sorted({pod.namespace for pod in _all(world) if _owned(pod, of)})
    if elsewhere:
        return f"; there is one in {some(elsewhere, _LISTED)}"
    by = _MADE_BY.get(of.kind, of.kind)
    owners = {pod.owner[1] for pod in _all(world) if pod.owner and pod.owner[0] == by}
    names = {each.rpartition("-")[0] if of.kind in _MADE_BY else each for each in owners}
    near = near_names(of.name, sorted(filter(None, names)))
    return f" (did you mean {', '.join(near)}?)" if near else ""


def why_none(world: World, namespace: str | None, of: Owner | None, selector: str | None) -> Iterator[str]:
    """Yield what to say where none of the pods that are asked about waits."""
    if of is not None and selector is None:
        yield f"{of.kind} {f'{namespace}/' if namespace else ''}{of.name}: all its pods have nodes"
    if of is None and namespace is not None:
        more = len(waiting(world, namespace=None, of=None, selector=selector))
        absent = _no_namespace(world, namespace)
        yield f"no pod waits in the namespace {namespace}{absent}; in all namespaces (-A): {more:,}"
    if selector is not None and not _of(_all(world), None, None, selector):
        yield f"no pod at all has these labels: {selector}"


def _no_namespace(world: World, name: str) -> str:
    """Return what to say of a namespace that is not there; nothing where it is, or where namespaces are not known."""
    known = world.cluster.namespaces
    if not known or name in known:
        return ""
    near = near_names(name, sorted(known))
    meant = f" (did you mean {', '.join(near)}?)" if near else ""
    return f", which does not exist{meant}"


def _all(world: World) -> Iterator[Pod]:
    return chain(world.waiting.values(), world.placed.values())


def _of(pods: Iterable[Pod], namespace: str | None, of: Owner | None, selector: str | None) -> list[Pod]:
    matches = None if selector is None else labels(selector)
    return [
        pod
        for pod in pods
        if (namespace is None or pod.namespace == namespace)
        and (of is None or _owned(pod, of))
        and (matches is None or matches(pod.labels))
    ]


def _owned(pod: Pod, of: Owner) -> bool:
    if pod.owner is None:
        return False
    kind, name = of
    if kind in _MADE_BY:
        return pod.owner[0] == _MADE_BY[kind] and pod.owner[1].rpartition("-")[0] == name
    return pod.owner[:2] == (kind, name)
