"""What an evaluation looks at, counted: each write once, each guard by its key, each text made once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from podberth.model.selectors import LabelSelector, Requirement
from podberth.policy.evaluate import evaluate
from podberth.policy.options import Options
from podberth.policy.parse import parse
from podberth.policy.spec import Policies, Predicate
from tests.unit.policy.build import Object, config_map, policies, policy, rule


class Looked(dict[str, str]):
    """A map that counts how often somebody looks a key up."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.times = 0

    def get(self, key: str, default: Any = None) -> Any:
        """Count, and look."""
        self.times += 1
        return super().get(key, default)


class Walked(tuple[Requirement, ...]):
    """Requirements that count how often somebody walks through them."""

    times = 0

    def __iter__(self) -> Iterator[Requirement]:
        type(self).times += 1
        return super().__iter__()


def writers(count: int, writes: int, mode: str) -> Object:
    """A policy of rules that match everything and write labels."""
    rules = [rule(set_labels={f"k{w}": f"v{r}" for w in range(writes)}) for r in range(count)]
    return policy("writer", *rules, mode=mode)


@pytest.mark.parametrize("mode", ["enforce", "warn", "observe"])
def test_each_write_is_looked_at_once(mode: str) -> None:
    """Whatever the mode, the object is asked at most once for each write of each rule (S2: it was thrice)."""
    labels = Looked({"app": "web"})
    obj = config_map()
    obj["metadata"]["labels"] = labels
    evaluate(policies(writers(64, 32, mode)), "CREATE", obj)
    assert labels.times <= 64 * 32


def test_owners_selectors_are_walked_once() -> None:
    """A selector of an owner is read once for an evaluation, not once for each write."""
    Walked.times = 0
    asked = Walked(Requirement(f"other-{i}", "Exists") for i in range(100))
    options = Options(owner_selectors=(LabelSelector(asked),))
    evaluate(
        policies(writers(8, 32, "warn"), policy("b", rule(set_labels={"x": "y"}))),
        "CREATE",
        config_map(),
        None,
        options,
    )
    assert Walked.times == 1


def test_order_needs_no_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Policies of different names are put in order by their names: no predicate is spelled out for that."""
    spelled: list[Predicate] = []
    monkeypatch.setattr(Predicate, "__str__", lambda self: spelled.append(self) or "")  # type: ignore[func-returns-value]
    parsed = [parse(policy(f"p{i}", rule({"matchLabels": {"a": "b"}}, reject=True))) for i in range(9)]
    assert [one.name for one in Policies(reversed(parsed)).policies] == [f"p{i}" for i in range(9)]
    assert not spelled


def test_texts_are_made_once() -> None:
    """What mode warn says of a rule is worked out for the first request only, and is short whatever the rule holds."""
    long = policy("long", rule(reject=True, set_annotations=None), rule(set_annotations={"a": "x" * 8192}), mode="warn")
    held = policies(long)
    first, second = (evaluate(held, "CREATE", config_map()) for _ in range(2))
    assert first.warnings == second.warnings
    assert all(len(text) <= 120 for text in first.warnings)
    [parsed] = held.policies
    assert parsed.rules[1].announced is parsed.rules[1].announced


def test_audit_annotations_stop_where_they_are_full() -> None:
    """Of 4,000 matching rules the audit names as many as fit, and the text ends as it always did."""
    many = [policy(f"p{i:02}", *(rule({"matchLabels": {}}) for _ in range(64))) for i in range(60)]
    found = evaluate(policies(*many), "CREATE", config_map()).audit["matched"]
    assert len(found) == 1024 and found.endswith("...") and found.startswith("p00/rules[0],p00/rules[1],")
