"""Affinity by annotation and ServiceAffinity in the loop: who waits, what wakes them, and preemption with them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from podberth.cache.validate import validate
from podberth.engine.engine import Engine
from podberth.engine.instructions import Failed, Instruction, Preempt, RecordFailure
from podberth.framework.config import decode
from podberth.framework.profiles import annotated, build
from podberth.framework.status import LONGEST_TEXT
from podberth.model.kinds import Decoder
from podberth.plugins.registry import IN_TREE
from tests.builders import configuration, profile

from .conftest import Harness, node, pod

KEY = "scheduler.alpha.kubernetes.io/affinity"
SERVICE = {
    "kind": "Service",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {"selector": {"app": "web"}},
}
WEB = {"app": "web"}


@pytest.fixture
def harness() -> Iterator[Harness]:
    """An empty cluster, and a profile with both plugins."""
    enabled = {"multiPoint": {"enabled": [{"name": "AnnotationAffinity"}, {"name": "ServiceAffinity"}]}}
    frameworks = build(
        decode(configuration(profile("berth", enabled, ServiceAffinity={"affinityLabels": ["site"]}))), IN_TREE
    )
    harness = Harness()
    harness.engine, harness.decoder = Engine(frameworks), Decoder(annotated(frameworks))
    yield harness
    assert validate(harness.engine.cluster) == []


def wants(site: str) -> str:
    term = {"matchExpressions": [{"key": "site", "operator": "In", "values": [site]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return json.dumps({"nodeAffinity": required})


def noted(text: str) -> dict[str, Any]:
    return pod("web", meta={"annotations": {KEY: text}})


def said(instructions: list[Instruction]) -> list[str]:
    return [each.message for each in instructions if isinstance(each, Failed | RecordFailure)]


@pytest.mark.parametrize(
    ("before", "message"),
    [
        ("{", f"0/1 nodes are available: annotation {KEY}: not JSON"),
        (wants("south"), "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector"),
    ],
)
def test_a_mended_annotation_is_tried_again(harness: Harness, before: str, message: str) -> None:
    """Pending with a reason whichever plugin rejected the pod; an update that mends it is all that it takes."""
    harness.put(node("n1", site="north"), noted(before))
    assert all(text.startswith(message) for text in said(harness.cycles()))
    assert not harness.engine.has_work
    harness.put(noted(before))
    assert not harness.engine.has_work
    harness.put(noted(wants("north")))
    harness.after(60)
    assert harness.binds() == {"web": "n1"}


def test_an_annotation_full_of_control_characters(harness: Harness) -> None:
    """No API server looks into it: what is said of it is cut and escaped, in the condition, the event and the log."""
    harness.put(node("n1"), noted(json.dumps({"\x1b[31m\n\u202e" * 20_000: {}})))
    messages = said(harness.cycles())
    assert len(messages) == 2
    for message in messages:
        assert message.startswith(f"0/1 nodes are available: annotation {KEY}: \\x1b[31m\\n\\u202e")
        assert message.isprintable()
        assert len(message) < LONGEST_TEXT + 200


def test_the_service_that_binds_them_goes(harness: Harness) -> None:
    """A pod that may not leave its Service's site for want of room may when there is no Service."""
    harness.put(SERVICE, node("n1", cpu="1", site="north"), node("s1", cpu="1", site="south"))
    harness.put(pod("first", cpu="900m", labels=WEB, nodeSelector={"site": "north"}))
    assert harness.binds() == {"first": "n1"}
    harness.put(pod("second", cpu="900m", labels=WEB))
    assert harness.binds() == {}
    harness.gone("Service", "web")
    harness.after(60)
    assert harness.binds() == {"second": "s1"}


def test_the_pods_that_it_follows_go(harness: Harness) -> None:
    """With the last of them the site is open again."""
    harness.put(SERVICE, node("n1", cpu="1", site="north"), node("s1", cpu="1", site="south"))
    harness.put(
        pod("first", cpu="900m", labels=WEB, nodeName="n1"), pod("filler", cpu="900m", labels={}, nodeName="n1")
    )
    harness.put(pod("second", cpu="900m", labels=WEB))
    assert harness.binds() == {}
    harness.gone("Pod", "first")
    harness.after(60)
    assert harness.binds() == {"second": "s1"}


def test_preemption_stays_at_home(harness: Harness) -> None:
    """Room is made where the Service is, not on an emptier node elsewhere."""
    harness.put(SERVICE, node("n1", cpu="1", site="north"), node("s1", cpu="1", site="south"))
    harness.put(pod("first", cpu="100m", labels=WEB, nodeName="n1"))
    harness.put(pod("filler", cpu="800m", labels={}, nodeName="n1"), pod("other", cpu="10m", labels={}, nodeName="s1"))
    harness.put(pod("second", cpu="500m", labels=WEB, priority=10))
    (preempt,) = [each for each in harness.cycles() if isinstance(each, Preempt)]
    assert [victim.name for victim in preempt.victims] == ["filler"]
