"""Events tell of earlier evictions, in both of their forms, whatever anybody has written into them."""

from typing import Any

import msgspec
import pytest

from podberth.app.evictor import evictions
from podberth.app.evictor.evictions import PastEviction, past_evictions, seconds
from podberth.kube.writes import meta_time

CONTROLLER = "podberth.dev/evictor"


def event(reason: str, at: str, uid: str = "u1", form: str = "events", **said: str) -> dict[str, Any]:
    """An Event of an evictor about a pod; `said` are annotations."""
    about = {"kind": "Pod", "namespace": "shop", "name": "web", "uid": uid}
    annotations = {f"podberth.dev/{key.replace('_', '-')}": value for key, value in said.items()}
    made = {"metadata": {"creationTimestamp": f"2026-01-01T{at}Z", "annotations": annotations}, "reason": reason}
    if form == "events":
        return {**made, "regarding": about, "reportingController": CONTROLLER}
    return {**made, "involvedObject": about, "reportingComponent": CONTROLLER}


MARKS = {"owner": "rs", "eviction_round": "3", "successors_wait_seconds": "1200"}
MEANT = PastEviction("shop", "web", "u1", "rs", 3, 1200.0, "2026-01-01T12:00:00Z", "")
CASES = [
    pytest.param([event("Evicting", "12:00:00", **MARKS)], [MEANT], id="an intent alone"),
    pytest.param([event("Evicting", "12:00:00", form="core", **MARKS)], [MEANT], id="as kubectl prints it"),
    pytest.param(
        [event("Evicting", "12:05:00", **MARKS), event("Evicting", "12:00:00", **MARKS)], [MEANT], id="written twice"
    ),
    pytest.param(
        [
            event("Evicting", "12:00:00", **MARKS),
            event("Evicted", "12:07:01", **MARKS, asked_at="2026-01-01T12:07:00Z"),
        ],
        [PastEviction("shop", "web", "u1", "rs", 3, 1200.0, "2026-01-01T12:07:00Z", "2026-01-01T12:07:01Z")],
        id="done",
    ),
    pytest.param(
        [event("Evicted", "12:07:01"), event("Evicting", "12:00:00", owner="rs")],
        [PastEviction("shop", "web", "u1", "rs", 1, 0.0, "2026-01-01T12:00:00Z", "2026-01-01T12:07:01Z")],
        id="of an older version",
    ),
    pytest.param([event("Evicted", "12:07:01")], [], id="nobody's"),
    pytest.param([event("PromiseBroken", "12:07:01", **MARKS)], [], id="of another reason"),
    pytest.param(
        [event("Evicting", "12:00:00", owner="rs", eviction_round="nan", successors_wait_seconds="1e99")],
        [PastEviction("shop", "web", "u1", "rs", 1, 0.0, "2026-01-01T12:00:00Z", "")],
        id="numbers that are none",
    ),
    pytest.param([{"metadata": {"creationTimestamp": None}, "reason": "Evicting"}], [], id="about nothing"),
    pytest.param(
        [{**event("Evicting", "12:00:00", **MARKS), "reportingController": "mallory"}], [], id="of somebody else"
    ),
]


@pytest.mark.parametrize(("events", "want"), CASES)
def test_past_evictions(events: list[dict[str, Any]], want: list[PastEviction]) -> None:
    """One for each pod: when it was asked for at the earliest, and done at the latest."""
    assert past_evictions([msgspec.json.encode(one) for one in events]) == want


def test_ago() -> None:
    """Never more than the time that has passed: the server tells whole seconds."""
    done = PastEviction("shop", "web", "u1", "rs", 1, 0.0, "", "2026-01-01T12:00:00Z")
    noon = seconds("2026-01-01T12:00:00Z")
    assert (done.ago(noon + 60.0), done.ago(noon), MEANT.ago(noon)) == (59.0, 0.0, None)
    assert meta_time(noon + 0.9) == "2026-01-01T12:00:00Z"


def test_a_namespace_has_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever writes our Events by the thousand takes the place of their own only."""
    monkeypatch.setattr(evictions, "MOST_OF_NAMESPACE", 50)
    flood = [event("Evicting", "12:00:00", uid=f"u{i}", **MARKS) for i in range(500)]
    other = event("Evicting", "12:00:00", uid="other", **MARKS)
    other["regarding"]["namespace"] = "quiet"
    found = past_evictions([msgspec.json.encode(one) for one in (*flood, other)])
    assert len(found) == 51
    assert found[-1].namespace == "quiet"
