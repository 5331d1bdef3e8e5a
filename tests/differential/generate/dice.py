"""Choices that follow from a seed, and the small vocabulary that makes generated objects meet each other."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, TypeVar

Object = dict[str, Any]
Found = TypeVar("Found")

HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
TOPOLOGIES = (HOST, ZONE, ZONE, REGION, "disk", "missing")
ZONES = ("z0", "z1", "z2")
REGIONS = ("r0", "r1")
NAMESPACES = ("default", "team-a", "team-b")
NODE_LABELS = {
    ZONE: ZONES,
    REGION: REGIONS,
    "disk": ("ssd", "hdd", "nvme"),
    "gen": ("1", "2", "10", "007", "abc", "1_000", "0x10", "9223372036854775807"),
    "gpu": ("",),
}
POD_LABELS = {"app": ("web", "db", "cache"), "tier": ("gold", "silver"), "rev": ("r1", "r2")}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


class Dice(random.Random):
    """A generator of its own for each case."""

    rough = False
    """Rare things happen in this case: a case that has all of them is decided by the first."""
    comparing = False
    """Tolerations compare taints with numbers in this case: the gate TaintTolerationComparisonOperators is on."""

    def rarely(self, chance: float) -> bool:
        """True in that share of all throws in rough cases, and never in others."""
        return self.rough and self.maybe(chance)

    def maybe(self, chance: float) -> bool:
        """True in that share of all throws."""
        return self.random() < chance

    def one(self, *options: Found) -> Found:
        """One of the options; name an option twice and it comes twice as often."""
        return options[self.randrange(len(options))]

    def some(self, options: Sequence[Found], least: int = 0, most: int | None = None) -> list[Found]:
        """Several different ones, in any order."""
        return self.sample(options, self.randint(least, min(len(options), len(options) if most is None else most)))

    def labels(self, vocabulary: dict[str, tuple[str, ...]], chance: float) -> dict[str, str]:
        """Each key with that chance, with one of its values."""
        return {key: self.one(*values) for key, values in vocabulary.items() if self.maybe(chance)}


def requirement(dice: Dice, vocabulary: dict[str, tuple[str, ...]], *, numbers: bool = False) -> Object:
    """One requirement on a label, of a nodeSelectorTerm where `numbers` may be compared, or of a labelSelector."""
    key = dice.one(*vocabulary, *vocabulary, "missing")
    if numbers and key == "gen" and dice.maybe(0.5):
        bound = dice.one("0", "1", "2", "7", "08", "9223372036854775806")
        return {"key": key, "operator": dice.one("Gt", "Lt"), "values": [bound]}
    operator = dice.one("In", "In", "NotIn", "Exists", "DoesNotExist")
    made: Object = {"key": key, "operator": operator}
    if operator in ("In", "NotIn"):
        made["values"] = dice.some(vocabulary.get(key, ("x",)), 1)
    return made


def label_selector(dice: Dice) -> Object | None:
    """A labelSelector on pods; None is null, which selects nothing."""
    kind = dice.random()
    if kind < 0.05:
        return None
    if kind < 0.12:
        return {}
    made: Object = {}
    if kind < 0.75:
        made["matchLabels"] = dice.labels(POD_LABELS, 0.4) or {"app": dice.one(*POD_LABELS["app"])}
    if kind > 0.6:
        made["matchExpressions"] = [requirement(dice, POD_LABELS) for _ in range(dice.randint(1, 2))]
    return made


def node_term(dice: Dice, nodes: int) -> Object:
    """A nodeSelectorTerm; an empty one, which matches nothing, now and then."""
    made: Object = {}
    if not dice.maybe(0.05):
        made["matchExpressions"] = [requirement(dice, NODE_LABELS, numbers=True) for _ in range(dice.randint(1, 2))]
    if dice.maybe(0.15):
        field = {"key": "metadata.name", "operator": dice.one("In", "In", "NotIn")}
        made["matchFields"] = [field | {"values": [f"node-{dice.randint(0, nodes)}"]}]
        if dice.maybe(0.5):
            made.pop("matchExpressions", None)
    return made
