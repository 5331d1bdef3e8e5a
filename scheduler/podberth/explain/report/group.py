"""Says why a pod group starts or not."""

from collections.abc import Sequence

from rich.text import Text

from podberth.explain.gangs.answer import GOOD as GOOD_OUTCOMES
from podberth.explain.gangs.answer import DomainRoom, GroupExplanation
from podberth.explain.report.parts import BAD, GOOD, HELD, Column, Offer, Offers, Part, Report, Rows, Words, line
from podberth.explain.report.wording import count


def headline(answer: GroupExplanation) -> str:
    """Return the answer in one line."""
    group = answer.group
    name = f"{group.namespace}/{group.name}"
    match answer.outcome:
        case "runs":
            return f"{name} runs: {count(group.running, 'pod')}"
        case "starts":
            rest = f"; {group.waiting - answer.fits:,} find none" if answer.fits < group.waiting else ""
            return f"{name} can start: {_of(answer)} find a node{rest}"
        case "unclaimed":
            return f"{name} fits, and waits for a scheduler that nobody seems to run"
        case "held":
            return f"{name} is not tried yet: {answer.cause}"
        case "failed":
            return f"{name} could not be decided: {answer.cause}"
    where = f" in one {group.topology_key}" if answer.domain else ""
    if not answer.domains and answer.cause:
        return f"{name} does not start: {answer.cause}"
    return f"{name} does not start: {_of(answer)} fit{where}"


def _of(answer: GroupExplanation) -> str:
    group = answer.group
    lacking = max(group.needed - group.running, 1)
    return f"{answer.fits:,} of {max(group.waiting, lacking):,} pods"


def facts(answer: GroupExplanation) -> str:
    """Return the description of the group, in words."""
    group = answer.group
    kind = "the policy basic" if group.min_count is None else f"{count(group.min_count, 'pod')} start together"
    parts = [kind, f"{group.waiting:,} wait", f"{group.running:,} run", f"priority {group.priority}"]
    if group.topology_key:
        parts.append(f"asks for one {group.topology_key}")
    return " · ".join((*parts, f"profile {answer.profile}"))


def stop(answer: GroupExplanation) -> str:
    """Return the pod that stops the group, and the reason, in words."""
    if answer.stopped is None:
        return ""
    more = answer.stopped.alike - 1
    alike = f" (and {count(more, 'more pod')} like it)" if more else ""
    return f"{answer.stopped.pod.partition('/')[2]} stops it{alike}: {answer.stopped.cause}"


def limits(domain: DomainRoom) -> str:
    """Return the reasons for which the next pod does not fit into a domain."""
    return ", ".join(f"{limit.reason} ({count(limit.nodes, 'node')})" for limit in domain.limits)


def then(answer: GroupExplanation, fits: int) -> str:
    """Return the effect of a change, in words."""
    return f"then {fits:,} of {answer.group.waiting:,} find a node"


_MANY = 20


def report(answer: GroupExplanation, *, everything: bool = False) -> Report:
    """Return the answer: what stops it, domains, what would start it, and kube-scheduler's words."""
    good = answer.outcome in GOOD_OUTCOMES
    stopped = [line(said, "red")] if (said := stop(answer)) else []
    parts: list[Part] = []
    on_page: list[Part] = []
    (on_page if good and not everything else parts).append(_domains(answer, everything=everything))
    if answer.remedies:
        offers = [Offer(one.text, then(answer, one.fits), commands=one.commands) for one in answer.remedies]
        parts.append(Offers("What would start it (each was tried)", offers, most=None if everything else 1))
    elif answer.outcome == "unschedulable":
        parts.append(Words("No single small change would start it."))
    if answer.stopped is not None and answer.stopped.closest:
        columns = [Column("Node"), Column("Why not")]
        closest = f"Closest to taking {answer.stopped.pod}"
        on_page.append(Rows(closest, columns, answer.stopped.closest, lambda each: (each["node"], _lines(each["why"]))))
    if answer.message:
        words = [line(answer.message, "dim")]
        if answer.stopped is not None:
            words.append(line(f"{answer.stopped.pod.partition('/')[2]}: {answer.stopped.message}", "dim"))
        parts.append(Words("In kube-scheduler's words", words))
    return Report(
        by="Berth explain",
        headline=headline(answer),
        verdict=GOOD if good else HELD if answer.outcome == "held" else BAD,
        lines=[line(facts(answer), "dim"), *stopped, *(line(note, "yellow") for note in answer.notes)],
        parts=parts,
        on_page=on_page,
        signed=True,
        foot="The largest part of the group was placed in a dry run, pod by pod in the scheduler's order. Nothing was "
        "written.",
    )


def _domains(answer: GroupExplanation, *, everything: bool) -> Rows[DomainRoom]:
    def cells(each: DomainRoom) -> tuple[str, ...]:
        numbers = ("?" if number is None else f"{number:,}" for number in (each.fits, each.short))
        return each.domain or "all nodes", f"{each.nodes:,}", *numbers, limits(each)

    return Rows(
        "Where its pods fit",
        [
            Column(answer.group.topology_key or "Where"),
            *(Column(title, number=True, whole=True) for title in ("Nodes", "Fit", "Short")),
            Column("What keeps the next one out", share=1),
        ],
        answer.domains,
        cells,
        most=None if everything else _MANY,
        headed=True,
    )


def _lines(texts: Sequence[str]) -> Text:
    return Text("\n").join(map(line, texts))
