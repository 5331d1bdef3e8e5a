"""What comes out of an evaluation, and the words for it."""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from scheduler.policy.merge import Conflict, Skipped
from scheduler.policy.objects import JsonObject
from scheduler.policy.patch import Operation
from scheduler.policy.spec import Rule, Write

ALLOWED, DENIED = 200, 403
WARNING_LENGTH = 120
MOST_WARNINGS = 30
_MOST_REASONS, _REASON_LENGTH = 32, 1500


class Effect(Struct, frozen=True):
    """What one policy did, or (modes warn and observe) would have done; the admission server counts these."""

    policy: str
    namespace: str
    rejected: bool
    mutated: bool


class Verdict(Struct, frozen=True):
    """The answer to one request. `object` is the object after the patch; the given one when denied or unchanged."""

    object: JsonObject | None
    allowed: bool = True
    code: int = ALLOWED
    message: str = ""
    patch: list[Operation] = []
    warnings: list[str] = []
    audit: Mapping[str, str] = {}
    effects: tuple[Effect, ...] = ()
    """Of the mutating pass: one for each policy that matched; of the validating one: one for each that rejects."""
    conflicts: tuple[str, ...] = ()
    """Names of the policies that disagreed about this object."""
    exempt: str | None = None
    """Why no policy applied, when none did."""


def warning(text: str) -> str:
    """A text as a warning header can carry it."""
    plain = "".join(c if c.isprintable() else "?" for c in text)
    return _cut(plain, WARNING_LENGTH)


def warnings(texts: Iterable[str]) -> list[str]:
    """Warnings as a response can carry them: short, each once, not too many."""
    found = list(dict.fromkeys(map(warning, texts)))
    if len(found) <= MOST_WARNINGS:
        return found
    return [*found[: MOST_WARNINGS - 1], f"and {len(found) - MOST_WARNINGS + 1} more warnings about metadata policies"]


def rejection(rule: Rule) -> str:
    """Which rule rejects, and why: its own message, or else its predicate."""
    return _cut(f"{rule}: {rule.action.message or f'rejects {rule.predicate}'}", _REASON_LENGTH)


def denial(rules: list[Rule]) -> str:
    """All reasons, one after the other."""
    said = "; ".join(rejection(rule) for rule in rules[:_MOST_REASONS])
    return said if len(rules) <= _MOST_REASONS else f"{said}; and {len(rules) - _MOST_REASONS} more rules"


def would_reject(rule: Rule) -> str:
    """What a rule in mode warn has to say."""
    return f"would be rejected by {_place(rule)}: {rule.action.message or rule.predicate}"


def would_write(found: Write) -> str:
    """What a rule in mode warn would do."""
    return f"{_place(found.rule)} would write {wish(found)}"


def wish(write: Write) -> str:
    """A write in words."""
    return f'{write.field} {write.key}="{write.value}"'


def conflict(found: Conflict) -> str:
    """Who differs, and who wins."""
    wins = found.writes[-1]
    loses = next(write for write in found.writes if write.value != wins.value)
    return (
        f'{wins.field} {_cut(wins.key, 40)}: {_place(loses.rule)} writes "{_cut(loses.value, 16)}", '
        f'{_place(wins.rule)} writes "{_cut(wins.value, 16)}" and wins'
    )


def skipped(found: Skipped) -> str:
    """What was not written, and why."""
    write = found.write
    return f"{write.field} {_cut(write.key, 40)} not written for {_place(write.rule)}: {found.reason}"


def _place(rule: Rule) -> str:
    """A rule's place where there is little room."""
    return f"{_cut(rule.policy, 28)}/{_cut(rule.name, 24) or f'rules[{rule.index}]'}"


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 3]}..."
