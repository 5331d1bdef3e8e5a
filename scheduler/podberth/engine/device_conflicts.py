"""Devices that two schedulers gave to two claims: our pod gives way as long as it is not bound, else people are told.

The API server takes both writes, since each is to another claim. Nobody waits for this: it is found when the watch
shows the second allocation, however late that is.
"""

from podberth.cache.cluster import Cluster
from podberth.engine.binding_cycle import BindingCycles
from podberth.engine.instructions import DeviceGivenTwice, Outbox
from podberth.engine.observers import Observer
from podberth.model.kinds import Modelled


class DeviceConflicts(Observer):
    """Looks at what the watch of claims has shown."""

    def __init__(self, cluster: Cluster, binding: BindingCycles, outbox: Outbox) -> None:
        self._cluster = cluster
        self._binding = binding
        self._outbox = outbox

    def put(self, thing: Modelled, now: float) -> None:
        """Look for conflicts that an object about devices has brought."""
        devices = self._cluster.devices
        for device, claims in devices.take_conflicts():
            for claim in claims:
                others = ", ".join(devices.name_of(other) for other in claims if other != claim)
                note = f"device {device} of claim {devices.name_of(claim)} was also given to claim {others}"
                for uid in devices.pods_of(claim):
                    self._contest(uid, note, now)

    def _contest(self, uid: str, note: str, now: float) -> None:
        if self._binding.contested(uid, note, now):
            return
        placement = self._cluster.placement(uid)
        if placement is not None and placement.pod.scheduler_name in self._binding.ours:
            self._outbox.add(DeviceGivenTwice(placement.pod, note))
