"""Log lines that are the same over and over."""

from typing import Any

from scheduler.telemetry.ration import KINDS, MOST, SECONDS, Ration


def test_a_burst_is_told_a_few_times() -> None:
    """The first lines are written; the next while begins with how many were not; other kinds have their own."""
    now, said = [0.0], list[tuple[str, dict[str, Any]]]()
    ration = Ration(clock=lambda: now[0])

    def say(event: str, **facts: Any) -> None:
        said.append((event, facts))

    for _ in range(1000):
        ration.write("filter", say, "failed", node="n0")
    assert said == [("failed", {"node": "n0"})] * MOST
    ration.write("score", say, "failed", node="n0")
    assert len(said) == MOST + 1
    now[0] = SECONDS
    ration.write("filter", say, "failed", node="n1")
    ration.write("filter", say, "failed", node="n2")
    assert [facts for _, facts in said[MOST + 1 :]] == [{"node": "n1", "lines_left_out": 1000 - MOST}, {"node": "n2"}]


def test_kinds_are_bounded() -> None:
    """More kinds than are remembered are one kind: who can make kinds up has no more lines for that."""
    now, said = [0.0], list[tuple[int, int]]()
    ration = Ration(clock=lambda: now[0])

    def say(event: str, **facts: int) -> None:
        said.append((facts["kind"], facts.get("lines_left_out", 0)))

    for kind in range(KINDS + 2 * MOST):
        ration.write(kind, say, "failed", kind=kind)
    assert len(said) == KINDS + MOST
    said.clear()
    now[0] = SECONDS
    ration.write(KINDS, say, "failed", kind=KINDS)
    ration.write(KINDS + MOST, say, "failed", kind=KINDS + MOST)
    assert said == [(KINDS, 0), (KINDS + MOST, 0)], "those that were first have not failed lately, and are forgotten"
