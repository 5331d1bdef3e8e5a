"""Equal pods that are decided in one go: they go where each would have gone by itself."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from podberth.cache.validate import validate
from podberth.explain.simulate.crowd import ahead
from podberth.explain.simulate.simulation import Simulation
from podberth.framework.config import SchedulerConfiguration, decode, default_configuration
from podberth.framework.profiles import build
from podberth.model.pod import Pod
from podberth.plugins.registry import IN_TREE
from tests.builders import namespace, node, pod
from tests.unit.explain.story import world

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


TERMS = ["app=web per host", "app=web per zone", "app=db per zone", "app=web per rack", "app=db per host"]
WEIGHTED = st.lists(st.tuples(st.sampled_from([1, 7, 100]), st.sampled_from(TERMS)), max_size=2)
CONSTRAINT = st.fixed_dictionaries(
    {
        "topologyKey": st.sampled_from(["kubernetes.io/hostname", "topology.kubernetes.io/zone", "rack"]),
        "maxSkew": st.sampled_from([1, 1, 2, 5]),
        "whenUnsatisfiable": st.sampled_from(["DoNotSchedule", "ScheduleAnyway"]),
        "labelSelector": st.sampled_from([{"matchLabels": {"app": "web"}}, {"matchLabels": {"app": "db"}}, {}]),
        "nodeAffinityPolicy": st.sampled_from(["Honor", "Ignore"]),
        "nodeTaintsPolicy": st.sampled_from(["Honor", "Ignore"]),
    }
)
CROWD = st.fixed_dictionaries(
    {
        "ports": st.sampled_from([[], [], [], ["80"]]),
        "prefer": st.lists(
            st.tuples(st.sampled_from([1, 10, 60]), st.sampled_from(["zone in a", "rack in r0,r1", "rack in r1"])),
            max_size=2,
        ),
        "select": st.sampled_from([{}, {}, {"rack": "r0"}]),
        "tolerate": st.sampled_from([[], ["a"]]),
        "near": st.lists(st.sampled_from(TERMS), max_size=1),
        "apart": st.lists(st.sampled_from(TERMS), max_size=1),
        "rather_near": WEIGHTED,
        "rather_apart": WEIGHTED,
    }
)
BESIDE = st.lists(
    st.tuples(
        st.integers(0, 7),
        st.sampled_from(["web", "db", "other"]),
        st.sampled_from([{}, {}, {"apart": ["app=web per zone"]}, {"rather_near": [(50, "app=web per zone")]}]),
    ),
    max_size=5,
)
LABELLED = st.tuples(NODE, st.sampled_from(["r0", "r1", "r2", None]), st.booleans())


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(sorted(CONFIGURATIONS)),
    st.lists(LABELLED, min_size=1, max_size=8),
    BESIDE,
    CROWD,
    st.lists(CONSTRAINT, max_size=2, unique_by=lambda c: (c["topologyKey"], c["whenUnsatisfiable"])),
    st.booleans(),
    st.integers(1, 40),
)
def test_crowds_with_terms_and_constraints(
    kind: str,
    nodes: list[tuple[Object, str | None, bool]],
    placed: list[tuple[int, str, Object]],
    crowd: Object,
    constraints: list[Object],
    served: bool,
    count: int,
) -> None:
    """What is counted is what was decided pod by pod, and every column is right afterwards."""
    objects: list[Object] = [namespace("default")]
    for i, (fields, rack, tainted) in enumerate(nodes):
        soft = ["slow=yes:PreferNoSchedule"] if tainted else []
        taints = [*fields["taints"], *soft]
        objects.append(node(f"n{i}", **{**fields, "taints": taints}, labels={"rack": rack} if rack else {}))
    for i, (on, app, terms) in enumerate(placed):
        objects.append(pod(f"q{i}", "100m", on=f"n{on % len(nodes)}", labels={"app": app}, **terms))
    if served:
        spec = {"selector": {"app": "web"}}
        objects.append(
            {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "default"}, "spec": spec}
        )
    made = pod("web", "100m", "10Mi", labels={"app": "web"}, **crowd)
    if constraints:
        made["spec"]["topologySpreadConstraints"] = constraints
    configuration = CONFIGURATIONS[kind]
    together = where(configuration, objects, made, count, one_by_one=False)
    assert together == where(configuration, objects, made, count, one_by_one=True)
    assert together[1] == []


SPREAD: Object = {"maxSkew": 1, "labelSelector": {"matchLabels": {"app": "web"}}}


def spread(key: str, when: str) -> Object:
    """A pod with one constraint that counts its equals."""
    made = pod("web", "1", labels={"app": "web"})
    made["spec"]["topologySpreadConstraints"] = [{**SPREAD, "topologyKey": key, "whenUnsatisfiable": when}]
    return made


HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


@pytest.mark.parametrize(
    ("made", "wanted"),
    [
        (pod("web", "1", labels={"app": "web"}), True),
        (pod("web", "1", near=["app=db per host"]), True),
        (pod("web", "1", near=["app=web per zone"], labels={"app": "web"}), False),
        (pod("web", "1", apart=["app=web per host"], labels={"app": "web"}), True),
        (pod("web", "1", apart=["app=web per zone"], labels={"app": "web"}), True),
        (pod("web", "1", rather_near=[(1, "app=web per zone")], labels={"app": "web"}), True),
        (pod("web", "1", rather_apart=[(1, "app=web per host")], labels={"app": "web"}), True),
        (pod("web", "1", ports=["80"]), True),
        (pod("web", "1", prefer=[(1, "zone in a")]), True),
        (spread(HOST, "DoNotSchedule"), True),
        (spread(HOST, "ScheduleAnyway"), True),
        (spread(ZONE, "DoNotSchedule"), True),
        (spread(ZONE, "ScheduleAnyway"), True),
    ],
)
def test_what_is_decided_in_one_go(made: Object, wanted: bool) -> None:
    """Pods of which it is known what each changes for those that follow."""
    framework = build(default_configuration(), IN_TREE)["berth"]
    there = world([node(name, "4", zone=name) for name in ("n", "m")])
    first = there.decode(made)
    assert isinstance(first, Pod)
    assert (ahead(first, there.cluster, framework) is not None) is wanted


@pytest.mark.parametrize(
    ("near", "plain"),
    [
        ({}, True),
        ({"apart": ["app=web per host"]}, True),
        ({"rather_near": [(1, "app=web per host")]}, False),
    ],
    ids=["alone", "repelled", "liked"],
)
def test_totals_are_all_that_counts(near: Object, plain: bool) -> None:
    """Plugins that reject the same nodes for each of the pods, and give no scores, are not asked for each."""
    framework = build(default_configuration(), IN_TREE)["berth"]
    hosts = [node(name, "4", labels={"kubernetes.io/hostname": name}) for name in ("n", "m")]
    there = world([namespace("default"), *hosts, pod("db", on="n", **near)])
    first = there.decode(pod("web", "1", labels={"app": "web"}))
    assert isinstance(first, Pod)
    found = ahead(first, there.cluster, framework)
    assert found is not None
    assert found.plain is plain
    simulation = Simulation({"berth": framework}, there.cluster)
    assert simulation.repeat((replace(first, uid=f"{i}") for i in range(9)), framework) == (4 if "apart" in near else 8)


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


def test_a_kind_whose_best_row_has_a_lower_total_now() -> None:
    """The only node of a rack has taken one of the pods: it is not as good as empty nodes of the other one."""
    fields: Object = {"cpu": "1", "memory": "1Gi", "pods": "3", "zone": "a"}
    objects: list[Object] = [namespace("default")]
    objects += [node(f"n{i}", **fields, labels={"rack": "r0" if i < 7 else "r1"}) for i in range(8)]
    made = pod("web", "100m", "10Mi", labels={"app": "web"})
    constraint = {"topologyKey": "rack", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    made["spec"]["topologySpreadConstraints"] = [{**constraint, "labelSelector": {"matchLabels": {"app": "web"}}}]
    ways = [where(CONFIGURATIONS["spread"], objects, made, 3, one_by_one=one_by_one) for one_by_one in (False, True)]
    assert ways[0] == ways[1]
