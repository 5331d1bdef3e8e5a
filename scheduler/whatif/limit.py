"""A question about a pod has the limit of steps that `berth run` gives an attempt: a dump may hold anything."""

from collections.abc import Iterator
from contextlib import contextmanager

from scheduler.engine.budget import Budget, TooCostlyError
from scheduler.state.cluster import Cluster
from scheduler.state.effort import SliceOver

MOST = Budget().whole


@contextmanager
def limited(cluster: Cluster, steps: int = MOST) -> Iterator[None]:
    """What is asked of the cluster within the block may take so many steps.

    Raises TooCostlyError when it takes more.
    """
    effort = cluster.effort
    effort.begin(steps)
    try:
        yield
    except SliceOver:
        raise TooCostlyError(steps, effort.causes) from None
    finally:
        effort.end()
