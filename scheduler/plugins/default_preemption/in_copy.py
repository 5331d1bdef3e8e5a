"""Rows where thousands of pods are moved before filters are asked: a group goes as a whole, and they look elsewhere.

They are tried in a copy of the cluster (`scheduler.state.copied`). There an attempt may stop in the middle, and a group
that is left out for one row still is for the next. There is one copy, which one preemptor has at a time; the next one
takes it over as it is. What tens of thousands of pods take is not given back in one turn.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import chain

import numpy as np

from scheduler.framework.decision import Rejected
from scheduler.framework.plugin import Filters
from scheduler.model.pod import Pod
from scheduler.state.cluster import Cluster, Placement
from scheduler.state.copied import FollowingCopy

_PATIENCE = 200
"""After so many searches of others, the copy is not kept any longer for a pod that did not ask again; and after as many
more, not at all."""
_ASKED = 250
"""Steps of asking the filters, and one more for each `_ROWS_A_STEP` rows."""
_ROWS_A_STEP = 10
Victims = Mapping[Hashable, Sequence[Placement]]
"""Pods that go, by what they go with."""
Answer = tuple[bool, list[Rejected]]
"""Whether the pod fits a row, or why not."""


class InCopy:
    """Asks the filters about rows of a copy of the cluster, without some pods."""

    def __init__(self) -> None:
        self._copy: FollowingCopy | None = None
        self._filters: Filters | None = None
        self._whose = ""
        self._storage = 0
        """The version of storage objects when nobody had it any more."""
        self._idle = 0
        """Searches of others since the pod has asked."""
        self._ending: Iterator[int] = iter(())
        """Lets go of copies that are of no use any more."""
        self._trial: tuple[Hashable, list[Answer]] = None, []
        """What is being tried, and the answers so far."""

    def others_search(self, uid: str, cluster: Cluster) -> None:
        """A search begins or goes on: if it is another pod's, again and again, the copy is not kept any longer."""
        next(self._ending, None)
        if self._copy is not None and uid != self._whose:
            self._idle += 1
            if self._idle > _PATIENCE and self._whose:
                self.done(self._whose, cluster)
            elif self._idle > _PATIENCE:
                self._drop()

    def done(self, uid: str, cluster: Cluster) -> None:
        """The pod's search is over."""
        if self._copy is not None and uid == self._whose:
            self._whose, self._trial, self._idle = "", (None, []), 0
            self._storage = cluster.storage.version

    def _drop(self) -> None:
        if self._copy is not None:
            self._ending = chain(self._ending, self._copy.end())
            self._copy = self._filters = None

    def begin(self, pod: Pod, cluster: Cluster, filters: Filters, trial: Hashable) -> None:
        """Ask for this pod from now on. `trial`: if it is what was tried before, the answers so far hold.

        Raises SliceOver while another pod has the copy; and, asked again, gets further with the copying.
        """
        effort = cluster.effort
        if self._copy is not None and self._whose not in ("", pod.uid) and effort.is_limited:
            effort.stop()
        if self._copy is not None and (self._copy.lost or self._outdated(cluster)):
            self._drop()
        if self._copy is None:
            self._copy, self._filters = FollowingCopy(cluster), filters.apart()
            self._trial = None, []
        if self._whose != pod.uid or self._trial[0] != trial:
            self._whose, self._trial = pod.uid, (trial, [])
        self._idle = 0

    def _outdated(self, cluster: Cluster) -> bool:
        """Whether nobody has had the copy while storage changed: it follows nodes and pods only."""
        return not self._whose and self._storage != cluster.storage.version

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
