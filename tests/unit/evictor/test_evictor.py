"""The way of a broken promise, gate by gate."""

import json

import pytest

from podberth.engine.stimuli import Gone
from podberth.evictor.followed import Stage
from podberth.evictor.messages import NotRead, RecordPodEvent, Restored, Turn
from podberth.model.promise import ANNOTATION
from tests.builders import Object, namespace, node_selector
from tests.unit.evictor.conftest import GRACE, Harness, disk, keeping

BUDGET = "Cannot evict pod as it would violate the pod's disruption budget."
TWO = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."


def broken(harness: Harness, name: str) -> None:
    """A pod with a promise runs on node a, whose disk is then another one."""
    harness.put(keeping(name, "a"))
    harness.look()
    harness.put(disk("a", "hdd"))
    harness.look()


def evicted(harness: Harness, name: str) -> None:
    """The same, and after its grace the pod is to be evicted."""
    broken(harness, name)
    assert harness.after(GRACE) == [name]


def test_way_of_one_eviction(harness: Harness) -> None:
    """Two observations a grace apart, a proved target, an Event on pod and node with the old and the new value."""
    harness.put(keeping("web", "a"))
    assert harness.after(0) == []
    harness.put(disk("a", "hdd"))
    assert harness.after(0) == []
    assert harness.after(GRACE - 1) == []
    harness.now += 1
    (eviction,) = harness.look()
    assert (eviction.pod.name, eviction.node, eviction.target) == ("web", "a", "b")
    breach = 'disk in (ssd): the label was "ssd", is "hdd"'
    assert harness.notes("PromiseBroken") == [
        f"node a is no longer what the pod asks for: {breach}",
        f"no longer what default/web asked for: {breach}",
    ]
    harness.answer("web", 201)
    assert harness.evictor.evictions == {("NodeChanged", "evicted"): 1}
    assert harness.after(10 * GRACE) == []


@pytest.mark.parametrize(
    ("pod", "evicted"),
    [
        pytest.param(keeping("p", "a"), True, id="selector"),
        pytest.param(keeping("p", "a", "true", select={"disk": "ssd"}), True, id="own nodeSelector"),
        pytest.param(keeping("p", "a", "true", need=["disk in ssd,nvme"]), True, id="own affinity"),
        pytest.param(keeping("p", "a", "true"), False, id="own, and asks for nothing"),
        pytest.param(keeping("p", "a", None, select={"disk": "ssd"}), False, id="no annotation"),
        pytest.param(keeping("p", "a", None, select={"disk": "ssd"}, scheduler="strict"), True, id="by profile"),
        pytest.param(keeping("p", "a", "false", select={"disk": "ssd"}, scheduler="strict"), False, id="declined"),
        pytest.param(keeping("p", "a", scheduler="default-scheduler"), False, id="another scheduler's"),
        pytest.param(keeping("p", "a", "{}"), False, id="unreadable"),
        pytest.param(keeping("p", "a", phase="Succeeded"), False, id="finished"),
        pytest.param(keeping("p", "a", priority=2_000_000_000), False, id="system-critical"),
        pytest.param(keeping("p", "a", meta={"ownerReferences": []}), False, id="bare"),
        pytest.param(keeping("p", "a", meta={"deletionTimestamp": "2026-01-01T00:00:00Z"}), False, id="leaving"),
        pytest.param(
            keeping("p", "a", meta={"ownerReferences": [{"kind": "DaemonSet", "uid": "d", "controller": True}]}),
            False,
            id="DaemonSet",
        ),
        pytest.param(keeping("p", "a", meta={"annotations": {"kubernetes.io/config.mirror": "x"}}), False, id="mirror"),
    ],
)
def test_who_is_evicted(harness: Harness, pod: Object, evicted: bool) -> None:
    """Only pods of our profiles that ask for it, and not those that nobody would make anew elsewhere."""
    harness.put(pod)
    harness.look()
    harness.put(disk("a", "hdd"))
    harness.look()
    assert harness.after(GRACE) == (["p"] if evicted else [])


