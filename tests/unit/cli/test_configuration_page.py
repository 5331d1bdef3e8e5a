"""docs/configuration.md says what the code does: every field with its default, every finding, every command shown."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import inspect

import podberth.explain.lint as lint_room
from podberth.framework.config import PluginSet, SchedulerConfiguration
from podberth.model import wire
from podberth.plugins.registry import IN_TREE
from tests.unit.cli.conftest import Berth

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
API_TYPES = (wire.NodeAffinity, wire.TopologySpreadConstraint)
"""The API's own: their fields are in Kubernetes' reference."""


def rows(heading: str) -> list[list[str]]:
    """The cells of the first table after a heading, without its head."""
    table = re.search(r"(?:^\|.*\n)+", PAGE[PAGE.index(f"\n{heading}\n") :], re.MULTILINE)
    assert table is not None
    lines = table[0].splitlines()[2:]
    return [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines]


def leaves(kind: inspect.Type, path: str, default: Any = msgspec.NODEFAULT) -> Iterator[tuple[str, str]]:
    """(path, default) of every field that holds a value, or one of the API's own types."""
    match kind:
        case inspect.UnionType(types=kinds):
            (inner,) = [each for each in kinds if not isinstance(each, inspect.NoneType)]
            yield from leaves(inner, path, default)
        case inspect.ListType(item_type=inspect.StructType(cls=cls)) if cls in API_TYPES:
            yield path, shown(default)
        case inspect.ListType(item_type=inspect.StructType() as item):
            yield from leaves(item, f"{path}[]")
        case inspect.StructType(cls=cls) if cls in API_TYPES:
            yield path, shown(default)
        case inspect.StructType(cls=cls, fields=fields):
            if cls is PluginSet:
                yield path, "–"
                path = "profiles[].plugins.POINT"
            for each in fields:
                made = each.default_factory() if each.default_factory is not msgspec.NODEFAULT else each.default
                if isinstance(default, cls):
                    made = getattr(default, each.name)
                yield from leaves(each.type, f"{path}.{each.encode_name}" if path else each.encode_name, made)
        case _:
            yield path, shown(default)


def shown(default: Any) -> str:
    if default is msgspec.NODEFAULT:
        return "required"
    if default is None:
        return "–"
    return default if isinstance(default, str) and default else msgspec.json.encode(default).decode()


def test_every_field_is_there_with_its_default() -> None:
    """No more and no less than a configuration is decoded into."""
    told = [(row[0], row[1]) for row in rows("## Every field")]
    assert len(told) == len(set(told))
    assert set(told) == set(leaves(inspect.type_info(SchedulerConfiguration), ""))


def test_every_argument_is_there_with_its_default() -> None:
    """Of every plugin of the tree."""
    told = {(row[0], row[1], row[2]) for row in rows("## Arguments")}
    wanted = {
        (name, path, default)
        for name, plugin in IN_TREE.items()
        for path, default in leaves(inspect.type_info(plugin.Args), "", plugin.Args())
    }
    assert told == wanted


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
