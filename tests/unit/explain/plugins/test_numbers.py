"""The numbers behind each plugin's rejections."""

import json
from typing import Any

import pytest

from podberth.explain.rejections import Asking
from podberth.framework.config import decode
from podberth.framework.explaining import Inquiry
from podberth.framework.profiles import build
from podberth.model.pod import Pod
from podberth.plugins.registry import IN_TREE
from tests.builders import configuration, namespace, node, pod, profile
from tests.unit.explain.story import explained, why, world

Object = dict[str, Any]

SPREAD = {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}
SPREAD |= {"labelSelector": {"matchLabels": {"app": "web"}}}


def spreading(name: str) -> Object:
    """A pod that spreads over zones with its like."""
    made = pod(name, labels={"app": "web"})
    made["spec"]["topologySpreadConstraints"] = [SPREAD]
    return made


@pytest.mark.parametrize(
    ("incoming", "objects", "want"),
    [
        pytest.param(
            pod("p", "500m"),
            [node("n", "4"), pod("q", "3680m", on="n")],
            ["needs 500m cpu, 320m free of 4 (3680m requested)"],
            id="cpu",
        ),
        pytest.param(
            pod("p", memory="2Gi"),
            [node("n", memory="4Gi"), pod("q", memory="3Gi", on="n")],
            ["needs 2Gi memory, 1Gi free of 4Gi (3Gi requested)"],
            id="memory",
        ),
        pytest.param(
            pod("p", memory="1073741825"),
            [node("n", memory="4Gi"), pod("q", memory="3Gi", on="n")],
            ["needs 1073741825 memory, 1Gi free of 4Gi (3Gi requested)"],
            id="memory that rounds to the same",
        ),
        pytest.param(
            pod("p", "1"),
            [node("n", "1"), pod("q", "2", on="n")],
            ["needs 1 cpu, none free of 1 (2 requested)"],
            id="overcommitted",
        ),
        pytest.param(
            pod("p", "8"), [node("n", "4")], ["needs 8 cpu, the whole node has 4 (0 requested)"], id="beyond the node"
        ),
        pytest.param(
            pod("p", others={"example/gpu": "2"}),
            [node("n", others={"example/gpu": "4"}), pod("q", others={"example/gpu": "3"}, on="n")],
            ["needs 2 example/gpu, 1 free of 4 (3 requested)"],
            id="a single one is free",
        ),
        pytest.param(
            pod("p", others={"example/gpu": "1"}),
            [node("n")],
            ["needs 1 example/gpu, the node has none"],
            id="scalar",
        ),
        pytest.param(pod("p"), [node("n", pods="1"), pod("q", on="n")], ["1 of 1 pods"], id="pods"),
        pytest.param(
            pod("p"),
            [node("n", taints=["gpu=true:NoSchedule", "old:NoExecute", "soft:PreferNoSchedule"])],
            ["untolerated gpu=true:NoSchedule, old:NoExecute"],
            id="taints",
        ),
        pytest.param(
            pod("p", tolerate=["gpu=false:NoSchedule"]),
            [node("n", taints=["gpu=true:NoSchedule"])],
            ["untolerated gpu=true:NoSchedule (the pod tolerates gpu=false:NoSchedule)"],
            id="nearly tolerated",
        ),
        pytest.param(pod("p"), [node("n", cordoned=True)], ["cordoned"], id="cordoned"),
        pytest.param(
            pod("p"),
            [node("n", cordoned=True, taints=["node.kubernetes.io/unschedulable:NoSchedule"])],
            ["cordoned"],
            id="cordoned and tainted so",
        ),
        pytest.param(
            pod("p", "8"),
            [node("n", "4", taints=["gpu:NoSchedule"])],
            ["untolerated gpu:NoSchedule", "NodeResourcesFit: needs 8 cpu, the whole node has 4 (0 requested)"],
            id="two plugins",
        ),
        pytest.param(
            pod("p", select={"disk": "ssd"}),
            [node("n", labels={"disk": "hdd"})],
            ["disk=ssd: node has hdd"],
            id="nodeSelector",
        ),
        pytest.param(
            pod("p", need=["zone in a,b"]),
            [node("n", zone="c")],
            ["topology.kubernetes.io/zone in (a, b): node has c"],
            id="required",
        ),
        pytest.param(pod("p", need=["disk"]), [node("n")], ["disk exists: node has no such label"], id="absent label"),
        pytest.param(
            pod("p", need=["disk=ssd;gen > 3", "disk=nvme;gen > 9;gpu"]),
            [node("n", labels={"disk": "ssd", "gen": "2"})],
            ["none of 2 terms, nearest: gen > 3: node has 2"],
            id="nearest term",
        ),
        pytest.param(
            pod("p", need=[""]),
            [node("n")],
            ["no term of the required node affinity can match a node"],
            id="empty term",
        ),
        pytest.param(
            pod("p", ports=["80"]),
            [node("n"), pod("q", on="n", ports=["10.0.0.1:80"])],
            ["TCP 80 is taken by default/q"],
            id="ports",
        ),
        pytest.param(
            pod("p", near=["app=db per zone"]),
            [node("n", zone="a"), node("m", zone="b"), pod("db", on="m", labels={"app": "db"})],
            ["0 pods with app=db in zone a (there is 1 in b)"],
            id="near",
        ),
        pytest.param(
            pod("p", near=["app=db per zone"]),
            [node("n", zone="a")],
            ["0 pods with app=db in zone a, nor anywhere else"],
            id="near nobody",
        ),
        pytest.param(
            pod("p", near=["app=db per zone"]),
            [node("n")],
            ["node has no label topology.kubernetes.io/zone"],
            id="near without the label",
        ),
        pytest.param(
            pod("p", apart=["app=db per zone"]),
            [node("n", zone="a"), *[pod(f"db-{i}", on="n", labels={"app": "db"}) for i in range(5)]],
            ["default/db-0, default/db-1, default/db-2 and 2 more are in zone a: wants no pods with app=db there"],
            id="apart",
        ),
        pytest.param(
            pod("p", apart=["app=db per zone"]),
            [node("n", zone="a"), *[pod(f"db-{i}", on="n", labels={"app": "db"}) for i in range(3)]],
            ["default/db-0, default/db-1, default/db-2 are in zone a: wants no pods with app=db there"],
            id="apart from as many as are named",
        ),
        pytest.param(
            pod("p", labels={"app": "web"}),
            [node("n"), pod("lone", on="n", apart=["app=web per host"])],
            ["default/lone is in hostname n: keeps away pods with app=web"],
            id="repelled",
        ),
        pytest.param(
            spreading("p"),
            [node("n", zone="a"), node("m", zone="b", cordoned=True), pod("web-0", on="n", labels={"app": "web"})],
            ["zone a has 1 of its pods, zone b has 0: skew 2, at most 1"],
            id="spread",
        ),
        pytest.param(
            spreading("p"),
            [node("n"), node("m", zone="b")],
            ["node has no label topology.kubernetes.io/zone"],
            id="spread without the label",
        ),
    ],
)
def test_numbers(incoming: Object, objects: list[Object], want: list[str]) -> None:
    """Each reason comes with its numbers."""
    assert why(explained(incoming, [namespace("default"), *objects]), "n") == want


