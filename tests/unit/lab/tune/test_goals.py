"""Goals: what their names say, and what they measure of a run, by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from podberth.explain.objects.documents import ObjectError
from podberth.lab import Change, World, run
from podberth.lab.tune.goals import Goal, Price, Yardstick, bound, goal, prices
from tests.builders import node, pod
from tests.unit.lab.worlds import comes, configured, owned, raw, world


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("packed", '--goal: "packed": expected one of waiting-p50, waiting-p99, bound, packing'),
        ("pakcing", "(did you mean packing?)"),
        ("packing:1", '--goal: "packing:1": expected packing'),
        ("waiting-p99:", '--goal: "waiting-p99:": expected waiting-p99:PRIORITY'),
        ("waiting-p99:high", '--goal: "waiting-p99:high": expected waiting-p99:PRIORITY, a whole number such as 1000'),
    ],
)
def test_wrong_names(text: str, said: str) -> None:
    """What a goal may be is said."""
    with pytest.raises(ObjectError) as error:
        goal(text)
    assert said in str(error.value)


def test_bounds() -> None:
    """A bound is missed by what is lacking, whichever way."""
    assert bound("bound=0.99", least=True).missed({"bound": 0.9}) == pytest.approx(0.09)
    assert bound("packing=3", least=False).missed({"packing": 5.0}) == 2
    assert str(bound("bound=0.99", least=True)) == "bound ≥ 99.0 %"
    for text in ("bound", "bound=", "bound=many", "bound=nan"):
        with pytest.raises(ObjectError, match=r"--min: .*: expected GOAL=NUMBER"):
            bound(text, least=True)


def test_prices(tmp_path: Path) -> None:
    """What is no price is named with its line."""
    file = tmp_path / "prices.csv"
    file.write_text("label,value,price\nsize,big,2.5\n\nsize,small,1\n")
    assert prices(file) == (Price("size", "big", 2.5), Price("size", "small", 1.0))
    for line in ("size,big", "size,big,much", "size,big,-1"):
        file.write_text(f"label,value,price\n{line}\n")
        with pytest.raises(ObjectError, match=r"^prices.csv, line 2: .*expected"):
            prices(file)


def test_measures_of_a_run() -> None:
    """Two nodes with prices and zones; one pod waits for an end, another for ever, and the warm-up does not count."""
    there = world(
        [
            node("a", "2", zone="east", labels={"size": "big", "hourly": "7.2"}),
            node("b", "2", zone="west", labels={"size": "big", "hourly": "3.6"}),
        ],
        comes(pod("before", "2", priority=5), 0, 150),
        comes(owned(pod("x", "2", priority=5)), 100, 50),
        comes(owned(pod("y", "2", priority=5)), 110, 1000),
        comes(owned(pod("z", "2", priority=5)), 120, 10),
        comes(pod("never", "4"), 130, 10),
    )
    names = (
        *("waiting-p50", "waiting-p99", "waiting-p99:5", "bound", "bound:5", "packing", "spread", "moves"),
        *("cost", "cost:hourly", "preemptions", "fragmentation", "fragmentation:cpu"),
    )
    goals = tuple(map(goal, names))
    yardstick = Yardstick(there, (Price("size", "big", 3600.0),))
    for each in goals:
        yardstick.check(each)
    found = yardstick.measured(run(there, configured()), goals, since=100, until=200)

    # x goes to the node that `before` leaves free; y and z wait until 150, when both are free; z ends, and waits less.
    assert found["waiting-p99:5"] == 40
    assert found["waiting-p50"] == 30
    assert found["waiting-p99"] > 1000 - 130, "a pod that got no node has waited until all was over"
    assert (found["bound"], found["bound:5"]) == (0.75, 1.0)
    # From 100 to 150 both nodes are in use; from then on, one has y, the other one z for 10 s.
    assert found["packing"] == pytest.approx((50 + 50 + 50 + 10) / 100)
    assert found["cost"] == pytest.approx(160)
    assert 0.16 <= found["cost:hourly"] <= 0.32
    assert found["spread"] in (2 / 3, 1.0)
    assert (found["preemptions"], found["moves"]) == (0, 0)
    assert 0 <= found["fragmentation:cpu"] <= 1


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("waiting-p99:7", "no pod of the world has this priority: expected one of 0"),
        ("fragmentation:gpu", "no node of the world has this resource: expected one of cpu, memory"),
        ("spread", "no node of the world has the label topology.kubernetes.io/zone"),
        ("cost", "expected --prices FILE, or cost:LABEL"),
        ("cost:hourly", "node a: label hourly: expected a price, got null"),
    ],
)
def test_goals_that_mean_nothing_here(name: str, said: str) -> None:
    """A world that lacks what a goal is about refuses it."""
    yardstick = Yardstick(world([node("a")], comes(pod("x", "1"))), ())
    with pytest.raises(ObjectError) as error:
        yardstick.check(goal(name))
    assert said in str(error.value)


def test_a_node_without_a_price() -> None:
    """A price list that lacks a node is refused, as its hours would be free."""
    yardstick = Yardstick(world([node("a")], comes(pod("x", "1"))), (Price("size", "big", 1.0),))
    with pytest.raises(ObjectError, match=r"--prices: no line has the label and value of node a"):
        yardstick.check(Goal("cost"))


def test_nodes_that_come_later_have_labels_and_prices() -> None:
    """Their hours are paid for, and their zones are spread over; one that has no price is named at once."""

    def there(price: dict[str, str]) -> World:
        later = [Change(10.0, put=raw(node("b", "2", zone="west", labels=price)))]
        first = node("a", "2", zone="east", labels={"hourly": "3600"})
        arrivals = (comes(owned(pod(name, "2")), at, 10) for name, at in (("x", 0), ("y", 5), ("z", 12)))
        return world([first], *arrivals, changes=later)

    cost, spread = goal("cost:hourly"), goal("spread")
    whole = there({"hourly": "7200"})
    found = Yardstick(whole, ()).measured(run(whole, configured()), (cost, spread), since=0, until=30)
    assert found == {"cost:hourly": 10 * 1 + 10 * 2 + 8 * 1 + 2 * 1, "spread": pytest.approx(2 / 3)}
    with pytest.raises(ObjectError, match=r"node b: label hourly: expected a price"):
        Yardstick(there({}), ()).check(cost)
