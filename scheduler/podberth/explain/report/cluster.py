"""Says in words what many pods wait for, which nodes could go, and which pods would be evicted."""

from collections.abc import Iterator

from podberth.explain.pending import Cause, Pending
from podberth.explain.promises import BUDGET, EVICT, LEFT_ALONE, STAYS, WAITS, Plan, PlannedEviction
from podberth.explain.report.explanation import leads_to
from podberth.explain.report.parts import BAD, GOOD, IN_JSON, Cell, Column, Offer, Offers, Report, Rows, Words, line
from podberth.explain.report.wording import count, some
from podberth.explain.simulate.removable import Kept, Movable, Removals

_MANY = 20
_OWNERS = 3
_OWNERS_ON_A_PAGE = 20


# --- pods that wait ---------------------------------------------------------------------------------------------------


def pending(answer: Pending, *, everything: bool = False) -> Report:
    """Return causes with who waits for them, and what would free most."""
    changes = Rows(
        "Changes of the cluster that help most (each was tried for one pod of a kind)",
        [Column("Pods", number=True), Column("Change")],
        answer.changes,
        lambda change: (f"{change.pods:,}", change.text),
        headed=True,
    )
    return Report(
        by="Berth explain",
        headline=_pending_headline(answer),
        verdict=BAD if answer.pods else GOOD,
        lines=[line(note, "yellow") for note in answer.notes],
        parts=[_causes(answer, everything=everything), changes, *_about_others(answer)],
        on_page=[*_in_full(answer)],
    )


def _pending_headline(answer: Pending) -> str:
    if not answer.pods:
        return "No pod waits"
    causes = count(len(answer.causes), "cause")
    return f"{count(answer.pods, 'pod')} {'wait' if answer.pods > 1 else 'waits'}, for {causes}"


def _causes(answer: Pending, *, everything: bool) -> Rows[Cause]:
    def cells(cause: Cause) -> tuple[str, ...]:
        owners = some(_owners_of(cause), len(cause.owners) if everything else _OWNERS)
        texts = [*(one.text for one in cause.remedies), *(one.text for one in cause.group_remedies)]
        return f"{cause.pods:,}", _why(cause), owners, next(iter(texts), "")

    return Rows(
        "Causes",
        [
            Column("Pods", number=True),
            Column("Why", share=3),
            Column("Whose", share=2),
            Column("What would free one", share=2),
        ],
        answer.causes,
        cells,
        most=None if everything else _MANY,
    )


def _in_full(answer: Pending) -> Iterator[Words | Offers]:
    for cause in answer.causes:
        owners = some(_owners_of(cause), _OWNERS_ON_A_PAGE)
        yield Words(f"{count(cause.pods, 'pod')}: {_why(cause)}", [line(owners, "dim")])
        if cause.remedies:
            offers = [Offer(one.text, f"then {leads_to(one)}", commands=one.commands) for one in cause.remedies]
            yield Offers(f"What would free {cause.example}", offers)
        if cause.group_remedies:
            offers = [
                Offer(one.text, f"then {one.fits:,} of its pods find a node", commands=one.commands)
                for one in cause.group_remedies
            ]
            yield Offers(f"What would start the group of {cause.example}", offers)


def _about_others(answer: Pending) -> Iterator[Words]:
    if answer.causes:
        yield Words("", [line(f"berth explain {answer.causes[0].example} says more of one pod, with commands", "dim")])
    if answer.not_explained:
        yield Words("", [line(f"{count(answer.not_explained, 'pod')} of rarer kinds are not explained", "dim")])


def _why(cause: Cause) -> str:
    """Return why the pods of a cause wait, with what more is known of the example."""
    return f"{cause.cause} ({cause.example}: {cause.detail})" if cause.detail else cause.cause


def _owners_of(cause: Cause) -> list[str]:
    """Return the owners of the pods that wait: `ReplicaSet ns/web (3)`."""
    return [f"{owner} ({number:,})" if number > 1 else owner for owner, number in cause.owners.items()]


# --- nodes that could go ----------------------------------------------------------------------------------------------

_FEW = 3


