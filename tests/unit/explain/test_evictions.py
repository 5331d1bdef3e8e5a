"""Pods that may not, or need not, leave: by one set of rules, whoever asks. Pods that go anyway are waited for."""

import json
from typing import Any

import pytest

from podberth.cli.main import run
from tests.builders import Object, node, pod
from tests.storage import claim, using, volume
from tests.unit.evictor.conftest import disk, keeping
from tests.unit.explain.simulate.test_plan import outcome, owned
from tests.unit.explain.simulate.test_removable import found_in
from tests.unit.explain.story import explained
from tests.unit.explain.test_promises import planned

READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
UNREADY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]}
GOING = {"deletionTimestamp": "2026-09-01T00:00:00Z", "deletionGracePeriodSeconds": 30}


def budget(name: str = "a", selector: Any = "app", policy: str | None = None, **status: int) -> Object:
    """A PodDisruptionBudget; `selector`: `app` stands for the pod's label, anything else for itself."""
    spec: Object = {"selector": {"matchLabels": {"app": "w"}} if selector == "app" else selector}
    spec |= {"unhealthyPodEvictionPolicy": policy} if policy else {}
    metadata = {"name": name, "namespace": "default", "uid": name, "generation": 1}
    found: Object = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec}
    return found | ({"status": {"observedGeneration": 1, **status}} if status else {})


