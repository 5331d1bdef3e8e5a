"""What fits, and how full a node should be: NodeResourcesFit and NodeResourcesBalancedAllocation."""

import numpy as np
import pytest

from podberth.explain.cases import answer
from podberth.framework.config import convert
from podberth.framework.events import ClusterEvent
from podberth.framework.interface import Assignment, Placement
from podberth.model import wire
from podberth.model.kinds import Decoder
from podberth.model.pod_group import GroupKey, PodGroup
from tests.builders import Object, container, node, node_selector, pod
from tests.devices import allocated, claim, device, device_class, resource_slice, result
from tests.unit.plugins.small import a_node, a_pod, cluster, plugin, rejected, scored, scored_there

GPU = {"example.com/gpu": "1"}


@pytest.mark.parametrize(
    ("asks", "objects", "reasons"),
    [
        pytest.param(pod("p", "4"), [node("n", "4")], [], id="all of it"),
        pytest.param(pod("p", "4001m"), [node("n", "4")], ["!Insufficient cpu"], id="more than there ever is"),
        pytest.param(
            pod("p", "2"), [node("n", "4"), pod("e", "3", on="n")], ["Insufficient cpu"], id="more than is left"
        ),
        pytest.param(
            pod("p", "2", "1Gi"),
            [node("n", "4", "512Mi"), pod("e", "3", on="n")],
            ["Insufficient cpu", "!Insufficient memory"],
            id="each resource has its reason",
        ),
        pytest.param(
            pod("p"), [node("n", "1", "1Mi"), pod("e", "5", "5Gi", on="n")], [], id="no defaults in filtering"
        ),
        pytest.param(
            pod("p", "0", "0"),
            [node("n", "1", "1Mi"), pod("e", "5", "5Gi", on="n")],
            [],
            id="zero fits an overfull node",
        ),
        pytest.param(
            pod("p", "1m"), [node("n", "1"), pod("e", "1", on="n")], ["Insufficient cpu"], id="the smallest amount"
        ),
        pytest.param(
            pod("p", "1m"), [node("n", "1"), pod("e", "999m", on="n")], [], id="the smallest amount that is left"
        ),
        pytest.param(
            pod("p"),
            [node("n", pods="2"), pod("e", on="n"), pod("f", on="n")],
            ["Too many pods"],
            id="as many as may be",
        ),
        pytest.param(pod("p"), [node("n", pods="2"), pod("e", on="n")], [], id="the last one"),
        pytest.param(pod("p"), [node("n", pods="1"), pod("e", on="n")], ["Too many pods"], id="too many pods"),
        pytest.param(pod("p"), [node("n", pods="0")], ["Too many pods"], id="no pods at all"),
        pytest.param(pod("p", others=GPU), [node("n")], ["!Insufficient example.com/gpu"], id="unknown resource"),
        pytest.param(
            pod("p", others=GPU),
            [node("n", others=GPU), pod("e", others=GPU, on="n")],
            ["Insufficient example.com/gpu"],
            id="taken resource",
        ),
        pytest.param(pod("p", others={"example.com/gpu": "0"}), [node("n")], [], id="none of an unknown resource"),
        pytest.param(
            pod("p", others={"ephemeral-storage": "2Gi"}),
            [node("n")],
            ["!Insufficient ephemeral-storage"],
            id="storage",
        ),
        pytest.param(
            pod("p", "1", init=[container("5", name="i")]),
            [node("n", "4")],
            ["!Insufficient cpu"],
            id="init containers",
        ),
        pytest.param(pod("p", "9", level={"cpu": "1"}), [node("n", "4")], [], id="pod level wins"),
        pytest.param(pod("p", "4", overhead={"cpu": "1m"}), [node("n", "4")], ["!Insufficient cpu"], id="overhead"),
        pytest.param(
            pod("p", "2"), [node("n", "4"), pod("e", "3", on="n", phase="Failed")], [], id="finished pods take nothing"
        ),
    ],
)
def test_fit(asks: Object, objects: list[Object], reasons: list[str]) -> None:
    """Unresolvable belongs to a reason: what is above allocatable no preemption brings.

    One row is asked about, and preemption's sums add up, as all rows are.
    """
    made, coming, there = plugin("NodeResourcesFit"), a_pod(asks), cluster(*objects)
    row = there.nodes.row_of("n")
    assert rejected(made, asks, *objects).get("n", []) == reasons
    assert made.filter_one(coming, there.nodes, row) is not bool(reasons)
    short = made.free(coming, there.nodes, np.array([row]))[:, 0] < made.needs(coming)
    assert np.count_nonzero(short) == len(reasons)


