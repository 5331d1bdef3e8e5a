"""Says why a decision rejects its nodes: the plugin and its reason, the numbers behind it, and the cause in one line.

The numbers come from the plugins' explainers (`Asking`). Nodes that are kept for nominated pods are seen with those
pods on them, as decisions see them (upstream: RunFilterPluginsWithNominatedPods).
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from podberth.cache.cluster import Cluster
from podberth.cache.column import Bools
from podberth.cache.nodes import HOSTNAME
from podberth.explain.changes import Change, Fix, Uncordon
from podberth.explain.plugins import explainer_of
from podberth.explain.plugins.volumes import where_volumes_are
from podberth.explain.report.wording import most_first
from podberth.framework.decision import Decision, narrowed_text
from podberth.framework.declaration import Foreign, checked
from podberth.framework.explaining import Detail, Explainer, Inquiry, domain
from podberth.framework.runtime import Framework
from podberth.framework.status import PluginError, Reason, Rejections, shown
from podberth.model.pod import Pod
from podberth.model.quantity import BOUND
from podberth.model.volumes import REGION, ZONE

KEPT_FOR = "keptFor"
"""The key, in an obstacle's numbers, of the pods that are nominated for the node, if these alone are the obstacle."""
_PINS = "NodeAffinity"
_ELSEWHERE = 1000.0
"""A distance above any that the lack of something gives a node."""
_REASONS = 3
_HELD = "VolumeRestrictions"
"""The plugin whose reason, that a claim is in use, applies on every node."""
_BY_VOLUME = ("VolumeZone", "VolumeBinding")


# --- the rows of a decision -------------------------------------------------------------------------------------------


def rejections(decision: Decision) -> Iterator[tuple[str, Reason, Bools]]:
    """Yield (plugin, reason, bool[rows]) of each reason against nodes, of the plugin that each node ended at."""
    if decision.left_out is not None:
        yield decision.narrowed_by[0], Reason(narrowed_text(decision), unresolvable=True), decision.left_out
    for rejected in decision.rejected:
        for reason, where in rejected.reasons:
            yield rejected.plugin, reason, where


def against(decision: Decision) -> dict[int, list[str]]:
    """Return row → the reasons against it."""
    if decision.verdict is not None:
        return {row: [decision.verdict[1].text] for row in range(decision.nodes)}
    found: dict[int, list[str]] = {}
    for _, reason, where in rejections(decision):
        for row in np.flatnonzero(where).tolist():
            found.setdefault(row, []).append(reason.text)
    return found


def first_against(decision: Decision, row: int | None) -> tuple[str, Reason] | None:
    """Return the plugin that rejects a row, and its first reason; None if none does, or if there is no such row."""
    if row is None:
        return None
    return next(
        ((plugin, reason) for plugin, reason, where in rejections(decision) if row < len(where) and where[row]), None
    )


def place_of(decision: Decision, row: int | None) -> int | None:
    """Return the place of a row among the feasible ones, None if it is not one of them."""
    at = int(np.searchsorted(decision.feasible, -1 if row is None else row))
    return at if at < len(decision.feasible) and decision.feasible[at] == row else None


def given_away(decision: Decision, row: int | None) -> int | None:
    """Return the best total less that of a row, in points of the profile's scores; None if the row is not feasible.

    It is 0 for each feasible row when nothing was scored.
    """
    at = place_of(decision, row)
    if at is None or decision.totals is None:
        return None if at is None else 0
    return int(decision.totals.max() - decision.totals[at])


# --- nodes that are kept for nominated pods ---------------------------------------------------------------------------


def kept_rows(pod: Pod, cluster: Cluster) -> dict[int, list[Pod]]:
    """Return row → the pods that it is kept for and that come before this one."""
    found = ((cluster.nodes.live_row(node), pods) for node, pods in cluster.nominations.ahead_of(pod))
    return {row: pods for row, pods in found if row is not None}


def put_there(pods: Sequence[Pod], row: int, cluster: Cluster) -> list[Pod]:
    """Place pods on the node that is kept for them, under other UIDs; return the placed ones."""
    node = cluster.nodes.names[row] or ""
    placed = [
        replace(pod, uid=f"{pod.uid}/nominated", node_name=node, nominated_node_name="", scheduling_group=None)
        for pod in pods
    ]
    for pod in placed:
        cluster.put_pod(pod)
    return placed


