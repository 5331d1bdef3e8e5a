"""When an answer of ours is kube-scheduler's: field by field, as the vectors' README says."""

from __future__ import annotations

from typing import Any

Case = dict[str, Any]

FIELDS = (
    *("feasible", "preFilter", "preFilterNodes", "filter", "raw", "weighted", "total", "best", "message"),
    *("allocations", "written"),
)
UNSAID = ("DynamicResources", "VolumeBinding")
"""Plugins whose zero says nothing."""


def differing(got: Case, want: Case) -> list[str]:
    """The fields in which an answer is not the one wanted. `written` counts where both say it: vectors don't."""
    found = [field for field in FIELDS if not _agrees(field, got, want)]
    ours, right = picks(got), picks(want)
    if not ours <= right or bool(ours) != bool(right):
        found.append("preemption")
    return found


def described(case: Case, got: Case, want: Case) -> list[str]:
    """What differs, a line each, for people."""
    return [f"{case['id']} {field}: got {got.get(field)}, want {want.get(field)}" for field in differing(got, want)]


def picks(answer: Case) -> set[tuple[str, tuple[str, ...]]]:
    """The preemptions of an answer: (node, victims)."""
    return {(each["node"], tuple(sorted(each["victims"]))) for each in answer.get("preemption") or ()}


def _agrees(field: str, got: Case, want: Case) -> bool:
    if field == "written" and not (field in got and field in want):
        return True
    if field == "message" and want.get("postFilterError"):
        return True
    if field == "message" and want.get("preemption"):
        # The text ends with the node that was picked; which ones may be is `preemption`'s business.
        return str(got.get(field)).startswith(str(want[field]).split(" preemption:")[0])
    return bool(_comparable(field, got.get(field)) == _comparable(field, want.get(field)))


def _comparable(field: str, value: Any) -> Any:
    if field == "filter":
        return {node: (v["plugin"], v["code"], sorted(v["reasons"])) for node, v in (value or {}).items()}
    if field in ("raw", "weighted"):
        scores = (value or {}).items()
        return {node: {k: v for k, v in found.items() if v or k not in UNSAID} for node, found in scores}
    if field == "written":
        return {node: _without_shares(claims) for node, claims in value.items()}
    return value or None


def _without_shares(written: Any) -> Any:
    """What is written, but for the ids of shares, which are random."""
    if isinstance(written, dict):
        return {key: _without_shares(one) for key, one in written.items() if key != "shareID"}
    return [_without_shares(one) for one in written] if isinstance(written, list) else written
