"""Fair shares of the scheduler's time: a namespace that has used more than its own lets the pods of others go first.

Each attempt is charged to the namespace of its pod, by what the pod asks for (`PodShape.steps`), by what searches took,
and by whether it was in vain. An ordinary attempt is free, and what was charged is forgotten in time. A namespace with
more than its share waits behind the active pods of others that have the same priority; if there are none, nothing is
held up. So a thousand costly pods of a tenant delay that tenant's pods, and no others.
"""

from collections import OrderedDict

from podberth.engine.queue.queued import Heap, Queued

FREE = 1_000
"""Steps of an attempt that are not charged to any namespace. A step is about a microsecond of one core."""
IN_VAIN = 500
"""Steps charged for an attempt that found no node; one more per `ROWS_PER_STEP` rows. Such pods are tried again."""
ROWS_PER_STEP = 4
SHARE = 5_000
"""Steps that a namespace may owe; with a larger debt it is beyond its share."""
PAID_OFF = 100_000
"""Steps that each namespace pays off in a second: a tenth of a core is every namespace's own."""
_MOST = 2_000_000
"""The largest debt of a namespace: 20 seconds."""
_NAMESPACES = 1024


class FairShare:
    """The debts of namespaces, and the active pods that wait for others because of them."""

    def __init__(self) -> None:
        self.owed: dict[str, tuple[float, float]] = {}
        """Namespace → (steps, engine time at which it owed them). Empty: nobody was charged yet, and none is held."""
        self._most_owing = _NAMESPACES
        """The number of debts from which on those that are paid are dropped."""
        self._held: dict[int, OrderedDict[str, Heap]] = {}
        """Priority → namespace → its active pods, in the order of their turns."""

    def charge(self, namespace: str, steps: int, now: float) -> None:
        """Charge a namespace for work that one of its objects has caused. Nothing happens for less than a step."""
        if steps <= 0:
            return
        if len(self.owed) >= self._most_owing:
            self.owed = {name: owed for name, owed in self.owed.items() if self.owes(name, now)}
            self._most_owing = max(_NAMESPACES, 2 * len(self.owed))
        self.owed[namespace] = (min(self.owes(namespace, now) + steps, _MOST), now)

    def owes(self, namespace: str, now: float) -> float:
        """Return the steps that a namespace was charged with and has not paid off."""
        steps, since = self.owed.get(namespace, (0.0, now))
        return max(steps - (now - since) * PAID_OFF, 0.0)

    def all_owed(self, now: float) -> dict[str, float]:
        """Return namespace → steps owed, for each that owes some."""
        return {name: owed for name in self.owed if (owed := self.owes(name, now))}

    def seconds_beyond(self, namespace: str, now: float) -> float:
        """Return the seconds until a namespace that causes no more work is within its share; 0.0: it is."""
        if namespace not in self.owed:
            return 0.0
        return max(self.owes(namespace, now) - SHARE, 0.0) / PAID_OFF

    @property
    def holds(self) -> bool:
        """Return whether any pod is held, or was and has gone since."""
        return bool(self._held)

    @property
    def highest(self) -> int:
        """Return the highest priority of the held pods. Call it only if there are any."""
        return max(self._held)

    def hold(self, queued: Queued) -> None:
        """Hold an active pod, so that others go first."""
        namespaces = self._held.setdefault(queued.pod.priority, OrderedDict())
        namespace = queued.pod.namespace
        if namespace not in namespaces:
            namespaces[namespace] = Heap()
        namespaces[namespace].push(queued.order, queued)

    def pop(self, now: float, *, within_share: bool) -> Queued | None:
        """Pop the first pod of those with the highest priority; the namespaces take turns.

        `within_share`: only if the namespace whose turn it is has paid off enough meanwhile. None: there is none.
        """
        while self._held:
            priority = self.highest
            namespaces = self._held[priority]
            namespace, heap = next(iter(namespaces.items()))
            namespaces.move_to_end(namespace)
            if within_share and self.seconds_beyond(namespace, now):
                return None
            queued = heap.pop()
            if not heap:
                del namespaces[namespace]
                if not namespaces:
                    del self._held[priority]
            if queued is not None:
                return queued
        return None

    def release(self) -> None:
        """Empty the store of held pods; the caller finds their places anew."""
        self._held.clear()

    def entries(self) -> int:
        """Return the number of entries, for tests of what a tenant can make grow."""
        return len(self.owed) + sum(len(heap) for each in self._held.values() for heap in each.values())
