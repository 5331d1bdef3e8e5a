"""Leases in virtual time: who may act when, and who stops when, whatever the server and the clocks do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from podberth.kube.errors import ApiError, Unreachable
from podberth.kube.lease import Elector, LeaseLostError, LoopDeadError, Term, own_identity


class Store:
    """One Lease on a server that can fail, with virtual time: `sleep` is what makes time pass."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.record: dict[str, Any] | None = None
        self.version = 0
        self.fails: Exception | None = None
        self.writes: list[str] = []
        self.at: list[tuple[float, Callable[[], None]]] = []

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        """Pass time, doing on the way what the test has planned."""
        until = self.now + seconds
        for when, act in sorted(self.at, key=lambda planned: planned[0]):
            if when <= until:
                self.at.remove((when, act))
                self.now = max(self.now, when)
                act()
        self.now = max(self.now, until)
        await asyncio.sleep(0)

    def plan(self, after: float, act: Callable[[], None]) -> None:
        """Do something when this many seconds have passed."""
        self.at.append((self.now + after, act))

    def put(self, record: dict[str, Any] | None) -> None:
        """Store, as the server does it."""
        self.version += 1
        if record is not None:
            meta = {**record["metadata"], "uid": "u", "resourceVersion": str(self.version)}
            record = {**record, "metadata": meta}
        self.record = record

    def held_by(self, holder: str, seconds: int = 15) -> None:
        """Somebody else holds it."""
        spec = {"holderIdentity": holder, "leaseDurationSeconds": seconds, "leaseTransitions": 4}
        self.put({"metadata": {"name": "berth", "namespace": "ns"}, "spec": spec})

    async def request(self, verb: str, path: str, *, body: bytes | None = None, **_: object) -> bytes:
        """Answer a request that the client would send."""
        await asyncio.sleep(0)
        if self.fails is not None:
            raise self.fails
        if verb == "GET":
            if self.record is None:
                raise ApiError(404, "NotFound", "no such lease")
            return msgspec.json.encode(self.record)
        given = msgspec.json.decode(body or b"")
        if verb == "POST":
            if self.record is not None:
                raise ApiError(409, "AlreadyExists", "there is one")
            assert path.endswith("/namespaces/ns/leases")
        else:
            if self.record is None:
                raise ApiError(404, "NotFound", "no such lease")
            if given["metadata"]["resourceVersion"] != self.record["metadata"]["resourceVersion"]:
                raise ApiError(409, "Conflict", "the object has been modified")
            assert path.endswith("/namespaces/ns/leases/berth")
        self.put(given)
        self.writes.append(given["spec"]["holderIdentity"])
        return msgspec.json.encode(self.record)

    def elector(self, identity: str = "me", **more: Any) -> Elector:
        """A candidate; jitter is off."""
        return Elector(
            self,  # type: ignore[arg-type]
            "ns",
            "berth",
            identity,
            rng=lambda: 0.0,
            clock=self.clock,
            sleep=self.sleep,
            **more,
        )

    @property
    def spec(self) -> dict[str, Any]:
        assert self.record is not None
        spec: dict[str, Any] = self.record["spec"]
        return spec


@pytest.fixture
def store() -> Store:
    """A server without the Lease."""
    return Store()


async def for_ever() -> None:
    """Work that ends only when it is told to."""
    await asyncio.Event().wait()


async def test_first_candidate_creates_it(store: Store) -> None:
    """A Lease that is not there is made with all fields, and we lead for the renew deadline."""
    elector = store.elector()
    assert not elector.leading
    await elector.acquire()
    assert elector.leading
    assert store.spec["holderIdentity"] == "me"
    assert (store.spec["leaseDurationSeconds"], store.spec["leaseTransitions"]) == (15, 0)
    assert store.spec["acquireTime"] == store.spec["renewTime"]
    store.now += 9.9
    assert elector.leading
    store.now += 0.2
    assert not elector.leading  # without anybody telling it: it may have been stopped meanwhile


