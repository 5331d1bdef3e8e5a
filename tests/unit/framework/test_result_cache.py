"""What pods share of what is kept, and that it is bounded."""

from typing import Any

import pytest

from podberth.cache.cluster import Cluster
from podberth.explain.objects.world import World
from podberth.framework import result_cache
from podberth.framework.config import decode, default_configuration
from podberth.framework.profiles import build
from podberth.framework.runtime import Framework
from podberth.kit import NODE, Ints, Plugin, Pod, Rejections, Rows, Unschedulable
from podberth.model import wire
from podberth.model.kinds import Decoder
from tests.builders import Object, configuration, node, pod, profile
from tests.registered import registry
from tests.unit.plugins.small import a_pod, cluster

NODES = [node(f"n{i}", zone="ab"[i % 2], cpu="8") for i in range(20)]
DB = "app=db per zone"
AWAY = [(5, {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "kubernetes.io/hostname"})]


def framework() -> Framework:
    return build(default_configuration(), registry())["berth"]


def looks(*documents: Object) -> int:
    """How many of these decisions had to look at all nodes, of a framework that is new."""
    made, there = framework(), cluster(*NODES)
    for document in documents:
        made.decide_quickly(a_pod(document), there)
    return made.computed


@pytest.mark.parametrize(
    ("id_", "documents", "wanted"),
    [
        ("once is not kept", [{"cpu": "1"}, {"cpu": "1"}, {"cpu": "1"}, {"cpu": "1"}], 2),
        ("other sizes", [{"cpu": "1"}, {"cpu": "2"}, {"cpu": "3"}], 3),
        ("other terms, same size", [{"cpu": "1"}, {"cpu": "1"}, {"cpu": "1", "rather_apart": AWAY}], 2),
        ("other namespaces, same size", [{"cpu": "1", "namespace": name} for name in "abcd"], 2),
        ("other ports", [{"ports": ("80",)}, {"ports": ("80",)}, {"ports": ("81",)}], 3),
        ("other nodes wanted, same size", [{"cpu": "1", "where": f"zone in {zone}"} for zone in "abab"], 2),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_pods_of_one_signature_share(id_: str, documents: list[dict[str, Any]], wanted: int) -> None:
    """What is on nodes is looked at once for all pods of one size and ports, whatever else they ask for."""
    where = [document.pop("where", None) for document in documents]
    made = [
        pod(f"p{i}", **parts) | {} if text is None else _wanting(pod(f"p{i}", **parts), text)
        for i, (parts, text) in enumerate(zip(documents, where, strict=True))
    ]
    assert looks(*made) == wanted


def _wanting(document: Object, text: str) -> Object:
    key, _, value = text.partition(" in ")
    document["spec"]["nodeSelector"] = {"topology.kubernetes.io/zone" if key == "zone" else key: value}
    return document


def test_classes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond what may be kept, those that were not asked for longest go, and answers stay right."""
    monkeypatch.setattr(result_cache, "KEPT_BYTES", 3 * 20 * 40)
    monkeypatch.setattr(result_cache, "SHAPES", 2)
    made, there = framework(), cluster(*NODES)
    for i in [*range(6), *range(6), *range(6), 0, 0, 0, 5, 5, 5]:
        asking = a_pod(pod(f"p{i}", cpu=f"{100 + i}m"))
        assert made.decide_quickly(asking, there).best().tolist() == made.decide(asking, there).best().tolist()
    assert max(made.kept()[:3]) <= 3
    assert made.kept().shapes <= 2


def test_a_class_in_use_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """One tenant's pods of which no two are alike do not push out what pods of others share, as long as these come."""
    monkeypatch.setattr(result_cache, "KEPT_BYTES", 4 * 20 * 40)
    made, there = framework(), cluster(*NODES)
    for name in ("web", "web-too"):
        made.decide_quickly(a_pod(pod(name, cpu="1")), there)
    for i in range(20):
        made.decide_quickly(a_pod(pod(f"p{i}", cpu=f"{100 + i}m")), there)
        before = made.computed
        made.decide_quickly(a_pod(pod(f"web-{i}", cpu="1")), there)
        assert made.computed == before


def test_shapes_that_are_big_themselves_are_not_kept() -> None:
    """A tenant's pods of 100 KB each, asked about again and again: no class holds them, and decisions are the same."""
    made = framework()
    there = cluster(*(node(f"n{i}", taints=[f"k{i}=v:NoSchedule"]) for i in range(3)))
    for i in range(5):
        document = pod(f"p{i}", uid=f"p{i}")
        others = [{"key": f"other-{i}-{j}", "operator": "Exists"} for j in range(3000)]
        document["spec"]["tolerations"] = [{"key": f"k{i % 3}", "operator": "Exists"}, *others]
        big = a_pod(document)
        for _ in range(4):
            assert made.decide_quickly(big, there).best().tolist() == [i % 3]
    assert made.kept() == (0, 0, 0, 0)


class Quiet:
    """Spans that nobody reads."""

    def begin(self) -> None:
        """Nothing is measured."""

    def end(self, point: str, status: str) -> None:
        """Nothing was measured."""


def asked_about(document: Object) -> set[tuple[str, str]]:
    """(plugin, point) that are asked about a pod whose kind is kept."""
    return asked_in(framework(), cluster(*NODES), document)


def asked_in(made: Framework, there: Cluster, document: Object) -> set[tuple[str, str]]:
    """(plugin, point) that are asked about a pod after three equal ones."""
    asked: set[tuple[str, str]] = set()

    def note(plugin: Any, point: Any, *args: Any) -> Any:
        asked.add((plugin.name, point.__name__))
        return point(*args)

    made.listen(None, lambda point, status: None, Quiet())
    for _ in range(3):
        made.decide_quickly(a_pod(document), there)
    made.listen(note, lambda point, status: None, Quiet())
    made.decide_quickly(a_pod(document), there)
    return asked


def test_who_has_nothing_to_say_is_not_asked() -> None:
    """For an ordinary pod, no plugin is asked at a point where it speaks of others only."""
    asked = asked_about(pod("p"))
    speak_of_others = {"NodeName", "NodeAffinity", "PodTopologySpread", "InterPodAffinity", "ImageLocality"}
    assert not {plugin for plugin, _ in asked} & speak_of_others


@pytest.mark.parametrize(
    ("comes", "asked"),
    [
        (
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": "s", "namespace": "default", "uid": "s"},
                "spec": {"selector": {"app": "web"}},
            },
            {("PodTopologySpread", "score")},
        ),
        (
            pod("a", on="n1", apart=["app=web per zone"]),
            {("InterPodAffinity", "filter"), ("InterPodAffinity", "score")},
        ),
        (pod("b", on="n1", apart=["app=db per zone"]), set()),
        (node("m", images={"shop:1": 200 << 20}), {("ImageLocality", "score")}),
    ],
    ids=("a Service", "a term that means the pod", "a term that means others", "an image"),
)
def test_who_was_idle_is_asked_once_it_has_something_to_say(comes: Object, asked: set[tuple[str, str]]) -> None:
    """What comes counts for the next pod, though equal ones came before."""
    web = pod("p", labels={"app": "web"}, images=["shop:1"])
    made, world = framework(), World()
    world.add_all(NODES)
    beyond_nodes = {"PodTopologySpread", "InterPodAffinity", "ImageLocality"}
    assert not {plugin for plugin, _ in asked_in(made, world.cluster, web)} & beyond_nodes
    world.add_all([comes])
    now = {one for one in asked_in(made, world.cluster, web) if one[0] in beyond_nodes and one[1] != "normalize"}
    assert now == asked
    coming = a_pod(web)
    in_full = made.decide(coming, world.cluster).best().tolist()
    assert made.decide_quickly(coming, world.cluster).best().tolist() == in_full


def test_who_is_idle_is_known_of_each_kind_of_pods() -> None:
    """Pods of one class differ in images, terms, labels and namespaces, which are no part of what the class shares."""
    made, there = framework(), cluster(*NODES, node("m", images={"shop:1": 200 << 20}), pod("b", on="n1", apart=[DB]))
    plain, imaged = pod("p", images=["bank:1"]), pod("p", images=["shop:1"])
    others = {
        "plain": (plain, set()),
        "image": (imaged, {"ImageLocality"}),
        "terms": (pod("p", images=["bank:1"], rather_apart=[(5, DB)]), {"InterPodAffinity"}),
        "labels": (pod("p", images=["bank:1"], labels={"app": "db"}), {"InterPodAffinity"}),
        "plain again": (plain, set()),
        "elsewhere": (pod("p", images=["bank:1"], labels={"app": "db"}, namespace="other"), set()),
    }
    for name, (document, wanted) in others.items():
        asked = {plugin for plugin, _ in asked_in(made, there, document)}
        assert asked & {"InterPodAffinity", "ImageLocality"} == wanted, name
    assert made.kept().classes == 1


def test_who_may_have_something_to_say_is_asked() -> None:
    """Constraints that must hold are asked about at Filter, and the others at Score."""
    spread = {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "labelSelector": {}}
    for must, wanted in (("DoNotSchedule", "filter"), ("ScheduleAnyway", "score")):
        document = pod("p")
        document["spec"]["topologySpreadConstraints"] = [{**spread, "whenUnsatisfiable": must}]
        asked = asked_about(document)
        points = {point for plugin, point in asked if plugin == "PodTopologySpread"}
        assert points - {"normalize"} == {wanted}


def test_a_pod_whose_terms_name_nodes_is_narrowed() -> None:
    """NodeAffinity is asked at PreFilter about such a pod."""
    document = pod("p")
    field = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
    required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    document["spec"]["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    assert ("NodeAffinity", "pre_filter") in asked_about(document)


class QuietNodes(Plugin):
    """Takes no part while no node has its label. Its filter and its score ask different things of the same values."""

    name = "QuietNodes"
    depends_on = NODE
    loud = Unschedulable("loud")

    def filter(self, pod: Pod, cluster: Cluster) -> Rejections:
        """Reject nodes that are loud."""
        nodes = cluster.nodes
        return [(self.loud, nodes.label("noise").where(nodes.rows, self.name, lambda value: value == "loud"))]

    def score(self, pod: Pod, cluster: Cluster, feasible: Rows) -> Ints | None:
        """Prefer nodes that say that they are quiet."""
        column = cluster.nodes.label("noise")
        if column.blank:
            return None
        found: Ints = column.map(cluster.nodes.rows, self.name, lambda value: 100 if value == "none" else 0)[feasible]
        return found


def test_who_took_no_part_takes_part_once_it_has_something_to_say() -> None:
    """A node that comes with a label changes the scores that are kept of pods that were there before."""
    config = decode(configuration(profile("berth", {"multiPoint": {"enabled": [{"name": "QuietNodes"}]}})))
    made = build(config, {**registry(), "QuietNodes": QuietNodes})["berth"]
    there, decoder = Cluster(), Decoder()
    for i in range(16):
        there.put_node(decoder.node(wire.encode(node(f"n{i}"))))
    for i in range(3):
        assert len(made.decide_quickly(decoder.pod(wire.encode(pod(f"before-{i}"))), there).best()) == 16
    asking = decoder.pod(wire.encode(pod("after")))
    there.put_node(decoder.node(wire.encode(node("n3", labels={"noise": "none"}))))
    assert made.decide_quickly(asking, there).best().tolist() == [3]
    there.put_node(decoder.node(wire.encode(node("n3", labels={"noise": "loud"}))))
    assert len(made.decide_quickly(asking, there).best()) == 15
