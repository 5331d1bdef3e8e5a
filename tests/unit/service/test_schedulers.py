"""Leases that count as a live scheduler, in virtual time and whatever the wall clocks say."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from podberth.kube.errors import ApiError
from podberth.kube.listwatch import Phase
from podberth.kube.objects import Added, Change, Deleted, Updated
from podberth.kube.resources import LEASES, Resource
from podberth.service import schedulers as followed
from podberth.service.schedulers import SCHEDULERS, SURE_TICKS, Lease, LiveSchedulers, Schedulers, decode
from tests.unit.policy.operator.conftest import Clock

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


class Played:
    """Stands in for a Reflector: the test says what it tells, to those to whom a Reflector would tell it."""

    def __init__(
        self,
        _client: object,
        _resource: object,
        _decode: object,
        deliver: Callable[[list[Change[Lease]], bool], None],
        *,
        namespace: str,
        on_refused: Callable[[Resource, ApiError | None], None],
        **_timing: object,
    ) -> None:
        assert namespace == "berth"
        self.phase = Phase.WATCHING
        self.refused: ApiError | None = None
        self._deliver = deliver
        self._on_refused = on_refused

    async def run(self) -> None:
        """For ever, as nothing happens but what the test says."""
        await asyncio.Event().wait()

    def deliver(self, *changes: Change[Lease], first: bool = False) -> None:
        """Deliver what a list, or a batch of events, has brought."""
        self._deliver(list(changes), first)

    def refuse(self, error: ApiError | None) -> None:
        """The API server refuses to list Leases; None: not any more."""
        self.refused = error
        self._on_refused(LEASES, error)


Follower = tuple[Schedulers, Played, list[frozenset[str] | None]]


@pytest.fixture
def clock() -> Clock:
    """Virtual time."""
    return Clock()


@pytest.fixture
def follower(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Follower:
    """A follower, the reflector that it listens to, and what it told."""
    monkeypatch.setattr(followed, "Reflector", Played)
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
    played: Any = made.reflector
    return made, played, told


async def test_told_once_each(follower: Follower) -> None:
    """Listeners hear when a scheduler comes and when it goes, not of every renewal."""
    _, reflector, told = follower
    reflector.deliver(Added(lease()), first=True)
    reflector.deliver(Updated(lease(age=-2)))
    reflector.deliver(Deleted("berth", "berth", "u"))
    assert told == [frozenset({"berth"}), frozenset()]


async def test_silence_ends_a_lease_only_under_an_open_watch(clock: Clock, follower: Follower) -> None:
    """During an outage nobody's renewals are seen, so nobody dies of it; with an open watch a silent one does."""
    made, reflector, told = follower
    reflector.deliver(Added(lease()), first=True)
    reflector.phase = Phase.LISTED
    running = asyncio.create_task(made.run())
    while clock.now < 1100:  # noqa: ASYNC110 - lets virtual time pass
        await asyncio.sleep(0)
    assert made.live == frozenset({"berth"})
    reflector.phase = Phase.WATCHING
    start = clock.now
    while made.live:  # noqa: ASYNC110 - lets virtual time pass
        await asyncio.sleep(0)
    assert clock.now - start >= SURE_TICKS - 1
    running.cancel()
    assert told == [frozenset({"berth"}), frozenset()]


async def test_after_an_outage_renewals_come_one_by_one(clock: Clock, follower: Follower) -> None:
    """While the first batches after an outage come in, a scheduler whose renewal is not among them yet still lives."""
    made, reflector, told = follower
    reflector.deliver(Added(lease()), Added(lease("other", schedulers="other")), first=True)
    clock.now += 60
    reflector.deliver(Updated(lease(age=-60)))
    assert made.live == frozenset({"berth", "other"})
    reflector.deliver(Updated(lease("other", schedulers="other", age=-60, holder="")))
    assert told == [frozenset({"berth", "other"}), frozenset({"berth"})]


async def test_unreadable_is_unknown(follower: Follower) -> None:
    """Without the right to read Leases nothing is claimed; what was listed meanwhile counts once it is back."""
    made, reflector, told = follower
    reflector.refuse(ApiError(403, "Forbidden", "no"))
    reflector.deliver(Added(lease()), first=True)
    assert made.live is None
    reflector.refuse(None)
    assert made.live == frozenset({"berth"})
    assert told == [frozenset({"berth"})]