def test_the_seeds_own_field(harness: Harness) -> None:
    """With "true", what the affinity annotation requires during execution is kept as the rest of the pod's affinity."""
    affinity = {"nodeAffinity": {"requiredDuringSchedulingRequiredDuringExecution": node_selector("disk in ssd")}}
    annotations = {"scheduler.alpha.kubernetes.io/affinity": json.dumps(affinity)}
    harness.put(keeping("p", "a", "true", scheduler="seed", meta={"annotations": annotations}))
    harness.look()
    harness.put(disk("a", "hdd"))
    harness.look()
    assert harness.after(GRACE) == ["p"]


def test_pods_that_ask_for_more_together_than_an_int64(harness: Harness) -> None:
    """Whoever may create pods may place them by hand; the evictor goes on."""
    harness.put(*(keeping(f"other-{i}", "a", None, memory="32Pi") for i in range(300)), keeping("p", "a"))
    harness.look()
    harness.put(disk("a", "hdd"))
    harness.look()
    assert harness.after(GRACE) == ["p"]


def test_bare_pods_when_asked_for() -> None:
    """A pod without controller goes when its owner says that it may."""
    harness = Harness(bare_pods=True)
    harness.put(disk("a", "hdd"), disk("b"), keeping("p", "a", meta={"ownerReferences": []}))
    harness.look()
    assert harness.after(GRACE) == ["p"]


def test_unreadable_is_told_once(harness: Harness) -> None:
    """The Event names the field, and comes again only for another mistake."""
    harness.put(keeping("p", "a", '{"nodeSelectorTerm":[]}'))
    harness.look()
    harness.put(keeping("p", "a", '{"nodeSelectorTerm":[]}', labels={"x": "y"}))
    harness.look()
    (note,) = harness.notes("InvalidPromise")
    assert ANNOTATION in note and "nodeSelectorTerm" in note


@pytest.mark.parametrize("seconds", [1.0, 7.0, GRACE - 0.5])
def test_flapping_label(harness: Harness, seconds: float) -> None:
    """A label that comes and goes evicts nobody, and says nothing."""
    harness.put(keeping("web", "a"))
    harness.look()
    harness.said.clear()
    for i in range(200):
        harness.put(disk("a", "hdd" if i % 2 == 0 else "ssd"))
        assert harness.after(seconds) == []
    assert harness.said == []


def test_a_placed_pod_without_its_node(harness: Harness) -> None:
    """What is shown is of a backup, in which the pod was not bound yet: there is nothing to keep, and nobody goes."""
    harness.put(keeping("p", "a"), disk("a", None))
    assert harness.after(1.0) == []
    harness.put(keeping("p", None))
    assert harness.evictor.observed.undone
    assert [name for _ in range(10) for name in harness.after(GRACE)] == []
    assert harness.evictor.waiting() == dict.fromkeys(map(str, Stage), 0)


def test_flap_between_two_looks(harness: Harness) -> None:
    """The label was right for a moment that no look saw: the grace starts anew."""
    broken(harness, "web")
    harness.now += GRACE - 1
    harness.put(disk("a", "ssd"), disk("a", "hdd"))
    assert harness.after(1) == []
    assert harness.after(GRACE) == ["web"]


def test_another_label_changes_nothing(harness: Harness) -> None:
    """A change that the promise does not read neither breaks it nor starts its grace anew."""
    broken(harness, "web")
    harness.now += GRACE / 2
    harness.put(disk("a", "hdd", zone="z"))
    harness.look()
    assert harness.after(GRACE / 2) == ["web"]


