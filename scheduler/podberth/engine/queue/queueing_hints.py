"""Which waiting pods a change may help: the plugins that rejected them are asked.

Mirrors kube-scheduler `backend/queue/scheduling_queue.go` (isPodWorthRequeuing) for each kind of change.
"""

from podberth.cache.cluster import Cluster
from podberth.engine.queue.headroom import Room, room_on
from podberth.engine.queue.scheduling_queue import SchedulingQueue
from podberth.engine.queue.unschedulable import always
from podberth.engine.stimuli import EventObject
from podberth.framework.events import ClusterEvent
from podberth.framework.plugin import OtherObject, Plugin
from podberth.framework.runtime import Framework
from podberth.model.node import Node
from podberth.model.pod import Pod


def everyone(queue: SchedulingQueue, event: ClusterEvent, now: float, about: EventObject | None = None) -> None:
    """Wake all pods that such an event may help, without a closer look. `about`: as in `wake`."""
    queue.wake(event, always, now, about=about)


def for_node(
    queue: SchedulingQueue, event: ClusterEvent, old: Node | None, new: Node, now: float, room: Room | None = None
) -> None:
    """A node was added or changed. `room`: of this node."""

    def helps(framework: Framework, plugin: Plugin, pod: Pod) -> bool:
        return framework.hint(plugin, "node_hint", pod, old, new)

    if event:
        queue.wake(event, helps, now, room, about=new)


def for_pod(
    queue: SchedulingQueue, event: ClusterEvent, other: Pod, now: float, room: Room | None = None, *, real: bool = True
) -> None:
    """A pod was placed, changed or removed. `room`: of its node; `real`: as in `wake`."""

    def helps(framework: Framework, plugin: Plugin, pod: Pod) -> bool:
        return framework.hint(plugin, "pod_hint", pod, event, other)

    if event:
        queue.wake(event, helps, now, room, real=real, about=other)


def for_room(
    queue: SchedulingQueue, cluster: Cluster, pod: Pod, row: int | None, now: float, *, real: bool = True
) -> None:
    """A pod is gone from a row, or not nominated for it any more. `real`: as in `wake`."""
    for_pod(queue, ClusterEvent.POD_GONE, pod, now, room_on(cluster, row), real=real)


def for_any_room(queue: SchedulingQueue, cluster: Cluster, row: int, now: float) -> None:
    """Many pods are not nominated for a row any more: waiting pods are checked by the room alone, without hints."""
    queue.wake(ClusterEvent.POD_GONE, always, now, room_on(cluster, row), real=False)


def for_source(queue: SchedulingQueue, profile: str, name: str, now: float) -> None:
    """A source of a profile's plugin has another value: only pods that this plugin rejected may fit now."""

    def helps(framework: Framework, plugin: Plugin, pod: Pod) -> bool:
        return plugin.name == name and framework.profile.name == profile

    queue.wake(ClusterEvent.SOURCE, helps, now)


def for_object(
    queue: SchedulingQueue,
    event: ClusterEvent,
    old: OtherObject,
    new: OtherObject,
    now: float,
    *,
    real: bool = True,
) -> None:
    """An object that is neither a node nor a pod was added, changed or deleted. `real`: as in `wake`."""

    def helps(framework: Framework, plugin: Plugin, pod: Pod) -> bool:
        return framework.hint(plugin, "object_hint", pod, event, old, new)

    if event:
        queue.wake(event, helps, now, real=real, about=old if new is None else new)
