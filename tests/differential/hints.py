"""Whether a change wakes a waiting pod: what the engine asks of a plugin, against kube-scheduler's QueueingHintFn.

Without a room: that the engine leaves pods alone where there is none for them (`engine/room.py`) is not the plugin's
doing. `tests/unit/engine/test_nobody_sleeps.py` judges that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from podberth.engine import event_handlers
from podberth.engine.queue.scheduling_queue import SchedulingQueue
from podberth.engine.stimuli import EventObject
from podberth.explain.objects.world import World
from podberth.framework.events import ClusterEvent
from podberth.framework.runtime import Framework
from podberth.model.node import Node
from podberth.model.pod import Pod
from podberth.model.storage import StorageKind
from tests.conformance.comparison import Case
from tests.differential.answers import framework_of
from tests.differential.client import Oracle
from tests.differential.generate.changes import CHANGES, question

PER_SEED = 8
KINDS = ("woken", "left", "eager", "refused", "stuck")


@dataclass(frozen=True, slots=True)
class Outcome:
    """`kind`: woken and left where both agree; eager where only Berth wakes the pod; stuck where only it does not."""

    id: str
    kind: str
    text: str = ""


class _Asked(SchedulingQueue):
    """A queue with one pod, rejected by one plugin, that only says whether it would have been woken."""

    def __init__(self, framework: Framework, plugin: str, pod: Pod) -> None:
        self._framework, self._plugin, self._pod = framework, plugin, pod
        self.woken = False

    def wake(
        self,
        event: ClusterEvent,
        hint: Callable[..., bool],
        now: float,
        row: int | None = None,
        *,
        real: bool = True,
        about: EventObject | None = None,
    ) -> None:
        plugin = self._framework.plugin(self._plugin)
        self.woken |= bool(self._framework.events(self._plugin) & event) and hint(self._framework, plugin, self._pod)


def run(oracle: Oracle, seed: int, plugins: Iterable[str] = CHANGES) -> list[Outcome]:
    """The outcomes of a seed's questions."""
    asked = [question(plugin, seed, number) for plugin in plugins for number in range(PER_SEED)]
    return [_outcome(case, answer) for case, answer in zip(asked, oracle.hints(asked), strict=True)]


def _outcome(case: Case, answer: Case) -> Outcome:
    if "error" in answer:
        return Outcome(case["id"], "refused", answer["error"])
    ours, theirs = is_woken(case), bool(answer["queue"])
    if ours == theirs:
        return Outcome(case["id"], "woken" if ours else "left")
    text = (
        f"{case['id']}: Berth {'wakes' if ours else 'leaves'} {case['pod']} for {case.get('old')} -> {case.get('new')}"
    )
    return Outcome(case["id"], "eager" if ours else "stuck", text)


def is_woken(case: Case) -> bool:
    """What the engine does (`engine/engine.py`), for one change of one object."""
    world = World()
    world.add_all(case["objects"])
    pod = world.decode(case["pod"])
    old = world.decode(case["old"]) if "old" in case else None
    new = world.decode(case["new"]) if "new" in case else None
    assert isinstance(pod, Pod)
    framework = framework_of(pod, case.get("config", ""))
    queue = _Asked(framework, case["plugin"], pod)
    match old, new:
        case (Pod() as before, Pod() as now) if now.uid == pod.uid:
            return bool(event_handlers.waiting_pod_changes(before, now) & framework.events(case["plugin"]))
        case (None | Node() as before, Node() as now):
            queue.wake_for_node(event_handlers.node_changes(before, now), before, now, 0)
        case (None, Pod() as now):
            queue.wake_for_pod(ClusterEvent.POD_PLACED, now, 0)
        case (Pod() as before, None):
            queue.wake_for_pod(ClusterEvent.POD_GONE, before, 0)
        case (Pod() as before, Pod() as now):
            queue.wake_for_pod(event_handlers.placed_pod_changes(before, now), now, 0)
        case (before, None):
            queue.wake_for_object(ClusterEvent.ATTACHMENT_GONE, _storage(before), None, 0)
        case (before, now):
            kept = None if before is None else _storage(before)
            queue.wake_for_object(event_handlers.storage_changes(kept, _storage(now)), kept, _storage(now), 0)
    return queue.woken


def _storage(thing: object) -> StorageKind:
    assert isinstance(thing, StorageKind)
    return thing
