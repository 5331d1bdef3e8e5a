"""MetadataPolicy v1alpha1 of podberth.dev as the evaluator reads it; the field names are the seed's.

The seed: docs/design/metadata-policy.md of Kubernetes 1.2, `MetadataPolicySpec`, `PolicyPredicate`, `PolicyAction`.
`podberth.policy.parse` makes these from API objects; `podberth.policy.evaluate` applies them.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import groupby
from typing import Literal, NamedTuple

from msgspec import Struct, structs

from podberth.model.selectors import Requirement
from podberth.policy.keys import SCHEDULER_NAME, reserved_for

GROUP, VERSION, KIND = "podberth.dev", "v1alpha1", "MetadataPolicy"
Mode = Literal["enforce", "warn", "observe"]
MODES: tuple[Mode, ...] = ("enforce", "warn", "observe")

# Bounds; manifests/crd-metadatapolicies.yaml has the same (tests/unit/policy/test_crd.py compares).
MAX_RULES = 64
MAX_CRITERIA = 16
MAX_VALUES = 32
MAX_WRITES = 32
MAX_TEXT = 8192
MAX_MESSAGE = 1024
MAX_RULE_NAME = 63
MAX_KINDS = 16
REASON_LENGTH = 1500
"""The largest number of characters of one rule in a denial."""
WARNING_LENGTH = 120
"""The largest number of characters of a warning: the API server cuts longer ones."""


class Predicate(Struct, frozen=True):
    """ANDed criteria; without any, it holds for every object."""

    labels: tuple[Requirement, ...] = ()
    annotations: tuple[Requirement, ...] = ()

    def holds(self, labels: Mapping[str, str], annotations: Mapping[str, str]) -> bool:
        """Return whether an object with these labels and annotations meets all criteria."""
        for criterion in self.labels:
            if not criterion.accepts(labels.get(criterion.key)):
                return False
        for criterion in self.annotations:  # noqa: SIM110 - this is asked for every rule of every request
            if not criterion.accepts(annotations.get(criterion.key)):
                return False
        return True

    def __str__(self) -> str:
        said = [f"label {criterion}" for criterion in self.labels]
        said += [f"annotation {criterion}" for criterion in self.annotations]
        return " and ".join(said)


class Action(Struct, frozen=True):
    """The action on an object that matches the predicate. With `reject`, the writes have no effect (as in the seed)."""

    reject: bool = False
    message: str = ""
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}


Field = Literal["label", "annotation"]


class Write(NamedTuple):
    """One rule's value for one key."""

    rule: "Rule"
    field: Field
    key: str
    value: str
    reserved_for: str = ""
    """What the key decides that policies should not (`keys.reserved_for`)."""


