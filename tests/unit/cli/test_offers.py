"""Offers of `berth explain` are carried out, and hold: situations from public threads, and others of their kinds. The
files of `situations` came with the answers.
"""

import json
import shlex
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from podberth.apiserver.rules.patch import JSON_PATCH, STRATEGIC_PATCH, apply_patch
from tests.builders import namespace, node, pod
from tests.unit.cli.conftest import Berth

Object = dict[str, Any]
FILES = Path(__file__).parent / "situations"
MORE = "add a node like n1"


def asked(berth: Berth, name: str, cluster: str | list[Object], *more: str) -> Object:
    """The explanation of a pod, of a file in `situations` or of these objects."""
    if isinstance(cluster, list):
        Path("cluster.json").write_text(json.dumps({"kind": "List", "items": [namespace("default"), *cluster]}))
    path = "cluster.json" if isinstance(cluster, list) else str(FILES / cluster)
    found = berth("explain", *([name] if name else []), *more, "--cluster", path, "-o", "json")
    assert found.err == ""
    answer: Object = json.loads(found.out)
    return answer


def offers(answer: Object) -> dict[str, list[str]]:
    """Change → its commands."""
    return {each["text"]: each["commands"] for each in answer["remedies"]}


def owned(made: Object, kind: str, name: str) -> Object:
    """A pod of a controller; of a ReplicaSet of the Deployment `name`."""
    labels = made["metadata"].setdefault("labels", {})
    if kind == "Deployment":
        labels["pod-template-hash"], kind, name = "5f6", "ReplicaSet", f"{name}-5f6"
    reference = {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": f"u-{name}", "controller": True}
    made["metadata"]["ownerReferences"] = [reference]
    return made


def daemon(made: Object, name: str) -> Object:
    """A DaemonSet's pod."""
    return owned(made, "DaemonSet", name)


def static(made: Object) -> Object:
    """The mirror of a static pod."""
    made["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    return made


def with_spec(made: Object, **spec: Any) -> Object:
    """A pod with other fields of its spec."""
    made["spec"] |= spec
    return made


def nominated(made: Object, on: str = "n1", *, terminating: bool = False) -> Object:
    """A pod that a node is kept for."""
    made["status"] = {"phase": "Pending", "nominatedNodeName": on}
    if terminating:
        made["metadata"]["deletionTimestamp"] = "2026-09-01T00:00:00Z"
    return made


# --- a new node has what each node has --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("there", "offered"),
    [
        ([daemon(pod("agent", "500m", on="n1"), "agent")], False),
        ([static(pod("proxy", "500m", on="n1"))], False),
        ([daemon(with_spec(pod("agent", on="n1"), hostNetwork=True), "agent"), pod("w", "500m", on="n1")], True),
        (
            [
                node("n2", "4"),
                daemon(with_spec(pod("old", "500m", on="n1")), "agent"),
                daemon(pod("other", "500m", on="n2"), "agent"),
            ],
            False,
        ),
    ],
)
def test_a_new_node_gets_the_pods_of_every_node(berth: Berth, there: list[Object], *, offered: bool) -> None:
    """It is offered only if the pod fits beside them; one that is being replaced comes, too."""
    for each in there:
        if each["metadata"]["name"] == "old":
            each["metadata"]["deletionTimestamp"] = "2026-09-01T00:00:00Z"
    answer = asked(berth, "big", [node("n1", "4"), *there, pod("big", "4"), pod("x", "1", on="n1")])
    assert (MORE in offers(answer)) == offered


def test_explain_and_capacity_agree_on_a_new_node(berth: Berth) -> None:
    """Neither has the pod on a node more; of those that wait, one is helped that fits beside the DaemonSet's."""
    cluster = "11-daemons-of-a-new-node/cl.json"
    assert list(offers(asked(berth, "big", cluster))) == ["ask for 2500m cpu instead of 4"]
    file = str(FILES / "11-daemons-of-a-new-node/q.json")
    found = berth("capacity", "-f", file, "--cluster", str(FILES / cluster), "-o", "json")
    assert json.loads(found.out)["oneMore"] == [{"like": "n1", "nodes": 2, "adds": 0}]
    shared = {each["text"]: each["pods"] for each in asked(berth, "", cluster, "--pending", "-A")["changes"]}
    assert shared[MORE] == 1


# --- pods of a node ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "cluster", "want"),
    [
        ("agent-x", "12-pods-of-the-node/ds.json", {"ask for 500m cpu instead of 1", "move default/big off n1"}),
        ("ne-x", "12-pods-of-the-node/dsgone.json", set()),
        ("big", "12-pods-of-the-node/dsmove.json", {"ask for 3500m cpu instead of 4"}),
        ("ne2", "12-pods-of-the-node/dsport.json", {"do without host port TCP 9100"}),
        (
            "big",
            [node("n1", "4"), static(pod("proxy", "500m", on="n1")), pod("big", "4")],
            {"ask for 3500m cpu instead of 4"},
        ),
        (
            "web",
            [
                node("n1", zone="a"),
                daemon(pod("agent", on="n1", labels={"app": "agent"}, apart=["app=web per zone"]), "agent"),
                pod("web", labels={"app": "web"}),
            ],
            set(),
        ),
        ("agent", [node("n1", "1"), node("n2", "4"), daemon(pod("agent", "2", need=["@name in n11"]), "agent")], set()),
    ],
)
def test_pods_of_a_node_stay(berth: Berth, name: str, cluster: str | list[Object], want: set[str]) -> None:
    """Nobody moves them, and what their controller requires of their node is not in their template."""
    assert set(offers(asked(berth, name, cluster))) == want


