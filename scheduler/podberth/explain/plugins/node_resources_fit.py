"""Explains NodeResourcesFit's rejections: how much is missing, and what would help."""

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

from podberth.explain.changes import Fix, MovePod, Request
from podberth.framework.explaining import Detail, Explainer, Inquiry
from podberth.framework.status import Reason
from podberth.model.pod import Pod
from podberth.model.quantity import exact, show

_LEAST = 0.1
"""The smallest share of a request that a pod is advised to ask for instead."""
_MEBI = 1 << 20
_MOVES = 4
"""The number of pods whose move is offered; the first one that helps is shown."""
_LARGE = 8
_TOGETHER = 3
"""The largest number of pods that move together where one is not enough."""


class _Shortage(NamedTuple):
    """One resource of one node against what a pod needs of it. `free` is negative on an overcommitted node."""

    resource: str
    needed: int
    free: int
    allocatable: int
    requested: int


class NodeResourcesFitExplainer(Explainer):
    """Says of a node that NodeResourcesFit rejects: how much is missing, and what would help."""

    def explain(self, inquiry: Inquiry, row: int, reason: Reason) -> Detail:
        """Return the amounts that the pod needs, that are free, and that the node has."""
        short = _shortage(inquiry, row, reason)
        if short is None:
            nodes = inquiry.cluster.nodes
            pods, allowed = int(nodes.pods[row]), int(nodes.allowed_pods[row])
            return f"{pods} of {allowed} pods", {"resource": "pods", "requested": pods, "allocatable": allowed}
        resource, *amounts = short
        needed, free, whole, taken = (show(resource, amount) for amount in amounts)
        if short.allocatable == 0:
            return f"needs {needed} {resource}, the node has none", short._asdict()
        if needed in (free, whole):  # they differ, and look alike when they are rounded
            needed, free, whole, taken = (exact(resource, amount) for amount in amounts)
        if short.needed > short.allocatable:
            return f"needs {needed} {resource}, the whole node has {whole} ({taken} requested)", short._asdict()
        left = free if short.free > 0 else "none"
        return f"needs {needed} {resource}, {left} free of {whole} ({taken} requested)", short._asdict()

    def fixes(self, inquiry: Inquiry, row: int, reasons: Sequence[Reason]) -> list[Fix]:
        """Ask for what is free, or have a pod leave that makes enough room: one of the smallest that do."""
        short = [s for s in (_shortage(inquiry, row, reason) for reason in reasons) if s is not None]
        found: list[Fix] = []
        if short and len(short) == len(reasons):
            wanted = {s.resource: _round(s) for s in short}
            if all(wanted[s.resource] >= _LEAST * s.needed and wanted[s.resource] > 0 for s in short):
                found.append((Request(wanted, {s.resource: s.needed for s in short}),))
        if all(s.needed <= s.allocatable for s in short):
            node, movable = inquiry.node(row).name, inquiry.movable(row)
            enough = [pod for pod in movable if not _short_of([pod], short)]
            found += [(MovePod(pod.key, node),) for pod in enough[:_MOVES]]
            if not enough:
                found.append(tuple(MovePod(pod.key, node) for pod in _several(movable, short)))
        return [fix for fix in found if fix]


def _shortage(inquiry: Inquiry, row: int, reason: Reason) -> _Shortage | None:
    """Return the numbers of an `Insufficient RESOURCE`; None for another reason."""
    resource = reason.text.removeprefix("Insufficient ")
    needed = inquiry.pod.shape.requests.get(resource)
    if needed is None:
        return None
    nodes = inquiry.cluster.nodes
    index = nodes.resources.get(resource)
    if index is None:
        return _Shortage(resource, needed, 0, 0, 0)
    allocatable, requested = nodes.allocatable.item(index, row), nodes.requested.item(index, row)
    return _Shortage(resource, needed, allocatable - requested, allocatable, requested)


def _short_of(leaving: Sequence[Pod], short: Sequence[_Shortage]) -> list[_Shortage]:
    """Return the amount that is still missing when these pods are gone."""
    return [s for s in short if s.free + sum(pod.shape.requests.get(s.resource, 0) for pod in leaving) < s.needed]


def _several(movable: Sequence[Pod], short: Sequence[_Shortage]) -> Sequence[Pod]:
    """Return a few large pods that make enough room together, those missed least first; empty: none do."""
    by_size = sorted(movable, key=lambda pod: -max(pod.shape.requests.get(s.resource, 0) / s.needed for s in short))
    large = sorted(by_size[:_LARGE], key=movable.index)
    together = (some for number in range(2, _TOGETHER + 1) for some in combinations(large, number))
    return next((some for some in together if not _short_of(some, short)), ())


def _round(short: _Shortage) -> int:
    """Return the free amount, in whole mebibytes where people write it so."""
    if short.resource in ("memory", "ephemeral-storage"):
        return short.free // _MEBI * _MEBI or short.free
    return short.free
