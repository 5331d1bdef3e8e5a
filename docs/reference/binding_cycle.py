"""Write docs/reference/binding-cycle.md from the table that the scheduler uses. A test holds the page equal to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from podberth.engine.binding_table import ANSWERS, ASKING, ENDS, LIVE, TABLE, Action, Event, Outcome, State

PAGE = Path(__file__).parent / "binding-cycle.md"
HEAD = """\
# The binding cycle

`make reference` writes this page from the table in
[`engine/binding_table.py`](../../scheduler/podberth/engine/binding_table.py). The scheduler uses the same table:
[`engine/binding_cycle.py`](../../scheduler/podberth/engine/binding_cycle.py) does what it says.
A test walks every state with every event.

When a node was chosen, the pod is assumed: it counts as placed there. Then its plugins run, one extension point
after the other, until the pod is bound or reverted. *Unreserve* means that plugins give back what they reserved,
*forget* that the node's room is free again.

"""
ABOUT = {
    State.RESERVING: "Reserve plugins take what the pod needs on its node",
    State.GROUP_DECIDING: "the pod's group is being tried: the pod holds what it needs until that is decided",
    State.PERMITTING: "Permit plugins are asked whether it may go, and when",
    State.PERMIT_CALLING: "the coroutine of a Permit plugin runs",
    State.WAITING_ON_PERMIT: "Permit plugins hold the pod until they allow it, each for a time of its own",
    State.PRE_BINDING: "PreBind plugins do what has to be done before the Binding",
    State.PRE_BIND_WRITING: "the API server writes what a PreBind plugin wants written",
    State.PRE_BIND_LEAVING: "the pod is gone, or bound by somebody else; what is being written for it may still happen",
    State.PRE_BIND_WAITING: "a PreBind plugin waits for objects to change: for a claim to be bound, for example",
    State.PRE_BIND_CALLING: "the coroutine of a PreBind plugin runs",
    State.GROUP_GATHERING: "the pod could be bound, and waits until enough pods of its group could be, too",
    State.BINDING: "Bind plugins are asked in turn who binds the pod",
    State.BIND_CALLING: "the coroutine of a Bind plugin runs, and may have bound the pod already",
    State.BIND_POSTING: "the API server has the Binding, or will have it soon",
    State.BOUND: "the pod is bound: an end",
    State.REVERTED: "nothing is held for the pod any more: an end",
}


def page() -> str:
    """The whole page."""
    asked = ", ".join(state.value for state in ASKING)
    outside = [event for event in Event if event not in ANSWERS]
    parts = [
        HEAD,
        *_diagram(),
        "\n| state | what goes on |\n| --- | --- |\n",
        *(f"| {state.value} | {ABOUT[state]} |\n" for state in State),
        f"\n## What plugins answer\n\nPlugins are asked in {asked}.\n",
        "They answer at once, before anything else can happen; in the other states no plugin is asked.\n\n",
        *_table(ANSWERS, ASKING),
        "\n## What happens meanwhile\n\nAfter an end nothing comes of anything, but for the coroutines of PostBind.\n",
        "A pod is found in a state in which plugins are asked only when Berth itself broke while it asked them.\n\n",
        *_table(outside, LIVE),
    ]
    return "".join(parts)


def _diagram() -> Iterator[str]:
    yield "```mermaid\nstateDiagram-v2\n"
    for state in State:
        yield f'    state "{state.value}" as {state.name}\n'
    yield f"    [*] --> {State.RESERVING.name}: a node is chosen\n"
    for state in State:
        moves: dict[State, list[str]] = {}
        for event, (_, target, _) in TABLE[state].items():
            if target not in (state, State.REVERTED):
                moves.setdefault(target, []).append(event.value)
        for target, events in moves.items():
            yield f"    {state.name} --> {target.name}: {' / '.join(events)}\n"
    yield "".join(f"    {end.name} --> [*]\n" for end in ENDS)
    yield "```\n\nEvery state but the ends leads to Reverted, too, by what is in the tables below.\n"


def _table(events: Iterable[Event], states: tuple[State, ...]) -> Iterator[str]:
    """A line for each event and each thing that comes of it."""
    yield "| what happens | in which state | what comes of it | next state |\n| --- | --- | --- | --- |\n"
    for event in events:
        found: dict[tuple[Action, State | None, str], list[State]] = {}
        for state in [*states, *(state for state in State if state not in states and _matters(TABLE[state][event]))]:
            action, target, because = TABLE[state][event]
            found.setdefault((action, None if target is state else target, because), []).append(state)
        first = event.value
        for (action, target, because), where in found.items():
            done = f"{action.value}: {because}" if because else action.value
            yield f"| {first} | {_where(where, states)} | {done} | {target.value if target else ''} |\n"
            first = ""


def _matters(outcome: Outcome) -> bool:
    return outcome.action is not Action.IGNORE


def _where(where: list[State], states: tuple[State, ...]) -> str:
    """These states, or which ones are left out."""
    if len(where) <= max(len(states) // 2, 3):
        return ", ".join(state.value for state in where)
    left_out = ", ".join(state.value for state in states if state not in where)
    return f"all but {left_out}" if left_out else "all"


if __name__ == "__main__":
    PAGE.write_text(page())
