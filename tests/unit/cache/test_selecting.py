"""Objects that select pods: Services, PodDisruptionBudgets and controllers."""

from podberth.cache.cluster import Cluster
from podberth.model import wire
from podberth.model.kinds import Decoder
from podberth.model.namespaced import SelectingObject


def test_namespaces_that_come_and_go_leave_nothing() -> None:
    """A tenant may make them anew all day; what was kept of one is not taken for what comes under its name later."""
    cluster, decoder, seen = Cluster(), Decoder(), set[int]()
    kinds = {"Service": {"app": "web"}, "PodDisruptionBudget": {"matchLabels": {"app": "web"}}}
    for turn in range(60):
        name = f"ns-{turn % 20}"
        for kind, selector in kinds.items():
            document = {
                "metadata": {"name": "web", "namespace": name, "uid": f"{turn}"},
                "spec": {"selector": selector},
            }
            made = decoder.of_kind(kind)(wire.encode(document))
            assert isinstance(made, SelectingObject)
            cluster.put_selecting(made)
        assert cluster.selecting_changes[name] not in seen
        seen.add(cluster.selecting_changes[name])
        for kind in kinds:
            cluster.drop_selecting(kind, name, "web")
    assert not any(cluster.selecting.values())
    assert not cluster.selecting_changes
