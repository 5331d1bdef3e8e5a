"""Goals that people name, and what a run is worth by them.

A goal is a name, and for some what it is of: `waiting-p99:1000` is the waiting of pods of priority 1000. Most are
figures of a Result; packing and cost are of the times in which nodes have pods, spread is of the pods' zones.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import msgspec

from podberth.explain.objects.documents import ObjectError
from podberth.explain.spelling import near_names
from podberth.lab.result import Result
from podberth.lab.traces.rows import rows
from podberth.lab.world import World
from podberth.model.annotated import NOTHING_READ
from podberth.model.node import Node
from podberth.model.pod import Pod

ZONE = "topology.kubernetes.io/zone"
HOUR = 3600.0


class Kind(NamedTuple):
    """What a goal measures. `of`: what may follow its name; empty where nothing may. `figure`: that of a Result which
    has its value; empty where it is computed here. `digits`: those after the point that are shown.
    """

    unit: str
    says: str
    of: str = ""
    more_is_better: bool = False
    digits: int = 1
    figure: str = ""


KINDS: Mapping[str, Kind] = {
    "waiting-p50": Kind("s", "the time for which half of the pods wait at most", "PRIORITY", figure="waiting_p50_s"),
    "waiting-p99": Kind("s", "the time for which 99 % of the pods wait at most", "PRIORITY", figure="waiting_p99_s"),
    "bound": Kind("%", "the share of pods that get a node", "PRIORITY", more_is_better=True, figure="bound_share"),
    "packing": Kind("nodes", "the nodes that have pods, on average over time"),
    "fragmentation": Kind(
        "%", "the share of all there is that is free and of no use to the pods that come", "RESOURCE", digits=2
    ),
    "spread": Kind("%", "the share of a workload's pods that are in its fullest zone", "LABEL"),
    "preemptions": Kind("pods", "the pods that are removed for others", digits=0, figure="preemptions"),
    "moves": Kind("pods", "the pods that have to be placed again", digits=0, figure="moves"),
    "cost": Kind("", "the price of the nodes for the hours in which they have pods", "LABEL", digits=0),
}


class Goal(msgspec.Struct, frozen=True):
    """One figure to make small, or large where that is better. `of`: the priority, resource or label that it is of."""

    kind: str
    of: str = ""

    def __str__(self) -> str:
        return f"{self.kind}:{self.of}" if self.of else self.kind

    @property
    def more_is_better(self) -> bool:
        """Return whether more of it is better."""
        return KINDS[self.kind].more_is_better

    def better(self, one: float, other: float) -> float:
        """Return by how much one value is better than the other, in the goal's unit; negative: worse."""
        return one - other if self.more_is_better else other - one

    def shown(self, value: float) -> str:
        """Return a value in words, with its unit."""
        kind = KINDS[self.kind]
        number = f"{100 * value if kind.unit == '%' else value:,.{kind.digits}f}"
        return f"{number} {kind.unit}".strip()


class Bound(msgspec.Struct, frozen=True):
    """A goal's value that a configuration has to keep to: at least, or at most."""

    goal: Goal
    value: float
    least: bool

    def __str__(self) -> str:
        return f"{self.goal} {'≥' if self.least else '≤'} {self.goal.shown(self.value)}"

    def missed(self, values: Mapping[str, float]) -> float:
        """Return by how much the bound is missed; 0 or less: it is kept."""
        value = values[str(self.goal)]
        return self.value - value if self.least else value - self.value


def goal(text: str, option: str = "--goal") -> Goal:
    """Return the goal that a text names. Raises ObjectError."""
    kind, colon, of = text.partition(":")
    if kind not in KINDS:
        near = near_names(kind, KINDS)
        meant = f" (did you mean {', '.join(near)}?)" if near else ""
        raise ObjectError(f"{option}: {_quoted(text)}: expected one of {', '.join(KINDS)}{meant}")
    if colon and (not of or not KINDS[kind].of):
        wanted = f"{kind}:{KINDS[kind].of}" if KINDS[kind].of else kind
        raise ObjectError(f"{option}: {_quoted(text)}: expected {wanted}")
    if KINDS[kind].of == "PRIORITY" and of and not _is_whole(of):
        raise ObjectError(f"{option}: {_quoted(text)}: expected {kind}:PRIORITY, a whole number such as 1000")
    return Goal(kind, of)


def bound(text: str, *, least: bool) -> Bound:
    """Return the bound of `--min` or `--max`: GOAL=NUMBER, shares from 0 to 1. Raises ObjectError."""
    option = "--min" if least else "--max"
    name, equals, number = text.partition("=")
    try:
        value = float(number) if equals else math.nan
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ObjectError(f"{option}: {_quoted(text)}: expected GOAL=NUMBER, such as bound=0.99")
    return Bound(goal(name, option), value, least)


class Price(NamedTuple):
    """What an hour of a node costs whose label has the value."""

    label: str
    value: str
    price: float


def prices(path: Path) -> tuple[Price, ...]:
    """Return the prices of a CSV file with the columns label, value and price. Raises ObjectError."""
    found = rows(path, ("label", "value", "price"))
    return tuple(Price(row.name("label"), row.text("value"), row.number("price")) for row in found)


