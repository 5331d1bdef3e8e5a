"""Says how many more pods, or gangs, fit."""

from collections.abc import Sequence

from podberth.explain.explanation import Limit
from podberth.explain.gangs.capacity import GangCapacity
from podberth.explain.report.parts import BAD, GOOD, IN_JSON, Column, Report, Rows, line
from podberth.explain.report.wording import asked, count
from podberth.explain.simulate.capacity import Capacity, OneMore

_MANY = 20
_FOOT = "Nobody is preempted for these pods. Nothing was written."


def capacity(answer: Capacity, *, everything: bool = False) -> Report:
    """Return the answer: nodes, limits, what is stranded, and what one more node adds."""
    taking = Rows(
        "Where they fit",
        [Column("Node"), Column("More pods", number=True), Column("Then")],
        [node for node in answer.nodes if node.pods],
        lambda node: (node.node, f"{node.pods:,}", ", ".join(node.limits)),
        most=None if everything else _MANY,
    )
    stranded = Rows(
        "Free, and of no use for it",
        [
            Column("Free, and of no use for it", called="Resource"),
            Column("In all", number=True),
            Column("", number=True, called="Share"),
            Column("At most"),
        ],
        answer.stranded,
        lambda each: (each.resource, each.free, f"{100 * each.share:.1f} %", f"{each.most} on {each.node}"),
    )
    limits, one_more = _limits("What keeps the next one out", answer.limits), _one_more("Adds", answer.one_more)
    return Report(
        by="Berth capacity",
        headline=headline(answer),
        verdict=GOOD if answer.fits else BAD,
        lines=[line(asks(answer), "dim"), *(line(note, "yellow") for note in answer.notes)],
        parts=[taking, limits, stranded, one_more],
        foot=_FOOT,
    )


def headline(answer: Capacity) -> str:
    """Return the answer in one line."""
    if not answer.fits:
        return f"No more pods like {answer.pod} fit"
    nodes = sum(node.pods > 0 for node in answer.nodes)
    least = "" if answer.exhausted else "At least "
    return f"{least}{count(answer.fits, 'more pod')} like {answer.pod} {'fit' if answer.fits > 1 else 'fits'}" + (
        f", on {count(nodes, 'node')} of {len(answer.nodes):,}"
    )


def asks(answer: Capacity) -> str:
    """Return the requests of each of the pods, in words."""
    return f"each asks for {asked(answer.requests, answer.claims)} (profile {answer.profile})"


def _limits(title: str, limits: Sequence[Limit]) -> Rows[Limit]:
    """Return the reasons for which the next pod does not fit, with the number of nodes."""
    columns = [Column(title, called="Reason"), Column("Nodes", number=True)]
    return Rows(title, columns, limits, lambda limit: (limit.reason, f"{limit.nodes:,}"), most=_MANY, how=IN_JSON)


def _one_more(adds: str, found: Sequence[OneMore]) -> Rows[OneMore]:
    """Return what one more node of each kind adds. `adds`: the title of that column."""
    return Rows(
        "What one more node would add",
        [Column("One more node like", called="Like"), Column(adds, number=True), Column("There are", number=True)],
        found,
        lambda one: (one.like, f"{one.adds:,}", f"{one.nodes:,}"),
    )


def gang_capacity(answer: GangCapacity, *, everything: bool = False) -> Report:
    """Return the answer: domains, limits, and what one more node adds."""
    domains = Rows(
        "In which domains",
        [Column("Domain"), Column("Gangs", number=True), Column("Pods", number=True)],
        answer.domains if any(each.domain for each in answer.domains) else [],
        lambda each: (each.domain, f"{each.gangs:,}", f"{each.pods:,}"),
        most=None if everything else _MANY,
    )
    limits, one_more = _limits("What keeps the next pod out", answer.limits), _one_more("Adds gangs", answer.one_more)
    return Report(
        by="Berth capacity",
        headline=gangs_headline(answer),
        verdict=GOOD if answer.gangs else BAD,
        lines=[line(gang_asks(answer), "dim"), *(line(note, "yellow") for note in answer.notes)],
        parts=[domains, limits, one_more],
        foot=_FOOT,
    )


def gangs_headline(answer: GangCapacity) -> str:
    """Return the answer in one line."""
    of = count(answer.pods, "pod")
    if not answer.gangs:
        return f"No more gangs like {answer.group} fit, of {of} each"
    least = "" if answer.exhausted else "At least "
    fit = "fit" if answer.gangs > 1 else "fits"
    return f"{least}{count(answer.gangs, 'more gang')} like {answer.group} {fit}, of {of} each"


def gang_asks(answer: GangCapacity) -> str:
    """Return the requests of the pods of a gang, and how many of them start together, in words."""
    who = "each pod asks for" if answer.equal else "the pods of a gang ask for"
    what = asked(answer.requests, answer.claims)
    return f"{who} {what}; {answer.needed:,} start together (profile {answer.profile})"
