"""What a new kind of pods costs a pod with many terms that has been asked about before."""

from scheduler.model import wire
from tests.builders import pod
from tests.unit.work import lines

from .test_terms_cost import hostile, look, town


def test_a_new_kind_of_pods_is_weighed_without_a_look_at_each_term() -> None:
    """What it counts for under thousands of terms is added up in one go, as it is charged."""
    cluster, decoder = town(50)
    asks = hostile(decoder, "rather_apart", 3_000)
    for i in range(2):  # the second time, the terms are indexed
        cluster.put_pod(decoder.pod(wire.encode(pod(f"new-{i}", uid=f"new-{i}", on="n1", labels={"zz": f"new-{i}"}))))
        look(cluster, asks)
    cluster.put_pod(decoder.pod(wire.encode(pod("newest", uid="newest", on="n2", labels={"zz": "newest"}))))
    count, _ = lines(lambda: look(cluster, asks))
    assert count < 1_000
