"""Gangs whose pods extenders have a say about: an answer counts only for the pod, and the attempt, that asked."""

from collections.abc import Callable
from typing import Any

import pytest

from podberth.cache.validate import validate
from podberth.engine.engine import Engine
from podberth.engine.instructions import AskExtenders, Bind, Instruction
from podberth.engine.pod_groups.attempt import Turns
from podberth.engine.pod_groups.cycle import GroupCycles
from podberth.engine.stimuli import Broke, ExtendersAnswered, ExtendersFailed, Follows
from podberth.framework.config import decode
from podberth.framework.extenders import NodesAnswer, NodesQuestion
from podberth.framework.profiles import build
from podberth.model.pod_group import NATIVE
from tests.builders import Object, configuration
from tests.registered import registry

from .conftest import Harness, node
from .test_extenders import FILTER, asked
from .test_gangs import conditions, group, member

Meanwhile = Callable[[Harness], None]


def extended() -> Harness:
    """Three nodes of four cores, one in each zone, and an extender that filters."""
    config = decode(configuration(extenders=[FILTER]))
    harness = Harness()
    harness.engine = Engine(build(config, registry()), extenders=config.extenders)
    harness.handle(Follows(NATIVE, True))
    harness.put(*(node(f"n{i}", zone=f"z{i}") for i in range(3)))
    return harness


def in_zone(i: int, **spec: Any) -> Object:
    """A pod of the gang that goes to one node only."""
    return member(f"train-{i}", "2", nodeSelector={"zone": f"z{i}"}, **spec)


def answered(harness: Harness, question: Any) -> list[Instruction]:
    """The extender takes all nodes."""
    assert isinstance(question, NodesQuestion)
    said = harness.handle(ExtendersAnswered(question, NodesAnswer(frozenset(question.nodes), {}, {}, ())))
    return said + harness.cycles()


def to_the_end(harness: Harness, said: list[Instruction]) -> dict[str, str]:
    """Answer until nothing is asked any more; pod → node."""
    while questions := [one for one in said if isinstance(one, AskExtenders)]:
        more = [one for question in questions for one in answered(harness, question.question)]
        said = [one for one in said if not isinstance(one, AskExtenders)] + more
    return {one.pod.name: one.node for one in said if isinstance(one, Bind)}


def the_last_pod_goes(harness: Harness) -> None:
    harness.gone("Pod", "train-2")


def the_first_pods_node_goes(harness: Harness) -> None:
    """It was assumed there."""
    harness.gone("Node", "n0", namespace="")
    harness.put(node("n3", zone="z0"))


@pytest.mark.parametrize("meanwhile", [the_last_pod_goes, the_first_pods_node_goes])
def test_an_answer_that_comes_after_the_attempt_has_begun_again(meanwhile: Meanwhile) -> None:
    """It was about the second pod, and is not taken for one about the first, which is tried again before it."""
    harness = extended()
    harness.put(group(min_count=2), *(in_zone(i) for i in range(3)))
    first = asked(harness.cycles())
    second = asked(answered(harness, first))
    assert (first.pod.name, second.pod.name) == ("train-0", "train-1")
    meanwhile(harness)
    said = harness.cycles() + answered(harness, second)
    assert asked(said).pod.name == "train-0"
    nodes = to_the_end(harness, said)
    assert nodes["train-0"] in ("n0", "n3")
    assert nodes["train-1"] == "n1"
    assert validate(harness.engine.cluster) == []


def test_the_pods_of_a_gang_that_has_lost_one_are_tried_again_at_once() -> None:
    """Though no answer has come; and the one to the question of before fails nobody when it says that it failed."""
    harness = extended()
    harness.put(group(min_count=2), *(in_zone(i) for i in range(3)))
    second = asked(answered(harness, asked(harness.cycles())))
    harness.gone("Pod", "train-2")
    again = harness.cycles()
    assert asked(again).pod.name == "train-0"
    late = harness.handle(ExtendersFailed(second, "failed filter with extender at URL http://e, code 500"))
    assert late == []
    assert to_the_end(harness, again) == {"train-0": "n0", "train-1": "n1"}
    assert conditions(late + again) == []


@pytest.mark.parametrize("tried_again", [False, True])
def test_an_answer_that_comes_after_the_attempt_has_broken_off(
    monkeypatch: pytest.MonkeyPatch, tried_again: bool
) -> None:
    """The question was put, then the turn raised: no pod is bound by itself, or by the answer to an old question."""
    harness = extended()
    harness.put(group(min_count=2), in_zone(0), in_zone(1))

    one = GroupCycles.try_one

    def raises(*given: Any) -> Turns[None]:
        next(one(*given))
        if given:
            raise ZeroDivisionError
        yield

    with monkeypatch.context() as patched:
        patched.setattr(GroupCycles, "try_one", raises)
        with pytest.raises(ZeroDivisionError):
            harness.cycle()
    broken = harness.handle(Broke("division by zero"))
    assert conditions(broken) == [("False", "SchedulerError", "division by zero")]
    again: list[Instruction] = []
    if tried_again:
        harness.after(60)
        again = harness.cycles()
    late = harness.handle(ExtendersAnswered(asked(broken), NodesAnswer(frozenset({"n0"}), {}, {}, ())))
    assert late + harness.cycles() == []
    if not tried_again:
        harness.after(60)
        again = harness.cycles()
    assert to_the_end(harness, again) == {"train-0": "n0", "train-1": "n1"}
    assert validate(harness.engine.cluster) == []
