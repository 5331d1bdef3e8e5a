"""What the chart refuses, and how it says so."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

import podberth
from podberth.framework.config import decode
from podberth.framework.profiles import build
from podberth.plugins.registry import IN_TREE
from podberth.policy.parse import parse
from tests.chart.rendering import CHART, Chart, Object, by_kind, containers, documents

SCHEMA = json.loads((CHART / "values.schema.json").read_text())

REFUSED: list[tuple[str, Object, list[str]]] = [
    ("top level", {"schedular": {}}, ["additional properties 'schedular' not allowed"]),
    ("component", {"scheduler": {"replica": 3}}, ["at '/scheduler'", "'replica' not allowed"]),
    ("configuration", {"scheduler": {"config": {"profile": []}}}, ["/scheduler/config", "'profile' not allowed"]),
    (
        "profile",
        {"scheduler": {"config": {"profiles": [{"schedulrName": "a"}]}}},
        ["/scheduler/config/profiles/0", "'schedulrName' not allowed"],
    ),
    ("type", {"operator": {"replicas": "two"}}, ["/operator/replicas", "got string, want integer"]),
    ("choice", {"admission": {"failurePolicy": "Fial"}}, ["/admission/failurePolicy", "'Ignore', 'Fail'"]),
    ("toleration", {"evictor": {"tolerations": [{"keys": "a"}]}}, ["/evictor/tolerations/0", "'keys' not allowed"]),
    ("digest", {"image": {"digest": "sha256:abc"}}, ["/image/digest", "does not match pattern"]),
    ("API server", {"networkPolicy": {"enabled": True}}, ["networkPolicy.apiServer: want the addresses"]),
    ("Secret", {"admission": {"tls": {"mode": "secret"}}}, ["admission.tls.secretName: want the name of a Secret"]),
    (
        "Lease elsewhere",
        {"scheduler": {"config": {"leaderElection": {"resourceNamespace": "kube-system"}}}},
        ['leaderElection.resourceNamespace: "kube-system": want the release\'s namespace (berth)'],
    ),
    (
        "profiles without names",
        {"scheduler": {"config": {"profiles": [{"schedulerName": "a"}, {}]}}},
        ["scheduler.config.profiles[1].schedulerName: want a name, as there are 2 profiles"],
    ),
    (
        "two without an election",
        {"scheduler": {"config": {"leaderElection": {"leaderElect": False}}}},
        ["scheduler.replicas: 2: want 1, as scheduler.config.leaderElection.leaderElect is false"],
    ),
]


@pytest.mark.parametrize(("values", "said"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_refused(chart: Chart, values: Object, said: list[str]) -> None:
    """A wrong value is refused with its path and what was expected."""
    text = chart.refusal(values)
    assert [words for words in said if words not in text] == [], text


@pytest.mark.parametrize("release", ["with.dot", "x" * 41])
def test_release_names(chart: Chart, release: str) -> None:
    """A release whose name can't begin a Service's name is refused."""
    assert "want at most 40 characters without a dot" in chart.refusal({}, release)


def test_lint(chart: Chart) -> None:
    """`helm lint --strict` has nothing to say, with everything switched on."""
    done = chart.run("lint", "--strict", CHART, values=EVERYTHING)
    assert done.returncode == 0, done.stdout
    assert "[WARNING]" not in done.stdout
    assert "[ERROR]" not in done.stdout


EVERYTHING: Object = {
    "evictor": {"enabled": True},
    "admission": {"tls": {"mode": "certManager"}},
    "metrics": {
        "readers": [{"name": "prometheus", "namespace": "monitoring"}],
        "serviceMonitor": {"enabled": True},
        "prometheusRule": {"enabled": True},
        "dashboard": {"enabled": True},
    },
    "networkPolicy": {
        "enabled": True,
        "apiServer": ["10.0.0.1/32"],
        "metricsFrom": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}],
        "restrictEgress": True,
    },
}

OPEN = {"affinity", "volume", "global"}
"""Passed on: the API server knows affinities and volumes better, and `global` is Helm's."""


def _loose(schema: Any, path: str) -> list[str]:
    """Paths of objects in a schema that would take any property."""
    if isinstance(schema, list):
        return [found for i, item in enumerate(schema) for found in _loose(item, f"{path}/{i}")]
    if not isinstance(schema, dict):
        return []
    loose = schema.get("type") == "object" and schema.get("additionalProperties", True) is True
    return [path] * loose + [found for key, value in schema.items() for found in _loose(value, f"{path}/{key}")]


def test_schema_is_closed() -> None:
    """Only what is passed on, and the arguments of plugins, takes any property."""
    found = {path.rsplit("/", 1)[1] for path in _loose(SCHEMA, "")}
    assert found == OPEN | {"args"}


def test_every_value_is_used() -> None:
    """values.yaml and the schema name the same values, and so does somebody's template."""
    (values,) = documents((CHART / "values.yaml").read_text())
    assert set(values) | {"global"} == set(SCHEMA["properties"])
    for component in ("scheduler", "operator", "admission", "evictor", "metrics", "networkPolicy", "crds", "image"):
        assert set(values[component]) == set(SCHEMA["properties"][component]["properties"]), component


