"""The page "A plugin in ten lines" does what it says: its code is run and proved, with its configuration."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from podberth.cache.cluster import Cluster
from podberth.cli.plugin import rendered
from podberth.framework.config import decode
from podberth.framework.decision import fit_error
from podberth.framework.declaration import KNOWN
from podberth.framework.interface import POINTS
from podberth.framework.profiles import build
from podberth.kit.testing import node, pod, prove
from podberth.model import wire
from podberth.model.kinds import Decoder
from podberth.model.node import Node
from podberth.model.pod import Pod
from podberth.plugins.registry import IN_TREE

SAID = (
    "0/4 nodes are available: {}. preemption: 0/4 nodes are available: 4 No preemption victims found for incoming pod."
)
PAGE = (Path(__file__).parents[3] / "docs" / "plugins.md").read_text(encoding="utf-8")


def block(language: str, holding: str = "") -> str:
    """The first block of code in this language that holds a text."""
    texts: list[str] = re.findall(rf"```{language}\n(.*?)```", PAGE, re.S)
    return next(found for found in texts if holding in found)


def made_by(code: str, **before: Any) -> dict[str, Any]:
    """What a block of code defines."""
    made: dict[str, Any] = {"__name__": "my_package", **before}
    exec(code, made)
    return made


def test_ten_lines() -> None:
    """Ten lines of code, blank ones aside, that keep pods off the nodes they speak of, in the words they say."""
    code = block("python")
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
    made = made_by(code)
    plugins = {**IN_TREE, "NoMaintenance": made["NoMaintenance"]}
    framework = build(decode(yaml.safe_load(block("yaml"))), plugins)["berth"]
    decoder, cluster = Decoder(), Cluster()
    for name in ("a", "b", "c"):
        cluster.put_node(decoder.node(wire.encode(node(name, labels={"maintenance": "soon"}))))
    waiting = decoder.pod(wire.encode(pod("web")))
    (said,) = re.findall(r"`(0/3 nodes are available: .*?)`", PAGE)
    assert fit_error(framework.decide(waiting, cluster)) == said
    cluster.put_node(decoder.node(wire.encode(node("d", labels={"maintenance": "later"}))))
    decision = framework.decide(waiting, cluster)
    assert [cluster.nodes.names[row] for row in decision.feasible] == ["d"]


def test_its_proof() -> None:
    """The test on the page passes."""
    made_by(block("python", "prove"), **made_by(block("python")))["test_no_maintenance"]()


def test_it_is_what_a_new_package_has() -> None:
    """`berth plugin new NoMaintenance` makes what the page shows: code, entry point, configuration and test."""
    made = rendered("NoMaintenance")
    assert block("python") == made["no_maintenance/__init__.py"]
    assert block("yaml") == made["scheduler.yaml"]
    assert block("toml") in made["pyproject.toml"]
    assert block("python", "prove").partition("\n\n\n")[2] in made["tests/test_no_maintenance.py"]
    steps = block("console")
    assert steps.partition("pip")[2] in made["README.md"]


def test_a_score() -> None:
    """Quiet nodes first."""
    quiet = made_by(block("python", "PreferQuiet"))["PreferQuiet"]
    nodes = [node("n0", labels={"noise": "loud"}), node("n1", labels={"noise": "some"}), node("n2")]
    assert prove(quiet, nodes=nodes, pods=[pod("web")]).nodes == {"web": "n2"}


def test_pods_elsewhere() -> None:
    """One in each zone, and the third waits."""
    zone = made_by(block("python", "OnePerZone"))["OnePerZone"]
    nodes = [node(f"n{i}", labels={"topology.kubernetes.io/zone": "ab"[i % 2]}) for i in range(4)]
    pods = [pod(f"p{i}", labels={"app": "db"}) for i in range(3)]
    proof = prove(zone, nodes=nodes, pods=pods)
    assert {name[1] in "02" for name in proof.nodes.values()} == {True, False}
    assert proof.messages == {"p2": SAID.format("4 node(s) are in a zone with a pod of this app")}


def test_something_reserved() -> None:
    """Each seat once; who gets none waits for a pod to go."""
    seats = made_by(block("python", "class Seats("))["Seats"]
    pods = [pod(f"p{i}", labels={"seat": "yes"}) for i in range(3)] + [pod("q")]
    proof = prove(seats, nodes=[node("n0"), node("n1")], pods=pods, args={"total": 2})
    assert set(proof.nodes) == {"p0", "p1", "q"}
    assert proof.messages == {"p2": "0/1 nodes are available: 1 all seats are taken."}


def test_explained() -> None:
    """What it says of its rejections, and offers, is what it may be. `tests/unit/cli` shows it to people."""
    teams = made_by(block("python", "class NoMaintenanceOfTeams("), **made_by(block("python")))["NoMaintenanceOfTeams"]
    nodes = [node(f"n{i}", labels={"maintenance": "soon", "team": "storage"}) for i in range(4)]
    proof = prove(teams, nodes=nodes, pods=[pod("web")])
    assert proof.messages == {"web": SAID.format("4 node(s) will be serviced soon")}


def test_annotations() -> None:
    """The best rated, unless the pod does not care."""
    rated = made_by(block("python", "PreferRated"))["PreferRated"]
    nodes = [node(f"n{i}", annotations={"example.com/rating": str(i)}) for i in range(3)]
    assert prove(rated, nodes=nodes, pods=[pod("web")]).nodes == {"web": "n2"}
    prove(rated, nodes=nodes, pods=[pod("web"), pod("any", annotations={"example.com/any-node": "yes"})])


def test_outside_data() -> None:
    """The coolest rack; one that is not measured counts as cool."""
    hot = made_by(block("python", "AvoidHot"))["AvoidHot"]
    nodes = [node(f"n{i}", labels={"rack": "abc"[i]}) for i in range(3)]
    assert prove(hot, nodes=nodes, pods=[pod("web")], sources={"heat": {"a": 90, "b": 80}}).nodes == {"web": "n2"}
    heat = {"a": 90, "b": 80, "c": 85}
    assert prove(hot, nodes=nodes, pods=[pod("web")], sources={"heat": heat}).nodes == {"web": "n1"}


def test_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The node on which the model expects the pod to be quickest, against what the other plugins say; it is asked once
    for all nodes.
    """
    import joblib  # it takes a second, which only this test should cost
    from sklearn.tree import DecisionTreeRegressor

    dice = np.random.default_rng(0)
    seen = np.column_stack((dice.random(500), dice.integers(0, 110, 500)))
    model = DecisionTreeRegressor(max_depth=5, random_state=0).fit(seen, 20 * seen[:, 0] + 2 * seen[:, 1])
    joblib.dump(model, tmp_path / "model")
    asked: list[int] = []
    predict = DecisionTreeRegressor.predict

    def predicted(self: Any, rows: Any) -> Any:
        asked.append(len(rows))
        return predict(self, rows)

    monkeypatch.setattr(DecisionTreeRegressor, "predict", predicted)
    nodes = [node("busy"), node("crowded")]
    others = [pod(f"small-{i}", cpu="1m", memory="1Mi", nodeName="crowded") for i in range(40)]
    others.append(pod("large", cpu="2", nodeName="busy"))
    learned = made_by(block("python", "class Learned("))["Learned"]
    args = {"model": str(tmp_path / "model")}
    assert prove(learned, nodes=nodes, pods=[pod("web")], others=others, args=args).nodes == {"web": "busy"}
    assert asked[0] == len(nodes)