def test_stale_cache(harness: Harness) -> None:
    """While the watch is silent nothing is decided, and afterwards the grace starts anew."""
    broken(harness, "web")
    assert harness.after(GRACE, fresh=False) == []
    assert harness.after(GRACE) == []
    assert harness.after(GRACE) == ["web"]


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(disk("a"), id="label is back"),
        pytest.param(keeping("web", "a", "false"), id="promise withdrawn"),
        pytest.param(keeping("web", "a", uid="other"), id="another of its name"),
        pytest.param(keeping("web", "a", meta={"deletionTimestamp": "2026-01-01T00:00:00Z"}), id="leaving"),
    ],
)
def test_second_observation_reads_the_api(harness: Harness, changed: Object) -> None:
    """What the API says counts, though the watch has not told it yet."""
    broken(harness, "web")
    harness.store(changed)
    assert harness.after(GRACE) == []
    assert "PromiseBroken" not in harness.reasons()


def test_no_other_node(harness: Harness) -> None:
    """Nowhere to go: it stays, says so once, and goes when a node has room."""
    harness.put(keeping("web", "a", cpu="3"), keeping("big", "b", cpu="3"))
    harness.look()
    harness.put(disk("a", "hdd"))
    harness.look()
    assert harness.after(GRACE) == []
    for _ in range(5):
        assert harness.after(300) == []
    (note,) = harness.notes("NoOtherNode")
    assert "stays on node a" in note and "1 Insufficient cpu" in note
    harness.lose("Pod", "big")
    assert harness.after(300) == ["web"]


def test_target_without_our_filter(harness: Harness) -> None:
    """A profile that disabled the filter: what the pod asked for counts for its target all the same."""
    harness.put(disk("empty", "hdd", others={"huge": "1"}), keeping("web", "a", scheduler="lax"))
    harness.put(*(keeping(f"busy{i}", "b", scheduler="lax") for i in range(9)))
    harness.look()
    for _ in range(3):
        harness.put(disk("a", "hdd"))
        harness.look()
        harness.now += GRACE
        (eviction,) = harness.look()
        assert eviction.target == "b"
        harness.answer("web", 409)
        harness.put(disk("a"))
        harness.look()


def test_room_is_promised_once(harness: Harness) -> None:
    """Two pods and room for one: the second stays until the first one's successor is placed or fails to come."""
    harness.put(keeping("one", "a", cpu="2"), keeping("two", "a", cpu="2"), keeping("old", "b", cpu="2"))
    harness.look()
    harness.put(disk("a", "hdd"))
    harness.look()
    (first,) = harness.after(GRACE)
    harness.answer(first, 201)
    harness.lose("Pod", first)
    harness.put(keeping("new", "b", cpu="2"))
    for _ in range(5):
        assert harness.after(300) == []


@pytest.mark.parametrize(
    ("status", "message", "more", "result", "again", "event"),
    [
        (429, BUDGET, {"budget": True, "retry_after": 0.0}, "budget", 10, "DisruptionBudget"),
        (429, BUDGET, {"budget": True, "retry_after": 60.0}, "budget", 75, "DisruptionBudget"),
        (429, "busy", {"retry_after": 1.0}, "throttled", 10, ""),
        (500, TWO, {}, "two_budgets", 600, "TwoDisruptionBudgets"),
        (500, "boom", {}, "error", 10, "EvictionFailed"),
        (403, "no", {}, "forbidden", 600, "EvictionRefused"),
        (409, "uid", {}, "conflict", 10, ""),
        (0, "nobody answered", {}, "unanswered", 10, ""),
    ],
)
def test_refusals(
    harness: Harness, status: int, message: str, more: dict[str, object], result: str, again: float, event: str
) -> None:
    """Each refusal is counted, told once, and tried again no sooner than makes sense."""
    evicted(harness, "web")
    harness.answer("web", status, message, **more)
    assert harness.evictor.evictions == {("NodeChanged", result): 1}
    assert harness.after(0.7 * again) == []
    assert harness.after(0.4 * again) == ["web"]
    harness.answer("web", status, message, **more)
    told = [reason for reason in harness.reasons() if reason not in ("PromiseBroken",)]
    assert told == ([event] if event else [])