@pytest.mark.parametrize(
    ("args", "out"),
    [
        ({}, ["!Insufficient example.com/gpu"]),
        ({"ignoredResources": ["example.com/gpu"]}, []),
        ({"ignoredResourceGroups": ["example.com"]}, []),
        ({"ignoredResourceGroups": ["example"]}, ["!Insufficient example.com/gpu"]),
        ({"ignoredResources": ["cpu"]}, ["!Insufficient example.com/gpu"]),
    ],
)
def test_ignored_resources(args: Object, out: list[str]) -> None:
    """An extender may count them instead."""
    assert rejected(plugin("NodeResourcesFit", **args), pod("p", others=GPU), node("n")).get("n", []) == out


def ratio(*points: tuple[int, int]) -> Object:
    shape = [{"utilization": utilization, "score": score} for utilization, score in points]
    return {"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": {"shape": shape}}


def over(strategy: Object, *resources: tuple[str, int]) -> Object:
    weighted = [{"name": name, "weight": weight} for name, weight in resources]
    return {"scoringStrategy": strategy | ({"resources": weighted} if weighted else {})}


def over_all(*resources: str) -> Object:
    return {"resources": [{"name": name, "weight": 1} for name in resources]}


LEAST, MOST = {"type": "LeastAllocated"}, {"type": "MostAllocated"}
HALF = [node("n", "4", "4Gi"), pod("e", "1", "2Gi", on="n")]


@pytest.mark.parametrize(
    ("args", "asks", "objects", "score"),
    [
        pytest.param({}, pod("p", "1", "1Gi"), HALF, 37, id="least: (50 + 25) / 2"),
        pytest.param({}, pod("p"), [node("n", "1", "2000Mi")], 90, id="non-zero defaults: 100m and 200Mi"),
        pytest.param({}, pod("p"), [node("n", "1", "2000Mi"), pod("e", on="n")], 80, id="also of placed pods"),
        pytest.param({}, pod("p", "1", "1Gi"), [node("n", "4", None)], 75, id="what a node has none of does not count"),
        pytest.param({}, pod("p", "1"), [node("n", "1", "1Mi")], 0, id="never below zero"),
        pytest.param(over(LEAST, ("cpu", 3), ("memory", 1)), pod("p", "1", "1Gi"), HALF, 43, id="weights"),
        pytest.param(over(LEAST, ("cpu", 0), ("memory", 3)), pod("p", "1", "1Gi"), HALF, 31, id="no weight is 1"),
        pytest.param(over(LEAST, ("example.com/gpu", 1)), pod("p"), HALF, 0, id="nothing to score"),
        pytest.param(
            over(LEAST, ("hugepages-2Mi", 1)),
            pod("p", level={"hugepages-2Mi": "2Mi"}),
            [node("n", others={"hugepages-2Mi": "4Mi"})],
            0,
            id="what is asked for at pod level only",
        ),
        pytest.param(
            over(LEAST, ("example.com/gpu", 1), ("cpu", 1)),
            pod("p", "1"),
            [node("n", "4", others=GPU)],
            75,
            id="not asked for",
        ),
        pytest.param(over(MOST), pod("p", "1", "1Gi"), HALF, 62, id="most: (50 + 75) / 2"),
        pytest.param(over(MOST), pod("p", "9", "1Gi"), HALF, 87, id="at most all of it"),
        pytest.param(over(MOST, ("example.com/gpu", 1)), pod("p"), HALF, 0, id="nothing to fill"),
        pytest.param(over(ratio((0, 0), (100, 10)), ("cpu", 1)), pod("p", "1"), HALF, 50, id="a rising line"),
        pytest.param(over(ratio((0, 10), (100, 0)), ("cpu", 1)), pod("p", "2"), HALF, 25, id="a falling line"),
        pytest.param(over(ratio((60, 3), (80, 10)), ("cpu", 1)), pod("p", "1"), HALF, 30, id="before the first point"),
        pytest.param(over(ratio((0, 0), (40, 7)), ("cpu", 1)), pod("p", "2"), HALF, 70, id="after the last point"),
        pytest.param(
            over(ratio((0, 0), (100, 10)), ("cpu", 1)), pod("p", "9"), HALF, 100, id="more than there is is 100 %"
        ),
        pytest.param(
            over(ratio((0, 0), (30, 0), (100, 10)), ("cpu", 1), ("memory", 1)),
            pod("p", "0", "1Gi"),
            HALF,
            64,
            id="zeros do not count",
        ),
        pytest.param(
            over(ratio((0, 0), (100, 10)), ("cpu", 1), ("memory", 1)),
            pod("p", "40m", "2Gi"),
            [node("n", "4", "4Gi")],
            26,
            id="ones do: (1 + 50) / 2, rounded",
        ),
    ],
)
def test_strategies(args: Object, asks: Object, objects: list[Object], score: int) -> None:
    """Integer arithmetic as upstream's; RequestedToCapacityRatio rounds its mean."""
    made, there = plugin("NodeResourcesFit", **args), cluster(*objects)
    assert scored(made, asks, *objects) == {"n": score}
    assert made.score_one(a_pod(asks), there.nodes, there.nodes.row_of("n")) == score


