"""Room that is kept for gangs where extenders have a say in their nodes."""

from typing import Any

import pytest

from podberth.cache.validate import validate
from podberth.engine.engine import Engine
from podberth.engine.instructions import AskExtenders, Bind, Instruction
from podberth.engine.stimuli import ExtendersAnswered, ExtendersFailed, Follows
from podberth.framework.config import decode
from podberth.framework.extenders import NodesAnswer, Scores
from podberth.framework.profiles import build
from podberth.model.pod_group import NATIVE
from tests.builders import configuration, profile
from tests.registered import registry

from .conftest import Harness, node
from .test_extenders import FILTER, asked
from .test_gangs import conditions, group, member
from .test_gangs_preempting_with_extenders import RANK, Says, nodes_of, only, talk
from .test_gangs_reserving import EPOCH, SOON, events, reserving, running, small

UNTIL = "until 2026-01-01T00:26:40Z, it should have it all by 2026-01-01T00:"
Ends = dict[str, int]


def extended(extender: Any, ends: Ends) -> Harness:
    """Nodes of four cores, on each of which a pod ends so many seconds from now."""
    config = decode(configuration(profile(GangScheduling={"reservation": SOON}), extenders=[extender]))
    harness = reserving()
    harness.engine = Engine(build(config, registry()), extenders=config.extenders)
    harness.engine.epoch = EPOCH
    harness.handle(Follows(NATIVE, True))
    for name, lasts in ends.items():
        harness.put(node(name), running(f"on-{name}", name, lasts=lasts))
    return harness


def gang(harness: Harness, count: int, needed: int | None = None) -> None:
    """Each pod needs a whole node."""
    harness.put(group(min_count=needed or count), *(member(f"train-{i}", "4") for i in range(count)))


def kept(harness: Harness) -> set[str]:
    """The nodes on which room is kept."""
    cluster = harness.engine.cluster
    return {cluster.nodes.names[row] or "" for room in cluster.reservations.by_profile.values() for row in room.rows}


def said_of(said: list[Instruction]) -> str:
    """The end of the group's last condition."""
    return conditions(said)[-1][2].rpartition(", room")[2] or conditions(said)[-1][2]


def test_no_room_is_kept_where_the_extender_lets_no_pod_of_the_gang() -> None:
    """Two nodes would be free sooner; it waits for those that it can have."""
    harness = extended(FILTER, {"n0": 100, "n1": 200, "n2": 300, "n3": 400})
    gang(harness, 2)
    said, _ = talk(harness, only("n1", "n3"))
    assert kept(harness) == {"n1", "n3"}
    assert [reason for reason, _ in events(said)] == ["RoomKept"]
    assert conditions(said)[-1][2].endswith(f"room is kept for it on 2 nodes {UNTIL}23:20Z")
    assert validate(harness.engine.cluster) == []


def test_each_pod_is_asked_about_once_however_long_the_search() -> None:
    """It tries the gang five times; and no pod is asked about by itself when another one has its node."""
    ends = {f"n{i:02}": 60 * (i + 1) for i in range(16)}
    harness = extended(FILTER, ends)
    gang(harness, 2)
    _, questions = talk(harness, only("n03", "n09", "n15"))
    assert [one.question.pod.name for one in questions] == ["train-0", "train-1"]
    assert set(nodes_of(questions[0])) == set(ends)
    assert kept(harness) == {"n03", "n09"}


def test_a_pod_is_asked_about_again_for_a_node_about_which_it_was_not_asked() -> None:
    """If all pods have ended, the large one is on n0, which has no room for the small one beside it then. While n0 has
    not all of its room, the large one is on n1, and the small one may be on n0."""
    harness = extended(RANK, {"n0": 300, "n1": 100})
    harness.put(group(min_count=2), member("train-0", "4"), member("train-1", "2"))
    points = {"n0": 9, "n1": 1}

    def says(ask: AskExtenders) -> NodesAnswer:
        return NodesAnswer(frozenset(nodes_of(ask)), {}, {}, [Scores("http://r", 100, points)])

    _, questions = talk(harness, says)
    asked_about = [(one.question.pod.name, nodes_of(one)) for one in questions]
    assert asked_about == [
        ("train-0", ("n0", "n1")),
        ("train-1", ("n1",)),
        ("train-1", ("n1", "n0")),
    ]
    assert kept(harness) == {"n0", "n1"}


