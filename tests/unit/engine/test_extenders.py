"""Extenders from the engine's side: what it asks, and what it makes of answers when the world has moved on."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from podberth.cache.validate import validate
from podberth.engine.binding_cycle import BindingCycles
from podberth.engine.binding_table import State
from podberth.engine.engine import Engine
from podberth.engine.instructions import AskExtenders, Bind, Failed, Instruction, PatchCondition, Preempt
from podberth.engine.queue.queued import Place
from podberth.engine.stimuli import (
    Broke,
    ExtendersAnswered,
    ExtendersFailed,
    Follows,
    PostFilterWriteFailed,
    Unwritten,
)
from podberth.framework.config import decode
from podberth.framework.extenders import NodesAnswer, NodesQuestion, Scores, VictimsQuestion
from podberth.framework.profiles import build
from podberth.model.pod_group import NATIVE
from tests.builders import configuration
from tests.registered import registry

from .conftest import Harness, node, pod
from .test_gangs_preempting import group, member
from .test_points import everything, of, place

Opened = Callable[..., Harness]
FILTER = {"urlPrefix": "http://e", "filterVerb": "filter"}


@pytest.fixture
def opened() -> Iterator[Opened]:
    """`opened(extender, …)`: an engine with these extenders and three nodes; validated at the end."""
    made: list[Harness] = []

    def make(*extenders: Any, nodes: int = 3, in_full: bool = False, **fields: Any) -> Harness:
        config = decode(configuration(extenders=list(extenders), **fields))
        harness = Harness()
        harness.engine = Engine(build(config, registry()), extenders=config.extenders, in_full=in_full)
        harness.put(*(node(f"n{i}", cpu="1") for i in range(1, nodes + 1)))
        made.append(harness)
        return harness

    yield make
    for harness in made:
        assert validate(harness.engine.cluster) == []


def asked(done: list[Instruction]) -> Any:
    """The one question."""
    (ask,) = of(done, AskExtenders)
    return ask.question


def verdict(*kept: str, scores: Any = (), hopeless: dict[str, str] | None = None, **failed: str) -> NodesAnswer:
    return NodesAnswer(frozenset(kept), failed, hopeless or {}, scores)


def answered(harness: Harness, question: Any, given: Any) -> list[Instruction]:
    return harness.handle(ExtendersAnswered(question, given))


def test_the_extender_decides_among_what_the_filters_leave(opened: Opened) -> None:
    """It is asked about feasible nodes only, and the pod goes where it says."""
    harness = opened(FILTER)
    harness.put(pod("other", cpu="900m", nodeName="n1"), pod("web", cpu="500m"))
    question = asked(harness.cycle())
    assert isinstance(question, NodesQuestion)
    assert question.nodes == ("n2", "n3")
    assert harness.engine.in_flight == 1
    (bind,) = of(answered(harness, question, verdict("n3")), Bind)
    assert bind.node == "n3"


def test_scores(opened: Opened) -> None:
    """0..10 become 0..100 times the weight, on top of the plugins' own."""
    harness = opened({"urlPrefix": "http://e", "prioritizeVerb": "rank", "weight": 3}, in_full=True)
    harness.put(pod("web", cpu="500m"))
    scores = [Scores("http://e", 3, {"n1": 0, "n2": 10, "n3": 9})]
    (bind,) = of(answered(harness, asked(harness.cycle()), verdict("n1", "n2", "n3", scores=scores)), Bind)
    by_extender = bind.decision.scores[-1]
    assert (bind.node, list(by_extender.raw), list(by_extender.weighted)) == ("n2", [0, 10, 9], [0, 300, 270])


def test_rejections_are_counted_by_their_words(opened: Opened) -> None:
    """As kube-scheduler words it; a node without a word counts nowhere, and the pod waits for any event."""
    harness = opened(FILTER, nodes=4)
    harness.put(pod("web"))
    rejected = verdict(n1="no berth", n2="no berth", hopeless={"n2": "too deep", "n3": "too deep"})
    done = answered(harness, asked(harness.cycle()), rejected)
    (failed,) = of(done, Failed)
    assert failed.message.startswith("0/4 nodes are available: 1 no berth, 2 too deep. preemption: ")
    assert failed.plugins == {"Extender"}
    assert place(harness, "web") is Place.UNSCHEDULABLE
    harness.after(20)
    harness.put(node("n9"))
    assert asked(harness.cycles()).nodes == ("n1", "n2", "n3", "n4", "n9")


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        (1, 'expected at least one victim pod on node "n1"'),
        (2, '[expected at least one victim pod on node "n1", expected at least one victim pod on node "n2"]'),
        (12, 'expected at least one victim pod on node "n7", and on 2 more]'),
    ],
)
def test_nobody_leaves_a_node_that_the_extender_refuses(opened: Opened, nodes: int, said: str) -> None:
    """The pod fits there beside those of lower priority. kube-scheduler's preemption fails, in these words."""
    harness = opened(FILTER, nodes=nodes)
    names = [f"n{i}" for i in range(1, nodes + 1)]
    harness.put(*(pod(f"low-{name}", cpu="100m", priority=-1, nodeName=name) for name in names))
    harness.put(pod("web", cpu="100m"))
    refused = NodesAnswer(frozenset(), dict.fromkeys(names, "not here"), {}, ())
    (failed,) = of(answered(harness, asked(harness.cycle()), refused), Failed)
    before, _, after = failed.message.partition(" preemption: ")
    assert before == f"0/{nodes} nodes are available: {nodes} not here."
    assert after.endswith(said)
    assert nodes > 2 or after == said