@contextmanager
def placed(pods: Sequence[Pod], row: int, cluster: Cluster) -> Iterator[None]:
    """Place pods on the node that they are nominated for while the block runs."""
    there = put_there(pods, row, cluster)
    try:
        yield
    finally:
        for pod in there:
            cluster.drop_pod(pod.uid)


# --- asking the plugins' explainers -----------------------------------------------------------------------------------


class Asking:
    """One inquiry, and the plugins of one profile."""

    def __init__(self, inquiry: Inquiry, framework: Framework) -> None:
        self.inquiry = inquiry
        self.framework = framework
        self.notes: dict[tuple[str, str], str] = {}
        """(plugin, what it was asked, or what is missing) → that it failed. It is not asked this again."""
        self._of_kept: dict[int, Inquiry] = {}
        self._explainers: dict[str, Explainer] = {}

    @cached_property
    def kept(self) -> dict[int, list[Pod]]:
        """Return row → the pods that the node is kept for; of it, plugins are asked as if they were there."""
        return kept_rows(self.inquiry.pod, self.inquiry.cluster)

    def detail(self, row: int, name: str, reason: Reason) -> Detail:
        """Return the numbers of a plugin's reason against one row."""
        with self._about(row) as inquiry:
            text, numbers = self._ask(name, "explain", inquiry, row, reason) or ("", {})
        return text or reason.text, numbers

    def fixes(self, row: int, name: str, reasons: Sequence[Reason]) -> Sequence[Fix]:
        """Return the changes that may help against all reasons of a plugin on one row."""
        with self._about(row) as inquiry:
            return self._ask(name, "fixes", inquiry, row, reasons) or ()

    def detail_of_pod(self, name: str, reason: Reason) -> Detail:
        """Return the numbers of a plugin's reason against a pod that it rejected before any node was looked at."""
        text, numbers = self._ask(name, "explain_pod", self.inquiry, reason) or ("", {})
        return text or reason.text, numbers

    def failed(self, what: str, error: PluginError) -> None:
        """Note once that a plugin failed while something was tried. `what`: the missing part of the answer."""
        self.notes.setdefault((error.plugin, what), f"{what}: {error}")

    @contextmanager
    def _about(self, row: int) -> Iterator[Inquiry]:
        """Yield what is asked about one row."""
        pods = self.kept.get(row)
        if pods is None:
            yield self.inquiry
            return
        with placed(pods, row, self.inquiry.cluster):
            yield self._of_kept.setdefault(row, Inquiry(self.inquiry.pod, self.inquiry.cluster))

    def _ask(self, name: str, what: str, *about: object) -> Any:
        """Return the answer of a plugin's explainer; None if there is none."""
        plugin: Any = self.framework.plugin(name)
        if plugin is None or (name, what) in self.notes:
            return None
        try:
            ask = getattr(self._explainer(plugin), what)
            if isinstance(plugin, Foreign):
                ask = checked(what, ask, _detail if what.startswith("explain") else _fixes)
            return self.framework.guard(plugin, ask, *about)
        except PluginError as error:
            could = "explain its rejections" if what.startswith("explain") else "say what would help"
            self.notes[name, what] = f'plugin "{name}" could not {could}: {error.text}'
            return None

    def _explainer(self, plugin: Any) -> Explainer:
        found = self._explainers.get(plugin.name)
        if found is None:
            own = plugin.own if isinstance(plugin, Foreign) else plugin
            found = self._explainers[plugin.name] = self.framework.guard(plugin, explainer_of(type(own)), own)
        return found


def _detail(answer: Any, args: tuple[Any, ...]) -> str:
    if not (isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[0], str)):
        return f"want (text, data), got {shown(answer)}"
    msgspec.convert(msgspec.json.decode(msgspec.json.encode(answer[1])), dict[str, Any])
    return ""


def _fixes(answer: Any, args: tuple[Any, ...]) -> str:
    msgspec.convert(msgspec.to_builtins(answer), Sequence[Fix])
    strange = [change for fix in answer for change in fix if not isinstance(change, Change)]
    return f"want changes, got {shown(strange[0])}" if strange else ""


