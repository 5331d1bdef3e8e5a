"""Pods that are long: with thousands of terms or claims, which are gone through once, however many slices it takes."""

from typing import Any

import pytest

from scheduler.engine.budget import Budget
from scheduler.engine.instructions import Bind, Failed
from scheduler.model import terms, wire
from scheduler.model.affinity import AffinityTerm, parse_affinity_term
from scheduler.model.kinds import Decoder
from scheduler.model.parts import Parts
from scheduler.model.resources import parse_amounts
from scheduler.model.selectors import Labels, LabelSelector
from scheduler.model.spread import SpreadConstraint
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


def _terms(count: int) -> list[dict[str, Any]]:
    return [
        {"topologyKey": "zone", "labelSelector": {"matchLabels": {"k": f"x{i}"}}, "namespaceSelector": {}}
        for i in range(count)
    ]


def test_the_echo_of_a_status_reads_no_term_again(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod of many terms that fits nowhere: what the watch tells of it costs nobody what its terms cost."""
    harness.put(node("n1", cpu="1"))
    worst = pod("worst", cpu="4", uid="worst")
    worst["spec"]["affinity"] = {"podAntiAffinity": {REQUIRED: _terms(700)}}
    harness.put(worst)
    assert not any(isinstance(one, Bind) for one in harness.cycles())
    read: list[str] = []

    def parse(term: wire.PodAffinityTerm, namespace: str, path: str) -> AffinityTerm:
        read.append(path)
        return parse_affinity_term(term, namespace, path)

    monkeypatch.setattr(terms, "parse_affinity_term", parse)
    harness.decoder = type(harness.decoder)()  # it has seen so much meanwhile that it does not know the pod any more
    harness.put(worst | {"status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "x"}]}})
    harness.put(worst | {"metadata": worst["metadata"] | {"labels": {"now": "other"}}})
    assert read == []


def test_events_read_no_container(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large pod comes, is gated, changes labels and images, is let in: its own attempt reads it."""
    read: list[str] = []

    def counted(amounts: Any, path: str) -> Any:
        read.append(path)
        return parse_amounts(amounts, path)

    monkeypatch.setattr("scheduler.model.containers.parse_amounts", counted)
    harness.decoder = Decoder().beside()
    harness.put(node("n1"))
    read.clear()
    worst = pod("worst", uid="worst", gates=["example.com/wait"])
    many = [{"name": f"c{i}", "image": f"i{i}", "resources": {"requests": {"cpu": "1m"}}} for i in range(1_000)]
    worst["spec"]["containers"] = many
    harness.put(worst)
    harness.put(worst | {"metadata": worst["metadata"] | {"labels": {"now": "other"}}})
    worst["spec"]["containers"] = [one | {"image": f"{one['image']}:2"} for one in many]
    harness.put(worst)
    del worst["spec"]["schedulingGates"]
    harness.put(worst)
    assert read == []
    slices = harness.engine.attempts.slices
    (bound,) = (one for one in harness.cycles() if isinstance(one, Bind))
    assert harness.engine.attempts.slices - slices >= 2
    assert len(read) == 1_000
    assert bound.pod.shape.requests["cpu"] == 1_000


def test_values_of_match_label_keys_are_filled_in_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of thousands of constraints may name dozens of the pod's labels: it is charged, and done once."""
    keys = [f"k{i}" for i in range(20)]
    harness = Harness(budget=Budget(slice=500))
    harness.put(node("n1"), node("n2"))
    worst = pod("worst", uid="worst", labels=dict.fromkeys(keys, "v"))
    worst["spec"]["topologySpreadConstraints"] = [
        {
            "maxSkew": 1,
            "topologyKey": f"example.com/{i}",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"app": "a"}},
            "matchLabelKeys": keys,
        }
        for i in range(200)
    ]
    filled: list[Any] = []
    real = SpreadConstraint.selector_in_parts

    def fill_in(own: SpreadConstraint, labels: Labels) -> Parts[LabelSelector]:
        filled.append(own)
        return real(own, labels)

    monkeypatch.setattr(SpreadConstraint, "selector_in_parts", fill_in)
    harness.put(worst)
    most = 0
    while harness.engine.queue.get("worst") is not None:
        before = len(filled)
        harness.cycle()
        most = max(most, len(filled) - before)
    assert len(filled) == 200
    assert most <= 2 * 500 // len(keys)
