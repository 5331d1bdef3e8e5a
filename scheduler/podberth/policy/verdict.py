"""The verdict of an evaluation, and the words for it."""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from podberth.policy.merge import Conflict, Skipped
from podberth.policy.objects import JsonObject
from podberth.policy.patch import Operation
from podberth.policy.spec import Rule, Write
from podberth.policy.words import cut, warning

ALLOWED, DENIED = 200, 403
MOST_WARNINGS = 30
MOST_REASONS = 32


class Effect(Struct, frozen=True):
    """The effect of one policy, or in modes warn and observe the one that it would have; the admission server counts
    these.
    """

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
    """In the mutating pass an effect for each policy that matched, in the validating pass for each that rejects."""
    conflicts: tuple[str, ...] = ()
    """Names of the policies that disagreed about this object."""
    lost: tuple[Write, ...] = ()
    """Labels by which an owner of the object (`Options.owner_selectors`) does not find it any more."""
    exempt: str | None = None
    """Why no policy applied, when none did."""


def warnings(texts: Iterable[str]) -> list[str]:
    """Return warnings as a response can carry them: short, each once, not too many."""
    found = list(dict.fromkeys(map(warning, texts)))
    if len(found) <= MOST_WARNINGS:
        return found
    return [*found[: MOST_WARNINGS - 1], f"and {len(found) - MOST_WARNINGS + 1} more warnings about metadata policies"]


def denial(rules: list[Rule]) -> str:
    """Return all reasons, one after the other."""
    said = "; ".join(rule.rejection for rule in rules[:MOST_REASONS])
    return said if len(rules) <= MOST_REASONS else f"{said}; and {len(rules) - MOST_REASONS} more rules"


def conflict(found: Conflict) -> str:
    """Return the text about rules that differ, and the one that wins."""
    wins = found.writes[-1]
    loses = next(write for write in found.writes if write.value != wins.value)
    return (
        f'{wins.field} {cut(wins.key, 40)}: {loses.rule.short_place} writes "{cut(loses.value, 16)}", '
        f'{wins.rule.short_place} writes "{cut(wins.value, 16)}" and wins'
    )


def skipped(found: Skipped) -> str:
    """Return the text about a write that was kept back, and the reason."""
    write = found.write
    return f"{write.field} {cut(write.key, 40)} not written for {write.rule.short_place}: {found.reason}"


def lost(write: Write) -> str:
    """Return which label takes an object away from its owner."""
    return (
        f'label {cut(write.key, 40)}: {write.rule.short_place} writes "{cut(write.value, 16)}", '
        "and the object's owner does not find it any more"
    )
