"""docs/configuration.md and the references say what the code does: every field, every finding, every command shown."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import msgspec
import pytest

import podberth.explain.lint as lint_room
from docs.reference.fields import pages
from tests.unit.cli.conftest import Berth

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")


def rows(heading: str) -> list[list[str]]:
    """The cells of the first table after a heading, without its head."""
    table = re.search(r"(?:^\|.*\n)+", PAGE[PAGE.index(f"\n{heading}\n") :], re.MULTILINE)
    assert table is not None
    lines = table[0].splitlines()[2:]
    return [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines]


@pytest.mark.parametrize(("path", "text"), pages().items(), ids=lambda each: getattr(each, "name", ""))
def test_the_references_are_what_the_code_says(path: Path, text: str) -> None:
    """`make reference` writes them."""
    assert path.read_text(encoding="utf-8") == text


def test_every_finding_is_there() -> None:
    """The codes of the page are those that the checks give."""
    told = [row[0] for row in rows("## berth config lint")]
    given = set()
    for file in Path(str(lint_room.__file__)).parent.glob("*.py"):
        for call in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "Finding":
                code = call.args[0]
                assert isinstance(code, ast.Constant)
                given.add(code.value)
    assert len(told) == len(set(told))
    assert set(told) == given


SHOWN = re.findall(r"```console\n\$ berth (.* examples/config/.*)\n((?:.*\n)*?)```", PAGE)


@pytest.mark.parametrize(("words", "output"), SHOWN, ids=[words for words, _ in SHOWN])
def test_commands_print_what_the_page_shows(
    berth: Berth, monkeypatch: pytest.MonkeyPatch, words: str, output: str
) -> None:
    """The examples are run as they stand."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("COLUMNS", "120")
    assert berth(*words.split()).out == output


def test_the_page_shows_commands() -> None:
    """The pattern above finds them."""
    assert len(SHOWN) == 3


EXAMPLES = sorted(path.name for path in (ROOT / "examples" / "config").glob("*.yaml"))


@pytest.mark.parametrize("name", [name for name in EXAMPLES if not name.endswith("-pods.yaml")])
def test_examples(berth: Berth, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Each is valid; lint has something to say about the one that is there for it, and about no other."""
    monkeypatch.chdir(ROOT)
    assert berth("config", "view", "--config", f"examples/config/{name}").code == 0
    told = berth("config", "lint", f"examples/config/{name}")
    assert told.code == ("outvoted" in name), told.out


PLACED = [("cache", "annotation-affinity", "annotated", "fast"), ("web-3", "service-affinity", "service", "north-2")]


@pytest.mark.parametrize(("pod", "config", "pods", "node"), PLACED)
def test_where_the_examples_go(
    berth: Berth, monkeypatch: pytest.MonkeyPatch, pod: str, config: str, pods: str, node: str
) -> None:
    """As their first lines say."""
    monkeypatch.chdir(ROOT)
    told = berth(
        *("explain", pod, "--config", f"examples/config/{config}.yaml"),
        *("--cluster", f"examples/config/{pods}-pods.yaml", "-o", "json"),
    )
    assert (told.code, msgspec.json.decode(told.out)["choice"]["node"]) == (0, node)
