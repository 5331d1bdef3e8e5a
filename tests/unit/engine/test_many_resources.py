"""Pods that ask for many resources which no node has: the message is upstream's, and names each of them."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar

import numpy as np

from podberth.cache.validate import validate
from podberth.engine.instructions import Failed
from podberth.framework.decision import Decision, Rejected, fit_error
from podberth.framework.status import Reason
from podberth.model import wire
from podberth.model.kinds import Decoder

from .conftest import NO_LIMITS, Harness, node, pod

T = TypeVar("T")


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
    short = [Reason(text) for text in texts(12)]
    rejected = [
        Rejected("Fit", [(reason, where[0]) for reason in short]),
        Rejected("Fit", [(Reason("Too many pods"), where[1]), *((reason, where[1]) for reason in short)]),
        Rejected("Fit", [(short[3], where[2])]),
    ]
    decision = Decision(Decoder().pod(wire.encode(pod("p"))), 3, np.array([], dtype=np.intp), rejected=rejected)
    said = ["1 Too many pods", "3 Insufficient a/3"]
    said += [f"2 {text}" for text in texts(12) if text != "Insufficient a/3"]
    assert fit_error(decision) == f"0/3 nodes are available: {', '.join(sorted(said))}."


def test_the_reasons_can_be_looked_at_one_by_one() -> None:
    """Who explains a decision sees a pair of a reason and its nodes for each name."""
    harness = Harness(limits=NO_LIMITS)
    harness.put(node("n1"), node("n2"))
    harness.tell(asking("large", 200))
    (failed,) = [one for one in harness.cycles() if isinstance(one, Failed)]
    assert isinstance(failed.decision, Decision)
    (rejected,) = failed.decision.rejected
    assert {reason for reason, _ in rejected.reasons} == {Reason(text, True) for text in texts(200)}
    assert all(where.tolist() == [True, True] for _, where in rejected.reasons)
    assert len(rejected.reasons) == 200


def test_a_node_with_all_of_them_takes_the_pod() -> None:
    """A new node is looked at for all names."""
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


def test_reading_it_is_about_each_name_a_few_times() -> None:
    """What follows from the requests of a container is summed once, not for each source that the kubelet may report."""
    raw = wire.encode(asking("large", 10_000))
    Decoder().pod(raw)  # names of resources that are new to the process cost more, once
    assert calls(lambda: Decoder().pod(raw)) < 20 * 10_000
