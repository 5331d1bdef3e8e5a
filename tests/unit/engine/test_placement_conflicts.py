"""What a race between two schedulers broke is found afterwards: zone anti-affinity, and spread."""

from typing import Any

import pytest

from podberth.engine import placement_conflicts
from podberth.engine.instructions import Instruction, RecordConflict
from podberth.engine.placement_conflicts import AFTER
from podberth.kube.writes import meta_time
from tests.unit.work import lines

from .conftest import Harness, node, pod

ZONE = "topology.kubernetes.io/zone"
EPOCH = 1_767_268_800.0
WEB: dict[str, Any] = {"matchLabels": {"app": "web"}}
APART: dict[str, Any] = {
    "affinity": {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [{"labelSelector": WEB, "topologyKey": ZONE}]
        }
    }
}
SPREAD: dict[str, Any] = {
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": WEB}
    ]
}
SOFT: dict[str, Any] = {
    "topologySpreadConstraints": [{**SPREAD["topologySpreadConstraints"][0], "whenUnsatisfiable": "ScheduleAnyway"}]
}


def bound(harness: Harness, document: dict[str, Any], on: str, ago: float = 0.0) -> dict[str, Any]:
    """The pod as the API has it once it is bound."""
    at = meta_time(EPOCH + harness.now - ago)
    condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": at}
    return {
        **document,
        "metadata": {**document["metadata"], "uid": document["metadata"]["name"]},
        "spec": {**document["spec"], "nodeName": on},
        "status": {"phase": "Pending", "conditions": [condition]},
    }


def web(name: str, scheduler: str = "berth", **spec: Any) -> dict[str, Any]:
    return pod(name, scheduler=scheduler, labels={"app": "web"}, **spec)


def zones(harness: Harness, *names: str) -> None:
    """Two nodes in each zone."""
    harness.put(*(node(f"{zone}{i}", **{ZONE: zone}) for zone in names for i in (1, 2)))


def place(harness: Harness, document: dict[str, Any]) -> str:
    """Schedule a pod of ours, and let the watch show it bound; its node."""
    harness.put(document)
    ((name, where),) = harness.binds().items()
    harness.bound(name)
    harness.tell(bound(harness, document, where))
    return where


def race(harness: Harness, ours: dict[str, Any], theirs: dict[str, Any]) -> str:
    """Another scheduler puts a pod on the other node of the same zone after we chose one and before we see it."""
    harness.put(ours)
    ((name, where),) = harness.binds().items()
    harness.tell(bound(harness, theirs, f"{where[0]}{3 - int(where[1])}"))
    harness.bound(name)
    harness.tell(bound(harness, ours, where))
    return where


def found(said: list[Instruction]) -> list[RecordConflict]:
    return [one for one in said if isinstance(one, RecordConflict)]


def watched(harness: Harness, seconds: float = AFTER[-1] + 1) -> list[RecordConflict]:
    """What is said while time passes, second by second."""
    return [one for _ in range(int(seconds)) for one in found(harness.tick(1.0))]


def test_anti_affinity(harness: Harness) -> None:
    """Two pods in one zone that must not be: said once, with the pod of the other scheduler."""
    zones(harness, "a", "b")
    where = race(harness, web("ours", **APART), web("theirs", "other"))
    (said,) = watched(harness)
    assert (said.pod.name, said.node, said.constraint) == ("ours", where, "anti_affinity")
    assert said.message == (
        f"pod anti-affinity does not hold: pod default/theirs of scheduler other was placed in {ZONE} "
        f'"{where[0]}" about the same time'
    )
    assert not watched(harness)


def test_spread(harness: Harness) -> None:
    """One pod too many in a zone."""
    zones(harness, "a", "b")
    where = race(harness, web("ours", **SPREAD), web("theirs", "other"))
    (said,) = watched(harness)
    assert (said.node, said.constraint) == (where, "topology_spread")
    assert said.message == (
        f'topology spread does not hold (maxSkew 1): {ZONE} "{where[0]}" has 1 too many, '
        "pod default/theirs of scheduler other was placed there about the same time"
    )


def test_it_comes_later(harness: Harness) -> None:
    """The other scheduler's Binding was slow."""
    zones(harness, "a", "b")
    where = place(harness, web("ours", **APART))
    assert not watched(harness, 9)
    harness.tell(bound(harness, web("theirs", "other"), where))
    assert len(watched(harness)) == 1


