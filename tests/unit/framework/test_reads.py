"""What a plugin declares that it reads: those annotations and no others reach it; sources have defaults and ages."""

from typing import Any

import numpy as np
import pytest

from podberth.cache.cluster import Cluster
from podberth.cache.validate import validate
from podberth.cache.view import some_rows
from podberth.engine.engine import Engine
from podberth.engine.instructions import Bind, Failed, Instruction
from podberth.engine.stimuli import Cycle, Put, Refreshed, Tick
from podberth.framework.config import ConfigError, decode
from podberth.framework.profiles import annotated, build
from podberth.framework.runtime import Framework
from podberth.kit import NODE, SOURCES, Plugin, Reads, Source, Unschedulable
from podberth.model import wire
from podberth.model.kinds import Decoder
from podberth.model.node import Node
from podberth.model.pod import Pod
from podberth.plugins.registry import IN_TREE
from tests.builders import Object, configuration, node, pod, profile

KEY = "example.com/tier"


def profiles(*plugins: type[Plugin]) -> dict[str, Framework]:
    """The default profile with these plugins."""
    names = [{"name": plugin.name} for plugin in plugins]
    made = configuration(profile(plugins={"multiPoint": {"enabled": names}}))
    return build(decode(made), {**IN_TREE, **{plugin.name: plugin for plugin in plugins}})


class Tiers(Plugin):
    """A pod goes to nodes of the tier that it names by annotation."""

    name = "Tiers"
    depends_on = NODE
    reads = Reads(node_annotations=(KEY,), pod_annotations=(KEY,))
    other = Unschedulable("node(s) are of another tier")

    def filter(self, pod: Any, cluster: Any) -> Any:
        """Reject nodes of other tiers."""
        nodes, wanted = cluster.nodes, pod.annotations.get(KEY)
        return [(self.other, ~nodes.annotation(KEY).holds(nodes.rows, wanted))] if wanted else ()


Tiers.__module__ = "outside"


def noted(made: Object, **annotations: str) -> Object:
    """With annotations: `tier` is KEY, others are just others."""
    given = {KEY if key == "tier" else f"example.com/{key}": value for key, value in annotations.items()}
    return {**made, "metadata": {**made["metadata"], "annotations": given}}


class World:
    """One engine, told of objects."""

    def __init__(self, *plugins: type[Plugin]) -> None:
        self.frameworks = profiles(*plugins)
        self.engine = Engine(self.frameworks, verify=1)
        self.decoder = Decoder(annotated(self.frameworks))
        self.now = 0.0

    def put(self, *made: Object) -> dict[str, str]:
        """Pod → its node, or why it has none."""
        done: list[Instruction] = []
        for one in made:
            done += self.engine.handle(Put(self.decoder.of_kind(one["kind"])(wire.encode(one))), self.now)
        return self.go_on(done)

    def go_on(self, done: list[Instruction]) -> dict[str, str]:
        """What becomes of all that wait."""
        self.now += 20.0
        done += self.engine.handle(Tick(), self.now)
        while self.engine.has_work:
            done += self.engine.handle(Cycle(), self.now)
        assert not validate(self.engine.cluster)
        ended = [one for one in done if isinstance(one, Bind | Failed)]
        return {one.pod.name: one.node if isinstance(one, Bind) else one.message for one in ended}


def test_only_what_is_declared_is_kept() -> None:
    """Others pay nothing: no annotation is kept for whoever declares none."""
    written_node, written_pod = (noted(made, tier="gold", other="x") for made in (node("n"), pod("p")))
    for decoder, kept in ((Decoder(annotated(profiles(Tiers))), {KEY: "gold"}), (Decoder(annotated(profiles())), {})):
        for made in (written_node, written_pod):
            found = decoder.of_kind(made["kind"])(wire.encode(made))
            assert isinstance(found, Node | Pod)
            assert found.annotations == kept


def test_pods_and_nodes_by_annotation() -> None:
    """Pods that differ in the annotation alone share no results; a node that is annotated anew wakes who waits."""
    world = World(Tiers)
    assert world.put(noted(node("n"), tier="gold"), noted(pod("a"), tier="gold"), noted(pod("b"), tier="tin")) == {
        "a": "n",
        "b": "0/1 nodes are available: 1 node(s) are of another tier. preemption: 0/1 nodes are available: 1 No "
        "preemption victims found for incoming pod.",
    }
    assert world.put(noted(node("n"), tier="tin")) == {"b": "n"}


def test_a_pod_that_is_annotated_anew() -> None:
    """It is tried again."""
    world = World(Tiers)
    assert "another tier" in world.put(noted(node("n"), tier="gold"), noted(pod("b"), tier="tin"))["b"]
    assert world.put(noted(pod("b"), tier="gold")) == {"b": "n"}


def test_a_placed_pod_that_is_annotated_anew() -> None:
    """What plugins see of it is what it says now."""
    world = World(Tiers)
    placed = pod("p", on="n")
    world.put(node("n"), noted(placed, tier="tin"))
    world.put(noted(placed, tier="gold"))
    [seen] = world.engine.cluster.placements()
    assert seen.pod.annotations == {KEY: "gold"}


