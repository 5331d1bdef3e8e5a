"""What would happen: pods created, nodes drained, on small clusters."""

from collections.abc import Sequence
from typing import Any

import pytest

from scheduler.framework.config import default_configuration
from scheduler.framework.profiles import build
from scheduler.framework.runtime import Framework
from scheduler.model.pod import Pod
from scheduler.plugins.registry import registry
from scheduler.whatif.plan import Outcome, plan
from scheduler.whatif.world import World
from tests.builders import node, pod

Object = dict[str, Any]


def framework() -> Framework:
    """The default profile."""
    return next(iter(build(default_configuration(), registry()).values()))


def owned(made: Object, kind: str = "ReplicaSet") -> Object:
    """A pod that a controller made."""
    made["metadata"]["ownerReferences"] = [{"kind": kind, "name": "owner", "uid": "owner", "controller": True}]
    return made


def outcome(there: Sequence[Object], arriving: Sequence[Object] = (), drain: Sequence[str] = ()) -> Outcome:
    """The plan for a cluster of these objects."""
    world = World()
    world.add_all(there)
    pods = [found for each in arriving if isinstance(found := world.decode(each), Pod)]
    return plan(world, framework(), pods, drain)


SMALL, LARGE = node("small", cpu="1"), node("large", cpu="4")


@pytest.mark.parametrize(
    ("there", "arriving", "drain", "placed", "waiting"),
    [
        pytest.param([LARGE], [pod("a", cpu="1")], [], {"default/a": "large"}, set(), id="there is room"),
        pytest.param([SMALL], [pod("a", cpu="2")], [], {}, {"default/a"}, id="there is none"),
        pytest.param(
            [SMALL],
            [pod("a", cpu="1"), pod("b", cpu="1")],
            [],
            {"default/a": "small"},
            {"default/b"},
            id="room for one",
        ),
        pytest.param([LARGE], [pod("a", gates=["x"])], [], {}, {"default/a"}, id="gated"),
        pytest.param([LARGE], [pod("a", scheduler="other")], [], {"default/a": "large"}, set(), id="taken over"),
        pytest.param([LARGE, pod("w")], [], [], {"default/w": "large"}, set(), id="who waits takes part"),
        pytest.param([LARGE, pod("w", scheduler="other")], [], [], {}, set(), id="unless it is another's"),
        pytest.param(
            [SMALL, LARGE, owned(pod("a", cpu="1", on="small"))],
            [],
            ["small"],
            {"default/a": "large"},
            set(),
            id="drain",
        ),
        pytest.param(
            [SMALL, owned(pod("a", cpu="1", on="small"))], [], ["small"], {}, {"default/a"}, id="nowhere to drain to"
        ),
        pytest.param(
            [SMALL, LARGE, owned(pod("a", on="small"), "DaemonSet")], [], ["small"], {}, set(), id="a daemon stays"
        ),
    ],
)
def test_who_goes_where(
    there: Sequence[Object],
    arriving: Sequence[Object],
    drain: Sequence[str],
    placed: dict[str, str],
    waiting: set[str],
) -> None:
    """Every pod is placed or waits."""
    found = outcome(there, arriving, drain)
    assert {each.pod: each.node for each in found.placed} == placed
    assert {each.pod for each in found.waiting} == waiting


def test_drained_pods_say_where_they_were() -> None:
    """And those that nobody makes anew are named."""
    found = outcome([SMALL, LARGE, owned(pod("a", on="small")), pod("bare", on="small")], drain=["small"])
    assert [(each.pod, each.was, each.node) for each in found.placed] == [("default/a", "small", "large")]
    assert found.lost == ["default/bare"]
    assert (found.before.nodes_in_use, found.after.nodes_in_use) == (1, 1)


def test_preemption() -> None:
    """A pod of higher priority removes one, and takes its node when its turn comes again."""
    low, high = pod("low", cpu="1", on="small", priority=0), pod("high", cpu="1", priority=10)
    found = outcome([SMALL, low], [high])
    assert [(each.pod, each.node, each.by) for each in found.preempted] == [("default/low", "small", "default/high")]
    assert [(each.pod, each.node) for each in found.placed] == [("default/high", "small")]
    assert found.waiting == []


def test_reasons_are_kube_schedulers() -> None:
    """A pod that waits says why."""
    (waiting,) = outcome([SMALL], [pod("a", cpu="2")]).waiting
    assert waiting.message.startswith("0/1 nodes are available: 1 Insufficient cpu.")
