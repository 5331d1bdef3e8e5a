"""`berth capacity` of a file with a pod group: how many more gangs fit."""

import sys
from collections.abc import Sequence

import msgspec

from podberth.cli.group import add_groups
from podberth.cli.output import PageOutput, as_data, as_table
from podberth.cli.subject import Group, Owner, PodName
from podberth.explain.gangs.capacity import GangCapacity, gang_capacity
from podberth.explain.objects import manifest
from podberth.explain.objects.documents import Document, ObjectError, plain
from podberth.explain.objects.manifest import Workload, groups_made, in_groups
from podberth.explain.objects.world import World
from podberth.explain.simulate.arrivals import Batch
from podberth.framework.runtime import Framework
from podberth.model.pod_group import POD_GROUP_KINDS


def about_gangs(held: Sequence[Document], asked: PodName | Owner | Group | None) -> bool:
    """Return whether a question is about a gang: the file has a pod group, and no other thing is named."""
    names = [str((plain(each).get("metadata") or {}).get("name")) for each in held if each.kind in POD_GROUP_KINDS]
    names += [str((plain(each).get("metadata") or {}).get("name")) for each in groups_made(held).groups]
    if isinstance(asked, Group):
        return asked.name in names
    return bool(names) and (asked is None or (isinstance(asked, PodName) and asked.name in names))


def capacity_of_gangs(
    held: Sequence[Document],
    asked: PodName | Owner | Group | None,
    there: World,
    framework: Framework,
    namespace: str | None,
    usual: str,
) -> GangCapacity:
    """Return how many more gangs fit of the pod group in a file. Raises ObjectError."""
    made = groups_made(held)
    keys = add_groups([*held, *made.groups], namespace, there, usual)
    keys = [key for key in keys if asked is None or key.name == asked.name]
    if len(keys) != 1:
        raise ObjectError(f"holds the pod groups {', '.join(sorted(str(key) for key in keys))}: name one")
    workloads = in_groups(manifest.workloads(held), made.jobs)
    batches = []
    for workload in _together(workloads):
        batch = Batch(workload, there, namespace, usual, framework.profile.name)
        if batch.count and batch.pod(0).scheduling_group == keys[0]:
            batches.append(batch)
    if not batches:
        raise ObjectError(f"holds no pod of the pod group {keys[0]}")
    group = there.cluster.pod_groups.get(keys[0])
    assert group is not None
    answer = gang_capacity(there.cluster, framework, group, batches)
    answer.notes.extend(made.notes)
    return answer


def _together(workloads: Sequence[Workload]) -> list[Workload]:
    """The workloads; pods that differ in their names only are one that makes as many."""
    found: dict[bytes, Workload] = {}
    others: list[Workload] = []
    for each in workloads:
        if not each.alone:
            others.append(each)
            continue
        metadata = {key: value for key, value in (each.pod.get("metadata") or {}).items() if key not in _OWN}
        key = msgspec.json.encode((metadata, each.pod["spec"]))
        known = found.get(key)
        # Each stands for others like it, with names of their own.
        found[key] = (known or each)._replace(kind="ReplicaSet", wanted=1 + (known.wanted or 0 if known else 0))
    return [*found.values(), *others]


_OWN = ("name", "uid", "creationTimestamp", "resourceVersion", "generation", "managedFields")


def print_gangs(answer: GangCapacity, output: PageOutput, *, everything: bool) -> None:
    """Print how many more gangs fit."""
    match output:
        case PageOutput.JSON | PageOutput.YAML:
            as_data(answer, output)
        case PageOutput.HTML:
            from podberth.explain.report.pages import gang_capacity_page

            sys.stdout.write(gang_capacity_page(answer))
        case PageOutput.TABLE:
            from podberth.explain.report.capacity import GangCapacityTable

            as_table(GangCapacityTable(answer, everything))
