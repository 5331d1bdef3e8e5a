"""A preview of what policies would do to objects that exist, before anyone switches them on. Pure.

Objects are counted by what would become of them. Owners are found that would lose the pods they make, because a policy
writes a label that their selector reads: a ReplicaSet whose pods get another label than it selects by makes pods
without end. The policies write all the same, as their author says (decision 32), so that an owner is told of here, from
its selector and its template: by the operator's status and by `berth policy impact`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, TypedDict

import msgspec
from msgspec import Struct, field, structs

from podberth.model.selectors import LabelSelector
from podberth.policy import keys, objects
from podberth.policy.evaluate import admitted, evaluate
from podberth.policy.objects import JsonObject, group_and_kind
from podberth.policy.options import Options, OptionsError, selector
from podberth.policy.qos import PodSpec
from podberth.policy.spec import Policies, Write

SAMPLES = 20
OWNERS = frozenset(
    {
        ("", "ReplicationController"),
        ("apps", "DaemonSet"),
        ("apps", "Deployment"),
        ("apps", "ReplicaSet"),
        ("apps", "StatefulSet"),
        ("batch", "Job"),
    }
)
"""The kinds that make new objects in a loop when a label changes, as far as is known."""


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


# -- owners -----------------------------------------------------------------------------------------------------------


class _Meta(Struct):
    name: str = ""
    namespace: str = ""


class _Made(TypedDict, total=False):
    labels: dict[str, str] | None
    annotations: dict[str, str] | None


class _Template(Struct):
    metadata: _Made | None = None
    spec: PodSpec | None = None


class _Spec(Struct):
    selector: dict[str, Any] | None = None
    template: _Template | None = None


class _Owning(Struct):
    metadata: _Meta
    spec: _Spec | None = None


class Owner(Struct, frozen=True):
    """An object that makes others and finds them by labels."""

    kind: str
    namespace: str
    name: str
    selector: LabelSelector
    template: _Template = field(default_factory=_Template)

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"

    def makes(self) -> Iterator[JsonObject]:
        """Yield what it makes: a pod of its template, and for a Deployment the ReplicaSet that will make it."""
        meta = {**(self.template.metadata or {}), "namespace": self.namespace}
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": self.template.spec}
        if self.kind == "Deployment":
            yield {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": meta}


def owner(obj: JsonObject) -> Owner | None:
    """Return an object as an owner; None: it is of another kind, or not valid in the API."""
    group, kind = group_and_kind(obj)
    if (group, kind) not in OWNERS:
        return None
    try:
        found = msgspec.convert(obj, _Owning)
        if found.spec is None or found.spec.selector is None or found.spec.template is None:
            return None
        finds = selector(found.spec.selector, "spec.selector")
    except (msgspec.ValidationError, OptionsError):
        return None
    return Owner(kind, found.metadata.namespace, found.metadata.name, finds, found.spec.template)


def lost_by(owner: Owner, policies: Policies, options: Options) -> list[Write]:
    """Return the labels that policies would write on what this owner makes, and by which it would not find it."""
    options = structs.replace(options, owner_selectors=(owner.selector,))
    found: dict[str, Write] = {}
    for made in owner.makes():
        found |= {write.key: write for write in evaluate(policies, "CREATE", made, None, options).lost}
    return list(found.values())
