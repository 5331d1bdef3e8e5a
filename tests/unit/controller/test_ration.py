"""Log lines that are the same over and over."""

from scheduler.controller.ration import MOST, SECONDS, Ration


def test_a_burst_is_told_a_few_times() -> None:
    """The first lines are written; the next while begins with how many were not; other kinds have their own."""
    now = [0.0]
    ration = Ration(clock=lambda: now[0])
    said = [ration.left_out("filter") for _ in range(1000)]
    assert [one for one in said if one is not None] == [0] * MOST
    assert ration.left_out("score") == 0
    now[0] = SECONDS
    assert ration.left_out("filter") == 1000 - MOST
    assert ration.left_out("filter") == 0
