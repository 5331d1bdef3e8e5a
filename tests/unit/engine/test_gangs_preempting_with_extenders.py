"""Pod groups that make room for themselves where extenders have a say in their nodes."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from podberth.cache.validate import validate
from podberth.engine.engine import Engine
from podberth.engine.instructions import AskExtenders, Failed, Instruction
from podberth.engine.stimuli import ExtendersAnswered, ExtendersFailed, Follows
from podberth.framework.config import decode
from podberth.framework.extenders import NodesAnswer, NodesQuestion, Scores
from podberth.framework.profiles import build
from podberth.model.pod_group import NATIVE
from tests.builders import configuration
from tests.registered import registry

from .conftest import Harness, node
from .test_extenders import FILTER
from .test_gangs_preempting import bound, condition, group, member, running, victims

RANK = {"urlPrefix": "http://r", "prioritizeVerb": "rank", "weight": 100}
MADE_ROOM = "pod group preemption: found a placement for podgroup, preempting 2 victims"
Says = Callable[[AskExtenders], NodesAnswer]
Opened = Callable[..., Harness]


@pytest.fixture
def opened() -> Iterator[Opened]:
    """`opened(extender, …)`: an engine with these extenders and nodes of two CPUs that pods of low priority fill."""
    made: list[Harness] = []

    def make(*extenders: Any, nodes: int = 3) -> Harness:
        config = decode(configuration(extenders=list(extenders)))
        harness = Harness()
        harness.engine = Engine(build(config, registry()), extenders=config.extenders)
        harness.handle(Follows(NATIVE, True))
        for i in range(nodes):
            harness.put(node(f"n{i}", "2"), running(f"low-{i}", f"n{i}", "2", started=i))
        made.append(harness)
        return harness

    yield make
    for harness in made:
        assert validate(harness.engine.cluster) == []


def gang(harness: Harness, count: int = 2) -> None:
    harness.put(group("high", count, 5), *(member("high", i, cpu="2", priority=5) for i in range(count)))


def nodes_of(ask: AskExtenders) -> tuple[str, ...]:
    assert isinstance(ask.question, NodesQuestion)
    return ask.question.nodes


def only(*names: str) -> Says:
    """An extender that refuses all other nodes."""

    def says(ask: AskExtenders) -> NodesAnswer:
        nodes = nodes_of(ask)
        return NodesAnswer(
            frozenset(nodes) & set(names), {name: "not here" for name in nodes if name not in names}, {}, ()
        )

    return says


def talk(harness: Harness, says: Says) -> tuple[list[Instruction], list[AskExtenders]]:
    """Schedule until nothing is left, with these answers; what was wanted, and what was asked."""
    said, asked = harness.cycles(), []
    while questions := [one for one in said if isinstance(one, AskExtenders) and one not in asked]:
        asked += questions
        for question in questions:
            said += harness.handle(ExtendersAnswered(question.question, says(question)))
        said += harness.cycles()
    return said, asked


def test_those_go_whose_nodes_the_extender_takes(opened: Opened) -> None:
    """It is asked about each pod of the plan, on the nodes that the victims leave, and about no victim."""
    harness = opened(FILTER)
    gang(harness)
    said, asked = talk(harness, only("n1", "n2"))
    first = harness.engine.cluster.nominations.node_of.get("high-0")
    nodes = ("n0", "n1", "n2")
    assert first in {"n1", "n2"}
    assert [(one.question.pod.name, nodes_of(one)) for one in asked] == [
        ("high-0", nodes),
        ("high-1", tuple(name for name in nodes if name != first)),
    ]
    assert condition(said).endswith(MADE_ROOM)
    assert victims(said) == {"low-1", "low-2"}
    for name in ("low-1", "low-2"):
        harness.gone("Pod", name)
    harness.after(10)
    said, _ = talk(harness, only("n1", "n2"))
    assert set(bound(said).values()) == {"n1", "n2"}


def test_scores_of_an_extender_choose_who_goes(opened: Opened) -> None:
    harness = opened(RANK)
    gang(harness, 1)

    def says(ask: AskExtenders) -> NodesAnswer:
        scores = [Scores("http://r", 100, {name: 10 if name == "n1" else 0 for name in nodes_of(ask)})]
        return NodesAnswer(frozenset(nodes_of(ask)), {}, {}, scores)

    said, _ = talk(harness, says)
    assert victims(said) == {"low-1"}


def test_nobody_goes_where_the_extender_takes_too_few(opened: Opened) -> None:
    harness = opened(FILTER)
    gang(harness)
    said, asked = talk(harness, only("n1"))
    assert len(asked) == 2
    assert victims(said) == set()
    assert "pod group preemption: minCount (2) cannot be satisfied: 1 scheduled, 0 remaining" in condition(said)


def test_an_extender_that_fails_is_an_error_of_the_group(opened: Opened) -> None:
    harness = opened(FILTER)
    gang(harness)
    (ask,) = [one for one in harness.cycles() if isinstance(one, AskExtenders)]
    said = harness.handle(ExtendersFailed(ask.question, "failed filter with extender at URL http://e, code 500"))
    said += harness.cycles()
    assert condition(said) == (
        'error in "DefaultPreemption" PodGroupPostFilter plugins: pod group preemption: '
        "failed to schedule other pod from a pod group: failed filter with extender at URL http://e, code 500"
    )
    assert {one.reason for one in said if isinstance(one, Failed)} == {"SchedulerError"}
    assert victims(said) == set()


def test_an_error_is_said_without_what_was_said_before(opened: Opened) -> None:
    """The pods of the group that run are enough, so that nothing but the plan has failed with an error."""
    harness = opened(FILTER)
    harness.put(running("high-0", "n0", "0", priority=5, schedulingGroup={"podGroupName": "high"}))
    harness.put(group("high", 1, 5), member("high", 1, cpu="2", priority=5))
    (ask,) = [one for one in harness.cycles() if isinstance(one, AskExtenders)]
    said = harness.handle(ExtendersFailed(ask.question, "no answer")) + harness.cycles()
    assert condition(said) == (
        'error in "DefaultPreemption" PodGroupPostFilter plugins: pod group preemption: '
        "failed to schedule other pod from a pod group: no answer"
    )


def test_others_are_decided_while_extenders_are_asked(opened: Opened) -> None:
    harness = opened({**FILTER, "managedResources": [{"name": "example.com/dock"}]})
    docks = {"cpu": "2", "memory": "32Gi", "pods": "110", "example.com/dock": "9"}
    berth = node("n9", "2")
    berth["status"] = {"allocatable": docks, "capacity": docks}
    harness.put(berth, running("low-9", "n9", "2"), node("free", "1"))
    harness.put(group("high", 1, 5))
    one = member("high", 0, cpu="2", priority=5)
    one["spec"]["containers"][0]["resources"]["requests"]["example.com/dock"] = "1"
    one["spec"]["containers"][0]["resources"]["limits"] = {"example.com/dock": "1"}
    harness.put(one)
    (ask,) = [each for each in harness.cycles() if isinstance(each, AskExtenders)]
    assert not harness.engine.has_work
    harness.put(
        member("plain", 0, cpu="1") | {"spec": {**member("plain", 0, cpu="1")["spec"], "schedulingGroup": None}}
    )
    assert bound(harness.cycles()) == {"plain-0": "free"}
    said = harness.handle(ExtendersAnswered(ask.question, only("n9")(ask))) + harness.cycles()
    assert victims(said) == {"low-9"}


@pytest.mark.parametrize("about", [0, 1])
def test_a_pod_of_the_group_goes_while_extenders_are_asked(opened: Opened, about: int) -> None:
    """The plan is made again for the others; an answer for the old one comes too late."""
    harness = opened(FILTER)
    gang(harness, 3)
    harness.put(group("high", 2, 5))
    (ask,) = [one for one in harness.cycles() if isinstance(one, AskExtenders)]
    gone = {0: ask.question.pod.name, 1: "high-2"}[about]
    harness.gone("Pod", gone)
    said = harness.cycles()
    said += harness.handle(ExtendersAnswered(ask.question, only("n0")(ask)))
    said += harness.cycles()
    asked = [one for one in said if isinstance(one, AskExtenders)]
    while asked:
        more = harness.handle(ExtendersAnswered(asked[-1].question, only("n0", "n1")(asked[-1]))) + harness.cycles()
        said += more
        asked = [one for one in more if isinstance(one, AskExtenders)]
    assert victims(said) == {"low-0", "low-1"}


def test_a_node_that_changes_while_extenders_are_asked(opened: Opened) -> None:
    """Nobody goes for a plan that is out of date: it is made again, and they are asked again."""
    harness = opened(FILTER)
    gang(harness, 1)
    (ask,) = [one for one in harness.cycles() if isinstance(one, AskExtenders)]
    harness.put(node("n0", "1"))
    said = harness.handle(ExtendersAnswered(ask.question, only("n0")(ask))) + harness.cycles()
    assert victims(said) == set()
    (again,) = [one for one in said if isinstance(one, AskExtenders)]
    assert nodes_of(again) == ("n1", "n2")
