"""Label selectors and node selectors with Go's semantics.

Mirrors apimachinery `pkg/labels/selector.go` and component-helpers
`scheduling/corev1/nodeaffinity/nodeaffinity.go`: NotIn and DoesNotExist hold for an
absent key, Gt and Lt parse as strconv.ParseInt does, a null selector selects nothing
and an empty one everything, an empty node selector term selects no node.

Indexes look a label selector up by its conditions, one for each label key: `app In (a, b), app NotIn (b), tier Exists`
says the same as `app In (a)` and `tier` present. So it costs them what its keys and values are, however often it names
them.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import cached_property

from msgspec import Struct

from podberth.model import wire
from podberth.model.mistakes import as_json

Labels = Mapping[str, str]

_GO_INT = re.compile(r"[+-]?[0-9]+")
_INT64_MIN, _INT64_MAX = -(1 << 63), (1 << 63) - 1
NAME = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
SUBDOMAIN = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*"
"""Patterns of a label's name, which values are like, too, and of the DNS name before it."""
_NAME = re.compile(NAME)
_VALUE = re.compile(rf"(?:{NAME})?")
_KEY = re.compile(rf"(?:(?=[^/]{{1,253}}/){SUBDOMAIN}/)?{NAME}")
"""A legal label key, as `is_qualified_name` describes it."""


class SelectorError(ValueError):
    """A selector that the API's own parser refuses; the text names field and value."""


def parse_go_int(text: str) -> int | None:
    """Return what strconv.ParseInt(text, 10, 64) returns, or None where it fails (underscores, spaces, overflow)."""
    if not _GO_INT.fullmatch(text):
        return None
    number = int(text)
    return number if _INT64_MIN <= number <= _INT64_MAX else None


def is_label_value(text: str) -> bool:
    """Return whether the text is a legal label value (empty, or at most 63 characters of a qualified name)."""
    return text == "" or _NAME.fullmatch(text) is not None


def is_qualified_name(text: str) -> bool:
    """Return whether the text is a legal label key: an optional DNS prefix, a slash, a name."""
    return _KEY.fullmatch(text) is not None


