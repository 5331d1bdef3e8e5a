"""Taints and tolerations (core/v1 `toleration.go`, ToleratesTaint).

`comparing`: the operators Gt and Lt count (the gate TaintTolerationComparisonOperators, off by default in 1.37).
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from msgspec import Struct

from podberth.model.once import Once

NO_SCHEDULE = "NoSchedule"
NO_EXECUTE = "NoExecute"
PREFER_NO_SCHEDULE = "PreferNoSchedule"
_EQUAL = ("", "Equal")
COMPARISONS = ("Gt", "Lt")
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,18}")
_LARGEST = (1 << 63) - 1
_FEW = 8
"""More tolerations than this are looked up, not gone through."""
HARD = frozenset((NO_SCHEDULE, NO_EXECUTE))


def taint_text(key: str, value: str, effect: str) -> str:
    """Return a taint of a node or a device as kubectl writes it: `key=value:Effect`, or `key:Effect`."""
    return f"{key}{'=' + value if value else ''}:{effect}"


class Taint(Struct, frozen=True, omit_defaults=True):
    """A mark on a node, or on a device, that repels pods which don't tolerate it."""

    key: str = ""
    value: str = ""
    effect: str = ""

    def __str__(self) -> str:
        return taint_text(self.key, self.value, self.effect)


class Toleration(Struct, frozen=True, omit_defaults=True):
    """A pod's permission to be on nodes, or to use devices, that have a taint. An empty key or effect means any."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""

    @property
    def bound(self) -> int | None:
        """Return what Gt and Lt compare with; None: it is not a number."""
        return _number(self.value)

    def tolerates(self, taint: Taint, *, comparing: bool = False) -> bool:
        """Return whether this toleration covers the taint."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        if self.operator in _EQUAL:
            return self.value == taint.value
        if self.operator in COMPARISONS:
            return comparing and _beyond(self.operator, _number(taint.value), self.bound)
        return self.operator == "Exists"

    def __str__(self) -> str:
        sign = {"Gt": ">", "Lt": "<"}.get(self.operator, "=" if self.value else "")
        return f"{self.key}{sign}{self.value}" + (f":{self.effect}" if self.effect else "")


def _number(text: str) -> int | None:
    """Return the number that a text is; None: it is no canonical decimal integer of 64 bits (IsDecimalInteger)."""
    number = int(text) if _INTEGER.fullmatch(text) else None
    return number if number is not None and -_LARGEST - 1 <= number <= _LARGEST else None


def _beyond(operator: str, value: int | None, bound: int | None) -> bool:
    """Return whether a taint's value is on the side of the bound that the operator accepts."""
    if value is None or bound is None:
        return False
    return value > bound if operator == "Gt" else value < bound


class Tolerations(Once[Toleration]):
    """Many tolerations: those that may cover a taint are looked up."""

    @cached_property
    def _by_taint(self) -> Mapping[tuple[str, str | None], Sequence[Toleration]]:
        """Return (key, value) of taints, the value None where it may be any → tolerations in question."""
        found: dict[tuple[str, str | None], list[Toleration]] = {}
        for one in self:
            found.setdefault((one.key, one.value if one.operator in _EQUAL else None), []).append(one)
        return found

    def tolerate(self, taint: Taint, *, comparing: bool = False) -> bool:
        """Return whether any of them covers the taint."""
        return any(
            one.tolerates(taint, comparing=comparing)
            for key in (taint.key, "")
            for value in (taint.value, None)
            for one in self._by_taint.get((key, value), ())
        )


def tolerations_of(found: Iterable[Toleration]) -> tuple[Toleration, ...]:
    """Return the tolerations of a pod."""
    tolerations = tuple(found)
    return tolerations if len(tolerations) <= _FEW else Tolerations(tolerations)


Taints = tuple[Taint, ...]

UNSCHEDULABLE = Taint("node.kubernetes.io/unschedulable", "", NO_SCHEDULE)


def tolerates(tolerations: Sequence[Toleration], taint: Taint, *, comparing: bool = False) -> bool:
    """Return whether any of the tolerations covers the taint."""
    if isinstance(tolerations, Tolerations):
        return tolerations.tolerate(taint, comparing=comparing)
    return any(toleration.tolerates(taint, comparing=comparing) for toleration in tolerations)


def untolerated(tolerations: Sequence[Toleration], taints: Taints, *, comparing: bool = False) -> Taint | None:
    """Return the first NoSchedule or NoExecute taint that is not tolerated."""
    hard = (taint for taint in taints if taint.effect in HARD)
    return next((taint for taint in hard if not tolerates(tolerations, taint, comparing=comparing)), None)


def intolerable_preferences(tolerations: Sequence[Toleration], taints: Taints, *, comparing: bool = False) -> int:
    """Return how many PreferNoSchedule taints are not tolerated."""
    soft = (taint for taint in taints if taint.effect == PREFER_NO_SCHEDULE)
    return sum(not tolerates(tolerations, taint, comparing=comparing) for taint in soft)
