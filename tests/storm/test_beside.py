"""A rival that decides on a stale cache breaks what our pods require: it is said of them, once each."""

from __future__ import annotations

from collections import Counter

from tests.storm.actors import RIVAL, node_of
from tests.storm.happenings import at
from tests.storm.towns import scene
from tests.storm.world import World


def test_a_rival_beside_our_pods() -> None:
    """Four of our pods, one on each node; the rival puts eight more of that app on the same nodes, blindly."""
    world = World(
        scene(
            "beside",
            at(100.0, "want", namespace="blue", name="theirs", cpu=50, replicas=8, scheduler=RIVAL, app="web"),
            at(102.0, "want", namespace="blue", name="ours", cpu=50, replicas=3, apart=True, app="web"),
            rival_every=6.0,
        )
    )
    assert world.run().violations == []
    pods = {pod["metadata"]["uid"]: pod for pod in world.server.objects("pods")}
    told = Counter(
        event["involvedObject"]["uid"]
        for event in world.server.objects("events")
        if event["reason"] == "PlacementConflict"
    )
    rivals = {node_of(pod) for pod in pods.values() if pod["spec"]["schedulerName"] == RIVAL}
    ours = {uid: pod for uid, pod in pods.items() if pod["spec"]["schedulerName"] != RIVAL and node_of(pod)}
    assert told == Counter(uid for uid, pod in ours.items() if node_of(pod) in rivals)
    assert told
