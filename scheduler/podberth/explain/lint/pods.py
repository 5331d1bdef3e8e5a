"""What the pods of a cluster say about a configuration: whom they name, and whether their priorities matter."""

from collections import Counter
from collections.abc import Iterator, Sequence

from podberth.explain.judging.schema import shown
from podberth.explain.lint.finding import Checked, Finding
from podberth.explain.world import World
from podberth.model.fields import nearest
from podberth.model.pod import Pod


def named(profiles: Sequence[Checked], world: World) -> Iterator[Finding]:
    """Profiles that no pod names, and pods that nearly name one."""
    pods: list[Pod] = [*world.waiting.values(), *world.placed.values(), *world.finished.values()]
    asked = Counter(pod.scheduler_name for pod in pods)
    names = {checked.profile.name: f"{checked.path}.schedulerName" for checked in profiles}
    for name, path in names.items():
        if not asked[name]:
            yield Finding(
                "profile-unused",
                path,
                f"none of {len(pods)} pods names {name}",
                "A profile decides for pods whose spec.schedulerName is its name, and for no other.",
                "Name it in the pods (or let a MetadataPolicy do so), or remove the profile.",
            )
    waiting = Counter(pod.scheduler_name for pod in world.waiting.values())
    for name, count in sorted(waiting.items()):
        meant = None if name in names or not name else nearest(name, list(names))
        if meant is not None:
            yield Finding(
                "profile-misspelt",
                names[meant],
                f"{count} waiting {'pod names' if count == 1 else 'pods name'} {shown(name)}, "
                "which no profile is called",
                f"No scheduler binds them, and no error says so. {meant} was probably meant.",
                f"Let them name {meant}: the pods have to be created again for that.",
            )


def uses_priorities(world: World) -> bool:
    """Return whether one pod could make room for another."""
    return len({pod.priority for pods in (world.waiting, world.placed) for pod in pods.values()}) > 1
