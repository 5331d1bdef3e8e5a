"""What /readyz says of the Lease: only what the API server has answered."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import msgspec
import numpy as np
import pytest

from podberth.app.endpoints import endpoints
from podberth.app.evictor.launch import Post
from podberth.app.metrics import KEPT_NODES
from podberth.cache.reservations import ReservedRoom
from podberth.engine.engine import Engine
from podberth.framework.config import decode
from podberth.framework.profiles import build
from podberth.kube.client import Client
from podberth.kube.errors import Unreachable
from podberth.kube.lease import Elector
from podberth.model.pod_group import GroupKey
from tests.builders import configuration
from tests.registered import registry

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
    made = endpoints(cast(Client, None), scheduler, await looked(*answers), reloader, cast(Any, None), cast(Any, None))
    said = made.ready["leaderElection"]()
    assert said == (None if want is None else f"does not lead, and {want}")
    assert made.live["leaderElection"]() is None


@pytest.mark.parametrize(("answers", "want"), CASES)
async def test_evictor(answers: list[Any], want: str | None) -> None:
    """The evictor's check `lease` says the same."""
    assert Post("berth-evictor", await looked(*answers)).unready() == want


def test_nodes_on_which_room_is_kept() -> None:
    """By profile; nothing is said of profiles that keep none."""
    profiles: list[dict[str, Any]] = [{"schedulerName": "plain"}]
    for name in ("keeps", "has-none"):
        args = {"reservation": {"afterSeconds": 0}}
        profiles.append({"schedulerName": name, "pluginConfig": [{"name": "GangScheduling", "args": args}]})
    engine = Engine(build(decode(configuration(profiles=profiles)), registry()))
    room = ReservedRoom(GroupKey("ns", "g"), "GangScheduling", 0, {}, None, (), False, False, 0.0, 0.0, 60.0, "", {})
    room.rows = np.arange(3)
    engine.cluster.reservations.put("keeps", room)
    nothing = SimpleNamespace(instruments=list)
    scheduler: Any = SimpleNamespace(engine=engine, meter=nothing, sources=nothing, instruments=[], led=False)
    scheduler.writer, scheduler.watch = None, SimpleNamespace(too_large=None)
    reloader: Any = SimpleNamespace(notes=dict, instruments=list)
    comparer: Any = SimpleNamespace(found=None)
    made = endpoints(cast(Client, None), scheduler, None, reloader, comparer, cast(Any, None))
    (gauge,) = [one for one in made.instruments() if one and one.family is KEPT_NODES]
    assert gauge.read().values == {("keeps",): 3.0, ("has-none",): 0.0}
