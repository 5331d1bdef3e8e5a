"""`berth tune`: the answer, the files that it writes, going on, and what is refused."""

from __future__ import annotations

import json
from concurrent.futures import Executor
from pathlib import Path

import pytest
import yaml

from podberth.cli import tune
from podberth.framework.config import decode
from podberth.lab.tune.search import Progress, Search
from tests.unit.cli.conftest import Berth

NODES = "sn,cpu_milli,memory_mib,gpu,model\n" + "".join(f"n{i},8000,16384,2,V100\n" for i in range(6))
HEAD = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
ASKED = ("--goal", "packing", "--goal", "fragmentation", "--min", "bound=0.9", "--periods", "3", "--held-out", "1")
FEW = ("--trials", "6", "--seeds", "2", "--jobs", "1")


@pytest.fixture
def trace(berth: Berth) -> str:
    """A directory with a trace of sixty pods."""
    rows = (
        f"p{i},{1000 + i % 3 * 1000},{1024 + i % 2 * 3072},{i % 2},500,,LS,Running,{10 * i + 1},{10 * i + 81},0"
        for i in range(60)
    )
    Path("trace").mkdir()
    Path("trace/openb_nodes.csv").write_text(NODES)
    Path("trace/openb_pods.csv").write_text(HEAD + "\n".join(rows) + "\n")
    return "trace"


def test_a_search(berth: Berth, trace: str) -> None:
    """A winner that lint takes, its evidence, the same answer when it is asked for again, and more trials later."""
    found = berth("tune", trace, *ASKED, *FEW, "-o", "json")
    assert found.code == 0, found.err
    answer = json.loads(found.out)
    assert "berth: varied: weight.NodeResourcesFit 0..10, NodeResourcesFit.strategy" in found.err
    assert "not varied, as nothing in this world is scored by it: weight.TaintToleration" in found.err
    assert (answer["trials"], answer["goals"], answer["bounds"]) == (
        6,
        ["packing", "fragmentation"],
        ["bound ≥ 90.0 %"],
    )
    assert [period["heldOut"] for period in answer["periods"]] == [False, False, True]
    assert answer["judged"][0]["name"] == "base"
    assert answer["winner"] in [each["name"] for each in answer["judged"]]

    winner = yaml.safe_load(Path("tune/winner.yaml").read_text())
    decode(winner)
    assert winner == answer["configurations"][answer["winner"]]
    assert berth("config", "lint", "tune/winner.yaml").code in (0, 1), "what lint says of it is an opinion, no fault"
    page = Path("tune/evidence.html").read_text()
    assert page.count("<svg") == 2
    assert Path("tune/picture-2.svg").read_text() in page
    assert "://" not in page.replace("http://www.w3.org", "")
    assert all(text in page for text in ("held out", "What changed", answer["judged"][0]["name"], "kubescheduler"))

    again = berth("tune", trace, *ASKED, *FEW, "--seeds", "1")
    assert "on held-out periods" in again.out or "is better than the base" in again.out
    more = json.loads(berth("tune", trace, *ASKED, *FEW, "--trials", "8", "--seeds", "1", "-o", "json").out)
    assert more["searched"][:6] == answer["searched"]
    assert len(more["searched"]) == 8


def test_one_goal_beside_the_default(berth: Berth, trace: str) -> None:
    """Where a file is the base, the default is judged, too; one goal is shown by trial; the profile keeps its name."""
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {"schedulerName": "other"},
            {
                "schedulerName": "mine",
                "pluginConfig": [
                    {"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated"}}},
                ],
            },
        ],
    }
    Path("config.yaml").write_text(yaml.safe_dump(config))
    arguments = ("--config", "config.yaml", "--scheduler", "mine", "--vary", "weight.*", "--results", "found")
    found = berth("tune", trace, "--goal", "packing", *FEW, *arguments, "--trials", "2", "-o", "html")
    assert found.code == 0, found.err
    assert found.out == Path("found/evidence.html").read_text()
    assert found.out.count("<svg") == 1
    assert ">default</th>" in found.out
    assert [each["schedulerName"] for each in yaml.safe_load(Path("found/winner.yaml").read_text())["profiles"]] == [
        "other",
        "mine",
    ]


def test_ctrl_c(berth: Berth, trace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupted search says how it goes on, and does."""
    go_on = Search.go_on

    def interrupted(search: Search, executor: Executor, trials: int, progress: Progress) -> None:
        go_on(search, executor, 2, progress)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Search, "go_on", interrupted)
        found = berth("tune", trace, *ASKED, *FEW)
    assert found.code == 130
    assert "2 trials of 6 are in tune/study.journal; the same command goes on" in found.err
    assert berth("tune", trace, *ASKED, *FEW).code == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "--goal: expected one at least"),
        (["--goal", "speed"], '--goal: "speed": expected one of waiting-p50'),
        (["--goal", "spread"], "no node of the world has the label topology.kubernetes.io/zone"),
        (["--goal", "cost", "--prices", "prices.csv"], "prices.csv, line 1: no column label, value, price"),
        (["--goal", "packing", "--vary", "nothing.*"], '--vary: "nothing.*": expected one or more of weight.'),
        (["--goal", "packing", "--held-out", "6"], "--held-out: 6: expected 1 to 5"),
        (["--goal", "packing", "--trials", "0"], "--trials: 0: expected 1 to 1e+06"),
        (["--goal", "packing", "--at-once", "0"], "--at-once: 0: expected 1 to"),
        (["--goal", "packing", "--periods", "500"], "--periods: 500: 60 pods come in this world"),
        (["--goal", "packing", "--config", "none.yaml"], "none.yaml: no such file or directory"),
        (["--goal", "packing", "--scheduler", "none"], '--scheduler: "none": expected one of the profiles berth'),
        (
            ["--goal", "packing", "--study", "prices.csv"],
            "--study: prices.csv: expected a file that berth tune has made",
        ),
        (["--goal", "packing", "--results", "prices.csv"], "prices.csv: file exists"),
    ],
)
def test_wrong_input(berth: Berth, trace: str, arguments: list[str], said: str) -> None:
    """One line, and the exit code 2."""
    Path("prices.csv").write_text("gold\n")
    found = berth("tune", trace, *arguments)
    assert found.code == 2
    assert said in found.err
    assert len(found.err.splitlines()) == 1


def test_no_world(berth: Berth) -> None:
    """A path that is nothing is named."""
    found = berth("tune", "nowhere", "--goal", "packing")
    assert (found.code, found.err) == (2, "berth: nowhere: no such file or directory\n")


def test_without_the_extra(berth: Berth, trace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A library that is not installed is asked for by the extra that has it."""
    monkeypatch.setattr(tune, "find_spec", lambda name: None)
    found = berth("tune", trace, "--goal", "packing")
    assert (found.code, found.err) == (
        2,
        "berth: tune: expected the extra podberth[lab]: pip install 'podberth[lab]'\n",
    )
