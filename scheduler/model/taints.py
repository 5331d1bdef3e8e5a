"""Taints and tolerations (core/v1 `toleration.go`, ToleratesTaint; comparison operators are off by default in 1.37)."""

from collections.abc import Iterable, Sequence
from functools import cached_property

from msgspec import Struct

from scheduler.model.once import Once

NO_SCHEDULE = "NoSchedule"
NO_EXECUTE = "NoExecute"
PREFER_NO_SCHEDULE = "PreferNoSchedule"
_EQUAL = ("", "Equal")
_FEW = 8
"""More tolerations than this are looked up, not gone through."""
HARD = frozenset((NO_SCHEDULE, NO_EXECUTE))


def taint_text(key: str, value: str, effect: str) -> str:
    """A taint of a node or a device as kubectl writes it: `key=value:Effect`, or `key:Effect`."""
    return f"{key}{'=' + value if value else ''}:{effect}"


class Taint(Struct, frozen=True):
    """A mark on a node that repels pods which don't tolerate it."""

    key: str
    value: str
    effect: str

    def __str__(self) -> str:
        return taint_text(self.key, self.value, self.effect)


class Toleration(Struct, frozen=True):
    """What a pod accepts of a node's taints; empty key or effect means any."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        """Whether this toleration covers the taint."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        if self.operator in ("", "Equal"):
            return self.value == taint.value
        return self.operator == "Exists"


class Tolerations(Once[Toleration]):
    """Many tolerations: what they cover is looked up."""

    @cached_property
    def _covered(self) -> frozenset[tuple[str, str, str | None]]:
        """(effect, key, value), empty where any does, the value None where it does not matter."""
        return frozenset(
            (t.effect, t.key, t.value if t.operator in _EQUAL else None)
            for t in self
            if t.operator in _EQUAL or t.operator == "Exists"
        )

    def tolerate(self, taint: Taint) -> bool:
        """Whether any of them covers the taint."""
        covered = self._covered
        return any(
            (effect, key, value) in covered
            for effect in (taint.effect, "")
            for key in (taint.key, "")
            for value in (taint.value, None)
        )


def tolerations_of(found: Iterable[Toleration]) -> tuple[Toleration, ...]:
    """The tolerations of a pod."""
    tolerations = tuple(found)
    return tolerations if len(tolerations) <= _FEW else Tolerations(tolerations)


Taints = tuple[Taint, ...]

UNSCHEDULABLE = Taint("node.kubernetes.io/unschedulable", "", NO_SCHEDULE)


def tolerates(tolerations: Sequence[Toleration], taint: Taint) -> bool:
    """Whether any of the tolerations covers the taint."""
    if isinstance(tolerations, Tolerations):
        return tolerations.tolerate(taint)
    return any(toleration.tolerates(taint) for toleration in tolerations)


def untolerated(tolerations: Sequence[Toleration], taints: Taints) -> Taint | None:
    """The first NoSchedule or NoExecute taint that is not tolerated."""
    return next((taint for taint in taints if taint.effect in HARD and not tolerates(tolerations, taint)), None)


def intolerable_preferences(tolerations: Sequence[Toleration], taints: Taints) -> int:
    """How many PreferNoSchedule taints are not tolerated."""
    return sum(taint.effect == PREFER_NO_SCHEDULE and not tolerates(tolerations, taint) for taint in taints)