def test_whose_the_pod_of_a_missing_node_is(berth: Berth) -> None:
    """Its controller takes it away."""
    answer = asked(berth, "ne-x", "12-pods-of-the-node/dsgone.json")
    assert answer["cause"] == "there is no node old-node"
    assert any("its controller deletes it when it sees that the node is gone" in note for note in answer["notes"])


# --- nominated pods ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cluster", "cause", "offer"),
    [
        (
            "13-nominated/nom2.json",
            "needs 2 cpu, 1 free of 4 (3 requested): n1 is kept for default/hi; it waits for default/hi",
            "delete default/hi, which n1 is kept for",
        ),
        (
            "13-nominated/nom.json",
            "needs 1 cpu, none free of 4 (6 requested): n1 is kept for default/hi; "
            "it has only to wait until default/v, which is terminating, is gone from n1",
            "wait until default/v, which is terminating, is gone from n1",
        ),
        (
            "13-nominated/nomport.json",
            "TCP 80 is taken by default/hi: n1 is kept for default/hi; it waits for default/hi",
            "delete default/hi, which n1 is kept for",
        ),
        (
            [node("n1", "4"), node("n2", "1"), nominated(pod("hi", "3", priority=9)), pod("lo", "2")],
            "2 Insufficient cpu; it waits for default/hi, for which n1 is kept",
            "delete default/hi, which n1 is kept for",
        ),
        (
            [node("n1", "4"), nominated(pod("hi", "3", priority=9, gates=["x"])), pod("lo", "2")],
            "needs 2 cpu, 1 free of 4 (3 requested): n1 is kept for default/hi; it waits for default/hi",
            "delete default/hi, which n1 is kept for",
        ),
        (
            [node("n1", "4"), nominated(pod("hi", "3", priority=9), terminating=True), pod("lo", "2")],
            "needs 2 cpu, 1 free of 4 (3 requested): n1 is kept for default/hi; it has only to wait until default/hi, "
            "which is terminating, is gone from n1",
            "wait until default/hi, which is terminating, is gone from n1",
        ),
        (
            [node("n1", "4"), nominated(pod("hi", "1")), pod("run", "3", on="n1"), pod("lo", "2")],
            "needs 2 cpu, none free of 4 (4 requested)",
            "move default/run off n1",
        ),
    ],
)
def test_who_keeps_a_node_is_told(berth: Berth, cluster: str | list[Object], cause: str, offer: str) -> None:
    """Numbers and holders are those that the decision goes by; what is full by itself is nobody's fault."""
    answer = asked(berth, "lo", cluster)
    assert answer["cause"] == cause
    assert offer in offers(answer)


