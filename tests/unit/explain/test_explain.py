"""Explanations of the story cluster: outcome, numbers, order, choice, and the shape of the JSON."""

from typing import Any

import msgspec

from podberth.explain.explain import explain
from podberth.framework.config import decode, default_configuration
from podberth.framework.interface import ANYTHING, Plugin, PostFilterResult, Profile
from podberth.framework.profiles import build
from podberth.framework.runtime import Framework
from podberth.framework.status import Unschedulable
from podberth.model.pod import Pod
from podberth.plugins.registry import IN_TREE
from tests.builders import configuration, container, namespace, node, pod, profile
from tests.unit.explain.story import BIG, CLUSTER, DB, WEB, explained, framework, why, world

Object = dict[str, Any]


def test_the_numbers_are_data_too() -> None:
    """A shortage is given in the scheduler's own units."""
    answer = explained(pod("p", "500m"), [node("n", "4"), pod("q", "3680m", on="n")])
    [finding] = answer.rejected[0].findings
    assert finding.numbers == {"resource": "cpu", "needed": 500, "free": 320, "allocatable": 4000, "requested": 3680}


def test_nodes_closest_to_fitting_come_first() -> None:
    """Fewer plugins against it, then fewer for good, then the smaller shortage."""
    objects = [
        node("tainted-and-small", "1", taints=["x:NoSchedule"]),
        node("much-too-small", "2"),
        node("full", "8"),
        pod("q", "7", on="full"),
        node("nearly", "8"),
        pod("r", "5", on="nearly"),
    ]
    answer = explained(pod("p", "4"), objects)
    assert [each.node for each in answer.rejected] == ["nearly", "full", "much-too-small", "tainted-and-small"]


def test_the_message_is_kube_schedulers() -> None:
    """Reasons counted and sorted as text, then what preemption says."""
    answer = explained(BIG)
    assert answer.outcome == "unschedulable"
    assert answer.message is not None
    assert answer.message.startswith("0/5 nodes are available: 1 Too many pods, 1 node(s) didn't match Pod's node")
    assert "preemption: 0/5 nodes are available: 1 No preemption victims found for incoming pod" in answer.message
    counts = [(each.nodes, each.reason) for each in answer.summary]
    assert counts[:2] == [(2, "Insufficient cpu"), (2, "Insufficient memory")]


def test_why_the_winner_won() -> None:
    """The lead over the runner-up, by plugin, largest first."""
    choice = explained(WEB).choice
    assert choice is not None
    assert (choice.node, choice.best, choice.runner_up) == ("a-2", ["a-2"], "a-1")
    assert choice.lead == sum(each.difference for each in choice.differences) > 0
    assert choice.text == f"{choice.lead} points ahead of a-1: NodeResourcesFit +{choice.lead}"


def test_totals_are_the_sum_of_the_weighted_scores() -> None:
    """The scores add up to the totals, and the ranks follow these."""
    answer = explained(pod("p", "100m"), [*CLUSTER, node("n", "4"), node("m", "4")])
    for each in answer.feasible:
        assert each.total == sum(score.weighted for score in each.scores.values())
    assert [each.rank for each in answer.feasible] == sorted(each.rank for each in answer.feasible)
    assert (answer.scorers[0].plugin, answer.scorers[0].weight) == ("TaintToleration", 3)


def test_ties_are_said() -> None:
    """Equal nodes share a rank, and no winner is named."""
    answer = explained(pod("p"), [node("n"), node("m")])
    assert [each.rank for each in answer.feasible] == [1, 1]
    assert answer.choice is not None
    assert answer.choice.node is None
    assert answer.choice.text.startswith("2 nodes share ")
    assert "seed" in answer.choice.text