@pytest.mark.parametrize(("weight", "wrong"), [(-1, 1), (0, 0), (1, 0), (100, 0), (101, 1)])
def test_weights_of_strategies(weight: int, wrong: int) -> None:
    """Up to 100 (validateResources); 0 is what is not written."""
    args = over(LEAST, ("cpu", weight))
    made = plugin("NodeResourcesFit", **args)
    assert len(made.check(convert(args, made.Args, "args"), "args")) == wrong


@pytest.mark.parametrize(
    ("resources", "asks", "objects", "score"),
    [
        ([], pod("p"), HALF, None),
        ([], pod("p", "0", "0"), HALF, None),
        ([], pod("p", "1"), HALF, 81),
        ([], pod("p", "1", "2Gi"), HALF, 69),
        ([], pod("p", "9"), HALF, 69),
        # 1 - 0.25 / 2 is 87 before, 1 - 0.75 / 2 is 62 after; a pod that asks for nothing takes nothing.
        ([], pod("p", "500m"), [node("n", "1", "1Gi"), pod("e", "250m", on="n"), pod("f", on="n")], 62),
        ([], pod("p", "1"), [node("n", "4", None)], 75),
        (["cpu"], pod("p", "1"), HALF, 75),
        (
            ["cpu", "memory", "ephemeral-storage"],
            pod("p", "1"),
            [node("n", "4", others={"ephemeral-storage": "1Gi"})],
            69,
        ),
        (["example.com/gpu"], pod("p", others=GPU), HALF, 75),
        (["example.com/gpu"], pod("p", "1"), HALF, None),
    ],
)
def test_balance(resources: list[str], asks: Object, objects: list[Object], score: int | None) -> None:
    """75 when the pod changes nothing, more when it evens out; one that asks for none takes no part."""
    args = over_all(*resources) if resources else {}
    made, there = plugin("NodeResourcesBalancedAllocation", **args), cluster(*objects)
    assert scored(made, asks, *objects) == (None if score is None else {"n": score})
    if score is not None:
        assert made.score_one(a_pod(asks), there.nodes, there.nodes.row_of("n")) == score


