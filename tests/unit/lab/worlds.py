"""Small worlds of plain objects."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from typing import Any

import msgspec

from podberth.framework.config import SchedulerConfiguration, decode
from podberth.lab import Arrival, Change, World
from tests.builders import Object, profile
from tests.builders import configuration as builder


def raw(thing: Object) -> bytes:
    """Return an object as JSON."""
    return msgspec.json.encode(thing)


def comes(pod: Object, at: float = 0.0, lasts: float = inf) -> Arrival:
    """Return the arrival of a pod."""
    return Arrival(at, raw(pod), lasts)


def world(
    objects: Iterable[Object], *arrivals: Arrival, changes: Iterable[Change] = (), controllers: bool = True
) -> World:
    """Return a world."""
    return World("small", tuple(map(raw, objects)), arrivals, tuple(changes), controllers)


def owned(pod: Object) -> Object:
    """Return a pod with a controller that makes it again."""
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "web", "controller": True}
    pod["metadata"]["ownerReferences"] = [owner]
    return pod


def configured(strategy: str = "LeastAllocated", **fields: Any) -> SchedulerConfiguration:
    """Return a configuration of one profile that spreads pods, or packs them (MostAllocated)."""
    fit = {"scoringStrategy": {"type": strategy, "resources": [{"name": "cpu", "weight": 1}]}}
    return decode(builder(profile(NodeResourcesFit=fit), **fields))
