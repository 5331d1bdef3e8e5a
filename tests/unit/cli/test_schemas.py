"""Schemas for editors: made from the code and the CRD, and of one mind with the commands about the examples."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from msgspec import Struct

from docs.schemas.make import files
from podberth.framework.config import ConfigError, decode
from podberth.framework.profiles import effective
from podberth.framework.schema import configuration_schema
from podberth.kit import Plugin
from podberth.plugins.registry import IN_TREE, registry
from podberth.policy.parse import PolicyError, parse
from tests.unit.cli.conftest import Berth

ROOT = Path(__file__).parents[3]
MODELINE = re.compile(r"# yaml-language-server: \$schema=(\S+)")
FILES = files()
CONFIGURATION, POLICY = (jsonschema.Draft202012Validator(json.loads(text)) for text in FILES.values())
CONFIGURATIONS = [
    path for path in (ROOT / "examples" / "config").glob("*.yaml") if not path.name.endswith("-pods.yaml")
]
POLICIES = [*(ROOT / "examples" / "policies").glob("*/policy.yaml"), ROOT / "examples" / "policies" / "broken.yaml"]


def built(document: Any) -> None:
    effective(decode(document), registry())


def parsed(document: Any) -> None:
    parse(document, ())


def refused(document: Any, command: Callable[[Any], object]) -> bool:
    try:
        command(document)
    except (ConfigError, PolicyError):
        return True
    return False


def mappings(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The paths of all mappings of a document."""
    if isinstance(value, dict):
        yield path
    for key, each in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from mappings(each, (*path, key))


def documents(paths: list[Path]) -> list[Any]:
    return [
        pytest.param(path, document, id=f"{path.relative_to(ROOT)}-{i}")
        for path in sorted(paths)
        for i, document in enumerate(yaml.safe_load_all(path.read_text(encoding="utf-8")))
    ]


EXAMPLES = [
    *(pytest.param(*each.values, CONFIGURATION, built, id=each.id) for each in documents(CONFIGURATIONS)),
    *(pytest.param(*each.values, POLICY, parsed, id=each.id) for each in documents(POLICIES)),
]
FREE = ("metadata", "matchLabels", "updatedLabels", "updatedAnnotations")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_files_are_what_the_code_says(path: Path) -> None:
    """`make schemas` writes them."""
    assert path.read_text(encoding="utf-8") == FILES[path]


@pytest.mark.parametrize("given", [CONFIGURATION.schema, POLICY.schema], ids=["configuration", "policy"])
def test_they_are_schemas_with_a_description_of_every_field(given: Any) -> None:
    """Sentences, so that they can be read in an editor."""
    jsonschema.Draft202012Validator.check_schema(given)
    waiting, fields = [given], 0
    while waiting:
        schema = waiting.pop()
        for name, field in schema.get("properties", {}).items():
            assert re.fullmatch(r"\S.*\.", field["description"], re.DOTALL), name
            fields += 1
        waiting += [*schema.get("properties", {}).values(), *schema.get("$defs", {}).values()]
        waiting += [schema[key] for key in ("items", "additionalProperties") if isinstance(schema.get(key), dict)]
    assert fields > 40


@pytest.mark.parametrize(("path", "document", "schema", "command"), EXAMPLES)
def test_examples_are_valid_and_a_typo_is_not(
    path: Path, document: Any, schema: Any, command: Callable[[Any], object]
) -> None:
    """In every mapping that is not the author's own, a field that nobody knows is refused by both."""
    schema.validate(document)
    command(document)
    places = [place for place in mappings(document) if not {*place} & {*FREE}]
    assert len(places) > 3
    for place in places:
        wrong = deepcopy(document)
        inner = wrong
        for step in place:
            inner = inner[step]
        inner["xyz"] = "abc"
        assert not schema.is_valid(wrong), place
        assert refused(wrong, command), place


