"""The loop itself: what is wrong with one pod does not stop it, whatever it is."""

from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from scheduler.controller.scheduler import Scheduler
from scheduler.engine.instructions import Failed, Instruction
from scheduler.engine.queue import Place
from scheduler.engine.stimuli import Put
from scheduler.framework.config import decode
from scheduler.framework.profiles import build
from scheduler.framework.runtime import Framework
from scheduler.kube.client import Client
from scheduler.model import wire
from scheduler.model.kinds import Decoder
from scheduler.plugins.registry import registry
from scheduler.state.validate import validate
from tests.builders import configuration, node, pod


class Idle:
    """A client that nobody calls."""


@pytest.mark.parametrize("where", ["decide_quickly", "reservation"])
async def test_a_fault_of_ours(monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """Its pod waits out a backoff, holds no room, and is told; the log has the traceback; the next pod is bound."""
    method: Any = getattr(Framework, where)

    def broken(self: Framework, subject: Any, *given: Any, **how: Any) -> Any:
        if subject.name == "bad":
            raise IndexError("row 7 of 3")
        return method(self, subject, *given, **how)

    monkeypatch.setattr(Framework, where, broken)
    config = decode(configuration())
    scheduler = Scheduler(cast(Client, Idle()), build(config, registry()), config)
    done: list[Instruction] = []
    monkeypatch.setattr(scheduler, "_carry_out", done.extend)
    decoder = Decoder()
    scheduler._receive(Put(decoder.node(wire.encode(node("n")))))
    for name in ("bad", "good"):
        scheduler._receive(Put(decoder.pod(wire.encode(pod(name)))))
    with capture_logs() as logs:
        while scheduler._work(cycles=True):
            pass
    (failed,) = [one for one in done if isinstance(one, Failed)]
    assert (failed.pod.name, failed.reason, failed.message) == ("bad", "SchedulerError", "IndexError: row 7 of 3")
    assert [(line["event"], line["exc_info"]) for line in logs] == [("a cycle broke", True)]
    engine = scheduler.engine
    assert [(queued.pod.name, queued.place) for queued in engine.queue] == [("bad", Place.BACKOFF)]
    assert engine.cluster.placement("default/good") is not None
    assert engine.cluster.assumed() == 1
    assert validate(engine.cluster) == []
