"""What the index has, and what nobody has told it."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from podberth.kube.client import Client
from podberth.kube.errors import Unreachable
from podberth.policy.operator import index
from podberth.policy.operator.index import Missed
from podberth.policy.operator.kopf_limits import Pulse, Session


async def test_what_is_gone_is_told_though_the_next_list_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """A comparison that is done again finds nothing any more in the index that the first one has mended."""
    monkeypatch.setattr(index, "AGAIN_SECONDS", 0)

    class Answers:
        def __init__(self, *answers: bool | Exception) -> None:
            self.left = list(answers)

        async def compare(self, *_: Any) -> bool:
            answer = self.left.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer

        async def get(self, *_: Any, **__: Any) -> bytes:
            return b'{"metadata": {"resourceVersion": "1"}}'

    lost: list[None] = []
    session = SimpleNamespace(relisted=asyncio.Event())
    session.relisted.set()
    indices: Any = Answers(True, False), Answers(Unreachable("gone"), False)
    missed = Missed(
        cast("Client", Answers()), cast("Session", session), Pulse(["a"]), (), indices, lambda: lost.append(None)
    )
    run = asyncio.create_task(missed.run())
    await missed.complete.wait()
    run.cancel()
    assert lost == [None]
