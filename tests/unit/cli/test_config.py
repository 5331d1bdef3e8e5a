"""`berth config view` and `berth config lint` on files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.builders import configuration, profile
from tests.unit.cli.conftest import Berth

MOST = {"scoringStrategy": {"type": "MostAllocated"}}
PACK = configuration(profile("pack", NodeResourcesFit=MOST))


def write(name: str, document: Any) -> str:
    Path(name).write_text(document if isinstance(document, str) else yaml.safe_dump(document), encoding="utf-8")
    return name


def test_view_prints_a_configuration(berth: Berth) -> None:
    """YAML by default, the same as JSON, and the same again when it is viewed."""
    once = berth("config", "view", "--config", write("pack.yaml", PACK))
    assert (once.code, once.err) == (0, "")
    found = yaml.safe_load(once.out)
    assert found["percentageOfNodesToScore"] == 100
    assert json.loads(berth("config", "view", "--config", "pack.yaml", "-o", "json").out) == found
    assert berth("config", "view", "--config", write("again.yaml", once.out)).out == once.out


def test_view_without_a_file(berth: Berth) -> None:
    """The defaults, with one profile of our name."""
    found = yaml.safe_load(berth("config", "view").out)
    assert [each["schedulerName"] for each in found["profiles"]] == ["berth"]
    assert "&" not in berth("config", "view").out


def test_view_and_lint_take_a_file_either_way(berth: Berth) -> None:
    """FILE and --config FILE mean the same to both commands."""
    path = write("pack.yaml", PACK)
    for command in ("view", "lint"):
        bare, named = berth("config", command, path), berth("config", command, "--config", path)
        assert (bare.code, bare.out, bare.err) == (named.code, named.out, "")
        assert "NodeResourcesFit" in bare.out
    other = write("fine.yaml", configuration())
    both = berth("config", "lint", path, "--config", other, "--config", path)
    assert both.out.endswith("\n2 files, 2 findings\n")
    two = berth("config", "view", path, "--config", other)
    assert (two.code, two.out) == (2, "")
    assert two.err == "berth: pack.yaml and --config fine.yaml: give one file to view\n"


WRONG = [
    ("nope: 1\n", "bad.yaml: nope: Unknown field"),
    ("schedulerNames: 1\n", "bad.yaml: schedulerNames: Unknown field"),
    (
        "profiles: [{schedulerName: a, plugins: {filter: {enabled: [{name: NodePort}]}}}]\n",
        'bad.yaml: profiles[0].plugins.filter.enabled[0].name: Invalid value: "NodePort": no plugin of this name '
        "(did you mean NodePorts?)",
    ),
    (
        "profiles: [{schedulerName: a, pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategi: {}}}]}]\n",
        "bad.yaml: profiles[0].pluginConfig[0].args.scoringStrategi: Unknown field (did you mean scoringStrategy?)",
    ),
    ("parallelism: 0\n", "bad.yaml: parallelism: Invalid value: 0: should be an integer value greater than zero"),
]
HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


@pytest.mark.parametrize(("text", "want"), WRONG, ids=[str(i) for i in range(len(WRONG))])
def test_what_is_not_valid_is_refused(berth: Berth, text: str, want: str) -> None:
    """One line on stderr, exit code 2, nothing on stdout."""
    told = berth("config", "view", "--config", write("bad.yaml", HEAD + text))
    assert (told.code, told.out, told.err) == (2, "", f"berth: {want}\n")


def test_lint_finds_nothing_in_the_defaults(berth: Berth) -> None:
    """Exit code 0."""
    told = berth("config", "lint")
    assert (told.code, told.out, told.err) == (0, "1 file, nothing found\n", "")


def test_lint_tells_of_a_packing_profile(berth: Berth) -> None:
    """The finding says where, what, why and what to do, and shows the two nodes; the exit code is 1."""
    told = berth("config", "lint", write("pack.yaml", PACK))
    assert (told.code, told.err) == (1, "")
    assert "pack.yaml: profiles[0].pluginConfig[0].args.scoringStrategy.type: packing-outvoted\n" in told.out
    assert "NodeResourcesFit gives a node 1 × 100 = 100 at most" in told.out
    assert "emptier (chosen)" in told.out
    assert told.out.endswith("\n1 file, 1 finding\n")
    assert max(map(len, told.out.splitlines())) < 130


def test_lint_as_json(berth: Berth) -> None:
    """A list of findings for each file, with stable keys."""
    told = berth("config", "lint", write("pack.yaml", PACK), write("fine.yaml", configuration()), "-o", "json")
    found = json.loads(told.out)["files"]
    assert told.code == 1
    assert [(each["file"], [finding["code"] for finding in each["findings"]]) for each in found] == [
        ("pack.yaml", ["packing-outvoted"]),
        ("fine.yaml", ["lease-shared"]),
    ]
    (finding,) = found[0]["findings"]
    assert list(finding) == ["code", "path", "what", "why", "remedy", "example"]
    assert list(finding["example"]) == ["scene", "intended", "chosen", "nodes"]
    assert list(finding["example"]["nodes"][0]) == ["node", "scores", "total"]
    assert list(found[1]["findings"][0]) == ["code", "path", "what", "why", "remedy"]


def test_lint_refuses_what_is_not_valid(berth: Berth) -> None:
    """All errors of all files, and no findings: those of a file that can't be used mean little."""
    bad = configuration(profile("a", InterPodAffinity={"hardPodAffinityWeight": 101}))
    told = berth("config", "lint", write("a.yaml", bad), write("b.yaml", HEAD + "nope: 1\n"), write("c.yaml", PACK))
    assert (told.code, told.out) == (2, "")
    assert told.err.splitlines() == [
        "berth: a.yaml: profiles[0].pluginConfig[0].args.hardPodAffinityWeight: Invalid value: 101: "
        "not in valid range [0, 100]",
        "berth: b.yaml: nope: Unknown field",
    ]
    assert berth("config", "lint", "missing.yaml").err == "berth: missing.yaml: no such file or directory\n"


def test_lint_with_a_dump(berth: Berth) -> None:
    """A profile that none of its pods names."""
    told = berth("config", "lint", write("a.yaml", configuration(profile("lonely"))), "--cluster", "cluster.json")
    assert told.code == 1
    assert "a.yaml: profiles[0].schedulerName: profile-unused\n" in told.out


def test_an_unknown_plugin_is_a_finding(berth: Berth) -> None:
    """The file is as it should be otherwise; what it wants is not there."""
    asked = profile("a", {"multiPoint": {"enabled": [{"name": "NodeResourceFit"}]}})
    told = berth("config", "lint", write("a.yaml", configuration(asked)))
    assert told.code == 1
    assert "unknown-plugin" in told.out
    assert "Did you mean NodeResourcesFit?" in told.out