@pytest.mark.parametrize(
    ("old", "new", "wakes"),
    [
        (None, node("n", "2"), True),
        (None, node("n", "1"), False),
        (None, node("n", "2", pods="0"), False),
        (None, node("n", "2", pods="1"), True),
        (node("n", "1"), node("n", "2"), True),
        (node("n", "2"), node("n", "2", "99Gi"), False),
        (node("n", "2", pods="1"), node("n", "2", pods="2"), True),
        (node("n", "4"), node("n", "3"), False),
    ],
)
def test_wakes_when_a_node_could_hold_it(old: Object | None, new: Object, wakes: bool) -> None:
    """If it were empty; and only for more of what the pod asks for."""
    asks = a_pod(pod("p", "2"))
    assert plugin("NodeResourcesFit").node_hint(asks, old and a_node(old), a_node(new)) is wakes


def test_devices_count_for_scores_that_name_their_resource() -> None:
    """As allocatable what a node has of the class, and as used what is allocated."""
    weights = [{"name": "test/gpu", "weight": 1}]
    strategy = {"type": "MostAllocated", "resources": weights}
    args = {"name": "NodeResourcesFit", "args": {"scoringStrategy": strategy}}
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "default-scheduler", "pluginConfig": [args]}],
    }
    of = device_class("gpu", 'device.driver == "gpu.test"', extendedResourceName="test/gpu")
    slices = [resource_slice(name, device("a"), device("b"), node=name) for name in ("m", "n")]
    held = claim("held", status=allocated(result("a", "n")))
    asked = pod("p", others={"test/gpu": "1"})
    found = answer(
        {"config": "x", "objects": [node("m"), node("n"), of, *slices, held], "pod": asked}, lambda _: config
    )
    raw = {name: scores["NodeResourcesFit"] for name, scores in found["raw"].items()}
    assert raw == {"m": 50, "n": 100}
    assert found["allocations"]["n"]["(p-extended-resources-)"][0]["device"] == "b"


OTHER = {"test/other": "1"}
GPU_CLASS = device_class("gpu", 'device.driver == "gpu.test"', extendedResourceName="test/gpu")
DEVICES = [
    GPU_CLASS,
    node("n", "4", "4Gi", others={"example.com/fpga": "4"}),
    pod("e", "1", "1Gi", on="n"),
    resource_slice("n", device("a"), device("b"), node="n"),
    resource_slice("x", device("c"), node="n", driver="other.test", pool="x"),
    resource_slice("far", device("d"), node="elsewhere"),
    claim("held", status=allocated(result("a", "n"))),
    device_class("x", 'device.driver == "other.test"', extendedResourceName="test/x"),
    device_class("broken", 'device.attributes["gpu.test"].none == 1', extendedResourceName="test/broken"),
]
"""A node with two devices of a class, of which one is held, one device of another, and with 3 of 4 cpu."""


