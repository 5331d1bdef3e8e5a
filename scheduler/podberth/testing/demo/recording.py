"""The story, step by step: written by `play`, read by the terminal and by the page, which both only repeat it."""

from dataclasses import asdict, dataclass, field
from typing import Any

from podberth.testing.demo import witness
from podberth.testing.demo.witness import SeenDecision

MOST_CANDIDATES = 8


@dataclass(slots=True)
class PodCard:
    """A pod as the picture shows it. `mine` is False for pods that another scheduler placed."""

    name: str
    app: str
    cpu: int
    memory: int
    gpus: int
    mine: bool


@dataclass(slots=True)
class NodeCard:
    """A node as the picture shows it, by its short name."""

    name: str
    zone: str
    cpu: int
    memory: int
    gpus: int
    taints: list[str]
    cordoned: bool
    labels: dict[str, str]


@dataclass(slots=True)
class Explained:
    """The answer of `berth explain` about a pending pod. `nodes`: (node, what stands in its way), the closest first.

    `remedies`: (change, where the pod would fit then); `taken` is the one that the story carries out.
    """

    nodes: list[tuple[str, str]]
    remedies: list[tuple[str, str]]
    taken: int | None = None


@dataclass(slots=True)
class Step:
    """One thing that happened. `puts`: pod → node, "" while it waits, None when it is gone.

    `kind` is scene, bound, pending, gated, rejected, or change.
    """

    act: int
    kind: str
    title: str
    lines: list[str] = field(default_factory=list)
    pod: str = ""
    node: str = ""
    puts: dict[str, str | None] = field(default_factory=dict)
    cordons: dict[str, bool] = field(default_factory=dict)
    verdict: SeenDecision | None = None
    explanation: Explained | None = None


@dataclass(slots=True)
class Act:
    """A chapter of the story."""

    title: str
    text: str


@dataclass(slots=True)
class Recording:
    """The whole story."""

    server: str = ""
    nodes: dict[str, NodeCard] = field(default_factory=dict)
    pods: dict[str, PodCard] = field(default_factory=dict)
    acts: list[Act] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    summary: list[tuple[str, str, str]] = field(default_factory=list)
    """(number, what it counts, a word of explanation)."""


def page_data(recording: Recording) -> dict[str, Any]:
    """Return the recording as plain data for `podberth.explain.report.pages`."""
    data = asdict(recording)
    data["nodes"] = list(data["nodes"].values())
    for raw, step in zip(data["steps"], recording.steps, strict=True):
        raw["verdict"] = None if step.verdict is None else _verdict(step.verdict)
    return data


def _verdict(seen: SeenDecision) -> dict[str, Any]:
    answer = seen.answer
    points = {one.plugin: {node.scores[one.plugin].weighted for node in answer.feasible} for one in answer.scorers}
    return {
        "node": seen.node,
        "message": seen.message,
        "attempts": seen.attempts,
        "took": witness.took(seen.seconds),
        "profile": answer.profile,
        "nodes": answer.nodes.total,
        "able": answer.nodes.feasible,
        "weights": {one.plugin: one.weight for one in answer.scorers},
        "flat": [plugin for plugin, given in points.items() if len(given) == 1],
        "candidates": [
            {
                "node": each.node,
                "total": each.total,
                "scores": {plugin: (score.raw, score.weighted) for plugin, score in each.scores.items()},
            }
            for each in seen.candidates[:MOST_CANDIDATES]
        ],
        "refusals": [
            {"node": each.node, "plugin": one.plugin, "reason": one.reason, "detail": one.detail}
            for each in answer.rejected
            for one in each.findings
        ],
    }