def test_a_node_is_kept_for_a_pod_that_the_extender_keeps_out_of_it(opened: Opened) -> None:
    """Room was made there, and is not needed. As in kube-scheduler, preemption fails, which ends no nomination."""
    harness = opened(FILTER, nodes=1)
    harness.put(*(pod(f"low-{i}", cpu="500m", priority=-1, nodeName="n1") for i in range(2)))
    harness.put(pod("web", cpu="500m"))
    (preempt,) = of(harness.cycle(), Preempt)
    harness.gone("Pod", preempt.victims[0].name)
    harness.after(10)
    about_the_kept_node = asked(harness.cycles())
    about_all = asked(answered(harness, about_the_kept_node, verdict(n1="not here")))
    (failed,) = of(answered(harness, about_all, verdict(n1="not here")), Failed)
    assert failed.message.endswith('preemption: expected at least one victim pod on node "n1"')
    assert harness.engine.cluster.nominations.node_of.get(failed.pod.uid) == "n1"


def test_nobody_is_asked_about_a_pod_that_fits_nowhere(opened: Opened) -> None:
    """The filters come first."""
    harness = opened(FILTER)
    harness.put(pod("big", cpu="2"))
    assert [type(one) for one in harness.cycle()][:1] == [Failed]


def test_one_that_must_not_fail(opened: Opened) -> None:
    """Its message is the pod's, and the pod is tried again."""
    harness = opened(FILTER)
    harness.put(pod("web"))
    done = harness.handle(
        ExtendersFailed(asked(harness.cycle()), "failed filter with extender at URL http://e/filter, code 500")
    )
    assert [(one.reason, one.message) for one in of(done, PatchCondition)] == [
        ("SchedulerError", "failed filter with extender at URL http://e/filter, code 500")
    ]
    harness.after(1.5)
    assert asked(harness.cycle()).nodes == ("n1", "n2", "n3")


def test_a_condition_that_could_not_be_written_while_they_think(opened: Opened) -> None:
    """It is said with the next attempt that comes to the same, which is this one."""
    harness = opened(FILTER, nodes=1)
    harness.put(pod("web"))
    said = []
    for written in (True, True, False):
        question = asked(harness.cycle())
        if not written:
            harness.handle(Unwritten("web"))
        (failed,) = of(answered(harness, question, verdict(n1="no berth")), Failed)
        said.append(not failed.repeated)
        harness.after(301)
    assert said == [True, False, True]


def wanting(requests: dict[str, str]) -> dict[str, Any]:
    """The spec of a pod with these requests."""
    return {"containers": [{"name": "c", "image": "i", "resources": {"requests": requests}}]}


def test_whom_it_concerns(opened: Opened) -> None:
    """A pod that asks for nothing that the extender manages is decided at once; its own resource is not counted."""
    managed = [{"name": "example.com/crane", "ignoredByScheduler": True}]
    harness = opened(FILTER | {"managedResources": managed})
    wants = wanting({"example.com/crane": "2"})
    harness.put(pod("plain"))
    assert set(harness.binds()) == {"plain"}
    harness.put(pod("crane", **wants))
    assert asked(harness.cycle()).nodes == ("n1", "n2", "n3")


def test_scheduling_goes_on_meanwhile(opened: Opened) -> None:
    """The answer counts for the cluster as it is when it comes: room that is gone is not given twice."""
    managed = [{"name": "example.com/crane", "ignoredByScheduler": True}]
    harness = opened(FILTER | {"managedResources": managed}, nodes=1)
    wants = wanting({"cpu": "800m", "example.com/crane": "1"})
    harness.put(pod("slow", **wants))
    question = asked(harness.cycle())
    harness.put(pod("quick", cpu="800m"))
    assert harness.binds() == {"quick": "n1"}
    (failed,) = of(answered(harness, question, verdict("n1")), Failed)
    assert failed.message.startswith("0/1 nodes are available: 1 Insufficient cpu.")


