"""A preview of what policies would do to objects that exist, before anyone switches them on."""

from collections import Counter
from collections.abc import Iterable

from msgspec import Struct, field

from podberth.policy import keys, objects
from podberth.policy.evaluate import admitted
from podberth.policy.objects import JsonObject
from podberth.policy.options import Options
from podberth.policy.owners import Owner, lost_by
from podberth.policy.spec import Policies

SAMPLES = 20


class Kind(Struct):
    """Counts of objects of one kind."""

    objects: int = 0
    exempt: int = 0
    rejected: int = 0
    relabelled: int = 0


class Effects(Struct):
    """Counts of objects that one policy touches."""

    rejected: int = 0
    relabelled: int = 0


class Rejection(Struct, frozen=True, rename="camel"):
    """An object that would be rejected."""

    kind: str
    namespace: str
    name: str
    message: str


class Loss(Struct, frozen=True):
    """An owner that no longer finds the pods that it makes, because of a label that a policy writes."""

    kind: str
    namespace: str
    name: str
    policy: str
    label: str
    value: str


class Impact(Struct):
    """The counts of all effects. `schedulers`: pods by their scheduler now, and then. Samples are the first few."""

    total: Kind = field(default_factory=Kind)
    kinds: dict[str, Kind] = field(default_factory=dict)
    policies: dict[str, Effects] = field(default_factory=dict)
    schedulers: dict[str, dict[str, int]] = field(default_factory=dict)
    rejections: list[Rejection] = field(default_factory=list)
    losses: list[Loss] = field(default_factory=list)
    warnings: dict[str, int] = field(default_factory=dict)


def impact(policies: Policies, found: Iterable[JsonObject], options: Options, owners: Iterable[Owner] = ()) -> Impact:
    """Return the effects if each of these objects were created again and all policies were in mode enforce.

    `owners` are examined for the objects that they would make.
    """
    enforced = policies.enforced()
    result = Impact(policies={policy.name: Effects() for policy in enforced.policies})
    moves: Counter[tuple[str, str]] = Counter()
    said: Counter[str] = Counter()
    for obj in found:
        _count(result, enforced, obj, options, moves, said)
    for owner in owners:
        result.losses += [
            Loss(owner.kind, owner.namespace, owner.name, write.rule.policy, write.key, write.value)
            for write in lost_by(owner, enforced, options)
        ]
    result.losses = result.losses[:SAMPLES]
    for (now, then), number in sorted(moves.items()):
        result.schedulers.setdefault(now, {})[then] = number
    result.warnings = dict(said.most_common(SAMPLES))
    return result


def _count(
    result: Impact,
    policies: Policies,
    obj: JsonObject,
    options: Options,
    moves: Counter[tuple[str, str]],
    said: Counter[str],
) -> None:
    verdict = admitted(policies, "CREATE", obj, None, options)
    kind = objects.group_and_kind(obj)[1]
    counts = (result.total, result.kinds.setdefault(kind, Kind()))
    for count in counts:
        count.objects += 1
        count.exempt += verdict.exempt is not None
        count.rejected += not verdict.allowed
        count.relabelled += any(effect.mutated for effect in verdict.effects)
    for effect in verdict.effects:
        result.policies[effect.policy].rejected += effect.rejected
        result.policies[effect.policy].relabelled += effect.mutated
    said.update(verdict.warnings)
    if not verdict.allowed and len(result.rejections) < SAMPLES:
        metadata = obj.get("metadata") or {}
        result.rejections.append(
            Rejection(kind, str(metadata.get("namespace") or ""), str(metadata.get("name") or ""), verdict.message)
        )
    if objects.is_pod(obj) and verdict.exempt is None and verdict.allowed:
        moves[_scheduler(obj), _scheduler(verdict.object or {})] += 1


def _scheduler(obj: JsonObject) -> str:
    return str((obj.get("spec") or {}).get("schedulerName") or keys.DEFAULT_SCHEDULER)
