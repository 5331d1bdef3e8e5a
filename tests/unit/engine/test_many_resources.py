"""Pods that ask for thousands of resources which no node has: no turn is long, and the message is upstream's."""

import sys
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar

import numpy as np

from scheduler.engine.instructions import Failed
from scheduler.framework.decision import Decision, Rejected, fit_error
from scheduler.framework.many_reasons import ManyReasons
from scheduler.framework.status import Reason
from scheduler.model import wire
from scheduler.model.kinds import Decoder
from scheduler.state.validate import validate
from tests.unit.work import lines

from .conftest import NO_LIMITS, Harness, node, pod

T = TypeVar("T")
LARGEST = 50_000
"""As many names as an object of 1.4 MB holds in requests and limits."""


def asking(name: str, number: int, **more: str) -> dict[str, Any]:
    made = pod(name, meta={"namespace": f"of-{name}", "uid": name})
    # In no order, as anybody may write them.
    requests = {f"a/{i * 7919 % number}": "1" for i in range(number)} | more
    made["spec"]["containers"][0]["resources"] = {"requests": requests}
    return made


def texts(number: int) -> list[str]:
    return [f"Insufficient a/{i}" for i in range(number)]


def calls(work: Callable[[], T]) -> int:
    """How many functions it calls: versions of Python agree on that, and not on the lines of a comprehension."""
    count = 0

    def call(_frame: FrameType, event: str, _what: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(call)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


_TAIL = "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."


def test_several_at_once_all_get_to_their_end() -> None:
    """What is kept of one is not dropped for the next one for ever."""
    harness = Harness(limits=NO_LIMITS)
    harness.put(node("n1"))
    for i in range(12):
        harness.put(asking(f"p{i}", 6_000))
    failed = [one for one in harness.cycles() if isinstance(one, Failed)]
    assert sorted(one.pod.name for one in failed) == sorted(f"p{i}" for i in range(12))
    assert not [one for one in failed if "steps" in one.message]


def test_the_message_counts_what_some_nodes_offer() -> None:
    """Beside thousands that no node has, those that some nodes have or have too little of, in the order of texts."""
    harness = Harness(limits=NO_LIMITS)
    harness.put(node("n1"), node("n2"), node("n3"))
    larger = node("n4")
    larger["status"]["allocatable"] |= {"a/5": "4", "a/zz": "1"}
    harness.put(larger)
    made = asking("large", 100, cpu="40", **{"a/zz": "3"})
    harness.tell(made)
    (failed,) = [one for one in harness.cycles() if isinstance(one, Failed)]
    said = [f"4 {text}" for text in texts(100) if text != "Insufficient a/5"]
    said += ["3 Insufficient a/5", "4 Insufficient a/zz", "4 Insufficient cpu"]
    assert failed.message == f"0/4 nodes are available: {', '.join(sorted(said))}. {_TAIL.replace('2', '4')}"


def test_nodes_are_counted_together_with_those_of_nominated_pods() -> None:
    """A node that has room only without a nominated pod is looked at twice; what is said of it is counted once."""
    where = [np.array(rows) for rows in ([True, False, False], [False, True, False], [False, False, True])]
    many = sorted(texts(70))
    once = [ManyReasons([], many, where[0]), ManyReasons([(Reason("Too many pods"), where[1])], many, where[1])]
    for further in ([], [(Reason("Insufficient a/3"), where[2])], ManyReasons([], sorted(texts(71)), where[2])):
        rejected = [Rejected(f"plugin-{i}", one) for i, one in enumerate([*once, further])]
        decision = Decision(Decoder().pod(wire.encode(pod("p"))), 3, np.array([], dtype=np.intp), rejected=rejected)
        counts = Counter(reason.text for one in rejected for reason, _ in one.reasons)
        said = ", ".join(sorted(f"{count} {text}" for text, count in counts.items()))
        assert fit_error(decision) == f"0/3 nodes are available: {said}."


def test_the_reasons_can_be_looked_at_one_by_one() -> None:
    """Who explains a decision sees a pair of a reason and its nodes for each name."""
    harness = Harness(limits=NO_LIMITS)
    harness.put(node("n1"), node("n2"))
    harness.tell(asking("large", 200))
    (failed,) = [one for one in harness.cycles() if isinstance(one, Failed)]
    assert isinstance(failed.decision, Decision)
    (rejected,) = failed.decision.rejected
    assert [reason for reason, _ in rejected.reasons] == [Reason(text, True) for text in sorted(texts(200))]
    assert all(where.tolist() == [True, True] for _, where in rejected.reasons)
    assert rejected.reasons[0][0].text == "Insufficient a/0"
    assert len(rejected.reasons) == 200


def test_a_node_with_all_of_them_takes_the_pod() -> None:
    """The names are looked at again when nodes offer others."""
    harness = Harness(limits=NO_LIMITS)
    harness.put(node("n1"))
    harness.tell(asking("large", 100))
    assert harness.binds() == {}
    large = node("n2")
    large["status"]["allocatable"] |= {f"a/{i}": "1" for i in range(100)}
    harness.put(large)
    harness.after(400)
    assert harness.binds() == {"large": "n2"}
    assert validate(harness.engine.cluster) == []


def test_a_node_is_compared_by_the_first_name_that_it_has_not() -> None:
    """A change of a node asks whether it helps each pod that waits: not by a look at all that the pod asks for."""
    harness = Harness(limits=NO_LIMITS)
    harness.put(node("n1"))
    harness.tell(asking("large", 5_000))
    harness.cycles()
    taken, _ = lines(lambda: harness.tell(node("n1", cpu="8")))
    assert taken < 2_000


def test_reading_it_is_about_each_name_a_few_times() -> None:
    """What follows from the requests of a container is summed once, not for each source that the kubelet may report."""
    raw = wire.encode(asking("large", 10_000))
    Decoder().pod(raw)  # names of resources that are new to the process cost more, once
    assert calls(lambda: Decoder().pod(raw)) < 20 * 10_000
