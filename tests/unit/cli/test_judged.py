"""`explain -f` and `simulate -f` refuse what the API server would refuse, unless asked not to look."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.builders import node, pod
from tests.unit.cli.conftest import Berth
from tests.unit.explain.gangs.dumps import group

Object = dict[str, Any]
DEPLOYMENT: Object = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": pod("t", "1")["spec"]},
    },
}
SPREAD: Object = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}


def changed(made: Object, path: str, value: Any) -> Object:
    """A copy with another value somewhere: `spec.containers.0.image`."""
    made = copy.deepcopy(made)
    at: Any = made
    *steps, last = path.split(".")
    for step in steps:
        at = at[int(step)] if isinstance(at, list) else at.setdefault(step, {})
    at[int(last) if isinstance(at, list) else last] = value
    return made


POD = changed(pod("p", "1"), "spec.topologySpreadConstraints", [SPREAD])
GANG, TOPOLOGY = "spec.schedulingPolicy.gang", "spec.schedulingConstraints.topology"
SPREADING = "spec.topologySpreadConstraints.0"


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (changed(pod("p"), "spec.containers.0.resources", {"requests": {"cpu": "-1"}}), 'requests[cpu]: "-1": must be'),
        (changed(POD, f"{SPREADING}.maxSkew", 0), "topologySpreadConstraints[0].maxSkew: 0: must be greater than zero"),
        (
            changed(POD, f"{SPREADING}.whenUnsatisfiable", "Maybe"),
            'whenUnsatisfiable: "Maybe": expected DoNotSchedule or ScheduleAnyway',
        ),
        (
            changed(POD, f"{SPREADING}.whenUnsatisfiable", "DoNotSchedul"),
            "expected DoNotSchedule or ScheduleAnyway; did you mean DoNotSchedule?",
        ),
        (
            changed(POD, "spec.priority", 99999999999999),
            "Pod p: spec.priority: 99999999999999: expected a whole number of at most 2147483647",
        ),
        (changed(POD, "metadata.labels", {"bad key!": "x"}), 'metadata.labels: "bad key!": name part must consist of'),
        (
            changed(POD, "spec.nodeSelectors", {"a": "b"}),
            "spec.nodeSelectors: unknown field; did you mean nodeSelector?",
        ),
        (
            changed(POD, "spec.containers.0.resource", {}),
            "spec.containers[0].resource: unknown field; did you mean resources?",
        ),
        (
            changed(DEPLOYMENT, "spec.replicas", "three"),
            'Deployment web: spec.replicas: "three": expected a whole number',
        ),
        (changed(DEPLOYMENT, "spec.replicas", -1), "Deployment web: spec.replicas: -1: expected 0 or more"),
        (
            changed(DEPLOYMENT, "spec.template.metadata.labels", {"ap": "web"}),
            "labels[app]: expected web, which spec.selector asks for; did you mean ap?",
        ),
        (changed(DEPLOYMENT, "apiVersion", ""), "apiVersion: Required value"),
        (
            changed({**DEPLOYMENT, "apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout"}, "metadata.namespace", []),
            "metadata.namespace: a list: expected text",
        ),
        (changed(DEPLOYMENT, "apiVersion", 7), "Deployment web: apiVersion: 7: expected text: put it in quotes"),
        (
            {**DEPLOYMENT, "apiVersion": [[]], "kind": "Rollout"},
            "Rollout web: apiVersion: a list: expected text",
        ),
        (
            changed(DEPLOYMENT, "spec.selector", {"matchLabels": {}}),
            "Deployment web: spec.selector: expected labels: an empty selector is not allowed",
        ),
        (
            changed(DEPLOYMENT, "spec.template.spec.restartPolicy", "Never"),
            'spec.template.spec.restartPolicy: "Never": expected Always in a Deployment',
        ),
        (
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "metadata": {"name": "once"},
                "spec": {"template": {"spec": pod("t", "1")["spec"]}},
            },
            'Job once: spec.template.spec.restartPolicy: "Always": expected OnFailure or Never in a Job',
        ),
        (changed(POD, "metadata.name", ""), "Pod: metadata.name: Required value: expected a name, or generateName"),
        (
            {**changed(DEPLOYMENT, "metadata.name", ""), "apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout"},
            "Rollout: metadata.name: Required value: expected a name, or generateName",
        ),
        (changed(DEPLOYMENT, "apiVersion", "apps/v1beta1"), 'apiVersion: "apps/v1beta1": expected apps/v1'),
        (changed(DEPLOYMENT, "apiVersion", "extensions/v1beta1"), 'apiVersion: "extensions/v1beta1": expected apps/v1'),
        (changed(DEPLOYMENT, "kind", "Deploymnt"), "kind: Deploymnt: unknown in apps/v1; did you mean Deployment?"),
        (
            {**changed(DEPLOYMENT, "spec.replicas", -1), "apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout"},
            "Rollout web: spec.replicas: -1: expected 0 or more",
        ),
        (
            changed(POD, "spec.containers.0.env", [{"name": "A", "value": 5}]),
            "spec.containers[0].env[0].value: 5: expected text: put it in quotes",
        ),
        (group(0), "PodGroup train: spec.schedulingPolicy.gang.minCount: 0: expected 1 or more"),
        (group(-1), "PodGroup train: spec.schedulingPolicy.gang.minCount: -1: expected 1 or more"),
        (changed(group(), GANG, {}), "spec.schedulingPolicy.gang.minCount: Required value"),
        (changed(group(), "spec", {}), "PodGroup train: spec.schedulingPolicy: must specify one of: basic, gang"),
        (changed(group(), "spec.schedulingPolicy.basic", {}), "must specify exactly one of: basic, gang"),
        (changed(group(), TOPOLOGY, [{"key": "a"}, {"key": "b"}]), f"{TOPOLOGY}: 2 constraints: expected at most 1"),
        (changed(group(), TOPOLOGY, [{}]), f"{TOPOLOGY}[0].key: Required value"),
        (changed(group(), TOPOLOGY, [{"key": "a b"}]), f'{TOPOLOGY}[0].key: "a b": name part must consist of'),
        (changed(group(), "spec.schedulingPolicy", []), "schedulingPolicy"),
    ],
)
@pytest.mark.parametrize("command", ["explain", "simulate"])
def test_refused(berth: Berth, command: str, made: Object, said: str) -> None:
    """One line with file, object, path, value, and what was expected; exit code 2."""
    Path("made.yaml").write_text(yaml.safe_dump(made))
    found = berth(command, "-f", "made.yaml", "--cluster", "cluster.json")
    assert (found.code, found.out) == (2, "")
    assert len(found.err.splitlines()) == 1
    assert found.err.startswith("berth: made.yaml: ")
    assert said in found.err


@pytest.mark.parametrize(
    ("allocatable", "said"),
    [
        ({"cpu": "-4"}, 'made.yaml: Node n: status.allocatable.cpu: "-4": expected 0 or more'),
        ({"pods": "abc"}, 'made.yaml: Node n: status.allocatable[pods]: "abc": expected a quantity'),
    ],
)
def test_nodes_are_judged_too(berth: Berth, allocatable: Object, said: str) -> None:
    """A node that is added has amounts that mean something."""
    made = node("n")
    made["status"]["allocatable"] |= allocatable
    Path("made.yaml").write_text(yaml.safe_dump(made))
    found = berth("simulate", "-f", "made.yaml", "--cluster", "cluster.json")
    assert found.code == 2
    assert said in found.err


def test_no_validate(berth: Berth) -> None:
    """A user who knows better may go on."""
    Path("made.yaml").write_text(yaml.safe_dump(changed(POD, "spec.nodeSelectors", {"a": "b"})))
    assert berth("explain", "-f", "made.yaml", "--cluster", "cluster.json", "--no-validate").code == 1
    assert berth("simulate", "-f", "made.yaml", "--cluster", "cluster.json", "--no-validate").code == 1


GATED = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "pluginConfig": [
                {"name": name, "args": {"featureGates": {"TaintTolerationComparisonOperators": True}}}
                for name in ("TaintToleration", "PodTopologySpread")
            ]
        }
    ],
}


@pytest.mark.parametrize(
    ("value", "gate", "said"),
    [
        (
            "9",
            False,
            'Pod p: spec.tolerations[0].operator: "Gt": needs the feature gate TaintTolerationComparisonOperators, '
            "which is off by default",
        ),
        ("9", True, ""),
        ("09", True, 'Pod p: spec.tolerations[0].value: "09": expected a whole number of 64 bits'),
    ],
)
def test_a_toleration_may_compare_where_the_gate_is_on(berth: Berth, value: str, gate: bool, said: str) -> None:
    """As in the API server."""
    Path("made.yaml").write_text(yaml.safe_dump(pod("p", "1", tolerate=[f"sla>{value}"])))
    Path("config.yaml").write_text(yaml.safe_dump(GATED if gate else {**GATED, "profiles": []}))
    found = berth("explain", "-f", "made.yaml", "--cluster", "cluster.json", "--config", "config.yaml")
    assert (found.code, found.err) == ((2, f"berth: made.yaml: {said}\n") if said else (0, ""))


DIGITS = "9" * 6000


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        (
            "a.yaml",
            f"apiVersion: v1\nkind: Pod\nspec: {{priority: {DIGITS}}}",
            "a number has too many digits",
        ),
        ("a.json", f'{{"apiVersion":"v1","kind":"Pod","spec":{{"priority":{DIGITS}}}}}', "integer value out of range"),
        ("a.yaml", "kind: [a]", "kind: expected text, got a list"),
    ],
    ids=["digits", "digits in JSON", "kind"],
)
@pytest.mark.parametrize("more", [[], ["--no-validate"]], ids=["judged", "not judged"])
def test_no_word_of_python(berth: Berth, name: str, text: str, said: str, more: list[str]) -> None:
    """One line in words that the author of the file knows."""
    Path(name).write_text(text)
    for command in ("simulate", "explain", "capacity"):
        found = berth(command, "-f", name, "--cluster", "cluster.json", *more)
        assert (found.code, len(found.err.splitlines())) == (2, 1)
        assert said in found.err.lower()


def test_fields_that_are_there_twice(berth: Berth) -> None:
    """In JSON, too: whoever wrote both means one of them."""
    spec = '{"priority": 1, "containers": [{"name": "m", "image": "x", "image": "y"}], "priority": 2}'
    Path("a.json").write_text(f'{{"apiVersion": "v1", "kind": "Pod", "metadata": {{"name": "p"}}, "spec": {spec}}}')
    for command in ("simulate", "explain", "capacity"):
        found = berth(command, "-f", "a.json", "--cluster", "cluster.json")
        assert (found.code, found.out) == (2, "")
        assert found.err.splitlines() == [
            "berth: a.json: Pod p: spec.priority: is there twice",
            "berth: a.json: Pod p: spec.containers[0].image: is there twice",
        ]
    assert berth("simulate", "-f", "a.json", "--cluster", "cluster.json", "--no-validate").code == 0


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [("Deployment", "replicas", "three"), ("Deployment", "replicas", {}), ("Job", "completions", "x")],
)
def test_types_are_always_judged(berth: Berth, kind: str, field: str, value: object) -> None:
    """With --no-validate, too: nobody can count so many pods."""
    made = changed(changed(DEPLOYMENT, f"spec.{field}", value), "spec.parallelism", 2)
    version = {"apiVersion": "batch/v1"} if kind == "Job" else {}
    Path("made.json").write_text(json.dumps({**made, "kind": kind, **version}))
    found = berth("simulate", "-f", "made.json", "--cluster", "cluster.json", "--no-validate")
    said = f"spec.{field}: {json.dumps(value) if value else 'a mapping'}: expected a whole number"
    assert (found.code, found.out, found.err) == (2, "", f"berth: made.json: {kind} web: {said}\n")


@pytest.mark.parametrize("more", [(), ("--no-validate",)])
def test_an_empty_item_of_a_list_of_texts_is_an_empty_text(berth: Berth, more: tuple[str, ...]) -> None:
    """As the API server reads it: a dash and nothing after it, in the arguments of a container."""
    made = changed(pod("p", "1"), "spec.containers.0.args", ["-x", None])
    Path("f.yaml").write_text(yaml.safe_dump(made))
    Path("c.yaml").write_text(yaml.safe_dump(node("n1", "4")))
    assert berth("explain", "-f", "f.yaml", "--cluster", "c.yaml", *more).code == 0
