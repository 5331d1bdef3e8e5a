"""What kube-scheduler does with pod groups, asked of its own Scheduler; and that the judge sees what differs."""

from __future__ import annotations

import pytest

from tests.differential.client import Oracle
from tests.differential.generate.dice import Object
from tests.differential.generate.groups import FAMILIES, OPTIONS, case, configuration, put
from tests.differential.groups import PER_SEED, Verdict, differing, judge, judged, short
from tests.differential.groups_here import answer

NO_VICTIMS = "pod group preemption: No preemption victims found for incoming preemptor"


def node(number: int, cpu: str = "1") -> Object:
    amounts = {"cpu": cpu, "memory": "8Gi", "pods": "10"}
    meta = {"name": f"n{number}", "uid": f"n{number}", "labels": {"rack": f"r{number % 2}"}}
    status = {"allocatable": amounts, "capacity": amounts}
    return put({"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": status})


def member(number: int, group: str = "g", cpu: str = "600m") -> Object:
    container = {"name": "c", "image": "i:1", "imagePullPolicy": "Never", "resources": {"requests": {"cpu": cpu}}}
    spec = {"schedulerName": "default-scheduler", "priority": 0, "containers": [container]}
    spec["schedulingGroup"] = {"podGroupName": group}
    meta = {"name": f"p{number}", "namespace": "default", "uid": f"p{number}"}
    return put({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})


def group(name: str = "g", needed: int | None = None, **spec: object) -> Object:
    policy = {"basic": {}} if needed is None else {"gang": {"minCount": needed}}
    meta = {"name": name, "namespace": "default", "uid": f"uid-{name}", "generation": 1}
    api = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup"}
    return put({**api, "metadata": meta, "spec": {"priority": 0, "schedulingPolicy": policy, **spec}})


def asked(*steps: list[Object]) -> Object:
    return {"id": "c", "config": configuration("gangs"), "steps": list(steps)}


def wanted(oracle: Oracle, *steps: list[Object], options: tuple[str, ...] = ()) -> list[Object]:
    (answered,) = oracle.groups([asked(*steps)], *options)
    assert "error" not in answered, answered
    found: list[Object] = answered["want"]
    return found


def test_a_gang_that_fits_in_part_binds_nothing_until_there_is_room(oracle: Oracle) -> None:
    before, after = wanted(oracle, [node(0), node(1), group(needed=3), *map(member, range(3))], [node(2)])
    text = f"minCount (3) cannot be satisfied: 2 scheduled, 0 remaining, {NO_VICTIMS}"
    assert before["bound"] == {}
    assert before["groups"] == {"g": ["False", "Unschedulable", text]}
    assert before["pods"]["p0"][:2] == ["Unschedulable", f"pod group is unschedulable, {text}"]
    assert before["pods"]["p2"][:2] == ["Unschedulable", "0/2 nodes are available: 2 Insufficient cpu."]
    assert after["bound"] == {"p0": "n2", "p1": "n1", "p2": "n0"}
    assert after["groups"] == {"g": ["True", "Scheduled", ""]}


def test_a_gang_that_reaches_its_minimum_is_bound_in_part(oracle: Oracle) -> None:
    (found,) = wanted(oracle, [node(0), node(1), group(needed=2), *map(member, range(3))])
    assert found["bound"] == {"p0": "n1", "p1": "n0"}
    assert found["groups"] == {"g": ["True", "Scheduled", ""]}
    assert found["pods"]["p2"][:2] == ["Unschedulable", "0/2 nodes are available: 2 Insufficient cpu."]


def test_a_gang_with_a_member_missing_has_no_condition(oracle: Oracle) -> None:
    (found,) = wanted(oracle, [node(0), group(needed=2), member(0)])
    assert (found["bound"], found["pods"], found["groups"]) == ({}, {}, {})


