"""Which pod a command is about: one of a cluster, by name, or one that is written in a file."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from msgspec.structs import replace

from podberth.cli.errors import InputError, about
from podberth.cli.inputs import STDIN, named
from podberth.cli.subject import Group, Owner, PodName, called, chosen, namespace_of, place_of, unknown
from podberth.explain.objects import manifest
from podberth.explain.objects.controllers import KINDS, path_of
from podberth.explain.objects.documents import Document, ObjectError
from podberth.explain.objects.manifest import Workload
from podberth.explain.objects.world import World
from podberth.explain.simulate.arrivals import Batch, quota_notes
from podberth.explain.spelling import near_names
from podberth.explain.written import Written, of_cluster
from podberth.model.kinds import Modelled
from podberth.model.pod import Pod

_LISTED = 8


class Asked(NamedTuple):
    """The pod, as if it waited; the node that it was taken off for the question; and how it was written, if known."""

    pod: Pod
    node: str | None
    written: Written | None = None


def from_cluster(
    asked: PodName,
    namespace: str | None,
    world: World,
    where: str,
    usual: str = "default",
    *,
    look: Callable[[Pod], None] = lambda placed: None,
) -> Asked:
    """A pod of a cluster, waiting or placed; `look` sees a placed one before it is taken off its node.

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
            raise InputError(f"{name}: more than one pod has this name: {_list(keys)}; say which with -n")
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
    meant = f" (did you mean {_list(near)}?)" if near else unknown(asked.space, world.cluster.namespaces)
    raise InputError(f"{key}: no such pod in {where}{meant}")


def from_file(
    file: str,
    held: list[Document],
    asked: PodName | Owner | Group | None,
    namespace: str | None,
    world: World,
    notes: list[str],
    usual: str,
) -> Asked:
    """The pod (or the first of a workload) of a manifest, completed as the API server would on creation.

    The claims that a StatefulSet makes for the pod are added to the world.

    Raises InputError.
    """
    with about(named(file)):
        found = manifest.workloads(held)
        if not found:
            strange = manifest.without_pods(held)
            raise ObjectError("\n".join(strange) or f"holds no pod: expected one of {', '.join(KINDS)}")
        meant = chosen(found, asked)
        if len(meant) != 1:
            known = _list([each.name for each in found])
            raise ObjectError(f"expected one {called(asked)}, got {known}" if asked else f"holds {known}: name one")
        namespace = namespace_of(asked, meant[0], namespace)
        world.add_what_pods_are_made_with(held)
        workload = meant[0] if meant[0].claims else meant[0]._replace(kind="PodTemplate")
        batch = Batch(workload, world, namespace, usual)
        for thing in batch.objects(0):
            world.add(thing)
        pod = batch.pod(0)
        notes += [*batch.notes, *quota_notes([batch], world, 1)]
        unreadable = [warning for warning in pod.shape.warnings if "not a quantity" in warning]
        if unreadable:
            raise ObjectError("\n".join(unreadable))
        if meant[0].pod["spec"].get("nodeName"):
            node = meant[0].pod["spec"]["nodeName"]
            notes.append(f"spec.nodeName {node} was left out: a pod that has one is not scheduled")
    placed = world.placed.get(pod.key)
    if placed is not None:
        world.take(placed)
    alone = len(held) == 1 and file != STDIN and meant[0].kind in KINDS
    written = _written(file, meant[0], world, namespace, usual) if alone else None
    return Asked(replace(pod, node_name=""), placed.node_name if placed else None, written)


def _written(file: str, workload: Workload, world: World, namespace: str | None, usual: str) -> Written:
    """The pod as it stands in a file."""

    def whole(pod: Mapping[str, Any]) -> dict[str, Any]:
        return manifest.completed(workload.made(pod, 0), namespace, usual, world.admission, [])

    def create(pod: Mapping[str, Any]) -> Modelled:
        made = whole(pod)
        if wrong := world.admission.wrong(made) - before:
            raise ObjectError(f"the API server refuses it: {min(wrong)}")
        return world.decode(made)

    now = whole(workload.pod)
    before = world.admission.wrong(now)

    steps = path_of(workload.kind).split(".") if workload.kind != "Pod" else []
    return Written(workload.pod, create, create, now, file, "".join(f"/{step}" for step in (*steps, "spec")))


def _keys(world: World) -> list[str]:
    return sorted((*world.waiting, *world.placed, *world.finished))


def _list(names: list[str]) -> str:
    return ", ".join(names[:_LISTED]) + (f" and {len(names) - _LISTED} more" if len(names) > _LISTED else "")
