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
    """Of more kinds than are remembered, the one whose while began first is forgotten, which costs its lines only."""
    said = list[int]()
    ration = Ration(clock=lambda: 0.0)
    for _ in range(2 * MOST):
        for kind in (0, 1):
            ration.write(kind, said.append, kind)  # type: ignore[arg-type]
    assert len(said) == 2 * MOST
    for kind in range(2, KINDS + 1):
        ration.write(kind, said.append, kind)  # type: ignore[arg-type]
    said.clear()
    for kind in (1, 0):
        ration.write(kind, said.append, kind)  # type: ignore[arg-type]
    assert said == [0]
