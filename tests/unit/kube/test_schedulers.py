"""Which Leases count as a live scheduler, in virtual time and whatever the wall clocks say."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from scheduler.kube.changes import Added, Deleted, Updated
from scheduler.kube.errors import ApiError
from scheduler.kube.listwatch import Phase
from scheduler.kube.resources import LEASES
from scheduler.kube.schedulers import SCHEDULERS, SURE_TICKS, Lease, LiveSchedulers, Schedulers, decode
from tests.unit.operator.conftest import Clock

WALL = 1_800_000_000.0


def lease(name: str = "berth", *, holder: str | None = "me", age: float = 0.0, **more: Any) -> Lease:
    """A Lease that was renewed `age` seconds before WALL; `duration` and `schedulers` as wanted."""
    renewed = datetime.fromtimestamp(WALL - age, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    spec = {"holderIdentity": holder, "leaseDurationSeconds": more.get("duration", 15), "renewTime": renewed}
    spec["renewTime"] = more.get("renewed", renewed)
    metadata: dict[str, Any] = {"name": name, "namespace": "berth", "uid": "u", "resourceVersion": "1"}
    if "schedulers" in more:
        metadata["annotations"] = {SCHEDULERS: more["schedulers"]}
    return decode(msgspec.json.encode({"metadata": metadata, "spec": spec}))


@pytest.mark.parametrize(
    ("seen", "want"),
    [
        pytest.param(lease(), {"berth", "packed"}, id="fresh"),
        pytest.param(lease(age=14), {"berth", "packed"}, id="within its duration"),
        pytest.param(lease(age=15), set(), id="over"),
        pytest.param(lease(age=15, duration=60), {"berth", "packed"}, id="a longer one"),
        pytest.param(lease(age=-3600), {"berth", "packed"}, id="a holder whose clock is ahead"),
        pytest.param(lease(holder=""), set(), id="released"),
        pytest.param(lease(holder=None), set(), id="never held"),
        pytest.param(lease(renewed=None), set(), id="never renewed"),
        pytest.param(lease(renewed="soon"), set(), id="no time at all"),
        pytest.param(lease("other"), set(), id="somebody else's Lease"),
        pytest.param(lease("other", schedulers="a, b,"), {"a", "b"}, id="annotated"),
        pytest.param(lease(schedulers="a"), {"a"}, id="the annotation wins over --profile"),
        pytest.param(lease(schedulers=""), set(), id="annotated with nothing"),
    ],
)
def test_first_sight(seen: Lease, want: set[str]) -> None:
    """A Lease counts if it is held and was renewed within its duration, for the names that it stands for."""
    known = LiveSchedulers("berth", ("berth", "packed"))
    known.observe(seen, 1000.0, WALL)
    assert known.at(1000.0) == want


def test_own_clock_after_first_sight() -> None:
    """Renewals count from when we saw them, so a holder whose clock is an hour behind still lives."""
    known = LiveSchedulers("berth")
    known.observe(lease(age=3600), 1000.0, WALL)
    assert known.at(1000.0) == set()
    known.observe(lease(age=3598), 1002.0, WALL + 2)
    assert known.at(1002.0) == {"berth"}
    assert known.at(1016.9) == {"berth"}
    assert known.at(1017.0) == set()


def test_an_edit_is_no_renewal() -> None:
    """Somebody who labels the Lease of a dead scheduler does not bring it back to life."""
    known = LiveSchedulers("berth")
    known.observe(lease(), 1000.0, WALL)
    known.observe(lease(), 1014.0, WALL + 14)
    assert known.at(1015.0) == set()


def schedulers(clock: Clock) -> tuple[Schedulers, list[frozenset[str] | None]]:
    """A follower whose reflector is ours to play, and what it told."""
    told: list[frozenset[str] | None] = []
    made: Schedulers
    made = Schedulers(
        None,  # type: ignore[arg-type]
        "berth",
        LiveSchedulers("berth"),
        lambda: told.append(made.live),
        clock=clock,
        wall=lambda: WALL,
        sleep=clock.sleep,
    )
    made.reflector = SimpleNamespace(phase=Phase.WATCHING, refused=None)  # type: ignore[assignment]
    return made, told


async def test_told_once_each() -> None:
    """Listeners hear when a scheduler comes and when it goes, not of every renewal."""
    clock = Clock()
    made, told = schedulers(clock)
    made._deliver([Added(lease())], True)
    made._deliver([Updated(lease(age=-2))], False)
    made._deliver([Deleted("berth", "berth", "u")], False)
    assert told == [frozenset({"berth"}), frozenset()]


async def test_silence_ends_a_lease_only_under_an_open_watch() -> None:
    """During an outage nobody's renewals are seen, so nobody dies of it; with an open watch a silent one does."""
    clock = Clock()
    made, told = schedulers(clock)
    made._deliver([Added(lease())], True)
    made.reflector.phase = Phase.LISTED  # type: ignore[misc]
    ticking = asyncio.create_task(made._tick())
    while clock.now < 1100:  # noqa: ASYNC110 - lets virtual time pass
        await asyncio.sleep(0)
    assert made.live == frozenset({"berth"})
    made.reflector.phase = Phase.WATCHING  # type: ignore[misc]
    start = clock.now
    while made.live:  # noqa: ASYNC110 - lets virtual time pass
        await asyncio.sleep(0)
    assert clock.now - start >= SURE_TICKS - 1
    ticking.cancel()
    assert told == [frozenset({"berth"}), frozenset()]


async def test_after_an_outage_renewals_come_one_by_one() -> None:
    """While the first batches after an outage come in, a scheduler whose renewal is not among them yet still lives."""
    clock = Clock()
    made, told = schedulers(clock)
    made._deliver([Added(lease()), Added(lease("other", schedulers="other"))], True)
    clock.now += 60
    made._deliver([Updated(lease(age=-60))], False)
    assert made.live == frozenset({"berth", "other"})
    made._deliver([Updated(lease("other", schedulers="other", age=-60, holder=""))], False)
    assert told == [frozenset({"berth", "other"}), frozenset({"berth"})]


async def test_unreadable_is_unknown() -> None:
    """Without the right to read Leases nothing is claimed; what was listed meanwhile counts once it is back."""
    clock = Clock()
    made, told = schedulers(clock)
    error = ApiError(403, "Forbidden", "no")
    made.reflector.refused = error  # type: ignore[misc]
    made._refused(LEASES, error)
    made._deliver([Added(lease())], True)
    assert made.live is None
    made.reflector.refused = None  # type: ignore[misc]
    made._refused(LEASES, None)
    assert made.live == frozenset({"berth"})
    assert told == [frozenset({"berth"})]
