"""Pods that are long: with thousands of terms or claims, which are gone through once, however many slices it takes."""

from typing import Any

import pytest

from scheduler.engine.budget import Budget
from scheduler.engine.instructions import Failed
from scheduler.model.kinds import Decoder
from scheduler.model.wire import encode
from scheduler.plugins.volume_binding.matching import Claims
from scheduler.state.assumed import Assumed
from scheduler.state.cluster import Cluster
from scheduler.state.of_claims import MANY
from tests.builders import configuration, node, pod, profile
from tests.storage import claim, storage_class, using

from .conftest import Harness
from .test_costly_pods import SLICE, Digging

CLAIMS = 100
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def _many_claims(budget: Budget | None = None, **labels: str) -> Harness:
    """A cluster in which a pod with many claims waits, whose plugin has work for as many slices as it says."""
    plugins = {"multiPoint": {"enabled": [{"name": "Digging"}]}}
    harness = Harness(configuration(profile(plugins=plugins)), Digging, budget=budget)
    harness.put(node("n1"), storage_class(provisioner="csi.test"), *(claim(f"c{i}") for i in range(CLAIMS)))
    worst = pod("worst", cpu="1m", labels={"app": "worst", **labels}, uid="worst")
    harness.put(using(worst, *(f"c{i}" for i in range(CLAIMS))))
    return harness


def _slices(harness: Harness) -> int:
    slices = 0
    while harness.engine.queue.get("worst") is not None:
        slices += 1
        harness.cycle()
    return slices


def test_claims_are_gone_through_once_for_all_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five plugins have to see them; a pod of 40 slices costs no more look-ups than one of a few."""
    looked_up: list[Any] = []
    stored = Assumed.stored

    def counted(self: Any, key: Any) -> Any:
        looked_up.append(key)
        return stored(self, key)

    monkeypatch.setattr(Assumed, "stored", counted)
    assert _slices(_many_claims()) < 20
    few = len(looked_up)
    looked_up.clear()
    assert _slices(_many_claims(steps=str(40 * SLICE))) > 20
    assert len(looked_up) <= few + CLAIMS


def test_claims_are_charged_and_a_slice_ends_among_them() -> None:
    """A slice that is too short for one walk through the claims is no obstacle: the next one goes on."""
    assert _slices(_many_claims(Budget(slice=CLAIMS))) > 5


def test_claims_that_change_are_looked_at_again() -> None:
    """What was found goes by the claims as they were: a claim that goes between two slices is missed at once."""
    harness = _many_claims(Budget(slice=CLAIMS))
    for _ in range(3):
        harness.cycle()
    harness.gone("PersistentVolumeClaim", f"c{CLAIMS - 1}")
    said: list[Failed] = []
    while harness.engine.queue.get("worst") is not None and not said:
        said = [one for one in harness.cycle() if isinstance(one, Failed)]
    assert f'persistentvolumeclaim "c{CLAIMS - 1}" not found' in said[0].message


def test_a_mistake_is_found_each_time() -> None:
    """What was raised for a claim is raised again, not passed over with the next slice."""
    made = Cluster()
    seen: list[str] = []

    def look(found: Claims, used: Any) -> bool:
        seen.append(used.name)
        if used.name == "c70":
            raise ValueError(used.name)
        return False

    worst = Decoder().pod(encode(using(pod("worst", uid="worst"), *(f"c{i}" for i in range(2 * MANY)))))
    for _ in range(2):
        with pytest.raises(ValueError, match="c70"):
            made.go_through_claims(worst, "q", Claims, look)
    assert seen.count("c70") == 2
