"""Namespaces that cause much work let the pods of others go first, and nobody waits for ever."""

from typing import Any

import pytest

from podberth.cache.validate import validate
from podberth.engine.instructions import Bind, Failed
from podberth.engine.queue.fair_share import FREE, PAID_OFF, SHARE, FairShare
from podberth.engine.queue.queued import Place
from podberth.framework.config import decode
from podberth.framework.interface import OWN_STATE, Plugin
from podberth.framework.profiles import build
from tests.builders import configuration, profile
from tests.messages import without_place
from tests.registered import registry
from tests.unit.work import lines

from .conftest import Harness, node, pod


class Searching(Plugin):
    """A filter that searches for so many steps for each pod with the label `steps`."""

    name = "Searching"
    depends_on = OWN_STATE

    def filter(self, pod: Any, cluster: Any) -> Any:
        cluster.search_steps.capped("gold", 1_000_000).take(int(pod.labels.get("steps", 0)))
        return ()


def opened() -> Harness:
    plugins = {"multiPoint": {"enabled": [{"name": "Searching"}]}}
    harness = Harness(configuration(profile(plugins=plugins)), Searching)
    for name in ("n1", "n2"):
        harness.put(node(name, cpu="400") | {"status": {"allocatable": {"cpu": "400", "pods": "5000"}}})
    return harness


def of(namespace: str, name: str, steps: int = 0, **spec: Any) -> dict[str, Any]:
    labels = {"app": name, **({"steps": str(steps)} if steps else {})}
    return pod(name, cpu="1m", labels=labels, meta={"namespace": namespace, "uid": name}, **spec)


def run(harness: Harness) -> list[str]:
    """Schedule; the names of pods in the order in which they were bound."""
    found: list[str] = []
    while harness.engine.has_work:
        found += [one.pod.name for one in harness.cycle() if isinstance(one, Bind)]
    assert validate(harness.engine.cluster) == []
    return found


DEAR = 2 * SHARE
"""What a pod takes whose namespace is beyond its share after it."""


def test_others_go_before_a_namespace_beyond_its_share() -> None:
    """It has had its turn, and its next pod waits for those of others that came later."""
    harness = opened()
    harness.put(of("a", "dear1", DEAR), of("a", "dear2", DEAR), of("a", "cheap"), *(of("b", f"p{i}") for i in range(9)))
    assert run(harness) == ["dear1", *(f"p{i}" for i in range(9)), "dear2", "cheap"]


def test_alone_it_is_held_up_by_nobody() -> None:
    harness = opened()
    harness.put(*(of("a", f"dear{i}", DEAR) for i in range(5)))
    assert run(harness) == [f"dear{i}" for i in range(5)]


def test_a_thousand_costly_pods_in_a_row() -> None:
    """They cost their own tenant's place: others' pods that come later pass them."""
    harness = opened()
    harness.put(*(of("a", f"dear{i}", DEAR) for i in range(1000)))
    for _ in range(10):
        harness.cycle()
    harness.put(*(of("c", f"p{i}") for i in range(50)))
    order = run(harness)
    assert set(order[:51]) > {f"p{i}" for i in range(50)}
    assert len(order) > 1000


def test_two_of_them_take_turns() -> None:
    harness = opened()
    harness.put(*(of("a", f"a{i}", DEAR) for i in range(4)), *(of("b", f"b{i}", DEAR) for i in range(4)))
    assert run(harness) == ["a0", "b0", "a1", "b1", "a2", "b2", "a3", "b3"]


def test_priority_comes_first() -> None:
    """Shares are among pods of one priority: an important pod of a namespace beyond its share waits for nobody."""
    harness = opened()
    harness.put(of("a", "dear", DEAR))
    assert run(harness) == ["dear"]
    harness.put(of("a", "same"), of("b", "other"), of("a", "high", priority=5), of("b", "low", priority=-1))
    assert run(harness) == ["high", "other", "same", "low"]


def test_no_backoff_ends_early_while_pods_are_put_behind_others() -> None:
    """Somebody is active, though the first hundreds of pods have to let others go first."""
    harness = opened()
    harness.put(of("a", "dear", DEAR), of("b", "backs-off", nodeSelector={"disk": "ssd"}))
    run(harness)
    harness.put(node("n3", disk="ssd"))
    assert harness.engine.queue.counts()[Place.BACKOFF] == 1
    harness.put(*(of("a", f"held{i}") for i in range(300)), of("b", "other"))
    assert run(harness)[0] == "other"


