"""`berth simulate --removable`: which nodes could go."""

from collections.abc import Callable, Mapping

from scheduler.cli.errors import FOUND, InputError
from scheduler.cli.output import PageOutput, as_data, as_table
from scheduler.framework.runtime import Framework
from scheduler.whatif.plan import settled
from scheduler.whatif.removable import removals
from scheduler.whatif.world import World


def print_removable(
    world: World, framework: Framework, chosen: Callable[[Mapping[str, str]], bool], where: str, output: PageOutput
) -> int:
    """Print which nodes could be removed of those whose labels are chosen; the exit code.

    Raises InputError if none is chosen.
    """
    if not any(chosen(node.labels) for _, node in world.cluster.nodes.live()):
        raise InputError(f"--selector: no node of {where} has these labels")
    simulation, waiting = settled(world, framework)
    only_wait = {pod.uid for pod in waiting}
    found = removals(simulation.cluster, framework, lambda node: chosen(node.labels), only_wait=only_wait)
    if output is PageOutput.TABLE:
        from scheduler.report.removable_table import RemovableTable

        as_table(RemovableTable(found))
    else:
        as_data(found, output)
    return 0 if found.removable else FOUND
