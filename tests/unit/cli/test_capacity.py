"""`berth capacity`: forms of the answer, exit codes, and what is refused."""

import json
from pathlib import Path

import pytest
import yaml

from tests.builders import pod
from tests.unit.cli.conftest import Berth
from tests.unit.report.test_page import Checked


@pytest.fixture
def file(berth: Berth) -> str:
    """A pod that fits a few times."""
    Path("pod.yaml").write_text(yaml.safe_dump(pod("web", "1", "1Gi")))
    return "pod.yaml"


def test_forms(berth: Berth, file: str) -> None:
    """The same figure in a table, as JSON and on a page that loads nothing."""
    table = berth("capacity", "-f", file, "--cluster", "cluster.json")
    assert (table.code, table.err) == (0, "")
    assert table.out.startswith("3 more pods like default/web fit, on 2 nodes of 5\n")
    found = json.loads(berth("capacity", "-f", file, "--cluster", "cluster.json", "-o", "json").out)
    assert (found["fits"], found["kind"]) == (3, "Capacity")
    page = berth("capacity", "-f", file, "--cluster", "cluster.json", "-o", "html").out
    checked = Checked()
    checked.feed(page)
    assert (checked.open, checked.loads) == ([], ["data:,"])
    assert "3 more pods like default/web fit" in page


@pytest.mark.parametrize(("least", "code"), [("3", 0), ("4", 1)])
def test_exit_code(berth: Berth, file: str, least: str, code: int) -> None:
    """0 when so many fit, 1 when they do not."""
    assert berth("capacity", "-f", file, "--cluster", "cluster.json", "--at-least", least).code == code


@pytest.mark.parametrize(
    ("documents", "arguments", "said"),
    [
        ([pod("a"), pod("b")], [], "two.yaml: holds a, b: name one"),
        ([pod("a"), pod("b")], ["c"], "two.yaml: holds no pod named c"),
        ([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}], [], "holds nothing that makes pods"),
    ],
)
def test_refused(berth: Berth, documents: list[object], arguments: list[str], said: str) -> None:
    """One line, exit code 2."""
    Path("two.yaml").write_text(yaml.safe_dump_all(documents))
    found = berth("capacity", *arguments, "-f", "two.yaml", "--cluster", "cluster.json")
    assert (found.code, found.out) == (2, "")
    assert said in found.err