async def test_waits_for_the_holder_by_its_own_clock(store: Store) -> None:
    """A held Lease is taken no sooner than its duration after we saw it last change, whatever renewTime says."""
    store.held_by("other")
    store.spec["renewTime"] = "1970-01-01T00:00:00.000000Z"  # the holder's wall clock is very wrong
    began = store.now
    store.plan(6.0, lambda: store.put(store.record))  # it renews once more
    elector = store.elector()
    await elector.acquire()
    assert 21.0 <= store.now - began <= 24.0
    assert (store.spec["holderIdentity"], store.spec["leaseTransitions"]) == ("me", 5)


@pytest.mark.parametrize("chance", [0.0, 0.5, 0.999])
@pytest.mark.parametrize("phase", [0.1, 0.7, 1.3, 1.9])
async def test_takes_over_within_17_seconds(store: Store, chance: float, phase: float) -> None:
    """Whenever the holder dies, and however the dice fall; and never before its lease has ended."""
    store.held_by("other")
    for i in range(8):
        store.plan(phase + 2.0 * i, lambda: store.put(store.record))
    died = store.now + phase + 14.0
    elector = Elector(store, "ns", "berth", "me", rng=lambda: chance, clock=store.clock, sleep=store.sleep)  # type: ignore[arg-type]
    await elector.acquire()
    assert 15.0 <= store.now - died <= 17.0


async def test_released_lease_is_taken_at_once(store: Store) -> None:
    """A Lease without a holder is waited for by nobody."""
    store.held_by("")
    began = store.now
    await store.elector().acquire()
    assert store.now == began


async def test_a_deleted_lease_is_not_free_yet(store: Store) -> None:
    """Its holder does not know, and goes on for a while: two would lead. It may have renewed it just before."""
    store.held_by("other")
    began = store.now
    store.plan(5.0, lambda: store.put(None))
    elector = store.elector()
    await elector.acquire()
    assert began + 20.0 <= store.now <= began + 22.0
    assert store.spec["holderIdentity"] == "me"


async def test_a_deleted_lease_is_taken_by_its_former_holder(store: Store) -> None:
    """A candidate that led itself has nobody to wait for; nor has one that has seen nobody lead."""
    elector = store.elector()
    await elector.acquire()
    store.put(None)
    began = store.now
    elector.term.lost()
    await elector.acquire()
    assert store.now == began


async def test_two_candidates_one_leader(store: Store) -> None:
    """Of two that race for the same record, the server's conflict leaves one."""
    store.held_by("")
    one, two = store.elector("one"), store.elector("two")
    waiting = [asyncio.ensure_future(elector.acquire()) for elector in (one, two)]
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    assert one.leading != two.leading
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_renews_and_releases(store: Store) -> None:
    """While work goes on the Lease is renewed every two seconds; after it, the Lease has no holder."""
    elector = store.elector()
    done = asyncio.Event()
    store.plan(60.0, done.set)

    async def work() -> None:
        await done.wait()
        assert elector.leading

    await elector.run(work)
    assert 28 <= store.writes.count("me") <= 33
    assert store.writes[-1] == ""
    assert (store.spec["holderIdentity"], store.spec["leaseDurationSeconds"]) == ("", 1)
    assert not elector.leading


@pytest.mark.parametrize("error", [Unreachable("silence"), ApiError(500, "InternalError", "etcd"), ApiError(403)])
async def test_gives_up_by_the_deadline(store: Store, error: Exception) -> None:
    """A server that fails ten seconds long ends the term before the Lease does, and the problem is told once."""
    told: list[str] = []
    elector = store.elector(on_problem=told.append)
    began = store.now
    store.plan(4.0, lambda: setattr(store, "fails", error))
    cancelled = asyncio.Event()

    async def work() -> None:
        try:
            await for_ever()
        finally:
            cancelled.set()

    with pytest.raises(LeaseLostError, match="not renewed for 10 s"):
        await elector.run(work)
    assert cancelled.is_set()
    assert 10.0 <= store.now - began <= 14.1
    assert told == [str(error)]
    assert store.writes[-1] == "me"  # nothing was released that we might not hold


