"""`berth config view` beside kube-scheduler's `--write-config-to`: the same values, but for those that docs name."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from podberth.framework.config import decode
from podberth.framework.declaration import declaration_of
from podberth.framework.profiles import effective
from podberth.lab.tune.space import document, space
from podberth.plugins.registry import IN_TREE
from tests.builders import configuration, node, node_selector, pod, profile
from tests.controlplane.api import Object
from tests.controlplane.cluster import Cluster
from tests.unit.lab.worlds import world

RATIO = {"shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]}
EVEN = {"maxSkew": 2, "topologyKey": "rack", "whenUnsatisfiable": "ScheduleAnyway"}
TUNED: dict[str, int | str | bool] = {
    "weight.NodeResourcesFit": 7,
    "weight.NodeResourcesBalancedAllocation": 3,
    "NodeResourcesFit.strategy": "RequestedToCapacityRatio",
    "NodeResourcesFit.shape.0": 3,
    "NodeResourcesFit.shape.50": 1,
    "NodeResourcesFit.shape.100": 9,
    "NodeResourcesFit.resource.memory": 0,
}
"""What `berth tune` may come to."""


def tuned() -> Object:
    """The configuration that it writes."""
    there = space(decode(configuration(profile())), "berth", world([node("a"), pod("x", "1", "1Gi")]))
    return document(there.configuration({**there.begin(), **TUNED}))


GIVEN: dict[str, Object] = {
    "tuned": tuned(),
    "defaults": configuration(profile("a")),
    "disabled at its only point": configuration(
        profile("a", {"score": {"disabled": [{"name": "NodeResourcesBalancedAllocation"}]}})
    ),
    "all sorts": configuration(
        profile(
            "a",
            {
                "multiPoint": {
                    "enabled": [{"name": "TaintToleration", "weight": 9}],
                    "disabled": [{"name": "ImageLocality"}],
                },
                "score": {
                    "enabled": [{"name": "NodeResourcesFit", "weight": 5}],
                    "disabled": [{"name": "NodeAffinity"}],
                },
            },
            NodeResourcesFit={"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "memory"}]}},
            InterPodAffinity={"hardPodAffinityWeight": 8},
            VolumeBinding={"bindTimeoutSeconds": 3},
        ),
        profile(
            "b",
            NodeResourcesFit={
                "ignoredResources": ["a.b/c"],
                "scoringStrategy": {"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": RATIO},
            },
            PodTopologySpread={"defaultingType": "List", "defaultConstraints": [EVEN]},
            NodeAffinity={"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": node_selector("pool=x")}},
            DefaultPreemption={"minCandidateNodesPercentage": 30},
        ),
        parallelism=4,
        podInitialBackoffSeconds=2,
        podMaxBackoffSeconds=20,
        leaderElection={"leaseDuration": "1m30s"},
        percentageOfNodesToScore=70,
    ),
}


@pytest.mark.parametrize("name", GIVEN)
def test_the_same_file_comes_to_the_same(name: str, control_plane: Cluster, tmp_path: Path) -> None:
    """Field by field; what differs is what docs/configuration.md says."""
    given = GIVEN[name]
    ours = effective(decode(given), IN_TREE)
    theirs = written(given, control_plane, tmp_path)

    for field in ("parallelism", "podInitialBackoffSeconds", "podMaxBackoffSeconds", "enableProfiling"):
        assert theirs[field] == ours[field]
    assert theirs["percentageOfNodesToScore"] == given.get("percentageOfNodesToScore", 0)
    assert ours["percentageOfNodesToScore"] == given.get("percentageOfNodesToScore", 100)
    assert without(theirs["leaderElection"], "resource") == without(ours["leaderElection"], "resource")
    assert without(theirs["clientConnection"], "content", "kube") == without(
        ours["clientConnection"], "content", "kube"
    )
    for mine, their in zip(ours["profiles"], theirs["profiles"], strict=True):
        assert mine["schedulerName"] == their["schedulerName"]
        general = [each["name"] for each in their["plugins"]["multiPoint"]["enabled"]]
        args = {each["name"]: each["args"] for each in their["pluginConfig"]}
        assert {each["name"]: each["args"] for each in mine["pluginConfig"] if each["name"] in general} == args
        assert weights(mine) == their_weights(their)
        filters = [each["name"] for each in mine["plugins"]["filter"]["enabled"] if each["name"] in general]
        assert filters == [each for each in general if each in filters]

    again = effective(decode(theirs), IN_TREE)
    assert [each["plugins"] for each in again["profiles"]] == [each["plugins"] for each in ours["profiles"]]


def written(given: Object, control_plane: Cluster, home: Path) -> Any:
    """What kube-scheduler makes of a configuration; it writes it before it asks anybody for anything."""
    kubeconfig = control_plane.kubeconfig(home / "kubeconfig")
    (home / "in.yaml").write_text(yaml.safe_dump(given | {"clientConnection": {"kubeconfig": str(kubeconfig)}}))
    command = [str(control_plane.tool("kube-scheduler")), f"--config={home / 'in.yaml'}"]
    done = subprocess.run(
        [*command, f"--write-config-to={home / 'out.yaml'}", "--secure-port=0"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (home / "out.yaml").exists(), done.stderr
    return yaml.safe_load((home / "out.yaml").read_text())


def without(fields: Object, *words: str) -> Object:
    return {name: value for name, value in fields.items() if not any(word in name.lower() for word in words)}


def weights(found: Object) -> dict[str, int]:
    return {each["name"]: each["weight"] for each in found["plugins"]["score"]["enabled"]}


def their_weights(found: Object) -> dict[str, int]:
    """The weights that kube-scheduler's framework takes from what it writes, for our scorers."""
    plugins = found["plugins"]
    off = {each["name"] for each in plugins["score"].get("disabled", [])}
    merged = {each["name"]: each["weight"] or 1 for each in plugins["multiPoint"]["enabled"]}
    merged |= {each["name"]: each["weight"] or 1 for each in plugins["score"].get("enabled", [])}
    scorers = {name for name in merged if "score" in declaration_of(IN_TREE[name]).points}
    return {name: merged[name] for name in scorers - off}