# --- what stands in the way on each node ------------------------------------------------------------------------------


@dataclass(slots=True)
class Obstacle:
    """One reason against one node. `first`: of the plugin that the node ended at, not of one that never got to ask."""

    plugin: str
    reason: Reason
    first: bool
    detail: str = ""
    numbers: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Stuck:
    """A node that can't take the pod, and all obstacles there."""

    row: int
    node: str
    plugin: str
    obstacles: list[Obstacle] = field(default_factory=list)
    distance: tuple[float, int] = (0.0, 0)


def stuck_at(asking: Asking, decision: Decision) -> list[Stuck]:
    """Return every rejected node with all its obstacles, the ones closest to fitting first."""
    if decision.verdict is not None:
        return []
    found: dict[int, Stuck] = {}
    nodes = asking.inquiry.cluster.nodes
    for plugin, reason, where in rejections(decision):
        for row in np.flatnonzero(where).tolist():
            stuck = found.setdefault(row, Stuck(row, nodes.names[row] or "", plugin))
            stuck.obstacles.append(Obstacle(plugin, reason, True))
    by_itself: set[tuple[int, str]] = set()
    for plugin, reason, where in _all_rejections(asking, decision):
        by_itself.update((row, plugin) for row in asking.kept if row < len(where) and where[row])
        for row in np.flatnonzero(where).tolist():
            known = found.get(row)
            if known is not None and not _repeats(asking, known, plugin, reason):
                known.obstacles.append(Obstacle(plugin, reason, False))
    for stuck in found.values():
        for obstacle in stuck.obstacles:
            obstacle.detail, obstacle.numbers = asking.detail(stuck.row, obstacle.plugin, obstacle.reason)
            if stuck.row in asking.kept and (stuck.row, obstacle.plugin) not in by_itself:
                pods = [pod.key for pod in asking.kept[stuck.row]]
                obstacle.detail += f": {stuck.node} is kept for {', '.join(pods)}"
                obstacle.numbers = {**obstacle.numbers, KEPT_FOR: pods}
        stuck.distance = _distance(asking, stuck)
    return sorted(found.values(), key=lambda stuck: (stuck.distance, stuck.node))


def _repeats(asking: Asking, stuck: Stuck, plugin: str, reason: Reason) -> bool:
    """Return whether the node has the obstacle already: of the same plugin, or as a cordon, which is mark and taint."""
    if any(o.plugin == plugin and (o.first or o.reason == reason) for o in stuck.obstacles):
        return True
    if not asking.inquiry.cluster.nodes.unschedulable[stuck.row]:
        return False

    def only_cordoned(plugin: str, reason: Reason) -> bool:
        fixes = asking.fixes(stuck.row, plugin, [reason])
        return {change for fix in fixes for change in fix} == {Uncordon(stuck.node)}

    return only_cordoned(plugin, reason) and any(only_cordoned(o.plugin, o.reason) for o in stuck.obstacles)


def _all_rejections(asking: Asking, decision: Decision) -> Iterator[tuple[str, Reason, Bools]]:
    """Yield what every filter says of every node, also of those that an earlier one had rejected."""
    if not decision.nodes:
        return
    inquiry, framework = asking.inquiry, asking.framework
    for plugin in framework.profile.plugins("filter"):
        try:
            found: Rejections = framework.guard(plugin, plugin.filter, inquiry.pod, inquiry.cluster)
        except PluginError as error:  # the decision itself never got to ask it
            asking.failed("not every reason is shown", error)
            continue
        for reason, where in found:
            yield plugin.name, reason, where & inquiry.cluster.nodes.alive[: len(where)]


def _distance(asking: Asking, stuck: Stuck) -> tuple[float, int]:
    """Return how far a node is from taking the pod: what is missing of each thing, as a share of what the pod asks for.

    What has no amount counts as one, and so does once more what the node would not have if it were empty. Of a pod that
    is pinned to some nodes, all others come after these. Second: the plugins whose rejection no preemption can help.
    """
    hopeless = len({o.plugin for o in stuck.obstacles if o.reason.unresolvable})
    pinned = asking.inquiry.once("pinned", lambda: _pinned(asking.inquiry.pod))
    total = 0.0
    for obstacle in stuck.obstacles:
        share = _missing(obstacle.numbers)
        total += 1.0 if share is None else share + obstacle.reason.unresolvable
        if pinned and obstacle.plugin == _PINS:
            total += _ELSEWHERE
    return total, hopeless