def removable(found: Removals) -> Report:
    """Return the nodes that can go together, then each node by itself, and what keeps the others."""
    together = [line(f"together, in this order: {some(found.together, _MANY)}")] if found.together else []
    untried = [f"not tried, to save time: {some(found.not_tried, _FEW)}"] if found.not_tried else []
    could_go = Rows(
        "Could go by itself",
        [
            Column("Could go by itself", called="Node"),
            Column("Pods", number=True, aside=True),
            Column("They would land on"),
        ],
        found.removable,
        lambda each: (each.node, f"{each.pods:,}", _lands(each)),
        most=_MANY,
        how=IN_JSON,
    )
    stay = Rows(
        "Stays",
        [
            Column("Stays", called="Node"),
            Column("Pods", number=True, aside=True),
            Column("Because of", aside=True),
            Column("Why"),
        ],
        found.kept,
        lambda kept: (kept.node, f"{kept.pods:,}", *_stops(kept)),
        most=_MANY,
        how=IN_JSON,
    )
    return Report(
        by="Berth simulate",
        headline=_removable_headline(found),
        verdict=GOOD if found.removable else BAD,
        lines=[*(line(note, "yellow") for note in (*found.notes, *untried)), *together],
        parts=[could_go, stay],
    )


def _removable_headline(found: Removals) -> str:
    total = len(found.removable) + len(found.kept) + len(found.not_tried)
    if not found.removable:
        return f"none of {count(total, 'node')} could be removed (profile {found.profile})"
    moved = f", which moves {count(found.together_pods, 'pod')}" if found.together_pods else ""
    return (
        f"{len(found.removable):,} of {count(total, 'node')} could be removed by themselves, "
        f"{len(found.together):,} of them together{moved} (profile {found.profile})"
    )


def _lands(node: Movable) -> str:
    """Return the nodes to which the pods of a node would go, in words."""
    return some(list(dict.fromkeys(node.moves.values())), _FEW)


def _stops(node: Kept) -> tuple[str, str]:
    """Return the pod that keeps a node, with the number of others, and the reason."""
    pod, why = next(iter(node.stops.items()))
    more = f" and {len(node.stops) - 1:,} more" if len(node.stops) > 1 else ""
    return f"{pod}{more}", why


# --- pods that would be evicted ---------------------------------------------------------------------------------------

_STYLES = {EVICT: "bold", WAITS: "yellow", BUDGET: "yellow", STAYS: "yellow", LEFT_ALONE: "dim"}
_WORDS = {EVICT: "evict", WAITS: "evict later", BUDGET: "wait", STAYS: "stay", LEFT_ALONE: "leave alone"}


def evictions(plan: Plan) -> Report:
    """Return every broken promise with what would be done about it."""
    nodes = f"{count(plan.broken_nodes, 'node')} of {plan.nodes:,}"
    breaker = f"The breaker would be open: {nodes} break promises, {plan.limit:,} may. Nothing would be evicted."
    kept = f"All promises of {count(plan.pods, 'pod')} are kept"
    broken = f"{len(plan.evictions):,} of {count(plan.pods, 'promise')} broken, on {nodes}"
    table = Rows(
        "What would be done",
        [
            Column("Pod", least=12),
            Column("On", least=6),
            Column("Broken", share=2),
            Column("Then", whole=True),
            Column("Where to, or why not", share=2),
        ],
        plan.evictions,
        _eviction,
        headed=True,
    )
    unreadable = [line(f"unreadable: {problem}", "yellow") for problem in plan.unreadable]
    return Report(
        by="Berth evictor",
        headline=broken if plan.evictions else kept,
        verdict=BAD if plan.evictions else GOOD,
        lines=[line(breaker, "bold yellow")] if plan.evictions and plan.breaker_open else [],
        parts=[table, Words("", unreadable)],
        signed=True,
    )


def _eviction(one: PlannedEviction) -> tuple[Cell, ...]:
    why = "; ".join(part for part in (f"to {one.target}" if one.target else "", one.text) if part)
    return f"{one.namespace}/{one.name}", one.node, one.breach, line(_WORDS[one.action], _STYLES[one.action]), why