def test_nodes_that_came_meanwhile(opened: Opened) -> None:
    """If only they are left, they are asked about too."""
    harness = opened(FILTER, nodes=1)
    harness.put(pod("web"))
    question = asked(harness.cycle())
    harness.put(node("n2"))
    again = asked(answered(harness, question, verdict(n1="no berth")))
    assert again.nodes == ("n1", "n2")
    (bind,) = of(answered(harness, again, verdict("n2", n1="no berth")), Bind)
    assert bind.node == "n2"


@pytest.mark.parametrize("how", ["deleted", "terminating", "bound by others"])
def test_a_pod_that_goes_while_they_think(opened: Opened, how: str) -> None:
    """The answer is nobody's."""
    harness = opened(FILTER)
    harness.put(pod("web"))
    question = asked(harness.cycle())
    match how:
        case "deleted":
            harness.gone("Pod", "web")
        case "terminating":
            harness.put(pod("web", meta={"deletionTimestamp": "2026-01-01T00:00:00Z"}))
        case _:
            harness.put(pod("web", nodeName="n1"))
    assert answered(harness, question, verdict("n1")) == []
    assert harness.engine.in_flight == 0


def test_a_pod_that_changes_while_they_think(opened: Opened) -> None:
    """It is not queued twice, and what is bound is the pod as it is now."""
    harness = opened(FILTER)
    harness.put(pod("web"))
    question = asked(harness.cycle())
    harness.put(pod("web", labels={"app": "new"}))
    assert not harness.engine.has_work
    (bind,) = of(answered(harness, question, verdict("n1")), Bind)
    assert bind.pod.labels == {"app": "new"}


def test_the_nominated_node_first(opened: Opened) -> None:
    """Room was made there, so it alone is asked about; if the extender rejects it, all are."""
    harness = opened(FILTER)
    harness.put(pod("web", meta={}) | {"status": {"nominatedNodeName": "n2"}})
    question = asked(harness.cycle())
    assert question.nodes == ("n2",)
    again = asked(answered(harness, question, verdict(n2="no berth")))
    assert again.nodes == ("n1", "n2", "n3")


PREEMPT = {"urlPrefix": "http://e", "preemptVerb": "preempt"}


def test_victims(opened: Opened) -> None:
    """The extender is shown every node where preemption would help, and takes some away."""
    harness = opened(PREEMPT, nodes=2)
    harness.put(*(pod(f"small{i}", cpu="900m", nodeName=f"n{i}", priority=0) for i in (1, 2)))
    harness.put(pod("big", cpu="900m", priority=10))
    question = asked(everything(harness))
    assert isinstance(question, VictimsQuestion)
    assert {name: [v.name for v in victims] for name, (victims, _) in question.victims.items()} == {
        "n1": ["small1"],
        "n2": ["small2"],
    }
    (preempt,) = of(answered(harness, question, {"n2": (("small2",), 0)}), Preempt)
    assert (preempt.node, [victim.name for victim in preempt.victims]) == ("n2", ["small2"])


def test_a_group_that_goes_as_a_whole(opened: Opened) -> None:
    """Its pods on other nodes have to go as well, also one of which the extender does not know."""
    harness = opened(PREEMPT, nodes=3)
    harness.handle(Follows(NATIVE, True))
    harness.put(group("all", 1, mode="all"))
    harness.put(*(member("all", i, f"n{i}", cpu="900m") for i in (1, 2)), pod("big", cpu="1", priority=10))
    harness.put(pod("high", cpu="1", nodeName="n3", priority=10))
    question = asked(everything(harness))
    assert {node: {one.name for one in pods} for node, (pods, _) in question.victims.items()} == {
        "n1": {"all-1", "all-2"},
        "n2": {"all-1", "all-2"},
    }
    harness.put(member("all", 3, "n4", cpu="900m"))
    (preempt,) = of(answered(harness, question, {"n2": (("all-1", "all-2"), 0)}), Preempt)
    assert (preempt.node, {victim.name for victim in preempt.victims}) == ("n2", {"all-1", "all-2", "all-3"})


def test_a_pod_that_shrinks_while_extenders_look_for_victims(opened: Opened) -> None:
    """It fits by now: it is tried again after its backoff, though nobody can be removed for it."""
    harness = opened(PREEMPT, nodes=1)
    harness.put(pod("small", cpu="900m", nodeName="n1", priority=0), pod("big", cpu="900m", priority=10))
    question = asked(everything(harness))
    harness.put(pod("big", cpu="100m", priority=10))
    assert of(answered(harness, question, {}), Preempt) == []
    assert place(harness, "big") is Place.BACKOFF
    harness.after(2)
    assert harness.binds() == {"big": "n1"}


