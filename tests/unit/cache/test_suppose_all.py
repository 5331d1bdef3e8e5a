"""Many pods supposed at once count as they do one after the other."""

import msgspec
import numpy as np
import pytest

from podberth.cache.nodes import Nodes
from podberth.model.kinds import Decoder
from tests.builders import node, pod


@pytest.mark.parametrize("count", [3, 100], ids=["few", "many"])
@pytest.mark.parametrize(
    "of", [{"cpu": "500m"}, {"cpu": "1", "memory": "1Gi"}, {"others": {"example.com/gpu": "2"}}, {"ports": ["80"]}]
)
def test_pods_of_one_shape_count_together(of: dict[str, object], count: int) -> None:
    """Requests, defaulted requests, pods and ports; with the opposite sign, all is as before."""
    decoder = Decoder()
    shape = decoder.pod(msgspec.json.encode(pod("p", **of))).shape  # type: ignore[arg-type]
    together, apart = Nodes(), Nodes()
    for nodes in (together, apart):
        for i in range(7):
            made = decoder.node(msgspec.json.encode(node(f"n{i}")))
            nodes.put(nodes.ensure_row(made.name), made)
    where = [(i * i % 7, shape) for i in range(count)]
    before = together.requested.copy()
    together.suppose_all(where, 1)
    for row, one in where:
        apart.suppose(row, one, 1)
    assert (together.requested == apart.requested).all()
    assert (together.nonzero == apart.nonzero).all()
    assert (together.pods == apart.pods).all()
    assert together.ports.by_row() == apart.ports.by_row()
    together.suppose_all(where, -1)
    assert (together.requested[: len(before)] == before).all()
    assert not np.any(together.pods)
    assert together.ports.by_row() == {}
