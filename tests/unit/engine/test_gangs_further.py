"""Other orders of a gang's pods, after kube-scheduler's own has failed: judged by brute force on small cases."""

from collections.abc import Sequence
from itertools import product
from random import Random

import pytest

from scheduler.engine.budget import Budget
from scheduler.engine.instructions import Bind, Instruction, PreBindWrite, RecordEvent, SetGroupCondition
from scheduler.engine.pod_groups.further import FurtherOrders
from scheduler.engine.pod_groups.results import Further, GroupAttempt, Takes
from scheduler.engine.stimuli import Follows, Gone
from scheduler.framework.config import ConfigError
from scheduler.model.devices import FINALIZER
from scheduler.model.pod_group import NATIVE
from scheduler.state.validate import validate
from tests.builders import configuration, profile
from tests.devices import claim, claiming, device, device_class, request, resource_slice

from .conftest import Harness, node, pod
from .test_gangs import bound, conditions, failures, group, member

NOTE = "kube-scheduler's order of the pods does not fit: order {} (furtherOrders) does"


def further(orders: int, budget: Budget | None = None) -> Harness:
    harness = Harness(configuration(profile(GangScheduling={"furtherOrders": orders})), budget=budget)
    harness.handle(Follows(NATIVE, True))
    return harness


def fill(harness: Harness, nodes: Sequence[int], pods: Sequence[int]) -> None:
    """Nodes and a gang with so many cores each, the pods in this order."""
    harness.put(*(node(f"n{i}", str(cpu)) for i, cpu in enumerate(nodes)), group(min_count=len(pods)))
    harness.put(*(member(f"p{i}", str(cpu)) for i, cpu in enumerate(pods)))


def fits(nodes: Sequence[int], pods: Sequence[int]) -> bool:
    """Brute force: all ways to put all pods on nodes."""
    for where in product(range(len(nodes)), repeat=len(pods)):
        left = list(nodes)
        for at, cpu in zip(where, pods, strict=True):
            left[at] -= cpu
        if min(left) >= 0:
            return True
    return False


def settled(harness: Harness) -> None:
    assert validate(harness.engine.cluster) == []
    assert harness.engine.cluster.devices.in_flight == {}


@pytest.mark.parametrize("orders", [0, 20])
def test_large_ones_first(orders: int) -> None:
    """Two small pods, spread over both nodes, leave no room for a large one."""
    harness = further(orders)
    fill(harness, [4, 4], [2, 2, 4])
    said = harness.cycles()
    if orders:
        assert sorted(bound(said)) == ["p0", "p1", "p2"]
        (message,) = [one.message for one in said if isinstance(one, SetGroupCondition)]
        number = int(message.split(": order ")[1].split(" ")[0])
        assert message == NOTE.format(number)
        (event,) = [one for one in said if isinstance(one, RecordEvent)]
        assert (event.kind, event.reason, event.note) == ("Normal", "FurtherOrder", message)
    else:
        assert bound(said) == []
        assert "other orders" not in conditions(said)[0][2]
    settled(harness)


def test_nothing_is_said_where_the_first_order_fits() -> None:
    harness = further(20)
    fill(harness, [4, 4], [4, 2, 2])
    said = harness.cycles()
    assert len(bound(said)) == 3
    assert conditions(said) == [("True", "Scheduled", "")]
    assert not [one for one in said if isinstance(one, RecordEvent)]


def test_where_no_order_fits_kube_schedulers_words_are_said() -> None:
    """With how many others were tried. All is given back."""
    plain, harness = further(0), further(7)
    for one in (plain, harness):
        fill(one, [4, 4], [2, 2, 5])
    usual, said = plain.cycles(), harness.cycles()
    assert bound(said) == []
    assert failures(said)["p2"] == failures(usual)["p2"] == "0/2 nodes are available: 2 Insufficient cpu."
    (_, reason, message), (_, _, first) = conditions(said)[0], conditions(usual)[0]
    assert reason == "Unschedulable"
    assert message == first.replace(", pod group", ", 7 other orders of its pods do not fit either, pod group")
    assert sorted(failures(said)) == ["p0", "p1", "p2"]
    assert harness.engine.cluster.assumed() == 0
    settled(harness)