def test_gone_while_asked(harness: Harness) -> None:
    """404, and the watch says the same: nothing is left behind."""
    broken(harness, "web")
    harness.after(GRACE)
    harness.lose("Pod", "web")
    harness.look()
    harness.answer("web", 404, "not found")
    assert sum(harness.evictor.waiting().values()) == 0
    assert len(harness.evictor.observed.claims) == 0


@pytest.mark.parametrize("seen", ["gone", "leaving", "before the answer"])
def test_back_from_a_backup(harness: Harness, seen: str) -> None:
    """An evicted pod was seen to go, and a backup brings it back: nobody asks that it go, so it is evicted again."""
    evicted(harness, "web")
    pod = harness.objects["Pod", "default/web"]
    if seen == "leaving":
        harness.answer("web", 201)
        harness.put(pod | {"metadata": pod["metadata"] | {"deletionTimestamp": harness.clock()}})
    elif seen == "gone":
        harness.answer("web", 201)
        harness.lose("Pod", "web")
    else:
        harness.lose("Pod", "web")
        harness.answer("web", 201)
    assert harness.after(10) == []
    harness.put(pod)
    assert harness.after(0) == []
    assert harness.after(GRACE) == ["web"]


@pytest.mark.parametrize("goes", [False, True])
def test_never_seen_to_go(harness: Harness, goes: bool) -> None:
    """After a minute the API is asked: if a backup has undone the eviction, it is asked for again, and else not."""
    evicted(harness, "web")
    harness.answer("web", 201)
    pod = harness.objects["Pod", "default/web"]
    if goes:
        harness.store(pod | {"metadata": pod["metadata"] | {"deletionTimestamp": harness.clock()}})
    assert harness.after(59) == []
    assert harness.after(1) == []
    assert harness.after(GRACE) == ([] if goes else ["web"])


def test_successor_that_lands_back_waits(harness: Harness) -> None:
    """Evicted, made anew, on the wrong node again: the owner's backoff, doubled each round."""
    harness.put(disk("c", "hdd"))
    evicted(harness, "web-0")
    harness.answer("web-0", 201)
    for turn, backoff in enumerate((300.0, 600.0), 1):
        harness.lose("Pod", f"web-{turn - 1}")
        harness.now += 1
        harness.put(keeping(f"web-{turn}", "c"))
        harness.look()
        assert harness.after(backoff - 2) == []
        assert harness.after(2) == [f"web-{turn}"]
        harness.answer(f"web-{turn}", 201)


def test_siblings_do_not_wait(harness: Harness) -> None:
    """Pods of one owner that were there all along go in one round."""
    harness.put(*(keeping(f"web-{i}", "a") for i in range(3)))
    harness.look()
    harness.put(disk("a", "hdd"))
    harness.look()
    assert sorted(harness.after(GRACE)) == ["web-0", "web-1", "web-2"]


def test_the_first_of_a_next_round_goes_alone(harness: Harness) -> None:
    """Requests overtake one another: an older pod waits for the answer, lest the successor goes right after it."""
    harness.put(keeping("old", "b"))
    evicted(harness, "web-0")
    harness.answer("web-0", 201)
    harness.lose("Pod", "web-0")
    harness.now += 1
    harness.put(keeping("web-1", "a"), disk("c"))
    harness.look()
    assert harness.after(299) == ["web-1"]
    harness.put(disk("b", "hdd"))
    harness.look()
    assert harness.after(GRACE) == []
    assert "has not answered yet" in harness.notes("EvictionHeld")[-1]
    harness.answer("web-1", 201)
    harness.now += 5
    (eviction,) = harness.look()
    assert (eviction.pod.name, eviction.turn.round) == ("old", 2)