def test_a_gang_that_the_extender_keeps_from_too_many_nodes_has_no_room() -> None:
    harness = extended(FILTER, {"n0": 100, "n1": 200})
    gang(harness, 2)
    said, _ = talk(harness, only("n1"))
    assert kept(harness) == set()
    assert conditions(said)[-1][2].endswith("there is too little room even if all pods end that may")


def test_an_extender_that_fails_keeps_no_room() -> None:
    """The gang stays unschedulable for its own reason."""
    harness = extended(FILTER, {"n0": 100, "n1": 200})
    gang(harness, 2)
    failed = ExtendersFailed(asked(harness.cycles()), "failed filter with extender at URL http://e, code 500")
    said = harness.handle(failed) + harness.cycles()
    ((status, reason, message),) = conditions(said)
    assert (status, reason) == ("False", "Unschedulable")
    assert message.startswith("minCount (2) cannot be satisfied: 0 scheduled, ")
    assert message.endswith("no room is kept for it: failed filter with extender at URL http://e, code 500")
    assert kept(harness) == set()


@pytest.mark.parametrize("goes", ["train-0", "train-2"])
def test_a_pod_of_the_gang_goes_while_the_extender_is_asked(goes: str) -> None:
    """The search begins again for the others, at once; an answer for the old one comes too late."""
    harness = extended(FILTER, {"n0": 100, "n1": 200, "n2": 300})
    gang(harness, 3, needed=2)
    question = asked(harness.cycles())
    harness.gone("Pod", goes)
    again = harness.cycles()
    assert asked(again).pod.name != goes
    assert harness.handle(ExtendersAnswered(question, only("n2")(AskExtenders(question.pod, question)))) == []
    says: Says = only("n0", "n1")
    while questions := [one for one in again if isinstance(one, AskExtenders)]:
        again = [made for one in questions for made in harness.handle(ExtendersAnswered(one.question, says(one)))]
        again += harness.cycles()
    assert kept(harness) == {"n0", "n1"}


def test_others_are_decided_while_the_extender_is_asked_and_it_is_not_about_kept_nodes() -> None:
    """Nor does an answer bring a pod there that was asked for before the room was kept."""
    harness = extended(FILTER, {"n0": 100})
    harness.put(node("n1"), running("web", "n1", restartPolicy="Always"))
    harness.put(small("early", "1"))
    early = asked(harness.cycles())
    assert set(early.nodes) == {"n0", "n1"}
    gang(harness, 1)
    about = asked(harness.cycles())
    assert about.pod.name == "train-0"
    said = harness.handle(ExtendersAnswered(about, only("n0")(AskExtenders(about.pod, about)))) + harness.cycles()
    assert events(said)[0][0] == "RoomKept"
    harness.put(small("late", "1"))
    assert asked(harness.cycles()).nodes == ("n1",)
    said = harness.handle(ExtendersAnswered(early, NodesAnswer(frozenset(("n0", "n1")), {}, {}, ())))
    assert [(one.pod.name, one.node) for one in said if isinstance(one, Bind)] == [("early", "n1")]


def test_when_the_time_has_come_the_extender_has_the_last_word() -> None:
    """A node that it refuses by then is not taken: the gang goes to another one that it lets it have."""
    harness = extended(FILTER, {"n0": 100, "n1": 200})
    gang(harness, 1)
    talk(harness, only("n0", "n1"))
    assert kept(harness) == {"n0"}
    for name in ("n0", "n1"):
        harness.gone("Pod", f"on-{name}")
    harness.after(201)
    said, questions = talk(harness, only("n1"))
    assert nodes_of(questions[0]) == ("n0",)
    assert [one.node for one in said if isinstance(one, Bind)] == ["n1"]
