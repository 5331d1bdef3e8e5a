"""The bench of hostile clients against a serving port of its own: small, and with nothing timed."""

from __future__ import annotations

import asyncio
import os

import pytest

from bench.hostile_ports import ATTACKS, Target, rows, table
from podberth.service.serving import Gate
from tests.unit.service.test_serving import everybody, serving


async def test_a_row_for_each_attack() -> None:
    """Every attack is made and ends, no probe is lost, and the process' own figures are in the row."""
    async with serving(Gate(everybody)) as ask:
        target = Target(ask.port, pid=os.getpid())
        found = await rows(target, count=2, crowd=16)
        assert [row.attack for row in found] == list(ATTACKS)
        assert {row.lost for row in found} == {0}
        assert all(row.during.descriptors > 0 and row.during.memory > 0 for row in found)
        assert len(table(found).splitlines()) == 2 + len(ATTACKS)
        await asyncio.to_thread(ask, "/livez")


@pytest.mark.parametrize("name", ["idle before TLS", "plain HTTP, again and again"])
async def test_attacks_on_tls(name: str) -> None:
    """They are for ports that have it."""
    assert await rows(Target(1, plain=True), count=2, crowd=1, only=name) == []


async def test_nobody_answers() -> None:
    """Each probe is lost, and counts as long as one may take."""
    (row,) = await rows(Target(1), count=2, crowd=1, only="idle connections")
    assert (row.lost, row.during_p50) == (2, 20_000.0)