def test_an_empty_label_is_told_from_none() -> None:
    """Also by plugins that a profile has to switch on; fields of a node are no labels."""
    on = {"multiPoint": {"enabled": [{"name": "ServiceAffinity"}, {"name": "RequiredDuringExecution"}]}}
    made = profile(plugins=on, ServiceAffinity={"affinityLabels": ["rack", "row"]})
    framework = build(decode(configuration(made)), IN_TREE)["berth"]
    incoming = pod("p", select={"rack": "r", "row": "1"})
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["m"]}]}
    promise = json.dumps({"nodeSelectorTerms": [term]})
    incoming["metadata"]["annotations"] = {"podberth.dev/required-during-execution": promise}
    there = world([node("n", labels={"rack": ""})])
    asked = there.decode(incoming)
    assert isinstance(asked, Pod)
    asking = Asking(Inquiry(asked, there.cluster), framework)
    assert {
        plugin.name: asking.detail(0, plugin.name, reason)[0]
        for plugin in framework.profile.plugins("filter")
        if plugin.name in ("ServiceAffinity", "RequiredDuringExecution")
        for reason, rows in plugin.filter(asked, there.cluster)
        if rows[0]
    } == {
        "ServiceAffinity": "rack=r: node has an empty value; row=1: node has no such label",
        "RequiredDuringExecution": "metadata.name = m",
    }