@pytest.mark.parametrize(
    ("name", "args", "others", "score"),
    [
        pytest.param("Fit", over(MOST, ("test/gpu", 1)), {"test/gpu": "1"}, 100, id="one is held, the other asked for"),
        pytest.param("Fit", over(LEAST, ("test/gpu", 1)), {"test/gpu": "1"}, 0, id="nothing is left"),
        pytest.param(
            "Fit", over(MOST, ("test/gpu", 1), ("cpu", 2)), {"test/gpu": "1"}, 51, id="cpu too: (100 + 2 × 27) / 3"
        ),
        pytest.param(
            "Fit",
            over(MOST, ("test/gpu", 1), ("test/other", 1)),
            {"test/gpu": "1"} | OTHER,
            100,
            id="no class serves it",
        ),
        pytest.param("Fit", over(MOST, ("test/gpu", 1), ("cpu", 1)), OTHER, 27, id="what is not asked for"),
        pytest.param("Fit", over(MOST, ("test/gpu", 1), ("test/x", 1)), {"test/x": "1"}, 100, id="one of two classes"),
        pytest.param(
            "Fit", over(MOST, ("test/x", 1), ("example.com/fpga", 1)), {"test/x": "1"}, 100, id="one that nodes count"
        ),
        pytest.param(
            "Fit",
            over(LEAST, ("test/gpu", 1), ("test/other", 1), ("cpu", 1)),
            {"test/gpu": "1"} | OTHER,
            36,
            id="(0 + 72) / 2",
        ),
        pytest.param(
            "Fit", over(LEAST, ("test/broken", 1), ("cpu", 1)), {"test/broken": "1"}, 72, id="a class that fails"
        ),
        # Before: (2/4 - 1/4) / 2 = 1/8, so 87. After: (1 - 1/4) / 2 = 3/8, so 62.
        pytest.param("BalancedAllocation", over_all("test/gpu", "cpu"), {"test/gpu": "1"}, 62, id="less even"),
        pytest.param("BalancedAllocation", over_all("test/gpu", "cpu"), OTHER, None, id="nothing that counts"),
    ],
)
def test_devices_in_scores(name: str, args: Object, others: Object, score: int | None) -> None:
    """As allocatable what the node has of the class, and as used what is allocated; only what is asked for."""
    made, asks, there = plugin(f"NodeResources{name}", **args), pod("p", others=others), cluster(*DEVICES)
    fits = plugin("NodeResourcesFit").filter_one(a_pod(asks), there.nodes, there.nodes.row_of("n"))
    assert fits is ("test/other" not in others)
    assert scored_there(made, asks, there) == (None if score is None else {"n": score})
    if score is not None:
        assert made.score_one(a_pod(asks), there.nodes, there.nodes.row_of("n")) == score


@pytest.mark.parametrize(("asked", "again"), [("test/gpu", True), ("test/other", False)])
def test_kept_scores_are_asked_for_again_where_devices_were_given_back(asked: str, again: bool) -> None:
    """If devices have counted for any."""
    there, made = cluster(*DEVICES), plugin("NodeResourcesFit", **over(MOST, (asked, 1)))
    there.settle_devices()
    made.score(a_pod(pod("p", others={asked: "1"})), there, np.array([there.nodes.row_of("n")]))
    before = there.nodes.log.version
    there.drop_device("ResourceClaim", "default", "held")
    there.settle_devices()
    assert (there.nodes.log.version > before) is again


ANYWHERE = {"allNodes": True}
LABELLED = {"nodeSelector": node_selector("disk=ssd")}


@pytest.mark.parametrize(
    ("spec", "fields", "score"),
    [
        (ANYWHERE, {}, 100),
        (LABELLED, {}, 0),
        ({"nodeSelector": node_selector("disk=hdd")}, {}, 100),
        ({"perDeviceNodeSelection": True}, {"_allNodes": True}, 100),
        ({"perDeviceNodeSelection": True}, {"_nodeName": "n"}, 100),
        ({"perDeviceNodeSelection": True}, {"_nodeName": "m"}, 0),
        ({"perDeviceNodeSelection": True}, {f"_{key}": value for key, value in LABELLED.items()}, 0),
    ],
)
def test_devices_that_many_nodes_reach(spec: Object, fields: Object, score: int) -> None:
    """They count where they can be reached."""
    there = cluster(
        GPU_CLASS, node("n", labels={"disk": "hdd"}), resource_slice("s", device("a", **fields), pool="s", **spec)
    )
    made = plugin("NodeResourcesFit", **over(MOST, ("test/gpu", 1)))
    assert scored_there(made, pod("p", others={"test/gpu": "1"}), there) == {"n": score}


def test_balance_before_the_pod_is_kept_up_to_date() -> None:
    """What a placed pod takes is what it asks for, without what scoring assumes otherwise."""
    made = plugin("NodeResourcesBalancedAllocation")
    there = cluster(node("n", "1", "1Gi"), *(node(f"m{i}", "1", "1Gi") for i in range(99)))
    asks = pod("p", "500m")
    for placed in (pod("e", "250m"), pod("f")):
        found = scored_there(made, asks, there, among="n")
        assert found == scored_there(plugin("NodeResourcesBalancedAllocation"), asks, there, among="n")
        there.assume(a_pod(placed), 0)
    # 1 - 0.25 / 2 is 87 before, 1 - 0.75 / 2 is 62 after; the second placed pod asks for nothing.
    assert scored_there(made, asks, there, among="n") == {"n": 62}


