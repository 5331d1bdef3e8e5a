"""The evictor's writes: the intent before the eviction, the eviction once, and an answer whatever comes of it."""

import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from podberth.app.evictor.writer import Writer
from podberth.engine.stimuli import Gone
from podberth.evictor.messages import (
    Answered,
    Evict,
    NotRead,
    Read,
    RecordEvictorEvent,
    RecordNodeEvent,
    RecordPodEvent,
    Stimulus,
    Turn,
    WasRead,
)
from podberth.kube.client import Client
from podberth.kube.errors import ApiError, Cause, Details, Unreachable
from podberth.kube.machine import Machine
from podberth.kube.writes import Regarding
from podberth.model import wire
from podberth.model.kinds import Decoder
from tests.builders import node, pod

POD = Decoder().pod(wire.encode(pod("web", on="a", uid="u1")))
EVICT = Evict(POD, "a", "b", "NodeChanged", "disk in (ssd)", Turn("default/rs", 2, 600.0))
TURN = Turn("default/rs", 2, 600.0, "2026-01-01T12:00:00Z")
NOON = "2026-01-01T12:00:00Z"
LEASE = Regarding("coordination.k8s.io/v1", "Lease", "berth", "berth-evictor", "")
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
MARKS = {
    "podberth.dev/owner": "rs",
    "podberth.dev/eviction-round": "2",
    "podberth.dev/successors-wait-seconds": "600",
}
BUDGET = ApiError(429, "TooManyRequests", "no", Details(causes=[Cause("DisruptionBudget")]), 7.0)


class FakeClient:
    """Answers requests from a table of verb and path ending, and notes them in order."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.asked: list[tuple[str, Any]] = []

    async def create(self, path: str, body: bytes, **how: Any) -> bytes:
        made = json.loads(body)
        self._answer("event", made)
        made["metadata"]["creationTimestamp"] = NOON
        return wire.encode(made)

    async def request(self, verb: str, path: str, *, query: str = "", body: bytes = b"", **how: Any) -> bytes:
        assert (verb, path, how["tries"]) == ("POST", "/api/v1/namespaces/default/pods/web/eviction", 1)
        return self._answer("eviction", {**json.loads(body), "query": query})

    async def get(self, path: str, **how: Any) -> bytes:
        return self._answer(path.rpartition("/")[2], how.get("query", ""))

    def _answer(self, what: str, said: Any) -> bytes:
        self.asked.append((what, said))
        answer = self.answers.get(what, {})
        if isinstance(answer, list):
            answer = answer.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return wire.encode(answer)


CLOCK = SimpleNamespace(now=500.0)
MACHINE = Machine(monotonic=lambda: CLOCK.now, wall=lambda: 1_767_265_200.0 + CLOCK.now)
"""Our own clocks, which stand still unless a test moves them; the wall clock is an hour behind the server's."""


@pytest.fixture(autouse=True)
def clock() -> Iterator[SimpleNamespace]:
    """Our clocks at their start."""
    CLOCK.now = 500.0
    yield CLOCK


async def written(client: FakeClient, *, leads: bool = True, observe: bool = False, times: int = 1) -> list[Stimulus]:
    """The answers to an Evict, given some times."""
    heard: list[Stimulus] = []
    writer = Writer(
        cast(Client, client), heard.append, Decoder(), lambda: leads, LEASE, "me", observe=observe, machine=MACHINE
    )
    for _ in range(times):
        writer.evict(EVICT)
        assert await writer.drain(10) == 0
    return heard


async def test_intent_comes_first() -> None:
    """The Event names pod, owner and reason, then the eviction names the UID; a second try needs no second intent."""
    client = FakeClient()
    assert await written(client, times=2) == [Answered("u1", 201, "b can take it", asked_at=NOON)] * 2
    assert [what for what, _ in client.asked] == ["event", "eviction", "eviction"]
    intent, eviction = client.asked[0][1], client.asked[1][1]
    assert intent["regarding"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": "default",
        "name": "web",
        "uid": "u1",
    }
    assert intent["metadata"]["annotations"] == MARKS
    assert (intent["reason"], intent["reportingController"]) == ("Evicting", "podberth.dev/evictor")
    assert eviction["deleteOptions"] == {"preconditions": {"uid": "u1"}} and eviction["query"] == ""


@pytest.mark.parametrize(
    ("answers", "leads", "want", "asked"),
    [
        pytest.param({}, False, Answered("u1", 0, "not the leader any more"), [], id="not leading"),
        pytest.param({"event": ApiError(403, "", "no")}, True, Answered("u1", 403, "no"), ["event"], id="no intent"),
        pytest.param(
            {"event": Unreachable("reset"), "web": ApiError(404)},
            True,
            Answered("u1", 0, "reset"),
            ["event"],
            id="intent unanswered",
        ),
        pytest.param(
            {"eviction": BUDGET},
            True,
            Answered("u1", 429, "no", budget=True, retry_after=7.0, asked_at=NOON),
            ["event", "eviction"],
            id="budget",
        ),
        pytest.param(
            {"eviction": Unreachable("refused", sent=False)},
            True,
            Answered("u1", 0, "refused"),
            ["event", "eviction"],
            id="never sent",
        ),
        pytest.param(
            {"eviction": Unreachable("reset"), "web": {"metadata": {"uid": "u1"}}},
            True,
            Answered("u1", 0, "reset", asked_at=NOON),
            ["event", "eviction", "web"],
            id="lost, and it did not happen",
        ),
        pytest.param(
            {"eviction": Unreachable("reset"), "web": ApiError(404)},
            True,
            Answered("u1", 201, "the answer was lost, and the pod is leaving", asked_at=NOON),
            ["event", "eviction", "web"],
            id="lost, and it is gone",
        ),
        pytest.param(
            {"eviction": Unreachable("reset"), "web": {"metadata": {"uid": "u2"}}},
            True,
            Answered("u1", 201, "the answer was lost, and the pod is leaving", asked_at=NOON),
            ["event", "eviction", "web"],
            id="lost, and another has its name",
        ),
    ],
)
async def test_answers(answers: dict[str, Any], leads: bool, want: Answered, asked: list[str]) -> None:
    """Whatever happens, the engine hears of it once."""
    client = FakeClient(**answers)
    assert await written(client, leads=leads) == [want]
    assert [what for what, _ in client.asked] == asked