class Requirement(Struct, frozen=True, gc=False):
    """One requirement on one label; `number` is set for Gt and Lt only."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()
    number: int = 0

    def accepts(self, value: str | None) -> bool:
        """Return whether a label with this value (None: absent) meets the requirement."""
        match self.operator:
            case "In":
                return value is not None and value in self.values
            case "NotIn":
                return value is None or value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
        if value is None:
            return False
        number = parse_go_int(value)
        if number is None:
            return False
        return number > self.number if self.operator == "Gt" else number < self.number

    def __str__(self) -> str:
        match self.operator:
            case "In":
                return f"{self.key} in ({', '.join(sorted(self.values))})"
            case "NotIn":
                return f"{self.key} not in ({', '.join(sorted(self.values))})"
            case "Exists":
                return f"{self.key} exists"
            case "DoesNotExist":
                return f"{self.key} does not exist"
        return f"{self.key} {'>' if self.operator == 'Gt' else '<'} {self.number}"


def parse_requirement(key: str, operator: str, values: Sequence[str], path: str) -> Requirement:
    """Parse and check one requirement as labels.NewRequirement does.

    Raises SelectorError naming the field path.
    """
    if not is_qualified_name(key):
        raise SelectorError(f"{path}.key: Invalid value: {as_json(key)}: not a legal label key")
    match operator:
        case "In" | "NotIn":
            if not values:
                raise SelectorError(f"{path}.values: Invalid value: []: for {operator} the values can't be empty")
        case "Exists" | "DoesNotExist":
            if values:
                raise SelectorError(f"{path}.values: Invalid value: {as_json(values)}: must be empty for {operator}")
        case "Gt" | "Lt":
            if len(values) != 1:
                raise SelectorError(f"{path}.values: Invalid value: {as_json(values)}: {operator} takes one value")
        case _:
            wanted = "want In, NotIn, Exists, DoesNotExist, Gt or Lt"
            raise SelectorError(f"{path}.operator: Unsupported value: {as_json(operator)}: {wanted}")
    if not all(map(_VALUE.fullmatch, values)):
        for i, value in enumerate(values):
            if not is_label_value(value):
                raise SelectorError(f"{path}.values[{i}]: Invalid value: {as_json(value)}: not a legal label value")
    if operator in ("Gt", "Lt"):
        number = parse_go_int(values[0])
        if number is None:
            raise SelectorError(
                f"{path}.values[0]: Invalid value: {as_json(values[0])}: for {operator} it must be an integer"
            )
        return Requirement(key, operator, frozenset(), number)
    return Requirement(key, operator, frozenset(values))


class Kind(Enum):
    """A test that a condition makes on the value of its key."""

    IN = auto()
    """The key must be there, with one of the values."""
    NOT_IN = auto()
    """The key may be absent, but may not have one of the values."""
    PRESENT = auto()
    """The key must be there, and may not have one of the values. There may be no values."""
    ABSENT = auto()
    """The key may not be there."""


WITHOUT = (Kind.NOT_IN, Kind.ABSENT)
"""Tests that a thing without the label passes."""
_ALIKE = {"In": Kind.IN, "NotIn": Kind.NOT_IN}
"""Operators that are a test by themselves, if there are values."""


class Condition(Struct, frozen=True, gc=False):
    """One test for all that a selector asks of one label key."""

    key: str
    kind: Kind
    values: frozenset[str] = frozenset()

    def accepts(self, value: str | None) -> bool:
        """Return whether a label with this value (None: absent) meets the condition."""
        if value is None:
            return self.kind in WITHOUT
        if self.kind is Kind.ABSENT:
            return False
        return (value in self.values) == (self.kind is Kind.IN)


def conditions_of(requirements: Sequence[Requirement]) -> tuple[Condition, ...] | None:
    """Return one condition for each key, for requirements all of which must hold; None: no labels meet them."""
    by_key: dict[str, list[Requirement]] = {}
    for requirement in requirements:
        by_key.setdefault(requirement.key, []).append(requirement)
    found: list[Condition] = []
    for key, of_key in by_key.items():
        one = of_key[0]
        # Mostly there is one on each key, In or NotIn.
        simple = len(of_key) == 1 and one.operator in _ALIKE and bool(one.values)
        condition = Condition(key, _ALIKE[one.operator], one.values) if simple else _merged(key, of_key)
        if condition is None:
            return None
        found.append(condition)
    return tuple(found)


def _merged(key: str, requirements: list[Requirement]) -> Condition | None:
    wanted: frozenset[str] | None = None
    excluded: set[str] = set()
    present = absent = False
    for requirement in requirements:
        match requirement.operator:
            case "In":
                wanted = requirement.values if wanted is None else wanted & requirement.values
            case "NotIn":
                excluded |= requirement.values
            case "Exists":
                present = True
            case "DoesNotExist":
                absent = True
            case operator:
                raise ValueError(f"{operator} is no operator of a label selector")
    if wanted is not None:
        left = wanted - excluded
        return Condition(key, Kind.IN, frozenset(left)) if left and not absent else None
    if absent:
        return None if present else Condition(key, Kind.ABSENT)
    return Condition(key, Kind.PRESENT if present else Kind.NOT_IN, frozenset(excluded))


def hold(conditions: Iterable[Condition], labels: Mapping[str, str]) -> bool:
    """Return whether all conditions hold for these labels."""
    get = labels.get
    return all(condition.accepts(get(condition.key)) for condition in conditions)


class LabelSelector(Struct, frozen=True, dict=True):
    """ANDed requirements; `nothing` is the null selector, which matches no object."""

    requirements: tuple[Requirement, ...] = ()
    nothing: bool = False

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        # Selectors are keys of counts that are looked up at every decision, and may be large: hash them once.
        return hash((self.requirements, self.nothing))

    @cached_property
    def conditions(self) -> tuple[Condition, ...] | None:
        """Return the requirements as one condition for each key; None: no labels meet them."""
        return None if self.nothing else conditions_of(self.requirements)

    @cached_property
    def size(self) -> int:
        """Return how many requirements and values it has."""
        return sum([1 + len(requirement.values) for requirement in self.requirements])

    @cached_property
    def is_everything(self) -> bool:
        """Return whether this is the empty selector `{}`."""
        return not self.nothing and not self.requirements

    def matches(self, labels: Labels) -> bool:
        """Return whether every requirement holds for these labels."""
        if self.nothing:
            return False
        get = labels.get
        for requirement in self.requirements:  # noqa: SIM110 (all() takes twice as long, and budgets ask by the thousand)
            if not requirement.accepts(get(requirement.key)):
                return False
        return True

    def __str__(self) -> str:
        if self.nothing:
            return "nothing"
        return ", ".join(str(requirement) for requirement in self.requirements) or "everything"


NOTHING = LabelSelector(nothing=True)
EVERYTHING = LabelSelector()


def parse_label_selector(selector: wire.LabelSelector | None, path: str) -> LabelSelector:
    """Parse metav1.LabelSelector; None selects nothing.

    Raises SelectorError naming the field path.
    """
    if selector is None:
        return NOTHING
    found = requirements_of(selector.match_labels, path) if selector.match_labels else []
    if found and not selector.match_expressions:
        return LabelSelector(tuple(found))
    for i, expression in enumerate(selector.match_expressions or ()):
        where = f"{path}.matchExpressions[{i}]"
        check_operator(expression.operator, where)
        found.append(parse_requirement(expression.key, expression.operator, expression.values or (), where))
    if not found:
        return EVERYTHING
    if len(found) == 1:
        return LabelSelector((found[0],))
    return LabelSelector(tuple(sorted(found, key=lambda r: (r.key, r.operator, sorted(r.values)))))


def check_operator(operator: str, path: str) -> None:
    """Raise SelectorError for one that only selectors of nodes have."""
    if operator in ("Gt", "Lt"):
        raise SelectorError(f"{path}.operator: Unsupported value: {as_json(operator)}")


def requirements_of(labels: Labels, path: str) -> list[Requirement]:
    """Return the requirements of matchLabels, sorted: all keys and values are checked in one go.

    Raises SelectorError.
    """
    sets = {value: frozenset((value,)) for value in set(labels.values())}
    if not (all(map(_KEY.fullmatch, labels)) and all(map(_VALUE.fullmatch, sets))):
        for key, value in labels.items():
            parse_requirement(key, "In", (value,), f"{path}.matchLabels[{key}]")
    return [Requirement(key, "In", sets[value]) for key, value in sorted(labels.items())]


class FieldRequirement(Struct, frozen=True):
    """metadata.name equals (In) or differs from (NotIn) one name."""

    key: str
    operator: str
    name: str

    @property
    def names_node(self) -> bool:
        """Return whether the field is a node's name."""
        return self.key == "metadata.name"

    def accepts(self, node_name: str) -> bool:
        """Return whether a node of this name meets the requirement; other fields read as empty."""
        value = node_name if self.key == "metadata.name" else ""
        return (value == self.name) == (self.operator == "In")

    def __str__(self) -> str:
        return f"{self.key} {'=' if self.operator == 'In' else '≠'} {self.name}"


