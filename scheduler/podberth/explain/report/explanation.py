"""Says where a pod goes and why."""

from collections.abc import Iterator, Sequence
from typing import Any

from rich.text import Text

from podberth.explain.changes import AddNode
from podberth.explain.doubts import undecided
from podberth.explain.explanation import Explanation, FeasibleNode, RejectedNode, Remedy
from podberth.explain.report.parts import BAD, GOOD, HELD, Column, Offer, Offers, Part, Report, Rows, Words, line
from podberth.explain.report.wording import asked, count, some, spaced

MANY = 20
"""The number of nodes that are shown unless all are wanted."""
_FEW = 8
"""Rejected nodes shown when there are nodes that fit."""
_VERDICTS = {"fits": GOOD, "gated": HELD}
_WIDE = 140
"""The number of columns from which on there is room for long node names."""
_LONG = 28


def asks(answer: Explanation) -> str:
    """Return the requests of the pod, in words."""
    return f"asks for {asked(answer.pod.requests)}"


def headline(answer: Explanation) -> str:
    """Return the answer in one line."""
    pod = f"{answer.pod.namespace}/{answer.pod.name}"
    total, feasible = answer.nodes.total, answer.nodes.feasible
    unknown = undecided(answer)
    if unknown:
        return f"{pod} can't be decided: {unknown}"
    match answer.outcome:
        case "fits":
            choice = answer.choice
            if choice is not None and choice.node is not None:
                which = f"the best of {feasible:,} possible nodes" if feasible > 1 else "the only possible node"
                return f"{pod} goes to {choice.node}, {which} ({total:,} in all)"
            best = len(choice.best) if choice is not None else feasible
            return f"{pod} goes to one of {best:,} equally good nodes ({feasible:,} possible, {total:,} in all)"
        case "gated":
            return f"{pod} is not tried: {answer.cause}" if answer.cause else f"{pod} waits for its scheduling gates"
        case "unclaimed":
            return f"{pod} waits for the scheduler {answer.pod.scheduler_name}, and nobody seems to run it"
        case "terminating":
            return f"{pod} is being deleted, so no scheduler places it"
        case "failed":
            return f"{pod} could not be decided: a plugin failed"
    if not total:
        return f"{pod} fits nowhere: there are no nodes"
    where = f"fits on none of {count(total, 'node')}" if total > 1 else "does not fit on the only node"
    return f"{pod} {where}{f': {answer.cause}' if answer.cause else ''}"


def possible(answer: Explanation) -> str:
    """Return the condition under which the nodes of the answer are possible."""
    if answer.outcome == "gated":
        return "could go once it is tried" if answer.cause else "could go without its gates"
    return "could go if its scheduler ran" if answer.outcome == "unclaimed" else "can go"


def moved(answer: Explanation) -> str:
    """Return a note on a pod that is on a node already; empty for a pending pod."""
    node = answer.pod.node
    if node is None:
        return ""
    same = answer.choice is not None and node in answer.choice.best
    return (
        f"it is on {node} now; this is where it would go if it were scheduled again{': the same node' if same else ''}"
    )


def preempts(answer: Explanation) -> str:
    """Return whom the scheduler would remove for this pod; empty: nobody."""
    if answer.preemption is None:
        return ""
    victims = answer.preemption.victims
    return f"the scheduler would make room on {answer.preemption.node} by preempting {some(victims, 4)}"


def common_ending(names: Sequence[str]) -> str:
    """Return the domain that all names end in, empty when they share none or are too few to tell."""
    endings = {name[name.find(".") :] if "." in name else "" for name in names}
    return endings.pop() if len(endings) == 1 and len(names) > 1 else ""


def leads_to(remedy: Remedy) -> str:
    """Return the nodes to which the pod could go after a change."""
    if any(isinstance(change, AddNode) for change in remedy.changes):
        return "the new node" if len(remedy.nodes) == 1 else count(len(remedy.nodes), "node")
    if len(remedy.nodes) == 1:
        return remedy.nodes[0]
    return f"{count(len(remedy.nodes), 'node')}: {some(remedy.nodes, 3)}"


