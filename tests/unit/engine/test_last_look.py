"""Pods that have their node, and whose node changes before the Binding is sent."""

from typing import Any

import pytest

from podberth.engine.binding_cycle import BindingCycles
from podberth.engine.binding_table import State
from podberth.engine.instructions import Bind, Failed, Instruction, PatchCondition, Withdraw
from podberth.engine.queue.queued import Place
from podberth.engine.stimuli import BindFailed, BindWithdrawn, Unwritten
from podberth.framework.binding import Hold
from podberth.framework.interface import PODS_HERE
from podberth.framework.status import Rejections
from tests.builders import configuration, profile
from tests.unit.work import lines

from .conftest import Harness, node, pod
from .test_points import plugin


def changed(cpu: str = "1", **spec: Any) -> dict[str, Any]:
    document = node("n1", cpu=cpu)
    document["spec"] = spec
    document["metadata"]["uid"] = "n1"
    return document


def relabelled() -> dict[str, Any]:
    document = changed()
    document["metadata"]["labels"]["disk"] = "spinning"
    return document


CORDONED = changed(unschedulable=True)
TAINTED = changed(taints=[{"key": "broken", "effect": "NoSchedule"}])
SHRUNK = changed(cpu="100m")


def foreign(cpu: str, **more: Any) -> dict[str, Any]:
    return pod("foreign", cpu=cpu, scheduler="other", nodeName="n1", meta={"uid": "foreign"}, **more)


def of(said: list[Instruction], kind: type) -> list[Any]:
    return [one for one in said if isinstance(one, kind)]


def world(harness: Harness, *pods: dict[str, Any]) -> None:
    """Pods that are being bound to n1."""
    harness.put(changed(), *(pods or (pod("p", cpu="600m"),)))
    assert set(harness.binds().values()) == {"n1"}