def test_members_that_disagree_are_an_error(oracle: Oracle) -> None:
    urgent = member(1)
    urgent["put"]["spec"]["priority"] = 7
    (found,) = wanted(oracle, [node(0), node(1), group(needed=2), member(0), urgent])
    text = "all pods in a single pod group should have the same priority as the pod group's priority, got 7 and 0"
    assert found["groups"] == {"g": ["False", "SchedulerError", text]}
    said = {name: tuple(words[:2]) for name, words in found["pods"].items()}
    assert said == dict.fromkeys(("p0", "p1"), ("SchedulerError", text))


def test_a_group_is_tried_again_after_its_backoff_without_any_event(oracle: Oracle) -> None:
    """The minimum is lowered: the next attempt goes by it."""
    lower = group(needed=2)
    lower["put"]["metadata"]["generation"] = 2
    before, after = wanted(oracle, [node(0), node(1), group(needed=3), *map(member, range(3))], [lower])
    assert before["bound"] == {}
    assert len(after["bound"]) == 2


def test_a_topology_constraint_keeps_a_gang_in_one_domain(oracle: Oracle) -> None:
    """Three nodes have room, but no two of them are in one rack with a third."""
    constraint: Object = {"schedulingConstraints": {"topology": [{"key": "rack"}]}}
    nodes = [node(0), node(1), node(2)]
    inside, outside = (
        wanted(
            oracle, [*nodes, group(needed=needed, **constraint), *map(member, range(needed))], options=("-topology",)
        )[0]
        for needed in (2, 3)
    )
    assert inside["bound"] == {"p0": "n2", "p1": "n0"}
    assert outside["bound"] == {}
    text = "pod group is unschedulable, 0/2 placements are available, first placement status: minCount (3) cannot be "
    assert outside["groups"]["g"][2].startswith(text)


@pytest.mark.parametrize(
    ("family", "seeds"),
    [
        ("gangs", range(6)),
        ("mixed", range(3, 6)),
        ("preempting", range(4)),
        ("evicting", range(6)),
        ("extended", range(4)),
        ("topology", range(4)),
        ("devices", range(4)),
    ],
)
def test_both_do_the_same(oracle: Oracle, family: str, seeds: range) -> None:
    """Outcome, messages and conditions, of cases that have differed by most of what can differ."""
    cases = [case(family, seed, number) for seed in seeds for number in range(PER_SEED)]
    verdicts = judged(oracle, cases, *OPTIONS.get(family, ()))
    assert [line for verdict in verdicts for line in verdict.lines] == []
    assert sum(verdict.restless or verdict.varied for verdict in verdicts) <= len(verdicts) // 10


@pytest.mark.parametrize(
    "name", ["preempting-104-5", *(f"evicting-{which}" for which in ("119-1", "130-1", "135-5", "212-1", "246-4"))]
)
def test_nodes_that_are_kept_for_a_group_that_is_tried(oracle: Oracle, name: str) -> None:
    """An empty pod stands in for each of its pods; a gang that can't reach its minimum gives them up (decision 26)."""
    family, seed, number = name.split("-")
    (verdict,) = judged(oracle, [case(family, int(seed), int(number))])
    assert verdict.lines == []


def test_a_pod_that_an_extender_has_refused_is_tried_when_a_node_comes(oracle: Oracle) -> None:
    """kube-scheduler has such pods tried again only if its frameworks have known of the extender from the start."""
    plain = member(0)
    del plain["put"]["spec"]["schedulingGroup"]
    rules = {"weight": 1, "refuses": {"p0": ["n0"]}, "hopeless": {}, "ranks": {"p0": {"n0": 0, "n1": 0}}, "fails": []}
    (found,) = oracle.groups([asked([node(0), plain], [node(1)]) | {"extender": rules}])
    assert [step["bound"] for step in found["want"]] == [{}, {"p0": "n1"}]


