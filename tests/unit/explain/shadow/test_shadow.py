"""What another scheduler decided, decided again: each answer is that of the profile in the state of that moment."""

from collections.abc import Iterable
from copy import deepcopy
from random import Random
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from podberth.cache.validate import validate
from podberth.explain.objects.world import World
from podberth.explain.shadow import answer as said
from podberth.explain.shadow.answer import Compared
from podberth.explain.shadow.shadow import SETTLE_SECONDS, Change, Shadow
from podberth.framework.config import decode
from podberth.framework.profiles import build
from podberth.model.pod import Pod
from podberth.plugins.registry import IN_TREE
from tests.builders import Object, configuration, namespace, node, pod, profile
from tests.storage import claim, using
from tests.unit.explain.story import framework

OTHER = "default-scheduler"


class Stream:
    """A cluster whose changes go to a shadow, one a tenth of a second after the other."""

    def __init__(self, objects: Iterable[Object] = (), shadow: Shadow | None = None) -> None:
        self.shadow = shadow or Shadow(framework(), OTHER)
        self.now = 0.0
        self.changes: list[Change] = []
        self.answers: list[Compared] = []
        for each in objects:
            self.put(each)
        self.see(Change(synced=True))

    def see(self, change: Change) -> list[Compared]:
        """One more change."""
        change.at = self.now = round(self.now + 0.1, 3)
        self.changes.append(change)
        found = self.shadow.see(change)
        self.answers += found
        return found

    def put(self, made: Object, *, listed: bool = False) -> list[Compared]:
        """An object came or changed."""
        return self.see(Change(kind=made["kind"], object=Raw(msgspec.json.encode(made)), listed=listed))

    def bind(self, made: Object, where: str, *, listed: bool = False) -> list[Compared]:
        """A waiting pod is bound."""
        return self.put(bound(made, where), listed=listed)

    def gone(self, made: Object) -> list[Compared]:
        """An object is deleted."""
        metadata = made["metadata"]
        return self.see(
            Change(kind=made["kind"], gone=(metadata.get("namespace", ""), metadata["name"], metadata["uid"]))
        )

    def end(self) -> list[Compared]:
        """All answers."""
        self.answers += self.shadow.finish()
        validate(self.shadow.world.cluster)
        return self.answers


def bound(made: Object, where: str) -> Object:
    """The pod on a node."""
    return {**deepcopy(made), "spec": {**made["spec"], "nodeName": where}}


def theirs(name: str, cpu: str = "1", **more: Any) -> Object:
    """A pod of the other scheduler."""
    return pod(name, cpu, "1Gi", scheduler=OTHER, **more)


TWO = [namespace("default"), node("small", "4"), node("large", "16")]


def test_the_same_node() -> None:
    """The only best node."""
    stream = Stream(TWO)
    stream.put(theirs("a"))
    [found] = stream.bind(theirs("a"), "large")
    assert (found.verdict, found.node, found.best, found.feasible) == (said.SAME, "large", "large", 2)
    assert found.points is not None and (found.state, found.newer, found.lead) == (None, 0, 0)


def test_a_tie() -> None:
    """Two equal nodes: one of them is what the seed takes, the other a tie with it."""
    verdicts = {}
    for where in ("n1", "n2"):
        stream = Stream([node("n1"), node("n2")])
        stream.put(theirs("a"))
        [found] = stream.bind(theirs("a"), where)
        verdicts[where] = found.verdict
        assert found.best in ("n1", "n2")
    assert sorted(verdicts.values()) == [said.SAME, said.TIE]


def test_a_better_node_has_its_points_plugin_by_plugin() -> None:
    """What the plugins gave both nodes adds up to the difference."""
    stream = Stream(TWO)
    stream.put(theirs("a"))
    [found] = stream.bind(theirs("a"), "small")
    assert (found.verdict, found.best) == (said.BETTER, "large")
    assert found.lead == sum(each.ours - each.theirs for each in found.scores) > 0
    assert "NodeResourcesFit" in {each.plugin for each in found.scores}
    summary = stream.shadow.summary()
    assert (summary.better, summary.points, summary.most) == (1, found.lead, found.lead)
    assert sum(summary.plugins.values()) == found.lead


