"""Runs counterexamples of the analysis through the evaluator for several passes, and tells in words what happens."""

from podberth.policy import keys, objects
from podberth.policy.evaluate import evaluate
from podberth.policy.merge import merge
from podberth.policy.objects import JsonObject, Snapshot
from podberth.policy.qos import qos_class
from podberth.policy.spec import Policies, Rule, Write
from podberth.policy.verdict import Verdict
from podberth.policy.words import cut

MOST_PASSES = 12
VALUE = 120
"""The largest number of characters of a value that a message shows."""
_MOST_WRITES = 8


def passes(policies: Policies, obj: JsonObject) -> list[Verdict]:
    """Return the verdicts of repeated passes, until one denies, nothing changes, or an object recurs."""
    found: list[Verdict] = []
    seen: list[Snapshot] = []
    while len(found) < MOST_PASSES:
        verdict = evaluate(policies, "CREATE", obj)
        found.append(verdict)
        after = objects.snapshot(verdict.object)
        if not verdict.allowed or not verdict.patch or after in seen:
            break
        seen.append(after)
        obj = verdict.object or {}
    return found


def written(policies: Policies, obj: JsonObject) -> list[Write]:
    """Return the writes that one pass makes on an object that is not rejected."""
    is_pod = objects.is_pod(obj)
    labels, annotations = objects.snapshot(obj).labels, dict(objects.snapshot(obj).annotations)
    if is_pod:
        annotations[keys.QOS] = qos_class(obj)
    matching = [rule for rule in policies.enforcing if rule.matches(objects.kind(obj), labels, annotations)]
    merged = merge(matching, Snapshot(labels, annotations), is_pod)
    return [*merged.labels.values(), *merged.annotations.values()]


def poisoning(policies: Policies, obj: JsonObject, rule: Rule) -> tuple[list[Rule], str]:
    """Return the writes of the first pass that make a rule reject the result."""
    writes = written(policies, obj)
    enabling = [write for write in writes if _reads(write, rule)] or writes
    return [*_rules(enabling), rule], f"{_told(enabling)}; then {rule} rejects every later update"


def chain(policies: Policies, obj: JsonObject, rule: Rule) -> tuple[list[Rule], str]:
    """Return the way in which one pass makes another change the object again, and its end."""
    verdicts = passes(policies, obj)
    first = written(policies, obj)
    middle = verdicts[0].object or {}
    second = written(policies, middle)
    enabling = [write for write in first if any(_reads(write, of.rule) for of in second)] or first
    told = f"{_told(enabling)}; in a second pass {_told(second)}"
    others = [one for one in [*_rules(enabling), *_rules(second)] if one is not rule]
    return [*others, rule], f"{told}; {_ending(verdicts)}"


def _ending(verdicts: list[Verdict]) -> str:
    last = verdicts[-1]
    if not last.allowed:
        return f"pass {len(verdicts)} is rejected"
    if not last.patch:
        return f"it rests after {len(verdicts) - 1} passes"
    if len(verdicts) >= MOST_PASSES:
        return f"it still changes after {MOST_PASSES} passes"
    return "it never rests"


def _reads(write: Write, rule: Rule) -> bool:
    criteria = rule.predicate.labels if write.field == "label" else rule.predicate.annotations
    return any(criterion.key == write.key for criterion in criteria)


def _told(writes: list[Write]) -> str:
    told = [f"{write.rule} writes {shown(write)}" for write in writes[:_MOST_WRITES]]
    if len(writes) > _MOST_WRITES:
        told.append(f"and {len(writes) - _MOST_WRITES} more")
    return ", ".join(told) or "nothing is written"


def shown(write: Write) -> str:
    """Return a write in words, its value cut to what a reader needs."""
    return f'{write.field} {write.key}="{cut(write.value, VALUE)}"'


def _rules(writes: list[Write]) -> list[Rule]:
    return list({id(write.rule): write.rule for write in writes}.values())
