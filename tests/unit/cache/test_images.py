"""Images by node row, as nodes report others."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from podberth.cache.nodes import Images
from podberth.model import wire
from podberth.model.kinds import Decoder
from podberth.model.node import MOST_IMAGES
from tests.builders import node


def on_node(count: int, salt: int) -> dict[str, int]:
    """So many images of a node."""
    return {f"image-{salt}-{i}": salt + i for i in range(count)}


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 20), st.sampled_from([0, 1, 3]), st.integers(0, 1)), max_size=30))
def test_images_are_where_nodes_have_them(puts: list[tuple[int, int, int]]) -> None:
    """Whatever nodes had before: answers are as if each was looked at."""
    images, have = Images(), dict[int, dict[str, int]]()
    asked = [f"image-{salt}-{i}" for salt in (0, 1) for i in (0, 2)]
    for row, count, salt in puts:
        after = on_node(count, salt)
        images.put(row, have.get(row, {}), after)
        have[row] = after
        for name in asked:
            should = {row: of[name] for row, of in have.items() if name in of}
            found = images.where(name)
            assert (dict(zip(*map(np.ndarray.tolist, found), strict=True)) if found else {}) == should
            assert images.by_name.get(name, {}) == should


def test_of_a_node_with_thousands_of_images_the_first_count() -> None:
    """A kubelet writes them with the largest first. The node takes part, and what is left out is said."""
    made = node("n")
    made["status"]["images"] = [{"names": [f"i{i}:1", f"i{i}:2"], "sizeBytes": i} for i in range(5_000)]
    read = Decoder().node(wire.encode(made))
    assert len(read.images) == MOST_IMAGES
    assert read.images["i7:2"] == 7
    assert read.problems == ("status.images: Too many: 9000 of its names count as none, want 1000",)


def test_of_a_name_that_is_there_twice_the_first_size_counts() -> None:
    """As in kube-scheduler's cache (addNodeImageStates)."""
    made = node("n")
    made["status"]["images"] = [{"names": ["i:1"], "sizeBytes": size} for size in (7, 8)]
    assert Decoder().node(wire.encode(made)).images == {"i:1": 7}
