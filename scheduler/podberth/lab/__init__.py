"""Experiments: a world, a configuration and a seed make a result, without a cluster, a clock or a network.

    >>> from podberth.lab import configuration, read_world, run
    >>> world = read_world("cluster.json")
    >>> run(world, configuration("packed.yaml"), seed=1).summary["bound"]

Everything that is named here is stable, and can be pickled. The tables of a result need the extra `podberth[lab]`.
"""

from podberth.lab.play import run
from podberth.lab.read import configuration, read_world
from podberth.lab.result import Result
from podberth.lab.world import Arrival, Change, World

__all__ = ["Arrival", "Change", "Result", "World", "configuration", "read_world", "run"]