@pytest.mark.parametrize(
    ("created", "waits"), [("2026-01-01T11:59:59Z", False), ("2026-01-01T12:00:00Z", True)], ids=["sibling", "later"]
)
def test_restart_remembers(harness: Harness, created: str, waits: bool) -> None:
    """What an earlier process evicted counts: the successor is spared, its older siblings are not."""
    turn = Turn("default/rs", asked_at="2026-01-01T12:00:00Z")
    harness.tell(Restored(Gone("Pod", "default", "web-0", "old"), turn, 10.0))
    harness.put(keeping("web", "a", meta={"creationTimestamp": created}), disk("a", "hdd"))
    harness.look()
    assert harness.after(GRACE) == ([] if waits else ["web"])
    assert harness.after(300) == (["web"] if waits else [])


def test_tokens() -> None:
    """A burst from one node, then as fast as its bucket fills."""
    harness = Harness(node_rate=0.1, node_burst=2, namespace_burst=100, cluster_burst=100, namespace_rate=9)
    harness.put(disk("a", "hdd"), disk("b"), *(keeping(f"p{i}", "a") for i in range(4)))
    harness.look()
    evicted = harness.after(GRACE)
    assert len(evicted) == 2
    for _ in range(2):
        for name in evicted:
            harness.answer(name, 201)
        assert harness.after(9) == []
        evicted = harness.after(1)
        assert len(evicted) == 1


def test_breaker() -> None:
    """Half of the nodes at once: nothing is evicted until they are put right; then the grace starts anew."""
    harness = Harness(changed_share=0.2)
    nodes = [f"n{i}" for i in range(10)]
    harness.put(namespace("default"), *map(disk, nodes), *(keeping(f"p-{name}", name) for name in nodes))
    harness.look()
    harness.put(*(disk(name, "hdd") for name in nodes[:5]))
    for _ in range(50):
        assert harness.after(GRACE) == []
    assert harness.breaker() == ["EvictionBreakerOpen"]
    assert harness.evictor.breaker.open
    harness.put(*(disk(name) for name in nodes[:3]))
    assert harness.after(0) == []
    assert harness.breaker() == ["EvictionBreakerOpen", "EvictionBreakerClosed"]
    assert harness.after(GRACE - 1) == []
    assert sorted(harness.after(1)) == ["p-n3", "p-n4"]


@pytest.mark.parametrize("others", [False, True], ids=["", "and others come in their place"])
def test_breaker_forgets_nodes_that_are_gone(others: bool) -> None:
    """The mislabelled nodes are taken away with their pods: they hold nobody back any more, whatever has their row."""
    harness = Harness(changed_share=0.2)
    nodes = [f"n{i}" for i in range(10)]
    harness.put(*map(disk, nodes), *(keeping(f"p-{name}", name) for name in nodes))
    harness.look()
    harness.put(*(disk(name, "hdd") for name in nodes[:5]))
    harness.after(1)
    assert harness.evictor.breaker.open
    for name in nodes[:5]:
        harness.lose("Pod", f"p-{name}")
        harness.lose("Node", name)
        if others:
            harness.put(disk(f"new-{name}"), keeping(f"q-{name}", f"new-{name}"))
    harness.after(1)
    assert not harness.evictor.breaker.open
    harness.put(disk("n9", "hdd"))
    harness.after(1)
    assert harness.after(GRACE) == ["p-n9"]


def test_observe_mode_frees_nothing() -> None:
    """A dry run's yes is told once, and neither room nor owner is touched."""
    harness = Harness(observe=True)
    harness.put(disk("a", "hdd"), disk("b"), keeping("web", "a"))
    harness.look()
    assert harness.after(GRACE) == ["web"]
    harness.answer("web", 201)
    assert harness.evictor.evictions == {("Found", "observed"): 1}
    assert harness.reasons().count("WouldEvict") == 1
    assert len(harness.evictor.observed.claims) == 0
    assert harness.after(600) == ["web"]


