"""What wakes a pod that waits for devices, and when they are ready, as dynamicresources.go of kube-scheduler says."""

from __future__ import annotations

import pytest

from podberth.framework.events import ClusterEvent
from podberth.model import wire
from podberth.model.devices import ResourceClaim
from podberth.model.kinds import Decoder
from podberth.plugins.dynamic_resources.claims import readiness
from tests.builders import Object, pod
from tests.devices import allocated, claim, claiming, result
from tests.unit.plugins.small import a_pod, plugin

HELD = allocated(result("d0", "n"), node="n")
OTHERS = allocated(result("d1", "n"), node="n")


def a_claim(document: Object | None) -> ResourceClaim | None:
    """Decoded."""
    if document is None:
        return None
    found = Decoder().of_kind("ResourceClaim")(wire.encode(document))
    assert isinstance(found, ResourceClaim)
    return found


@pytest.mark.parametrize(
    ("what", "old", "new", "wakes"),
    [
        ("its own comes", None, claim("c"), True),
        ("its own is allocated", claim("c"), claim("c", status=HELD), True),
        ("its own is as it was", claim("c"), claim("c"), False),
        ("another one comes", None, claim("x"), False),
        ("another one changes without devices", claim("x"), claim("x", status={"reservedFor": []}), False),
        ("another one gets devices", claim("x"), claim("x", status=HELD), False),
        ("another one keeps its devices", claim("x", status=HELD), claim("x", status=HELD), False),
        ("another one lets go of its devices", claim("x", status=HELD), claim("x"), True),
        ("another one gets other devices", claim("x", status=HELD), claim("x", status=OTHERS), True),
        ("another one with devices goes", claim("x", status=HELD), None, True),
        ("another one without devices goes", claim("x"), None, False),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_changes_of_claims(what: str, old: Object | None, new: Object | None, wakes: bool) -> None:
    """Its own, and others as far as they free devices (isSchedulableAfterClaimChange).

    Upstream does not wake pods for what a claim frees by getting other devices, as one change may show.
    """
    hint = plugin("DynamicResources").object_hint
    assert hint(a_pod(claiming(pod("p"), "c")), ClusterEvent.DEVICE_CLAIM, a_claim(old), a_claim(new)) is wakes


def condition(of: str, status: str = "True") -> Object:
    """Of a device."""
    return {"type": of, "status": status, "reason": "why", "message": "so", "lastTransitionTime": None}


@pytest.mark.parametrize(
    ("conditions", "ready", "failed"),
    [
        (None, False, ""),
        ([], False, ""),
        ([condition("A")], False, ""),
        ([condition("A"), condition("B", "False")], False, ""),
        ([condition("A"), condition("B")], True, ""),
        ([condition("A"), condition("B"), condition("F", "False")], True, ""),
        ([condition("A"), condition("B"), condition("F")], False, "why"),
        ([condition("F")], False, "why"),
    ],
)
def test_devices_are_ready(conditions: list[Object] | None, ready: bool, failed: str) -> None:
    """With all of their binding conditions, and none of those that say that binding failed (isClaimReadyForBinding)."""
    status = allocated(result("d0", "n", bindingConditions=["A", "B"], bindingFailureConditions=["F"]), node="n")
    if conditions is not None:
        status["devices"] = [{"driver": "gpu.test", "pool": "n", "device": "d0", "conditions": conditions}]
    made = a_claim(claim("c", status=status))
    assert made is not None
    found = readiness(made)
    assert (found.ready, failed in found.failed, bool(found.failed)) == (ready, True, bool(failed))
