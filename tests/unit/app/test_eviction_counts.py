"""The evictor's figures under the names of their metrics."""

from types import SimpleNamespace
from typing import Any, cast

from podberth.app.evictor.launch import Post
from podberth.app.evictor.watcher import Counts
from podberth.service.metrics import page


def _told(post: Post) -> str:
    return page([instrument.read() for instrument in post.instruments()]).decode()


def test_metrics() -> None:
    """A standby tells its role; who leads tells what became of promises."""
    elector: Any = SimpleNamespace(leading=False, last_error=None)
    post = Post("berth-evictor", elector)
    assert 'leader_election_master_status{name="berth-evictor"} 0.0' in _told(post)
    assert "berth_evictions" not in _told(post)
    elector.leading = True
    counts = Counts({("label", "evicted"): 3}, {"grace": 2}, {"owner": 4}, breaker_open=True, followed=7)
    post.watcher = cast(Any, SimpleNamespace(counts=lambda: counts))
    for line in (
        'leader_election_master_status{name="berth-evictor"} 1.0',
        'berth_evictions_total{reason="label",result="evicted"} 3.0',
        'berth_evictions_waiting{stage="grace"} 2.0',
        'berth_evictions_held{gate="owner"} 4.0',
        "berth_eviction_breaker_open 1.0",
        "berth_promises_followed 7.0",
    ):
        assert line in _told(post)
