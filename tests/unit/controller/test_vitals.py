"""What /readyz says of the Lease: only what the API server has answered."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from scheduler.controller.eviction.vitals import Post
from scheduler.controller.vitals import endpoints
from scheduler.kube.client import Client
from scheduler.kube.errors import Unreachable
from scheduler.kube.lease import Elector

HELD = {
    "metadata": {"name": "berth", "uid": "u", "resourceVersion": "1"},
    "spec": {"holderIdentity": "other", "leaseDurationSeconds": 15},
}
NOT_YET = "the API server has not answered about the Lease yet"


class FakeClient:
    """Answers each read of the Lease from a list, and then no more."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)

    async def request(self, verb: str, path: str, **_: Any) -> bytes:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return msgspec.json.encode(answer)


class Enough(Exception):  # noqa: N818 - ends the elector's loop, and is no error
    """The candidate has looked once."""


async def looked(*answers: Any) -> Elector:
    """A candidate that has looked at its Lease once for each of these answers."""
    left = len(answers)

    async def sleep(_: float) -> None:
        nonlocal left
        left -= 1
        if left <= 0:
            raise Enough

    elector = Elector(cast(Client, FakeClient(*answers)), "ns", "berth", "me", sleep=sleep)
    if answers:
        with pytest.raises(Enough):
            await elector.acquire()
    return elector


DOWN = Unreachable("connection refused", sent=False)
CASES = [
    pytest.param([], NOT_YET, id="never asked"),
    pytest.param([DOWN], "can't reach the Lease: connection refused", id="the API server is down"),
    pytest.param([HELD], None, id="stands by"),
    pytest.param([HELD, DOWN], "can't reach the Lease: connection refused", id="went down later"),
    pytest.param([DOWN, HELD], None, id="came up later"),
]


@pytest.mark.parametrize(("answers", "want"), CASES)
async def test_scheduler(answers: list[Any], want: str | None) -> None:
    """`leaderElection` fails until the Lease could be read, and names the reason."""
    scheduler: Any = SimpleNamespace(led=False)
    reloader: Any = SimpleNamespace(notes=dict)
    made = endpoints(cast(Client, None), scheduler, await looked(*answers), reloader, cast(Any, None))
    said = made.ready["leaderElection"]()
    assert said == (None if want is None else f"does not lead, and {want}")
    assert made.live["leaderElection"]() is None


@pytest.mark.parametrize(("answers", "want"), CASES)
async def test_evictor(answers: list[Any], want: str | None) -> None:
    """The evictor's check `lease` says the same."""
    assert Post("berth-evictor", await looked(*answers)).unready() == want
