"""Goals that people name, and what a run is worth by them.

A goal is a name, and for some what it is of: `waiting-p99:1000` is the waiting of pods of priority 1000. Every figure
comes from the decisions of a run and the times in which nodes have pods, so that goals mean the same on each world.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from podberth.explain.objects.documents import ObjectError
from podberth.explain.spelling import near_names
from podberth.lab.result import Result
from podberth.lab.world import World

ZONE = "topology.kubernetes.io/zone"
HOUR = 3600.0


class Kind(NamedTuple):
    """What a goal measures. `of`: what may follow its name; empty where nothing may."""

    unit: str
    says: str
    of: str = ""
    more_is_better: bool = False
    digits: int = 1


KINDS: Mapping[str, Kind] = {
    "waiting-p50": Kind("s", "the time for which half of the pods wait at most", "PRIORITY"),
    "waiting-p99": Kind("s", "the time for which 99 % of the pods wait at most", "PRIORITY"),
    "bound": Kind("%", "the share of pods that get a node", "PRIORITY", more_is_better=True),
    "packing": Kind("nodes", "the nodes that have pods, on average over time"),
    "fragmentation": Kind(
        "%", "the share of all there is that is free and of no use to the pods that come", "RESOURCE", digits=2
    ),
    "spread": Kind("%", "the share of a workload's pods that are in its fullest zone", "LABEL"),
    "preemptions": Kind("pods", "the pods that are removed for others", digits=0),
    "moves": Kind("pods", "the pods that have to be placed again", digits=0),
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


def prices(raw: bytes) -> tuple[Price, ...]:
    """Return the prices of a CSV file with the columns label, value and price. Raises ObjectError."""
    found = []
    for number, line in enumerate(raw.decode(errors="replace").splitlines(), start=1):
        fields = [field.strip() for field in line.split(",")]
        if not line.strip() or (number == 1 and fields == ["label", "value", "price"]):
            continue
        price = _number(fields[2]) if len(fields) == 3 else None
        if price is None:
            raise ObjectError(f"line {number}: {_quoted(line)}: expected label,value,price")
        found.append(Price(fields[0], fields[1], price))
    return tuple(found)


class Yardstick:
    """What measuring the runs of one world needs: its nodes' labels and prices, its pods' ends and workloads.

    `warm`: seconds at the begin that do not count; pods that arrive in them are there to fill the cluster.
    """

    def __init__(
        self, world: World, goals: Sequence[Goal], priced: Sequence[Price], *, warm: float, end: float
    ) -> None:
        self._goals, self._warm, self._end = tuple(goals), warm, end
        self._priced = tuple(priced)
        self._labels: dict[str, Mapping[str, str]] = {}
        self._resources: set[str] = set()
        self._workload: dict[tuple[str, str], str] = {}
        self._placed: list[str] = []
        self._priorities: set[int] = set()
        for raw in world.objects:
            document = msgspec.json.decode(raw)
            metadata = document.get("metadata") or {}
            if document.get("kind") == "Node":
                self._labels[metadata["name"]] = metadata.get("labels") or {}
                self._resources |= set((document.get("status") or {}).get("allocatable") or ())
            elif document.get("kind") == "Pod" and (document.get("spec") or {}).get("nodeName"):
                self._placed.append(document["spec"]["nodeName"])
        for arrival in world.arrivals:
            document = msgspec.json.decode(arrival.pod)
            metadata = document["metadata"]
            key = metadata.get("namespace") or "default", metadata["name"]
            self._workload[key] = _workload(metadata)
            self._priorities.add((document.get("spec") or {}).get("priority") or 0)
        self._prices = {node: _price(labels, priced) for node, labels in self._labels.items()}

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
        if goal.kind == "cost":
            for node, labels in self._labels.items():
                if goal.of and _number(labels.get(goal.of, "")) is None:
                    got = _quoted(labels.get(goal.of))
                    raise ObjectError(f"{said}: node {node}: label {goal.of}: expected a price, got {got}")
                if not goal.of and self._prices[node] is None:
                    raise ObjectError(f"--prices: no line has the label and value of node {node}")

    def measured(self, result: Result) -> dict[str, float]:
        """Return the value of each goal, by its text."""
        decided = _Decided(result, self._warm, self._end)
        busy = self._busy(decided)
        return {str(each): self._one(each, decided, busy, result) for each in self._goals}

    def _one(self, goal: Goal, decided: "_Decided", busy: Mapping[str, float], result: Result) -> float:
        match goal.kind:
            case "waiting-p50" | "waiting-p99":
                waited = decided.waited(goal.of)
                part = 50 if goal.kind == "waiting-p50" else 99
                return float(np.percentile(waited, part, method="inverted_cdf")) if len(waited) else 0.0
            case "bound":
                bound = decided.bound(goal.of)
                return float(bound.mean()) if len(bound) else 1.0
            case "packing":
                return sum(busy.values()) / max(self._end - self._warm, 1e-9)
            case "fragmentation":
                return self._fragmentation(goal.of, result)
            case "spread":
                return self._spread(goal.of or ZONE, decided)
            case "preemptions":
                return float(sum(at >= self._warm for at in result.columns["preemptions"]["at"]))
            case "moves":
                return float(sum(at >= self._warm for at in result.columns["moves"]["at"]))
        price = {node: float(labels[goal.of]) for node, labels in self._labels.items()} if goal.of else self._prices
        return sum(seconds * (price[node] or 0.0) / HOUR for node, seconds in busy.items())

    def _busy(self, decided: "_Decided") -> dict[str, float]:
        """Return node → the seconds in which it has pods, from the end of the warm-up on."""
        spans: dict[str, list[tuple[float, float]]] = {node: [(self._warm, self._end)] for node in self._placed}
        for _, node, bound, ended in decided.placed:
            begin, end = max(bound, self._warm), min(ended, self._end)
            if begin < end:
                spans.setdefault(node, []).append((begin, end))
        return {node: _union(each) for node, each in spans.items()}

    def _fragmentation(self, resource: str, result: Result) -> float:
        """Return the mean over time, and over the resources if none is named, of what is stranded of all there is."""
        used, table = result.columns["utilisation"], result.columns["fragmentation"]
        there = dict(zip(used["resource"], used["allocatable"], strict=True))
        looks: dict[str, list[tuple[float, float]]] = {}
        for name, at, stranded in zip(table["resource"], table["at"], table["stranded"], strict=True):
            if self._warm <= at <= self._end and there.get(name) and resource in ("", name):
                looks.setdefault(name, []).append((at, stranded / there[name]))
        found = [_mean(each, self._end) for each in looks.values()]
        return sum(found) / len(found) if found else 0.0

    def _spread(self, label: str, decided: "_Decided") -> float:
        counts: dict[str, dict[str, int]] = {}
        for key, node, _, _ in decided.placed:
            workload = self._workload.get(key)
            zone = self._labels.get(node, {}).get(label)
            if workload and zone:
                zones = counts.setdefault(workload, {})
                zones[zone] = zones.get(zone, 0) + 1
        several = [zones for zones in counts.values() if sum(zones.values()) > 1]
        pods = sum(sum(zones.values()) for zones in several)
        return sum(max(zones.values()) for zones in several) / pods if pods else 0.0


class _Decided:
    """The decisions of a run, as columns with one entry for each pod. Pods of the warm-up do not count."""

    def __init__(self, result: Result, warm: float, end: float) -> None:
        table = result.columns["decisions"]
        never = math.inf
        counted = np.array(table["arrived"]) >= warm
        self._counted = counted
        self._arrived = np.array(table["arrived"])
        self._priority = np.array(table["priority"])
        self._bound = np.array([never if at is None else at for at in table["bound"]])
        ended = [never if at is None else at for at in table["ended"]]
        keys = zip(table["namespace"], table["pod"], strict=True)
        self.placed = [
            (key, node, bound, end)
            for key, node, bound, end in zip(keys, table["node"], self._bound.tolist(), ended, strict=True)
            if node
        ]
        """(namespace and name, node, when it was bound, when it ended) of each pod that got a node, in the warm-up
        too."""
        times = [end, *result.columns["utilisation"]["at"], *self._bound.tolist(), *ended]
        self._over = max(time for time in times if time != never)

    def bound(self, priority: str) -> Any:
        """Return bool[pods]: whether each pod of a priority, or of all, got a node."""
        return np.isfinite(self._bound[self._of(priority)])

    def waited(self, priority: str) -> Any:
        """Return the seconds for which each pod waited; one that was never bound has waited until all was over."""
        chosen = self._of(priority)
        return np.minimum(self._bound[chosen], self._over) - self._arrived[chosen]

    def _of(self, priority: str) -> Any:
        return self._counted & (self._priority == int(priority)) if priority else self._counted


def _workload(metadata: Mapping[str, Any]) -> str:
    """Return a text that pods of one workload share: their controller; empty for a pod that has none."""
    owner = next((each for each in metadata.get("ownerReferences") or () if each.get("controller")), None)
    return f"{metadata.get('namespace')}/{owner['kind']}/{owner['name']}" if owner else ""


def _price(labels: Mapping[str, str], priced: Sequence[Price]) -> float | None:
    return next((each.price for each in priced if labels.get(each.label) == each.value), None)


def _union(spans: Iterable[tuple[float, float]]) -> float:
    total, until = 0.0, -math.inf
    for begin, end in sorted(spans):
        total += max(end - max(begin, until), 0.0)
        until = max(until, end)
    return total


def _mean(looks: Sequence[tuple[float, float]], end: float) -> float:
    """Return the mean over time of a value that holds from each look until the next, by (s, value) in order."""
    at, values = np.array(looks).T
    lasts = np.diff(np.append(at, end))
    return float((values * lasts).sum() / lasts.sum()) if lasts.sum() else float(values[-1])


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
