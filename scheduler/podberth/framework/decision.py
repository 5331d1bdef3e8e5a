"""The outcome of one scheduling cycle, kept as arrays, and the record of what the attempt passed.

Texts and tables are made from a decision only when wanted. Metrics, the log and a pod's story read the same record.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from podberth.cache.column import Bools, Ints
from podberth.framework.status import SUCCESS, Reason, printable
from podberth.model.pod import Pod

Rows = NDArray[np.intp]

Trace = list[Any]
"""When the attempt began, and for each point that it passed: the point, its status, and when it was done.

One flat list, since one is kept for each attempt: [0.0, "PreFilter", "Success", 0.1, "Filter", "Success", 0.3].
"""
AGAIN = "Again"
"""Stands in place of a point: the attempt begins again from the start, and only what follows counts.

The quick way found no node, and the full way has to say why.
"""
EXTENDERS = "Extenders"
"""Stands for the time in which HTTP extenders were asked. It is no extension point, and has no metric."""


_EVERY: NDArray[np.intp] = np.arange(1024)
_EVERY.flags.writeable = False


def every_row(count: int) -> NDArray[np.intp]:
    """0, 1, … count - 1; do not change it."""
    global _EVERY
    if count > len(_EVERY):
        _EVERY = np.arange(2 * count)
        _EVERY.flags.writeable = False
    return _EVERY[:count]


class Rejected(Struct):
    """Nodes that one plugin was the first to reject: (reason, bool[rows]) pairs."""

    plugin: str
    reasons: Sequence[tuple[Reason, Bools]]


class PluginScores(Struct):
    """One plugin's scores over the feasible rows, before normalisation and after it times the weight."""

    plugin: str
    weight: int
    raw: Ints
    weighted: Ints


class Decision(Struct):
    """Feasible rows and scores, or who rejected what. `nodes` counts the nodes that exist."""

    pod: Pod
    nodes: int
    feasible: Rows
    """The rows that pass all filters; of a quick decision, the best of them."""
    verdict: tuple[str, Reason] | None = None
    """(plugin, reason) when PreFilter rejected the pod as a whole."""
    narrowed: frozenset[str] | None = None
    """The only node names that PreFilter left."""
    narrowed_by: tuple[str, ...] = ()
    left_out: Bools | None = None
    """bool[rows] of existing nodes that PreFilter left out."""
    rejected: list[Rejected] = field(default_factory=list)
    scores: list[PluginScores] = field(default_factory=list)
    totals: Ints | None = None
    quick: bool = False
    """Found by what is kept for equal pods: only the best rows are known, not the scores, nor who rejected what."""
    passing: int = 0
    """The number of rows that pass all filters, if the decision is quick or settled."""
    settled: bool = False
    """True once it is known what became of the pod: only that is kept."""

    @property
    def fitting(self) -> int:
        """Return how many nodes pass all filters."""
        return self.passing if self.quick or self.settled else len(self.feasible)

    def settle(self, row: int | None) -> None:
        """Let go of all nodes but one: many pods are about to be bound at a time, each with thousands of nodes.

        `row`: of the node that was chosen; None: no node passes, and the reasons were read.
        """
        if not (self.quick or self.settled):
            self.passing = len(self.feasible)
        self.settled = True
        # A part of what all share costs a tenth of an array of its own.
        self.feasible = every_row(0) if row is None else every_row(row + 1)[row:]
        if self.quick:
            return  # nothing else is known
        if self.totals is not None and len(self.totals):
            self.totals = self.totals.max(keepdims=True)
        self.left_out, self.rejected, self.scores = None, [], []

    def best(self) -> Rows:
        """Return all rows that share the highest total; the feasible ones when nothing was scored."""
        if self.totals is None or not len(self.totals):
            return self.feasible
        best: Rows = self.feasible[self.totals == self.totals.max()]
        return best

    def unschedulable_plugins(self) -> frozenset[str]:
        """Return plugins whose rejection left the pod without a node."""
        if self.verdict is not None:
            return frozenset((self.verdict[0], *self.narrowed_by))
        return frozenset((*self.narrowed_by, *(rejected.plugin for rejected in self.rejected)))

    def unresolvable(self, rows: int) -> Bools:
        """Return bool[rows]: nodes that no preemption can help."""
        mask = np.zeros(rows, dtype=np.bool_)
        if self.verdict is not None:
            mask[:] = self.verdict[1].unresolvable
            return mask
        if self.left_out is not None:
            mask |= self.left_out
        for rejected in self.rejected:
            for reason, where in rejected.reasons:
                if reason.unresolvable:
                    mask |= where
        return mask


