"""Taints and tolerations (core/v1 `toleration.go`, ToleratesTaint; comparison operators are off by default in 1.37)."""

from dataclasses import dataclass

NO_SCHEDULE = "NoSchedule"
NO_EXECUTE = "NoExecute"
PREFER_NO_SCHEDULE = "PreferNoSchedule"
HARD = frozenset((NO_SCHEDULE, NO_EXECUTE))


@dataclass(frozen=True, slots=True)
class Taint:
    """A mark on a node that repels pods which don't tolerate it."""

    key: str
    value: str
    effect: str

    def __str__(self) -> str:
        return f"{self.key}{'=' + self.value if self.value else ''}:{self.effect}"


@dataclass(frozen=True, slots=True)
class Toleration:
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


Tolerations = tuple[Toleration, ...]
Taints = tuple[Taint, ...]

UNSCHEDULABLE = Taint("node.kubernetes.io/unschedulable", "", NO_SCHEDULE)


def tolerates(tolerations: Tolerations, taint: Taint) -> bool:
    """Whether any of the tolerations covers the taint."""
    return any(toleration.tolerates(taint) for toleration in tolerations)


def untolerated(tolerations: Tolerations, taints: Taints) -> Taint | None:
    """The first NoSchedule or NoExecute taint that is not tolerated."""
    return next((taint for taint in taints if taint.effect in HARD and not tolerates(tolerations, taint)), None)


def intolerable_preferences(tolerations: Tolerations, taints: Taints) -> int:
    """How many PreferNoSchedule taints are not tolerated."""
    soft = tuple(t for t in tolerations if t.effect in ("", PREFER_NO_SCHEDULE))
    return sum(taint.effect == PREFER_NO_SCHEDULE and not tolerates(soft, taint) for taint in taints)