def test_a_node_that_would_be_refused() -> None:
    """By which plugin, with numbers, and where the pod would go instead."""
    stream = Stream(TWO)
    stream.put(theirs("a", "6"))
    [found] = stream.bind(theirs("a", "6"), "small")
    assert (found.verdict, found.plugin, found.best) == (said.REFUSED, "NodeResourcesFit", "large")
    assert found.reason == "needs 6 cpu, the whole node has 4 (0 requested)"
    assert stream.shadow.summary().refusals == {"NodeResourcesFit": 1}


def test_a_pod_that_would_wait() -> None:
    """No node takes it: kube-scheduler's sentence is there too."""
    stream = Stream([node("small", "4")])
    stream.put(theirs("a", "6"))
    [found] = stream.bind(theirs("a", "6"), "small")
    assert (found.verdict, found.best, found.plugin) == (said.NOWHERE, None, "NodeResourcesFit")
    assert found.message == "0/1 nodes are available: 1 Insufficient cpu."


def test_a_rejection_before_any_node_is_looked_at() -> None:
    """PreFilter's reason."""
    made = using(theirs("a"), "nothing")
    stream = Stream(TWO)
    stream.put(made)
    [found] = stream.bind(made, "small")
    assert (found.verdict, found.plugin) == (said.NOWHERE, "VolumeRestrictions")
    assert found.reason is not None and "nothing" in found.reason


