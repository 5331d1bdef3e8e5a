"""What another scheduler broke by placing a pod about the same time is mended, where the pod's owner allowed it."""

from collections.abc import Iterator
from typing import Any

import pytest

from podberth.cache.validate import validate
from podberth.kube.writes import meta_time
from tests import builders
from tests.builders import Object

from .conftest import EPOCH, GRACE, Harness, keeping

ZONE = "topology.kubernetes.io/zone"
APART = ("app=web per zone",)
SPREAD: list[Object] = [
    {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
]
ABOUT_NODES = '{"nodeSelectorTerms":[{"matchExpressions":[{"key":"disk","operator":"DoesNotExist"}]}]}'


@pytest.fixture
def world() -> Iterator[Harness]:
    """An empty cluster."""
    made = Harness()
    yield made
    assert validate(made.evictor.observed.cluster) == []


def bound(world: Harness, document: Object, ago: float = 0.0) -> Object:
    """The pod as the API has it, bound so long ago."""
    condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": meta_time(EPOCH + world.now - ago)}
    document["metadata"]["labels"] = {"app": "web"}
    document["status"]["conditions"] = [condition]
    return document


def ours(world: Harness, name: str, on: str, promise: str | None = "true", ago: float = 0.0, **spec: Any) -> Object:
    """A pod of a ReplicaSet, whose scheduler the evictor looks after, that must be alone in its zone."""
    return bound(world, keeping(name, on, promise, **{"apart": APART, **spec}), ago)


def theirs(world: Harness, name: str, on: str, ago: float = 0.0) -> Object:
    """A pod of another scheduler."""
    return bound(world, builders.pod(name, on=on, scheduler="default-scheduler"), ago)


def zones(world: Harness, *names: str) -> None:
    """Two nodes in each."""
    world.put(*(builders.node(f"{zone}{i}", zone=zone) for zone in names for i in (1, 2)))


def pass_time(world: Harness, seconds: float) -> list[str]:
    """Second by second; who is to be evicted."""
    return [name for _ in range(int(seconds)) for name in world.after(1.0)]


def test_anti_affinity(world: Harness) -> None:
    """Our pod goes: it was found, it stayed so for the grace, both pods were read, and there is another zone."""
    zones(world, "a", "b")
    world.put(ours(world, "p", "a1"), theirs(world, "q", "a2"))
    assert pass_time(world, GRACE - 1) == []
    assert world.reasons() == []
    assert pass_time(world, 4) == ["p"]
    (note,) = world.notes("PromiseBroken")
    assert note.startswith("pod anti-affinity does not hold: pod default/q of scheduler default-scheduler was placed")


def test_spread(world: Harness) -> None:
    """A zone with one pod too many."""
    zones(world, "a", "b")
    spread = ours(world, "p", "a1", apart=())
    spread["spec"]["topologySpreadConstraints"] = SPREAD
    world.put(spread, theirs(world, "q", "a2"))
    assert pass_time(world, GRACE + 4) == ["p"]


@pytest.mark.parametrize("promise", [None, "false", ABOUT_NODES])
def test_only_where_the_owner_allowed_it(world: Harness, promise: str | None) -> None:
    """Without "true", what the spec requires counts while the pod is scheduled, and never again."""
    zones(world, "a", "b")
    world.put(ours(world, "p", "a1", promise), theirs(world, "q", "a2"))
    assert pass_time(world, 2 * GRACE) == []
    assert world.reasons() == []


@pytest.mark.parametrize("scheduler", ["strict", "steady"])
def test_by_profile(world: Harness, scheduler: str) -> None:
    """A profile may allow it for all of its pods, by Berth's own plugin or by any other."""
    zones(world, "a", "b")
    world.put(ours(world, "p", "a1", None, scheduler=scheduler), theirs(world, "q", "a2"))
    assert pass_time(world, GRACE + 4) == ["p"]


def test_no_race(world: Harness) -> None:
    """The other pod was there long before: its labels have changed since, and that is nobody's race."""
    zones(world, "a", "b")
    world.put(theirs(world, "q", "a2", ago=600), ours(world, "p", "a1"))
    assert pass_time(world, 2 * GRACE) == []


def test_a_race_before_the_evictor_began(world: Harness) -> None:
    """When the evictor begins, both were bound an hour ago, at the same time."""
    zones(world, "a", "b")
    world.put(ours(world, "p", "a1", ago=3600), theirs(world, "q", "a2", ago=3601))
    assert pass_time(world, GRACE + 4) == ["p"]


def test_mended_within_the_grace(world: Harness) -> None:
    """The other pod goes by itself."""
    zones(world, "a", "b")
    world.put(ours(world, "p", "a1"), theirs(world, "q", "a2"))
    assert pass_time(world, 10) == []
    world.lose("Pod", "q")
    assert pass_time(world, 2 * GRACE) == []
    assert world.evictor.broken == {}
    assert world.reasons() == []


@pytest.mark.parametrize("first", ["conflict", "label"])
def test_what_its_node_lacked_is_put_right(world: Harness, first: str) -> None:
    """The node breaks what the pod asked of it, before or while the conflict is seen; the conflict is still there."""
    lacks, has = (builders.node("a1", zone="a", labels={} if gone else {"disk": "ssd"}) for gone in (True, False))
    zones(world, "b")
    world.put(lacks if first == "label" else has, builders.node("a2", zone="a", labels={"disk": "ssd"}))
    world.put(builders.node("b1", zone="b", labels={"disk": "ssd"}))
    world.put(ours(world, "p", "a1", select={"disk": "ssd"}), theirs(world, "q", "a2"))
    assert pass_time(world, 10) == []
    if first == "conflict":
        world.put(lacks)
        assert pass_time(world, 10) == []
    world.put(has)
    assert pass_time(world, GRACE - 1) == []
    assert pass_time(world, 5) == ["p"]


def test_an_owner_who_allows_it_later(world: Harness) -> None:
    """By another annotation than the one for which the pod is followed already."""
    zones(world, "a", "b")
    world.put(ours(world, "p", "a1", ABOUT_NODES), theirs(world, "q", "a2"))
    assert pass_time(world, 2 * GRACE) == []
    world.put(ours(world, "p", "a1", ago=2 * GRACE))
    assert pass_time(world, GRACE + 4) == ["p"]


def test_gone_from_the_api(world: Harness) -> None:
    """The watch still shows the other pod, and the API does not: nobody goes."""
    zones(world, "a", "b")
    world.put(ours(world, "p", "a1"), theirs(world, "q", "a2"))
    assert pass_time(world, 10) == []
    del world.objects["Pod", "default/q"]
    assert pass_time(world, 2 * GRACE) == []


def test_nowhere_else(world: Harness) -> None:
    """It stays, and says so once."""
    zones(world, "a")
    world.put(ours(world, "p", "a1"), theirs(world, "q", "a2"))
    assert pass_time(world, 3 * GRACE) == []
    assert len(world.notes("NoOtherNode")) == 1


def test_one_of_two_goes(world: Harness) -> None:
    """Both pods are ours to evict: the one of lower priority goes, and the other stays once it has gone."""
    zones(world, "a", "b")
    world.put(
        ours(world, "high", "a1", priority=10, scheduler="strict"),
        ours(world, "low", "a2", priority=5),
    )
    assert pass_time(world, 2 * GRACE) == ["low"]
    world.answer("low", 201)
    world.lose("Pod", "low")
    assert pass_time(world, 3 * GRACE) == []
    assert world.evictor.broken == {}


def test_the_younger_of_two_goes(world: Harness) -> None:
    """Of equal priority the one that was created later."""
    zones(world, "a", "b")
    old = ours(world, "old", "a1", scheduler="strict", meta={"creationTimestamp": meta_time(EPOCH)})
    world.put(old, ours(world, "young", "a2", meta={"creationTimestamp": meta_time(EPOCH + 5)}))
    assert pass_time(world, GRACE + 4) == ["young"]


def test_the_other_when_the_first_may_not(world: Harness) -> None:
    """A budget holds back the one that should go: the other goes in its place."""
    zones(world, "a", "b")
    world.put(ours(world, "high", "a1", priority=10, scheduler="strict"), ours(world, "low", "a2", priority=5))
    assert pass_time(world, GRACE + 4) == ["low"]
    world.answer("low", 429, "no", budget=True)
    asked: list[str] = []
    for _ in range(int(2 * GRACE)):
        asked += (gone := pass_time(world, 1.0))
        for _ in range(gone.count("low")):
            world.answer("low", 429, "no", budget=True)
    assert asked.count("high") == 1


def test_the_node_too(world: Harness) -> None:
    """The conflict ends, and meanwhile its node is no longer what it asked for: that counts as ever."""
    zones(world, "a", "b")
    world.put(
        ours(world, "p", "a1", select={"zone": "a"}),
        theirs(world, "q", "a2"),
    )
    assert pass_time(world, 10) == []
    world.put(builders.node("a1", zone="b"))
    world.lose("Pod", "q")
    assert pass_time(world, 2 * GRACE) == ["p"]
    assert world.evictor.broken["default/p"].reason == "NodeChanged"


def test_a_conflict_does_not_hold_the_breaker_open() -> None:
    """The labels are put back, and the pods that others got in the way of go."""
    world = Harness(changed_share=0.1)
    zones(world, *"cdefg")

    def relabel(*, back: bool) -> None:
        world.put(*(builders.node(f"{z}1", zone=z, labels={"disk": "ssd"} if back else {}) for z in "ab"))

    relabel(back=True)
    world.put(*(builders.node(f"{z}1", zone=z, labels={"disk": "ssd"}) for z in "yz"))
    for z in "ab":
        world.put(builders.node(f"{z}2", zone=z))
        world.put(ours(world, f"p{z}", f"{z}1", select={"disk": "ssd"}), theirs(world, f"q{z}", f"{z}2"))
    pass_time(world, 8)
    relabel(back=False)
    pass_time(world, 2)
    assert world.evictor.breaker.open
    relabel(back=True)
    pass_time(world, 2)
    assert not world.evictor.breaker.open
    assert sorted(pass_time(world, 3 * GRACE)) == ["pa", "pb"]


def test_put_right_while_the_api_is_asked(world: Harness) -> None:
    """A budget holds the pod back, and meanwhile its node is as it was: the conflict is still there."""
    lacks, has = (builders.node("a1", zone="a", labels={} if gone else {"disk": "ssd"}) for gone in (True, False))
    world.put(lacks, *(builders.node(n, zone=n[0], labels={"disk": "ssd"}) for n in ("a2", "b1")))
    world.put(ours(world, "p", "a1", select={"disk": "ssd"}), theirs(world, "q", "a2"))
    assert pass_time(world, GRACE + 4) == ["p"]
    world.put(has)
    assert pass_time(world, 2) == []
    world.answer("p", 429, "no", budget=True)
    assert "p" in pass_time(world, 10 * GRACE)


def test_an_owner_who_allows_it_no_more(world: Harness) -> None:
    """By another annotation, before the pod is looked at."""
    zones(world, "a", "b")
    world.put(ours(world, "p", "a1"), theirs(world, "q", "a2"))
    world.put(ours(world, "p", "a1", ABOUT_NODES))
    assert pass_time(world, 3 * GRACE) == []