def test_readme(helm_docs: Path, tmp_path: Path) -> None:
    """`make manifests` would change nothing, and each value says what it is for."""
    copied = tmp_path / "helm"
    shutil.copytree(CHART, copied)
    (copied / "README.md").unlink()
    subprocess.run([helm_docs, "--chart-search-root", copied, "--log-level=warning"], check=True, capture_output=True)
    text = (CHART / "README.md").read_text()
    assert (copied / "README.md").read_text() == text
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:3] == "| `"]
    assert len(rows) > 50
    assert [cells[0] for cells in rows if len(cells) != 4 or "" in cells] == []
    # What is said to be as another value is so in values.yaml.
    named = {cells[0] for cells in rows}
    assert {cells[3].removeprefix("as ") for cells in rows if cells[3].startswith("as `")} <= named


def test_about() -> None:
    """Chart, application and what Artifact Hub shows have the package's version; what they name is there."""
    version = podberth.__version__
    text = (CHART / "Chart.yaml").read_text()
    (about,) = documents(text)
    assert about["version"] == about["appVersion"] == version
    assert set(re.findall(r"\bv?(\d+\.\d+\.\d+)\b", text.replace(about["kubeVersion"], ""))) == {version}
    address = re.compile(rf"(?:/blob|\.com/podberth/berth)/v{version}/(\S+)")
    named = address.findall(text)
    assert len(named) == 3
    assert [path for path in named if not (CHART.parent / path).is_file()] == []
    (image,) = yaml.safe_load(about["annotations"]["artifacthub.io/images"])
    (values,) = documents((CHART / "values.yaml").read_text())
    assert image["image"] == f"{values['image']['repository']}:{version}"
    (crd,) = yaml.safe_load(about["annotations"]["artifacthub.io/crds"])
    (ours,) = documents((CHART / "files" / "crd-metadatapolicies.yaml").read_text())
    assert crd["name"] == ours["metadata"]["name"]
    assert crd["version"] in [one["name"] for one in ours["spec"]["versions"]]
    (example,) = yaml.safe_load(about["annotations"]["artifacthub.io/crdsExamples"])
    assert (example["kind"], example["apiVersion"]) == (crd["kind"], f"{ours['spec']['group']}/{crd['version']}")
    assert parse(example, new=True).rules


CONFIGURATIONS: list[tuple[str, Object, Object]] = [
    (
        "none",
        {},
        {
            "profiles": [{"schedulerName": "blue"}],
            "leaderElection": {"resourceName": "blue", "resourceNamespace": "team"},
        },
    ),
    (
        "given",
        {
            "podMaxBackoffSeconds": 20,
            "leaderElection": {"leaseDuration": "30s", "resourceName": "mine"},
            "profiles": [
                {
                    "schedulerName": "packed",
                    "plugins": {"score": {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeResourcesFit"}]}},
                    "pluginConfig": [
                        {"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated"}}}
                    ],
                }
            ],
        },
        {"leaderElection": {"leaseDuration": "30s", "resourceName": "mine", "resourceNamespace": "team"}},
    ),
    (
        "a profile without a name",
        {"profiles": [{"percentageOfNodesToScore": 50}]},
        {
            "profiles": [{"schedulerName": "blue", "percentageOfNodesToScore": 50}],
            "leaderElection": {"resourceName": "blue", "resourceNamespace": "team"},
        },
    ),
]


@pytest.mark.parametrize(
    ("given", "filled"), [case[1:] for case in CONFIGURATIONS], ids=[case[0] for case in CONFIGURATIONS]
)
def test_configuration(chart: Chart, given: Object, filled: Object) -> None:
    """The configuration is what was given; only what is absent is filled in, and Berth reads it."""
    objects = chart.objects({"scheduler": {"config": given}}, "blue", "team")
    text = by_kind(objects, "ConfigMap")["blue-scheduler"]["data"]["config.yaml"]
    (read,) = documents(text)
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    assert read == head | given | filled
    assert decode(read).leader_election.resource_namespace == "team"
    role = by_kind(objects, "Role")["blue-scheduler"]
    assert role["rules"][1]["resourceNames"] == [read["leaderElection"]["resourceName"]]
    # The others are told the same name, and `helm test` waits for a pod that Berth schedules.
    names = [profile["schedulerName"] for profile in read["profiles"]]
    for component in ("operator", "admission"):
        args = containers(objects)[component]["args"]
        assert [arg for arg in args if arg.startswith("--profile=")] == [f"--profile={name}" for name in names]
    assert [pod["spec"]["schedulerName"] for pod in by_kind(objects, "Pod").values()] == names


@pytest.mark.parametrize("preemption", [True, False])
def test_nobody_preempts_without_the_right_to_delete_pods(chart: Chart, preemption: bool) -> None:
    """A victim that can't be deleted would be marked for ever, so that no profile may look for any."""
    named = {"postFilter": {"enabled": [{"name": "DefaultPreemption"}], "disabled": [{"name": "*"}]}}
    weighed = {"postFilter": {"enabled": [{"name": "DefaultPreemption", "weight": 0}]}}
    profiles = [
        {"schedulerName": "plain"},
        {"schedulerName": "named", "plugins": named},
        {"schedulerName": "weighed", "plugins": weighed},
    ]
    values = {"scheduler": {"rbac": {"preemption": preemption}, "config": {"profiles": profiles}}}
    (read,) = documents(by_kind(chart.objects(values), "ConfigMap")["berth-scheduler"]["data"]["config.yaml"])
    frameworks = build(decode(read), IN_TREE)
    looking = {name: framework.profile.plugins("post_filter") for name, framework in frameworks.items()}
    preempts = {name: any(plugin.name == "DefaultPreemption" for plugin in found) for name, found in looking.items()}
    assert preempts == {"plain": preemption, "named": preemption, "weighed": preemption}
