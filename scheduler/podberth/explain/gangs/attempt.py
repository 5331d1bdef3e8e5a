"""What a scheduler's own attempt at a pod group comes to, with preemption.

An explanation places pods in a dry run, with nobody preempted. Here the engine does what `berth run`
would do. That changes the cluster for good, so it is asked last.
"""

from msgspec.structs import replace

from podberth.cache.cluster import Cluster
from podberth.explain.gangs.gang import Gang
from podberth.explain.simulation import Simulation
from podberth.framework.runtime import Framework

MOST = 2_000
"""Pods of a group that is tried."""
_SHOWN = 8


def attempted(gang: Gang, framework: Framework, cluster: Cluster) -> str:
    """Return what to say of the attempt at a group that does not start in a dry run; empty: that preemption does not
    help.
    """
    waiting = gang.waiting
    preempts = waiting[0].preempts if gang.group.preempts is None else gang.group.preempts
    if len(waiting) > MOST:
        return f"whether preemption would start it was not tried: so many pods are not tried (at most {MOST:,})"
    lower = preempts and any(placement.pod.priority < waiting[0].priority for placement in cluster.placements())
    name = framework.profile.name
    simulation = Simulation({name: framework}, cluster)
    pods = [replace(pod, scheduler_name=name) for pod in waiting]
    simulation.put_all(pods)
    simulation.settle()
    placed = sum(pod.uid in simulation.bound or pod.uid in simulation.preparing for pod in pods)
    if placed < gang.lacking:
        return "berth run would not start it by preempting pods of lower priority, either (tried)" if lower else ""
    if victims := preempted(simulation):
        return f"berth run would start it (tried): it preempts {victims}"
    return "berth run would start it (tried): it takes other ones of equally good nodes than were taken here"


def preempted(simulation: Simulation) -> str:
    """The pods that were preempted, in a line; empty: none were."""
    victims = sorted(victim.key for victim, _, _ in simulation.preempted.values())
    more = f" and {len(victims) - _SHOWN:,} more" if len(victims) > _SHOWN else ""
    return f"{', '.join(victims[:_SHOWN])}{more}"
