"""Bugs put into groups of a further kind: by topology, with shared claims, and with room kept for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

from podberth.cache.reservations import ReservedRoom
from podberth.engine.pod_groups.reservations import Reservations
from podberth.framework.binding import Patch
from podberth.model.pod_group import PodGroup
from podberth.plugins.dynamic_resources import plugin, reservation
from podberth.plugins.topology_placement_generator import TopologyPlacementGenerator
from tests.storm.mutants import mutant, was
from tests.storm.mutants_gangs import MUTANTS, named

__all__ = ["MUTANTS", "named"]


@mutant("the topology of a group counts for nothing")
def goes_anywhere() -> Iterator[None]:
    with patch.object(TopologyPlacementGenerator, "placement_generate", lambda *_: None):
        yield


@mutant("where pods of a group run already counts for nothing")
def begins_elsewhere() -> Iterator[None]:
    generate = was(TopologyPlacementGenerator, "placement_generate")

    def forgetful(self: Any, group: PodGroup, running: Any, cluster: Any) -> Any:
        return generate(self, group, (), cluster)

    with patch.object(TopologyPlacementGenerator, "placement_generate", forgetful):
        yield


@mutant("a group that prefers a domain starts there or nowhere")
def insists_on_preferences() -> Iterator[None]:
    asked = was(TopologyPlacementGenerator, "_asked")

    def insisting(self: Any, group: PodGroup) -> tuple[str | None, None]:
        required, preferred = asked(self, group)
        return preferred or required, None

    with patch.object(TopologyPlacementGenerator, "_asked", insisting):
        yield


@mutant("a claim of a group counts as reserved for it before it is")
def trusts_its_group() -> Iterator[None]:
    is_reserved = was(reservation, "_is_reserved")

    def trusting(one: Any, *given: Any) -> bool:
        return bool(one.of_group or is_reserved(one, *given))

    with patch.object(reservation, "_is_reserved", trusting):
        yield


@mutant("a pod is bound while it is still being taken out of its claims")
def waits_for_no_write() -> Iterator[None]:
    with patch.object(reservation, "_taken_out", lambda *_: None):
        yield


@mutant("a pod is bound by a claim that is reserved already, whatever an earlier leader may still have under way")
def trusts_earlier_leaders() -> Iterator[None]:
    statuses = was(reservation, "_statuses")

    def trusting(one: Any, assumed: Any, devices: Any) -> Iterator[Patch]:
        return (write for write in statuses(one, assumed, devices) if write.subresource)

    with patch.object(reservation, "_statuses", trusting):
        yield


@mutant("an allocation that an earlier leader has sent arrives whatever became of its device")
def lets_allocations_arrive() -> Iterator[None]:
    with patch.object(plugin, "overtaken", lambda *_: ()):
        yield


@mutant("room that is kept is open to everybody")
def lets_anybody_in() -> Iterator[None]:
    with patch.object(ReservedRoom, "from_pod", lambda *_: None):
        yield


@mutant("room is kept for ever")
def keeps_room_for_ever() -> Iterator[None]:
    with patch.multiple(Reservations, look=lambda *_: None, next_tick=lambda _: None):
        yield


@mutant("no room is kept for anybody")
def keeps_no_room() -> Iterator[None]:
    with patch.object(Reservations, "_may_need_room", lambda *_: False):
        yield
