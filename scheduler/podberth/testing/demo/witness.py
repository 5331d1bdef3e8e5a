"""Records each decision of the running scheduler, with all scores and reasons, and says it in plain English.

A decision is recorded at the moment when it is made. Every number comes from the verdict; nothing is rounded that
decides.
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from podberth.cache.cluster import Cluster
from podberth.cache.column import Bools
from podberth.engine.instructions import Bind, Failed, Instruction
from podberth.explain.rejections import Asking
from podberth.framework.decision import Decision, narrowed_text
from podberth.framework.explaining import Inquiry
from podberth.framework.interface import Profile
from podberth.framework.runtime import Framework, Rotation
from podberth.model.pod import Pod

Reader = Callable[[Framework, Decision, Decision, Cluster, float], None]
"""(framework, the decision, the same in full, cluster, seconds that it took) → nothing."""
SHORT = {
    "node(s) had untolerated taint(s)": "tainted",
    "node(s) were unschedulable": "cordoned",
    "node(s) didn't match Pod's node affinity/selector": "with other labels than it asks for",
    "node(s) didn't match pod affinity rules": "not near the pods it needs",
    "node(s) didn't match pod anti-affinity rules": "too close to pods it must avoid",
    "node(s) didn't satisfy existing pods anti-affinity rules": "claimed by pods that want to be apart from it",
    "Too many pods": "full of pods",
}
PLUGIN_WORDS = {
    "NodeResourcesFit": "free room",
    "NodeResourcesBalancedAllocation": "balance of cpu and memory",
    "InterPodAffinity": "pods nearby",
    "NodeAffinity": "node labels",
    "TaintToleration": "taints",
    "ImageLocality": "image already there",
    "PodTopologySpread": "even spread",
}


@dataclass(slots=True)
class Candidate:
    """A node that could take the pod. `scores`: plugin → (raw, weighted), empty when nothing was scored."""

    node: str
    total: int
    scores: dict[str, tuple[int, int]]


@dataclass(slots=True)
class Refusal:
    """A node that could not: the plugin that said so, its reason in kube-scheduler's words, and the same in numbers."""

    node: str
    plugin: str
    reason: str
    detail: str


@dataclass(slots=True)
class SeenDecision:
    """One recorded decision. `node` is None when the pod found none; the winner comes first among the candidates.

    `tied`: how many nodes share the best total. `seconds`: what deciding took.
    """

    pod: str
    profile: str
    seconds: float
    nodes: int
    weights: dict[str, int]
    candidates: list[Candidate]
    refusals: list[Refusal]
    tied: int
    node: str | None = None
    message: str = ""
    attempts: int = 1

    @property
    def regret(self) -> int:
        """Points by which the chosen node trails the best."""
        return max((other.total for other in self.candidates), default=0) - self.winner.total if self.node else 0

    def points(self, plugin: str) -> set[int]:
        """Return the different weighted scores that a plugin gave; one alone decides nothing."""
        return {candidate.scores[plugin][1] for candidate in self.candidates}

    @property
    def winner(self) -> Candidate:
        """Return the chosen node."""
        return self.candidates[0]

    @property
    def runner_up(self) -> Candidate | None:
        """Return the next best node."""
        return self.candidates[1] if len(self.candidates) > 1 else None


class Watched(Framework):
    """A profile's framework that has each of its decisions timed, and read in full.

    The scheduler's quick way to decide leaves out what only an explanation needs. So the same question is asked again
    the plain way, off the clock, on the same cluster: the reader gets both, and can compare.
    """

    def __init__(self, profile: Profile, read: Reader) -> None:
        super().__init__(profile)
        self._read = read
        self._busy = False

    def decide_quickly(
        self, pod: Pod, cluster: Cluster, rotation: Rotation | None = None, within: Bools | None = None
    ) -> Decision:
        """Filter and score as ever."""
        decide = partial(super().decide_quickly, rotation=rotation, within=within)
        return self._witnessed(decide, pod, cluster, within)

    def decide(
        self,
        pod: Pod,
        cluster: Cluster,
        rotation: Rotation | None = None,
        *,
        score_always: bool = False,
        within: Bools | None = None,
    ) -> Decision:
        """Filter and score as ever; the plain way."""
        decide = partial(super().decide, rotation=rotation, score_always=score_always, within=within)
        return decide(pod, cluster) if self._busy else self._witnessed(decide, pod, cluster, within)

    def _witnessed(
        self, decide: Callable[[Pod, Cluster], Decision], pod: Pod, cluster: Cluster, within: Bools | None
    ) -> Decision:
        self._busy = True
        try:
            started = time.perf_counter()
            decision = decide(pod, cluster)
            seconds = time.perf_counter() - started
            full = super().decide(pod, cluster, within=within) if decision.quick else decision
        finally:
            self._busy = False
        self._read(self, decision, full, cluster, seconds)
        return decision


