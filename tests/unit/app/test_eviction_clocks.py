"""How long ago evictions were is told by the server's clock on both sides, whatever ours says."""

from datetime import UTC, datetime
from typing import Any, cast

import msgspec
import pytest

from podberth.app.evictor.evictions import CONTROLLER, DONE, INTENT, record
from podberth.app.evictor.watcher import Watcher
from podberth.evictor.gates import Settings
from podberth.framework.config import default_configuration
from podberth.framework.profiles import build
from podberth.kube.client import Client
from podberth.kube.machine import Machine
from podberth.kube.writes import Regarding, event
from tests.registered import registry

ABOUT = Regarding("v1", "Pod", "default", "gone", "uid-gone")
SERVER = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
BEFORE = 90
"""Seconds since the eviction, by the server."""


class Server:
    """Stamps what it is given with its own time, and remembers one eviction."""

    async def create(self, _path: str, body: bytes, **_: Any) -> bytes:
        made: Any = msgspec.json.decode(body)
        made["metadata"]["creationTimestamp"] = _stamp(0)
        return msgspec.json.encode(made)

    async def get(self, _path: str, *, query: str, **_: Any) -> bytes:
        reason = DONE if f"reason%3D{DONE}" in query else INTENT
        said = record("owner", 1, 300.0, _stamp(BEFORE + 1))
        how = {"kind": "Normal", "reason": reason, "action": "x", "note": "x", "instance": "x"}
        made_then = event(ABOUT, **how, controller=CONTROLLER, moment=SERVER.timestamp() - BEFORE)
        body = msgspec.structs.replace(made_then, annotations=said).json()
        made: Any = msgspec.json.decode(body)
        assert made["reportingController"] == CONTROLLER
        made["metadata"]["creationTimestamp"] = _stamp(BEFORE)
        return msgspec.json.encode({"metadata": {"resourceVersion": "1"}, "items": [made]})


def _stamp(ago: int) -> str:
    return datetime.fromtimestamp(SERVER.timestamp() - ago, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest.mark.parametrize("hours", [-1.0, 0.0, 1.0])
async def test_our_clock_may_be_wrong(hours: float) -> None:
    """By an hour, either way: the next leader spares successors for as long as the last one would have."""
    wrong = Machine(wall=lambda: SERVER.timestamp() + 3600 * hours)
    config = default_configuration()
    frameworks = build(config, registry())
    watcher = Watcher(cast(Client, Server()), frameworks, Settings(), lambda: True, ABOUT, "me", machine=wrong)
    (past,), _ = await watcher.remembered()
    assert past.ago == BEFORE - 1
