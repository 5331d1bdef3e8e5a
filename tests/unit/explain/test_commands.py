"""Commands that make a suggested change, and words that were meant."""

import json
import shlex
import subprocess
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from podberth.apiserver.rules.patch import JSON_PATCH, STRATEGIC_PATCH, PatchError, apply_patch, json_patch
from podberth.explain.report.explanation import besides
from podberth.explain.spelling import near_names
from tests.builders import namespace, node, pod
from tests.unit.explain.story import explained, framework, world

Object = dict[str, Any]


def owned(made: Object, kind: str, name: str, template: str | None = None) -> Object:
    """A pod of a controller."""
    made["metadata"]["ownerReferences"] = [{"kind": kind, "name": name, "uid": "o", "controller": True}]
    if template is not None:
        made["metadata"].setdefault("labels", {})["pod-template-hash"] = template
    return made


def commands(made: Object, *there: Object) -> dict[str, list[str]]:
    """Change → its commands."""
    return {each.text: each.commands for each in explained(made, [namespace("default"), *there]).remedies}


def test_of_nodes() -> None:
    """Commands of kubectl's own."""
    found = commands(pod("p", select={"disk": "ssd"}), node("n", cordoned=True, labels={"disk": "ssd"}))
    assert found["uncordon n"] == ["kubectl uncordon n"]
    found = commands(pod("p", select={"disk": "ssd"}), node("n"))
    assert found["label n disk=ssd"] == ["kubectl label nodes n disk=ssd --overwrite"]
    found = commands(pod("p", "4"), node("n", "4"), pod("q", "1", on="n"))
    assert found["move default/q off n"] == ["kubectl delete pod q -n default"]
    assert found["add a node like n"] == []


def test_of_a_pod() -> None:
    """Tolerations may be added to a pod, and gates taken away."""
    found = commands(pod("p"), node("n", taints=["a/b=c d:NoSchedule"]))
    (command,) = found["tolerate a/b=c d:NoSchedule"]
    *words, patch = shlex.split(command)
    assert words == ["kubectl", "patch", "pod", "p", "-n", "default", "--type=json", "-p"]
    toleration = {"key": "a/b", "operator": "Equal", "value": "c d", "effect": "NoSchedule"}
    assert json.loads(patch) == [{"op": "add", "path": "/spec/tolerations", "value": [toleration]}]
    found = commands(pod("p", tolerate=["x"]), node("n", taints=["a/b=c d:NoSchedule"]))
    *_, patch = shlex.split(found["tolerate a/b=c d:NoSchedule"][0])
    assert json.loads(patch) == [{"op": "add", "path": "/spec/tolerations/-", "value": toleration}]
    found = commands(pod("p", gates=["x"]), node("n"))
    assert found["remove the scheduling gate x"] == [
        'kubectl patch pod p -n default --type=json -p \'[{"op":"remove","path":"/spec/schedulingGates"}]\''
    ]


@pytest.mark.parametrize(
    ("made", "owner"),
    [
        (owned(pod("p", select={"a/b": "c"}), "ReplicaSet", "web-5f6", "5f6"), "deployment web"),
        (owned(pod("p", select={"a/b": "c"}), "StatefulSet", "db"), "statefulset db"),
        (owned(pod("p", select={"a/b": "c"}), "ReplicationController", "rc"), "replicationcontroller rc"),
        (owned(pod("p", select={"a/b": "c"}), "ReplicaSet", "bare"), None),
        (owned(pod("p", select={"a/b": "c"}), "Job", "once"), None),
    ],
)
def test_of_what_has_the_template(made: Object, owner: str | None) -> None:
    """A node selector is changed where the template is; nobody is told a command that would fail."""
    found = commands(made, node("n"))["drop nodeSelector a/b=c"]
    path = '[{"op":"remove","path":"/spec/template/spec/nodeSelector/a~1b"}]'
    stays = owner in ("statefulset db", "replicationcontroller rc")
    again = ["kubectl delete pod p -n default --ignore-not-found"] if stays else []
    assert found == ([f"kubectl patch {owner} -n default --type=json -p '{path}'", *again] if owner else [])