@pytest.mark.parametrize(("path", "document", "schema", "command"), EXAMPLES)
def test_examples_name_their_schema(path: Path, document: Any, schema: Any, command: object) -> None:
    """As a path that an editor follows from the file."""
    found = MODELINE.match(path.read_text(encoding="utf-8"))
    assert found is not None
    assert json.loads((path.parent / found[1]).read_text(encoding="utf-8")) == schema.schema


def test_what_view_prints_is_valid() -> None:
    """With every field that has a value, and the arguments of every plugin that takes any."""
    everything = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    profile = {"pluginConfig": [{"name": name} for name in IN_TREE]}
    CONFIGURATION.validate(effective(decode(everything | {"profiles": [profile]}), registry()))


def args(plugin: str, **given: Any) -> dict[str, Any]:
    return {"profiles": [{"pluginConfig": [{"name": plugin, "args": given}]}]}


OUTSIDE = [
    {"kind": "Pod"},
    {"parallelism": 0},
    {"percentageOfNodesToScore": 101},
    {"podInitialBackoffSeconds": 0},
    {"clientConnection": {"burst": -1}},
    {"profiles": [{"percentageOfNodesToScore": -1}]},
    {"profiles": [{"plugins": {"score": {"enabled": [{"name": "NodeResourceFit"}]}}}]},
    {"profiles": [{"pluginConfig": [{"name": "NodeResourceFit"}]}]},
    args("NodeName", mode="x"),
    args("NodeResourcesFit", scoringStrategy={"type": "Least"}),
    args("VolumeBinding", shape=[{"utilization": 101, "score": 1}]),
    args("VolumeBinding", shape=[{"utilization": 1, "score": 11}]),
    args("PodTopologySpread", defaultingType="Lists"),
    args("InterPodAffinity", hardPodAffinityWeight=101),
    args("DefaultPreemption", minCandidateNodesPercentage=101),
    args("DefaultPreemption", minCandidateNodesAbsolute=-1),
    args("AnnotationAffinity", mode="both"),
    args("TopologyPlacementGenerator", levels=[f"level-{i}" for i in range(9)]),
    args("GangScheduling", furtherOrders=1),
    args("GangScheduling", reservation={"percentageOfNodes": 0}),
    args("GangScheduling", reservation={"afterSeconds": -1}),
    args("GangScheduling", reservation={"forSeconds": 0}),
    args("DynamicResources", furtherSearchSteps=1_000_001),
    args("DynamicResources", furtherSearchSteps=-1),
]


@pytest.mark.parametrize("given", OUTSIDE, ids=str)
def test_values_that_no_configuration_may_have(given: dict[str, Any]) -> None:
    """The schema's bounds are the code's."""
    document = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", **given}
    assert not CONFIGURATION.is_valid(document)
    assert refused(document, built)


def test_commands_print_them(berth: Berth) -> None:
    """For a file beside one's own configuration."""
    for words, path in zip((("config", "schema"), ("policy", "schema")), FILES, strict=True):
        told = berth(*words)
        assert (told.code, told.out) == (0, FILES[path])


def test_a_plugin_of_ones_own() -> None:
    """Its arguments are known by the docstrings of its own fields, beside another class of the same name."""

    class NoArgs(Struct, forbid_unknown_fields=True):
        """Theirs."""

        most: int = 3
        """At most so many."""

    class Mine(Plugin):
        name = "Mine"
        Args = NoArgs

    schema = configuration_schema(IN_TREE | {"Mine": Mine})
    [there] = [found for found in schema["$defs"].values() if "most" in found.get("properties", ())]
    assert there["properties"]["most"]["description"] == "At most so many."
    document = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    mine = jsonschema.Draft202012Validator(schema)
    assert mine.is_valid(document | args("Mine", most=4))
    assert not mine.is_valid(document | args("Mine", many=4))
    assert not CONFIGURATION.is_valid(document | args("Mine", most=4))
