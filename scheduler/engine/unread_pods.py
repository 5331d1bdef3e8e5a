"""Large pods that others placed, or that a node is kept for: they are read in turns before they count.

A pod with 15,000 containers takes 80 ms to read. Whoever names its node does not wait for an attempt, so nobody else
would pay for that: it was done where the pod was decoded, and the watch waited for it. Now the pod waits here, in a
lane of its namespace, which is charged. It counts once it is read, as if the watch were so far behind.
"""

from collections.abc import Callable

from scheduler.engine.turns import FREE, Turns
from scheduler.model.pod import Pod
from scheduler.state.backlog import Backlog
from scheduler.state.effort import Effort, SliceOver

_A_POD = 2
"""Steps for each pod beside what is read of it, and one more for each of its claims and disks: these are counted when
it is, however many pods share what was read."""


class UnreadPods:
    """The pods that wait to be read. Namespaces take turns."""

    def __init__(self) -> None:
        self.ready: Callable[[Pod, float], None] = _nobody
        """Told of each pod that is read, and when."""
        self.pods: dict[str, Pod] = {}
        self._lanes: Backlog[str] = Backlog()
        self._effort = Effort()

    def __len__(self) -> int:
        return len(self.pods)

    def put(self, pod: Pod) -> None:
        """Read a pod later; what was seen of it before is out of date."""
        before = self.pods.get(pod.uid)
        if before is not None and before.namespace != pod.namespace:
            self.drop(pod.uid)
        pod.shape.hold()  # what is read counts for others, so that it is not forgotten any more
        self.pods[pod.uid] = pod
        self._lanes.put(pod.namespace, pod.uid, 1)

    def drop(self, uid: str) -> None:
        """A pod is gone, or need not be read any more."""
        pod = self.pods.pop(uid, None)
        if pod is not None:
            self._lanes.done(pod.namespace, uid)

    def go_on(self, steps: int, turns: Turns | None, now: float) -> int:
        """Read for about so many steps, in the lane whose turn it is; returns how many it took.

        `turns`: where the namespace is charged; None: nobody is.
        """
        (lane,) = self._lanes.first(1)
        spent = 0
        for uid in self._lanes.of(lane):
            pod = self.pods[uid]
            self._effort.begin(steps - spent)
            try:
                pod.shape.read(self._effort.charge)
            except SliceOver:
                spent += self._effort.end()
                break
            volumes = pod.shape.volumes
            spent += self._effort.end() + _A_POD + len(volumes.claims) + len(volumes.disks)
            self.drop(uid)
            self.ready(pod, now)
            if spent >= steps:
                break
        self._lanes.last(lane)
        if turns is not None:
            turns.account(lane, FREE + spent, now)
        return spent


def _nobody(pod: Pod, now: float) -> None:
    """Nobody is told."""
