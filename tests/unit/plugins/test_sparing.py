"""Victims that can stay beside a pod group: which, in which order they are tried, and what each costs."""

from collections.abc import Iterator, Sequence
from random import Random

import msgspec
import pytest

from podberth.cache.cluster import Cluster
from podberth.cache.validate import validate
from podberth.framework.runtime import Framework
from podberth.model.pod import Pod
from podberth.plugins.default_preemption import sparing
from podberth.plugins.default_preemption.sparing import Sparing, Steps, Victim, gathered
from podberth.plugins.default_preemption.victims import Budgets
from tests.builders import node, pod
from tests.unit.plugins.preempting import a_budget, a_framework, a_pod, decoder
from tests.unit.plugins.test_dry_runs import _unsure as unsure

ROWS = 100
"""Nodes of four cores, of which every two are a rack."""
EVERYWHERE = 50 + ROWS // 50
GROUP = (("g0", 1, 0), ("g1", 1, 0), ("g2", 1, 1))
"""Pods of the group: their cores and rows."""


def nodes() -> Cluster:
    cluster = Cluster()
    for i in range(ROWS):
        made = node(f"n{i}", cpu="4", pods="9", labels={"rack": f"r{i // 2}"})
        cluster.put_node(decoder.node(msgspec.json.encode(made)))
    return cluster


