"""Whoever writes a file reads about it in the file's own words: no quotes, types or names of Python's."""

import ast
import json
import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from podberth.framework.config import ConfigError, decode
from podberth.framework.profiles import build
from podberth.kube import kubeconfig
from podberth.kube.errors import ConfigError as ConnectionConfigError
from podberth.model.annotated import AnnotationError, affinity_of
from podberth.plugins.registry import registry
from podberth.policy.parse import PolicyError, parse
from podberth.testing.workloads.workload import WorkloadError, read
from tests.builders import configuration, profile

ROOT = Path(__file__).parents[2] / "scheduler" / "podberth"
LEAKS = re.compile(
    r"(?<!\w)'[^']*'(?!\w)|\b(?:True|False|None|NoneType|dict|tuple|str|bool|struct)\b|Errno|Traceback|object at 0x"
    r"|object has no attribute|unhashable|\b[A-Z]\w+Error\b|`(?:int|str|array|object|bool|float|null)`"
)
WRONG: list[Any] = [
    *(-1, 10**30, 1.5, True, False, None, "", "it's", "\0", "x" * 1000, [], {}, ["a"], [None], {"a": None}),
    *([[]], {"a": {"b": [True]}}, "1e999", "2026-99-99", "In"),
]
"""Values that stand in a place where they make no sense."""
MEANT = {
    "cel/library/conversions.py": "numbers as Go writes them, made from the shortest text that reads back",
    "framework/status.py": "answers of plugins, shown to the plugin's author",
    "model/quantity.py": "a number's own text, as it is parsed",
    "cache/validate.py": "says which column differs, to whoever works on Berth",
}
"""The modules that show values as Python does, and what they show."""


def _shows_as_python(node: ast.AST) -> bool:
    if isinstance(node, ast.FormattedValue):
        return node.conversion == ord("r")
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "repr"


def test_no_text_shows_a_value_as_python_does() -> None:
    """No f-string has `!r`, and nothing calls `repr`, but where it is meant."""
    found = {
        str(path.relative_to(ROOT))
        for path in ROOT.rglob("*.py")
        if any(map(_shows_as_python, ast.walk(ast.parse(path.read_text("utf-8")))))
    }
    assert found == set(MEANT)


def _mangled(document: Any, dice: Random) -> Any:
    """A document with one value replaced, or one key misspelt."""
    made = deepcopy(document)
    place = made
    while True:
        keys: Any = list(place) if isinstance(place, dict) else range(len(place))
        key = dice.choice(keys)
        below = place[key]
        if isinstance(below, dict | list) and below and dice.random() < 0.8:
            place = below
        elif isinstance(place, dict) and dice.random() < 0.2:
            place[f"{key}s"] = place.pop(key)
            return made
        else:
            place[key] = deepcopy(dice.choice(WRONG))
            return made


CONFIGURATION = configuration(
    profile(
        "berth",
        plugins={"score": {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeAffinity", "weight": 2}]}},
        NodeResourcesFit={
            "ignoredResources": ["example.com/foo"],
            "scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]},
        },
        NodeAffinity={
            "addedAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}]
                }
            }
        },
        PodTopologySpread={
            "defaultConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}],
            "defaultingType": "List",
        },
        InterPodAffinity={"hardPodAffinityWeight": 5},
        DynamicResources={"bindingTimeout": "10s"},
    ),
    extenders=[
        {
            "urlPrefix": "http://127.0.0.1/x",
            "filterVerb": "filter",
            "httpTimeout": "5s",
            "managedResources": [{"name": "example.com/foo"}],
        }
    ],
    leaderElection={"leaderElect": False, "leaseDuration": "15s"},
    clientConnection={"qps": 50, "burst": 100},
)
POLICY = {
    "apiVersion": "podberth.dev/v1alpha1",
    "kind": "MetadataPolicy",
    "metadata": {"name": "tag", "namespace": "shop"},
    "spec": {
        "mode": "enforce",
        "rules": [
            {
                "name": "front",
                "policyPredicate": {
                    "labelSelector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]},
                    "annotationSelector": {"matchLabels": {"a": "b"}},
                },
                "policyAction": {"updatedLabels": {"tier": "front"}, "updatedAnnotations": {"x/y": "z"}},
            }
        ],
    },
}
TERM = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "zone", "namespaces": ["a"]}
AFFINITY = {
    "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 5, "preference": {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}}
        ]
    },
    "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]},
}
KUBECONFIG = {
    "kind": "Config",
    "current-context": "one",
    "contexts": [{"name": "one", "context": {"cluster": "c", "user": "u"}}],
    "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1", "insecure-skip-tls-verify": True}}],
    "users": [{"name": "u", "user": {"token": "t", "as": "x", "as-groups": ["g"], "tokenFile": "/nowhere"}}],
}
WORKLOAD = {
    "name": "basic",
    "modes": ["backlog"],
    "steps": [
        {"createNodes": {"count": 3, "allocatable": {"cpu": "4"}}},
        {"createPods": {"count": 3, "namespace": "a", "measured": True, "requests": {"cpu": "1"}}},
    ],
}


def _configured(document: Any, _: Path) -> str:
    try:
        build(decode(document), registry())
    except ConfigError as error:
        return str(error)
    return ""


def _policy(document: Any, _: Path) -> str:
    try:
        parse(document, ("",))
    except PolicyError as error:
        return str(error)
    return ""


def _annotated(document: Any, _: Path) -> str:
    annotations = json.dumps({"scheduler.alpha.kubernetes.io/affinity": json.dumps(document)}).encode()
    try:
        affinity_of(annotations, b"", "shop", "replace")
    except AnnotationError as error:
        return str(error)
    return ""


def _kubeconfig(document: Any, folder: Path) -> str:
    path = folder / "config"
    path.write_text(yaml.safe_dump(document), "utf-8")
    try:
        kubeconfig.select([str(path)], None)
    except ConnectionConfigError as error:
        return str(error)
    return ""


def _workload(document: Any, _: Path) -> str:
    try:
        read(yaml.safe_dump(document).encode())
    except WorkloadError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("document", "told"),
    [
        pytest.param(CONFIGURATION, _configured, id="configuration"),
        pytest.param(POLICY, _policy, id="policy"),
        pytest.param(AFFINITY, _annotated, id="annotation"),
        pytest.param(KUBECONFIG, _kubeconfig, id="kubeconfig"),
        pytest.param(WORKLOAD, _workload, id="workload"),
    ],
)
def test_what_is_wrong_with_a_file(document: Any, told: Callable[[Any, Path], str], tmp_path: Path) -> None:
    """Whatever is wrong in a file is told without a word of Python's."""
    dice = Random(13)
    texts = [told(_mangled(document, dice), tmp_path) for _ in range(400)]
    assert sum(map(bool, texts)) > 100
    assert not "\n".join(_leaking(texts))


def _leaking(texts: list[str]) -> Iterator[str]:
    for text in texts:
        found = LEAKS.search(text.replace("it's", ""))
        if found is not None:
            yield f"{found[0]} in: {text[:300]}"