def _pinned(pod: Pod) -> bool:
    """Return whether the pod requires nodes by their names."""
    affinity = pod.shape.required_node_affinity
    terms = () if affinity is None else affinity.terms
    labels = [*pod.shape.node_selector, *(r for term in terms for r in term.labels)]
    return bool(affinity and affinity.names) or any(r.key == HOSTNAME and r.operator == "In" for r in labels)


def _missing(numbers: Mapping[str, Any]) -> float | None:
    """Return the missing share of the amount that is needed; None where the numbers do not say."""
    needed, free = numbers.get("needed"), numbers.get("free")
    if isinstance(needed, int | float) and isinstance(free, int | float) and 0 < needed <= BOUND and abs(free) <= BOUND:
        return (needed - free) / needed
    return None


# --- the cause in one line --------------------------------------------------------------------------------------------


def cause(asking: Asking, decision: Decision, stuck: Sequence[Stuck], meant: Sequence[str]) -> str | None:
    """Return the cause in a line; None where there are no nodes. `meant`: labels that are perhaps misspelt."""
    if decision.verdict is not None:
        return asking.detail_of_pod(*decision.verdict)[0]
    if not stuck:
        return None
    by_volumes = _where_the_volumes_are(asking, stuck)
    if by_volumes:
        return by_volumes
    if meant:
        return meant[0]
    said = {"; ".join(obstacle.detail for obstacle in each.obstacles if obstacle.first) for each in stuck}
    if len(said) == 1:
        return said.pop()
    held = set.intersection(*({o.detail for o in each.obstacles if o.plugin == _HELD} for each in stuck)) - {""}
    return "; ".join(sorted(held)) or _reasons(stuck)


def goes_after(stuck: Sequence[Stuck]) -> str:
    """Say that the pod waits for others, if some node would take it that is kept for them; else empty."""
    nodes = [each for each in stuck if all(KEPT_FOR in o.numbers for o in each.obstacles if o.first)]
    pods = list(dict.fromkeys(key for each in nodes for o in each.obstacles for key in o.numbers.get(KEPT_FOR, ())))
    if not pods:
        return ""
    some = ", ".join(pods[:_REASONS]) + (" and others" if len(pods) > _REASONS else "")
    where = f"{nodes[0].node} is" if len(nodes) == 1 else f"{len(nodes):,} nodes are"
    return f"it waits for {some}" + (f", for which {where} kept" if len(stuck) > 1 else "")


def _where_the_volumes_are(asking: Asking, stuck: Sequence[Stuck]) -> str:
    """Return which claims keep the pod off which nodes, and what is wrong with the others; empty: none does."""
    there = [each for each in stuck if not any(o.plugin in _BY_VOLUME for o in each.obstacles)]
    places = where_volumes_are(asking.inquiry)
    if len(there) == len(stuck) or not places:
        return ""
    storage, pod = asking.inquiry.cluster.storage, asking.inquiry.pod
    names = []
    for used in pod.shape.volumes.claims:
        claim = storage.claims.stored((pod.namespace, used.claim(pod.name)))
        if claim is not None and claim.volume_name:
            names.append(claim.name)
    zones = {key: value for key, value in places.items() if key in (ZONE, REGION)}
    where = " and ".join(domain(key, value) for key, value in (zones or places).items())
    which = f"claim {names[0]} of this pod is bound to a volume" if len(names) == 1 else "its claims have volumes"
    if not there:
        return f"{which} in {where}, and no node is there"
    nodes = "the one node there does not fit" if len(there) == 1 else f"none of the {len(there):,} nodes there fits"
    return f"{which} in {where}, and {nodes}: {_reasons(there)}"


def _reasons(stuck: Sequence[Stuck]) -> str:
    """Return the most frequent reasons."""
    counts = Counter(obstacle.reason.text for each in stuck for obstacle in each.obstacles if obstacle.first)
    common = [*most_first(counts).items()]
    said = ", ".join(text if len(stuck) == 1 else f"{number:,} {text}" for text, number in common[:_REASONS])
    return f"{said} and more" if len(common) > _REASONS else said
