"""Each node that could be removed is drained by the engine itself, and its pods land."""

from random import Random

from hypothesis import example, given, settings
from hypothesis import strategies as st

from podberth.cache.validate import validate
from podberth.explain.objects.world import World
from podberth.explain.simulate.drain import Drain
from podberth.explain.simulate.plan import plan, settled
from podberth.explain.simulate.removable import BARE, GROUPED, Removals, removals
from tests.builders import Object, node, pod
from tests.storage import claim, using, volume
from tests.unit.explain.simulate.test_plan import framework, owned


def found_in(objects: list[Object], labels: dict[str, str] | None = None, **more: int) -> Removals:
    """The answer for these objects; the cluster is as before afterwards."""
    world = World()
    world.add_all(objects)
    simulation, waiting = settled(world, framework())
    only_wait = {each.uid for each in waiting}
    before = {each.pod.uid: each.row for each in world.cluster.placements()}
    wanted = (labels or {}).items()
    found = removals(
        simulation.cluster, framework(), lambda node: wanted <= node.labels.items(), only_wait=only_wait, **more
    )
    assert {each.pod.uid: each.row for each in world.cluster.placements()} == before
    validate(world.cluster)
    return found


def on(name: str, where: str, cpu: str = "1", **more: object) -> Object:
    """A pod that a controller made."""
    return owned(pod(name, cpu, on=where, **more))  # type: ignore[arg-type]


def budget(allowed: int, **labels: str) -> Object:
    """A disruption budget."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "pdb", "namespace": "default", "uid": "pdb"},
        "spec": {"selector": {"matchLabels": labels}},
        "status": {"disruptionsAllowed": allowed},
    }


TWO = [node("n1", "4"), node("n2", "4")]


def test_one_of_two_but_not_both() -> None:
    """Either can go; the other one is needed then."""
    found = found_in([*TWO, on("a", "n1"), on("b", "n2")])
    assert [(each.node, each.pods, each.moves) for each in found.removable] == [
        ("n1", 1, {"default/a": "n2"}),
        ("n2", 1, {"default/b": "n1"}),
    ]
    assert (found.together, found.together_pods, found.kept) == (["n1"], 1, [])


def test_what_stops_a_node() -> None:
    """Bare pods, budgets, groups, and pods that fit nowhere else, each named with its reason."""
    grouped = on("grouped", "n4")
    grouped["spec"]["schedulingGroup"] = {"podGroupName": "train"}
    local = [claim("data", to="v1"), volume("v1", claimed="default/data", on=["host in n5"])]
    found = found_in(
        [
            *(node(f"n{i}", "4") for i in range(1, 6)),
            pod("bare", "1", on="n1"),
            on("guarded", "n2", labels={"app": "db"}),
            budget(0, app="db"),
            on("large", "n3", "4"),
            grouped,
            using(on("disk", "n5"), "data"),
            *local,
        ]
    )
    stops = {pod: why for each in found.kept for pod, why in each.stops.items()}
    assert stops["default/bare"] == BARE
    assert stops["default/guarded"] == "the disruption budget pdb allows no disruption"
    assert stops["default/large"].startswith("0/4 nodes are available: 4 Insufficient cpu.")
    assert stops["default/grouped"] == GROUPED
    assert "didn't match PersistentVolume's node affinity" in stops["default/disk"]
    assert (found.removable, found.together) == ([], [])


def test_pods_of_daemonsets_go_with_their_node() -> None:
    """And so do a kubelet's own: nobody has to land elsewhere."""
    mirror = owned(pod("static", "1", on="n1"), kind="Node")
    found = found_in([*TWO, owned(pod("agent", "1", on="n1"), kind="DaemonSet"), mirror])
    assert [(each.node, each.pods) for each in found.removable] == [("n1", 0), ("n2", 0)]


def test_only_the_nodes_that_are_chosen() -> None:
    """Pods land on others, too."""
    found = found_in([node("n1", "4", labels={"pool": "web"}), node("n2", "4"), on("a", "n1")], {"pool": "web"})
    assert ([each.node for each in found.removable], found.kept, found.together) == (["n1"], [], ["n1"])


def test_the_search_is_bounded() -> None:
    """Nodes that are not tried are named."""
    objects = [node(f"n{i}", "4") for i in range(4)] + [on(f"p{i}-{j}", f"n{i}") for i in range(4) for j in range(i)]
    found = found_in(objects, most=2)
    assert found.not_tried == ["n2", "n3"]
    assert [each.node for each in found.removable] == ["n0", "n1"]


@settings(max_examples=40, deadline=None)
@example(13255)  # a budget lets one pod go at a time, and the order decides where they land
@example(14291)
@given(st.integers(0, 2**32))
def test_what_is_said_is_what_a_drain_does(seed: int) -> None:
    """A node that could go is drained without a pod left, lost or preempted; of one that could not, something stays."""
    random = Random(seed)
    nodes = [node(f"n{i}", str(random.randint(2, 5)), zone=f"z{i % 2}") for i in range(5)]
    objects: list[Object] = [*nodes]
    if random.random() < 0.5:
        objects.append(budget(random.randint(0, 1), app="a"))
    for i in range(random.randint(3, 14)):
        made = pod(
            f"p{i}",
            f"{random.randint(2, 20) * 100}m",
            labels={"app": random.choice("ab")},
            on=f"n{random.randrange(5)}",
            apart=["app=a per host"] if random.random() < 0.2 else [],
            rather_near=[(10, "app=b per zone")] if random.random() < 0.2 else [],
        )
        objects.append(made if random.random() < 0.05 else owned(made))
    objects += [pod(f"w{i}", f"{random.randint(5, 20) * 100}m") for i in range(random.randrange(3))]
    found = found_in(objects)
    could = {each.node for each in found.removable}
    assert could | {each.node for each in found.kept} == {each["metadata"]["name"] for each in nodes}
    for name in sorted(each["metadata"]["name"] for each in nodes):
        world = World()
        world.add_all(objects)
        done = plan(world, framework(), [], drain=[name])
        clean = not (done.blocked or done.lost or done.preempted or [each for each in done.waiting if each.was])
        assert clean is (name in could), (name, found, done.waiting)
        moves = next((each.moves for each in found.removable if each.node == name), {})
        assert not clean or not _guarded(objects) or {each.pod: each.node for each in done.placed} == moves
    world = World()
    world.add_all(objects)
    simulation, waiting = settled(world, framework())
    moved: set[str] = set()
    for name in found.together:
        drain = Drain(simulation, [name], "berth", force=False, only_wait={each.uid for each in waiting})
        simulation.settle()
        assert not (drain.blocked or drain.lost or simulation.preempted)
        assert all(each.uid in simulation.bound for each in drain.moved)
        moved |= {each.uid for each in drain.moved}
    assert len(moved) == found.together_pods


def _guarded(objects: list[Object]) -> bool:
    """Without a budget all pods of a node leave at once, so that they land where it was said."""
    return not any(each["kind"] == "PodDisruptionBudget" for each in objects)


def test_who_only_waits_keeps_no_node() -> None:
    """A pod that waits is on a node in a dry run alone: it is not lost with the node, and may wait on."""
    objects = [node("n0", "4"), node("n1", "1"), on("p", "n1", "1"), pod("w", "2")]
    found = found_in(objects)
    assert [(each.node, each.pods) for each in found.removable] == [("n0", 0), ("n1", 1)]
    world = World()
    world.add_all(objects)
    done = plan(world, framework(), [], drain=["n0"])
    assert not (done.lost or done.blocked or done.waiting)
    assert [each.pod for each in done.others.waiting] == ["default/w"]
