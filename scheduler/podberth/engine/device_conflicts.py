"""Devices that two schedulers gave to two claims: our pod gives way as long as it is not bound, else people are told.

The API server takes both writes, since each is to another claim. Nobody waits for this: it is found when the watch
shows the second allocation, however late that is.
"""

from podberth.cache.cluster import Cluster
from podberth.engine.binding_cycle import BindingCycles
from podberth.engine.binding_table import State
from podberth.engine.instructions import DeviceGivenTwice, Outbox
from podberth.engine.observers import Observer
from podberth.engine.stimuli import Bound, OfBindingCycle
from podberth.model.kinds import Modelled
from podberth.model.pod import Pod


class DeviceConflicts(Observer):
    """Looks at what the watch of claims has shown."""

    def __init__(self, cluster: Cluster, binding: BindingCycles, outbox: Outbox) -> None:
        self._cluster = cluster
        self._binding = binding
        self._outbox = outbox
        self._posted: dict[str, tuple[Pod, str]] = {}
        """UID of a pod whose Binding was under way → which of its devices another claim has."""

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
        queued = self._binding.queued(uid)
        if queued is not None:
            if self._binding.contested(uid, note, now) is State.BIND_POSTING:
                self._posted[uid] = queued.pod, note  # it counts if the Binding can't be withdrawn any more
            return
        placement = self._cluster.placement(uid)
        if placement is not None and not placement.assumed and placement.pod.scheduler_name in self._binding.ours:
            self._outbox.add(DeviceGivenTwice(placement.pod, note))

    def answered(self, stimulus: OfBindingCycle, now: float) -> None:
        """Tell people, if a pod has lost one of its devices and is bound all the same."""
        if self._posted and stimulus.uid in self._posted:
            pod, note = self._posted.pop(stimulus.uid)
            if isinstance(stimulus, Bound):
                self._outbox.add(DeviceGivenTwice(pod, note))