def test_unanswered_read(harness: Harness) -> None:
    """A read that fails is no observation; it is tried again."""
    harness.put(keeping("web", "a"), disk("a", "hdd"))
    harness.look()
    harness.deaf = True
    assert harness.after(GRACE) == []
    assert harness.evictor.waiting()["reading"] == 1
    harness.tell(NotRead("a"))
    harness.deaf = False
    assert harness.after(1) == []
    assert harness.after(10) == ["web"]


def test_stale_cache_shortens_no_backoff(harness: Harness) -> None:
    """A silent watch makes nobody hot: whoever rests, rests on."""
    evicted(harness, "web")
    harness.answer("web", 500, TWO)
    harness.after(1, fresh=False)
    assert harness.after(1) == []
    assert harness.after(590) == []
    assert harness.after(20) == ["web"]


def replaced_while_evicted(harness: Harness) -> None:
    """web-0 is being evicted, and gone before the API has answered; its successor web-1 is placed."""
    harness.put(disk("c", "hdd"))
    evicted(harness, "web-0")
    harness.now += 1
    harness.lose("Pod", "web-0")
    harness.put(keeping("web-1", "c"))
    harness.look()


def test_watch_is_quicker_than_the_answer(harness: Harness) -> None:
    """The pod is gone, and its successor placed, before the API has answered: the successor is spared all the same."""
    replaced_while_evicted(harness)
    harness.now += 1
    harness.answer("web-0", 201)
    assert harness.evictor.evictions == {("NodeChanged", "evicted"): 1}
    assert "Evicted" in harness.reasons()
    assert harness.after(290) == []
    assert harness.after(20) == ["web-1"]


def test_a_node_that_was_gone_meanwhile(harness: Harness) -> None:
    """A node that went and came back between two looks was not seen to break its promise all the time."""
    harness.put(keeping("web", "a"))
    harness.look()
    harness.put(disk("a", "hdd"))
    assert harness.after(0.0) == []
    harness.now += GRACE / 2
    harness.lose("Node", "a")
    harness.put(disk("a", "hdd"))
    assert harness.after(GRACE / 2) == []
    assert harness.after(GRACE) == ["web"]


def evict_once(harness: Harness) -> None:
    """A pod of the owner is evicted, and its successor lands on another node that is wrong."""
    harness.put(disk("c", "hdd"))
    evicted(harness, "web-0")
    harness.answer("web-0", 201)
    harness.lose("Pod", "web-0")
    harness.now += 1
    harness.put(keeping("web-1", "c"))
    harness.look()


def test_a_pod_held_by_its_owner_is_told_of(harness: Harness) -> None:
    """Which gate holds it, why and until when: once, after the second observation, and the breach with it."""
    evict_once(harness)
    harness.said.clear()
    evicted_at = harness.now - 1
    for _ in range(6):
        assert harness.after(45) == []
    (held,) = (one for one in harness.said if getattr(one, "reason", "") == "EvictionHeld")
    assert isinstance(held, RecordPodEvent) and held.pod.name == "web-1"
    assert held.until == evicted_at + 300
    assert held.note == (
        "stays on node c for now: a pod of its owner was evicted, and pods created since are left alone for 5 min "
        "(owner backoff, round 1)"
    )
    assert sorted(harness.notes("PromiseBroken")) == [
        'no longer what default/web-1 asked for: disk in (ssd): the label is "hdd"',
        'node c is no longer what the pod asks for: disk in (ssd): the label is "hdd"',
    ]
    assert harness.after(45) == ["web-1"]


def test_another_eviction_of_the_owner_is_told_too(harness: Harness) -> None:
    """A sibling goes later, so the successor is held for longer than was said: that is said again."""
    harness.put(keeping("web-9", "b"))
    evict_once(harness)
    harness.after(GRACE)
    harness.now += 120
    harness.put(disk("b", "hdd"), disk("d"))
    harness.look()
    assert harness.after(GRACE) == ["web-9"]
    harness.answer("web-9", 201)
    gone_at = harness.now
    harness.after(200)
    held = [one.until for one in harness.said if isinstance(one, RecordPodEvent) and one.reason == "EvictionHeld"]
    assert held == [1000.0 + GRACE + 300, gone_at + 300]