@pytest.mark.parametrize(
    ("id", "ours", "theirs"),
    [
        ("another app", web("ours", **APART), pod("theirs", scheduler="other")),
        ("no requirement", web("ours"), web("theirs", "other")),
        ("a preference", web("ours", **SOFT), web("theirs", "other")),
        ("another namespace", web("ours", **APART), web("theirs", "other", meta={"namespace": "far"})),
        ("spread, another namespace", web("ours", **SPREAD), web("theirs", "other", meta={"namespace": "far"})),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_nothing_is_broken(harness: Harness, id: str, ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    """Then nothing is said."""
    zones(harness, "a", "b")
    race(harness, ours, theirs)
    assert not watched(harness)


def test_in_another_zone(harness: Harness) -> None:
    """Both kept to the rules."""
    zones(harness, "a", "b")
    where = place(harness, web("ours", **APART))
    harness.tell(bound(harness, web("theirs", "other"), "b1" if where[0] == "a" else "a1"))
    assert not watched(harness)


def test_gone_again(harness: Harness) -> None:
    """When it is looked at, the other pod has gone."""
    zones(harness, "a", "b")
    race(harness, web("ours", **APART), web("theirs", "other"))
    harness.gone("Pod", "theirs")
    assert not watched(harness)


def test_no_race(harness: Harness) -> None:
    """A pod of the other scheduler that was bound long before, and whose labels have changed since, is no race."""
    zones(harness, "a", "b")
    harness.tell(bound(harness, pod("theirs", scheduler="other"), "a1", ago=600))
    harness.tell(bound(harness, pod("theirs-too", scheduler="other"), "b1", ago=600))
    place(harness, web("ours", **APART))
    for name, on in (("theirs", "a1"), ("theirs-too", "b1")):
        harness.tell(bound(harness, web(name, "other"), on, ago=600))
    assert not watched(harness)


def test_skew_of_their_own_making(harness: Harness) -> None:
    """A zone becomes too full because pods of the other one went: nobody raced."""
    zones(harness, "a", "b")
    harness.tell(bound(harness, web("theirs", "other"), "a1", ago=600))
    harness.tell(bound(harness, web("theirs-2", "other"), "b1", ago=600))
    where = place(harness, web("ours", **SPREAD))
    harness.gone("Pod", "theirs-2" if where[0] == "a" else "theirs")
    assert not watched(harness)


def test_pods_of_other_namespaces_are_not_named(harness: Harness) -> None:
    """An event is read by whoever may read the namespace of its pod."""
    zones(harness, "a", "b")
    everywhere = {"labelSelector": WEB, "topologyKey": ZONE, "namespaceSelector": {}}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [everywhere]}
    apart: dict[str, Any] = {"affinity": {"podAntiAffinity": required}}
    harness.put({"kind": "Namespace", "metadata": {"name": "far"}})
    race(harness, web("ours", **apart), web("secret", "other", meta={"namespace": "far"}))
    (said,) = watched(harness)
    assert "a pod of another namespace was placed" in said.message
    assert "secret" not in said.message


def test_ordinary_pods_are_not_looked_at(harness: Harness) -> None:
    """Who requires nothing of other pods costs nothing, and without other schedulers nobody is looked at."""
    zones(harness, "a", "b")
    place(harness, web("plain"))
    assert harness.engine.placement_conflicts.entries() == 0
    place(harness, web("ours", **SPREAD))
    assert harness.engine.placement_conflicts.entries() == 1
    assert not watched(harness)
    assert harness.engine.placement_conflicts.entries() == 0
    assert harness.engine.next_tick() is None


def test_what_is_kept_is_bounded(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """A flood of others' pods in one namespace drops the oldest of that namespace, and leaves other namespaces."""
    monkeypatch.setattr(placement_conflicts, "OF_A_NAMESPACE", 8)
    zones(harness, "a", "b")
    where = place(harness, web("ours", **APART))
    harness.tell(bound(harness, web("theirs", "other"), where))
    for i in range(50):
        flood = pod(f"flood-{i}", scheduler="other", cpu="1m", meta={"namespace": "far"})
        harness.tell(bound(harness, flood, "b1"))
    assert harness.engine.placement_conflicts.entries() == 1 + 1 + 8
    assert len(watched(harness)) == 1


def test_a_time_to_come_hides_nobody_else(harness: Harness) -> None:
    """Who may write the status of pods may say that one of theirs will be bound in a hundred years."""
    harness.engine.epoch = EPOCH
    zones(harness, "a", "b")
    harness.tell(bound(harness, pod("liar", scheduler="other"), "a1", ago=-3e9))
    race(harness, web("web", **APART), web("theirs", scheduler="other"))
    assert [one.constraint for one in watched(harness)] == ["anti_affinity"]


def test_a_namespace_makes_room_without_a_look_at_all_pods(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other schedulers' pods of more namespaces than are remembered: each new one displaces another."""
    monkeypatch.setattr(placement_conflicts, "_NAMESPACES", 200)
    harness.put(node("n"))

    def placed(i: int) -> None:
        document = pod(f"p{i}", scheduler="other", meta={"namespace": f"ns{i}", "uid": f"p{i}"})
        harness.tell(bound(harness, document, "n"))

    for i in range(199):
        placed(i)
    last = lines(lambda: placed(199))[0]
    for i in range(200, 300):
        placed(i)
    assert lines(lambda: placed(300))[0] < last + 100
    assert harness.engine.placement_conflicts.entries() == 200


def test_each_turn_has_a_bound(harness: Harness) -> None:
    """Pods with as many terms as they may have: some are looked at in each turn, and their namespace is charged."""
    zones(harness, "a", "b")
    terms = [{"labelSelector": {"matchLabels": {"app": "web", f"k{i}": "v"}}, "topologyKey": ZONE} for i in range(127)]
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [*terms, *_terms(APART)]}}
    only = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    where = place(harness, web("ours", affinity=apart))
    for i in range(5):
        place(harness, pod(f"more-{i}", cpu="1m", affinity=only))
    harness.tell(bound(harness, web("theirs", "other", cpu="1m"), where))
    conflicts = harness.engine.placement_conflicts
    looks: list[int] = []
    look = conflicts.look
    conflicts.look = lambda now: looks.append(len(done := look(now))) or done  # type: ignore[method-assign, func-returns-value]
    said = [one for _ in range(60) for one in found(harness.tick(0.5))]
    assert max(looks) == 1
    assert sum(looks) > 5
    assert len(said) == 1
    assert harness.engine.queue.fair_share.all_owed(harness.now).keys() <= {"default"}
    assert conflicts.next_look() is None


def _terms(apart: dict[str, Any]) -> list[Any]:
    found: list[Any] = apart["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    return found