def test_who_is_not_compared() -> None:
    """Pods of others, of groups, that came with a node, whose node is unknown, and whose Binding was in a list."""
    stream = Stream(TWO)
    assert stream.put(pod("mine", "1", on="small")) == []
    mirror = theirs("static", on="small")
    mirror["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    assert stream.put(mirror) == []
    grouped = theirs("grouped")
    grouped["spec"]["schedulingGroup"] = {"podGroupName": "train"}
    found = stream.put(theirs("at-once", on="small"))
    for made, where, listed in (
        (grouped, "small", False),
        (theirs("far"), "moon", False),
        (theirs("b"), "large", True),
    ):
        stream.put(made)
        found += stream.bind(made, where, listed=listed)
    assert [each.verdict for each in found] == [said.SKIPPED] * 4
    assert [each.reason for each in found] == [said.UNSEEN, said.GROUP, said.NO_NODE, said.GAP]
    summary = stream.shadow.summary()
    assert (summary.pods, sum(summary.skipped.values())) == (0, 4)


def test_claims_that_name_a_place_by_then() -> None:
    """The volume that was chosen for a pod would pin Berth to its node, and that says nothing."""
    made = using(theirs("a"), "data")
    stream = Stream([*TWO, claim("data")])
    stream.put(made)
    stream.put(claim("data", selected="small"))
    [found] = stream.bind(made, "small")
    assert (found.verdict, found.reason) == (said.SKIPPED, said.CLAIMS)


def test_a_pod_is_left_out_of_the_state_that_it_is_decided_in() -> None:
    """It would not fit beside itself; the next one does not fit beside it."""
    stream = Stream([node("n", "4")])
    for name in ("a", "b"):
        stream.put(theirs(name, "3"))
        stream.bind(theirs(name, "3"), "n")
    assert [each.verdict for each in stream.end()] == [said.SAME, said.NOWHERE]


def test_a_decision_in_an_older_state() -> None:
    """A Binding of another scheduler came in between: without it, the node is the best one, and that is said."""
    stream = Stream([node("n1", "4"), node("n2", "3")])
    stream.put(theirs("a", "2"))
    stream.put(pod("other", "3", on="n1"))
    [found] = stream.bind(theirs("a", "2"), "n1")
    assert (found.verdict, found.state, found.apart, found.newer) == (said.SAME, said.OLDER, 1, 1)
    assert stream.shadow.summary().other_state == 1


def test_what_came_before_it_waited_is_not_left_out() -> None:
    """No state that the other scheduler can have seen agrees."""
    stream = Stream([node("n1", "4"), node("n2", "3")])
    stream.put(pod("other", "3", on="n1"))
    stream.put(theirs("a", "2"))
    [found] = stream.bind(theirs("a", "2"), "n1")
    assert (found.verdict, found.state, found.newer) == (said.REFUSED, None, 0)


def test_a_pod_was_not_decided_while_it_had_gates() -> None:
    """So what came meanwhile is not left out."""
    stream = Stream([node("n1", "4"), node("n2", "3")])
    stream.put(theirs("a", "2", gates=["wait"]))
    stream.put(pod("other", "3", on="n1"))
    stream.put(theirs("a", "2"))
    [found] = stream.bind(theirs("a", "2"), "n1")
    assert (found.verdict, found.newer) == (said.REFUSED, 0)


def test_a_binding_that_was_overtaken() -> None:
    """a was on its node when b was decided, though a's Binding comes later: the answer waits for it."""
    stream = Stream([node("n1", "5"), node("n2", "4")])
    pinned = theirs("a", "3", select={"kubernetes.io/hostname": "n1"})
    stream.put(pinned)
    stream.put(theirs("b"))
    assert stream.bind(theirs("b"), "n2") == []  # n1 is emptier, as far as it is known
    found = stream.bind(pinned, "n1")
    assert [(each.pod, each.verdict, each.state, each.apart) for each in found] == [
        ("default/b", said.SAME, said.NEWER, 1),
        ("default/a", said.SAME, None, 0),
    ]


def test_what_others_place_ends_no_waiting() -> None:
    """A pod of another scheduler comes between two Bindings of which one overtook the other."""
    stream = Stream([node("n1", "5"), node("n2", "4")])
    pinned = theirs("a", "3", select={"kubernetes.io/hostname": "n1"})
    stream.put(pinned)
    stream.put(theirs("b"))
    stream.bind(theirs("b"), "n2")
    assert stream.put(pod("other", "100m", on="n2")) == []
    found = stream.bind(pinned, "n1")
    assert [(each.pod, each.verdict, each.state, each.apart) for each in found] == [
        ("default/b", said.SAME, said.NEWER, 2),
        ("default/a", said.SAME, None, 0),
    ]


def test_who_came_later_is_not_waited_for() -> None:
    """The pod that is placed next was not there when the other one was decided: the answer stands."""
    stream = Stream([node("n1", "5"), node("n2", "4")])
    stream.put(theirs("waits", "100"))
    stream.put(theirs("b"))
    stream.bind(theirs("b"), "n2")
    pinned = theirs("a", "3", select={"kubernetes.io/hostname": "n1"})
    stream.put(pinned)
    found = stream.bind(pinned, "n1")
    assert [(each.pod, each.verdict) for each in found] == [("default/b", said.BETTER), ("default/a", said.SAME)]


def test_an_answer_does_not_wait_for_ever() -> None:
    """Nothing else comes: after a while it stands."""
    stream = Stream(TWO)
    stream.put(theirs("waits", "100"))
    stream.put(theirs("a"))
    assert stream.bind(theirs("a"), "small") == []
    assert stream.shadow.tick(stream.now + 0.5 * SETTLE_SECONDS) == []
    [found] = stream.shadow.tick(stream.now + 2 * SETTLE_SECONDS)
    assert (found.verdict, found.best) == (said.BETTER, "large")


def test_who_still_waits_at_the_end() -> None:
    """Of those that the other scheduler has refused, who would get a node."""
    refused = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}
    stream = Stream(TWO)
    stream.put(theirs("fits", status=refused))
    stream.put(theirs("huge", "100", status=refused))
    stream.put(theirs("new"))
    waiting = stream.shadow.summary().waiting
    assert (waiting.pods, waiting.looked, waiting.fit) == (2, 2, {"default/fits": "large"})


def test_what_can_not_be_read_is_counted() -> None:
    """The rest goes on."""
    stream = Stream(TWO)
    stream.see(Change(kind="Node", object=Raw(b'{"metadata": {"name": 5}}')))
    stream.put(theirs("a"))
    stream.bind(theirs("a"), "large")
    assert (stream.shadow.summary().unreadable, stream.shadow.summary().same) == (1, 1)


