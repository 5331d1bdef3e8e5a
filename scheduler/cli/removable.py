"""`berth simulate --removable`: which nodes could go."""

from collections.abc import Callable

from scheduler.apiserver.selectors import parse_labels
from scheduler.apiserver.status import StatusError
from scheduler.cli.errors import FOUND, InputError
from scheduler.cli.output import PageOutput, as_data, as_table
from scheduler.framework.runtime import Framework
from scheduler.model.node import Node
from scheduler.whatif.judging.schema import shown
from scheduler.whatif.plan import settled
from scheduler.whatif.removable import removals
from scheduler.whatif.world import World


def chosen_by(selector: str | None) -> Callable[[Node], bool]:
    """Whether a node has these labels. Raises InputError."""
    if selector is None:
        return lambda node: True
    try:
        matches = parse_labels(selector)
    except (ValueError, StatusError) as error:
        raise InputError(f"--selector: {shown(selector)}: {error}") from None
    return lambda node: matches is None or matches(node.labels)


def print_removable(
    world: World, framework: Framework, chosen: Callable[[Node], bool], where: str, output: PageOutput
) -> int:
    """Print which of the chosen nodes could be removed; the exit code. Raises InputError if none is chosen."""
    if not any(chosen(node) for _, node in world.cluster.nodes.live()):
        raise InputError(f"--selector: no node of {where} has these labels")
    simulation, waiting = settled(world, framework)
    found = removals(simulation.cluster, framework, chosen, only_wait={pod.uid for pod in waiting})
    if output is PageOutput.TABLE:
        from scheduler.report.removable_table import RemovableTable

        as_table(RemovableTable(found))
    else:
        as_data(found, output)
    return 0 if found.removable else FOUND