@pytest.mark.parametrize("held", [255, 256, 512])
def test_no_backoff_ends_early_while_all_active_pods_are_held(held: int) -> None:
    """Held pods are active ones, also where just as many are held as one turn looks at."""
    harness = opened()
    harness.put(of("a", "dear", DEAR), of("b", "backs-off", nodeSelector={"disk": "ssd"}))
    run(harness)
    harness.put(node("n3", disk="ssd"), *(of("a", f"held{i}") for i in range(held)))
    assert harness.engine.queue.counts()[Place.BACKOFF] == 1
    assert run(harness)[0] == "held0"


def test_what_was_charged_is_paid_off_in_time() -> None:
    """A namespace is as any other a while later, and its pod has waited long enough for those that come now."""
    harness = opened()
    harness.put(of("a", "dear", DEAR))
    run(harness)
    harness.put(of("a", "held"), of("b", "first"))
    assert [one.pod.name for one in harness.cycle() if isinstance(one, Bind)] == ["first"]
    shares = harness.engine.queue.fair_share
    assert shares.all_owed(harness.now).keys() == {"a"}
    assert shares.seconds_beyond("a", harness.now) == pytest.approx((DEAR - FREE - SHARE) / PAID_OFF, rel=0.1)
    harness.put(*(of("b", f"more{i}") for i in range(3)))
    harness.after(0.2)
    assert [one.pod.name for one in harness.cycle() if isinstance(one, Bind)] == ["held"]
    assert shares.all_owed(harness.now) == {}


def test_a_pod_that_is_held_may_change_and_go() -> None:
    """Held pods are active ones: they can be deleted, bound by others, changed, and their profiles can change."""
    harness = opened()
    harness.put(of("a", "dear", DEAR))
    run(harness)
    held = ["goes", "placed", "urgent", "stays"]
    harness.put(*(of("a", name) for name in held), of("b", "other1"), of("b", "other2"), of("b", "other3"))
    harness.cycle()
    assert harness.engine.queue.counts()[Place.ACTIVE] == 6
    harness.lose("Pod", "a", "goes", "goes")
    harness.put(of("a", "placed", nodeName="n2"), of("a", "urgent", priority=7))
    assert run(harness) == ["urgent", "other2", "other3", "stays"]
    harness.put(of("a", "again"), of("b", "other4"), of("b", "other5"))
    harness.cycle()
    harness.engine.reconfigure(build(decode(configuration(profile())), registry()), 1.0, 10.0, harness.now)
    assert set(harness.binds()) == {"again", "other5"}
    assert len(harness.engine.queue) == 0


def test_pods_that_fit_nowhere() -> None:
    """A tenant with hundreds of them that are tried again and again does not hold up what others create meanwhile."""
    harness = opened()
    harness.put(*(of("a", f"vain{i}", nodeSelector={"no": "where"}) for i in range(300)))
    for _ in range(20):
        harness.cycle()
    harness.put(*(of("b", f"p{i}") for i in range(30)))
    for _ in range(31):
        harness.cycle()
    assert all(harness.engine.queue.get(f"p{i}") is None for i in range(30))


def test_a_search_that_is_given_up() -> None:
    """Its message says what was looked for and how much was allowed; the namespace has paid for it."""
    harness = opened()
    harness.put(of("a", "greedy", 1_000_001))
    (failed,) = [one for one in harness.cycle() if isinstance(one, Failed)]
    assert failed.reason == "SchedulerError"
    why = "gave up looking for gold after 1,000,000 steps (about 1 s of one core)"
    assert without_place(failed.message) == f'running Filter plugin "Searching": {why}'
    assert harness.engine.queue.fair_share.owes("a", harness.now) > 999_000
    queued = harness.engine.queue.get("greedy")
    assert queued is not None
    assert queued.place is Place.BACKOFF


def test_thousands_of_namespaces() -> None:
    """Nobody goes through all of them for each attempt; those that have paid are dropped."""
    shares = FairShare()
    costs = []

    def attempts() -> None:
        for i in range(100):
            shares.charge(f"ns{i}", 1, 0.0)

    for many in (1_100, 4_000):
        for i in range(many):
            shares.charge(f"ns{i}", 100_000, 0.0)
        costs.append(lines(attempts)[0])
    assert costs[1] < 2 * costs[0]
    for i in range(10_000):
        shares.charge(f"later{i}", 1, 10.0 + i)
    assert shares.entries() < 5_000