def test_balance_is_kept_apart_for_pods_that_ask_for_other_resources() -> None:
    """Also where one asks for them at pod level only: cpu alone stays as even as it is."""
    huge = "hugepages-2Mi"
    objects = [node("n", "4", others={huge: "4Mi"}), pod("e", others={huge: "2Mi"}, on="n")]
    made, there = plugin("NodeResourcesBalancedAllocation", **over_all("cpu", huge)), cluster(*objects)
    for asks, score in ((pod("a", "1", level={huge: "2Mi"}), 68), (pod("b", "1"), 75)):
        assert scored_there(made, asks, there) == {"n": score}


def test_balance_before_the_pod_where_another_resource_takes_a_place() -> None:
    """A node offers b instead of a: the numbers kept for pods that ask for a go on as those for b."""
    made = plugin("NodeResourcesBalancedAllocation", **over_all("cpu", "memory", "example.com/a", "example.com/b"))
    others = [node(f"m{i}", "1", "1Gi") for i in range(99)]
    there = cluster(node("n", "10", "10Gi", others={"example.com/a": "4"}), pod("e", "5", "5Gi", on="n"), *others)
    scored_there(made, pod("p", "1", "1Gi", others={"example.com/a": "1"}), there)
    there.put_node(a_node(node("n", "10", "10Gi", others={"example.com/b": "4"})))
    asks = pod("q", "1", "1Gi", others={"example.com/b": "2"})
    # Of 0.5, 0.5 and 0 it is 76, of 0.6, 0.6 and 0.5 it is 95.
    assert scored_there(made, asks, there, among="n") == {"n": 84}


def test_a_weight_of_none_is_one() -> None:
    """ValidateNodeResourcesBalancedAllocationArgs has 1; the API's default fills in what is not written, or 0."""
    for weight, wrong in ((0, 0), (1, 0), (2, 1)):
        made = plugin("NodeResourcesBalancedAllocation", resources=[{"name": "cpu", "weight": weight}])
        args = convert({"resources": [{"name": "cpu", "weight": weight}]}, made.Args, "args")
        assert len(made.check(args, "args")) == wrong


@pytest.mark.parametrize(
    ("old", "new", "wakes"),
    [
        (node("n", "2"), node("n", "2", "99Gi"), True),
        (node("n", "2"), node("n", "1"), False),
        (node("n", "2", others={"test/gpu": "1"}), node("n", "2", others={"test/gpu": "1"}), False),
    ],
    ids=["devices may serve it", "but no cpu", "the node has some itself"],
)
def test_wakes_for_any_change_of_a_node_whose_devices_may_serve_it(old: Object, new: Object, wakes: bool) -> None:
    """A resource of which the node has none is left to the devices (haveAnyRequestedResourcesIncreased, fit.go)."""
    asks, made = a_pod(pod("p", "2", others={"test/gpu": "1"})), plugin("NodeResourcesFit")
    made.filter(asks, cluster(node("n"), device_class("gpu", "true", extendedResourceName="test/gpu")))
    assert made.node_hint(asks, a_node(old), a_node(new)) is wakes