class Witness:
    """Keeps what the scheduler decided. `told` is called after each decision."""

    def __init__(self, told: Callable[[], None]) -> None:
        self.verdicts: list[SeenDecision] = []
        self.errors: list[str] = []
        self._told = told
        self._read: dict[str, SeenDecision] = {}
        """The latest decision on each pod. A whole gang is decided on before any of its pods is bound or has failed."""

    def watch(self, frameworks: Mapping[str, Framework]) -> dict[str, Framework]:
        """Frameworks that do the same, and whose decisions are recorded here."""
        return {name: Watched(framework.profile, self._listen) for name, framework in frameworks.items()}

    def observe(self, instruction: Instruction) -> None:
        """Hear one instruction of the engine, in the moment it is given."""
        match instruction:
            case Bind() | Failed(decision=Decision()):
                verdict = self._read.get(instruction.pod.key)
                if verdict is None:
                    raise RuntimeError(f"an instruction for {instruction.pod.key} without a decision on it")
                if isinstance(instruction, Bind):
                    _chosen(verdict, instruction.node)
                else:
                    verdict.message = instruction.message
                verdict.attempts = instruction.attempts
                self.verdicts.append(verdict)
                self._told()
            case Failed():
                self.errors.append(f"{instruction.pod.name}: {instruction.message}")

    def last(self, pod: str) -> SeenDecision | None:
        """Return the latest decision on a pod (namespace/name)."""
        return next((verdict for verdict in reversed(self.verdicts) if verdict.pod == pod), None)

    def _listen(
        self, framework: Framework, quick: Decision, decision: Decision, cluster: Cluster, seconds: float
    ) -> None:
        if sorted(quick.best().tolist()) != sorted(decision.best().tolist()):
            raise RuntimeError(f"{decision.pod.key}: the quick and the plain decision differ")
        names = [name or "" for name in cluster.nodes.names]
        totals: Any = decision.totals if decision.totals is not None else [0] * len(decision.feasible)
        self._read[decision.pod.key] = SeenDecision(
            pod=decision.pod.key,
            profile=decision.pod.scheduler_name,
            seconds=seconds,
            nodes=decision.nodes,
            weights={scored.plugin: scored.weight for scored in decision.scores},
            candidates=[
                Candidate(
                    names[row],
                    int(totals[i]),
                    {scored.plugin: (int(scored.raw[i]), int(scored.weighted[i])) for scored in decision.scores},
                )
                for i, row in enumerate(decision.feasible)
            ],
            refusals=_refusals(framework, decision, cluster, names),
            tied=len(decision.best()),
        )


def _chosen(verdict: SeenDecision, node: str) -> None:
    """Put the winner first."""
    verdict.node = node
    verdict.candidates.sort(key=lambda candidate: (candidate.node != node, -candidate.total, candidate.node))


def _refusals(framework: Framework, decision: Decision, cluster: Cluster, names: list[str]) -> list[Refusal]:
    found = []
    if decision.left_out is not None:
        text, by = narrowed_text(decision), " ".join(decision.narrowed_by)
        found += [Refusal(names[row], by, text, text) for row in decision.left_out.nonzero()[0]]
    asking = Asking(Inquiry(decision.pod, cluster), framework)
    for rejected in decision.rejected:
        for reason, where in rejected.reasons:
            for row in where.nonzero()[0]:
                text, _ = asking.detail(int(row), rejected.plugin, reason)
                found.append(Refusal(names[row], rejected.plugin, reason.text, text))
    return sorted(found, key=lambda refusal: refusal.node)


def cores(milli: int) -> str:
    """Milli-cores as cores: 500 → 0.5, 2000 → 2."""
    return f"{milli / 1000:.3f}".rstrip("0").rstrip(".")


def took(seconds: float) -> str:
    """Return a short time: 180 µs, 1.2 ms, 3.4 s."""
    if seconds < 0.001:
        return f"{seconds * 1e6:.0f} µs"
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.1f} s"


def ruled_out(verdict: SeenDecision) -> str:
    """Return who could not take the pod, by reason; empty when everybody could. Each node counts once, for its
    commonest.
    """
    common = Counter(refusal.reason for refusal in verdict.refusals)
    reasons: dict[str, str] = {}
    for refusal in verdict.refusals:
        before = reasons.get(refusal.node)
        if before is None or common[refusal.reason] > common[before]:
            reasons[refusal.node] = refusal.reason
    counts = Counter(reasons.values())
    return ", ".join(f"{count} {_short(reason)}" for reason, count in counts.most_common())


def why(verdict: SeenDecision) -> list[str]:
    """Return two sentences: who could take the pod, and why the winner won."""
    able = len(verdict.candidates)
    out = ruled_out(verdict)
    who = f"{able} of {verdict.nodes} nodes can take it" if able != verdict.nodes else f"All {able} nodes can take it"
    lines = [f"{who}; ruled out: {out}." if out else f"{who}."]
    winner, second = verdict.winner, verdict.runner_up
    name = winner.node
    if second is None:
        lines.append(f"{name} is the only one, so there was nothing to score.")
    elif winner.total == second.total:
        lines.append(
            f"{name} shares the best total of {winner.total} points with {verdict.tied - 1} other"
            f"{'s' if verdict.tied > 2 else ''}; the seed decided."
        )
    else:
        lead = winner.total - second.total
        lines.append(f"{name} wins with {winner.total} points, {lead} ahead of {second.node}: {_differences(verdict)}.")
    return lines


def differences(verdict: SeenDecision) -> list[tuple[str, int]]:
    """Return the winner's lead over the runner-up by plugin, the biggest first; equal ones are left out."""
    second = verdict.runner_up
    if second is None:
        return []
    found = [(name, weighted - second.scores[name][1]) for name, (_, weighted) in verdict.winner.scores.items()]
    return sorted((pair for pair in found if pair[1]), key=lambda pair: -abs(pair[1]))


def plugin_words(name: str) -> str:
    """Return what a scoring plugin looks at."""
    return PLUGIN_WORDS.get(name, name)


def _differences(verdict: SeenDecision) -> str:
    return ", ".join(f"{plugin_words(name)} {points:+d}".replace("-", "−") for name, points in differences(verdict))


def _short(reason: str) -> str:
    if reason.startswith("Insufficient "):
        return f"short of {reason.removeprefix('Insufficient ')}"
    return SHORT.get(reason, reason)
