"""Images by node row, as nodes report others."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.state.images import Images, OnNode


def on_node(count: int, salt: int) -> OnNode:
    """So many images of a node."""
    return tuple((((f"image-{salt}-{i}",)), salt + i) for i in range(count))


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 20), st.sampled_from([0, 1, 3]), st.integers(0, 1)), max_size=30))
def test_images_are_where_nodes_have_them(puts: list[tuple[int, int, int]]) -> None:
    """Whatever nodes had before: answers are as if each was looked at."""
    images, have = Images(), dict[int, OnNode]()
    asked = [f"image-{salt}-{i}" for salt in (0, 1) for i in (0, 2)]
    for row, count, salt in puts:
        after = on_node(count, salt)
        images.put(row, have.get(row, ()), after)
        have[row] = after
        for name in asked:
            should = {row: size for row, of in have.items() for names, size in of if name in names}
            found = images.where(name)
            assert (dict(zip(*map(np.ndarray.tolist, found), strict=True)) if found else {}) == should
            assert images.by_name.get(name, {}) == should