def test_a_gated_pod_is_told_where_it_could_go() -> None:
    """The gates are the reason, removing them the remedy, and the nodes are shown all the same."""
    answer = explained(pod("p", gates=["a", "b"]), [node("n")])
    assert answer.outcome == "gated"
    assert answer.message == "waiting for scheduling gates: [a b]"
    assert [each.node for each in answer.feasible] == ["n"]
    assert [each.text for each in answer.remedies] == ["remove the scheduling gates a, b"]


def test_preemption_is_named() -> None:
    """The node and the pods that would have to go."""
    answer = explained(pod("p", "4", priority=10), [node("n", "4"), pod("low", "1", on="n", priority=1)])
    assert answer.preemption is not None
    assert (answer.preemption.node, answer.preemption.victims) == ("n", ["default/low"])


def test_no_nodes() -> None:
    """An empty cluster has its own words."""
    answer = explained(pod("p"), [])
    assert (answer.outcome, answer.message) == ("unschedulable", "no nodes available to schedule pods")


def test_a_verdict_on_the_pod_as_a_whole() -> None:
    """PreFilter's refusal is told instead of nodes."""
    answer = explained(pod("p", need=["@name in n;@name in m"]), [node("n"), node("m")])
    assert answer.verdict is not None
    assert (answer.verdict.plugin, answer.verdict.reason) == ("NodeAffinity", "pod affinity terms conflict")
    assert not answer.rejected


def test_nodes_that_prefilter_left_out() -> None:
    """They are rejected by the plugin that named the others."""
    answer = explained(pod("p", "8", need=["@name in n"]), [node("n"), node("m")])
    assert why(answer, "m") == [
        "metadata.name = n",
        "NodeResourcesFit: needs 8 cpu, the whole node has 4 (0 requested)",
    ]


def test_a_namespace_selector_without_namespaces_is_noted() -> None:
    """A dump that was made without namespaces answers such terms wrong, so that is said."""
    term = {"topologyKey": "x", "labelSelector": {}, "namespaceSelector": {"matchLabels": {"team": "a"}}}
    incoming = pod("p", near=[term])
    assert explained(incoming, [node("n")]).notes
    assert not explained(incoming, [node("n"), namespace("default")]).notes


class Odd(Plugin):
    """A third party's filter: one node is odd, and it has no numbers here."""

    name = "Odd"
    depends_on = ANYTHING
    fails = False

    def filter(self, pod: Pod, cluster: Any) -> Any:
        """Reject the first row."""
        if self.fails:
            raise RuntimeError("no idea")
        mask = cluster.nodes.alive[: cluster.nodes.rows].copy()
        mask[1:] = False
        return ((Unschedulable("node(s) were odd"), mask),)


def odd_framework(**attributes: Any) -> Any:
    """The default profile with Odd in front of its filters."""
    made = framework()
    plugin = Odd()
    vars(plugin).update(attributes)
    return type(made)(
        type(made.profile)("odd", made.profile.points | {"filter": (plugin, *made.profile.plugins("filter"))}, {})
    )


def test_a_third_partys_plugin_is_told_by_its_reason() -> None:
    """Without numbers of its own the reason's text stands."""
    there = world([node("n")])
    incoming = there.decode(pod("p"))
    assert isinstance(incoming, Pod)
    answer = explain(incoming, odd_framework(), there.cluster)
    assert (answer.profile, why(answer, "n")) == ("odd", ["node(s) were odd"])


def test_a_plugin_that_fails_is_named() -> None:
    """The pod's decision failed, under the plugin's name, without a traceback."""
    there = world([node("n")])
    incoming = there.decode(pod("p"))
    assert isinstance(incoming, Pod)
    answer = explain(incoming, odd_framework(fails=True), there.cluster)
    assert answer.outcome == "failed"
    assert answer.message == 'running Filter plugin "Odd": no idea'
    assert answer.verdict is not None
    assert answer.verdict.plugin == "Odd"


