"""The answers of `berth shadow`: one `Compared` for each pod that the other scheduler has bound, and a `Tally` of
all."""

from msgspec import Struct, field

from podberth.explain.explanation import Answer, Shown

SAME, TIE, BETTER, REFUSED, NOWHERE, SKIPPED = "same", "tie", "better", "refused", "nowhere", "skipped"
AGREED = (SAME, TIE)
DIFFER = (BETTER, REFUSED, NOWHERE)
OLDER, NEWER = "older", "newer"
CLAIMS = "its claims got volumes or devices while it waited, and these name its node"
GROUP = "the pods of a pod group are decided together"
UNSEEN = "it was not seen while it waited"
GAP = "its Binding was seen only in a list, after the watch had ended"
NO_NODE = "its node is not known here yet"


class PluginPoints(Shown, frozen=True):
    """The points that a plugin gave both nodes, times its weight."""

    plugin: str
    theirs: int
    ours: int


class Compared(Answer, kw_only=True, frozen=True):
    """One pod that the other scheduler has bound to `node`, and what this profile would have done.

    `verdict`: same; tie (`best` takes as many points, and would be taken by the seed); better (`best` has `lead` points
    more); refused (a filter rejects `node`, the pod would go to `best`); nowhere (it would go to no node); skipped (not
    compared, `reason` says why). `at`: seconds since the first change. `scores` is there for better, of the plugins
    that tell the nodes apart. `state`: null for the state when the Binding was seen, older or newer if only that agrees
    with the other scheduler: without the last `apart` placements, or with the next. `newer`: placements that were seen
    while the pod waited, each of them before or after it was decided.
    """

    kind: str = "ShadowedPod"
    pod: str
    node: str
    at: float
    verdict: str
    best: str | None = None
    feasible: int = 0
    points: int | None = None
    lead: int = 0
    scores: list[PluginPoints] = field(default_factory=list)
    plugin: str | None = None
    reason: str | None = None
    message: str | None = None
    state: str | None = None
    apart: int = 0
    newer: int = 0


class Waiting(Shown, frozen=True):
    """Pods that the other scheduler has refused at the end. `looked`: of how many it was tried; `fit`: pod → node."""

    pods: int
    looked: int
    fit: dict[str, str]


class Summary(Answer, kw_only=True, frozen=True):
    """The summary of all pods. `points`: by how much Berth's nodes are better in all, `most` at one pod.

    `plugins`: by plugin, the points by which its scores make Berth's nodes better (or worse, negative); `refusals`:
    plugin → pods. `skipped`: why pods were not compared → how many. `otherState`: of those that agree, how many do only
    in an older or a newer state.
    """

    kind: str = "ShadowSummary"
    of: str
    profile: str
    seconds: float
    pods: int
    same: int
    tie: int
    other_state: int
    better: int
    points: int
    most: int
    refused: int
    nowhere: int
    plugins: dict[str, int]
    refusals: dict[str, int]
    skipped: dict[str, int]
    waiting: Waiting
    unreadable: int

    @property
    def differ(self) -> int:
        """Return pods for which Berth would have done something else."""
        return self.better + self.refused + self.nowhere


class Tally(Struct):
    """Counts answers, in memory that does not grow with the number of pods."""

    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys((*AGREED, *DIFFER), 0))
    other_state: int = 0
    points: int = 0
    most: int = 0
    plugins: dict[str, int] = field(default_factory=dict)
    refusals: dict[str, int] = field(default_factory=dict)
    skipped: dict[str, int] = field(default_factory=dict)

    @property
    def pods(self) -> int:
        """Return the number of pods that were compared."""
        return sum(self.counts.values())

    def add(self, one: Compared) -> None:
        """Count one."""
        if one.verdict == SKIPPED:
            # Messages of a plugin that fails may name the pod, so they are counted together.
            reason = one.reason if one.plugin is None and one.reason else "a plugin failed, or it cost too much"
            self.skipped[reason] = self.skipped.get(reason, 0) + 1
            return
        self.counts[one.verdict] += 1
        self.other_state += one.state is not None
        self.points += one.lead
        self.most = max(self.most, one.lead)
        for each in one.scores:
            self.plugins[each.plugin] = self.plugins.get(each.plugin, 0) + each.ours - each.theirs
        if one.verdict in (REFUSED, NOWHERE) and one.plugin:
            self.refusals[one.plugin] = self.refusals.get(one.plugin, 0) + 1
