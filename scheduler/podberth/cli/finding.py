"""Finds what a command is asked about, in a cluster or in a file: a pod, the pods of an owner, or a pod group."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from msgspec.structs import replace

from podberth.cli.errors import InputError, about, complain
from podberth.cli.inputs import STDIN, named
from podberth.cli.options import labels
from podberth.cli.subject import Group, Owner, PodName, called, chosen, namespace_of, place_of, unknown
from podberth.explain.doubts import lack
from podberth.explain.gangs.gang import Gang, gang_of
from podberth.explain.objects import manifest
from podberth.explain.objects.controllers import KINDS, Workload, path_of
from podberth.explain.objects.documents import Document, ObjectError
from podberth.explain.objects.world import World
from podberth.explain.report.wording import some
from podberth.explain.simulate.arrivals import Batch, quota_notes
from podberth.explain.spelling import meant, near_names
from podberth.explain.written import Written, creates, of_cluster
from podberth.model.pod import Pod
from podberth.model.pod_group import COSCHEDULING, NATIVE, POD_GROUP_KINDS, GroupKey, PodGroup

_LISTED = 8
_MADE_BY = {"Deployment": "ReplicaSet", "CronJob": "Job"}
"""Kinds whose pods are owned by an object of another kind, named after it with a suffix."""

# --- pods that wait ---------------------------------------------------------------------------------------------------


def home(world: World, of: Owner, usual: str) -> str | None:
    """Return the namespace of an owner that was named without one: the usual one, else the only one that has it.

    None where nobody is owned by it. Raises InputError.
    """
    spaces = sorted({pod.namespace for pod in _all(world) if _owned(pod, of)})
    if usual in spaces:
        return usual
    if len(spaces) > 1:
        raise InputError(f"{of.kind} {of.name}: there is one in {some(spaces, _LISTED)}: say which with -n")
    return next(iter(spaces), None)


def waiting(world: World, *, namespace: str | None, of: Owner | None, selector: str | None) -> list[Pod]:
    """Return the pods that wait; `namespace` None: of all namespaces. Raises InputError."""
    found = _of(world.waiting.values(), namespace, of, selector)
    if found or of is None or any(_owned(pod, of) for pod in _all(world) if namespace in (None, pod.namespace)):
        return found
    where = f"in namespace {namespace}" if namespace else "in any namespace"
    raise InputError(f"{of.kind} {of.name}: no pod {where} is owned by it{_meant(world, of)}")


def _meant(world: World, of: Owner) -> str:
    """Return a text that says where else it is, or how it is perhaps spelt."""
    elsewhere = sorted({pod.namespace for pod in _all(world) if _owned(pod, of)})
    if elsewhere:
        return f"; there is one in {some(elsewhere, _LISTED)}"
    by = _MADE_BY.get(of.kind, of.kind)
    owners = {pod.owner[1] for pod in _all(world) if pod.owner and pod.owner[0] == by}
    names = {each.rpartition("-")[0] if of.kind in _MADE_BY else each for each in owners}
    return meant(near_names(of.name, sorted(filter(None, names))))


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
    return f", which does not exist{meant(near_names(name, sorted(known)))}"


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


# --- one pod ----------------------------------------------------------------------------------------------------------


class Asked(NamedTuple):
    """The pod, as if it waited; the node that it was taken off for the question; and how it was written, if known.

    `each`: of a DaemonSet, node → its pod for it, where it has to run and does not yet.
    """

    pod: Pod
    node: str | None
    written: Written | None = None
    each: Mapping[str, Pod] = {}


def from_cluster(
    asked: PodName,
    namespace: str | None,
    world: World,
    where: str,
    usual: str = "default",
    *,
    look: Callable[[Pod], None] = lambda placed: None,
) -> Asked:
    """Return a pod of a cluster, waiting or placed; `look` sees a placed one before it is taken off its node.

    Without a namespace the `usual` one is looked in first; else a name that only one pod has will do.

    Raises InputError.
    """
    name, namespace = asked.name, place_of(asked, namespace)
    key = f"{namespace}/{name}"
    if namespace is None:
        keys = [key for key in _keys(world) if key.partition("/")[2] == name]
        here = f"{usual}/{name}"
        key = here if here in keys or not keys else keys[0]
        if len(keys) > 1 and key != here:
            raise InputError(f"{name}: more than one pod has this name: {some(keys, _LISTED)}; say which with -n")
    if key in world.finished:
        raise InputError(f"{key}: the pod has finished, there is nothing to schedule")
    if key in world.waiting:
        pod = world.waiting[key]
        return Asked(pod, None, of_cluster(pod, world))
    if key in world.placed:
        pod = world.placed[key]
        look(pod)
        world.take(pod)
        return Asked(replace(pod, node_name=""), pod.node_name)
    names = near_names(name, (key.partition("/")[2] for key in _keys(world)))
    near = [key for close in names for key in _keys(world) if key.partition("/")[2] == close]
    hint = f" (did you mean {some(near, _LISTED)}?)" if near else unknown(asked.space, world.cluster.namespaces)
    raise InputError(f"{key}: no such pod in {where}{hint}")


def from_file(
    file: str,
    held: list[Document],
    asked: PodName | Owner | Group | None,
    namespace: str | None,
    world: World,
    notes: list[str],
    usual: str,
) -> Asked:
    """Return the pod (or the first of a workload) of a manifest, completed as the API server would on creation.

    What stands beside it in the file is added to the world, and the claims that a StatefulSet makes for it.

    Raises InputError.
    """
    with about(named(file)):
        found = manifest.workloads(held)
        if not found:
            strange = manifest.unknown_kinds(held)
            raise ObjectError("\n".join(strange) or f"holds no pod: expected one of {', '.join(KINDS)}")
        named_ones = chosen(found, asked)
        if len(named_ones) != 1:
            known = some([each.name for each in found], _LISTED)
            raise ObjectError(f"expected one {called(asked)}, got {known}" if asked else f"holds {known}: name one")
        [asked_for] = named_ones
        namespace = namespace_of(asked, asked_for, namespace)
        complain(world.add_beside(held, namespace or usual))
        workload = asked_for if asked_for.claims else asked_for._replace(kind="PodTemplate")
        batch = Batch(workload, world, namespace, usual)
        for thing in batch.objects(0):
            world.add(thing)
        pod = batch.pod(0)
        if batch.find_nodes() and not batch.nodes:
            raise ObjectError(
                f"{asked_for.kind} {asked_for.name}: all its nodes have its pod, there is nothing to schedule"
            )
        each = {node: batch.pod(number) for number, node in enumerate(batch.nodes)}
        notes += [*batch.notes, *quota_notes([batch], world, 1)]
        unreadable = [warning for warning in pod.shape.warnings if "not a quantity" in warning]
        if unreadable:
            raise ObjectError("\n".join(unreadable))
    placed = world.placed.get(pod.key)
    if placed is not None:
        world.take(placed)
    alone = len(held) == 1 and file != STDIN and asked_for.kind in KINDS
    written = _written(file, asked_for, world, namespace, usual) if alone else None
    return Asked(replace(pod, node_name=""), placed.node_name if placed else None, written, each)


def _written(file: str, workload: Workload, world: World, namespace: str | None, usual: str) -> Written:
    """Return the pod as it stands in a file."""

    def whole(pod: Mapping[str, Any]) -> dict[str, Any]:
        return manifest.completed(workload.made(pod, 0), namespace, usual, world.admission, [])

    now = whole(workload.pod)
    create = creates(world, whole, now)
    steps = path_of(workload.kind).split(".") if workload.kind != "Pod" else []
    return Written(workload.pod, create, create, now, file, "".join(f"/{step}" for step in (*steps, "spec")))


def _keys(world: World) -> list[str]:
    return sorted((*world.waiting, *world.placed, *world.finished))


# --- pod groups -------------------------------------------------------------------------------------------------------

MEMBERS = 10_000
"""Pods of one workload of a file that are looked at as members."""
_PODGROUP = "PodGroup"


def holds_group(held: Iterable[Document]) -> bool:
    """Return whether a file holds a PodGroup."""
    return any(document.kind == _PODGROUP for document in held)


def find_group(asked: Group, namespace: str | None, world: World, where: str, usual: str) -> Gang:
    """Return a group of a cluster, with its pods. Raises InputError."""
    known = {key for state in world.cluster.pod_groups if (key := state.key) and state.object is not None}
    inside = namespace or usual
    apis = {asked.api} if asked.api else {NATIVE, COSCHEDULING}
    fitting = [key for key in known if key.name == asked.name and key.api in apis]
    here = [key for key in fitting if key.namespace == inside]
    found = here or ([] if namespace else fitting)
    if len({key.namespace for key in found}) > 1:
        raise InputError(f"{asked.name}: more than one pod group has this name: {_list(found)}; say which with -n")
    if len(found) > 1:
        raise InputError(
            f"{asked.name}: there is one in {NATIVE} and one in {COSCHEDULING}: "
            f"name podgroup.{NATIVE}/{asked.name} or podgroup.{COSCHEDULING}/{asked.name}"
        )
    gang = gang_of(found[0], world.cluster) if found else None
    if gang is None:
        hint = meant(near_names(asked.name, sorted(key.name for key in known)))
        lacks = f": {lack([_PODGROUP])}" if world.dump and not world.holds(_PODGROUP) else ""
        raise InputError(f"{_PODGROUP} {inside}/{asked.name}: no such pod group in {where}{hint}{lacks}")
    return gang


def group_of_named(
    held: Iterable[Document],
    workloads: Iterable[Workload],
    asked: PodName | Owner | Group | None,
    namespace: str | None,
    world: World,
    usual: str,
) -> tuple[Group, str | None] | None:
    """Return the pod group of a file to which the pods of a named workload belong, and the namespace that was asked
    for.

    None: nothing is named, or its pods belong to no pod group of the file. Raises InputError, ObjectError.
    """
    named_ones = [] if asked is None else chosen(workloads, asked)
    if len(named_ones) != 1:
        return None
    [workload] = named_ones
    inside = namespace_of(asked, workload, namespace)
    metadata = workload.pod.get("metadata") or {}
    metadata = {**metadata, "name": workload.name, "namespace": metadata.get("namespace") or inside or usual}
    pod = world.decode({**workload.pod, "metadata": metadata})
    assert isinstance(pod, Pod)
    key = pod.scheduling_group
    groups = (document for document in held if document.kind in POD_GROUP_KINDS)
    shown = (world.as_shown(each.kind, each.raw, each.place, inside or usual) for each in groups)
    if key is None or key not in {group.key for group in shown if isinstance(group, PodGroup)}:
        return None
    return Group(key.api, key.name), inside


def group_from_file(
    file: str,
    held: list[Document],
    asked: Group | None,
    namespace: str | None,
    world: World,
    notes: list[str],
    usual: str,
) -> Gang:
    """Return a group of a file, with the pods that name it there and in the cluster. Raises InputError."""
    with about(named(file)):
        key = group_meant(add_groups(held, namespace, world, usual), asked)
        for workload in manifest.workloads(held):
            batch = Batch(workload, world, namespace, usual)
            if batch.count and batch.pod(0).scheduling_group == key:
                notes += [*add_members(batch, world), *batch.notes]
    gang = gang_of(key, world.cluster)
    assert gang is not None
    return gang


def add_groups(held: Sequence[Document], namespace: str | None, world: World, usual: str) -> list[GroupKey]:
    """Add the pod groups of a file to a cluster, and what stands beside their pods; their keys. Raises ObjectError."""
    keys = []
    complain(world.add_beside(held, namespace or usual))
    for document in held:
        if document.kind in POD_GROUP_KINDS:
            group = world.as_shown(document.kind, document.raw, document.place, namespace or usual)
            assert isinstance(group, PodGroup)
            if namespace and group.namespace != namespace:
                raise ObjectError(
                    f"{document.kind} {group.name}: metadata.namespace: {group.namespace}: expected {namespace}, "
                    "as --namespace says"
                )
            world.add(group)
            keys.append(group.key)
    return keys


def group_meant(keys: Iterable[GroupKey], asked: PodName | Owner | Group | None) -> GroupKey:
    """Return the one of a file's pod groups that is asked for, or that is alone there. Raises ObjectError."""
    api = asked.api if isinstance(asked, Group) else ""
    found = [key for key in keys if asked is None or (key.name == asked.name and api in ("", key.api))]
    if len(found) != 1:
        which = f"no pod group named {asked.name}" if asked and not found else f"{_list(found)}: name one"
        raise ObjectError(f"holds {which}")
    return found[0]


def add_members(batch: Batch, world: World) -> list[str]:
    """Have the pods of a workload wait in a cluster; what to say of those that were left out."""
    for number in range(min(batch.count, MEMBERS)):
        for thing in batch.objects(number):
            world.add(thing)
        world.add(batch.pod(number))
    if batch.count > MEMBERS:
        return [f"{batch.owner}: only {MEMBERS:,} of its {batch.count:,} pods are looked at"]
    return []


def _list(keys: Iterable[GroupKey]) -> str:
    return ", ".join(sorted(f"{key} ({key.api})" for key in keys)) or "no pod group"
