"""Namespaces, and the kinds that select pods: Service, ReplicaSet, StatefulSet, PodDisruptionBudget and the like."""

from collections.abc import Mapping
from typing import ClassVar

import msgspec
from msgspec import Struct

from scheduler.model import wire
from scheduler.model.parts import whole
from scheduler.model.pod import Interner
from scheduler.model.selectors import NOTHING, LabelSelector, Requirement, SelectorError, parse_label_selector

_selector_decoder = msgspec.json.Decoder(wire.LabelSelector)
_budget_decoder = msgspec.json.Decoder(wire.BudgetStatus)
_labels_decoder = msgspec.json.Decoder(dict[str, str])
_MANY = 256
BY_MAP = frozenset(("Service", "ReplicationController"))
"""Kinds whose selector is a plain map of labels."""


class Namespace(Struct, gc=False):
    """A namespace and its labels."""

    name: str
    uid: str
    resource_version: str
    labels: Mapping[str, str]

    namespace: ClassVar[str] = ""
    """Empty: namespaces are cluster-scoped."""


class SelectingObject(Struct, gc=False):
    """An object that selects pods of its namespace."""

    kind: str
    namespace: str
    name: str
    uid: str
    resource_version: str
    selector: LabelSelector
    problem: str | None = None
    allowed: int = 0
    """Disruptions that a PodDisruptionBudget still allows."""
    disrupted: frozenset[str] = frozenset()
    """Names of pods whose eviction the budget has accounted for already."""


def parse_namespace(namespace: wire.Namespace, interner: Interner) -> Namespace:
    """Build a namespace from its decoded wire form."""
    meta = namespace.metadata
    return Namespace(meta.name, meta.uid, meta.resource_version, interner.labels(meta.labels))


def parse_selecting(kind: str, wired: wire.PodSelecting) -> SelectingObject:
    """Build a selecting object; a selector that does not parse selects nothing and is named in `problem`."""
    meta = wired.metadata
    text = wire.present(wired.spec.selector)
    selector, problem = NOTHING, None
    if text:
        try:
            if kind in BY_MAP:
                pairs = _labels_decoder.decode(text)
                if pairs:
                    only = {value: frozenset((value,)) for value in set(pairs.values())}
                    selector = LabelSelector(tuple([Requirement(key, "In", only[pairs[key]]) for key in sorted(pairs)]))
            else:
                selector = parse_label_selector(_selector_decoder.decode(text), "spec.selector")
        except SelectorError as error:
            problem = str(error)
    if len(selector.requirements) > _MANY:
        whole(selector.working_out())  # now: so large an object is decoded beside the loop
    built = SelectingObject(kind, meta.namespace, meta.name, meta.uid, meta.resource_version, selector, problem)
    if kind == "PodDisruptionBudget" and wire.present(wired.status):
        status = _budget_decoder.decode(wire.present(wired.status))
        built.allowed = status.disruptions_allowed
        built.disrupted = frozenset(status.disrupted_pods or ())
    return built
