"""What replicas count reaches the statuses exactly once, whatever gets lost on the way; and in few writes."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podberth.kube.client import MERGE_PATCH
from podberth.kube.errors import ApiError, Unreachable
from podberth.kube.flow import API, Lane
from podberth.policy.admission.counting import GAP_SECONDS, MOST_REPLICAS, Counting, Tallies, Tally, stamp, status
from podberth.policy.evaluate import Effect

Object = dict[str, Any]
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
PATH = "/apis/podberth.dev/v1alpha1/namespaces/team/metadatapolicies/"
UIDS = {"one": "uid-one", "two": "uid-two"}


class Server:
    """Policies behind the two methods of `Client` that count; `faults` says what befalls the next requests."""

    def __init__(self, *names: str) -> None:
        self.policies: dict[str, Object] = {
            name: {"metadata": {"uid": UIDS[name], "resourceVersion": "1"}} for name in names
        }
        self.faults: list[str] = []
        self.patches = 0

    async def get(self, path: str, *, query: str = "", lane: Lane = API, tries: int = 1) -> bytes:
        """A policy."""
        if self._fault() == "away":
            raise Unreachable("away")
        return json.dumps(self._policy(path)).encode()

    async def patch(self, path: str, body: bytes, content_type: str = MERGE_PATCH, *, lane: Lane = API) -> bytes:
        """A merge patch of a status; preconditions are its metadata."""
        fault = self._fault()
        if fault == "away":
            raise Unreachable("away")
        found, given = self._policy(path.removesuffix("/status")), json.loads(body)
        if fault == "raced":
            self._bump(found)
        if given["metadata"] != found["metadata"]:
            raise ApiError(409, "Conflict")
        self._bump(found)
        self.patches += 1
        found["status"] = {**found.get("status", {}), **given["status"]}
        if fault == "mute":
            raise Unreachable("no answer")
        return b"{}"

    def count(self, name: str, field: str) -> int:
        """What a status says."""
        return int(self.policies[name].get("status", {}).get(field, {}).get("count", 0))

    def _policy(self, path: str) -> Object:
        found = self.policies.get(path.removeprefix(PATH))
        if found is None:
            raise ApiError(404, "NotFound")
        return found

    def _bump(self, found: Object) -> None:
        found["metadata"]["resourceVersion"] = str(int(found["metadata"]["resourceVersion"]) + 1)

    def _fault(self) -> str:
        return self.faults.pop() if self.faults else ""


class Slept:
    """Takes no time, and remembers how long it would have been."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


def replica(server: Server, name: str, slept: Slept | None = None, hours: float = 0.0) -> tuple[Tallies, Counting]:
    """What one replica counts, and who writes it. `hours`: by which its clock is ahead."""
    tallies = Tallies(NOW.timestamp)
    counting = Counting(
        server,  # type: ignore[arg-type]
        tallies,
        name,
        15.0,
        lambda key: key[1] in server.policies and server.policies[key[1]]["metadata"]["uid"] == key[2],
        wall=lambda: NOW + timedelta(hours=hours),
        rng=lambda: 0.5,
        sleep=slept or Slept(),
    )
    return tallies, counting


def effect(policy: str = "one", *, rejected: bool = False, mutated: bool = False) -> Effect:
    """What a policy of the team did to one request."""
    return Effect(policy, "team", rejected, mutated)


def test_what_counts() -> None:
    """The mutating pass tells what matched and was changed; rejections count in whichever pass they come."""
    tallies = Tallies(NOW.timestamp)
    tallies.add([effect(mutated=True), effect("two")], UIDS, "mutate")
    tallies.add([effect(rejected=True)], UIDS, "mutate")
    tallies.add([effect("two", rejected=True)], UIDS, "validate")
    one, two = (tallies.of["team", name, UIDS[name]] for name in ("one", "two"))
    assert one.counts() == {"matched": 2, "rejected": 1, "mutated": 1}
    assert two.counts() == {"matched": 1, "rejected": 1, "mutated": 0}
    assert two.times.keys() == {"matched", "rejected"}


def test_status_fields() -> None:
    """Sums grow by what is new of ours; untouched counts and fields are not written; the latest time wins."""
    held = {
        "rules": 1,
        "matched": {"count": 10, "lastTime": "2026-03-01T12:30:00Z"},
        "counted": [{"replica": "me", "matched": 3, "time": "2026-03-01T11:59:00Z"}],
    }
    mine = Tally(matched=5, mutated=1, times=dict.fromkeys(("matched", "mutated"), NOW.timestamp()))
    assert status(held, "me", mine, {}, NOW) == {
        "matched": {"count": 12, "lastTime": "2026-03-01T12:30:00Z"},
        "mutated": {"count": 1, "lastTime": "2026-03-01T12:00:00Z"},
        "counted": [{"replica": "me", "matched": 5, "rejected": 0, "mutated": 1, "time": "2026-03-01T12:00:00Z"}],
    }


@pytest.mark.parametrize(
    "status",
    [
        7,
        {"matched": 7},
        {"matched": {"count": "x"}},
        {"matched": {"lastTime": 7}},
        {"counted": {}},
        {"counted": [7]},
        {"counted": [{"replica": "a", "matched": "x"}]},
        {"counted": [{"replica": "b", "time": 7}]},
    ],
)
async def test_fields_of_another_type(status: Any) -> None:
    """A proxy changes a field of the answer: nothing is written by it, and all of it in the next round."""
    server = Server("one")
    tallies, counting = replica(server, "a")
    tallies.add([effect()], UIDS, "mutate")
    server.policies["one"]["status"] = status
    await counting.round(GAP_SECONDS)
    assert (server.patches, counting.failures, len(counting.due())) == (0, 1, 1)
    server.policies["one"]["status"] = {}
    await counting.round(GAP_SECONDS)
    assert (server.count("one", "matched"), counting.due()) == (1, [])


