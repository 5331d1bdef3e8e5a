"""Scores by images are kept for pods with the same images, until any node has others."""

from random import Random
from typing import Any

import numpy as np
import pytest

from podberth.explain.objects.world import World
from podberth.plugins.image_locality import ImageLocality
from tests.builders import node, pod
from tests.unit.plugins.small import a_pod

MIB = 1 << 20
IMAGES = ("web:1", "web:2", "base:1")
NODES = 6


def scores(made: ImageLocality, images: list[str], world: World) -> list[int]:
    rows = np.array([row for row, _ in world.cluster.nodes.live()], dtype=np.intp)
    found = made.score(a_pod(pod("p", images=images)), world.cluster, rows)
    return [found] * len(rows) if isinstance(found, int) else found.tolist()


@pytest.mark.parametrize("seed", range(10))
def test_what_is_kept_is_what_would_be_found_anew(seed: int) -> None:
    """Nodes pull images, drop them, come and go; some pods have the same images, and one plugin has seen them all."""
    random, world, lasting = Random(seed), World(), ImageLocality()
    for _ in range(40):
        name = f"n{random.randrange(NODES)}"
        held = {image: random.choice((90, 400)) * MIB for image in IMAGES if random.random() < 0.6}
        if random.random() < 0.2:
            world.cluster.drop_node(name)
        elif random.random() < 0.7:
            world.add_all([node(name, images=held)])
        asked = random.choices((*IMAGES, "none:1"), k=random.randint(0, 3))
        assert scores(lasting, asked, world) == scores(ImageLocality(), asked, world)


def test_equal_pods_cost_one_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the second of them on, nodes are not asked for an image again before one of them has others."""
    world, made = World(), ImageLocality()
    asked: list[str] = []
    world.add_all([node("n", images={"web:1": 400 * MIB}), node("m")])
    image = world.cluster.nodes.image

    def counted(name: str) -> Any:
        asked.append(name)
        return image(name)

    monkeypatch.setattr(world.cluster.nodes, "image", counted)
    for _ in range(5):
        assert scores(made, ["web:1"], world) == [18, 0]
    assert len(asked) == 2
    world.add_all([node("m", images={"web:1": 400 * MIB})])
    assert scores(made, ["web:1"], world) == [38, 38]
    assert len(asked) == 3
