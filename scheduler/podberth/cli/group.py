"""`berth explain podgroup/NAME`: which pod group of a cluster or a file is meant, and what is printed of it."""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from podberth.cli.errors import FOUND, InputError, about
from podberth.cli.inputs import named
from podberth.cli.output import PageOutput, as_asked
from podberth.cli.subject import Group
from podberth.explain import report
from podberth.explain.doubts import lack
from podberth.explain.gangs.answer import GOOD, UNSCHEDULABLE
from podberth.explain.gangs.explain import attempted, explain_group, in_short
from podberth.explain.gangs.gang import Gang, gang_of
from podberth.explain.objects import manifest
from podberth.explain.objects.documents import Document, ObjectError
from podberth.explain.objects.world import MADE_WITH, World
from podberth.explain.simulate.arrivals import Batch
from podberth.explain.spelling import meant, near_names
from podberth.explain.written import Written, of_cluster
from podberth.framework.runtime import Framework
from podberth.model.pod import Pod
from podberth.model.pod_group import COSCHEDULING, NATIVE, POD_GROUP_KINDS, GroupKey, PodGroup

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
        keys = add_groups(held, namespace, world, usual)
        keys = [key for key in keys if asked is None or (key.name == asked.name and asked.api in ("", key.api))]
        if len(keys) != 1:
            which = f"no pod group named {asked.name}" if asked and not keys else f"{_list(keys)}: name one"
            raise ObjectError(f"holds {which}")
        for workload in manifest.workloads(held):
            batch = Batch(workload, world, namespace, usual)
            if batch.count and batch.pod(0).scheduling_group == keys[0]:
                notes += [*add_members(batch, world), *batch.notes]
    gang = gang_of(keys[0], world.cluster)
    assert gang is not None
    return gang


def add_groups(held: Iterable[Document], namespace: str | None, world: World, usual: str) -> list[GroupKey]:
    """Add the pod groups of a file to a cluster, and what their pods are made with; their keys. Raises ObjectError."""
    keys = []
    for document in held:
        if document.kind in MADE_WITH:
            world.add_document(document)
        if document.kind in POD_GROUP_KINDS:
            group = world.decode_raw(document.kind, document.raw, document.place)
            assert isinstance(group, PodGroup)
            if namespace and group.namespace and group.namespace != namespace:
                raise ObjectError(
                    f"{document.kind} {group.name}: metadata.namespace: {group.namespace}: expected {namespace}, "
                    "as --namespace says"
                )
            key = group.key._replace(namespace=group.namespace or namespace or usual)
            world.add(replace(group, key=key))
            keys.append(key)
    return keys


def add_members(batch: Batch, world: World) -> list[str]:
    """Have the pods of a workload wait in a cluster; what to say of those that were left out."""
    for number in range(min(batch.count, MEMBERS)):
        for thing in batch.objects(number):
            world.add(thing)
        world.add(batch.pod(number))
    if batch.count > MEMBERS:
        return [f"{batch.owner}: only {MEMBERS:,} of its {batch.count:,} pods are looked at"]
    return []


def member_note(pod: Pod, world: World, framework: Framework) -> str:
    """Return which group a pod belongs to, and what that lacks; empty for a pod of none."""
    key = world.cluster.pod_groups.of(pod)
    if key is None:
        return ""
    gang = gang_of(key, world.cluster)
    if gang is None:
        return f"it belongs to the pod group {key}, which is not there"
    said = f"it belongs to the pod group {key}, of which {_together(gang)}"
    lacks = in_short(gang, framework, world.cluster) if gang.waiting else ""
    return f"{said}: {lacks or 'enough fit'} (berth explain podgroup/{key.name} -n {key.namespace})"


def _together(gang: Gang) -> str:
    count = gang.group.min_count
    return "pods start one by one" if count is None else f"{count:,} pods start together"


def explain_and_print(
    gang: Gang,
    framework: Framework,
    world: World,
    notes: list[str],
    output: PageOutput,
    *,
    instead: Sequence[str],
    from_file: bool,
    everything: bool,
) -> int:
    """Explain a group; the exit code."""

    def written(pod: Pod) -> Written | None:
        return None if from_file else of_cluster(pod, world)

    answer = explain_group(gang, framework, world.cluster, notes=notes, instead=instead, written=written)
    if answer.outcome == UNSCHEDULABLE:
        more = attempted(gang, framework, world.cluster)
        answer = replace(answer, notes=[*answer.notes, more] if more else answer.notes)
    if from_file:
        answer = replace(answer, remedies=[replace(remedy, commands=[]) for remedy in answer.remedies])
    as_asked(answer, output, lambda: report.group_page(answer), lambda: report.GroupTable(answer, everything))
    return 0 if answer.outcome in GOOD else FOUND


def _list(keys: Iterable[GroupKey]) -> str:
    return ", ".join(sorted(f"{key} ({key.api})" for key in keys)) or "no pod group"