def test_a_pod_that_waits_for_its_turn_is_told_of() -> None:
    """The limit that holds it is named, once, however often it waits for a token."""
    harness = Harness(node_rate=0.01, node_burst=1)
    harness.put(disk("a", "hdd"), disk("b"), keeping("one", "a"), keeping("two", "a"))
    harness.look()
    (first,) = harness.after(GRACE)
    harness.answer(first, 429)
    for _ in range(8):
        harness.after(10)
    held = [one for one in harness.said if isinstance(one, RecordPodEvent) and one.reason == "EvictionHeld"]
    assert sorted(one.pod.name for one in held) == ["one", "two"]
    assert all("0.01 evictions a second from node a (--node-rate) are allowed" in one.note for one in held)
    told = [one.pod.name for one in harness.said if isinstance(one, RecordPodEvent) and one.reason == "PromiseBroken"]
    assert sorted(told) == ["one", "two"]


def test_an_eviction_without_an_answer_holds_the_successor(harness: Harness) -> None:
    """Nobody knows yet whether the pod was evicted; its successor waits for the answer, and is told so."""
    replaced_while_evicted(harness)
    assert harness.after(2 * GRACE) == []
    (note,) = harness.notes("EvictionHeld")
    assert "has not answered yet whether a pod of its owner is evicted" in note
    harness.answer("web-0", 0, "reset")
    answered_at = harness.now
    assert harness.notes("Evicted") != []
    assert harness.after(250) == []
    assert harness.after(answered_at + 300 - harness.now) == ["web-1"]


@pytest.mark.parametrize("status", [0, 504])
def test_an_eviction_that_may_have_happened_counts_once_the_pod_goes(harness: Harness, status: int) -> None:
    """The pod was still there when the answer was lost, and goes later: its successor is spared from then on."""
    harness.put(disk("c", "hdd"))
    evicted(harness, "web-0")
    harness.answer("web-0", status, "no answer")
    assert harness.notes("Evicted") == []
    harness.now += 3
    harness.lose("Pod", "web-0")
    gone_at = harness.now
    (record,) = (one for one in harness.said if isinstance(one, RecordPodEvent) and one.turn is not None)
    assert record.reason == "Evicted"
    harness.now += 1
    harness.put(keeping("web-1", "c"))
    harness.look()
    assert harness.after(GRACE) == []
    assert harness.after(gone_at + 299 - harness.now) == []
    assert harness.after(1) == ["web-1"]


NOT_NVME = '{"nodeSelectorTerms":[{"matchExpressions":[{"key":"disk","operator":"NotIn","values":["nvme"]}]}]}'


def test_the_room_of_a_pod_that_was_tried_is_nobody_elses(harness: Harness) -> None:
    """While a pod is tried it is left out of its node; what is kept of the node does not stay so."""
    harness.put(*(disk(name, cpu="1") for name in "abc"))
    harness.put(keeping("web", "a", cpu="1"), keeping("full", "b", None, cpu="1"))
    harness.put(keeping("job", "c", NOT_NVME, cpu="1"))
    harness.look()
    for node in (disk("a", "hdd", cpu="1"), disk("c", "nvme", cpu="1")):
        harness.put(node)
        harness.look()
        assert [harness.after(60 * GRACE) for _ in range(6)] == [[]] * 6


