"""The end of the story: a pod that fits nowhere, why, in numbers and node by node, and the change that frees it.

The numbers and the changes are `podberth.explain.explain`'s, asked of the scheduler's own cache.
"""

from collections.abc import Callable, Iterable
from typing import TypeVar

from podberth.explain.changes import Request, Uncordon
from podberth.explain.explanation import RejectedNode, Remedy
from podberth.testing.demo import words
from podberth.testing.demo.objects import Object
from podberth.testing.demo.play import Play
from podberth.testing.demo.recording import Explained
from podberth.testing.demo.witness import SeenDecision

SHOWN_NODES = 14
SHOWN_REMEDIES = 5
MODEST = 10
"""Milli-cores that the pod asks for in the end on a cluster that is not ours."""

Wanted = TypeVar("Wanted", Uncordon, Request)


async def free_by_uncordoning(play: Play, report: Object) -> None:
    """Open the node that `explain` says would do."""
    name = report["metadata"]["name"]
    verdict, change = await _explained(play, report, Uncordon)
    if change is None:
        await _stays(play, verdict)
        return
    await play.uncordon(play.short(change.node))
    await play.show_outcome(name, after=verdict)


async def free_by_asking_less(play: Play, report: Callable[[int], Object]) -> None:
    """Ask for more than any node has free; then, since the cluster is not ours to change, for less."""
    nodes = play.mirror.nodes.values()
    most = max(node.allocatable.get("cpu", 0) - play.mirror.used(node.name) for node in nodes)
    asks = report((max(most, 0) // 1000 + 2) * 1000)
    name = asks["metadata"]["name"]
    verdict, change = await _explained(play, asks, Request)
    if change is None:
        await _stays(play, verdict)
        return
    modest = min(MODEST, change.requests.get("cpu", MODEST))
    await play.delete_pod(name)
    title = f"{name} is deleted and created again, asking for {words.cores(modest)} cores"
    line = "More would do, as you saw. But the room on your nodes is yours."
    await play.show("change", title, [line], pod=name, puts={name: None})
    await play.create(report(modest))
    await play.show_outcome(name, after=verdict)


async def _explained(play: Play, pod: Object, kind: type[Wanted]) -> tuple[SeenDecision, Wanted | None]:
    """Create the pod, tell why it waits and what would free it; the first single change of this kind."""
    name = pod["metadata"]["name"]
    [verdict] = await play.place(pod)
    if verdict.node is not None:
        return verdict, None
    explanation = play.explain(name)
    nodes: list[tuple[str, str]] = [
        (play.short(rejected.node), _in_the_way(play, rejected)) for rejected in explanation.rejected
    ]
    remedies: list[tuple[str, str]] = [
        (play.shorten(remedy.text), _goes(play, remedy)) for remedy in explanation.remedies
    ]
    offered: list[tuple[int, Wanted]] = [
        (i, remedy.changes[0])
        for i, remedy in enumerate(explanation.remedies)
        if len(remedy.changes) == 1 and isinstance(remedy.changes[0], kind)
    ]
    taken, change = offered[0] if offered else (None, None)
    await play.show(
        "pending",
        f"Why {name} waits, and what would free it",
        [*_node_lines(nodes), *_remedy_lines(remedies)],
        pod=name,
        explanation=Explained(nodes, remedies, taken),
        beats=5.0,
    )
    return verdict, change


async def _stays(play: Play, verdict: SeenDecision) -> None:
    """What the story may change here would not free the pod; or it found a node after all."""
    if verdict.node is None:
        name = verdict.pod.rpartition("/")[2]
        await play.show("pending", f"{name} stays pending: the demo may not change any of these here", pod=name)


def _in_the_way(play: Play, rejected: RejectedNode) -> str:
    return play.shorten("; ".join(finding.detail for finding in (*rejected.findings, *rejected.also)))


def _goes(play: Play, remedy: Remedy) -> str:
    return ", ".join(play.short(node) for node in remedy.nodes[:3]) + (", …" if len(remedy.nodes) > 3 else "")


def _node_lines(nodes: list[tuple[str, str]]) -> Iterable[str]:
    """Return what stands in the way on each node, the closest to fitting first."""
    shown = nodes[:SHOWN_NODES]
    wide = max((len(node) for node, _ in shown), default=0)
    yield from (f"{node:<{wide}}  {text}" for node, text in shown)
    if len(nodes) > len(shown):
        yield f"… and {len(nodes) - len(shown)} more nodes"


def _remedy_lines(remedies: list[tuple[str, str]]) -> Iterable[str]:
    if not remedies:
        yield "No change that was tried would free it."
        return
    yield "Any of these would free it; each was tried with all filters before it is offered:"
    yield from (f"  {text} (then it fits on {goes})" for text, goes in remedies[:SHOWN_REMEDIES])