@pytest.mark.parametrize("which", ["838-6", "832-1", "836-0", "875-0", "876-1", "925-0", "1025-4", "1068-2"])
def test_pods_that_an_extender_has_refused(oracle: Oracle, which: str) -> None:
    """Any event wakes them. In 875 and 876, a node on which nobody is in the way goes on being kept for such a pod; in
    1068, it is given up since the extender fails; in 925 and 1025, whoever has given it up is tried at once."""
    seed, number = which.split("-")
    assert judged(oracle, [case("extended", int(seed), int(number))]) == [Verdict([])]


def test_kube_scheduler_tries_refused_pods_whenever_something_is_written_of_a_group(oracle: Oracle) -> None:
    """p21 is tried after a condition of g was written, for nothing, and so waits out a backoff when h starts. Here it
    is tried at once then (decision 14)."""
    assert judged(oracle, [case("extended", 820, 4)]) == [Verdict([], restless=True, jumpy=True)]


def test_all_backoffs_are_over_when_the_next_step_comes(oracle: Oracle) -> None:
    """So the pods that it wakes are tried by their priority, also if only pods without a group have failed before."""
    assert judged(oracle, [case("extended", 856, 7)]) == [Verdict([])]


def test_kube_scheduler_spares_the_victim_that_it_saw_first(oracle: Oracle) -> None:
    """Of two equal ones that have not started: so it is left to chance which one goes."""
    one = case("preempting", 338, 1)
    gone = {tuple(found["want"][1]["deleted"]) for found in oracle.groups([one] * 40, "-any-order")}
    assert gone == {("p0",), ("p1",)}
    assert judged(oracle, [one]) == [Verdict([], varied=True)]


def test_the_judge_sees_that_a_pod_was_left_asleep(oracle: Oracle) -> None:
    """Without victims, only its affinity keeps p14 from n2. A pod that it wants comes there, which wakes it here."""
    one = case("evicting", 266, 0)
    assert judged(oracle, [one]) == [Verdict([], drowsy=True)]


@pytest.mark.parametrize(("seed", "number"), [(661, 3), (776, 4)])
def test_kube_scheduler_leaves_pods_asleep_that_only_amounts_rejected(oracle: Oracle, seed: int, number: int) -> None:
    """In 661, a node that was kept for another pod rejected the pod by its amounts first, so that the affinity which
    rejected it there, too, is not what it waits for. In 776, a node has room once the pod for which it was kept goes
    to another one. It does here; kube-scheduler does not look again for five minutes."""
    assert judged(oracle, [case("evicting", seed, number)]) == [Verdict([], drowsy=True)]


def test_the_judge_sees_that_a_victim_goes_which_repels_pods(oracle: Oracle) -> None:
    """Only if no other one does (decision 26)."""
    one = case("preempting", 411, 1)
    assert judged(oracle, [one]) == [Verdict([], repelled=True)]
    (answered,) = oracle.groups([one])
    answered["want"][1]["deleted"].remove("p1")
    assert judge(one, answered).lines != []


@pytest.mark.parametrize("family", FAMILIES)
def test_a_case_is_its_name(family: str) -> None:
    assert case(family, 1, 2) == case(family, 1, 2)
    assert case(family, 1, 2)["steps"] != case(family, 1, 3)["steps"]


def test_the_judge_sees_what_differs() -> None:
    """Pods that are bound on both sides need not have been told the same before."""
    said = {"bound": {"p0": "n0"}, "pods": {"p0": ["Unschedulable", "once"]}, "groups": {}, "deleted": []}
    told = {"p0"}
    assert differing(said, {**said, "pods": {}}, told) == []
    assert len(differing(said, {**said, "bound": {}}, told)) == 1
    assert len(differing(said, {**said, "groups": {"g": ["True", "Scheduled", ""]}}, told)) == 1
    assert len(differing(said, {**said, "deleted": ["p1"]}, told)) == 1
    waiting = {**said, "bound": {}}
    other = {**waiting, "pods": {"p0": ["Unschedulable", "another"]}}
    assert len(differing(waiting, other, told)) == 1
    assert differing(waiting, other, set()) == []
    assert judge(asked(), {"id": "c", "error": "panic"}) == Verdict(["c: the oracle: panic"])