def test_a_pod_of_lower_priority_keeps_no_node(berth: Berth) -> None:
    """The decision does not heed it, nor does the explanation."""
    there = [node("n1", "4"), nominated(pod("hi", "3")), pod("lo", "2", priority=9)]
    assert asked(berth, "lo", there)["outcome"] == "fits"


def test_capacity_says_for_whom_a_node_is_kept(berth: Berth) -> None:
    """Kept room is not free; without the pod it would be."""
    folder = FILES / "13-nominated"
    found = berth("capacity", "-f", str(folder / "q.json"), "--cluster", str(folder / "cap.json"), "-o", "json")
    answer = json.loads(found.out)
    [only] = answer["nodes"]
    assert (answer["fits"], only["limits"]) == (0, ["Insufficient cpu", "it is kept for default/hi"])
    assert answer["stranded"] == []
    there = [node("n1", "4"), nominated(pod("hi", "2", priority=9))]
    Path("cluster.json").write_text(json.dumps({"kind": "List", "items": [namespace("default"), *there]}))
    found = berth("capacity", "-f", str(folder / "q.json"), "--cluster", "cluster.json", "-o", "json")
    assert json.loads(found.out)["fits"] == 2


# --- what controllers take away ---------------------------------------------------------------------------------------


def tainted(taint: str, *others: Object) -> list[Object]:
    """One node with a taint, and a pod that waits."""
    return [node("n1", taints=[taint]), pod("new"), *others]


@pytest.mark.parametrize(
    ("cluster", "want", "who"),
    [
        (
            "14-taints-of-controllers/uninit.json",
            ["have the cloud controller manager run and initialise n1"],
            "the cloud controller manager takes it away",
        ),
        ("14-taints-of-controllers/nr.json", ["bring n1 back, which is not-ready", MORE], "lifecycle controller"),
        (tainted("ToBeDeletedByClusterAutoscaler=17:NoSchedule"), [MORE], "is about to take the node away"),
        (tainted("karpenter.sh/disrupted:NoSchedule"), [MORE], "Karpenter is about to take the node away"),
        (
            tainted("node.cilium.io/agent-not-ready:NoSchedule"),
            ["have the Cilium agent run on n1"],
            "Cilium takes it away",
        ),
        (
            tainted("ebs.csi.aws.com/agent-not-ready:NoExecute"),
            ["have the agent of ebs.csi.aws.com run on n1"],
            "the agent of ebs.csi.aws.com takes it away",
        ),
        (
            tainted("node.kubernetes.io/disk-pressure:NoSchedule"),
            ["have disk space freed on n1, whose kubelet lacks it", MORE],
            "takes it away",
        ),
        (
            tainted("node.kubernetes.io/network-unavailable:NoSchedule"),
            ["have the network plugin, or the cloud's route controller, set up the network of n1", MORE],
            "takes it away",
        ),
        (
            tainted("node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"),
            [
                "once it is sure that n1 runs, take the taint "
                "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute off it",
                MORE,
            ],
            "untolerated",
        ),
        (tainted("dedicated=gpu:NoSchedule"), ["tolerate dedicated=gpu:NoSchedule"], "untolerated dedicated"),
    ],
)
def test_taints_are_left_to_their_controllers(
    berth: Berth, cluster: str | list[Object], want: list[str], who: str
) -> None:
    """The controller that takes it away is named; nobody tolerates it. A node that is about to go is not offered."""
    answer = asked(berth, "new", cluster)
    assert list(offers(answer)) == want
    assert who in answer["cause"]