def test_a_pod_without_an_owner_is_made_again() -> None:
    """If the API server would take it: its creation is tried before it is deleted."""
    found = commands(pod("p", select={"a/b": "c"}), node("n"))["drop nodeSelector a/b=c"]
    assert found == [
        "made=$(kubectl get pod p -n default -o json | kubectl patch --local -f - -o json --type=json "
        """-p '[{"op":"remove","path":"/spec/nodeSelector/a~1b"}]') && """
        """printf %s "$made" | kubectl create --dry-run=server -f - 2>&1 | """
        "tee /dev/stderr | grep -q AlreadyExists && "
        """printf %s "$made" | kubectl replace --force -f -"""
    ]


KUBECTL = """#!/bin/sh
echo "$1" >> {log}
case "$1" in
  get) echo '{{"kind": "Pod"}}' ;;
  create) cat > /dev/null; echo 'Error from server ({answer}): pods "p" {answer}' >&2; exit 1 ;;
  *) cat ;;
esac
"""


@pytest.mark.parametrize(("answer", "replaced"), [("AlreadyExists", True), ("Forbidden", False)])
def test_nothing_is_deleted_that_could_not_be_made_again(tmp_path: Path, answer: str, replaced: bool) -> None:
    """A shell runs the command; a policy that refuses the pod leaves the old one."""
    [command] = commands(pod("p", select={"a/b": "c"}), node("n"))["drop nodeSelector a/b=c"]
    log = tmp_path / "log"
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(KUBECTL.format(log=log, answer=answer))
    kubectl.chmod(0o755)
    run = subprocess.run(
        ["sh", "-c", command], env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, capture_output=True, text=True, check=False
    )
    assert (run.returncode == 0) == replaced
    assert answer in run.stderr
    steps = log.read_text().split()
    assert sorted(steps) == sorted(["get", "patch", "create", *(["replace"] if replaced else [])])


def test_who_is_lost_and_who_relies_on_a_label() -> None:
    """A pod that has to go and has no owner is not made again; a node with another label keeps out who was in."""
    there = [node("n", "4"), pod("bare", "4", on="n"), owned(pod("kept", on="n"), "ReplicaSet", "web-5f6", "5f6")]
    [moves] = [each for each in explained(pod("p", "4"), there).remedies if each.text == "move default/bare off n"]
    assert moves.effects is not None
    assert moves.effects.unmade == ["default/bare"]
    assert "nobody makes default/bare again" in besides(moves)
    there = [node("n", labels={"pool": "gpu"}), pod("train", on="n", select={"pool": "gpu"}), pod("any", on="n")]
    [label] = [each for each in explained(pod("p", select={"pool": "web"}), there).remedies if "label n" in each.text]
    assert label.effects is not None
    assert label.effects.relies == ["default/train"]
    assert "default/train asks for the label as it is and could not come back to the node" in besides(label)


def test_no_node_gets_a_label_that_is_perhaps_misspelt() -> None:
    """The label that was meant is offered instead."""
    there = [node("edge0", labels={"pool": "edge"}), node("n1", labels={"pool": "general"})]
    found = [each.text for each in explained(pod("p", select={"pool": "genral"}), there).remedies]
    assert "write pool=general in nodeSelector, not pool=genral" in found
    assert not [text for text in found if text.startswith("label ")]


def test_a_pod_that_may_not_preempt_is_told_so() -> None:
    """It needs another PriorityClass: the policy is the class's, and a class can't be changed."""
    made = owned(pod("p", "4", priority=5), "StatefulSet", "db")
    made["spec"] |= {"preemptionPolicy": "Never", "priorityClassName": "calm"}
    text = "drop preemptionPolicy Never: it would preempt one pod of lower priority"
    there = [namespace("default"), node("n", "4"), pod("low", "4", on="n")]
    [found] = [each for each in explained(made, there).remedies if each.text == text]
    create, change, again = found.commands
    assert create == "kubectl create priorityclass calm-preempting --value=5"
    assert change == (
        "kubectl patch statefulset db -n default --type=json "
        """-p '[{"op":"replace","path":"/spec/template/spec/priorityClassName","value":"calm-preempting"}]'"""
    )
    assert again == "kubectl delete pod p -n default --ignore-not-found"
    assert found.effects is not None and found.effects.moved == {"default/low": None}


def test_leave_to_preempt_is_offered_beside_nodes_that_never_suit() -> None:
    """Also after a node more was tried: there are more rows then than the pod was decided with."""
    made = pod("p", "4", priority=5, select={"disk": "ssd"})
    made["spec"] |= {"preemptionPolicy": "Never", "priorityClassName": "calm"}
    there = [namespace("default"), node("n", "4", labels={"disk": "ssd"}), node("m", "4"), pod("low", "4", on="n")]
    text = "drop preemptionPolicy Never: it would preempt one pod of lower priority"
    assert text in {each.text for each in explained(made, there).remedies}


