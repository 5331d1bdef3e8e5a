"""Pods made of parts, as many of each as a recipe says: what the search varies, and what it keeps of what it finds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path

import msgspec
from msgspec.structs import asdict, replace

from bench.crowd import HOST, ZONE
from bench.hostile.scenario import ONE, Scenario, Write, put
from bench.hostile.town import NAMESPACES, NODE_KEYS, PREFERRED, REQUIRED, TENANT, Object, pod

FOUND = Path(__file__).with_name("found")
LARGEST = 1_400_000
"""Bytes of JSON that the API server surely takes: etcd takes 1.5 MiB in its own encoding."""
OWN = "statefulset.kubernetes.io/pod-name"


class Place(StrEnum):
    """Where in a pod a part goes."""

    APART = "required anti-affinity"
    NEAR = "required affinity"
    RATHER_APART = "preferred anti-affinity"
    RATHER_NEAR = "preferred affinity"
    SPREAD = "spread constraints"
    SPREAD_SOFT = "spread constraints that only score"
    NODE = "required node affinity, terms"
    NODE_ALL = "required node affinity, one term"
    NODE_PREFERRED = "preferred node affinity"


class Operator(StrEnum):
    """Of one requirement."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    ABSENT = "DoesNotExist"


class Key(StrEnum):
    """The label that a requirement names."""

    APP = "app"
    OWN = OWN
    HOST = HOST
    ZONE = ZONE
    NEW = "new"
    """Another one in each requirement, and nobody has it."""


class Part(msgspec.Struct, frozen=True):
    """`count` terms or constraints with `requirements` requirements of `values` values each."""

    place: Place
    count: int = 1
    operator: Operator = Operator.NOT_IN
    key: Key = Key.NEW
    values: int = 1
    known: bool = False
    """The values are some that pods or nodes have."""
    requirements: int = 1
    topology: Key = Key.HOST
    namespaces: int = -1
    """So many are named; -1: a selector means all of them, -2: one with as many requirements as the others."""


class Extra(msgspec.Struct, frozen=True):
    """How many of other things the pod has."""

    tolerations: int = 0
    containers: int = 1
    ports: int = 0
    resources: int = 0
    claims: int = 0
    labels: int = 0
    node_labels: int = 0


class Recipe(msgspec.Struct, frozen=True):
    """A pod, and how many like it were placed before."""

    parts: tuple[Part, ...] = ()
    extra: Extra = msgspec.field(default_factory=Extra)
    placed: int = 0
    never_fits: bool = False
    priority: int = 0


def made(recipe: Recipe, i: int = 0, node: str = "") -> Object:
    """The pod number i of a recipe; its own labels and values are no other's."""
    extra = recipe.extra
    affinity: Object = {}
    spread: list[Object] = []
    for number, part in enumerate(recipe.parts):
        _add(affinity, spread, part, f"{i}-{number}")
    # The API server takes one constraint for each topology key and kind.
    spread = [*{(one["topologyKey"], one["whenUnsatisfiable"]): one for one in spread}.values()]
    amounts = {f"example.com/r{k}": "1" for k in range(extra.resources)}
    ports = [{"containerPort": 1, "hostPort": 1 + k, "hostIP": "10.9.9.9"} for k in range(min(extra.ports, 60_000))]
    first = {"name": "c", "image": "a", "ports": ports, "resources": {"requests": amounts, "limits": amounts}}
    if recipe.never_fits:
        first["resources"] = {"requests": {**amounts, "cpu": "10000"}, "limits": amounts}
    spec: Object = {
        "containers": [
            first,
            *({"name": f"c{k}", "image": f"registry.example/app-{k % 2000}:1"} for k in range(1, extra.containers)),
        ],
        "affinity": affinity,
        "topologySpreadConstraints": spread,
        "tolerations": [{"key": f"k{k}", "operator": "Exists"} for k in range(extra.tolerations)],
        "volumes": [{"name": f"v{k}", "persistentVolumeClaim": {"claimName": f"c{k}"}} for k in range(extra.claims)],
        "nodeSelector": {f"example.com/k{k}": "v" for k in range(extra.node_labels)},
        "priority": recipe.priority,
    }
    if node:
        spec["nodeName"] = node
    labels = {"app": f"found-{i}", **{f"l{k}": "v" for k in range(extra.labels)}}
    return pod(f"found-{i}", TENANT, labels, {name: value for name, value in spec.items() if value not in ([], {})})


def fitted(recipe: Recipe) -> Recipe:
    """The recipe with as many of each part and extra as fit into an object together, in the same proportion."""
    parts = [part if part.place is not Place.NODE_ALL else replace(part, requirements=1) for part in recipe.parts]
    extra = asdict(recipe.extra)
    size = sum(part.count * _size(part) for part in parts) + sum(extra[name] * each for name, each in _SIZES.items())
    share = min(1.0, LARGEST / max(size, 1))
    return replace(
        recipe,
        parts=tuple(replace(part, count=max(1, int(part.count * share))) for part in parts),
        extra=Extra(**{name: int(count * share) if count > 1 else count for name, count in extra.items()}),
    )