def test_a_plugin_that_fails_before_the_queue_is_named() -> None:
    """As one that fails later."""

    class Early(Plugin):
        name = "Early"

        def pre_enqueue(self, pod: Pod) -> Any:
            raise RuntimeError("no idea")

    points = framework().profile.points | {"pre_enqueue": (Early(),)}
    there = world([node("n")])
    incoming = there.decode(pod("p"))
    assert isinstance(incoming, Pod)
    early = Framework(Profile("early", points, {}))
    answer = explain(incoming, early, there.cluster)
    assert (answer.outcome, answer.message) == ("failed", 'running PreEnqueue plugin "Early": no idea')


def test_preemption_that_fails_is_said() -> None:
    """Of a pod that may not preempt it is tried what would be if it might; a plugin that fails then is named."""

    class Broken(Plugin):
        name = "Broken"

        def post_filter(self, pod: Pod, *_: Any) -> Any:
            if pod.preempts:
                raise RuntimeError("no idea")
            return PostFilterResult("")

    points = framework().profile.points | {"post_filter": (Broken(),)}
    there = world([node("n", "1"), pod("q", "1", on="n")])
    made = pod("p", "1", priority=5)
    made["spec"]["preemptionPolicy"] = "Never"
    incoming = there.decode(made)
    assert isinstance(incoming, Pod)
    answer = explain(incoming, Framework(Profile("broken", points, {})), there.cluster)
    said = 'running PostFilter plugin "Broken": no idea'
    assert answer.outcome == "unschedulable"
    assert f"whether the pod would get a node if it might preempt is not known: {said}" in answer.notes


def test_constraints_by_default_have_numbers() -> None:
    """Pods without spread constraints of their own are held to the profile's, and told by how much they fail."""
    default = {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}
    args = {"defaultingType": "List", "defaultConstraints": [default]}
    [made] = build(decode(configuration(profile(PodTopologySpread=args))), IN_TREE).values()
    service = {"kind": "Service", "metadata": {"name": "web", "namespace": "default"}, "spec": {"selector": {"a": "b"}}}
    nodes = [node("n", zone="a"), node("m", zone="b", cordoned=True), node("o")]
    there = world([namespace("default"), service, *nodes, pod("q", on="n", labels={"a": "b"})])
    incoming = there.decode(pod("p", labels={"a": "b"}))
    assert isinstance(incoming, Pod)
    answer = explain(incoming, made, there.cluster)
    assert why(answer, "n") == ["zone a has 1 of its pods, zone b has 0: skew 2, at most 1"]
    assert why(answer, "o") == ["node has no label topology.kubernetes.io/zone"]
    assert not any("ScheduleAnyway" in remedy.text for remedy in answer.remedies)


def test_explaining_changes_nothing() -> None:
    """After all the trying the same question gets the same answer."""
    there = world(CLUSTER)
    for incoming in (BIG, DB):
        decoded = there.decode(incoming)
        assert isinstance(decoded, Pod)
        first = explain(decoded, framework(), there.cluster)
        assert first.remedies
        assert explain(decoded, framework(), there.cluster) == first


def test_a_toleration_that_compares_without_the_gate() -> None:
    """The operator is named, and what it would take."""
    answer = explained(pod("p", tolerate=["sla>950"]), [node("n", taints=["sla=999:NoSchedule"])])
    assert why(answer, "n") == [
        "untolerated sla=999:NoSchedule (the pod tolerates sla>950, but Gt counts with the gate "
        "TaintTolerationComparisonOperators only)"
    ]


def test_scores_by_a_configured_profile() -> None:
    """Weights of the configuration show in the scorers."""
    config = msgspec.structs.replace(default_configuration())
    [made] = build(config, IN_TREE).values()
    there = world([node("n"), node("m")])
    decoded = there.decode(pod("p", containers=[container(image="a")]))
    assert isinstance(decoded, Pod)
    answer = explain(decoded, made, there.cluster)
    assert {s.plugin: s.weight for s in answer.scorers}["TaintToleration"] == made.profile.weights["TaintToleration"]