def test_the_judge_sees_that_groups_were_tried_again_for_nothing(oracle: Oracle) -> None:
    """g failed first, and again after its backoff. So p9, that failed in between, comes first when a node comes."""
    plain = member(9)
    del plain["put"]["spec"]["schedulingGroup"]
    one = asked([node(0, "500m"), group(needed=1), member(0), plain], [node(1, "700m")])
    (answered,) = oracle.groups([one])
    (verdict,) = judged(oracle, [one])
    assert answered["want"][1]["bound"] == {"p9": "n1"}
    assert answer(one)[1]["bound"] == {"p0": "n1"}
    assert verdict == Verdict([], restless=True)
    answered["want"][1]["bound"] = {"p9": "n0"}
    assert judge(one, answered).lines != []


def test_the_judge_knows_when_kube_schedulers_pods_ran_into_each_other() -> None:
    """Only where something differs, and only if they did."""
    one = asked([node(0), group(needed=1), member(0)])
    (same,) = answer(one)
    other = {**same, "bound": {}}
    assert judge(one, {"want": [{**same, "conflicts": 1}]}) == Verdict([])
    assert judge(one, {"want": [{**other, "conflicts": 1}]}) == Verdict([], conflicted=True)
    assert judge(one, {"want": [{**other, "conflicts": 0}]}).lines != []


def test_gangs_that_are_short_of_pods_are_left_apart() -> None:
    """What is said of them is left apart; which pods are bound is not."""
    gone = {"drop": member(0)["put"]}
    one = asked([group(needed=2), member(0), member(1), member(2, "h"), group("h", needed=1)], [gone])
    assert list(short(one)) == [set(), {"g", "p1"}]
    said = {"bound": {}, "pods": {"p1": ["Unschedulable", "a"]}, "groups": {"g": ["False", "", "a"]}, "deleted": []}
    other = {**said, "pods": {"p1": ["Unschedulable", "b"]}, "groups": {"g": ["False", "", "b"]}}
    assert len(differing(said, other, {"p1"})) == 2
    assert differing(said, other, {"p1"}, {"g", "p1"}) == []
    assert len(differing(said, {**other, "bound": {"p1": "n0"}}, {"p1"}, {"g", "p1"})) == 1


def test_plain_pods_are_scheduled_alike(oracle: Oracle) -> None:
    """Without groups, both whole schedulers bind the same: the driver itself adds no difference."""
    cases = []
    for number in range(12):
        one = case("gangs", 1, number)
        for step in one["steps"]:
            for change in step:
                (document,) = change.values()
                document["spec"].pop("schedulingGroup", None)
        cases.append(one)
    assert [verdict.lines for verdict in judged(oracle, cases)] == [[]] * 12


def repelling(number: int, on: str) -> Object:
    """A placed pod of low priority that wants no pod of group g beside it."""
    made = member(number, "none", cpu="100m")
    spec = made["put"]["spec"]
    del spec["schedulingGroup"]
    term = {"labelSelector": {"matchLabels": {"app": "m"}}, "topologyKey": "rack"}
    spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    spec["priority"], spec["nodeName"] = -5, on
    return made


def test_kube_scheduler_forgets_whom_a_victim_repels(oracle: Oracle) -> None:
    """So it spares the victim, and the group waits for ever. Here the victim goes (decision 26)."""
    one = member(0)
    one["put"]["metadata"]["labels"] = {"app": "m"}
    steps = [[node(0), repelling(1, "n0"), group(needed=1), one]]
    (found,) = wanted(oracle, *steps)
    assert (found["bound"], found["deleted"]) == ({}, [])
    assert found["groups"]["g"][2].endswith("found a placement for podgroup, preempting 0 victims")
    (ours,) = answer({"id": "c", "config": configuration("gangs"), "steps": steps})
    assert (ours["bound"], ours["deleted"]) == ({"p0": "n0"}, ["p1"])
