"""Pods that a kubelet refused, as the watch shows them at last."""

from typing import Any

import msgspec
import pytest

from podberth.app.refusals import Refusals
from podberth.kube.listwatch import Counts, KnownObjects
from podberth.kube.objects import Deleted
from podberth.model.kinds import Decoder
from tests.builders import pod


def ended(phase: str, reason: str, scheduler: str = "berth") -> dict[str, Any]:
    document = pod("p", on="n1")
    document["spec"]["schedulerName"] = scheduler
    document["metadata"]["resourceVersion"] = "7"
    document["status"] = {"phase": phase, "reason": reason, "message": "Node didn't have enough resource: cpu"}
    return document


@pytest.mark.parametrize(
    ("id", "document", "want"),
    [
        ("no room", ended("Failed", "OutOfcpu"), {"OutOfcpu": 1}),
        ("too many pods", ended("Failed", "OutOfpods"), {"OutOfpods": 1}),
        ("a device", ended("Failed", "OutOfexample.com/gpu"), {"other": 1}),
        ("its program failed", ended("Failed", ""), {}),
        ("evicted", ended("Failed", "Evicted"), {}),
        ("ended well", ended("Succeeded", "OutOfcpu"), {}),
        ("another scheduler's", ended("Failed", "OutOfcpu", "other"), {}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_refused(id: str, document: dict[str, Any], want: dict[str, int]) -> None:
    """It is gone from the cache by the very event that counts it, so its room is free again."""
    decoder, refusals = Decoder(), Refusals(lambda: ["berth"])
    known = KnownObjects(decoder.pod, Counts())
    known.on_deleted = refusals.see
    running = {**document, "status": {"phase": "Pending"}}
    running["metadata"] = {**document["metadata"], "resourceVersion": "6"}
    known.upsert(msgspec.Raw(msgspec.json.encode(running)))
    known.take()
    known.delete(msgspec.Raw(msgspec.json.encode(document)))
    (gone,) = known.take()
    assert isinstance(gone, Deleted)
    assert dict(refusals.counted) == want


def test_what_can_not_be_read_is_gone_all_the_same() -> None:
    """A status that is none costs nobody anything."""
    refusals = Refusals(lambda: ["berth"])
    refusals.see(msgspec.Raw(b'{"metadata":{"name":"p"},"spec":[],"status":{"phase":"Failed"}}'))
    assert not refusals.counted