@dataclass(frozen=True, slots=True)
class NodeSelectorTerm:
    """One ORed term: ANDed label and field requirements, or the error that its parsing gave."""

    labels: tuple[Requirement, ...]
    fields: tuple[FieldRequirement, ...]
    error: str | None = None
    names: frozenset[str] | None = None
    """Intersection of `metadata.name In` values, None when the term has none (what PreFilter narrows by)."""
    _hash: int | None = field(default=None, init=False, compare=False, repr=False)

    def __hash__(self) -> int:
        # A tenant's term may be a megabyte long, and is looked up many times.
        if self._hash is None:
            object.__setattr__(self, "_hash", hash((self.labels, self.fields, self.error, self.names)))
        return self._hash or 0

    def __str__(self) -> str:
        return " and ".join([*map(str, self.labels), *map(str, self.fields)]) or "no node"


_NO_TERM = wire.NodeSelectorTerm()


def parse_node_selector_term(term: wire.NodeSelectorTerm | None, path: str) -> NodeSelectorTerm:
    """Parse one term; an error is kept in it, for a required term with an error never matches."""
    term = term or _NO_TERM
    labels: list[Requirement] = []
    fields: list[FieldRequirement] = []
    errors: list[str] = []
    names: frozenset[str] | None = None
    for i, r in enumerate(term.match_expressions or ()):
        try:
            labels.append(parse_requirement(r.key, r.operator, r.values or (), f"{path}.matchExpressions[{i}]"))
        except SelectorError as error:
            errors.append(str(error))
    for i, r in enumerate(term.match_fields or ()):
        values = r.values or ()
        where = f"{path}.matchFields[{i}]"
        if r.operator not in ("In", "NotIn"):
            errors.append(f"{where}.operator: Unsupported value: {as_json(r.operator)}: want In or NotIn")
        elif len(values) != 1:
            errors.append(f"{where}.values: Invalid value: {as_json(values)}: must have one element")
        else:
            fields.append(FieldRequirement(r.key, r.operator, values[0]))
        if r.key == "metadata.name" and r.operator == "In":
            names = frozenset(values) if names is None else names & frozenset(values)
    return NodeSelectorTerm(tuple(labels), tuple(fields), "; ".join(errors) or None, names)