@pytest.mark.parametrize(
    ("gates", "want"),
    [
        (
            ["kueue.x-k8s.io/admission", "kueue.x-k8s.io/topology"],
            "wait until Kueue admits its Workload, and takes the scheduling gates kueue.x-k8s.io/admission, "
            "kueue.x-k8s.io/topology away",
        ),
        (
            ["mine", "kueue.x-k8s.io/admission"],
            "remove the scheduling gate mine and wait until Kueue admits its Workload, and takes the scheduling gate "
            "kueue.x-k8s.io/admission away",
        ),
    ],
)
def test_gates_are_left_to_their_controllers(berth: Berth, gates: list[str], want: str) -> None:
    """Without a command that would pass by the queue."""
    assert offers(asked(berth, "p", [node("n1"), pod("p", gates=gates)])) == {want: []}
    found = offers(asked(berth, "p", "14-taints-of-controllers/kueue.json"))
    assert [commands for commands in found.values() if commands] == []


# --- usual cures ------------------------------------------------------------------------------------------------------


def test_a_spread_that_counts_nodes_where_the_pod_may_not_go(berth: Berth) -> None:
    """`nodeTaintsPolicy: Honor` comes first, and places all of them."""
    found = offers(asked(berth, "web-abc-p", "16-spread-over-tainted/a_pend.json"))
    first = next(iter(found))
    assert first.startswith("let the spread over hostname have nodeTaintsPolicy Honor")
    [command] = found[first]
    assert shlex.split(command)[:6] == ["kubectl", "patch", "deployment", "web", "-n", "default"]


def test_a_spread_over_a_cordoned_node(berth: Berth) -> None:
    """As during an upgrade: the cordon is a taint, too."""
    made = pod("web", labels={"app": "web"})
    made["spec"]["topologySpreadConstraints"] = [
        {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}},
        }
    ]
    there = [
        node("n1"),
        node("n2", cordoned=True, taints=["node.kubernetes.io/unschedulable:NoSchedule"]),
        pod("web-1", on="n1", labels={"app": "web"}),
    ]
    found = offers(asked(berth, "web", [*there, made]))
    assert [text for text in found if "nodeTaintsPolicy Honor" in text]
    made["spec"]["topologySpreadConstraints"][0]["nodeTaintsPolicy"] = "Honor"
    assert asked(berth, "web", [*there, made])["outcome"] == "fits"


@pytest.mark.parametrize(
    ("cluster", "want"),
    [
        ("17-which-pod-to-move/g.json", "move default/x off n1"),
        ("17-which-pod-to-move/g2.json", "move default/a off n1"),
        (
            [
                node("n1", "4"),
                node("n2", "8"),
                pod("db", "1", on="n1", labels={"app": "db"}, priority=-5),
                pod("x", "3", on="n1"),
                pod("p", "2", near=["app=db per host"]),
            ],
            "move default/x off n1",
        ),
        (
            [
                node("n1", "4"),
                node("n2", "8"),
                pod("db", "1", on="n1", labels={"app": "db"}),
                pod("x0", "1500m", on="n1"),
                pod("x1", "1500m", on="n1"),
                pod("p", "3", near=["app=db per host"]),
            ],
            "move default/x0 off n1 and move default/x1 off n1",
        ),
        (
            [
                node("n1", "2", zone="a"),
                pod("a", "1", on="n1"),
                pod("y", "1", on="n1", labels={"app": "y"}),
                pod("p", "1", apart=["app=y per zone"]),
            ],
            "move default/y off n1",
        ),
    ],
)
def test_the_pod_moves_that_frees_it(berth: Berth, cluster: str | list[Object], want: str) -> None:
    """Not the one that it is to be near, nor the first by name; and no more than are needed."""
    moves = [text for text in offers(asked(berth, "p", cluster)) if text.startswith("move ")]
    assert moves[0] == want
    assert "move default/db off n1" not in moves


