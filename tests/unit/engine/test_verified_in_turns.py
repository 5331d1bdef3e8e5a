"""A cluster that is made anew for a verification takes its turns."""

import pytest

from podberth.cache.rebuild import rebuilt
from podberth.cache.validate import validate
from podberth.engine.instructions import Verified
from podberth.framework import verify

from .conftest import Harness, node, pod

TERM = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "a1"}}}
AVOIDS = {
    "podAntiAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 7, "podAffinityTerm": TERM}],
    }
}


def test_a_large_cluster_is_made_anew_some_rows_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The decision that is verified is the one at which all rows are as they are; what changed meanwhile is seen."""
    monkeypatch.setattr(verify, "ROWS", 7)
    harness = Harness(verify=1)
    harness.put(*(node(f"n{i}", zone="ab"[i % 2]) for i in range(40)))
    harness.put(*(pod(f"there{i}", nodeName=f"n{i}") for i in range(9)))
    verified = []
    for i in range(60):
        harness.put(pod(f"p{i}", affinity=AVOIDS if i % 3 else {}, labels={"app": f"a{i % 4}"}))
        if i % 5 == 0:
            harness.put(node(f"n{i % 40}", cpu=str(1 + i % 4), zone="c"))
        if i % 7 == 0:
            harness.gone("Node", f"n{(i + 3) % 40}")
        if i % 4 == 0:
            harness.gone("Pod", f"there{i % 9}")
        verified += [(i, one) for one in harness.cycle() if isinstance(one, Verified)]
        if i == 30:
            harness.engine.cluster.adopt(rebuilt(harness.engine.cluster))
    assert [one for _, one in verified if one.difference is not None] == []
    assert 4 < len(verified) < 15
    assert validate(harness.engine.cluster) == []
