"""Compare what is known of pod groups with the placed pods."""

from collections.abc import Iterator
from typing import Any

from podberth.cache.cluster import Cluster
from podberth.cache.pod_groups import GroupState


def validate_groups(cluster: Cluster) -> Iterator[str]:
    """One line for each thing that differs."""
    groups = cluster.pod_groups
    members = {uid: str(state.key) for state in groups for uid in state.pods}
    yield from _differ("members", "by UID", {uid: str(key) for uid, key in groups._of.items()}, members)
    for key, state in groups._groups.items():
        where = f"pod group {key}"
        yield from _differ(where, "key", state.key, key)
        if state.object is not None:
            yield from _differ(where, "key of its object", state.object.key, key)
        if state.empty:
            yield f"{where}: has neither object nor pods and is kept"
        yield from _parts(cluster, where, state)
    for placement in cluster.placements():
        pod = placement.pod
        if pod.scheduling_group is not None and groups._of.get(pod.uid) != pod.scheduling_group:
            yield f"pod {pod.key}: is on a node and not known as a member of {pod.scheduling_group}"


def _parts(cluster: Cluster, where: str, state: GroupState) -> Iterator[str]:
    parts = (*state.unscheduled, *state.assumed, *state.assigned)
    yield from _differ(where, "pods in its parts", sorted(parts), sorted(state.pods))
    should: dict[str, set[str]] = {"unscheduled": set(), "assumed": set(), "assigned": set()}
    for uid, pod in state.pods.items():
        yield from _differ(where, f"group of pod {pod.key}", pod.scheduling_group, state.key)
        placement = cluster.placement(uid)
        if placement is None:
            should["unscheduled"].add(uid)
        else:
            should["assumed" if placement.assumed else "assigned"].add(uid)
    for part, uids in should.items():
        yield from _differ(where, f"{part} pods", set(getattr(state, part)), uids)


def _differ(where: str, what: str, has: Any, should: Any) -> Iterator[str]:
    if has != should:
        yield f"{where}: {what} is {has}, should be {should}"