def test_of_equal_pods_no_other_order_is_tried() -> None:
    """Each node takes as many of them in any order, and nothing is said of other ones."""
    plain, harness = further(0), further(20)
    for one in (plain, harness):
        fill(one, [4, 3, 2], [2, 2, 2, 2, 2])
    usual, said = plain.cycles(), harness.cycles()
    assert bound(said) == []
    assert conditions(said) == conditions(usual)


def test_orders_in_which_equal_pods_change_places_are_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same kinds of pods one after the other, on nodes that are chosen alike, come to the same."""
    tried: list[tuple[tuple[int, ...], Takes]] = []
    begin = FurtherOrders.begin

    def noted(self: FurtherOrders, attempt: GroupAttempt, orders: Further) -> None:
        begin(self, attempt, orders)
        if not orders.over:
            shapes = tuple(id(member.queued.pod.shape) for member in attempt.members.values())
            tried.append((shapes, orders.takes))

    monkeypatch.setattr(FurtherOrders, "begin", noted)
    harness = further(30)
    fill(harness, [4, 4], [2, 2, 5])
    assert bound(harness.cycles()) == []
    chosen = [one for one in tried if one[1] is not Takes.DRAWN]
    assert len(tried) == 30
    assert len(chosen) == len(set(chosen)) > 3


@pytest.mark.parametrize("seed", range(4))
def test_what_brute_force_finds(seed: int) -> None:
    """Never bound where no way is; found nearly always where there is one, and more often than in one order."""
    dice = Random(seed)
    usual = found = possible = 0
    for _ in range(25):
        nodes = [dice.randint(2, 6) for _ in range(dice.randint(2, 3))]
        pods: list[int] = []
        for size in nodes:  # mostly cases that just fit
            while size > 0:
                pods.append(min(dice.randint(1, 4), size))
                size -= pods[-1]
        pods = dice.sample(pods, min(len(pods), 6))
        if dice.random() < 0.2:
            pods[0] += 1
        harness, plain = further(40), further(0)
        fill(harness, nodes, pods)
        fill(plain, nodes, pods)
        said = bound(harness.cycles())
        assert len(said) in (0, len(pods)), "all or nothing"
        settled(harness)
        possible += fits(nodes, pods)
        found += bool(said)
        usual += bool(bound(plain.cycles()))
        assert not said or fits(nodes, pods), f"{pods} on {nodes}"
    assert found >= usual
    assert found >= 0.95 * possible, f"{found} of {possible}, in one order {usual}"


def sharing(harness: Harness, nodes: Sequence[tuple[int, int, int]], pods: Sequence[int]) -> None:
    """Nodes with (cores, cores that are taken, devices), and a gang with so many cores each that shares one claim."""
    for i, (cpu, taken, devices) in enumerate(nodes):
        there = [device(f"d{number}") for number in range(devices)]
        harness.put(node(f"n{i}", str(cpu)), resource_slice(f"n{i}", *there, node=f"n{i}"))
        if taken:
            harness.put(pod(f"x{i}", str(taken), nodeName=f"n{i}"))
    harness.put(device_class(), claim("shared", meta={"finalizers": [FINALIZER]}), group(min_count=len(pods)))
    harness.put(*(claiming(member(f"p{i}", str(cpu)), "shared") for i, cpu in enumerate(pods)))


def starts(harness: Harness) -> bool:
    """Whether the claim that all share is about to be written, or at once given back."""
    said = harness.cycles()
    settled_or_promised = len(harness.engine.cluster.devices.in_flight)
    written = [one for one in said if isinstance(one, PreBindWrite)]
    assert settled_or_promised == bool(written)
    return bool(written)


def test_a_claim_that_all_share_goes_where_there_is_room_for_all() -> None:
    """n0 is the emptier node, so the first pod goes there; n1 takes all three."""
    for orders in (0, 10):
        harness = further(orders)
        sharing(harness, [(2, 0, 1), (8, 5, 1)], [1, 1, 1])
        assert starts(harness) is bool(orders)


@pytest.mark.parametrize("seed", range(4))
def test_what_brute_force_finds_of_gangs_that_share_a_claim(seed: int) -> None:
    """Some node with a device has to have room for all."""
    dice = Random(seed)
    usual = possible = 0
    for _ in range(20):
        nodes = []
        for _ in range(dice.randint(2, 4)):
            cpu, left = dice.choice([(dice.randint(2, 4), 2), (32, dice.randint(2, 8))])
            nodes.append((cpu, cpu - left, dice.randint(0, 2)))
        pods = [dice.randint(1, 2) for _ in range(dice.randint(2, 4))]
        one_takes_all = any(devices and cpu - taken >= sum(pods) for cpu, taken, devices in nodes)
        harness, plain = further(20), further(0)
        sharing(harness, nodes, pods)
        sharing(plain, nodes, pods)
        assert starts(harness) is one_takes_all, (nodes, pods)
        possible += one_takes_all
        usual += starts(plain)
    assert possible > usual, "else nothing was looked for"


def test_others_are_decided_in_between() -> None:
    """An order is tried in slices, as the first one, and what is held meanwhile is not given to two."""
    harness = further(50, Budget(longest_slice=1))
    fill(harness, [4, 4], [2, 2, 5])
    harness.cycle()
    harness.put(*(pod(f"o{i}", "100m") for i in range(4)))
    said: list[Instruction] = []
    before = []
    while harness.engine.has_work:
        now = harness.cycle()
        before += [one.pod.name for one in now if isinstance(one, Bind)]
        said += now
        if conditions(now):
            break
    assert sorted(before) == ["o0", "o1", "o2", "o3"]
    harness.cycles()
    settled(harness)


def test_it_costs_no_more_than_an_attempt_may() -> None:
    """Orders end when the budget of one attempt is used up; the verdict is that of the first order."""
    harness = further(1_000, Budget(whole=3_000))
    fill(harness, [4, 4], [2, 2, 5])
    said = harness.cycles()
    (_, reason, message) = conditions(said)[0]
    assert reason == "Unschedulable"
    tried = int(message.split(" other orders")[0].rsplit(" ", 1)[1])
    assert 0 < tried < 1_000


def test_a_pod_goes_meanwhile() -> None:
    """The others are tried again from the start."""
    harness = further(50, Budget(longest_slice=1))
    fill(harness, [4, 4], [2, 2, 5])
    for _ in range(6):
        assert harness.cycle() == []
    harness.handle(Gone("Pod", "default", "p2", "p2"))
    harness.put(group(min_count=2))
    said = harness.cycles() + harness.tick(30.0) + harness.cycles()
    assert sorted(bound(said)) == ["p0", "p1"]
    settled(harness)


def test_other_devices() -> None:
    """The first pod takes the only device that the second one could have (kubernetes/kubernetes#138765)."""
    for orders in (0, 10):
        world = further(orders)
        there = [device("d0", size=2), device("d1", size=1)]
        large = request("r", "gpu", 'device.attributes["gpu.test"].size == 2')
        claims = [
            claim("any", meta={"finalizers": [FINALIZER]}),
            claim("large", large, meta={"finalizers": [FINALIZER]}),
        ]
        world.put(node("n"), device_class(), resource_slice("n", *there, node="n"), *claims, group(min_count=2))
        world.put(claiming(member("a"), "any"), claiming(member("b"), "large"))
        said = world.cycles()
        assert len([one for one in said if isinstance(one, PreBindWrite)]) == (2 if orders else 0)
        assert [one[0] for one in conditions(said)] == (["True"] if orders else ["False"])


@pytest.mark.parametrize("orders", [-1, 1_001])
def test_what_may_be_asked_for(orders: int) -> None:
    with pytest.raises(ConfigError, match=f"furtherOrders: Invalid value: {orders}: must be between 0 and 1,000"):
        further(orders)
