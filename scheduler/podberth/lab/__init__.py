"""Experiments: a world, a configuration and a seed make a result, without a cluster, a clock or a network.

    >>> from podberth.lab import configuration, read_world, run
    >>> world = read_world("cluster.json")
    >>> run(world, configuration("packed.yaml"), seed=1).summary["bound"]

Everything that is named here is stable, and can be pickled. The tables of a result need the extra `podberth[lab]`.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from podberth.lab.play import run
    from podberth.lab.read import configuration, read_world
    from podberth.lab.result import Result
    from podberth.lab.world import Arrival, Change, World

__all__ = ["Arrival", "Change", "Result", "World", "configuration", "read_world", "run"]
_HOMES = {"run": "play", "configuration": "read", "read_world": "read", "Result": "result"}
"""The modules of what is named, but for those that are in `world`."""


def __getattr__(name: str) -> Any:
    """Import what is asked for when it is: `berth run --record` needs nothing of it, and imports cost 0.2 s of CPU."""
    if name not in __all__:
        raise AttributeError(f'module "{__name__}" has no attribute "{name}"')
    return getattr(importlib.import_module(f"{__name__}.{_HOMES.get(name, 'world')}"), name)