SPREAD: Object = {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}
UNEVEN = [node("a", "9", zone="a"), node("b", "0", zone="b")]
UNEVEN += [pod(f"w{i}", "1", on="a", labels={"app": "w"}) for i in range(2)]


def spreading() -> Object:
    """A pod that is to be spread over zones, one of which is full."""
    made = pod("p", "1", labels={"app": "w"})
    made["spec"]["topologySpreadConstraints"] = [SPREAD | {"labelSelector": {"matchLabels": {"app": "w"}}}]
    return made


def of_two_containers() -> Object:
    """A pod whose second container asks for more than the first."""
    made = pod("p", "1")
    second = {"name": "large", "resources": {"requests": {"cpu": "3"}}}
    made["spec"]["containers"].append(second)
    return made


def carried_out(commands: list[str], owner: str, template: Object) -> Object:
    """The owner once the API server's code has applied the patches of these commands to it."""
    for command in commands:
        *words, kind, _, patch = shlex.split(command)
        assert words == ["kubectl", "patch", *owner.split(), "-n", "default"]
        content_type = {"--type=json": JSON_PATCH, "--type=strategic": STRATEGIC_PATCH}[kind]
        template = apply_patch(content_type, owner.split()[0].capitalize(), template, patch.encode())
    return template


@pytest.mark.parametrize(
    ("made", "there", "text"),
    [
        (pod("p", "4"), [node("n", "4"), pod("q", "1", on="n")], "ask for 3 cpu instead of 4"),
        (of_two_containers(), [node("n", "4"), pod("q", "1", on="n")], "ask for 3 cpu instead of 4"),
        (
            pod("p", memory="2Gi"),
            [node("n", memory="4Gi"), pod("q", memory="2500Mi", on="n")],
            "ask for 1596Mi memory instead of 2Gi",
        ),
        (
            pod("p", need=["disk=ssd;gen > 3"]),
            [node("n", labels={"gen": "4"})],
            "drop the required node affinity disk in (ssd)",
        ),
        (pod("p", need=["@name in m"]), [node("n")], "drop the required node affinity metadata.name = m"),
        (pod("p", ports=["80"]), [node("n"), pod("q", on="n", ports=["80"])], "do without host port TCP 80"),
        (
            pod("p", near=["app=db per zone"]),
            [node("n", zone="a")],
            "prefer, not require, to be near pods with app=db per zone",
        ),
        (
            pod("p", apart=["app=db per host"], rather_apart=[(1, "app=x per host")]),
            [node("n"), pod("db", on="n", labels={"app": "db"})],
            "prefer, not require, to be apart from pods with app=db per hostname",
        ),
        (spreading(), UNEVEN, "let the spread over zone have maxSkew 3"),
        (
            pod("p", "8", select={"disk": "ssd"}),
            [node("n", "4")],
            "ask for 4 cpu instead of 8 and drop nodeSelector disk=ssd",
        ),
        (
            pod("p", "8", tolerate=["node.kubernetes.io/not-ready"]),
            [node("n", "4", taints=["a=b:NoSchedule"])],
            "ask for 4 cpu instead of 8 and tolerate a=b:NoSchedule",
        ),
    ],
)
def test_a_patch_of_the_owner_does_what_it_says(made: Object, there: list[Object], text: str) -> None:
    """Applied as the API server applies it to the template, it makes pods that go where the change said."""
    incoming = owned(deepcopy(made), "StatefulSet", "db")
    objects = [namespace("default"), *there]
    [found] = [each for each in explained(incoming, objects).remedies if each.text == text]
    *patches, again = found.commands
    assert again == "kubectl delete pod p -n default --ignore-not-found"
    template: Object = {"spec": {"template": {"spec": deepcopy(made["spec"])}}}
    template["spec"]["template"]["spec"].pop("tolerations", None)
    after = carried_out(patches, "statefulset db", template)["spec"]["template"]["spec"]
    cluster = world(objects).cluster
    decoded: Any = world([]).decode({**incoming, "spec": after})
    feasible = framework().decide(decoded, cluster).feasible
    assert sorted(cluster.nodes.names[row] or "" for row in feasible) == found.nodes


