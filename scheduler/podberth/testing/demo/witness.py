"""Records each decision of the running scheduler, with all that `berth explain` says of it, when it is made."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from podberth.cache.cluster import Cluster
from podberth.cache.column import Bools
from podberth.engine.instructions import Bind, Failed, Instruction
from podberth.explain.explain import told
from podberth.explain.explanation import Explanation, FeasibleNode
from podberth.framework.decision import Decision
from podberth.framework.interface import Profile
from podberth.framework.runtime import Framework, Rotation
from podberth.model.pod import Pod

Reader = Callable[[Framework, Decision, Decision, Cluster, float], None]
"""(framework, the decision, the same in full, cluster, seconds that it took) → nothing."""


@dataclass(slots=True)
class SeenDecision:
    """One recorded decision. `answer`: what `berth explain` says of it; `node`: None when the pod found none.

    `seconds`: what deciding took.
    """

    answer: Explanation
    seconds: float
    node: str | None = None
    message: str = ""
    attempts: int = 1

    @property
    def pod(self) -> str:
        """Return namespace/name of the pod."""
        return f"{self.answer.pod.namespace}/{self.answer.pod.name}"

    @property
    def candidates(self) -> list[FeasibleNode]:
        """Return the nodes that could take the pod; the chosen one comes first."""
        return sorted(self.answer.feasible, key=lambda each: each.node != self.node)

    @property
    def regret(self) -> int:
        """Points by which the chosen node trails the best."""
        return self.answer.feasible[0].total - self.candidates[0].total if self.node else 0


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
    """Keeps what the scheduler decided. `heard` is called after each decision."""

    def __init__(self, heard: Callable[[], None]) -> None:
        self.verdicts: list[SeenDecision] = []
        self.errors: list[str] = []
        self._heard = heard
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
                    verdict.node = instruction.node
                else:
                    verdict.message = instruction.message
                verdict.attempts = instruction.attempts
                self.verdicts.append(verdict)
                self._heard()
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
        self._read[decision.pod.key] = SeenDecision(told(decision, framework, cluster), seconds)


def cores(milli: int) -> str:
    """Milli-cores as cores: 500 → 0.5, 2000 → 2."""
    return f"{milli / 1000:.3f}".rstrip("0").rstrip(".")


def took(seconds: float) -> str:
    """Return a short time: 180 µs, 1.2 ms, 3.4 s."""
    if seconds < 0.001:
        return f"{seconds * 1e6:.0f} µs"
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.1f} s"


def why(verdict: SeenDecision) -> list[str]:
    """Return two sentences: who could take the pod, and why the chosen node won."""
    answer = verdict.answer
    able, total = answer.nodes.feasible, answer.nodes.total
    who = f"{able} of {total} nodes can take it" if able != total else f"All {able} nodes can take it"
    out = ", ".join(f"{each.nodes} {each.reason}" for each in answer.summary)
    chosen = "" if answer.choice is None else answer.choice.text
    return [f"{who}; ruled out: {out}." if out else f"{who}.", f"{verdict.node}: {chosen}."]
