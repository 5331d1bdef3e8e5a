"""The evictor's figures under their metrics' names."""

from scheduler.controller.eviction.counts import Counts


def test_samples() -> None:
    """One sample for each pair of labels, the breaker as 0 or 1."""
    counts = Counts({("NodeChanged", "evicted"): 3, ("Found", "budget"): 1}, {"grace": 2}, True, 7)
    assert counts.samples() == [
        ("berth_evictions_total", (("reason", "Found"), ("result", "budget")), 1),
        ("berth_evictions_total", (("reason", "NodeChanged"), ("result", "evicted")), 3),
        ("berth_evictions_waiting", (("stage", "grace"),), 2),
        ("berth_eviction_breaker_open", (), 1.0),
        ("berth_promises_followed", (), 7),
    ]