@pytest.mark.parametrize(
    "page",
    [
        b"<html>back soon</html>",
        b"[]",
        b"{}",
        b'{"metadata": 1}',
        b"\xff",
        b'{"metadata": {"annotations": ["x"]}}',
        b'{"metadata": {}, "spec": []}',
        b'{"metadata": {}, "spec": {"leaseDurationSeconds": "x"}}',
        b'{"metadata": {}, "spec": {"leaseTransitions": [1]}}',
    ],
)
async def test_a_page_is_no_lease(store: Store, monkeypatch: pytest.MonkeyPatch, page: bytes) -> None:
    """A proxy answers 200 with a page for people: that is no answer, neither for a candidate nor for the holder."""
    right, pages, told = store.request, 2, list[str]()

    async def request(verb: str, path: str, **given: Any) -> bytes:
        nonlocal pages
        answer = await right(verb, path, **given)
        pages -= 1
        return page if pages >= 0 else answer

    monkeypatch.setattr(store, "request", request)
    elector = store.elector(on_problem=told.append)
    store.held_by("")
    await elector.acquire()
    pages = 2
    keeping = asyncio.create_task(elector.keep())
    passed = asyncio.Event()
    store.plan(30.0, passed.set)
    await passed.wait()
    assert elector.leading
    keeping.cancel()
    assert len(told) == 2
    assert all(said.startswith("the answer is none of an API server's") for said in told)


async def test_short_trouble_is_survived(store: Store) -> None:
    """Failures for less than the deadline end nothing, and are forgotten after a success."""
    elector = store.elector()
    store.plan(3.0, lambda: setattr(store, "fails", Unreachable("blip")))
    store.plan(9.0, lambda: setattr(store, "fails", None))
    done = asyncio.Event()
    store.plan(20.0, done.set)

    async def work() -> None:
        await done.wait()

    await elector.run(work)
    assert elector.last_error is None


@pytest.mark.parametrize(
    ("what", "act", "said"),
    [
        ("deleted", lambda store: store.put(None), "deleted"),
        ("stolen", lambda store: store.held_by("thief"), "taken by thief"),
        ("emptied", lambda store: store.held_by(""), "taken by nobody"),
    ],
)
async def test_lost_at_once(store: Store, what: str, act: Callable[[Store], None], said: str) -> None:
    """A Lease that was deleted or taken ends the term at the next renewal, not at the deadline."""
    elector = store.elector()
    began = store.now
    store.plan(5.0, lambda: act(store))
    with pytest.raises(LeaseLostError, match=said):
        await elector.run(for_ever)
    assert store.now - began <= 7.0
    assert not elector.leading


async def test_foreign_edit_is_no_theft(store: Store) -> None:
    """Somebody who annotates the Lease makes our renewal conflict once, and we go on with the annotation kept."""
    elector = store.elector()

    def annotate() -> None:
        assert store.record is not None
        store.put({**store.record, "metadata": {**store.record["metadata"], "annotations": {"a": "b"}}})

    store.plan(5.0, annotate)
    done = asyncio.Event()
    store.plan(30.0, done.set)

    async def work() -> None:
        await done.wait()

    await elector.run(work)
    assert store.record is not None
    assert store.record["metadata"]["annotations"] == {"a": "b"}


async def test_annotations_are_put_on(store: Store) -> None:
    """The leader says on the Lease whom it stands for, when it makes the Lease and when it takes it over."""
    await store.elector(annotations={"stands-for": "a,b"}).acquire()
    assert store.record is not None
    assert store.record["metadata"]["annotations"] == {"stands-for": "a,b"}
    store.put({**store.record, "metadata": {**store.record["metadata"], "annotations": {"x": "y", "stands-for": "a"}}})
    store.spec["holderIdentity"] = ""
    await store.elector("other", annotations={"stands-for": "c"}).acquire()
    assert store.record["metadata"]["annotations"] == {"x": "y", "stands-for": "c"}


async def test_annotations_go_with_each_write(store: Store) -> None:
    """Ours are on a new Lease, on one that somebody else left, and change with the next renewal; others' stay."""
    store.held_by("")
    assert store.record is not None
    store.put({**store.record, "metadata": {**store.record["metadata"], "annotations": {"a": "b"}}})
    elector = store.elector(annotations={"ours": "1"})
    done = asyncio.Event()
    store.plan(3.0, lambda: setattr(elector, "annotations", {"ours": "2"}))
    store.plan(9.0, done.set)

    async def work() -> None:
        assert store.record is not None
        assert store.record["metadata"]["annotations"] == {"a": "b", "ours": "1"}
        await done.wait()
        assert store.record["metadata"]["annotations"] == {"a": "b", "ours": "2"}

    await elector.run(work)