def test_another_configuration_decides_otherwise() -> None:
    """What --config is for: the same changes, and a profile that packs nodes."""
    packing = {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}}
    frameworks = build(decode(configuration(profile("packs", NodeResourcesFit=packing))), IN_TREE)
    objects = [node("empty", "8"), node("half", "8"), pod("there", "4", on="half")]
    found = []
    for one in (framework(), frameworks["packs"]):
        stream = Stream(objects, Shadow(one, OTHER))
        stream.put(theirs("a"))
        found += stream.bind(theirs("a"), "half")
    assert [each.verdict for each in found] == [said.BETTER, said.SAME]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_each_answer_is_that_of_a_cluster_made_anew(seed: int) -> None:
    """Random changes: what is said when a Binding comes is what `decide` says of all objects as they are then."""
    random = Random(seed)
    there: dict[str, Object] = {}
    zones = [node(f"n{i}", str(random.randint(2, 8)), zone=f"z{i % 2}") for i in range(5)]
    stream = Stream([namespace("default"), *zones])
    there |= {each["metadata"]["uid"]: each for each in zones}
    wanted: dict[str, bool] = {}
    for number in range(25):
        waiting = [each for each in there.values() if each["kind"] == "Pod" and "nodeName" not in each["spec"]]
        match random.randrange(5):
            case 0 | 1:
                made = theirs(
                    f"p{number}",
                    f"{random.randint(1, 20) * 100}m",
                    labels={"app": random.choice("ab")},
                    apart=["app=a per host"] if random.random() < 0.3 else [],
                    rather_near=[(10, "app=b per zone")] if random.random() < 0.3 else [],
                )
                there[made["metadata"]["uid"]] = made
                stream.put(made)
            case 2 | 3 if waiting:
                made = random.choice(waiting)
                where = random.choice(zones)["metadata"]["name"]
                best = _best(there, made)
                stream.bind(made, where)
                wanted[f"default/{made['metadata']['name']}"] = where in best
                there[made["metadata"]["uid"]] = bound(made, where)
            case _ if there:
                made = random.choice(list(there.values()))
                if made["kind"] == "Pod":
                    del there[made["metadata"]["uid"]]
                    stream.gone(made)
    answers = stream.end()
    assert sorted(each.pod for each in answers) == sorted(wanted), "each pod is told once"
    for each in answers:
        assert (each.state is None and each.verdict in said.AGREED) == wanted[each.pod], each


def _best(there: dict[str, Object], made: Object) -> set[str]:
    world = World()
    world.add_all([namespace("default"), *there.values()])
    waits = world.waiting[f"default/{made['metadata']['name']}"]
    assert isinstance(waits, Pod)
    decision = framework().decide(waits, world.cluster)
    return {world.cluster.nodes.names[row] or "" for row in decision.best()}


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_whoever_decides_as_berth_does_agrees(seed: int) -> None:
    """Another scheduler decides pod after pod by the same profile; its Bindings overtake each other by one place."""
    random = Random(seed)
    zones = [node(f"n{i}", str(random.randint(4, 12)), zone=f"z{i % 2}") for i in range(4)]
    pods = [theirs(f"p{i}", f"{random.randint(1, 10) * 100}m", labels={"app": random.choice("ab")}) for i in range(12)]
    judge, chosen = World(), list[tuple[Object, str]]()
    judge.add_all([namespace("default"), *zones, *pods])
    profile_of = framework()
    for made in pods:
        waits = judge.waiting[f"default/{made['metadata']['name']}"]
        best = profile_of.decide(waits, judge.cluster).best()
        if len(best):
            where = judge.cluster.nodes.names[random.choice(best.tolist())] or ""
            judge.add_all([bound(made, where)])
            chosen.append((made, where))
    for i in range(0, len(chosen) - 1, 2):
        if random.random() < 0.5:
            chosen[i], chosen[i + 1] = chosen[i + 1], chosen[i]
    stream = Stream([namespace("default"), *zones])
    for made in pods:
        stream.put(made)
    for made, where in chosen:
        stream.bind(made, where)
    found = stream.end()
    assert len(found) == len(chosen)
    assert [each for each in found if each.verdict not in said.AGREED] == []
