"""Parses MetadataPolicy objects into `podberth.policy.spec`, strictly: every problem is named by its field's path.

The CRD's schema and CEL rules (manifests/crd-metadatapolicies.yaml) refuse the same; this is for what was stored under
an older schema, and for files that never meet an API server. Next stage: `podberth.policy.evaluate`.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, cast

from podberth.model.mistakes import as_json
from podberth.model.selectors import Requirement, is_label_value
from podberth.policy import keys
from podberth.policy.kinds import CORE
from podberth.policy.spec import (
    GROUP,
    KIND,
    MAX_CRITERIA,
    MAX_KINDS,
    MAX_MESSAGE,
    MAX_RULE_NAME,
    MAX_RULES,
    MAX_TEXT,
    MAX_VALUES,
    MAX_WRITES,
    MODES,
    VERSION,
    Action,
    Mode,
    Policy,
    Predicate,
    Rule,
)

OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
_KIND = re.compile(r"[A-Z]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?")
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Characters that a terminal obeys instead of showing them; the native set separates its texts by four of them."""
_NO_CONTROL = "want no control characters but tabs and line ends"


class _Legal(NamedTuple):
    """Tests of the keys and values of a field, and the texts that are said of those that fail."""

    key: Callable[[str], bool]
    value: Callable[[str], bool]
    wrong_key: str
    wrong_value: str


_LABELS = _Legal(keys.is_label_key, is_label_value, "not a legal label key", "not a legal label value")
_ANNOTATIONS = _Legal(
    keys.is_annotation_key, lambda text: not CONTROL.search(text), "not a legal annotation key", _NO_CONTROL
)