def shape(value: Any) -> Any:
    """Field names and types of a JSON value, lists by their first element, and maps of plugins by any."""
    if isinstance(value, dict):
        return {key: shape(each) for key, each in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return type(value).__name__


def test_the_json_keeps_its_shape() -> None:
    """Scripts rely on these names: add fields, never rename or drop one."""
    rejected = msgspec.json.decode(msgspec.json.encode(explained(BIG)))
    fits = msgspec.json.decode(msgspec.json.encode(explained(WEB)))
    score = {"raw": "int", "weighted": "int"}
    numbers = dict.fromkeys(("needed", "free", "allocatable", "requested"), "int") | {"resource": "str"}
    finding = {"plugin": "str", "reason": "str", "unresolvable": "bool", "detail": "str", "numbers": numbers}
    change = {"kind": "str", "key": "str", "value": "str", "effect": "str"}
    effects = {"lands": [], "landed": "int", "moved": {}, "loses": [], "refused": {}, "unmade": [], "relies": []}
    remedy = {"text": "str", "changes": [change], "nodes": ["str"], "instead": [], "commands": ["str"]}
    assert shape(rejected) == {
        "apiVersion": "str",
        "kind": "str",
        "outcome": "str",
        "pod": {
            "namespace": "str",
            "name": "str",
            "node": "NoneType",
            "schedulerName": "str",
            "priority": "int",
            "requests": {"cpu": "str", "memory": "str"},
        },
        "profile": "str",
        "nodes": {"total": "int", "feasible": "int"},
        "message": "str",
        "verdict": "NoneType",
        "choice": "NoneType",
        "scorers": [],
        "feasible": [],
        "rejected": [{"node": "str", "plugin": "str", "code": "str", "findings": [finding], "also": []}],
        "summary": [{"plugin": "str", "reason": "str", "nodes": "int"}],
        "preemption": "NoneType",
        "remedies": [{**remedy, "effects": effects}],
        "notes": [],
        "promise": "NoneType",
        "cause": "str",
        "unheld": [],
    }
    assert shape(fits["choice"]) == {
        "best": ["str"],
        "node": "str",
        "text": "str",
        "runnerUp": "str",
        "lead": "int",
        "differences": [{"plugin": "str", "difference": "int"}],
    }
    assert shape(fits["scorers"]) == [{"plugin": "str", "weight": "int"}]
    plugins = [scorer["plugin"] for scorer in fits["scorers"]]
    assert shape(fits["feasible"]) == [
        {"node": "str", "rank": "int", "total": "int", "scores": dict.fromkeys(plugins, score), "devices": {}}
    ]


def nearest(incoming: Object, *objects: Object) -> list[str]:
    """The nodes that can't take a pod, the nearest first."""
    return [node.node for node in explained(incoming, [namespace("default"), *objects]).rejected]


def test_the_node_that_a_pod_is_pinned_to_is_the_nearest() -> None:
    """However much is in its way there, and whatever the others lack."""
    objects = [node("z", "1"), node("a", "8"), node("b", "8"), pod("q", "1", on="z", ports=["80"])]
    assert nearest(pod("p", "1", ports=["80"], select={"host": "z"}), *objects)[0] == "z"
    assert nearest(pod("p", "1", ports=["80"], need=["@name in z"]), *objects)[0] == "z"


def test_what_is_missing_counts_and_not_who_says_so() -> None:
    """A node that lacks only a toleration is nearer than one that lacks both cpu and the device."""
    objects = [
        node("gpu", "8", others={"nvidia.com/gpu": "4"}, taints=["gpu:NoSchedule"]),
        node("a", "1"),
        node("little", "8", others={"nvidia.com/gpu": "4"}),
        pod("q", "7", on="little"),
    ]
    asked = pod("p", "2", others={"nvidia.com/gpu": "1"})
    assert nearest(asked, *objects) == ["little", "gpu", "a"]