@pytest.mark.parametrize(
    ("id", "what", "why"),
    [
        ("cordoned", CORDONED, "NodeUnschedulable rejects the pod there"),
        ("tainted", TAINTED, "TaintToleration rejects the pod there"),
        ("shrunk", SHRUNK, "NodeResourcesFit rejects the pod there"),
        ("somebody else's pod", foreign("700m"), "NodeResourcesFit rejects the pod there"),
        ("gone", None, "node n1 is gone"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_its_node_takes_the_pod_no_longer(harness: Harness, id: str, what: dict[str, Any] | None, why: str) -> None:
    """The Binding is withdrawn. Once that is certain the pod is tried again, without a condition, elsewhere."""
    world(harness)
    said = harness.lose("Node", "", "n1", "n1") if what is None else harness.tell(what)
    (withdraw,) = of(said, Withdraw)
    assert withdraw.message.endswith(why)
    assert harness.engine.cluster.assumed() == 1, "it may have been sent before"
    said = harness.handle(BindWithdrawn("p", withdraw.message))
    assert of(said, Failed)
    assert not of(said, PatchCondition)
    assert harness.engine.cluster.assumed() == 0
    harness.put(node("n2", cpu="1"))
    harness.after(1.0)
    assert harness.binds() == {"p": "n2"}


@pytest.mark.parametrize(
    ("id", "what"),
    [
        ("another label", relabelled()),
        ("larger", changed(cpu="2")),
        ("a taint that only prefers", changed(taints=[{"key": "k", "effect": "PreferNoSchedule"}])),
        ("a pod beside which it fits", foreign("300m")),
        ("no change", changed()),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_its_node_still_takes_the_pod(harness: Harness, id: str, what: dict[str, Any]) -> None:
    """Nothing is withdrawn."""
    world(harness)
    assert not of(harness.tell(what), Withdraw)


def test_only_as_many_as_have_to_go(harness: Harness) -> None:
    """The node shrinks by one pod of three: one Binding is withdrawn."""
    world(harness, *(pod(name, cpu="300m") for name in "abc"))
    said = harness.tell(changed(cpu="700m"))
    assert len(of(said, Withdraw)) == 1


def test_a_pod_that_waits_on_permit_is_reverted_at_once() -> None:
    """Nothing of it is on its way."""
    own = plugin(permit=lambda self, assumed, cluster: Hold(30.0))
    points = {"multiPoint": {"enabled": [{"name": "Own"}]}}
    harness = Harness(configuration(profile(plugins=points)), own)
    harness.put(changed(), pod("p", cpu="600m"))
    harness.cycles()
    assert harness.engine.binding.state("p") is State.WAITING_ON_PERMIT
    said = harness.tell(CORDONED)
    (failed,) = of(said, Failed)
    assert failed.message == "node n1 has changed, and NodeUnschedulable rejects the pod there"
    assert harness.engine.binding.state("p") is None
    queued = harness.engine.queue.get("p")
    assert queued is not None
    assert queued.place is Place.BACKOFF


def test_nobody_looks_again_where_nobody_is_bound(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes change all the time; only those to which a pod is being bound cost another look."""
    world(harness)
    looks: list[Any] = []

    def look(*args: Any) -> str:
        looks.append(args)
        return ""

    monkeypatch.setattr(BindingCycles, "_objection", look)
    for i in range(10):
        harness.put(node(f"other{i}"))
        harness.put(node(f"other{i}", cpu="8"))
    assert looks == []
    harness.tell(CORDONED)
    assert len(looks) == 1


def test_a_namespace_that_is_being_deleted(harness: Harness) -> None:
    """A Binding that is refused for that ends quietly: no condition, no event."""
    world(harness)
    said = harness.handle(BindFailed("p", 403, "unable to create new content in namespace default", quietly=True))
    assert [type(one) for one in said] == [Failed]


def test_a_condition_that_was_dropped_is_said_again(harness: Harness) -> None:
    """The pod was about to be bound when its condition had not been written yet; then it was not bound after all."""
    harness.put(pod("p", cpu="600m"))
    harness.cycles()
    harness.put(changed())
    assert harness.binds() == {"p": "n1"}
    harness.handle(Unwritten("p"))
    harness.handle(BindFailed("p", 409, "taken"))
    harness.gone("Node", "n1", "")
    harness.after(20.0)
    said = harness.cycles()
    assert of(said, PatchCondition)
    assert not of(said, Bind)


def test_all_pods_of_a_node_share_the_cost_of_a_look() -> None:
    """However many costly pods are about to be bound to a node: its change is one short turn for everybody."""
    asked: list[str] = []
    selects = [{"labelSelector": {"matchLabels": {"no": str(i)}}} for i in range(100)]
    terms = [one | {"topologyKey": "kubernetes.io/hostname"} for one in selects]
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}

    def looks(self: Any, pod: Any, cluster: Any) -> Rejections:
        asked.append(pod.name)
        return []

    own = plugin(filter=looks, depends_on=PODS_HERE)
    harness = Harness(configuration(profile(plugins={"multiPoint": {"enabled": [{"name": "Own"}]}})), own)
    harness.put(
        changed(cpu="100"),
        *(pod(f"p{i}", cpu="1", affinity=apart) for i in range(30)),
    )
    assert len(harness.binds()) == 30
    asked.clear()
    harness.put(changed(cpu="90"))
    assert 0 < len(asked) <= 6


def _put_small(harness: Harness, numbers: range) -> int:
    """Lines of Python for pods that somebody else has placed on n1."""
    made = [pod(f"s{i}", cpu="0", scheduler="other", nodeName="n1", meta={"uid": f"s{i}"}) for i in numbers]
    return lines(lambda: harness.put(*made))[0]


def test_a_crowd_on_another_node_costs_nothing(harness: Harness) -> None:
    """A tenant may place thousands of pods there. For each, only those are looked at that are being bound there."""
    document = changed()
    document["status"]["allocatable"]["pods"] = "10000"
    harness.put(document, node("n2"), pod("p", cpu="600m", nodeSelector={"kubernetes.io/hostname": "n2"}))
    assert harness.binds() == {"p": "n2"}
    first = _put_small(harness, range(100))
    _put_small(harness, range(100, 1_500))
    assert _put_small(harness, range(1_500, 1_600)) < 1.5 * first