# --- commands that apply ----------------------------------------------------------------------------------------------


def template(spec: Object, kind: str = "Deployment") -> Object:
    """The object `web` with a pod template, as somebody wrote it."""
    body: Object = {"selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {"labels": {"app": "web"}}}}
    body["template"]["spec"] = spec
    metadata = {"name": "web", "namespace": "default"}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": body}


def patched(commands: list[str], found: Object) -> Object:
    """The object after `kubectl patch` commands, by the API server's code."""
    for command in commands:
        if command.startswith("kubectl patch "):
            *_, kind, _, patch = shlex.split(command)
            content_type = JSON_PATCH if kind == "--type=json" else STRATEGIC_PATCH
            found = apply_patch(content_type, found["kind"], found, patch.encode())
    return found


LIMIT = {
    "kind": "LimitRange",
    "metadata": {"name": "l", "namespace": "default"},
    "spec": {"limits": [{"type": "Container", "defaultRequest": {"cpu": "2"}}]},
}


def container(**resources: Object) -> Object:
    """A container that asks for this."""
    return {"name": "c", "image": "x", **({"resources": resources} if resources else {})}


@pytest.mark.parametrize("owner", ["Deployment", "StatefulSet", "DaemonSet"])
@pytest.mark.parametrize(
    ("spec", "more"),
    [
        ({"containers": [container(limits={"nvidia.com/gpu": "2"})]}, []),
        ({"containers": [container(limits={"nvidia.com/gpu": "2"}, requests={"nvidia.com/gpu": "2"})]}, []),
        ({"containers": [container(limits={"cpu": "2"})]}, []),
        ({"containers": [container()]}, [LIMIT]),
        ({"containers": [container(requests={"cpu": "1500m"}), {**container(requests={"cpu": "1"}), "name": "d"}]}, []),
        (
            {
                "containers": [container(requests={"cpu": "100m"})],
                "initContainers": [{**container(requests={"cpu": "2"}), "name": "i"}],
            },
            [],
        ),
        (
            {
                "containers": [container(requests={"cpu": "100m"})],
                "initContainers": [{**container(limits={"cpu": "2"}), "name": "i", "restartPolicy": "Always"}],
            },
            [],
        ),
        ({"containers": [container(requests={"cpu": "100m"})], "resources": {"requests": {"cpu": "2"}}}, []),
    ],
)
def test_smaller_requests_as_a_command(berth: Berth, owner: str, spec: Object, more: list[Object]) -> None:
    """It is accepted on the template as it was written, without defaults, and the pods that are made then fit."""
    machine = node("n1", "1", others={"nvidia.com/gpu": "1"})
    found = template(spec, owner)
    Path("f.yaml").write_text(yaml.safe_dump(found))
    there: list[Object] = [machine, *more]
    whole = stored(berth, there, found)
    made = owned(pod("p", labels={"app": "web"}), owner, "web")
    made["spec"] = {**made["spec"], **whole}
    for known in ([], [found]):
        answer = asked(berth, "p", [*there, made, *known])
        [text] = [text for text in offers(answer) if text.startswith("ask for 1 ")]
        commands = offers(answer)[text]
        assert [shlex.split(each)[2].lower() for each in commands if " patch " in each] == [owner.lower()]
        assert (commands[-1] == "kubectl delete pod p -n default --ignore-not-found") == (owner == "StatefulSet")
        after = patched(commands, deepcopy(found))
        Path("f.yaml").write_text(yaml.safe_dump(after))
        assert asked(berth, "", there, "-f", "f.yaml")["outcome"] == "fits"


def stored(berth: Berth, there: list[Object], found: Object) -> Object:
    """The parts of the pod that the API server makes of a template: containers, and what the pod asks for."""
    from podberth.explain.objects.documents import Document
    from podberth.explain.objects.world import World

    world = World()
    for each in there:
        world.add_document(Document(each["kind"], json.dumps(each).encode(), ""))
    spec = found["spec"]["template"]["spec"]
    made = world.admission.created({"metadata": {"name": "p", "namespace": "default"}, "spec": spec}, [])
    parts: Object = {key: made["spec"][key] for key in spec}
    return parts


def test_a_file_is_changed_as_it_is_written(berth: Berth) -> None:
    """Limits alone, or nothing but a LimitRange: the patch of the file makes a file whose pod fits."""
    for spec, more in (
        ({"containers": [container(limits={"cpu": "2"})]}, []),
        ({"containers": [container()]}, [LIMIT]),
    ):
        found = template(spec)
        Path("f.yaml").write_text(yaml.safe_dump(found))
        [command] = offers(asked(berth, "", [node("n1", "1"), *more], "-f", "f.yaml"))["ask for 1 cpu instead of 2"]
        Path("f.yaml").write_text(yaml.safe_dump(patched([command], found)))
        assert asked(berth, "", [node("n1", "1"), *more], "-f", "f.yaml")["outcome"] == "fits"


@pytest.mark.parametrize(
    ("made", "more"),
    [
        (with_spec(pod("p", "100m"), overhead={"cpu": "1250m"}), []),
        (with_spec(pod("p"), containers=[container(requests={"cpu": "2"})]), [{**LIMIT, "spec": {"limits": []}}]),
    ],
)
def test_what_cannot_be_asked_for_is_not_offered(berth: Berth, made: Object, more: list[Object]) -> None:
    """A RuntimeClass's overhead stays, and a LimitRange has a least."""
    for each in more:
        each["spec"]["limits"] = [{"type": "Container", "min": {"cpu": "1500m"}}]
    answer = asked(berth, "p", [node("n1", "1"), *more, owned(made, "Deployment", "web")])
    assert not [text for text in offers(answer) if text.startswith("ask for")]


def test_a_runtime_class_requires_its_nodes(berth: Berth) -> None:
    """No change of the template takes out what admission puts into each pod, and no patch finds it there."""
    classed = {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "kata"},
        "handler": "kata",
        "scheduling": {"nodeSelector": {"vm": "yes"}},
    }
    made = owned(pod("p", select={"vm": "yes"}, labels={"app": "web"}), "Deployment", "web")
    made["spec"]["runtimeClassName"] = "kata"
    found = offers(asked(berth, "p", [node("n1"), classed, made]))
    assert list(found) == ["label n1 vm=yes"]


