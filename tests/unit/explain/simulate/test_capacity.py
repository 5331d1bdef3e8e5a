"""As many fit as are placed when they are created, and one more node adds as many as was said."""

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from podberth.explain.objects.documents import Document
from podberth.explain.objects.manifest import workloads
from podberth.explain.simulate.arrivals import Batch
from podberth.explain.simulate.capacity import Capacity, capacity
from tests.builders import namespace, node, pod
from tests.storage import volume
from tests.unit.explain.simulate.test_plan import CLAIM, outcome, storage_class, workload
from tests.unit.explain.story import framework, world

Object = dict[str, Any]


def asked(made: Object, *there: Object, **spec: Any) -> Capacity:
    """The answer about more pods of a ReplicaSet."""
    where = world([namespace("default"), *there])
    document = json.dumps(workload("ReplicaSet" if not spec else "StatefulSet", made, **spec)).encode()
    kind = "StatefulSet" if spec else "ReplicaSet"
    (found,) = workloads([Document(kind, document, "")])
    profile = framework()
    batch = Batch(found, where, None, "default", profile.profile.name)
    return capacity(where.cluster, profile, batch)


def on_nodes(answer: Capacity) -> dict[str, int]:
    """The nodes where they fit."""
    return {each.node: each.pods for each in answer.nodes if each.pods}


def limits(answer: Capacity) -> dict[str, int]:
    """The reasons that keep the next one out."""
    return {each.reason: each.nodes for each in answer.limits}


def spread(made: Object) -> Object:
    """The pod, spread evenly over zones."""
    constraint = {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}
    made["spec"]["topologySpreadConstraints"] = [constraint | {"labelSelector": {"matchLabels": {"app": "w"}}}]
    return made


@pytest.mark.parametrize(
    ("made", "there", "want", "because"),
    [
        pytest.param(
            pod("t", "1"),
            [node("a", "4"), node("b", "2"), pod("q", "1", on="b")],
            {"a": 4, "b": 1},
            {"Insufficient cpu": 2},
            id="cpu",
        ),
        pytest.param(pod("t", "1"), [node("a", "9", pods="3")], {"a": 3}, {"Too many pods": 1}, id="pods"),
        pytest.param(
            pod("t", ports=["80"]),
            [node("a")],
            {"a": 1},
            {"node(s) didn't have free ports for the requested pod ports": 1},
            id="ports",
        ),
        pytest.param(
            pod("t", "1"),
            [node("a", "2", taints=["x:NoSchedule"]), node("b", "1")],
            {"b": 1},
            {"Insufficient cpu": 1, "node(s) had untolerated taint(s)": 1},
            id="a taint",
        ),
        pytest.param(
            pod("t", "1", apart=["app=w per host"]),
            [node("a", "9"), node("b", "9")],
            {"a": 1, "b": 1},
            {"node(s) didn't match pod anti-affinity rules": 2},
            id="apart",
        ),
        pytest.param(
            spread(pod("t", "1")),
            [node("a", "1", zone="a"), node("b", "9", zone="b")],
            {"a": 1, "b": 2},
            {"Insufficient cpu": 1, "node(s) didn't match pod topology spread constraints": 1},
            id="spread",
        ),
        pytest.param(pod("t", "1"), [node("a", "500m")], {}, {"Insufficient cpu": 1}, id="none"),
    ],
)
def test_where_and_why(made: Object, there: list[Object], want: dict[str, int], because: dict[str, int]) -> None:
    """As many on each node as it takes, and what keeps the next one out."""
    answer = asked(made, *there)
    assert on_nodes(answer) == want
    assert (answer.fits, answer.exhausted) == (sum(want.values()), True)
    assert limits(answer) == because
    assert answer.message is not None and answer.message.startswith(f"0/{len(answer.nodes)} nodes are available")


def test_claims_count() -> None:
    """Each pod of a StatefulSet has a claim of its own, here of a class that makes volumes."""
    there = [node("a", "2"), storage_class(volumeBindingMode="WaitForFirstConsumer")]
    answer = asked(pod("t", "1"), *there, volumeClaimTemplates=[CLAIM])
    assert on_nodes(answer) == {"a": 2}
    assert asked(pod("t", "1"), node("a", "2"), volumeClaimTemplates=[CLAIM]).fits == 0