def patched(made: Object, there: list[Object], text: str) -> Object:
    """The spec of a pod's template after the commands for a change."""
    [found] = [each for each in explained(owned(made, "StatefulSet", "db"), there).remedies if each.text == text]
    template: Object = {"spec": {"template": {"spec": deepcopy(made["spec"])}}}
    spec: Object = carried_out(found.commands[:-1], "statefulset db", template)["spec"]["template"]["spec"]
    return spec


def test_a_larger_max_skew_stays() -> None:
    """Of two constraints per zone only the one is changed that keeps the pod away."""
    made = spreading()
    loose = made["spec"]["topologySpreadConstraints"][0] | {"maxSkew": 5}
    made["spec"]["topologySpreadConstraints"].append(loose)
    after = patched(made, [namespace("default"), *UNEVEN], "let the spread over zone have maxSkew 3")
    assert [each["maxSkew"] for each in after["topologySpreadConstraints"]] == [3, 5]


def test_host_ports_are_told_apart() -> None:
    """A sidecar has some too, and a port of another address stays."""
    made = pod("p")
    ports = [{"containerPort": 80, "hostPort": 80, "hostIP": ip, "protocol": "TCP"} for ip in ("10.0.0.1", "10.0.0.2")]
    made["spec"]["initContainers"] = [{"name": "side", "restartPolicy": "Always", "ports": ports}]
    there = [namespace("default"), node("n"), pod("q", on="n", ports=["10.0.0.1:80"])]
    after = patched(made, there, "do without host port TCP 80")
    assert [each.get("hostPort") for each in after["initContainers"][0]["ports"]] == [None, 80]


def test_a_patch_is_refused_when_the_template_is_another_now() -> None:
    """It tests what it goes by, instead of changing whatever stands at that place."""
    found = commands(owned(spreading(), "StatefulSet", "db"), *UNEVEN)["let the spread over zone have maxSkew 3"]
    *_, patch = shlex.split(found[0])
    other = deepcopy(spreading()["spec"])
    other["topologySpreadConstraints"][0]["topologyKey"] = "rack"
    with pytest.raises(PatchError):
        json_patch({"spec": {"template": {"spec": other}}}, json.loads(patch))


def test_nothing_is_offered_that_the_spec_does_not_say() -> None:
    """A constraint by default is the scheduler's, and the pod's owner knows nothing of it."""
    made = spreading()
    answer = explained(made, [namespace("default"), *UNEVEN], written=pod("p", "1", labels={"app": "w"}))
    assert not [each.text for each in answer.remedies if "spread" in each.text]


def test_what_else_a_change_does() -> None:
    """Effects name the pods that land, move and lose; each was simulated, and nothing of it stays."""
    there = [namespace("default"), node("n", "4"), node("m", "3", cordoned=True), pod("q", "2", on="n")]
    others = [pod("small", "1500m"), pod("twin", "2")]
    effects = {each.text: each.effects for each in explained(pod("p", "3"), there, waiting=others).remedies}
    moved = effects["move default/q off n"]
    assert moved is not None
    assert (moved.moved, moved.loses) == ({"default/q": None}, ["default/small", "default/twin"])
    opened = effects["uncordon m"]
    assert opened is not None and (opened.lands, opened.landed, opened.loses) == ([], 0, [])


def test_others_that_a_change_lets_in() -> None:
    """An uncordoned node takes more than the pod that was asked about."""
    there = [namespace("default"), node("n", "1"), node("m", "8", cordoned=True)]
    waiting = [pod(f"w{i}", "2") for i in range(5)]
    [opened] = [e for e in explained(pod("p", "2"), there, waiting=waiting).remedies if e.text == "uncordon m"]
    assert opened.effects is not None
    assert (opened.effects.landed, opened.effects.lands) == (3, ["default/w0", "default/w1", "default/w2"])


