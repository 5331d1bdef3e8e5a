"""Large objects that nobody's attempt reads: they are read in turns before they count.

A pod with 15,000 containers takes 80 ms to read, a budget that selects by 30,000 labels as long. Whoever names the node
of a pod does not wait for an attempt, and no attempt is about a budget, so nobody else would pay for that: it was done
where the object was decoded, and the watch waited for it. Now the object waits here, in a lane of its namespace, which
is charged. It counts once it is read, as if the watch were so far behind. What is written again meanwhile is read once.
"""

from collections.abc import Callable

from scheduler.engine.turns import FREE, Turns
from scheduler.model.namespaced import SelectingObject
from scheduler.model.pod import Pod
from scheduler.state.backlog import Backlog
from scheduler.state.effort import Effort, SliceOver

_EACH = 2
"""Steps for each object beside what is read of it. For a pod one more for each of its claims and disks: these are
counted when it is, however many pods share what was read."""

Thing = Pod | SelectingObject


class Unread:
    """The objects that wait to be read. Namespaces take turns."""

    def __init__(self) -> None:
        self.ready: Callable[[Thing, float], None] = _nobody
        """Told of each object that is read, and when."""
        self.things: dict[str, Thing] = {}
        """The objects that wait, by their keys."""
        self._lanes: Backlog[str] = Backlog()
        self._effort = Effort()

    def __len__(self) -> int:
        return len(self.things)

    def put(self, pod: Pod) -> None:
        """Read a pod later; what was seen of it before is out of date."""
        pod.shape.hold()  # what is read counts for others, so that it is not forgotten any more
        self._put(pod.uid, pod)

    def put_selecting(self, thing: SelectingObject) -> None:
        """Read what an object selects later; what was seen of it before is out of date."""
        self._put(key_of_selecting(thing.kind, thing.namespace, thing.name), thing)

    def _put(self, key: str, thing: Thing) -> None:
        before = self.things.get(key)
        if before is not None and before.namespace != thing.namespace:
            self.drop(key)
        self.things[key] = thing
        self._lanes.put(thing.namespace, key, 1)

    def drop(self, key: str) -> None:
        """An object is gone, or need not be read any more. `key`: a pod's UID, or `key_of_selecting`."""
        thing = self.things.pop(key, None)
        if thing is not None:
            self._lanes.done(thing.namespace, key)

    def go_on(self, steps: int, turns: Turns | None, now: float) -> int:
        """Read for about so many steps, in the lane whose turn it is; returns how many it took.

        `turns`: where the namespace is charged; None: nobody is.
        """
        (lane,) = self._lanes.first(1)
        spent = 0
        for key in self._lanes.of(lane):
            thing = self.things[key]
            reading = thing.shape if isinstance(thing, Pod) else thing
            self._effort.begin(steps - spent)
            try:
                reading.read(self._effort.charge)
            except SliceOver:
                spent += self._effort.end()
                break
            spent += self._effort.end() + _EACH
            if isinstance(thing, Pod):
                spent += len(thing.shape.volumes.claims) + len(thing.shape.volumes.disks)
            self.drop(key)
            self.ready(thing, now)
            if spent >= steps:
                break
        self._lanes.last(lane)
        if turns is not None:
            turns.account(lane, FREE + spent, now)
        return spent


def key_of_selecting(kind: str, namespace: str, name: str) -> str:
    """What an object that selects pods is known by here."""
    return f"{kind}/{namespace}/{name}"


def _nobody(thing: Thing, now: float) -> None:
    """Nobody is told."""