def test_what_is_placed_one_by_one_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """More may fit than are tried."""
    monkeypatch.setattr("podberth.explain.simulate.arrivals._MOST", 5)
    monkeypatch.setattr("podberth.explain.simulate.arrivals._MOST_UNEQUAL", 3)
    answer = asked(spread(pod("t", "10m")), node("a", zone="a"))
    assert (answer.fits, answer.exhausted) == (5, False)
    there = [node("a", zone="a"), storage_class(volumeBindingMode="WaitForFirstConsumer")]
    there += [volume(f"v{i}", "10Gi", storage_class="gone") for i in range(5)]
    answer = asked(pod("t", "10m"), *there, volumeClaimTemplates=[CLAIM])
    assert (answer.fits, answer.exhausted) == (3, False)


def test_what_is_stranded() -> None:
    """Room that is left, in all and at most on one node."""
    answer = asked(pod("t", "2", "1Gi"), node("a", "5", "2Gi"), node("b", "1", "8Gi"))
    assert [(each.resource, each.free, each.most, each.node) for each in answer.stranded] == [
        ("cpu", "2", "1", "a"),
        ("memory", "8Gi", "8Gi", "b"),
    ]


def daemon(made: Object) -> Object:
    """A DaemonSet's pod."""
    made["metadata"]["ownerReferences"] = [{"kind": "DaemonSet", "name": "d", "uid": "d", "controller": True}]
    return made


def test_one_more_node_has_the_daemons_of_its_like() -> None:
    """It takes what is left beside them."""
    answer = asked(pod("t", "1"), node("a", "4"), daemon(pod("d", "1", on="a")), pod("q", "2", on="a"))
    assert [(each.like, each.nodes, each.adds) for each in answer.one_more] == [("a", 1, 3)]


NODE = st.builds(
    lambda cpu, pods, more: {"cpu": str(cpu), "pods": str(pods)} | more,
    st.integers(1, 5),
    st.integers(1, 6),
    st.fixed_dictionaries(
        {"zone": st.sampled_from(["a", "b", "c"])},
        optional={"cordoned": st.just(True), "taints": st.just(["x:NoSchedule"]), "labels": st.just({"disk": "ssd"})},
    ),
)
PLACED = st.tuples(st.integers(0, 3), st.sampled_from(["250m", "1", "2"]), st.sampled_from(["w", "q"]), st.booleans())
POD = st.fixed_dictionaries(
    {"cpu": st.sampled_from(["300m", "1", "1500m"])},
    optional={
        "apart": st.sampled_from([["app=w per host"], ["app=q per zone"], ["app=w per zone"]]),
        "near": st.sampled_from([["app=q per zone"], ["app=w per zone"]]),
        "ports": st.just(["80"]),
        "select": st.just({"disk": "ssd"}),
        "tolerate": st.just(["x"]),
    },
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    nodes=st.lists(NODE, min_size=1, max_size=4), placed=st.lists(PLACED, max_size=5), made=POD, spreads=st.booleans()
)
def test_it_is_what_comes_true(nodes: list[Object], placed: list[Any], made: Object, spreads: bool) -> None:
    """As many are placed when so many more are created; with one more node, so many more."""
    there = [node(f"n{i}", **fields) for i, fields in enumerate(nodes)]
    there += [
        daemon(pod(f"q{i}", cpu=cpu, on=f"n{on % len(nodes)}", labels={"app": app}))
        if owned
        else pod(f"q{i}", cpu=cpu, on=f"n{on % len(nodes)}", labels={"app": app})
        for i, (on, cpu, app, owned) in enumerate(placed)
    ]
    template = pod("t", **made)
    if spreads:
        spread(template)
    answer = asked(template, *there)
    template["spec"]["preemptionPolicy"] = "Never"
    come = outcome(there, [workload("ReplicaSet", template, replicas=answer.fits + 3)])
    assert come.workloads[0].placed == answer.fits
    if answer.fits:
        assert Counter(come.workloads[0].nodes) == Counter(on_nodes(answer))
    if spreads or {"apart", "near"} & made.keys():
        return  # with another node they may have gone to other ones from the beginning
    for more in answer.one_more:
        (like,) = [each for each in there if each["metadata"]["name"] == more.like and each["kind"] == "Node"]
        clone = json.loads(json.dumps(like))
        clone["metadata"] |= {"name": "more", "uid": "more"}
        clone["metadata"]["labels"]["kubernetes.io/hostname"] = "more"
        clone["spec"].pop("unschedulable", None)
        own = [
            {**each, "metadata": {**each["metadata"], "name": f"{each['metadata']['name']}-more", "uid": f"m{i}"}}
            for i, each in enumerate(there)
            if each["kind"] == "Pod" and each["spec"]["nodeName"] == more.like and "ownerReferences" in each["metadata"]
        ]
        for each in own:
            each["spec"] = {**each["spec"], "nodeName": "more"}
        assert asked(template, *there, clone, *own).fits == answer.fits + more.adds