class Rule(Struct, frozen=True, dict=True):
    """One rule, with its place. Everything that each request needs of a rule is computed once."""

    policy: str
    index: int
    predicate: Predicate
    action: Action
    name: str = ""
    applies_to: tuple[str, ...] = ()
    """The kinds that it is about, as `Deployment.apps` (GroupKind.String() of apimachinery); empty: all of them."""

    def matches(self, kind: str, labels: Mapping[str, str], annotations: Mapping[str, str]) -> bool:
        """Return whether the rule is about an object of this kind (`objects.kind`), labels and annotations."""
        return (not self.applies_to or kind in self.applies_to) and self.predicate.holds(labels, annotations)

    @cached_property
    def writes(self) -> tuple[Write, ...]:
        """Return the values that it writes; a rule that rejects writes none."""
        if self.action.reject:
            return ()
        labels = [Write(self, "label", key, value, reserved_for(key)) for key, value in self.action.labels.items()]
        annotations = [
            Write(self, "annotation", key, value, reserved_for(key)) for key, value in self.action.annotations.items()
        ]
        return (*labels, *annotations)

    @property
    def scheduler(self) -> str | None:
        """The scheduler that it sends pods to."""
        if self.action.reject or (self.applies_to and "Pod" not in self.applies_to):
            return None
        return self.action.annotations.get(SCHEDULER_NAME)

    @cached_property
    def announced(self) -> tuple[tuple[Write, str], ...]:
        """Its writes and the warning about each, labels first, each field by key."""
        ordered = sorted(self.writes, key=lambda write: (write.field != "label", write.key))
        return tuple(
            (write, warning(f'{self.short_place} would write {write.field} {write.key}="{write.value}"'))
            for write in ordered
        )

    @cached_property
    def would_reject(self) -> str:
        """Return the warning of a rule that rejects, in mode warn."""
        why = self.action.message or str(self.predicate) or self.rejected
        return warning(f"would be rejected by {self.short_place}: {why}")

    @cached_property
    def rejection(self) -> str:
        """Return the rule that rejects, with its own message, or else its predicate."""
        return cut(f"{self}: {self.action.message or f'rejects {self.rejected}'}", REASON_LENGTH)

    @property
    def rejected(self) -> str:
        """The objects that it matches, in words."""
        kinds = " or ".join(self.applies_to) or "object"
        criteria = str(self.predicate)
        return f"every {kinds} where {criteria}" if criteria else f"every {kinds}"

    @cached_property
    def short_place(self) -> str:
        """The rule's place where there is little room."""
        return f"{cut(self.policy, 28)}/{cut(self.name, 24) or f'rules[{self.index}]'}"

    @cached_property
    def place(self) -> str:
        """Return the short name of the rule: policy/name, or policy/rules[i]."""
        return f"{self.policy}/{self.name or f'rules[{self.index}]'}"

    def __str__(self) -> str:
        return f'MetadataPolicy "{self.policy}" ' + (f'rule "{self.name}"' if self.name else f"rules[{self.index}]")


class Policy(Struct, frozen=True):
    """One MetadataPolicy. No namespace: it applies to any (files for `berth policy eval` need not name one)."""

    name: str
    namespace: str = ""
    mode: Mode = "enforce"
    rules: tuple[Rule, ...] = ()


class Policies:
    """Policies in order of name, then rule index, whatever order they were given in."""

    def __init__(self, policies: Iterable[Policy] = ()) -> None:
        self.policies = tuple(_ordered(policies))
        self._in: dict[str, Policies] = {}

    def of(self, namespace: str) -> "Policies":
        """Return the policies that apply in a namespace. All do when it is not known which one it is ("")."""
        if not namespace or not self.policies:
            return self
        found = self._in.get(namespace)
        if found is None:
            here = [policy for policy in self.policies if policy.namespace in ("", namespace)]
            found = self._in[namespace] = self if len(here) == len(self.policies) else Policies(here)
        return found

    def enforced(self) -> "Policies":
        """Return the same policies as they would be once all of them enforce."""
        return Policies(structs.replace(policy, mode="enforce") for policy in self.policies)

    @cached_property
    def enforcing(self) -> tuple[Rule, ...]:
        """The rules that decide, in order."""
        return tuple(rule for policy in self.policies if policy.mode == "enforce" for rule in policy.rules)


def _ordered(policies: Iterable[Policy]) -> Iterator[Policy]:
    """Yield the policies in order. A file may have a name twice, which a namespace can't: then the content decides."""

    def place(policy: Policy) -> tuple[str, str, str]:
        return policy.name, policy.namespace, policy.mode

    for _, found in groupby(sorted(policies, key=place), place):
        namesakes = list(found)
        yield from namesakes if len(namesakes) == 1 else sorted(namesakes, key=_content)


def _content(policy: Policy) -> list[str]:
    return [
        f"{rule.name} {rule.applies_to} {rule.predicate} {rule.action.reject} {rule.action.message} "
        f"{sorted(rule.action.labels.items())} {sorted(rule.action.annotations.items())}"
        for rule in policy.rules
    ]


def cut(text: str, length: int) -> str:
    """Return a text, shortened if it is too long."""
    return text if len(text) <= length else f"{text[: length - 3]}..."


def warning(text: str) -> str:
    """Return a text as a warning header can carry it."""
    short = cut(text, WARNING_LENGTH)  # first, as the text may hold a whole annotation
    return short if short.isprintable() else "".join(c if c.isprintable() else "?" for c in short)