def test_a_term_with_match_label_keys_is_moved_as_it_stands(berth: Berth) -> None:
    """The pod has them in its selector, too; a template that had both would be refused."""
    selector = {"matchLabels": {"app": "web"}}
    term: Object = {"labelSelector": selector, "matchLabelKeys": ["pod-template-hash"]}
    term["topologyKey"] = "kubernetes.io/hostname"
    rule = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    spec = {"containers": [container()], "affinity": rule}
    merged = deepcopy(term)
    merged["labelSelector"]["matchExpressions"] = [{"key": "pod-template-hash", "operator": "In", "values": ["5f6"]}]
    made = owned(pod("p", labels={"app": "web"}), "Deployment", "web")
    made["spec"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [merged]}}
    other = owned(pod("other", labels={"app": "web"}, on="n1"), "Deployment", "web")
    found = offers(asked(berth, "p", [node("n1"), other, made]))
    [commands] = [each for text, each in found.items() if text.startswith("prefer, not require")]
    after = patched(commands, template(spec))["spec"]["template"]["spec"]["affinity"]["podAntiAffinity"]
    assert after == {
        "requiredDuringSchedulingIgnoredDuringExecution": [],
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": term}],
    }


def test_a_port_of_the_host_that_the_template_does_not_name(berth: Berth) -> None:
    """On the host's network the API server names it in pods, and not in templates."""
    ports = [{"containerPort": 80}]
    spec = {"hostNetwork": True, "containers": [{**container(), "ports": ports}]}
    made = owned(pod("p", labels={"app": "web"}), "Deployment", "web")
    named = {**container(), "ports": [{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}]}
    made["spec"] |= {"hostNetwork": True, "containers": [named]}
    found = offers(asked(berth, "p", [node("n1"), pod("other", on="n1", ports=["80"]), made]))
    after = patched(found["do without host port TCP 80"], template(spec))
    assert after["spec"]["template"]["spec"]["containers"][0]["ports"] == []