@pytest.mark.parametrize(
    ("old", "new", "asked", "wakes"),
    [
        (None, device_class("gpu"), "deviceclass.resource.kubernetes.io/gpu", True),
        (None, device_class("gpu"), "deviceclass.resource.kubernetes.io/tpu", False),
        (None, device_class("gpu", extendedResourceName="test/gpu"), "test/gpu", True),
        (None, device_class("gpu", extendedResourceName="test/tpu"), "test/gpu", False),
        (device_class("gpu"), device_class("gpu", extendedResourceName="test/gpu"), "test/gpu", True),
        (device_class("gpu"), device_class("gpu"), "deviceclass.resource.kubernetes.io/gpu", False),
        (GPU_CLASS, device_class("gpu", extendedResourceName="test/gpu"), "test/gpu", False),
        (GPU_CLASS, device_class("gpu", extendedResourceName="test/tpu"), "test/gpu", False),
        (GPU_CLASS, None, "test/gpu", False),
    ],
)
def test_wakes_for_a_class_that_serves_it(old: Object | None, new: Object | None, asked: str, wakes: bool) -> None:
    """By name as long as there is the class, or by its extended resource (isSchedulableAfterDeviceClassChange)."""
    decode = Decoder().of_kind("DeviceClass")
    before, after = (one and decode(wire.encode(one)) for one in (old, new))
    made, asks = plugin("NodeResourcesFit"), a_pod(pod("p", others={asked: "1"}))
    assert made.object_hint(asks, ClusterEvent.DEVICE_CLASS, before, after) is wakes


def test_what_preemption_adds_up() -> None:
    """Room for pods, then each resource that is asked for and counted; a resource of devices is never short there."""
    made = plugin("NodeResourcesFit", ignoredResources=["example.com/ignored"])
    more = {"example.com/ignored": "1", "test/gpu": "1", "example.com/none": "2"}
    asks, there = a_pod(pod("p", "1", others=more)), cluster(*DEVICES, node("m", "2", others={"test/gpu": "1"}))
    rows = np.array([there.nodes.row_of(name) for name in "nm"])
    amounts = dict(zip(("pods", *made.counted(asks.shape)), made.free(asks, there.nodes, rows).tolist(), strict=True))
    assert amounts == {"pods": [109, 110], "cpu": [3000, 2000], "test/gpu": [1 << 60, 1], "example.com/none": [0, 0]}
    assert made.needs(asks) == [1, 1000, 1, 2]
    assert made.takes(asks, a_pod(pod("e", "7", others={"test/gpu": "4"})).shape) == [1, 7000, 4, 0]


def test_a_placement_counts_what_all_its_nodes_have_given() -> None:
    """One of one device, and none of three: with one more, two of four."""
    three = {"example.com/gpu": "3"}
    there = cluster(node("n", others=GPU), node("m", others=three), pod("e", others=GPU, on="n"))
    made = plugin("NodeResourcesFit", **over(LEAST, ("example.com/gpu", 1)))
    group = PodGroup(GroupKey("default", "train"), "uid-train", "", 1, 0)
    placement = Placement("", np.array([0, 1], dtype=np.intp))
    assert made.placement_score(Assignment(group, placement, [a_pod(pod("p", others=GPU))], 0), there) == 50


def test_wakes_for_a_resource_that_a_node_comes_to_have() -> None:
    """Be it one of one, or more of only one that the pod asks for."""
    made, asks, plain = plugin("NodeResourcesFit"), a_pod(pod("p", others=GPU)), a_node(node("n"))
    assert made.node_hint(asks, plain, a_node(node("n", others=GPU)))
    assert not made.node_hint(asks, None, plain)
    both = a_pod(pod("p", "2", "1Gi"))
    assert made.node_hint(both, a_node(node("n", "2", "1Gi")), a_node(node("n", "2", "2Gi")))


@pytest.mark.parametrize(
    ("others", "score"),
    [({}, 50), (GPU, 75)],
    ids=["(1 + 1) / 4 cpu", "and all of the devices: (50 + 100) / 2"],
)
def test_a_placement_is_scored_by_what_its_pods_ask_for(others: Object, score: int) -> None:
    """What none of them asks for is passed over (scorePlacement, resource_allocation.go)."""
    made = plugin("NodeResourcesFit", **over(LEAST, ("cpu", 1), ("example.com/gpu", 1)))
    there = cluster(node("n", "4", others=GPU), pod("e", "1", on="n"))
    asks = [a_pod(pod("p", "1", others=others))]
    placement = Placement("", np.array([0], dtype=np.intp))
    group = PodGroup(GroupKey("default", "train"), "uid-train", "", 1, 0)
    assert made.placement_score(Assignment(group, placement, asks, 0), there) == score