@pytest.mark.parametrize(
    "name",
    [
        "NoMaintenance",
        "PreferQuiet",
        "OnePerZone",
        "Seats",
        "NoMaintenanceOfTeams",
        "PreferRated",
        "AvoidHot",
        "Learned",
    ],
)
def test_short(name: str) -> None:
    """Twenty lines each at most, blank ones and imports aside."""
    code = block("python", f"class {name}(").partition("class ")[2]
    assert len([line for line in code.splitlines() if line.strip()]) <= 20


def test_every_declaration_is_documented() -> None:
    """The table of declarations has all that a class may declare."""
    table = PAGE.partition("## What a plugin declares")[2].partition("## ")[0]
    named = set(re.findall(r"`(\w+)[`(]", table))
    assert named >= set(KNOWN) - set(POINTS) - {"name", "unreserve"}


@pytest.mark.parametrize(("row", "thing"), [("a pod", Pod), ("a node", Node)])
def test_what_pods_and_nodes_have(row: str, thing: Any) -> None:
    """All of it, and nothing else."""
    own = [vars(kind) for kind in thing.__mro__ if kind.__module__.startswith("podberth.")]
    has = {name for each in own for name, what in each.items() if not name.startswith("_") and not callable(what)}
    (line,) = re.findall(rf"^\| {row} \(.*? \| (.*) \|$", PAGE, re.M)
    assert set(re.findall(r"`(\w+)`", line)) == has - {"namespace"} | ({"namespace"} & set(thing.__struct_fields__))


def test_what_a_cluster_has() -> None:
    """What the page names of the rest is there."""
    looks = PAGE.partition("## What it looks at")[2].partition("## ")[0]
    cluster, decoder = Cluster(), Decoder()
    cluster.put_node(decoder.node(wire.encode(node("n"))))
    shape = decoder.pod(wire.encode(pod("p"))).shape
    of: dict[str, Any] = {"its `shape`": shape, "`cluster`": cluster, "`cluster.nodes`": cluster.nodes}
    of["`cluster.nodes.label(key)`"] = cluster.nodes.label("rack")
    for row, thing in of.items():
        (line,) = re.findall(rf"^\| {re.escape(row)}.*? \| (.*) \|$", looks, re.M)
        names = set(re.findall(r"(?<![/.])`(\w+)[`(]", line)) - {"question", "accepts"}
        assert [name for name in sorted(names) if not hasattr(thing, name)] == []


def test_every_point_is_documented() -> None:
    """The table has all points there are, and no others."""
    listed = re.findall(r"^\| `(\w+)` \| `\(", PAGE, re.M)
    assert set(listed) == (set(POINTS) - {"pre_score"}) | {"normalize", "unreserve"}