def besides(remedy: Remedy) -> str:
    """Return the effects of a change on other pods, in words; empty: none."""
    effects = remedy.effects
    if effects is None:
        return ""
    said = [
        f"{pod} then goes to {node}" if node else f"{pod} finds no other node" for pod, node in effects.moved.items()
    ]
    said += [f"an eviction of {pod} is refused now: {why}" for pod, why in effects.refused.items()]
    if effects.landed:
        said.append(f"{_others(effects.lands, effects.landed)} would get a node too")
    if effects.loses:
        said.append(f"{some(effects.loses, 3)} would find none any more")
    if effects.unmade:
        said.append(f"nobody makes {some(effects.unmade, 3)} again")
    if effects.relies:
        said.append(f"{some(effects.relies, 3)} asks for the label as it is and could not come back to the node")
    return "; ".join(said)


def _others(names: Sequence[str], number: int) -> str:
    return f"{', '.join(names)} and {number - len(names):,} more" if number > len(names) else ", ".join(names)


def telling(answer: Explanation) -> tuple[list[str], list[str]]:
    """Return the scoring plugins whose points differ between nodes, and those that give all nodes the same."""
    differ: list[str] = []
    same: list[str] = []
    for scorer in answer.scorers:
        points = {node.scores[scorer.plugin].weighted for node in answer.feasible}
        (differ if len(points) > 1 else same).append(scorer.plugin)
    return differ, same


def same_for_all(answer: Explanation, plugins: Sequence[str]) -> str:
    """Return the points that every node gets, in words."""
    first: FeasibleNode = answer.feasible[0]
    return ", ".join(f"{plugin} {first.scores[plugin].weighted}" for plugin in plugins)


def report(answer: Explanation, *, everything: bool = False, width: int | None = None) -> Report:
    """Return the whole answer: scores or rejections, what would help, kube-scheduler's words.

    `everything`: all nodes and all scores. `width`: of a terminal, in columns; where room is short, long node names
    lose an ending that they share.
    """
    names = [node.node for node in answer.feasible] + [node.node for node in answer.rejected]
    roomy = width is None or width >= _WIDE or max(map(len, names), default=0) <= _LONG
    return _Drawing(answer, everything, "" if roomy else common_ending(names)).report()


