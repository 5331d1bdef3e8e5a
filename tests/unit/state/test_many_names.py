"""Thousands of names that a pod asks for or a node has: what they cost is counted in calls, and sums stay right."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.model import wire
from scheduler.model.kinds import Decoder
from scheduler.model.namespaced import SelectingObject
from scheduler.model.node import Node
from scheduler.model.pod import Pod
from scheduler.state.cluster import Cluster
from scheduler.state.effort import Effort, SliceOver
from scheduler.state.images import Images, OnNode
from scheduler.state.unoffered import MANY
from scheduler.state.validate import validate
from tests.builders import node, pod

NAMES = 3_000
decoder = Decoder()


@contextmanager
def calls() -> Iterator[Callable[[], int]]:
    """Counts calls of functions, those of built-in ones too."""
    count = 0

    def called(_frame: FrameType, event: str, _what: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(called)
    try:
        yield lambda: count
    finally:
        sys.setprofile(None)


def a_node(name: str, *offered: int) -> Node:
    """A node that offers some resources."""
    made = node(name)
    made["status"]["allocatable"] |= {f"example.com/r{i}": "100" for i in offered}
    return decoder.node(wire.encode(made))


def a_pod(name: str, count: int, on: str) -> Pod:
    """A placed pod that asks for so many resources."""
    made = pod(name, on=on)
    made["metadata"]["uid"] = name
    made["spec"]["containers"][0]["resources"] = {"requests": {f"example.com/r{i}": str(i) for i in range(count)}}
    return decoder.pod(wire.encode(made))


def test_a_pod_with_thousands_of_resources_is_placed_and_supposed_away_at_once() -> None:
    """Nobody has them: neither its placement nor a dry run without it looks at each of them."""
    cluster = Cluster()
    cluster.put_node(a_node("n0", 1))
    large = a_pod("large", NAMES, on="n0")
    with calls() as counted:
        cluster.put_pod(large)
        for sign in (-1, 1):
            cluster.nodes.suppose(0, large.shape, sign)
    assert counted() < NAMES // 5
    assert len(cluster.nodes.unoffered) == NAMES - 2  # one that is offered, and one of which it asks for nothing
    assert validate(cluster) == []


CHANGES = st.lists(
    st.tuples(st.sampled_from(["place", "remove", "offer"]), st.integers(0, 3), st.integers(0, 5)), max_size=12
)


@settings(deadline=None, max_examples=40)
@given(CHANGES)
def test_what_large_pods_ask_for_counts_while_it_is_offered(changes: list[tuple[str, int, int]]) -> None:
    """Pods with few and with many names come and go while nodes offer some of these, and stop."""
    cluster = Cluster()
    for name in ("n0", "n1"):
        cluster.put_node(a_node(name))
    for what, which, number in changes:
        match what:
            case "place":
                cluster.put_pod(a_pod(f"p{which}", MANY + 2 if which % 2 else number, on=f"n{number % 2}"))
            case "remove":
                cluster.drop_pod(f"p{which}")
            case "offer":
                cluster.put_node(a_node(f"n{which % 2}", *range(number)))
        assert validate(cluster) == []


def on_node(count: int, salt: int) -> OnNode:
    """So many images of a node."""
    return tuple((((f"image-{salt}-{i}",)), salt + i) for i in range(count))


def test_a_node_with_thousands_of_images_changes_at_once() -> None:
    """Whatever it has afterwards: nothing is done for each image."""
    images = Images()
    before: OnNode = ()
    for turn in range(3):
        after = on_node(NAMES, turn)
        assert images.where(f"image-{turn}-7") is None
        with calls() as counted:
            images.put(0, before, after)
        assert counted() < NAMES // 5
        before = after
    found = images.where("image-2-7")
    assert found is not None
    assert [one.tolist() for one in found] == [[0], [9]]
    assert images.where("image-1-7") is None


def test_any_number_of_nodes_has_thousands_of_images() -> None:
    """The 40th of them costs no more than the first, also when an image has many names."""
    images, have = Images(), dict[int, OnNode]()
    for salt in range(2):
        for row in range(40):
            after = on_node(NAMES, 40 * salt + row) if row % 2 else ((tuple(f"{salt}-{i}" for i in range(NAMES)), 1),)
            with calls() as counted:
                images.put(row, have.get(row, ()), after)
            assert counted() < NAMES // 5
            have[row] = after
    found = images.where("1-7")
    assert found is not None
    assert len(found[0]) == 20
    assert images.where("0-7") is None


def test_who_asks_for_images_pays_for_asking_nodes_with_many() -> None:
    """Each image is asked for in few steps, charged to the attempt, and not again in its next slice."""
    effort = Effort()
    images = Images(effort)
    for row in range(64):
        images.put(row, (), on_node(1_001, row))
    asked = [f"image-{i % 80}-{i}" for i in range(NAMES)]
    slices, spent = 0, 0
    while True:
        effort.begin(1_000, spent)
        slices += 1
        try:
            for name in asked:
                images.where(name)
        except SliceOver:
            spent = effort.end()
        else:
            break
    assert effort.end() == 6 * NAMES  # one step, and one for each 12 of these nodes
    assert slices == 1 + 6 * NAMES // 1_002  # a slice ends with the image that is beyond it
    images.put(64, (), on_node(1_001, 79))
    assert images.where("image-79-79") is not None


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 20), st.sampled_from([0, 1, 3, 1_001]), st.integers(0, 1)), max_size=30))
def test_images_are_where_nodes_have_them(puts: list[tuple[int, int, int]]) -> None:
    """Many nodes with many images, more of them than are kept by themselves: answers are as if each was looked at."""
    images, have = Images(), dict[int, OnNode]()
    asked = [f"image-{salt}-{i}" for salt in (0, 1) for i in (0, 2, 1_000)]
    for row, count, salt in puts:
        after = on_node(count, salt)
        images.put(row, have.get(row, ()), after)
        have[row] = after
        for name in asked:
            should = {row: size for row, of in have.items() for names, size in of if name in names}
            found = images.where(name)
            assert (dict(zip(*map(np.ndarray.tolist, found), strict=True)) if found else {}) == should
            assert images.by_name().get(name, {}) == should


def test_namespaces_that_come_and_go_leave_nothing() -> None:
    """A tenant may make them anew all day; what was kept of one is not taken for what comes under its name later."""
    cluster, seen = Cluster(), set[int]()
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