Missed = tuple[int, tuple[Requirement, ...], tuple[FieldRequirement, ...]]
"""The index of the term of a node selector that a node comes nearest to, and the requirements of it that fail there."""
NOTHING_MISSED: Missed = (0, (), ())


@dataclass(frozen=True, slots=True)
class NodeSelector:
    """ORed terms. Terms that are empty or did not parse are left out: they match no node."""

    terms: tuple[NodeSelectorTerm, ...]
    names: frozenset[str] | None = None
    """Node names that PreFilter narrows the search to; None: all nodes; empty: terms conflict."""
    _hash: int | None = field(default=None, init=False, compare=False, repr=False)

    def __hash__(self) -> int:
        if self._hash is None:
            object.__setattr__(self, "_hash", hash((self.terms, self.names)))
        return self._hash or 0

    def missed(self, name: str, labels: Labels) -> Missed:
        """Return what a node does not meet of the term that it comes nearest to."""
        nearest: Missed | None = None
        for i, term in enumerate(self.terms):
            of_labels = tuple(r for r in term.labels if not r.accepts(labels.get(r.key)))
            of_fields = tuple(f for f in term.fields if not f.accepts(name))
            if nearest is None or len(of_labels) + len(of_fields) < len(nearest[1]) + len(nearest[2]):
                nearest = i, of_labels, of_fields
            if not of_labels and not of_fields:
                break
        return nearest or NOTHING_MISSED

    def __str__(self) -> str:
        return " or ".join(f"({term})" if len(self.terms) > 1 else str(term) for term in self.terms) or "no node"


def parse_node_selector(selector: wire.NodeSelector, path: str) -> NodeSelector:
    """Parse core/v1 NodeSelector leniently, as GetRequiredNodeAffinity does."""
    raw = selector.node_selector_terms or ()
    return node_selector_of(
        [parse_node_selector_term(term, f"{path}.nodeSelectorTerms[{i}]") for i, term in enumerate(raw)]
    )


def node_selector_of(parsed: Sequence[NodeSelectorTerm]) -> NodeSelector:
    """Return the selector of these terms."""
    names: frozenset[str] | None = None
    if parsed and all(term.names is not None for term in parsed):
        names = frozenset(name for term in parsed for name in term.names or ())
    usable = tuple(term for term in parsed if term.error is None and (term.labels or term.fields))
    return NodeSelector(usable, names)