def test_a_nomination_that_changes_while_extenders_are_asked(opened: Opened) -> None:
    """It holds at once, as that of any other waiting pod."""
    harness = opened(FILTER)
    web = pod("web")
    harness.put(web)
    harness.cycle()
    harness.put(web | {"status": {"phase": "Pending", "nominatedNodeName": "n2"}})
    assert harness.engine.cluster.nominations.node_of == {"web": "n2"}
    harness.put(web)
    assert harness.engine.cluster.nominations.node_of == {}


@pytest.mark.parametrize(
    ("id", "answer", "text"),
    [
        ("none left", ExtendersAnswered, "preemption: no candidate node for preemption"),
        ("failed", ExtendersFailed, "preemption: the extender is at sea"),
    ],
)
def test_no_victims(opened: Opened, id: str, answer: Any, text: str) -> None:
    """The pod stays unschedulable, for the reasons that it has."""
    harness = opened(PREEMPT, nodes=1)
    harness.put(pod("small", cpu="900m", nodeName="n1", priority=0), pod("big", cpu="900m", priority=10))
    question = asked(everything(harness))
    done = harness.handle(answer(question, {} if answer is ExtendersAnswered else "the extender is at sea"))
    (failed,) = of(done, Failed)
    assert failed.message == f"0/1 nodes are available: 1 Insufficient cpu. {text}"
    assert place(harness, "big") is Place.UNSCHEDULABLE


def test_a_pod_whose_extender_fails_gives_up_the_node_that_was_kept_for_it(opened: Opened) -> None:
    """As in kube-scheduler: others may have it, since nobody knows when the extender answers again."""
    harness = opened(FILTER, nodes=1)
    harness.put(pod("low", cpu="1", priority=-1, nodeName="n1"), pod("web", cpu="1"))
    of(harness.cycle(), Preempt)
    assert harness.engine.cluster.nominations.node_of.get("web") == "n1"
    harness.gone("Pod", "low")
    done = harness.handle(ExtendersFailed(asked(harness.cycles()), "no answer"))
    (patch,) = of(done, PatchCondition)
    assert (patch.reason, patch.message, patch.nominated) == ("SchedulerError", "no answer", "")
    assert harness.engine.cluster.nominations.node_of.get("web") is None


def test_a_pod_that_gives_up_the_node_kept_for_it_is_tried_at_once(opened: Opened) -> None:
    """And no more than once: its backoff counts from then on. As in kube-scheduler, where that wakes the pod, too."""
    harness = opened(FILTER, nodes=1)
    web = pod("web", cpu="1")
    harness.put(pod("low", cpu="1", priority=-1, nodeName="n1"), web)
    of(harness.cycle(), Preempt)
    harness.put(web | {"status": {"nominatedNodeName": "n1"}})
    harness.gone("Pod", "low")
    about_the_kept_node = asked(harness.cycles())
    about_all = asked(answered(harness, about_the_kept_node, verdict(n1="not here")))
    (patch,) = of(answered(harness, about_all, verdict(n1="not here")), PatchCondition)
    assert patch.nominated == ""
    harness.put(web)
    answered(harness, asked(harness.cycles()), verdict(n1="not here"))
    assert harness.cycles() == []


def test_a_late_answer_that_breaks_is_charged_to_nobody(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Binding of the pod that had the turn before is under way."""
    harness = opened(FILTER, nodes=1)
    harness.put(pod("web"))
    question = asked(harness.cycle())
    answered(harness, question, verdict("n1"))
    with monkeypatch.context() as broken, pytest.raises(ZeroDivisionError):
        broken.setattr(BindingCycles, "unsettled", property(lambda _: 1 // 0))
        answered(harness, question, verdict("n1"))
    harness.handle(Broke("a fault"))
    assert harness.engine.binding.state("web") is State.BIND_POSTING


def test_a_refused_write_while_extenders_choose_victims(opened: Opened) -> None:
    """The pod is tried again: what it waits for since its attempt before will not come."""
    harness = opened(PREEMPT, nodes=1)
    harness.put(pod("small", cpu="900m", nodeName="n1", priority=0), pod("big", cpu="900m", priority=10))
    question = asked(everything(harness))
    harness.handle(PostFilterWriteFailed("big", ()))
    answered(harness, question, {})
    assert place(harness, "big") is Place.BACKOFF
