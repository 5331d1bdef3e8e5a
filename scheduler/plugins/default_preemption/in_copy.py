"""Rows where thousands of pods are moved before filters are asked: a group goes as a whole, and they look elsewhere.

They are tried in a copy of the cluster (`scheduler.state.copied`). There an attempt may stop in the middle, and a group
that is left out for one row still is for the next. There is one copy, which one preemptor has at a time.
"""

from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from scheduler.framework.decision import Rejected
from scheduler.framework.plugin import Filters
from scheduler.model.pod import Pod
from scheduler.state.cluster import Cluster, Placement
from scheduler.state.copied import FollowingCopy

_PATIENCE = 200
"""After so many searches of others, the copy is not kept any longer for a pod that did not ask again."""
_ASKED = 100
"""Steps of asking the filters, and one more for each `_ROWS_A_STEP` rows."""
_ROWS_A_STEP = 10
Victims = Mapping[Hashable, Sequence[Placement]]
"""Pods that go, by what they go with."""
Answer = tuple[bool, list[Rejected]]
"""Whether the pod fits a row, or why not."""


class InCopy:
    """Asks the filters."""

    def __init__(self) -> None:
        self._copy: FollowingCopy | None = None
        self._filters: Filters | None = None
        self._whose = ""
        self._idle = 0
        """Searches of others since the pod has asked."""
        self._trial: tuple[Hashable, list[Answer]] = None, []
        """What is being tried, and the answers so far."""

    def others_search(self, uid: str) -> None:
        """A search begins or goes on: if it is another pod's, again and again, the copy is not kept any longer."""
        if self._copy is not None and uid != self._whose:
            self._idle += 1
            if self._idle > _PATIENCE:
                self.done(self._whose)

    def done(self, uid: str) -> None:
        """The pod's search is over."""
        if uid == self._whose:
            self._copy = self._filters = None
            self._whose, self._trial = "", (None, [])

    def begin(self, pod: Pod, cluster: Cluster, filters: Filters, trial: Hashable) -> None:
        """Ask for this pod from now on. `trial`: if it is what was tried before, the answers so far hold.

        Raises SliceOver while another pod has the copy; and, asked again, gets further with the copying.
        """
        effort = cluster.effort
        if self._copy is not None and self._whose != pod.uid and effort.is_limited:
            effort.stop()
        if self._copy is None or self._whose != pod.uid or self._copy.lost:
            self._copy, self._filters = FollowingCopy(cluster), filters.apart()
            self._whose, self._trial = pod.uid, (None, [])
        self._idle = 0
        if self._trial[0] != trial:
            self._trial = trial, []

    def ask(self, pod: Pod, row: int, number: int, without: Victims) -> Answer:
        """The answer to a question of the trial, by its number: does the pod fit a row without these pods?

        Raises SliceOver; asked again, it gets further.
        """
        copy, filters, (_, answers) = self._copy, self._filters, self._trial
        assert copy is not None
        assert filters is not None
        if number == len(answers):
            cluster = copy.up_to_date()
            copy.leave_out(without)
            among = np.zeros(cluster.nodes.rows, dtype=np.bool_)
            among[row] = True
            fits, rejected = filters.passing(pod, cluster, among, trying=True)
            answers.append((bool(fits[row]), rejected))
            cluster.effort.charge(_ASKED + cluster.nodes.rows // _ROWS_A_STEP)
        return answers[number]
