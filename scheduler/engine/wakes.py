"""Which waiting pods a change may help: the plugins that rejected them are asked.

Mirrors kube-scheduler `backend/queue/scheduling_queue.go` (isPodWorthRequeuing) for each kind of change.
"""

from scheduler.engine.changes import Whose
from scheduler.engine.queue import Queue
from scheduler.engine.room import Room, room_on
from scheduler.framework.events import ClusterEvent
from scheduler.framework.plugin import Plugin
from scheduler.framework.runtime import Framework
from scheduler.model.devices import DeviceKind
from scheduler.model.node import Node
from scheduler.model.pod import Pod
from scheduler.model.storage import StorageKind
from scheduler.state.cluster import Cluster


def everyone(queue: Queue, event: ClusterEvent, now: float, whose: Whose | None = None) -> None:
    """Wake all pods that such an event may help, without a closer look. `whose`: as in `Queue.wake`."""
    queue.wake(event, _always, now, whose=whose)


def for_node(
    queue: Queue, event: ClusterEvent, old: Node | None, new: Node, now: float, room: Room | None = None
) -> None:
    """A node came or changed. `room`: what is on it."""

    def helps(framework: Framework, plugin: Plugin, pod: Pod) -> bool:
        return framework.hint(plugin, "node_hint", pod, old, new)

    if event:
        queue.wake(event, helps, now, room, whose=new)


def for_pod(
    queue: Queue, event: ClusterEvent, other: Pod, now: float, room: Room | None = None, *, real: bool = True
) -> None:
    """A placed pod came, changed or went. `room`: where it was; `real`: as in `Queue.wake`."""

    def helps(framework: Framework, plugin: Plugin, pod: Pod) -> bool:
        return framework.hint(plugin, "pod_hint", pod, event, other)

    if event:
        queue.wake(event, helps, now, room, real=real, whose=other)


def for_room(queue: Queue, cluster: Cluster, pod: Pod, row: int | None, now: float, *, real: bool = True) -> None:
    """A pod is gone from a row, or the row is not kept for it any more. `real`: as in `Queue.wake`."""
    for_pod(queue, ClusterEvent.POD_GONE, pod, now, room_on(cluster, row), real=real)


def for_any_room(queue: Queue, cluster: Cluster, row: int, now: float) -> None:
    """A row is not kept any more for many pods: whoever such an event may help is asked about the room alone."""
    queue.wake(ClusterEvent.POD_GONE, _always, now, room_on(cluster, row), real=False)


def for_storage(
    queue: Queue,
    event: ClusterEvent,
    old: StorageKind | DeviceKind | None,
    new: StorageKind | DeviceKind | None,
    now: float,
    *,
    real: bool = True,
) -> None:
    """A storage object, or one about devices, came, changed or went. `real`: as in `Queue.wake`."""

    def helps(framework: Framework, plugin: Plugin, pod: Pod) -> bool:
        return framework.hint(plugin, "object_hint", pod, event, old, new)

    if event:
        queue.wake(event, helps, now, real=real, whose=old if new is None else new)


def _always(framework: Framework, plugin: Plugin, pod: Pod) -> bool:
    return True