def test_the_column_of_an_annotation() -> None:
    """It follows nodes that come, change and go, also beyond its first room, and in a view of some rows."""
    cluster, decoder = Cluster(), Decoder(annotated(profiles(Tiers)))
    column = cluster.nodes.annotation(KEY)
    for i in range(100):
        cluster.put_node(decoder.node(wire.encode(noted(node(f"n{i}"), tier=f"t{i % 2}"))))
    cluster.put_node(decoder.node(wire.encode(node("n0"))))
    cluster.drop_node("n1")
    assert not validate(cluster)
    assert np.flatnonzero(column.holds(100, "t1")).tolist() == list(range(3, 100, 2))
    assert some_rows(cluster, np.array([2, 3])).nodes.annotation(KEY).holds(2, "t1").tolist() == [False, True]


def test_counts_in_the_whole_cluster() -> None:
    """Pods with some labels, or all of them, in one namespace or in all."""
    world = World()
    web = {"app": "web"}
    there = [pod("a", labels=web, on="n"), pod("b", labels=web, on="m", namespace="other"), pod("c", on="m")]
    world.put(node("n"), node("m"), *there)
    cluster = world.engine.cluster
    assert cluster.count_pods(labels=web).tolist() == [1, 1]
    assert cluster.count_pods("other", web).tolist() == [0, 1]
    assert int(cluster.count_pods().sum()) == 3
    assert not validate(cluster)
    world.put(pod("d", labels=web, on="m", namespace="third"))
    assert cluster.count_pods(labels=web).tolist() == [1, 2]


class Full(Plugin):
    """Rejects nodes that a source says are full."""

    name = "Full"
    depends_on = NODE | SOURCES
    full = Unschedulable("node(s) are full")

    def __init__(self, args: Any = None) -> None:
        self.nodes = Source("nodes", self.fetch, frozenset[str](["n"]))
        self.reads = Reads(sources=(self.nodes,))

    async def fetch(self) -> frozenset[str]:
        """Never asked here."""
        raise NotImplementedError

    def filter(self, pod: Any, cluster: Any) -> Any:
        """Reject them."""
        return [(self.full, np.array([name in self.nodes.value for name in cluster.nodes.names]))]


Full.__module__ = "outside"


def test_a_pod_waits_for_another_value() -> None:
    """The default counts first. A value that lets the pod in wakes it, another plugin's does not."""
    world = World(Full)
    assert "1 node(s) are full" in world.put(node("n"), pod("p"))["p"]
    plugin: Any = world.frameworks["berth"].plugin("Full")
    assert (plugin.nodes.age, plugin.nodes.set(frozenset())) == (None, True)
    assert world.go_on(world.engine.handle(Refreshed("berth", "Other"), world.now)) == {}
    assert world.go_on(world.engine.handle(Refreshed("berth", "Full"), world.now)) == {"p": "n"}


def test_a_value_and_its_age() -> None:
    """By the clock of whoever refreshes it."""
    source, now = Full().nodes, [100.0]
    source.clock = lambda: now[0]
    assert source.age is None
    assert source.set(frozenset())
    assert not source.set(frozenset(), age=1.0), "it is the same"
    now[0] = 107.0
    assert [source.value, source.age, source.version] == [frozenset(), 8.0, 1]
    arrays = Source[Any]("arrays", Full().fetch, np.zeros(2))
    assert arrays.set(np.zeros(2))
    assert arrays.set(np.zeros(2)), "whether arrays are equal is not asked"


async def fetch() -> int:
    """A number."""
    return 1


@pytest.mark.parametrize(
    ("reads", "says"),
    [
        (lambda: (KEY,), r"its reads is \('example.com/tier',\), should be a Reads"),
        (lambda: Reads(node_annotations=KEY), 'its reads.node_annotations is "example.com/tier", should be a tuple'),  # type: ignore[arg-type]
        (lambda: Reads(sources=(fetch,)), "should be a tuple of Sources"),  # type: ignore[arg-type]
        (lambda: Reads(sources=(Source("a", fetch, 0),) * 2), "its reads.sources has two sources of one name"),
        (lambda: Reads(sources=(Source("a", fetch, 0),)), "it reads sources, and depends_on does not name SOURCES"),
        (lambda: Source("a", lambda: 1, 0), "source a: fetch is .*, should be a coroutine function"),  # type: ignore[arg-type,return-value]
        (lambda: Source("a", fetch, 0, interval=0), "source a: interval is 0, should be seconds, more than 0"),
        (lambda: Source("a", fetch, 0, timeout=61), "timeout is 61, should be seconds, more than 0 and at most 60"),
    ],
)
def test_a_wrong_declaration(reads: Any, says: str) -> None:
    """Said at the start, with what was expected."""

    class Wrong(Full):
        name = "Wrong"
        depends_on = NODE

        def __init__(self, args: Any = None) -> None:
            self.reads = reads()

    Wrong.__module__ = "outside"
    with pytest.raises(ConfigError, match=says):
        profiles(Wrong)
