"""The page "A plugin in ten lines" does what it says: its code is run, with its configuration."""

import re
from pathlib import Path
from typing import Any

import yaml

from scheduler.framework.config import decode
from scheduler.framework.decision import fit_error
from scheduler.framework.plugin import POINTS
from scheduler.framework.profiles import build
from scheduler.model import wire
from scheduler.model.kinds import Decoder
from scheduler.plugins.registry import IN_TREE
from scheduler.state.cluster import Cluster
from tests.builders import node, pod

PAGE = (Path(__file__).parents[3] / "docs" / "plugins.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    """The first block of code in this language."""
    found = re.search(rf"```{language}\n(.*?)```", PAGE, re.S)
    assert found is not None
    return found[1]


def test_ten_lines() -> None:
    """Ten lines of code, blank ones aside, that keep pods off the nodes they speak of, in the words they say."""
    code = block("python")
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
    made: dict[str, Any] = {"__name__": "my_package"}
    exec(code, made)
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


def test_every_point_is_documented() -> None:
    """The table has all points there are, and no others."""
    listed = re.findall(r"^\| `(\w+)` \| `\(", PAGE, re.M)
    assert set(listed) == (set(POINTS) - {"pre_score"}) | {"normalize", "unreserve"}