class Yardstick:
    """What measuring the runs of one world needs: its nodes' labels and prices, its pods' workloads and priorities."""

    def __init__(self, world: World, priced: Sequence[Price]) -> None:
        self._priced = tuple(priced)
        found = world.decoded(NOTHING_READ)
        nodes = [thing for thing in (*found.objects, *found.changes) if isinstance(thing, Node)]
        self._labels = {node.name: node.labels for node in nodes}
        self._resources = {name for node in nodes for name in node.allocatable}
        placed = (thing.node_name for thing in found.objects if isinstance(thing, Pod))
        self._placed = [name for name in placed if name in self._labels]
        self._workload = {
            (pod.namespace, pod.name): (pod.namespace, *pod.owner[:2]) for pod in found.arrivals if pod.owner
        }
        """Pod → what pods of one controller share."""
        self._priorities = {pod.priority for pod in found.arrivals}

    def check(self, goal: Goal) -> None:
        """Raise ObjectError for a goal that means nothing in this world."""
        said = f"--goal: {goal}"
        if KINDS[goal.kind].of == "PRIORITY" and goal.of and int(goal.of) not in self._priorities:
            there = ", ".join(map(str, sorted(self._priorities)[:10]))
            raise ObjectError(f"{said}: no pod of the world has this priority: expected one of {there}")
        if goal.kind == "fragmentation" and goal.of and goal.of not in self._resources:
            there = ", ".join(sorted(self._resources))
            raise ObjectError(f"{said}: no node of the world has this resource: expected one of {there}")
        if goal.kind == "spread" and not any(goal.of or ZONE in labels for labels in self._labels.values()):
            raise ObjectError(f"{said}: no node of the world has the label {goal.of or ZONE}")
        if goal.kind == "cost" and not goal.of and not self._priced:
            raise ObjectError(f"{said}: expected --prices FILE, or cost:LABEL with the label that has a node's price")
        for node, labels in self._labels.items() if goal.kind == "cost" else ():
            if self._price(node, goal.of) is None:
                if goal.of:
                    got = _quoted(labels.get(goal.of))
                    raise ObjectError(f"{said}: node {node}: label {goal.of}: expected a price, got {got}")
                raise ObjectError(f"--prices: no line has the label and value of node {node}")

    def _price(self, node: str, label: str) -> float | None:
        """Return what an hour of a node costs by its label, or without one by the prices; None: it is not said."""
        labels = self._labels[node]
        if label:
            return _number(labels.get(label, ""))
        return next((each.price for each in self._priced if labels.get(each.label) == each.value), None)

    def measured(self, result: Result, goals: Iterable[Goal], since: float, until: float) -> dict[str, float]:
        """Return the value of each goal, by its text. What is before `since` (s) does not count: pods that come then
        are there to fill the cluster; nor do nodes after `until` (s).
        """
        figures, busy = result.figures(since), self._busy(result, since, until)
        found: dict[str, float] = {}
        for each in goals:
            kind = KINDS[each.kind]
            if kind.figure:
                name = f"{kind.figure}[{int(each.of)}]" if each.of else kind.figure
                found[str(each)] = figures.get(name, 1.0 if kind.more_is_better else 0.0)
            elif each.kind == "packing":
                found[str(each)] = sum(busy.values()) / max(until - since, 1e-9)
            elif each.kind == "fragmentation":
                lost = [value for name, value in figures.items() if name.startswith("stranded[")]
                found[str(each)] = figures.get(f"stranded[{each.of}]", 0.0) if each.of else fmean(lost)
            elif each.kind == "spread":
                found[str(each)] = self._spread(each.of or ZONE, result)
            else:
                costs = (seconds * (self._price(node, each.of) or 0.0) for node, seconds in busy.items())
                found[str(each)] = sum(costs) / HOUR
        return found

    def _busy(self, result: Result, since: float, until: float) -> dict[str, float]:
        """Return node → the seconds between two moments in which it has pods."""
        spans: dict[str, list[tuple[float, float]]] = {node: [(since, until)] for node in self._placed}
        pods = result.columns["decisions"]
        for node, bound, ended in zip(pods["node"], pods["bound"], pods["ended"], strict=True):
            if node and bound is not None:
                begin, end = max(bound, since), until if ended is None else min(ended, until)
                if begin < end:
                    spans.setdefault(node, []).append((begin, end))
        return {node: _union(each) for node, each in spans.items()}

    def _spread(self, label: str, result: Result) -> float:
        counts: dict[tuple[str, str, str], Counter[str]] = {}
        pods = result.columns["decisions"]
        for namespace, name, node in zip(pods["namespace"], pods["pod"], pods["node"], strict=True):
            workload, zone = self._workload.get((namespace, name)), self._labels.get(node, {}).get(label)
            if workload and zone:
                counts.setdefault(workload, Counter())[zone] += 1
        several = [zones for zones in counts.values() if zones.total() > 1]
        pods_of_several = sum(zones.total() for zones in several)
        return sum(max(zones.values()) for zones in several) / pods_of_several if several else 0.0


def _union(spans: Iterable[tuple[float, float]]) -> float:
    total, until = 0.0, -math.inf
    for begin, end in sorted(spans):
        total += max(end - max(begin, until), 0.0)
        until = max(until, end)
    return total


def _quoted(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def _is_whole(text: str) -> bool:
    return text.removeprefix("-").isdecimal()
