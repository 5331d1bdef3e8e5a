"""Pods put on nodes in a dry run, one after the other, and taken off again."""

from collections.abc import Iterator
from contextlib import contextmanager

from msgspec.structs import replace

from podberth.cache.cluster import Cluster
from podberth.cache.column import Bools
from podberth.engine.schedule_one import Choice
from podberth.framework.runtime import Framework
from podberth.model.pod import Pod
from podberth.plugins.dynamic_resources.plugin import DynamicResources


class Placing:
    """The pods that were put on nodes so far."""

    def __init__(self, framework: Framework, cluster: Cluster, choice: Choice | None = None) -> None:
        self.placed: list[str] = []
        """The UIDs that they have there."""
        self.given: list[str] = []
        """UIDs of the claims that were given devices for them."""
        self._framework = framework
        self._cluster = cluster
        self._choice = choice

    def put(self, pod: Pod, within: Bools | None = None) -> str | None:
        """The node where a pod goes; None: nowhere. `within`: bool[rows], the only nodes on which it may be.

        Raises PluginError.
        """
        row = best(pod, self._framework, self._cluster, within, self._choice)
        node = None if row is None else self._cluster.nodes.names[row]
        if row is None or node is None:
            return None
        self.given += self._give(pod, row)
        there = replace(pod, node_name=node)
        if pod.scheduling_group is not None:
            # Its group is to know it as a pod that waits, as before.
            there = replace(there, uid=f"{pod.uid}/in-thought", scheduling_group=None)
        self._cluster.put_pod(there)
        self.placed.append(there.uid)
        return node

    def take_back(self) -> None:
        """Take all of them off again."""
        for uid in self.placed:
            self._cluster.drop_pod(uid)
        for uid in self.given:
            self._cluster.devices.restore(uid)
        self.placed, self.given = [], []

    def _give(self, pod: Pod, row: int) -> list[str]:
        """Have the pod's claims hold their devices, so that nobody who comes later gets them."""
        plugin, devices = self._framework.plugin("DynamicResources"), self._cluster.devices
        if not isinstance(plugin, DynamicResources) or not (pod.shape.claims or pod.shape.containers):
            return []
        reservation = plugin.reserve(pod, self._cluster, row)
        given = [one for one in reservation.claims if one.allocation is not None] if reservation is not None else []
        for one in given:
            claim = devices.claims.get(one.key)
            if claim is not None and claim.resource_version.isdigit():
                devices.written(one.uid, str(int(claim.resource_version) + 1))  # for pods that share the claim
        return [one.uid for one in given]


@contextmanager
def placing(framework: Framework, cluster: Cluster, choice: Choice | None = None) -> Iterator[Placing]:
    """The pods that are put on nodes within the block are taken off again at its end. `choice`: as in `best`."""
    found = Placing(framework, cluster, choice)
    try:
        yield found
    finally:
        found.take_back()


def best(
    pod: Pod, framework: Framework, cluster: Cluster, within: Bools | None = None, choice: Choice | None = None
) -> int | None:
    """The row where a pod goes; None: nowhere. `choice`: among equals; None: the first. Raises PluginError."""
    decision = framework.decide_quickly(pod, cluster, within=within)
    if not len(decision.feasible):
        return None
    return int(decision.best()[0]) if choice is None else choice.row(decision)