# --- who comes first --------------------------------------------------------------------------------------------------


def created(made: Object, at: int) -> Object:
    """A pod that was created in this second."""
    made["metadata"]["creationTimestamp"] = f"2026-09-01T00:00:{at:02}Z"
    return made


ROOM = [
    ([node("n1", "4"), owned(pod("x", "2", on="n1"), "ReplicaSet", "xs")], "move default/x off n1"),
    ([node("n1", "1"), node("n2", "4", cordoned=True)], "uncordon n2"),
]


@pytest.mark.parametrize(("there", "change"), ROOM)
@pytest.mark.parametrize(
    ("other", "offered"),
    [
        (None, True),
        (created(pod("first", "3", priority=9), 5), False),
        (created(pod("first", "3"), 1), False),
        (created(pod("first", "3"), 2), False),
        (created(pod("last", "3"), 5), True),
        (created(pod("least", "3", priority=-1), 1), True),
        (created(pod("small", "1", priority=9, select={"no": "where"}), 1), True),
        (created(owned(pod("like-it", "3"), "ReplicaSet", "ps"), 1), True),
        (created(pod("gated", "3", priority=9, gates=["g"]), 1), True),
    ],
)
def test_who_waits_and_comes_first_takes_the_room(
    berth: Berth, there: list[Object], change: str, other: Object | None, *, offered: bool
) -> None:
    """A change that makes room only for others is not offered, and a note says who they are."""
    asking = created(owned(pod("p", "3"), "ReplicaSet", "ps"), 2)
    answer = asked(berth, "p", [*there, asking, *([] if other is None else [other])])
    assert (change in offers(answer)) == offered
    told = f"not offered: {change}; default/first would come first and take the room"
    assert (told in answer["notes"]) != offered


@pytest.mark.parametrize(("owner", "offered"), [("xs", False), ("", True)])
def test_who_is_moved_and_made_again_takes_the_room(berth: Berth, owner: str, *, offered: bool) -> None:
    """Its controller makes it again, and it comes first if its priority is higher."""
    moved = pod("x", "2", on="n1", priority=9)
    there = [node("n1", "4"), owned(moved, "ReplicaSet", owner) if owner else moved, pod("p", "3")]
    assert ("move default/x off n1" in offers(asked(berth, "p", there))) == offered


@pytest.mark.parametrize(
    ("owner", "priority", "offered"), [("xs", 0, False), ("xs", -1, True), ("", 0, True), ("", 9, True)]
)
def test_a_pod_that_is_made_anew_has_not_waited_for_longer(
    berth: Berth, owner: str, priority: int, *, offered: bool
) -> None:
    """One that is moved, and as important, may come before it; and it is to wait already when that leaves."""
    moved = pod("x", "2", on="n1", priority=priority)
    asking = owned(pod("p", "3", select={"no": "where"}, labels={"app": "p"}), "Deployment", "web")
    there = [node("n1", "4"), owned(moved, "ReplicaSet", owner) if owner else moved, asking]
    found = offers(asked(berth, "p", there))
    commands = [each for text, each in found.items() if "drop nodeSelector" in text and "move default/x" in text]
    assert bool(commands) == offered
    for each in commands:
        assert [shlex.split(command)[1] for command in each] == ["patch", "delete"]