NONE: dict[str, Any] = {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1}
ONE: dict[str, Any] = {"disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1}
SHORT: dict[str, Any] = {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 1}

CASES = [
    pytest.param(READY, [], [], id="no budget"),
    pytest.param(READY, [budget(**ONE)], [], id="one is allowed"),
    pytest.param(READY, [budget(**NONE)], ["a"], id="none is allowed"),
    pytest.param(READY, [budget("a", **ONE), budget("b", **ONE)], ["a", "b"], id="two budgets"),
    pytest.param(UNREADY, [budget(**SHORT)], ["a"], id="not ready, and too few are"),
    pytest.param(UNREADY, [budget(policy="AlwaysAllow", **SHORT)], [], id="not ready, AlwaysAllow"),
    pytest.param(READY, [budget(policy="AlwaysAllow", **NONE)], ["a"], id="ready, AlwaysAllow"),
    pytest.param(UNREADY, [budget(**NONE)], [], id="not ready, enough others are"),
    pytest.param(UNREADY, [budget(policy="IfHealthyBudget", **NONE)], [], id="not ready, IfHealthyBudget"),
    pytest.param(UNREADY, [budget("a", **NONE), budget("b", **NONE)], ["a", "b"], id="not ready, two budgets"),
    pytest.param({"phase": "Pending"}, [budget(**SHORT)], [], id="has not begun"),
    pytest.param({"phase": "Pending"}, [budget("a", **NONE), budget("b", **NONE)], [], id="not begun, two budgets"),
    pytest.param(READY, [budget(selector={}, **NONE)], ["a"], id="an empty selector"),
    pytest.param(READY, [budget(selector=None, **NONE)], [], id="no selector"),
    pytest.param(READY, [budget()], ["a"], id="no status"),
    pytest.param(READY, [budget(**ONE | {"observedGeneration": 0})], ["a"], id="a status of an older spec"),
]


@pytest.mark.parametrize(("status", "budgets", "keeping_it"), CASES)
def test_the_rules_of_the_eviction_api(status: Object, budgets: list[Object], keeping_it: list[str]) -> None:
    """A drain, the search for removable nodes, and what is said of a change agree; deletion asks no budget."""
    there = owned(pod("w-1", "3", on="n1", labels={"app": "w"})) | {"status": status}
    objects = [node("n1", "4"), node("n2", "4"), there, *budgets]
    found = outcome(objects, drain=["n1"])
    assert [(each.pod, each.budgets) for each in found.blocked] == ([("default/w-1", keeping_it)] if keeping_it else [])
    assert [each.node for each in found.placed] == ([] if keeping_it else ["n2"])
    assert [each.node for each in outcome(objects, drain=["n1"], force=True).placed] == ["n2"]
    kept = {each.node: each.stops for each in found_in(objects).kept}
    assert list(kept) == (["n1"] if keeping_it else [])
    assert all(name in text for name in keeping_it for text in kept["n1"].values())
    offered = explained(pod("new", "2", select={"host": "n1"}), objects).remedies
    move = next(each for each in offered if each.text == "move default/w-1 off n1")
    assert move.effects is not None
    assert bool(move.effects.refused) == bool(keeping_it)


@pytest.mark.parametrize(("status", "budgets", "keeping_it"), CASES)
def test_the_plan_of_an_evictor(status: Object, budgets: list[Object], keeping_it: list[str]) -> None:
    """It evicts whom the API would let go."""
    there = keeping("p", "a", labels={"app": "w"}) | {"status": status}
    assert [one.action for one in planned(disk("a", "hdd"), disk("b"), there, *budgets).evictions] == [
        "budget" if keeping_it else "evict"
    ]


def going(one: Object, **owner: str) -> Object:
    """The pod while it is being deleted."""
    found = owned(one)
    found["metadata"] |= GOING
    found["metadata"]["ownerReferences"][0] |= owner
    return found


def test_a_pod_that_is_being_deleted_is_not_created_again() -> None:
    """Its controller has done so already; a StatefulSet does so when it is gone. Neither budget nor owner keeps it."""
    bare = pod("bare", "1", on="n1")
    bare["metadata"] |= GOING
    objects = [node("n1", "4"), node("n2", "4"), going(pod("w-1", "1", on="n1", labels={"app": "w"})), bare]
    objects.append(budget(**NONE))
    found = outcome(objects, drain=["n1"])
    assert (found.placed, found.blocked, found.lost, found.good) == ([], [], [], True)
    assert "default/w-1 and 1 more are being deleted already, and nothing is created instead" in found.notes
    assert [(each.node, each.pods) for each in found_in(objects).removable] == [("n1", 0), ("n2", 0)]
    stateful = [*objects, going(pod("db-0", "3", on="n1"), kind="StatefulSet")]
    assert [(each.pod, each.node) for each in outcome(stateful, drain=["n1"]).placed] == [("default/db-0", "n2")]


ROOM = going(pod("old", "3", on="n1", labels={"app": "old"}, ports=["80"]))


@pytest.mark.parametrize(
    ("incoming", "objects"),
    [
        pytest.param(pod("new", "3"), [node("n1", "4"), ROOM], id="room"),
        pytest.param(pod("new", ports=["80"]), [node("n1", "4"), ROOM], id="a host port"),
        pytest.param(pod("new", apart=["app=old per host"]), [node("n1", "4"), ROOM], id="anti-affinity"),
        pytest.param(
            using(pod("new"), "data"),
            [
                node("n1", "4"),
                node("n2", "4"),
                claim("data", to="v1", modes="RWOP"),
                volume("v1", claimed="default/data"),
                going(using(pod("old", "1", on="n1"), "data")),
            ],
            id="a claim for one pod",
        ),
    ],
)
def test_what_waits_for_a_pod_that_is_being_deleted(incoming: Object, objects: list[Object]) -> None:
    """It is told for whom; to delete that pod again would do nothing, so it is neither moved nor deleted."""
    found = explained(incoming, objects)
    assert [each.text for each in found.remedies] == ["wait until default/old, which is terminating, is gone from n1"]
    assert found.remedies[0].commands == []
    assert found.cause is not None
    assert "default/old, which is terminating" in found.cause


def test_as_few_as_are_needed_are_waited_for() -> None:
    """Both pods of the one node, neither of the other; who is being deleted does no harm to other advice."""
    pods = [going(pod(f"old-{i}", "2", on=f"n{1 + i // 2}")) for i in range(3)]
    nodes = [node("n1", "4"), node("n2", "3")]
    found = explained(pod("new", "4"), [*nodes, *pods])
    assert [each.text for each in found.remedies] == [
        "wait until default/old-0, which is terminating, is gone from n1 and "
        "wait until default/old-1, which is terminating, is gone from n1"
    ]
    tainted = node("n1", "4", taints=["a=b:NoSchedule"])
    texts = [each.text for each in explained(pod("new", "4"), [tainted, going(pod("old", "2", on="n1"))]).remedies]
    assert "tolerate a=b:NoSchedule and wait until default/old, which is terminating, is gone from n1" in texts
    assert not any("move" in text for text in texts)


def test_a_pod_that_is_being_deleted_is_never_placed(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """As kube-scheduler skips it."""
    waits = pod("new", "3")
    waits["metadata"] |= GOING | {"finalizers": ["x/y"]}
    file = tmp_path / "dump.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [node("n1", "4"), waits]}))
    assert run(["explain", "new", "--cluster", str(file)]) == 1
    assert "default/new is being deleted, so no scheduler places it" in capsys.readouterr().out
