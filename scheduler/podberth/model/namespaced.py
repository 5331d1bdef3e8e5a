"""Namespaces, and the kinds that select pods: Service, ReplicaSet, StatefulSet, PodDisruptionBudget and the like."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct, field

from podberth.model import wire
from podberth.model.limits import Count
from podberth.model.metadata import ClusterScoped
from podberth.model.pod import Interner
from podberth.model.selectors import NOTHING, LabelSelector, Requirement, SelectorError, parse_label_selector

_selector_decoder = msgspec.json.Decoder(wire.LabelSelector)
_budget_decoder = msgspec.json.Decoder(wire.BudgetStatus)
BY_MAP = frozenset(("Service", "ReplicationController"))
"""Kinds whose selector is a plain map of labels."""


class Namespace(ClusterScoped, gc=False, frozen=True):
    """A namespace and its labels."""

    labels: Mapping[str, str]


class SelectingObject(Struct, gc=False):
    """An object that selects pods of its namespace."""

    kind: str
    namespace: str
    name: str
    uid: str
    resource_version: str
    selector: LabelSelector
    """If it is beyond the limits, only its first requirements count, so that it selects more."""
    problem: str | None = None
    """Why its selector selects nothing, or more than it says."""
    allowed: int = 0
    """Disruptions that a PodDisruptionBudget still allows."""
    healthy: int = 0
    """Ready pods that it counts, by its status."""
    desired: int = 0
    """The number of them that there have to be."""
    seen: bool = True
    """Its status is of the spec as it is now (observedGeneration)."""
    always_allow: bool = False
    """Pods that are not ready may always be evicted."""
    disrupted: Mapping[str, Any] = field(default_factory=dict)
    """Names of pods whose eviction the budget has accounted for already → when it was allowed.

    A dict of texts, which the garbage collector does not look through (up to Python 3.13). A set it does, each time: a
    tenant's budget may name 20,000 pods, and be written all the time.
    """


def parse_namespace(namespace: wire.Namespace, interner: Interner) -> Namespace:
    """Build a namespace from its decoded wire form."""
    meta = namespace.metadata
    return Namespace(meta.name, meta.uid, meta.resource_version, interner.labels(meta.labels))


def parse_selecting(kind: str, wired: wire.PodSelecting, interner: Interner) -> SelectingObject:
    """Build a selecting object; a selector that does not parse selects nothing and is named in `problem`."""
    meta = wired.metadata
    text = wire.present(wired.spec.selector)
    selector, problem = NOTHING, None
    if text:
        count = Count(interner.limits)
        try:
            selector = _parsed(kind, text, count)
        except SelectorError as error:
            problem = str(error)
        problem = problem or (None if count.excess is None else count.excess.text)
    built = SelectingObject(kind, meta.namespace, meta.name, meta.uid, meta.resource_version, selector, problem)
    if kind == "PodDisruptionBudget":
        said = wire.present(wired.status)
        status = _budget_decoder.decode(said) if said else wire.BudgetStatus()
        built.allowed, built.disrupted = status.disruptions_allowed, status.disrupted_pods or {}
        built.healthy, built.desired = status.current_healthy, status.desired_healthy
        built.seen = status.observed_generation >= meta.generation
        built.always_allow = wired.spec.unhealthy_pod_eviction_policy == "AlwaysAllow"
    return built


def _parsed(kind: str, text: bytes, count: Count) -> LabelSelector:
    """Return the selector, cut to the limits. Raises SelectorError."""
    most = count.limits.selector_requirements
    if kind in BY_MAP:
        # Nothing is checked of a map, and an empty one selects nothing.
        labels = sorted(wire.texts_decoder.decode(text).items())
        if not count.allows(len(labels), "selector_requirements", "labels in spec.selector"):
            labels = labels[:most]
        found = tuple([Requirement(key, "In", frozenset((value,))) for key, value in labels])
        return LabelSelector(found) if found else NOTHING
    selector = _selector_decoder.decode(text)
    if not count.allows_selector(selector, "spec.selector"):
        selector = wire.LabelSelector(
            dict(sorted((selector.match_labels or {}).items())[: most // 2]),
            [
                one
                for one in (selector.match_expressions or ())[: most // 2]
                if len(one.values or ()) <= count.limits.requirement_values
            ],
        )
    return parse_label_selector(selector, "spec.selector")
