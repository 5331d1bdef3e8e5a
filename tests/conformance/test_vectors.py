"""Every vector's answer is ours: cases as kube-scheduler 1.37's own plugins answered them.

`own.jsonl` is always there; the large sets are read from `BERTH_VECTORS` or `../shared/vectors` beside the repository.
"""

import gzip
import json
import os
from pathlib import Path

import pytest

from scheduler.whatif.cases import answer
from tests.conformance.comparison import Case, described

HERE = Path(__file__).parent
FOLDER = Path(os.environ.get("BERTH_VECTORS", HERE.parents[2] / "shared" / "vectors"))
FAMILIES = (
    *("nodeaffinity", "taints", "resources", "ports", "podaffinity", "podaffinityscore", "images"),
    *("spread", "spreadscore", "volumes", "preemption", "nominated", "mixed"),
)


def differences(case: Case) -> list[str]:
    return described(case, answer(case, json.loads), case["want"])


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
