"""Warnings that the writer posts about pods that have their nodes."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from podberth.app import metrics
from podberth.app.writer import Writer
from podberth.engine.instructions import DeviceGivenTwice
from podberth.kube.client import Client
from podberth.model import wire
from podberth.model.kinds import Decoder
from tests.builders import pod

NOTE = "device gpu.test/n0/d0 of claim default/c was also given to claim default/other"


class Api:
    """Takes events."""

    def __init__(self) -> None:
        self.created: list[Any] = []
        self.protobuf = False

    async def turns(self, lane: Any, most: int) -> int:
        return most

    async def create(self, path: str, body: bytes, **_: Any) -> bytes:
        self.created.append(msgspec.json.decode(body))
        return b"{}"


async def test_a_device_given_twice_is_counted_and_told() -> None:
    """`berth_devices_given_twice_total` says how often people have to look at the events."""
    api = Api()
    writer = Writer(cast(Client, api), lambda stimulus: None, "berth-test")
    for name in ("p", "q"):
        writer.carries[DeviceGivenTwice](DeviceGivenTwice(Decoder().pod(wire.encode(pod(name))), NOTE))
    assert await writer.drain(30.0) == 0
    assert writer.devices_given_twice == 2
    assert {(event["type"], event["reason"], event["note"]) for event in api.created} == {
        ("Warning", "DeviceGivenTwice", NOTE)
    }
    assert metrics.DEVICES_TWICE.name == "berth_devices_given_twice_total"


async def test_a_placed_pod_beyond_a_limit() -> None:
    """The Event is of our profile: the pod's own scheduler has not said it."""
    api = Api()
    writer = Writer(cast(Client, api), lambda stimulus: None, "berth-test")
    document = pod("p", on="n")
    document["spec"] |= {"schedulerName": "other", "tolerations": [{"key": f"k{i}"} for i in range(129)]}
    writer.placed_too_large(Decoder().pod(wire.encode(document)), "berth")
    assert await writer.drain(30.0) == 0
    (event,) = api.created
    assert (event["type"], event["reason"], event["reportingController"]) == ("Warning", "TooLarge", "berth")
    assert event["note"] == (
        "too large for this scheduler: 129 tolerations, at most 128; "
        "what it requests counts in full, and of its terms those that are within the limits"
    )
