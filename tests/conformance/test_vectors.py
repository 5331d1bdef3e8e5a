"""Every vector's answer is ours: cases as kube-scheduler 1.37's own plugins answered them.

`own.jsonl` is always there; the large sets are read from `BERTH_VECTORS` or `../shared/vectors` beside the repository.
"""

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from scheduler.whatif.cases import answer

HERE = Path(__file__).parent
FOLDER = Path(os.environ.get("BERTH_VECTORS", HERE.parents[2] / "shared" / "vectors"))
FAMILIES = (
    *("nodeaffinity", "taints", "resources", "ports", "podaffinity", "podaffinityscore", "images"),
    *("spread", "spreadscore", "volumes", "preemption", "nominated", "mixed"),
)
FIELDS = ("feasible", "preFilter", "preFilterNodes", "filter", "raw", "weighted", "total", "best", "message")
UNSAID = ("DynamicResources", "VolumeBinding")
"""Plugins whose zero says nothing."""

Case = dict[str, Any]


def comparable(field: str, value: Any) -> Any:
    """A field as compare_vectors.py compares it."""
    if field == "filter":
        return {node: (v["plugin"], v["code"], sorted(v["reasons"])) for node, v in (value or {}).items()}
    if field in ("raw", "weighted"):
        scores = (value or {}).items()
        return {node: {k: v for k, v in found.items() if v or k not in UNSAID} for node, found in scores}
    return value or None


def agrees(field: str, got: Case, want: Case) -> bool:
    if field == "message" and want.get("postFilterError"):
        return True
    if field == "message" and want.get("preemption"):
        # The text ends with the node that was picked; which ones may be is `preemption`'s business.
        return str(got.get(field)).startswith(str(want[field]).split(" preemption:")[0])
    return bool(comparable(field, got.get(field)) == comparable(field, want.get(field)))


def picks(preemption: list[Case] | None) -> set[tuple[str, tuple[str, ...]]]:
    return {(each["node"], tuple(sorted(each["victims"]))) for each in preemption or ()}


def differences(case: Case) -> list[str]:
    got, want = answer(case, json.loads), case["want"]
    found = [
        f"{case['id']} {field}: got {got.get(field)}, want {want.get(field)}"
        for field in FIELDS
        if not agrees(field, got, want)
    ]
    ours, right = picks(got.get("preemption")), picks(want.get("preemption"))
    if not ours <= right or bool(ours) != bool(right):
        found.append(f"{case['id']} preemption: got {ours}, want one of {right}")
    return found


OWN = [json.loads(line) for line in (HERE / "own.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("case", OWN, ids=lambda case: case["id"])
def test_our_own_vectors_agree(case: Case) -> None:
    """Each was a difference from the real plugins once, or guards one of the ten traps."""
    assert differences(case) == []


@pytest.mark.skipif(not FOLDER.is_dir(), reason=f"no vectors: {FOLDER} is not there (BERTH_VECTORS names another)")
@pytest.mark.parametrize("family", FAMILIES)
def test_family_agrees(family: str) -> None:
    """All cases of a family, compared in every field."""
    with gzip.open(FOLDER / f"{family}.jsonl.gz", "rt") as lines:
        found = [line for case in map(json.loads, lines) for line in differences(case)]
    assert found == []