def repelled(name: str, cpu: int) -> Pod:
    """A pod that may be in no rack with one of app 1."""
    made = pod(name, cpu=f"{cpu}", labels={"app": "g"})
    term = {"labelSelector": {"matchLabels": {"app": "a1"}}, "topologyKey": "rack"}
    made["spec"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return decoder.pod(msgspec.json.encode(made))


def victim(name: str, priority: int, cpu: int, *rows: int, app: int = 0) -> Victim:
    """A pod on a row, or a group with a pod on each of some."""
    return Victim([(a_pod(f"{name}{row}", priority, cpu, app), row) for row in rows], priority, 0, "")


def tried(
    victims: Sequence[Victim],
    group: Sequence[tuple[Pod, int]] | None = None,
    framework: Framework | None = None,
    cluster: Cluster | None = None,
    real: Cluster | None = None,
) -> tuple[list[str], list[int]]:
    """Who has to go, by the name of its first pod, and the steps of each turn."""
    cluster, framework = nodes() if cluster is None else cluster, framework or a_framework()
    assigned = group or [(a_pod(name, 5, cpu), row) for name, cpu, row in GROUP]
    search = Sparing(cluster, framework.filters, assigned, [one for each in victims for one, _ in each.pods])
    going, steps = taken(search.going(list(victims), Budgets(), nodes() if real is None else real))
    assert validate(cluster) == []
    return [one.pods[0][0].name for one in going], steps


def taken(search: Steps[Iterator[Victim]] | Steps[list[Victim]]) -> tuple[list[Victim], list[int]]:
    """What a search returns, and the steps of each turn."""
    steps = []
    try:
        while True:
            steps.append(next(search))
    except StopIteration as end:
        return list(end.value), steps


def four() -> list[Victim]:
    """n0 has two cores left beside the group, and n1 three; n5 has nothing to do with it."""
    return [victim("d", 2, 4, 5), victim("a", 1, 2, 0), victim("b", 0, 2, 0), victim("c", 0, 3, 1)]


def asked(pods: int, victims: int = 1) -> int:
    """Steps of asking the filters about so many pods of the group, and of placing them beside so many of a victim."""
    return pods * EVERYWHERE + 10 * (pods + victims)


@pytest.mark.parametrize(
    ("asks", "steps"), [(False, [3 * 2]), (True, [asked(2), asked(1), asked(1)])], ids=["by sums", "by filters"]
)
def test_as_many_stay_as_there_is_room_for(asks: bool, steps: list[int]) -> None:
    """The most important first. Filters are asked about the group's pods there, up to the first that is too much."""
    framework = unsure(a_framework()) if asks else a_framework()
    assert tried(four(), framework=framework) == (["b0"], steps)


@pytest.mark.parametrize(
    ("cpu", "asks", "going", "steps"),
    [
        (2, False, ["c1"], [6 + 2]),
        (3, False, ["w0"], [6 + 2]),
        (2, True, ["c1"], [asked(3, 3), asked(1)]),
        (3, True, ["w0"], [asked(2, 3), asked(1)]),
    ],
)
def test_a_group_stays_as_a_whole_or_not_at_all(cpu: int, asks: bool, going: list[str], steps: list[int]) -> None:
    """Where it has to go it takes no room anywhere."""
    framework = unsure(a_framework()) if asks else a_framework()
    assert tried([victim("w", 1, cpu, 0, 1, 5), victim("c", 0, 3, 1)], framework=framework) == (going, steps)


def test_whom_a_budget_protects_is_tried_first() -> None:
    """Whoever is more important has drawn on it, though it is on another node: so both on n0 are protected."""
    real, victims = nodes(), four()
    real.put_selecting(a_budget("b", 1, {"matchLabels": {"app": "a0"}}))
    assert tried(victims, real=real) == (["b0"], [3 * 2])
    assert [one.violations for one in victims] == [0, 1, 1, 1]
    real.put_selecting(a_budget("b", 3, {"matchLabels": {"app": "a0"}}))
    assert tried(four()[:3], real=real) == (["b0"], [2 * 2])
    real.put_selecting(a_budget("b", 2, {"matchLabels": {"app": "a0"}}))
    assert tried(four()[:3], real=real) == (["a0"], [2 * 2])


@pytest.mark.parametrize("budget", [False, True])
def test_who_may_have_to_go(budget: bool) -> None:
    """The most important first. Those on other nodes count only if their budgets may be drawn on."""
    cluster, real, framework = nodes(), nodes(), a_framework()
    if budget:
        real.put_selecting(a_budget("b", 1, {"matchLabels": {"app": "a0"}}))
    assigned = [(a_pod(name, 5, cpu), row) for name, cpu, row in GROUP]
    left_out = {5: [a_pod("d", 2, 1)], 0: [a_pod("b", 0, 1), a_pod("a", 1, 1)], 1: [a_pod("c", 0, 1)]}
    search = Sparing(cluster, framework.filters, assigned, [left_out[5][0]])
    victims, _ = taken(search.victims(left_out, Budgets(), real))
    names = [one.pods[0][0].name for one in victims]
    assert names == (["d", "a", "b", "c"] if budget else ["a", "b", "c"])


@pytest.mark.parametrize("seed", range(5))
def test_many_victims_are_sorted_in_parts(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """By priority, then the longest running, then as they were gathered, however large the parts are."""
    monkeypatch.setattr(sparing, "_GATHERED", 3)
    monkeypatch.setattr(sparing, "_SORTED", 2)
    dice, left_out = Random(seed), {row: [a_pod(f"p{row}-{i}", 0, 1) for i in range(3)] for row in range(9)}
    pods = [one for there in left_out.values() for one in there]
    for one in pods:
        one.priority, one.started = dice.randrange(3), dice.choice((None, *(f"2026-01-0{day}" for day in range(1, 6))))
    victims, steps = taken(gathered(left_out, nodes().pod_groups))
    expected = sorted(pods, key=lambda one: (-one.priority, one.started is None, one.started or ""))
    assert [one.pods[0][0].name for one in victims] == [one.name for one in expected]
    assert max(steps) <= 3
    assert sum(step == 2 for step in steps) == len(pods) // 2 + 1


def test_a_budget_goes_while_victims_are_held_against_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever comes later draws on nothing."""
    monkeypatch.setattr(sparing, "_HELD", 1)
    real, victims = nodes(), four()
    real.put_selecting(a_budget("b", 0, {"matchLabels": {"app": "a0"}}))
    assigned = [(a_pod(name, 5, cpu), row) for name, cpu, row in GROUP]
    cluster = nodes()
    search = Sparing(cluster, a_framework().filters, assigned, []).going(list(victims), Budgets(), real)
    next(search)
    real.drop_selecting("PodDisruptionBudget", "default", "b")
    assert [one.pods[0][0].name for one in taken(search)[0]] == ["b0"]
    assert [one.violations for one in victims] == [1, 0, 0, 0]


def test_a_victim_on_another_node_matters_to_a_pod_that_looks_there() -> None:
    """It is in the rack of the group's last pod, which must not be where such a pod is."""
    group = [(a_pod("g0", 5, 1), 0), (repelled("g1", 1), 4)]
    victims = [victim("d", 2, 1, 5, app=1), victim("e", 1, 1, 7, app=1)]
    assert tried(victims, group) == (["d5"], [asked(2), asked(2)])
    assert tried([victim("d", 2, 1, 5)], group) == ([], [asked(2)])


@pytest.mark.parametrize(
    ("name", "on", "going", "steps"),
    [
        ("other", "n9", ["b0"], [3 * 2]),
        ("other", "n0", ["a0", "b0"], [asked(2), asked(2), asked(1)]),
        ("g0", "n0", ["b0"], [asked(3), asked(3), asked(1), asked(3)]),
    ],
    ids=["elsewhere", "where the group is", "a pod of the group"],
)
def test_pods_that_are_nominated(name: str, on: str, going: list[str], steps: list[int]) -> None:
    """Room is kept for those on the nodes of the group. One of the group itself has the filters asked of everything."""
    cluster = nodes()
    cluster.nominations.put(a_pod(name, 9 if name == "other" else 5, 1), on)
    assert tried(four(), cluster=cluster) == (going, steps)
