"""The right changes are offered, and each of them frees the pod when it is carried out."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from podberth.explain.changes import DropRequirement
from podberth.explain.trial import applied, edited
from podberth.model.pod import Pod
from tests.builders import namespace, node, pod
from tests.unit.explain.carry_out import carried_out
from tests.unit.explain.story import BIG, DB, explained, framework, world

Object = dict[str, Any]
UNSCHEDULABLE_TAINT = "node.kubernetes.io/unschedulable:NoSchedule"


def offered(incoming: Object, *objects: Object) -> list[str]:
    """The texts of all remedies."""
    return [remedy.text for remedy in explained(incoming, [namespace("default"), *objects]).remedies]


@pytest.mark.parametrize(
    ("incoming", "objects", "want"),
    [
        pytest.param(
            pod("p", "4"), [node("n", "4"), pod("q", "1", on="n")], "ask for 3 cpu instead of 4", id="ask for less cpu"
        ),
        pytest.param(
            pod("p", memory="2Gi"),
            [node("n", memory="4Gi"), pod("q", memory="2500Mi", on="n")],
            "ask for 1596Mi memory instead of 2Gi",
            id="less memory",
        ),
        pytest.param(pod("p", "4"), [node("n", "4"), pod("q", "1", on="n")], "move default/q off n", id="move one"),
        pytest.param(pod("p"), [node("n", pods="1"), pod("q", on="n")], "move default/q off n", id="too many pods"),
        pytest.param(
            pod("p"), [node("n", taints=["gpu=true:NoSchedule"])], "tolerate gpu=true:NoSchedule", id="tolerate"
        ),
        pytest.param(
            pod("p"),
            [node("n", taints=["node.kubernetes.io/not-ready:NoExecute"])],
            "bring n back, which is not-ready",
            id="not ready",
        ),
        pytest.param(pod("p"), [node("n", cordoned=True)], "uncordon n", id="uncordon"),
        pytest.param(
            pod("p"),
            [node("n", cordoned=True, taints=[UNSCHEDULABLE_TAINT])],
            "uncordon n",
            id="uncordon a tainted one",
        ),
        pytest.param(
            pod("p", select={"disk": "ssd"}), [node("n")], "drop nodeSelector disk=ssd", id="drop the selector"
        ),
        pytest.param(pod("p", select={"disk": "ssd"}), [node("n")], "label n disk=ssd", id="label the node"),
        pytest.param(
            pod("p", need=["disk in ssd,nvme"]), [node("n")], "label n disk=nvme", id="label it, of two values"
        ),
        pytest.param(
            pod("p", need=["disk=ssd;gen > 3"]),
            [node("n", labels={"gen": "4"})],
            "drop the required node affinity disk in (ssd)",
            id="drop a requirement",
        ),
        pytest.param(
            pod("p", need=["@name in m"]),
            [node("n")],
            "drop the required node affinity metadata.name = m",
            id="a node that is not there",
        ),
        pytest.param(
            pod("p", ports=["80"]),
            [node("n"), pod("q", on="n", ports=["80"])],
            "do without host port TCP 80",
            id="drop the port",
        ),
        pytest.param(
            pod("p", near=["app=db per zone"]),
            [node("n", zone="a")],
            "prefer, not require, to be near pods with app=db per zone",
            id="prefer near",
        ),
        pytest.param(
            pod("p", apart=["app=db per host"]),
            [node("n"), pod("db", on="n", labels={"app": "db"})],
            "prefer, not require, to be apart from pods with app=db per hostname",
            id="prefer apart",
        ),
        pytest.param(
            pod("p", labels={"app": "web"}),
            [node("n"), pod("lone", on="n", apart=["app=web per host"])],
            "move default/lone off n",
            id="move the repeller",
        ),
        pytest.param(pod("p", "3"), [node("n", "4"), pod("q", "2", on="n")], "add a node like n", id="another node"),
        pytest.param(
            pod("p", "8", select={"disk": "ssd"}),
            [node("n", "4")],
            "ask for 4 cpu instead of 8 and drop nodeSelector disk=ssd",
            id="two changes",
        ),
    ],
)
def test_offers(incoming: Object, objects: list[Object], want: str) -> None:
    """The change that a person would think of is among those that are offered."""
    assert want in offered(incoming, *objects)


def test_two_pods_leave_where_one_is_not_enough() -> None:
    """Those that make enough room together, and no two that do not."""
    there = [pod(f"small-{i}", "250m", on="n") for i in range(4)] + [
        pod(f"large-{i}", "1500m", on="n") for i in range(2)
    ]
    found = offered(pod("p", "3"), node("n", "4"), *there)
    assert any("large-0" in text and "large-1" in text for text in found), found


def test_the_story() -> None:
    """The cheapest changes come first, and equal ones of other nodes or pods are told together."""
    assert [remedy.text for remedy in explained(BIG).remedies] == [
        "tolerate gpu=true:NoSchedule",
        "uncordon b-1",
        "drop nodeSelector disk=ssd",
        "ask for 1 cpu instead of 2500m and 4Gi memory instead of 6Gi",
        "label a-2 disk=ssd",
        "move shop/db-0 off a-1",
        "add a node like a-1",
    ]
    [move] = [remedy for remedy in explained(DB).remedies if remedy.text.startswith("move")]
    assert (move.text, move.nodes, move.instead) == ("move shop/db-0 off a-1", ["a-1", "a-2"], ["shop/job-0 off b-2"])


def test_a_bigger_change_is_not_offered_beside_a_smaller_one_that_it_holds() -> None:
    """With asking for less enough, asking for even less and uncordoning is noise."""
    texts = offered(pod("p", "4"), node("n", "3"), node("m", "2", cordoned=True))
    assert texts == ["ask for 3 cpu instead of 4"]


def test_nobody_is_told_to_ask_for_next_to_nothing() -> None:
    """A tenth is the least that is still the same pod."""
    assert offered(pod("p", "4"), node("n", "350m")) == []


def test_other_node_is_offered_by_its_smallest_make() -> None:
    """Of the makes that would do, the smallest one."""
    full = [pod(f"q{i}", "9", on=name) for i, name in enumerate(("large", "medium"))]
    assert "add a node like medium" in offered(
        pod("p", "8"), node("large", "16"), node("medium", "10"), node("s", "4"), *full
    )


def test_dropping_the_last_requirement_drops_the_affinity() -> None:
    """An empty term would match nothing, so the whole affinity goes."""
    there = world([node("n")])
    incoming = there.decode(pod("p", need=["disk=ssd"]))
    assert isinstance(incoming, Pod)
    changed = edited(incoming, [DropRequirement(0, "disk in (ssd)")])
    assert changed.shape.required_node_affinity is None
    assert incoming.shape.required_node_affinity is not None


LABELS = st.fixed_dictionaries({"disk": st.sampled_from(["ssd", "hdd"])}, optional={"gen": st.sampled_from(["1", "9"])})
TAINTS = st.lists(
    st.sampled_from(
        ["gpu=true:NoSchedule", "old:NoExecute", "node.kubernetes.io/not-ready:NoExecute", "soft:PreferNoSchedule"]
    ),
    max_size=2,
    unique=True,
)
NODE = st.builds(
    lambda cpu, memory, pods, more: {"cpu": str(cpu), "memory": f"{memory}Gi", "pods": str(pods)} | more,
    st.integers(1, 4),
    st.integers(1, 8),
    st.integers(1, 4),
    st.fixed_dictionaries(
        {
            "zone": st.sampled_from(["a", "b", None]),
            "labels": LABELS,
            "taints": TAINTS,
            "cordoned": st.booleans(),
        }
    ),
)
POD = st.builds(
    lambda cpu, memory, app, more: {"cpu": f"{cpu}m", "memory": f"{memory}Mi", "labels": {"app": app}} | more,
    st.integers(1, 3000),
    st.integers(1, 3000),
    st.sampled_from(["web", "db"]),
    st.fixed_dictionaries(
        {
            "ports": st.lists(st.sampled_from(["80", "81"]), max_size=1),
            "apart": st.lists(st.sampled_from(["app=db per zone", "app=web per host"]), max_size=1),
            "near": st.lists(st.sampled_from(["app=db per zone", "app=none per host", "app=wbe per zone"]), max_size=1),
        }
    ),
)
INCOMING = st.tuples(
    POD,
    st.fixed_dictionaries(
        {},
        optional={
            "select": LABELS,
            "need": st.lists(
                st.sampled_from(["disk=ssd", "gen > 3;disk=hdd", "zone in a", "disk=sd", "@name in n00;disk=hdd"]),
                max_size=2,
            ),
            "gates": st.just(["wait"]),
            "tolerate": st.lists(st.sampled_from(["gpu", "old=x"]), max_size=1),
            "priority": st.integers(0, 2),
        },
    ),
    st.booleans(),
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    nodes=st.lists(NODE, min_size=1, max_size=5),
    placed=st.lists(st.tuples(POD, st.integers(0, 4)), max_size=6),
    incoming=INCOMING,
)
def test_every_remedy_carried_out_frees_the_pod(
    nodes: list[Object], placed: list[tuple[Object, int]], incoming: tuple[Object, Object, bool]
) -> None:
    """Done to the API objects instead of to the columns, each change leads to exactly the nodes that it named."""
    objects = [namespace("default"), *[node(f"n{i}", **fields) for i, fields in enumerate(nodes)]]
    objects += [pod(f"q{i}", on=f"n{on % len(nodes)}", **fields) for i, (fields, on) in enumerate(placed)]
    asked, more, spread = incoming
    made = pod("p", **asked, **more)
    made["spec"].setdefault("tolerations", []).extend(
        {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for key in ("not-ready", "unreachable")  # each pod that is created gets them
    )
    if spread:
        constraint = {"maxSkew": 1, "topologyKey": "disk", "whenUnsatisfiable": "DoNotSchedule"}
        made["spec"]["topologySpreadConstraints"] = [constraint | {"labelSelector": {"matchLabels": {"app": "web"}}}]
    for remedy in explained(made, objects).remedies:
        after, there = carried_out(remedy.changes, made, objects)
        cluster = world(there).cluster
        decoded = world([]).decode(after)
        assert isinstance(decoded, Pod)
        assert framework().pre_enqueue(decoded, cluster) is None
        feasible = framework().decide(decoded, cluster).feasible
        assert sorted(cluster.nodes.names[row] or "" for row in feasible) == remedy.nodes, remedy.text


@settings(max_examples=50, deadline=None)
@given(nodes=st.lists(NODE, min_size=1, max_size=4), placed=st.lists(st.tuples(POD, st.integers(0, 3)), max_size=5))
def test_changes_to_the_cluster_are_taken_back(nodes: list[Object], placed: list[tuple[Object, int]]) -> None:
    """After a block of changes every column reads as before."""
    objects = [node(f"n{i}", **fields) for i, fields in enumerate(nodes)]
    objects += [pod(f"q{i}", on=f"n{on % len(nodes)}", **fields) for i, (fields, on) in enumerate(placed)]
    there = world(objects)
    before = _columns(there.cluster)
    for remedy in (
        explained(pod("p", "9"), objects).remedies + explained(pod("p", "1", select={"disk": "x"}), objects).remedies
    ):
        with applied(there.cluster, remedy.changes):
            pass
        assert _columns(there.cluster) == before


def _columns(cluster: Any) -> dict[str, Any]:
    nodes = cluster.nodes
    return {
        str(node.name): (
            node,
            nodes.requested[:, row].tolist(),
            nodes.nonzero[:, row].tolist(),
            int(nodes.pods[row]),
            sorted(each.uid for each in cluster.pods_on(row)),
        )
        for row, node in nodes.live()
    }