class PolicyError(ValueError):
    """A policy that can't be accepted. `problems` name field, value and what was expected, in the API's grammar."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)

    @property
    def line(self) -> str:
        """The first problem, and how many more there are."""
        more = len(self.problems) - 1
        return self.problems[0] + (f" (and {more} more)" if more else "")


def parse(
    document: Any,
    allowed_prefixes: tuple[str, ...] = (),
    name: str = "",
    *,
    criteria: dict[Requirement, Requirement] | None = None,
    new: bool = False,
) -> Policy:
    """Return the policy that a MetadataPolicy object holds; `name` stands in where metadata has none.

    `criteria`: those of policies that were read before and are kept: equal ones are kept once. `new`: whether it has to
    be what the API takes today; a rule without a predicate may be stored, and matches everything. Raises PolicyError.
    """
    reader = _Reader(allowed_prefixes, {} if criteria is None else criteria, new)
    policy = reader.policy(document, name)
    if reader.problems:
        raise PolicyError(reader.problems)
    return policy


class _Reader:
    """Walks a document and collects what is wrong with it; values that come back after a problem are never used."""

    def __init__(self, allowed_prefixes: tuple[str, ...], criteria: dict[Requirement, Requirement], new: bool) -> None:
        self._new = new
        self.problems: list[str] = []
        self._allowed = allowed_prefixes
        self._criteria = criteria

    def policy(self, document: Any, name: str) -> Policy:
        found = self._map(document, "", ("apiVersion", "kind", "metadata", "spec", "status"))
        for field, wanted in (("apiVersion", f"{GROUP}/{VERSION}"), ("kind", KIND)):
            if found.get(field, wanted) != wanted:
                self._invalid(field, found[field], f"want {wanted}")
        metadata = self._map(found.get("metadata") or {}, "metadata")
        name = self._text(metadata.get("name") or name, "metadata.name")
        if not keys.is_subdomain(name):
            self._invalid("metadata.name", name, "want a DNS subdomain") if name else self._required("metadata.name")
        namespace = self._text(metadata.get("namespace") or "", "metadata.namespace")
        spec = self._map(found.get("spec") or {}, "spec", ("mode", "rules"))
        mode = spec.get("mode") or "enforce"
        if mode not in MODES:
            self._unsupported("spec.mode", mode, MODES)
        rules = [
            self._rule(item, f"spec.rules[{i}]", name, i)
            for i, item in enumerate(self._list(spec.get("rules"), "spec.rules", MAX_RULES))
        ]
        seen: set[str] = set()
        for rule in rules:
            if rule.name and rule.name in seen:
                self.problems.append(f"spec.rules[{rule.index}].name: Duplicate value: {_shown(rule.name)}")
            seen.add(rule.name)
        return Policy(name, namespace, cast(Mode, mode), tuple(rules))

    def _rule(self, item: Any, path: str, policy: str, index: int) -> Rule:
        found = self._map(item, path, ("name", "appliesTo", "policyPredicate", "policyAction"))
        name = self._text(found.get("name") or "", f"{path}.name", MAX_RULE_NAME)
        if name and not (keys.is_subdomain(name) and "." not in name):
            self._invalid(f"{path}.name", name, "want lower-case letters, digits and dashes (a DNS label)")
        kinds = self._kinds(found.get("appliesTo"), f"{path}.appliesTo")
        if self._new and found.get("policyPredicate") is None:
            self._required(f"{path}.policyPredicate")
        predicate = self._predicate(found.get("policyPredicate"), f"{path}.policyPredicate")
        if found.get("policyAction") is None:
            self._required(f"{path}.policyAction")
        action = self._action(found.get("policyAction") or {}, f"{path}.policyAction")
        return Rule(policy, index, predicate, action, name, kinds)

    def _kinds(self, item: Any, path: str) -> tuple[str, ...]:
        kinds: dict[str, None] = {}
        for i, kind in enumerate(self._list(item, path, MAX_KINDS)):
            where = f"{path}[{i}]"
            text = self._text(kind, where)
            name, dot, group = text.partition(".")
            if not _KIND.fullmatch(name) or (dot and not keys.is_subdomain(group)):
                if isinstance(kind, str):
                    self._invalid(
                        where, text, "want Kind.group, as Deployment.apps, or a kind of the core group, as Pod"
                    )
            elif not dot and name not in CORE:
                known = ", ".join(CORE)
                self._invalid(where, text, f"want its group, too, as in Deployment.apps; without a group are {known}")
            elif text in kinds:
                self.problems.append(f"{where}: Duplicate value: {_shown(text)}")
            kinds[text] = None
        if item == []:
            self.problems.append(f"{path}: Required value: want at least one kind; without appliesTo it is all of them")
        return tuple(kinds)

    def _predicate(self, item: Any, path: str) -> Predicate:
        found = self._map(item or {}, path, ("labelSelector", "annotationSelector"))
        return Predicate(
            tuple(self._selector(found.get("labelSelector"), f"{path}.labelSelector", _LABELS)),
            tuple(self._selector(found.get("annotationSelector"), f"{path}.annotationSelector", _ANNOTATIONS)),
        )

    def _selector(self, item: Any, path: str, legal: _Legal) -> Iterator[Requirement]:
        found = self._map(item or {}, path, ("matchLabels", "matchExpressions"))
        exact = self._texts(found.get("matchLabels"), f"{path}.matchLabels", MAX_CRITERIA, legal)
        for name, wanted in exact.items():
            yield self._once(Requirement(name, "In", frozenset((wanted,))))
        expressions = self._list(found.get("matchExpressions"), f"{path}.matchExpressions", MAX_CRITERIA)
        for i, expression in enumerate(expressions):
            yield self._requirement(expression, f"{path}.matchExpressions[{i}]", legal)

    def _requirement(self, item: Any, path: str, legal: _Legal) -> Requirement:
        found = self._map(item, path, ("key", "operator", "values"))
        name = self._text(found.get("key") or "", f"{path}.key")
        if not name:
            self._required(f"{path}.key")
        elif not legal.key(name):
            self._invalid(f"{path}.key", name, legal.wrong_key)
        operator = self._text(found.get("operator") or "", f"{path}.operator")
        values = [
            self._value(text, f"{path}.values[{j}]", legal)
            for j, text in enumerate(self._list(found.get("values"), f"{path}.values", MAX_VALUES))
        ]
        if operator not in OPERATORS:
            self._unsupported(f"{path}.operator", operator, OPERATORS)
        elif operator in ("In", "NotIn") and not values:
            self.problems.append(f"{path}.values: Required value: {operator} needs at least one")
        elif operator in ("Exists", "DoesNotExist") and values:
            self._invalid(f"{path}.values", values, f"must be empty for {operator}")
        return self._once(Requirement(name, operator, frozenset(values)))

    def _once(self, criterion: Requirement) -> Requirement:
        return self._criteria.setdefault(criterion, criterion)

    def _action(self, item: Any, path: str) -> Action:
        found = self._map(item, path, ("reject", "message", "updatedLabels", "updatedAnnotations"))
        reject = found.get("reject")
        if not isinstance(reject, bool | None):
            self._invalid(f"{path}.reject", reject, "want true or false")
        message = self._text(found.get("message") or "", f"{path}.message", MAX_MESSAGE)
        if CONTROL.search(message):
            self._invalid(f"{path}.message", message, _NO_CONTROL)
        labels = self._writes(found.get("updatedLabels"), f"{path}.updatedLabels", _LABELS)
        annotations = self._writes(found.get("updatedAnnotations"), f"{path}.updatedAnnotations", _ANNOTATIONS)
        scheduler = annotations.get(keys.SCHEDULER_NAME)
        if scheduler is not None and not keys.is_subdomain(scheduler):
            self._invalid(
                f"{path}.updatedAnnotations[{keys.SCHEDULER_NAME}]",
                scheduler,
                "want a DNS subdomain, as schedulers are named",
            )
        return Action(reject is True, message, labels, annotations)

    def _writes(self, item: Any, path: str, legal: _Legal) -> dict[str, str]:
        found = self._texts(item, path, MAX_WRITES, legal)
        for name in found:
            if keys.is_kubernetes_own(name, self._allowed):
                where = f"{path}[{_key(name)}]"
                self.problems.append(f"{where}: Forbidden: the prefix is reserved for Kubernetes itself")
        return found

    def _texts(self, item: Any, path: str, most: int, legal: _Legal) -> dict[str, str]:
        found = self._map(item or {}, path)
        if len(found) > most:
            self.problems.append(f"{path}: Too many: {len(found)}: must have at most {most} items")
        for name in found:
            if not legal.key(name):
                self._invalid(f"{path}[{_key(name)}]", name, legal.wrong_key)
        return {name: self._value(text, f"{path}[{_key(name)}]", legal) for name, text in found.items()}

    def _value(self, item: Any, path: str, legal: _Legal) -> str:
        text = self._text(item, path, MAX_TEXT)
        if not legal.value(text):
            self._invalid(path, text, legal.wrong_value)
        return text

    def _map(self, item: Any, path: str, known: tuple[str, ...] = ()) -> dict[str, Any]:
        if not isinstance(item, dict):
            self._invalid(path or "<policy>", item, "want a map")
            return {}
        for name in item:
            if not isinstance(name, str):
                self._invalid(f"{path}[{_key(name)}]" if path else str(name), name, "want a text as key")
            elif known and name not in known:
                where = f"{path}.{_key(name)}".lstrip(".")
                self.problems.append(f"{where}: Unknown field: want {', '.join(known)}")
        return {name: value for name, value in item.items() if isinstance(name, str)}

    def _list(self, item: Any, path: str, most: int) -> list[Any]:
        if item is None:
            return []
        if not isinstance(item, list):
            self._invalid(path, item, "want a list")
            return []
        if len(item) > most:
            self.problems.append(f"{path}: Too many: {len(item)}: must have at most {most} items")
        return item[:most]

    def _text(self, item: Any, path: str, most: int = MAX_TEXT) -> str:
        if not isinstance(item, str):
            # YAML reads an unquoted yes, 1 or 1.5 as something else than text.
            quoting = " (put it in quotes)" if isinstance(item, bool | int | float) else ""
            self._invalid(path, item, f"want a text{quoting}")
            return ""
        if len(item) > most:
            self.problems.append(f"{path}: Too long: may not be more than {most} characters")
        return item

    def _required(self, path: str) -> None:
        self.problems.append(f"{path}: Required value")

    def _invalid(self, path: str, value: Any, expected: str) -> None:
        self.problems.append(f"{path}: Invalid value: {_shown(value)}: {expected}")

    def _unsupported(self, path: str, value: Any, options: Sequence[str]) -> None:
        self.problems.append(f"{path}: Unsupported value: {_shown(value)}: want {', '.join(options)}")


def _key(name: Any) -> str:
    """Return a key as a path shows it: short, on one line."""
    return as_json(str(name))[1:-1]


def _shown(value: Any) -> str:
    match value:
        case dict():
            return "a map"
        case list():
            return "a list"
    return as_json(value)