def _size(part: Part) -> int:
    """Bytes of one, roughly and not too few."""
    valued = part.operator in (Operator.IN, Operator.NOT_IN)
    requirement = 100 + 20 * part.values * valued
    namespaces = 14 * part.namespaces if part.namespaces > 0 else 50 * part.requirements * (part.namespaces == -2)
    return 150 + part.requirements * requirement + namespaces


_SIZES = {
    "tolerations": 40,
    "containers": 55,
    "ports": 65,
    "resources": 60,
    "claims": 65,
    "labels": 16,
    "node_labels": 26,
}
"""Bytes of one of each extra."""


def writes(recipe: Recipe) -> Callable[[int], Iterator[Write]]:
    """Those placed before, and then the pod itself."""

    def write(nodes: int) -> Iterator[Write]:
        for i in range(recipe.placed):
            yield put(made(recipe, 1 + i, f"node-{i % nodes}"), 5)
        yield put(made(recipe))

    return write


def scenario(recipe: Recipe, name: str = "recipe") -> Scenario:
    """As a row."""
    return Scenario(name, "Pod", described(recipe), writes(recipe), 1 + recipe.placed, bounds=dict(ONE))


def described(recipe: Recipe) -> str:
    """In words."""
    words = [
        f"{part.count:,} × {part.place} ({part.requirements} × {part.key} {part.operator}, {part.values} values)"
        for part in recipe.parts
    ]
    words += [f"{count:,} {name}" for name, count in asdict(recipe.extra).items() if count > 1]
    words += [f"priority {recipe.priority}"] if recipe.priority else []
    words += ["fits nowhere"] if recipe.never_fits else []
    words += [f"{recipe.placed} like it placed before"] if recipe.placed else []
    return "; ".join(words) or "nothing"


def found() -> list[Scenario]:
    """What searches have found so far, a file each."""
    return [
        scenario(msgspec.json.decode(file.read_bytes(), type=Recipe), file.stem)
        for file in sorted(FOUND.glob("*.json"))
    ]


def _add(affinity: Object, spread: list[Object], part: Part, salt: str) -> None:
    node = part.place in (Place.NODE, Place.NODE_ALL, Place.NODE_PREFERRED)
    count = 1 if part.place is Place.NODE_ALL else part.count
    each = part.count if part.place is Place.NODE_ALL else part.requirements
    for k in range(count):
        requirements = [_requirement(part, f"{salt}-{k}-{n}", node) for n in range(each)]
        selector = {"matchExpressions": requirements}
        match part.place:
            case Place.SPREAD | Place.SPREAD_SOFT:
                hard = part.place is Place.SPREAD
                constraint = {
                    "maxSkew": 1 + k,
                    "topologyKey": NODE_KEYS[k] if k < len(NODE_KEYS) else f"example.com/t{salt}-{k}",
                    "whenUnsatisfiable": "DoNotSchedule" if hard else "ScheduleAnyway",
                    "labelSelector": selector,
                }
                spread.append(constraint)
            case Place.NODE | Place.NODE_ALL:
                terms = (
                    affinity.setdefault("nodeAffinity", {}).setdefault(REQUIRED, {}).setdefault("nodeSelectorTerms", [])
                )
                terms.append(selector)
            case Place.NODE_PREFERRED:
                preferred = affinity.setdefault("nodeAffinity", {}).setdefault(PREFERRED, [])
                preferred.append({"weight": 1 + k % 100, "preference": selector})
            case _:
                near = part.place in (Place.NEAR, Place.RATHER_NEAR)
                of_kind = affinity.setdefault("podAffinity" if near else "podAntiAffinity", {})
                term = {"topologyKey": _topology(part, salt, k), "labelSelector": selector, **_namespaces(part)}
                if part.place in (Place.NEAR, Place.APART):
                    of_kind.setdefault(REQUIRED, []).append(term)
                else:
                    of_kind.setdefault(PREFERRED, []).append({"weight": 1 + k % 100, "podAffinityTerm": term})


def _topology(part: Part, salt: str, k: int) -> str:
    return f"example.com/t{salt}-{k}" if part.topology is Key.NEW else str(part.topology)


def _namespaces(part: Part) -> Object:
    if part.namespaces >= 0:
        return {"namespaces": [f"tenant-{k}" for k in range(min(part.namespaces, NAMESPACES))]}
    if part.namespaces == -1:
        return {"namespaceSelector": {}}
    requirements = [{"key": f"n{k}", "operator": "DoesNotExist"} for k in range(part.requirements)]
    return {"namespaceSelector": {"matchExpressions": requirements}}


def _requirement(part: Part, salt: str, node: bool) -> Object:
    key = f"k{salt}" if part.key is Key.NEW else str(part.key)
    if part.operator in (Operator.EXISTS, Operator.ABSENT):
        return {"key": key, "operator": str(part.operator)}
    known = {Key.HOST: "node-{}", Key.ZONE: "zone-{}", Key.OWN: "app-{}"}.get(part.key, "app-{}")
    values = [known.format(v) if part.known else f"x{salt}-{v}" for v in range(max(part.values, 1))]
    return {"key": key, "operator": str(part.operator), "values": values}