@pytest.mark.parametrize("selector", [{}, {"matchLabels": {"app": "web"}}], ids=["all pods", "some"])
def test_a_pod_does_not_count_beside_itself(harness: Harness, selector: Object) -> None:
    """A pod that is spread evenly finds another node: that it is taken away leaves no domain with less than nothing."""
    constraint = {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule"}
    web = keeping("web", "a", meta={"labels": {"app": "web"}})
    web["spec"]["topologySpreadConstraints"] = [constraint | {"labelSelector": selector}]
    harness.put(web)
    harness.look()
    harness.put(disk("a", "hdd"))
    harness.look()
    assert harness.after(GRACE) == ["web"]


def test_a_promise_that_breaks_again_while_the_api_is_asked(harness: Harness) -> None:
    """The pod is not asked for a second time before the first answer is there."""
    evicted(harness, "web")
    harness.put(disk("a", "ssd"))
    harness.look()
    harness.put(disk("a", "hdd"))
    harness.look()
    assert harness.after(GRACE) == []
    harness.answer("web", 429)
    assert harness.after(GRACE) == ["web"]


def test_a_pod_that_goes_much_later_was_not_evicted(harness: Harness) -> None:
    """Once no request can be under way any more, whoever deletes the pod is not taken for the evictor."""
    harness.put(disk("c", "hdd"))
    evicted(harness, "web-0")
    harness.answer("web-0", 0, "no answer")
    harness.put(keeping("web-0", "a", "false"))
    harness.after(301)
    harness.lose("Pod", "web-0")
    assert harness.notes("Evicted") == []
    harness.now += 1
    harness.put(keeping("web-1", "c"))
    harness.look()
    assert harness.after(GRACE) == ["web-1"]


def test_a_refused_eviction_is_none(harness: Harness) -> None:
    """A pod that the API did not let go, and that somebody else deletes, spares nobody."""
    harness.put(disk("c", "hdd"))
    evicted(harness, "web-0")
    harness.answer("web-0", 429, BUDGET, budget=True)
    harness.lose("Pod", "web-0")
    harness.now += 1
    harness.put(keeping("web-1", "c"))
    harness.look()
    assert harness.after(GRACE) == ["web-1"]


def test_breaker_says_how_many(harness: Harness) -> None:
    """The count is told again when it changes, at most every ten seconds; the pods that it holds are told of."""
    harness = Harness(changed_share=0.125)
    nodes = [f"n{i}" for i in range(8)]
    harness.put(*map(disk, nodes), *(keeping(f"p-{name}", name) for name in nodes))
    harness.look()
    for name in nodes[:5]:
        harness.put(disk(name, "hdd"))
        harness.after(0.5)
    assert harness.notes("EvictionBreakerOpen")[0].startswith("2 of 8 nodes break promises at once, 1 may")
    assert harness.evictor.next_look(harness.now) == 1001.0 + 10
    harness.after(10)
    assert [note[:6] for note in harness.notes("EvictionBreakerOpen")] == ["2 of 8", "5 of 8"]
    for _ in range(4):
        assert harness.after(GRACE) == []
    assert len(harness.notes("EvictionBreakerOpen")) == 2
    told = [one for one in harness.said if isinstance(one, RecordPodEvent)]
    assert sorted(one.pod.name for one in told) == [f"p-{name}" for name in nodes[:5]]
    assert {one.reason for one in told} == {"PromiseBroken"}
    assert all("it stays for now: the breaker is open" in one.note for one in told)
    harness.put(*(disk(name) for name in nodes[:4]))
    harness.after(0)
    assert harness.breaker()[-1] == "EvictionBreakerClosed"
    assert harness.after(GRACE) == ["p-n4"]


def test_flapping_labels_are_told_at_a_bounded_rate() -> None:
    """Nodes that come and go while the breaker is open: one Event in ten seconds."""
    harness = Harness(changed_share=0.2)
    nodes = [f"n{i}" for i in range(10)]
    harness.put(*map(disk, nodes), *(keeping(f"p-{name}", name) for name in nodes))
    harness.look()
    harness.put(*(disk(name, "hdd") for name in nodes[:4]))
    for turn in range(100):
        harness.put(*(disk(name, "hdd" if turn % 2 else "ssd") for name in nodes[4:]))
        harness.after(1)
    assert 5 <= len(harness.notes("EvictionBreakerOpen")) <= 11
