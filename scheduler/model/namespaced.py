"""Namespaces, and the kinds that select pods: Service, ReplicaSet, StatefulSet, PodDisruptionBudget and the like.

A tenant may write a selector of 90,000 labels, or one of 4,000 a hundred times a second. So a long one is read when
somebody asks for it, in parts, by whoever asks; an object that changes in other things keeps what was read.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import msgspec
from msgspec import Struct, field

from scheduler.model import wire
from scheduler.model.large_selectors import label_selector_in_parts, selector_of_labels
from scheduler.model.parts import Parts
from scheduler.model.pod import Interner
from scheduler.model.selectors import NOTHING, LabelSelector, Requirement, SelectorError, parse_label_selector

_selector_decoder = msgspec.json.Decoder(wire.LabelSelector)
_budget_decoder = msgspec.json.Decoder(wire.BudgetStatus)
LONG = 2 << 10
"""A selector of fewer bytes takes less than half a millisecond to read, and is read at once."""
_LARGE = 64 << 10
"""One of more bytes is decoded where it arrives, beside the loop: 30,000 labels take some 10 ms."""
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


class UnreadSelector:
    """A long selector as it is written, and what was read of it so far."""

    __slots__ = ("_reading", "problem", "selector", "text")

    def __init__(self, kind: str, text: bytes) -> None:
        """Raises msgspec.DecodeError when a field has the wrong JSON type."""
        self.text = text
        self.selector: LabelSelector | None = None
        """None: it is not read."""
        self.problem: str | None = None
        decoded = _decoded(kind, text)
        self._reading: Parts[LabelSelector] | None = _in_parts(decoded) if len(text) > _LARGE else None

    def read(self, kind: str, charge: Callable[[int], None]) -> LabelSelector:
        """Read what is left; raises what `charge` raises, and goes on there when it is asked again."""
        if self._reading is None:
            self._reading = _in_parts(_decoded(kind, self.text))
        while self.selector is None:
            try:
                steps = next(self._reading)
            except StopIteration as end:
                self.selector = end.value
            except SelectorError as error:
                self.selector, self.problem = NOTHING, str(error)
            else:
                charge(steps)
        self._reading = None
        return self.selector


class SelectingObject(Struct, gc=False):
    """An object that selects pods of its namespace."""

    kind: str
    namespace: str
    name: str
    uid: str
    resource_version: str
    written: LabelSelector | UnreadSelector
    wrong: str | None = None
    """Why a selector that was read at once can't be honoured."""
    allowed: int = 0
    """Disruptions that a PodDisruptionBudget still allows."""
    healthy: int = 0
    """Ready pods that it counts, by its status."""
    desired: int = 0
    """So many of them there have to be."""
    seen: bool = True
    """Whether its status is about the spec as it is now."""
    always_allow: bool = False
    """Pods that are not ready may always be evicted."""
    disrupted: Mapping[str, Any] = field(default_factory=dict)
    """Names of pods whose eviction the budget has accounted for already → when it was allowed.

    A dict of texts, which the garbage collector does not look through (up to Python 3.13). A set it does, each time: a
    tenant's budget may name 20,000 pods, and be written all the time.
    """

    @property
    def selector(self) -> LabelSelector:
        """What it selects; a long one is read at once if nobody has done so (`read`)."""
        written = self.written
        if isinstance(written, LabelSelector):
            return written
        return written.selector or written.read(self.kind, _free)

    @property
    def problem(self) -> str | None:
        """Why its selector selects nothing, if it can't be honoured."""
        written = self.written
        if isinstance(written, LabelSelector):
            return self.wrong
        _ = self.selector
        return written.problem

    @property
    def complete(self) -> bool:
        """Whether its selector is read."""
        return isinstance(self.written, LabelSelector) or self.written.selector is not None

    def read(self, charge: Callable[[int], None]) -> None:
        """Read the selector in parts; `charge` is told the steps that each took.

        Raises what `charge` raises; asked again, it goes on with the next part.
        """
        if not isinstance(self.written, LabelSelector) and self.written.selector is None:
            self.written.read(self.kind, charge)

    def keep_read(self, before: "SelectingObject") -> None:
        """Take over what was read of an earlier version's selector, if that is the same text."""
        old, new = before.written, self.written
        if isinstance(old, UnreadSelector) and isinstance(new, UnreadSelector) and old.text == new.text:
            self.written = old


def parse_namespace(namespace: wire.Namespace, interner: Interner) -> Namespace:
    """Build a namespace from its decoded wire form."""
    meta = namespace.metadata
    return Namespace(meta.name, meta.uid, meta.resource_version, interner.labels(meta.labels))


def parse_selecting(kind: str, wired: wire.PodSelecting) -> SelectingObject:
    """Build a selecting object; a selector that does not parse selects nothing and is named in `problem`."""
    meta = wired.metadata
    text = wire.present(wired.spec.selector)
    written: LabelSelector | UnreadSelector = NOTHING
    problem = None
    if len(text) > LONG:
        written = UnreadSelector(kind, text)
    elif text:
        try:
            written = _parsed(_decoded(kind, text))
        except SelectorError as error:
            problem = str(error)
    built = SelectingObject(kind, meta.namespace, meta.name, meta.uid, meta.resource_version, written, problem)
    if kind == "PodDisruptionBudget":
        said = wire.present(wired.status)
        status = _budget_decoder.decode(said) if said else wire.BudgetStatus()
        built.allowed, built.disrupted = status.disruptions_allowed, status.disrupted_pods or {}
        built.healthy, built.desired = status.current_healthy, status.desired_healthy
        built.seen = status.observed_generation >= meta.generation
        built.always_allow = wired.spec.unhealthy_pod_eviction_policy == "AlwaysAllow"
    return built


def _decoded(kind: str, text: bytes) -> dict[str, str] | wire.LabelSelector:
    return wire.texts_decoder.decode(text) if kind in BY_MAP else _selector_decoder.decode(text)


def _parsed(decoded: dict[str, str] | wire.LabelSelector) -> LabelSelector:
    if not isinstance(decoded, dict):
        return parse_label_selector(decoded, "spec.selector")
    # Nothing is checked of a map, and an empty one selects nothing.
    found = tuple([Requirement(key, "In", frozenset((value,))) for key, value in sorted(decoded.items())])
    return LabelSelector(found) if found else NOTHING


def _in_parts(decoded: dict[str, str] | wire.LabelSelector) -> Parts[LabelSelector]:
    if isinstance(decoded, dict):
        return selector_of_labels(decoded)
    return label_selector_in_parts(decoded, "spec.selector")


def _free(_steps: int) -> None:
    """Nobody is charged."""