def test_max_skew_can_be_raised() -> None:
    """To what it would be, where that is the smaller change."""
    constraint: Object = {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone"}
    constraint |= {"whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "w"}}}
    made = pod("p", "1", labels={"app": "w"})
    made["spec"]["topologySpreadConstraints"] = [constraint]
    there = [node("a", "9", zone="a"), node("b", "0", zone="b")]
    there += [pod(f"w{i}", "1", on="a", labels={"app": "w"}) for i in range(2)]
    assert "let the spread over zone have maxSkew 3" in commands(made, *there)


@pytest.mark.parametrize(
    ("select", "said"),
    [
        ({"pool": "generl"}, "no node has pool=generl; did you mean general?"),
        ({"pol": "general"}, "no node has the label pol; did you mean pool?"),
        ({"pool": "xyz"}, None),
        ({"pool": "general"}, None),
    ],
)
def test_misspelt_labels(select: dict[str, str], said: str | None) -> None:
    """A label that no node has is held against those that they do have."""
    answer = explained(pod("p", "9", select=select), [namespace("default"), node("n", labels={"pool": "general"})])
    assert [note for note in answer.notes if "did you mean" in note] == ([said] if said else [])


HOST = "kubernetes.io/hostname"


def counted(app: str, **more: Any) -> Object:
    """A pod that is to be spread with those of an app."""
    made = pod("p", **more)
    made["spec"]["topologySpreadConstraints"] = [SPREAD | {"labelSelector": {"matchLabels": {"app": app}}}]
    return made


@pytest.mark.parametrize(
    ("select", "meant"),
    [
        ({"pool": "generl"}, {"pool": "general"}),
        ({"pol": "general"}, {"pool": "general"}),
        ({HOST: "node-7"}, {HOST: "node-07"}),
        ({"pol": "general", HOST: "node-7"}, {"pool": "general", HOST: "node-07"}),
        ({"pool": "generl", "zone": "a"}, {"pool": "general", "zone": "a"}),
        ({"pool": "xyz"}, None),
        ({"pool": "spot", "zone": "b"}, None),
        ({"pool": "genera", HOST: "s"}, None),
    ],
)
def test_the_label_that_was_meant_is_offered(select: dict[str, str], meant: dict[str, str] | None) -> None:
    """First of all changes, with a command; not what would open no node, nor where nodes have what is asked for."""
    labels = {"pool": "general", "zone": "a", HOST: "node-07"}
    there = [namespace("default"), node("node-07", labels=labels), node("s", labels={"pool": "spot", HOST: "s"})]
    first, *others = explained(pod("p", select=select), there).remedies
    assert not any(each.text.startswith("write ") for each in others)
    assert first.text.startswith("write ") == (meant is not None)
    if meant is not None:
        words = shlex.split(first.commands[0].partition(") && ")[0])
        patch = json.loads(next(word for word in words if word.startswith("[")))
        patched = json_patch({"spec": {"nodeSelector": select}}, patch)
        assert (first.nodes, patched) == (["node-07"], {"spec": {"nodeSelector": meant}})


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (pod("p", near=["app=wbe per zone"]), "no pod has app=wbe; did you mean web?"),
        (pod("p", near=["app=web per zone"]), None),
        (pod("p", labels={"app": "wbe"}, near=["app=wbe per zone"]), None),
        (pod("p", need=["@name in node-7"]), "there is no node node-7; did you mean node-07?"),
        (pod("p", need=["@name in db"]), "there is no node db"),
        (pod("p", "99", need=["@name in node-07"]), None),
    ],
)
def test_misspelt_pods_and_nodes(made: Object, said: str | None) -> None:
    """Pods that a pod wants to be near, and the node that it names, are compared with those that are there."""
    there = [
        namespace("default"),
        node("node-07", zone="a"),
        node("node-17", zone="a"),
        pod("w", on="node-07", labels={"app": "web"}),
    ]
    answer = explained(made, there)
    assert (answer.cause if answer.cause in answer.notes else None) == said


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (
            pod("p", apart=["app=wbe per zone"]),
            "the anti-affinity per zone keeps it apart from no pod: none has app=wbe; did you mean web?",
        ),
        (counted("wbe"), "the spread over zone counts no pod: none has app=wbe; did you mean web?"),
        (counted("wbe", labels={"app": "wbe"}), None),
        (counted("web"), None),
        (pod("p", apart=["app=db per zone"]), None),
    ],
)
def test_what_means_no_pod_is_said(made: Object, said: str | None) -> None:
    """It keeps the pod off no node, so that nothing else shows it."""
    there = [namespace("default"), node("a", zone="a"), pod("w", on="a", labels={"app": "web"})]
    answer = explained(made, there)
    assert (answer.outcome, [note for note in answer.notes if "did you mean" in note]) == (
        "fits",
        [said] if said else [],
    )


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("node-7", ["node-07"]),
        ("node-0017", ["node-17"]),
        ("nod-17", ["node-17"]),
        ("NODE-07", ["node-07"]),
        ("other", []),
    ],
)
def test_near_names(name: str, near: list[str]) -> None:
    """A number is the same with and without zeros before it, and comes before what is only spelt alike."""
    assert near_names(name, [f"node-{i:02}" for i in range(1, 51)])[: len(near) or 1] == near