async def test_observing_writes_nothing() -> None:
    """No intent, and the server is told that it is a dry run."""
    client = FakeClient()
    assert await written(client, observe=True) == [Answered("u1", 201, "the API server would evict it")]
    assert [(what, said["query"]) for what, said in client.asked] == [("eviction", "dryRun=All")]


async def test_reads() -> None:
    """The node and its pods as they are now; a failure is told too."""
    heard: list[Stimulus] = []
    pods = {"metadata": {}, "items": [pod("web", on="a", uid="u1")]}
    client = FakeClient(a=[node("a"), ApiError(404), ApiError(500)], pods=[pods, pods, pods])
    writer = Writer(
        cast(Client, client), heard.append, Decoder(), lambda: True, LEASE, "me", observe=False, machine=MACHINE
    )
    for _ in range(3):
        writer.read(Read("a"))
        await writer.drain(10)
    first, second, third = heard
    assert isinstance(first, WasRead) and first.node is not None and list(first.pods) == ["u1"]
    assert isinstance(second, WasRead) and second.node is None
    assert third == NotRead("a")
    assert ("pods", "fieldSelector=spec.nodeName%3Da&limit=500") in client.asked


async def test_events_about_what_is_in_no_namespace() -> None:
    """A node's Event is in the namespace default, the breaker's is about our Lease."""
    client = FakeClient()
    writer = Writer(
        cast(Client, client), lambda _: None, Decoder(), lambda: True, LEASE, "me", observe=False, machine=MACHINE
    )
    writer.tell(RecordNodeEvent("a", "node/a", "Warning", "PromiseBroken", "note"))
    writer.tell(RecordEvictorEvent("Warning", "EvictionBreakerOpen", "note"))
    await writer.drain(10)
    assert [(said["metadata"]["namespace"], said["regarding"]["kind"]) for _, said in client.asked] == [
        ("default", "Node"),
        ("berth", "Lease"),
    ]


async def test_an_intent_is_written_anew(clock: SimpleNamespace) -> None:
    """The server keeps Events for an hour: an intent older than five minutes, or of another round, is written again."""
    client = FakeClient()
    heard: list[Stimulus] = []
    writer = Writer(
        cast(Client, client), heard.append, Decoder(), lambda: True, LEASE, "me", observe=False, machine=MACHINE
    )
    for seconds, turn in ((0, 2), (299, 2), (2, 2), (1, 3)):
        clock.now += seconds
        writer.evict(Evict(POD, "a", "b", "NodeChanged", "", Turn("default/rs", turn)))
        assert await writer.drain(10) == 0
    assert [what for what, _ in client.asked] == [*["event", "eviction"], "eviction", *["event", "eviction"] * 2]
    assert [one.asked_at[11:19] for one in heard if isinstance(one, Answered)] == [
        "12:00:00",
        "12:04:59",
        "12:00:00",
        "12:00:00",
    ]


async def test_intents_of_before_a_restore_are_written_anew() -> None:
    """A backup may not have them, and the next leader would not know of evictions that it has to space."""
    client = FakeClient()
    writer = Writer(
        cast(Client, client), lambda _: None, Decoder(), lambda: True, LEASE, "me", observe=False, machine=MACHINE
    )
    for _ in range(2):
        writer.evict(EVICT)
        assert await writer.drain(10) == 0
        writer.forget_intents()
    assert [what for what, _ in client.asked] == ["event", "eviction"] * 2


async def test_notes_say_until_when_and_records_are_marked(clock: SimpleNamespace) -> None:
    """A time of the engine is said as a time of day; what the next process reads is in annotations."""
    client = FakeClient()
    writer = Writer(
        cast(Client, client), lambda _: None, Decoder(), lambda: True, LEASE, "me", observe=False, machine=MACHINE
    )
    with capture_logs() as lines:
        writer.tell(RecordPodEvent(POD, "Normal", "EvictionHeld", "stays for now", clock.now + 65.2))
        writer.tell(RecordPodEvent(Gone("Pod", "default", "web", "u1"), "Normal", "Evicted", "gone", turn=TURN))
    assert await writer.drain(10) == 0
    held, done = (said for _, said in client.asked)
    assert held["note"] == "stays for now; not evicted before 2026-01-01T11:09:26Z"
    assert "annotations" not in held["metadata"]
    assert done["metadata"]["annotations"] == {**MARKS, "podberth.dev/asked-at": NOON}
    assert done["regarding"]["uid"] == "u1"
    assert [(line["object"], line["reason"]) for line in lines] == [
        ("Pod default/web", "EvictionHeld"),
        ("Pod default/web", "Evicted"),
    ]


async def test_who_leads_and_since_when() -> None:
    """The Event about a new leader tells what time the server has, whatever time we have."""
    client = FakeClient()
    writer = Writer(
        cast(Client, client), lambda _: None, Decoder(), lambda: True, LEASE, "me", observe=False, machine=MACHINE
    )
    assert await writer.tell_who_leads() == NOON
    ((_, said),) = client.asked
    assert (said["reason"], said["note"], said["regarding"]["kind"]) == ("LeaderElection", "me became leader", "Lease")
