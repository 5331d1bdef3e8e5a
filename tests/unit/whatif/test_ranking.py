"""Equal pods that are decided in one go: they go where each would have gone by itself."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from scheduler.framework.config import SchedulerConfiguration, decode, default_configuration
from scheduler.framework.profiles import build
from scheduler.model.pod import Pod
from scheduler.plugins.registry import IN_TREE
from scheduler.state.validate import validate
from scheduler.whatif.simulation import Simulation
from tests.builders import node, pod
from tests.unit.whatif.story import world

Object = dict[str, Any]
PACKED = decode(
    {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "schedulerName": "berth",
                "pluginConfig": [
                    {
                        "name": "NodeResourcesFit",
                        "args": {
                            "scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}
                        },
                    }
                ],
            }
        ],
    }
)
CONFIGURATIONS = {"spread": default_configuration(), "packed": PACKED}
NODE = st.fixed_dictionaries(
    {
        "cpu": st.sampled_from(["1", "2", "4", "7300m"]),
        "memory": st.sampled_from(["1Gi", "4Gi", "9Gi"]),
        "pods": st.sampled_from(["3", "9", "110"]),
        "zone": st.sampled_from(["a", "b"]),
        "taints": st.sampled_from([[], [], [], ["a=b:NoSchedule"]]),
        "cordoned": st.sampled_from([False, False, False, True]),
    }
)
PLACED = st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["100m", "900m"]), st.booleans()), max_size=5)


def where(
    configuration: SchedulerConfiguration, objects: list[Object], made: Object, count: int, *, one_by_one: bool
) -> tuple[list[str], list[str]]:
    """The nodes of the pods in their order, and what is wrong with the columns afterwards."""
    framework = build(configuration, IN_TREE)["berth"]
    there = world(objects)
    simulation = Simulation({"berth": framework}, there.cluster, seed=7)
    first = there.decode(made)
    assert isinstance(first, Pod)
    pods = (replace(first, name=f"web-{i}", uid=f"new/default/web-{i}") for i in range(count))
    (simulation.one_by_one if one_by_one else simulation.repeat)(pods, framework)
    return [name for _, name in simulation.bound.values()], validate(there.cluster)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(sorted(CONFIGURATIONS)),
    st.lists(NODE, min_size=1, max_size=6),
    PLACED,
    st.sampled_from(["100m", "350m", "1"]),
    st.sampled_from(["1Mi", "700Mi"]),
    st.integers(1, 60),
)
def test_in_one_go_asone_by_one(
    kind: str, nodes: list[Object], placed: list[tuple[int, str, bool]], cpu: str, memory: str, count: int
) -> None:
    """The same nodes in the same order, and columns that are right."""
    objects = [node(f"n{i}", **fields) for i, fields in enumerate(nodes)]
    for i, (on, amount, repels) in enumerate(placed):
        apart = ["app=web per host"] if repels and i == 0 else []
        objects.append(pod(f"q{i}", amount, on=f"n{on % len(nodes)}", apart=apart))
    made = pod("web", cpu, memory, labels={"app": "web"})
    configuration = CONFIGURATIONS[kind]
    together = where(configuration, objects, made, count, one_by_one=False)
    assert together == where(configuration, objects, made, count, one_by_one=True)
    assert together[1] == []


@pytest.mark.parametrize(
    ("made", "wanted"),
    [
        (pod("web", "1", labels={"app": "web"}), True),
        (pod("web", "1", near=["app=db per host"]), False),
        (pod("web", "1", apart=["app=web per host"]), False),
        (pod("web", "1", ports=["80"]), False),
        (pod("web", "1", prefer=[(1, "zone in a")]), False),
    ],
)
def test_what_is_decided_in_one_go(made: Object, wanted: bool) -> None:
    """Only pods that change nothing but the node that they go to."""
    framework = build(default_configuration(), IN_TREE)["berth"]
    there = world([node("n", "4", zone="a"), node("m", "4", zone="b")])
    first = there.decode(made)
    assert isinstance(first, Pod)
    assert (framework.ahead(first, there.cluster) is not None) is wanted


def test_a_crowd_is_not_decided_pod_by_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten thousand pods on ten nodes: each number of pods on a node is looked at once, and no pod by itself."""
    framework = build(default_configuration(), IN_TREE)["berth"]
    there = world([node(f"n{i}", "2000", "2000Gi", pods="1000") for i in range(10)])
    first = there.decode(pod("web", "1", "1Gi"))
    assert isinstance(first, Pod)
    asked: list[Pod] = []
    decide = framework.decide_quickly

    def count(asking: Pod, *more: Any) -> Any:
        asked.append(asking)
        return decide(asking, *more)

    monkeypatch.setattr(framework, "decide_quickly", count)
    simulation = Simulation({"berth": framework}, there.cluster)
    pods = (replace(first, name=f"web-{i}", uid=f"new/default/web-{i}") for i in range(20_000))
    assert simulation.repeat(pods, framework) == 10_000
    assert asked == []