def test_old_entries_go() -> None:
    """Entries of replicas that are long gone are dropped, and no status grows without bound."""
    fresh, old = stamp(NOW - timedelta(minutes=1)), stamp(NOW - timedelta(hours=2))
    held = {
        "counted": [
            {"replica": "gone", "matched": 1, "time": old},
            *({"replica": f"r{i}", "matched": 1, "time": fresh} for i in range(2 * MOST_REPLICAS)),
        ]
    }
    kept = status(held, "me", Tally(matched=1, times={"matched": NOW.timestamp()}), {}, NOW)["counted"]
    assert len(kept) == MOST_REPLICAS
    assert kept[-1]["replica"] == "me"
    assert "gone" not in {one["replica"] for one in kept}


async def test_a_clock_that_is_wrong_by_hours_adds_nothing_twice() -> None:
    """It makes the entries of others look old, which they need for writes that nobody answered (seed 50932)."""
    server = Server("one")
    tallies, counting = replica(server, "me")
    others, ahead = replica(server, "ahead", hours=2)
    for _ in range(2):
        tallies.add([effect()], UIDS, "mutate")
        server.faults += ["mute", ""]  # the answer to the patch
        await counting.round(0.0)
        others.add([effect()], UIDS, "mutate")
        await ahead.round(0.0)
    await counting.round(0.0)
    assert server.count("one", "matched") == 4


async def test_dropped_entry_adds_nothing_twice() -> None:
    """A replica whose entry was dropped while it was silent goes on from what it knows to be in the sums."""
    server = Server("one")
    tallies, counting = replica(server, "me")
    tallies.add([effect()] * 5, UIDS, "mutate")
    await counting.round(0.0)
    server.policies["one"]["status"]["counted"] = []
    tallies.add([effect()], UIDS, "mutate")
    await counting.round(0.0)
    assert server.count("one", "matched") == 6


async def test_burst_is_a_handful_of_writes() -> None:
    """100,000 reviews between two rounds are one write for each policy, a gap apart; a quiet round writes nothing."""
    server, slept = Server("one", "two"), Slept()
    tallies, counting = replica(server, "me", slept)
    for _ in range(100_000):
        tallies.add([effect(), effect("two", mutated=True)], UIDS, "mutate")
    await counting.round(GAP_SECONDS)
    assert (server.patches, slept.seconds) == (2, [GAP_SECONDS, GAP_SECONDS])
    assert (server.count("one", "matched"), server.count("two", "mutated")) == (100_000, 100_000)
    await counting.round(GAP_SECONDS)
    assert server.patches == 2


async def test_new_object_of_an_old_name_starts_from_zero() -> None:
    """What was counted for a policy that was deleted is not told of the one that took its name."""
    server = Server("one")
    tallies, counting = replica(server, "me")
    tallies.add([effect()] * 3, UIDS, "mutate")
    server.policies["one"] = {"metadata": {"uid": "other", "resourceVersion": "9"}}
    await counting.round(0.0)
    assert (server.count("one", "matched"), tallies.of) == (0, {})
    tallies.add([effect()], {"one": "other"}, "mutate")
    await counting.round(0.0)
    assert server.count("one", "matched") == 1


async def test_rounds_go_on_after_failures() -> None:
    """An API server that is away costs nothing but time; `end` writes the rest."""
    server = Server("one")
    tallies, counting = replica(server, "me")
    tallies.add([effect()], UIDS, "mutate")
    server.faults = ["away"]
    await counting.round(0.0)
    assert (counting.failures, counting.writes, len(counting.due())) == (1, 0, 1)
    await counting.end()
    assert (server.count("one", "matched"), counting.due()) == (1, [])


FAULTS = st.lists(st.sampled_from(["", "away", "mute", "raced"]), max_size=4)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("count"), st.integers(0, 2), st.integers(1, 5)),
        st.tuples(st.just("write"), st.integers(0, 2), FAULTS),
        st.tuples(st.just("restart"), st.integers(0, 2), st.none()),
    ),
    max_size=25,
)


@given(STEPS)
def test_sums_are_exact(steps: list[tuple[str, int, Any]]) -> None:
    """Three replicas that count, lose answers, race, and end cleanly or not: the sum is what was counted, less only
    what a killed replica had not written."""

    async def play() -> None:
        server, started = Server("one"), 3
        names = [f"r{i}" for i in range(started)]
        replicas = [replica(server, name) for name in names]
        counted, lost = 0, 0
        for what, which, more in steps:
            tallies, counting = replicas[which]
            if what == "count":
                tallies.add([effect()] * more, UIDS, "mutate")
                counted += more
            elif what == "write":
                server.faults = list(more)
                await counting.round(0.0)
                server.faults = []
            else:  # kill -9
                mine = tallies.of.get(("team", "one", "uid-one"), Tally()).matched
                entries = server.policies["one"].get("status", {}).get("counted", [])
                lost += mine - sum(one["matched"] for one in entries if one["replica"] == names[which])
                started += 1
                names[which] = f"r{started}"
                replicas[which] = replica(server, names[which])
        for _, counting in replicas:
            await counting.end()
        assert server.count("one", "matched") == counted - lost

    asyncio.run(play())


@pytest.mark.parametrize("pass_", ["mutate", "validate"])
def test_nothing_counted_nothing_due(pass_: Any) -> None:
    """A review that met no policy makes no write."""
    server = Server("one")
    tallies, counting = replica(server, "me")
    tallies.add([], UIDS, pass_)
    assert counting.due() == []
