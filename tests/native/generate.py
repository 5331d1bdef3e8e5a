"""Policies and requests by seed, over few keys and values, so that rules meet and objects match."""

from __future__ import annotations

import random
from typing import Any

from podberth.policy import keys

Object = dict[str, Any]

LABELS = ("app", "team", "tier", "example.com/zone", keys.QOS)
"""The last one is a pod's stamp as an annotation, and any other key as a label."""
ANNOTATIONS = ("note", "example.com/why", "x", keys.QOS, keys.SCHEDULER_NAME)
VALUES = ("a", "b", "c-1", "")
TEXTS = (
    *VALUES,
    'said "so"',
    "back\\slash",
    "two\nlines",
    "ünïcode ✓",
    "{json: [1]}",
    "BestEffort",
    "Guaranteed",
    "berth",
)
NAMES = ("berth", "default-scheduler", "packed.example")
SCHEDULERS = (*NAMES, "Not A Name", "-x", "a" * 254, "ok-" + "b" * 250)
AMOUNTS = {"cpu": ("0", "1", "100m", "1500m"), "memory": ("0", "1Gi", "64Mi", "1e9", "1000000500m")}
WHOLE = {"cpu": ("1", "8"), "memory": ("1Gi", "16Gi")}
"""What a pod as a whole asks for."""
KINDS = ("Pod", "ConfigMap", "Deployment.apps")
"""What a rule may be about."""
PER_SET = 25
"""Requests for each set of policies."""


def policies(seed: int) -> list[Object]:
    """A namespace's policies, as documents without a namespace."""
    chance = random.Random(f"policies {seed}")
    modes = ["enforce", "enforce", "enforce", "warn", "observe"]
    return [
        {
            "apiVersion": "podberth.dev/v1alpha1",
            "kind": "MetadataPolicy",
            "metadata": {"name": f"p{number}"},
            "spec": {
                "mode": chance.choice(modes),
                "rules": [_rule(chance, index) for index in range(chance.randint(1, 4))],
            },
        }
        for number in range(chance.randint(1, 4))
    ]


def requests(seed: int) -> list[tuple[Object, Object | None]]:
    """Objects as they come in, each with what it was before if it is an update."""
    chance = random.Random(f"requests {seed}")
    found: list[tuple[Object, Object | None]] = []
    for number in range(PER_SET):
        kind = chance.choice(("Pod", "Pod", "ConfigMap"))
        new = _object(chance, kind, f"o{number}")
        old = None
        if chance.random() < 0.4:
            old = {**new, "metadata": _metadata(chance, f"o{number}")}
            if chance.random() < 0.2:
                old = {**new, "metadata": dict(new["metadata"])}
        found.append((new, old))
    return found


def _rule(chance: random.Random, index: int) -> Object:
    action: Object = {}
    if chance.random() < 0.35:
        action["reject"] = True
    else:
        wanted = chance.sample(ANNOTATIONS, chance.randint(1, 2))
        action["updatedAnnotations"] = {
            key: chance.choice(NAMES if key == keys.SCHEDULER_NAME else TEXTS) for key in wanted if key != keys.QOS
        } or {"x": chance.choice(TEXTS)}
        if chance.random() < 0.5:
            action["updatedLabels"] = {chance.choice(LABELS): chance.choice(VALUES)}
        if chance.random() < 0.1:
            action["updatedAnnotations"]["eks.amazonaws.com/role-arn"] = "arn"
    if chance.random() < 0.4:
        action["message"] = chance.choice(("no", 'never "this"', "two\nlines", "back\\slash ✓", "long " * 150))
    rule: Object = {"policyAction": action, "policyPredicate": _predicate(chance)}
    if chance.random() < 0.25:
        rule["appliesTo"] = chance.sample(KINDS, chance.randint(1, 2))
    if chance.random() < 0.5:
        rule["name"] = f"rule-{index}"
    return rule


def _predicate(chance: random.Random) -> Object:
    found: Object = {}
    if chance.random() < 0.6:
        found["labelSelector"] = _selector(chance, LABELS, VALUES)
    if chance.random() < 0.5:
        found["annotationSelector"] = _selector(chance, ANNOTATIONS, TEXTS)
    return found


def _selector(chance: random.Random, named: tuple[str, ...], values: tuple[str, ...]) -> Object:
    selector: Object = {}
    if chance.random() < 0.5:
        selector["matchLabels"] = {chance.choice(named): chance.choice(values)}
    for _ in range(chance.randint(0, 2)):
        operator = chance.choice(("In", "NotIn", "Exists", "DoesNotExist"))
        criterion: Object = {"key": chance.choice(named), "operator": operator}
        if operator in ("In", "NotIn"):
            criterion["values"] = chance.sample(values, chance.randint(1, 3))
        selector.setdefault("matchExpressions", []).append(criterion)
    return selector


def _metadata(chance: random.Random, name: str) -> Object:
    meta: Object = {"name": name}
    if chance.random() < 0.8:
        meta["labels"] = {key: chance.choice(VALUES) for key in LABELS if chance.random() < 0.4}
    if chance.random() < 0.7:
        meta["annotations"] = {
            key: chance.choice(SCHEDULERS if key == keys.SCHEDULER_NAME else TEXTS)
            for key in ANNOTATIONS
            if chance.random() < 0.3
        }
        if chance.random() < 0.1:
            meta["annotations"][keys.VERDICT] = "forged"
        if chance.random() < 0.05:
            meta["annotations"][keys.MIRROR] = "forged"
    return meta


def _object(chance: random.Random, kind: str, name: str) -> Object:
    found: Object = {"apiVersion": "v1", "kind": kind, "metadata": _metadata(chance, name)}
    if kind == "Pod":
        found["spec"] = pod_spec(chance)
    return found


def pod_spec(chance: random.Random) -> Object:
    """Containers with and without resources, init containers, sidecars, and resources of the pod as a whole."""
    spec: Object = {"containers": [_container(chance, f"c{i}") for i in range(chance.randint(1, 3))]}
    if chance.random() < 0.4:
        spec["initContainers"] = [_container(chance, f"i{i}") for i in range(chance.randint(1, 3))]
        for container in spec["initContainers"]:
            if chance.random() < 0.5:
                container["restartPolicy"] = "Always"
    if chance.random() < 0.4:
        spec["resources"] = _resources(chance, large=True)
    return spec


def _container(chance: random.Random, name: str) -> Object:
    found: Object = {"name": name, "image": "x"}
    if chance.random() < 0.7:
        found["resources"] = _resources(chance)
    return found


def _resources(chance: random.Random, large: bool = False) -> Object:
    """Requests never above limits, which the API server would refuse."""
    found: Object = {}
    amounts = WHOLE if large else AMOUNTS
    for name in ("cpu", "memory"):
        dice = chance.random()
        amount = chance.choice(amounts[name])
        if dice < 0.35:
            found.setdefault("limits", {})[name] = amount
            found.setdefault("requests", {})[name] = amount
        elif dice < 0.55:
            found.setdefault("limits", {})[name] = amount
        elif dice < 0.7:
            found.setdefault("requests", {})[name] = amount
    return found
