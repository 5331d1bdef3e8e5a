"""Looking further than kube-scheduler for devices is asked for by an argument, and named in the message."""

from typing import Any

import pytest

from podberth.engine.instructions import Failed, PreBindWrite
from podberth.explain.explain import explain
from podberth.framework.config import ConfigError, decode
from podberth.framework.profiles import build
from podberth.model.pod import Pod
from tests.builders import node, pod
from tests.devices import asks, claim, claiming, device, device_class, first_of, resource_slice
from tests.registered import registry
from tests.unit.explain.story import world

from .api import Api
from .conftest import CONFIG, Harness
from .test_devices import FINALIZED


def configured(steps: int) -> dict[str, Any]:
    """The profile berth with this argument."""
    plugin = {"name": "DynamicResources", "args": {"furtherSearchSteps": steps}}
    return {**CONFIG, "profiles": [{"schedulerName": "berth", "pluginConfig": [plugin]}]}


def objects(*alternatives: str) -> list[dict[str, Any]]:
    """A claim for the first of these, where a pool is still being published."""
    every = {"every": asks(allocationMode="All"), "one": asks(), "three": asks(count=3)}
    wanted = first_of("r", **{name: every[name] for name in alternatives})
    late = resource_slice("late", device("x"), allNodes=True, count=2)
    local = resource_slice("n", device("d0"), node="n")
    return [node("n"), device_class(), local, late, claim("c", wanted, meta=FINALIZED)]


def begun(steps: int, *alternatives: str) -> tuple[Harness, Any]:
    """The engine, and what comes of a pod that asks."""
    harness = Harness(configured(steps))
    Api(harness, *objects(*alternatives)).put(claiming(pod("p"), "c"))
    (found,) = [one for one in harness.cycles() if isinstance(one, (Failed, PreBindWrite))]
    return harness, found


def tried(steps: int, *alternatives: str) -> Any:
    """What comes of a pod that asks."""
    return begun(steps, *alternatives)[1]


def test_another_alternative_is_taken() -> None:
    """Where kube-scheduler fails the pod."""
    assert "request every: asks for all devices, but resource pool gpu.test/late" in tried(0, "every", "one").message
    (write,) = tried(1000, "every", "one").writes
    (given,) = write.change["status"]["allocation"]["devices"]["results"]
    assert (given["request"], given["device"]) == ("r/one", "d0")


@pytest.mark.parametrize(("wanted", "is_said"), [(("every", "one"), True), (("one",), False)])
def test_the_story_says_that_it_found_something(wanted: tuple[str, ...], is_said: bool) -> None:
    """Beside what is written; of what kube-scheduler finds as well, nothing."""
    harness, _ = begun(1000, *wanted)
    story = harness.engine.history.story("default/p")
    assert story is not None
    texts = [entry.text for entry in story.entries]
    said = "DynamicResources has ResourceClaim default/c written: the claim c gets gpu.test/n/d0"
    further = ", kube-scheduler's search finds no devices there, looking further did"
    assert any(text.endswith(f"{said}{further if is_said else ''}") for text in texts), texts


@pytest.mark.parametrize(("wanted", "notes"), [(("every", "one"), 1), (("one",), 0)])
def test_explain_says_that_it_found_something(wanted: tuple[str, ...], notes: int) -> None:
    """And on which nodes."""
    framework = build(decode(configured(1000)), registry())["berth"]
    there = world(objects(*wanted))
    asking = there.decode(claiming(pod("p"), "c"))
    assert isinstance(asking, Pod)
    answer = explain(asking, framework, there.cluster)
    assert answer.outcome == "fits"
    further = "kube-scheduler's search finds no devices on node n: looking further (furtherSearchSteps) did"
    assert answer.notes == [further] * notes


def test_the_message_says_that_it_was_done() -> None:
    """With what kube-scheduler says before."""
    said = tried(1000, "every", "three").message
    assert "asks for all devices, but resource pool gpu.test/late is currently being updated" in said
    assert said.endswith("; looking further found no other way")
    assert "cannot allocate all claims: looking further found no other way" in tried(1000, "three").message
    assert "looking further was given up, as it took too many steps" in tried(1, "three").message


def test_the_steps_are_checked() -> None:
    """A number that makes sense."""
    with pytest.raises(ConfigError, match="furtherSearchSteps: Invalid value: -1: must be between 0 and 1,000,000"):
        build(decode(configured(-1)), registry())
