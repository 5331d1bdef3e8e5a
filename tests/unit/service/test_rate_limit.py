"""Log lines that are the same over and over."""

from typing import Any

from podberth.service.rate_limit import KINDS, MOST, SECONDS, RateLimit


def test_a_burst_is_told_a_few_times() -> None:
    """The first lines are written; the next while begins with how many were not; other kinds have their own."""
    now, said = [0.0], list[tuple[str, dict[str, Any]]]()
    rate_limit = RateLimit(clock=lambda: now[0])

    def say(event: str, **facts: Any) -> None:
        said.append((event, facts))

    for _ in range(1000):
        rate_limit.write("filter", say, "failed", node="n0")
    assert said == [("failed", {"node": "n0"})] * MOST
    rate_limit.write("score", say, "failed", node="n0")
    assert len(said) == MOST + 1
    now[0] = SECONDS
    rate_limit.write("filter", say, "failed", node="n1")
    rate_limit.write("filter", say, "failed", node="n2")
    assert [facts for _, facts in said[MOST + 1 :]] == [{"node": "n1", "lines_left_out": 1000 - MOST}, {"node": "n2"}]


def test_kinds_are_bounded() -> None:
    """More kinds than are remembered are one kind: who can make kinds up has no more lines for that."""
    now, said = [0.0], list[tuple[int, int]]()
    rate_limit = RateLimit(clock=lambda: now[0])

    def say(event: str, **facts: int) -> None:
        said.append((facts["kind"], facts.get("lines_left_out", 0)))

    for kind in range(KINDS + 2 * MOST):
        rate_limit.write(kind, say, "failed", kind=kind)
    assert len(said) == KINDS + MOST
    said.clear()
    now[0] = SECONDS
    rate_limit.write(KINDS, say, "failed", kind=KINDS)
    rate_limit.write(KINDS + MOST, say, "failed", kind=KINDS + MOST)
    assert said == [(KINDS, 0), (KINDS + MOST, 0)], "those that were first have not failed lately, and are forgotten"
