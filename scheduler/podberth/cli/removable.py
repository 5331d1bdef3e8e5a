"""`berth simulate --removable`: which nodes could go."""

import sys
from collections.abc import Callable

from podberth.cli.errors import FOUND, InputError
from podberth.cli.options import labels
from podberth.cli.output import PageOutput, as_data, as_table
from podberth.explain.objects.world import World
from podberth.explain.simulate.plan import settled
from podberth.explain.simulate.removable import removals
from podberth.framework.runtime import Framework
from podberth.model.node import Node


def chosen_by(selector: str | None) -> Callable[[Node], bool]:
    """Return whether a node has these labels. Raises InputError."""
    if selector is None:
        return lambda node: True
    matches = labels(selector)
    return lambda node: matches(node.labels)


def print_removable(
    world: World, framework: Framework, chosen: Callable[[Node], bool], where: str, output: PageOutput
) -> int:
    """Print which of the chosen nodes could be removed; the exit code. Raises InputError if none is chosen."""
    if not any(chosen(node) for _, node in world.cluster.nodes.live()):
        raise InputError(f"--selector: no node of {where} has these labels")
    simulation, waiting = settled(world, framework)
    found = removals(simulation.cluster, framework, chosen, only_wait={pod.uid for pod in waiting})
    match output:
        case PageOutput.JSON | PageOutput.YAML:
            as_data(found, output)
        case PageOutput.HTML:
            from podberth.explain.report.pages import removable_page

            sys.stdout.write(removable_page(found))
        case PageOutput.TABLE:
            from podberth.explain.report.cluster import RemovableTable

            as_table(RemovableTable(found))
    return 0 if found.removable else FOUND