async def test_lost_answer_is_not_waited_for(store: Store) -> None:
    """If the answer to our claim is lost, the Lease held in our name is ours at the next try."""
    store.held_by("me")
    began = store.now
    await store.elector().acquire()
    assert store.now == began


async def test_releases_after_a_renewal_that_nobody_heard_of(store: Store) -> None:
    """The Lease is ours in a newer version than we know: it is given back all the same."""
    elector = store.elector()

    async def work() -> None:
        assert store.record is not None
        store.put(store.record)

    await elector.run(work)
    assert store.record is not None
    assert store.record["spec"]["holderIdentity"] == ""


async def test_failing_work_releases(store: Store) -> None:
    """An exception of the work comes out of `run`, after the Lease was given back."""

    async def work() -> None:
        raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        await store.elector().run(work)
    assert store.spec["holderIdentity"] == ""


async def test_cancelled_run_releases(store: Store) -> None:
    """A `run` that is cancelled, as at SIGTERM, gives the Lease back."""
    elector = store.elector()
    began = asyncio.Event()

    async def work() -> None:
        began.set()
        await for_ever()

    running = asyncio.ensure_future(elector.run(work))
    await began.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert store.spec["holderIdentity"] == ""


async def test_second_term(store: Store) -> None:
    """An elector that lost can be a candidate again, and waits like any other."""
    elector = store.elector()
    store.plan(3.0, lambda: store.held_by("thief"))
    with pytest.raises(LeaseLostError):
        await elector.run(for_ever)
    began = store.now
    await elector.acquire()
    assert store.now - began >= 15.0


def test_term_is_checked() -> None:
    """A deadline that is not shorter than the lease, or no identity, is refused."""
    with pytest.raises(ValueError, match="renew deadline"):
        Term("me", duration=10.0, renew_deadline=10.0)
    with pytest.raises(ValueError, match="identity"):
        Term("")
    assert own_identity() != own_identity()


async def test_a_busy_holder_keeps_it(store: Store) -> None:
    """Whoever gives a sign every 25 s, as in turns that are far too long, stays the holder."""
    given = [0]

    def sign() -> None:
        given[0] += 1

    for i in range(1, 9):
        store.plan(25.0 * i, sign)
    elector = store.elector(signs=lambda: given[0])
    done = asyncio.Event()
    store.plan(200.0, done.set)

    async def work() -> None:
        await done.wait()
        assert elector.leading

    await elector.run(work)
    assert store.writes.count("me") >= 95


async def test_a_dead_holder_loses_it(store: Store) -> None:
    """Without a sign for 30 s the Lease is not renewed any more, nor given back: it runs out."""
    elector = store.elector(signs=lambda: 1)
    began = store.now
    with pytest.raises(LoopDeadError, match="has not turned for"):
        await elector.run(for_ever)
    assert 30.0 <= store.now - began <= 34.0
    assert not elector.leading
    assert store.spec["holderIdentity"] == "me"


async def test_a_silent_candidate_takes_nothing(store: Store) -> None:
    """A standby whose loop is held leaves a Lease that is free to others, and takes it when its loop turns again."""
    given = [0]
    store.held_by("other")
    store.plan(40.0, lambda: given.__setitem__(0, 1))
    began = store.now
    await store.elector(signs=lambda: given[0]).acquire()
    assert 40.0 <= store.now - began <= 42.0


async def test_who_was_stopped_is_not_dead(store: Store) -> None:
    """A process that was stopped as a whole has lost its Lease; its loop is not called dead for that."""
    elector = store.elector(signs=lambda: 1)

    def stop() -> None:
        store.now += 60.0

    store.plan(5.0, stop)
    with pytest.raises(LeaseLostError, match="not renewed for 10 s") as lost:
        await elector.run(for_ever)
    assert not isinstance(lost.value, LoopDeadError)