NO_NODES = "no nodes available to schedule pods"


def fit_error(decision: Decision, post_filter: str = "") -> str:
    """Return the FailedScheduling text (FitError.Error): counts by reason, sorted as text, and what preemption said."""
    if not decision.nodes:
        return NO_NODES
    message = f"0/{decision.nodes} nodes are available:"
    if decision.verdict is not None:
        message += f" {printable(decision.verdict[1].text)}."
    else:
        said = sorted(f"{count} {printable(text)}" for text, count in reason_counts(decision).items())
        if said:
            message += f" {', '.join(said)}."
    return f"{message} {post_filter}" if post_filter else message


def reason_counts(decision: Decision) -> dict[str, int]:
    """Reason text → number of nodes rejected for it."""
    counts: dict[str, int] = {}
    if decision.left_out is not None:
        left_out = int(np.count_nonzero(decision.left_out))
        if left_out:
            counts[narrowed_text(decision)] = left_out
    for rejected in decision.rejected:
        for reason, where in rejected.reasons:
            count = int(np.count_nonzero(where))
            if count and reason.text:
                counts[reason.text] = counts.get(reason.text, 0) + count
    return counts


def narrowed_text(decision: Decision) -> str:
    """Return the reason of nodes that PreFilter left out."""
    return f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(decision.narrowed_by))}]"


class AttemptRecord:
    """The attempt under way, as far as it has come: each extension point that it passed, with its status and its time.

    There is no clock here: a shell lends one to the record, and nothing is recorded without it.
    """

    __slots__ = ("_start", "clock", "profile", "trace")

    def __init__(self) -> None:
        self.clock: Callable[[], float] | None = None
        """Lent by the shell; None: nothing is measured."""
        self.profile = ""
        """The profile of the pod that is being tried."""
        self.trace: Trace | None = None
        """None: nothing is measured, or the record was taken."""
        self._start = 1

    def begin(self, profile: str, before: Trace | None = None) -> Trace | None:
        """Begin the record of an attempt, or continue the one `before`, which extenders have answered."""
        if self.clock is None:
            return None
        self.profile = profile
        if before is None:
            self.trace = [self.clock()]
            self._start = 1
        else:
            self.trace = before
            self._start = len(before)
            before += (EXTENDERS, SUCCESS, self.clock())
        return self.trace

    def reached(self, point: str, status: str) -> None:
        """Add an extension point that is done (`Framework.listen` reports it)."""
        trace, clock = self.trace, self.clock
        if trace is None or clock is None:
            return
        if point is AGAIN:
            del trace[self._start :]
        else:
            trace += (point, status, clock())

    def wait(self) -> None:
        """Stop recording while the attempt waits for extenders; `begin` continues it."""
        self.trace = None

    def take(self) -> Trace | None:
        """Return the points that the finished attempt passed. They can be taken once."""
        trace, self.trace = self.trace, None
        return trace


def points(trace: Trace | None) -> Iterator[tuple[str, str, float]]:
    """Return (point, status, seconds) of each point that was passed."""
    if not trace:
        return
    before = trace[0]
    for i in range(1, len(trace), 3):
        yield trace[i], trace[i + 1], trace[i + 2] - before
        before = trace[i + 2]