class _Drawing:
    """The report of an answer while it is made. `ending`: what node names are shown without."""

    def __init__(self, answer: Explanation, everything: bool, ending: str) -> None:
        self._answer = answer
        self._everything = everything
        self._ending = ending

    def report(self) -> Report:
        """Return the report."""
        answer = self._answer
        parts: list[Part] = []
        if answer.feasible:
            parts.append(self._scores())
        parts += self._rejections()
        if self._ending:
            parts.append(Words("", [line(f"node names end in {self._ending}", "dim")]))
        if answer.remedies:
            parts.append(Offers("What would free it (each was tried)", [*map(self._offer, answer.remedies)]))
        elif answer.rejected and answer.outcome == "unschedulable":
            parts.append(Words("No single small change would free it."))
        if answer.message and answer.outcome != "gated" and not undecided(answer):
            parts.append(Words("In kube-scheduler's words", [line(answer.message, "dim")]))
        return Report(
            by="Berth explain",
            headline=headline(answer),
            verdict=_VERDICTS.get(answer.outcome, BAD),
            lines=[*self._lines()],
            parts=parts,
            signed=True,
            foot="The nodes closest to fitting come first. Lines that begin with “and” are of plugins that come after "
            "the one that rejected the node.",
        )

    def _lines(self) -> Iterator[Text]:
        answer = self._answer
        yield line(f"{asks(answer)} · priority {answer.pod.priority} · profile {answer.profile}", "dim")
        if answer.outcome == "unclaimed":
            yield line(f"{answer.profile} would place it: see below")
        if answer.choice is not None and len(answer.feasible) > 1 and answer.outcome == "fits":
            yield self._line(answer.choice.text)
        for said in (moved(answer), preempts(answer), *answer.notes):
            if said and said != answer.cause:
                yield line(said, "yellow")
        if answer.promise is not None:
            style = "dim" if answer.promise.state in ("kept", "waiting") else "bold yellow"
            yield line(f"promise {answer.promise.state}: {answer.promise.text}", style)
        if answer.verdict is not None and answer.verdict.detail != answer.cause:
            said = answer.verdict.detail or answer.verdict.reason
            yield line(f"{answer.verdict.plugin or 'PreFilter'}: {said}", "red")

    def _scores(self) -> Rows[FeasibleNode]:
        answer = self._answer
        differ, same = telling(answer)
        if self._everything:
            differ, same = [scorer.plugin for scorer in answer.scorers], []
        weights = {scorer.plugin: scorer.weight for scorer in answer.scorers}

        def cells(node: FeasibleNode) -> Iterator[Text | str]:
            yield f"{node.rank:,}"
            yield self._line(node.node, "bold green" if node.rank == 1 else "")
            yield Text(f"{node.total:,}", style="bold")
            for plugin in differ:
                score = node.scores[plugin]
                raw = f" ({score.raw:,})" if score.raw != score.weighted else ""
                yield Text(f"{score.weighted:,}").append(raw, style="dim")

        below = [
            self._line(f"on {node.node}, {claim} gets {some(devices, 4)}")
            for node in answer.feasible[:_FEW]
            for claim, devices in node.devices.items()
        ]
        if differ:
            below.append(line("points after weighting, (raw score) where it differs", "dim"))
        if same:
            below.append(line(f"the same on every node: {same_for_all(answer, same)}", "dim"))
        return Rows(
            f"Where it {possible(answer)}: {count(len(answer.feasible), 'node')}",
            [
                Column("", number=True, called="Rank", whole=True, style="dim"),
                Column("Node", least=8),
                Column("Points", number=True, whole=True),
                *(Column(f"{spaced(plugin)} ×{weights[plugin]}", number=True, least=6) for plugin in differ),
            ],
            answer.feasible,
            lambda node: [*cells(node)],
            most=None if self._everything else MANY,
            headed=True,
            below=below,
        )

    def _rejections(self) -> Iterator[Rows[Any]]:
        answer = self._answer
        most = len(answer.rejected) if self._everything else _FEW if answer.outcome == "fits" else MANY
        heading = f"Where it can't go: {count(len(answer.rejected), 'node')}"
        if most < len(answer.rejected):
            yield Rows(
                heading,
                [Column("Nodes", number=True, whole=True), Column("Reason"), Column("Plugin", style="dim")],
                answer.summary,
                lambda each: (f"{each.nodes:,}", each.reason, each.plugin),
                headed=True,
            )
            heading = f"The {most} closest to fitting"
        yield Rows(
            heading,
            [Column("Node", least=8), Column("Rejected by", least=10, aside=True), Column("Why", share=1)],
            answer.rejected,
            lambda node: (self._line(node.node), line(node.plugin, "red"), self._why(node)),
            most=most,
            headed=True,
        )

    def _why(self, node: RejectedNode) -> Text:
        """Return a line for each finding; those of plugins that kube-scheduler did not get to ask are dimmed."""
        found = [self._line(finding.detail) for finding in node.findings]
        found += [self._line(f"and {finding.plugin}: {finding.detail}", "dim") for finding in node.also]
        return Text("\n").join(found)

    def _offer(self, remedy: Remedy) -> Offer:
        return Offer(
            self._short(remedy.text),
            self._short(f"then {leads_to(remedy)}"),
            self._short(some(remedy.instead, 2)),
            self._short(besides(remedy)),
            remedy.commands,
        )

    def _line(self, said: str, style: str = "") -> Text:
        return line(self._short(said), style)

    def _short(self, said: str) -> str:
        return said.replace(self._ending, "") if self._ending else said