@pytest.mark.parametrize(("owner", "offered"), [("xs", False), ("", True)])
def test_who_gives_a_node_up_and_is_made_again_takes_the_room(berth: Berth, owner: str, *, offered: bool) -> None:
    """As one that is moved: what is kept for it is kept again."""
    kept = nominated(pod("hi", "3", priority=9))
    there = [node("n1", "4"), owned(kept, "ReplicaSet", owner) if owner else kept, pod("lo", "2")]
    assert ("delete default/hi, which n1 is kept for" in offers(asked(berth, "lo", there))) == offered


def test_another_node_is_offered_when_one_is_taken(berth: Berth) -> None:
    """The first node is taken by a pod that fits nowhere else."""
    names = ("n1", "n2")
    there = [node(name, "4", cordoned=True, labels={"name": name}) for name in names]
    first = created(pod("first", "3", priority=9, select={"name": "n1"}), 1)
    found = offers(asked(berth, "p", [*there, first, created(pod("p", "3"), 2)]))
    assert [text for text in found if text.startswith("uncordon")] == ["uncordon n2"]


# --- pods that are created beside what is there -----------------------------------------------------------------------


def full_quota(pods: int) -> Object:
    """A quota that is used up."""
    status = {"hard": {"pods": str(pods)}, "used": {"pods": str(pods)}}
    metadata = {"name": "few", "namespace": "default"}
    return {"kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": {"pods": str(pods)}}, "status": status}


@pytest.mark.parametrize(
    ("owner", "told"), [("", False), ("Deployment", False), ("StatefulSet", True), ("DaemonSet", True)]
)
def test_a_quota_without_room_for_the_new_pod(berth: Berth, owner: str, *, told: bool) -> None:
    """There is room if the old pod goes first; else a command would leave a roll-out stuck, or be refused."""
    made = pod("p", "2", labels={"app": "web"})
    there = [node("n1", "1"), full_quota(1), owned(made, owner, "web") if owner else made]
    answer = asked(berth, "p", there)
    assert bool(offers(answer)["ask for 1 cpu instead of 2"]) == told
    assert any("exceeded quota: few, requested: pods=1, used: pods=1" in note for note in answer["notes"]) != told


def test_a_pod_is_created_again_without_what_was_merged(berth: Berth) -> None:
    """The API server refuses a key that is in matchLabelKeys and in the selector, where it has put it itself."""
    merged = {"key": "tier", "operator": "In", "values": ["gold"]}
    own = {"key": "app", "operator": "Exists"}
    selector: Object = {"matchExpressions": [own, merged]}
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector, "matchLabelKeys": ["tier"]}
    spread = {"topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway", "maxSkew": 1}
    spread |= {"labelSelector": {"matchExpressions": [merged]}, "matchLabelKeys": ["tier"]}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    made = pod("p", "2", labels={"app": "web", "tier": "gold"})
    with_spec(made, affinity=affinity, topologySpreadConstraints=[spread])
    other = pod("o", on="n2", labels={"app": "web", "tier": "gold"})
    found = offers(asked(berth, "p", [node("n1", "1"), node("n2", "4"), other, made]))
    for text in (
        "ask for 1 cpu instead of 2",
        "prefer, not require, to be apart from pods with app exists, tier=gold per host",
    ):
        [command] = [commands[0] for offer, commands in found.items() if offer.startswith(text)]
        patch = shlex.split(command.partition(")")[0])[-1]
        after = apply_patch(JSON_PATCH, "Pod", {**deepcopy(made), "kind": "Pod"}, patch.encode())["spec"]
        rules = after["affinity"]["podAntiAffinity"]
        terms = rules["requiredDuringSchedulingIgnoredDuringExecution"] or [
            each["podAffinityTerm"] for each in rules["preferredDuringSchedulingIgnoredDuringExecution"]
        ]
        assert [each["labelSelector"] for each in terms] == [{"matchExpressions": [own]}]
        assert after["topologySpreadConstraints"][0]["labelSelector"] == {}
