"""From the bytes of both kinds of PodGroup to `podberth.model.pod_group`."""

from collections.abc import Callable
from typing import Any, Literal

import msgspec
from msgspec import Raw, field

from podberth.model.limits import Count
from podberth.model.pod import Interner
from podberth.model.pod_group import (
    CONDITIONS,
    COSCHEDULING,
    COSCHEDULING_KIND,
    NATIVE,
    NATIVE_KIND,
    PREFERRED_TOPOLOGY,
    REQUIRED_TOPOLOGY,
    GroupCondition,
    GroupKey,
    PodGroup,
)
from podberth.model.resources import in_units, parse_amounts
from podberth.model.shape import claims_of
from podberth.model.wire import Amounts, Condition, Object, ObjectMeta, PodClaimStatus, present, texts_decoder
from podberth.model.wire import PodClaim as WiredClaim


class _Gang(Object, gc=False):
    min_count: int = 0


class _Policy(Object, gc=False):
    gang: _Gang | None = None


class _Topology(Object, gc=False):
    key: str = ""


class _Constraints(Object, gc=False):
    topology: list[_Topology] | None = None


class _DisruptionMode(Object, gc=False):
    all: Raw = Raw()


class _Reference(Object, gc=False):
    workload_name: str = ""
    template_name: str = ""


class _Spec(Object, gc=False):
    """The fields of both APIs: those from `min_member` on are scheduler-plugins'."""

    workload_ref: _Reference | None = None
    scheduling_policy: _Policy = field(default_factory=_Policy)
    scheduling_constraints: _Constraints | None = None
    resource_claims: list[WiredClaim] | None = None
    disruption_mode: _DisruptionMode | None = None
    priority: int | None = None
    preemption_policy: str | None = None
    min_member: int = 0
    min_resources: Amounts | None = None
    schedule_timeout_seconds: int | None = None


class _Status(Object, gc=False):
    conditions: list[Condition] | None = None
    resource_claim_statuses: list[PodClaimStatus] | None = None
    phase: str = ""


class _PodGroup(Object, gc=False):
    api_version: str = ""
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: _Spec = field(default_factory=_Spec)
    status: _Status = field(default_factory=_Status)


_MARK = b"podberth.dev/"
_decoder = msgspec.json.Decoder(_PodGroup)


def _native_group(wired: _PodGroup, interner: Interner) -> PodGroup:
    """A PodGroup of scheduling.k8s.io, or of the API group that it says itself."""
    if wired.api_version.startswith(f"{COSCHEDULING}/"):
        return _coscheduling_group(wired, interner)
    meta, spec, status = wired.metadata, wired.spec, wired.status
    gang = spec.scheduling_policy.gang
    constraints, mode, reference = spec.scheduling_constraints, spec.disruption_mode, spec.workload_ref
    topology = constraints.topology if constraints is not None else None
    disruption: Literal["single", "all"] = "single"
    if mode is not None and present(mode.all):
        disruption = "all"
    required, preferred = _topology(meta)
    return PodGroup(
        key=GroupKey(meta.namespace, meta.name, NATIVE),
        uid=meta.uid,
        resource_version=meta.resource_version,
        generation=meta.generation,
        min_count=None if gang is None else gang.min_count,
        topology_key=topology[0].key if topology else None,
        required_topology=required,
        preferred_topology=preferred,
        disruption_mode=disruption,
        priority=spec.priority,
        preempts=None if spec.preemption_policy is None else spec.preemption_policy != "Never",
        resource_claims=claims_of(spec.resource_claims or ()),
        made_claims=tuple([(one.name, one.resource_claim_name) for one in status.resource_claim_statuses or ()]),
        workload=None if reference is None else (reference.workload_name, reference.template_name),
        conditions=tuple(
            [
                GroupCondition(
                    c.type, c.status, c.reason, c.message, c.observed_generation, c.last_transition_time or ""
                )
                for c in status.conditions or ()
                if c.type in CONDITIONS
            ]
        ),
    )


def _coscheduling_group(wired: _PodGroup, interner: Interner) -> PodGroup:
    """A PodGroup of scheduling.x-k8s.io."""
    meta, spec = wired.metadata, wired.spec
    resources: dict[str, int] | None = None
    problems: list[str] = []
    count = Count(interner.limits)
    count.allows(len(spec.min_resources or ()), "resources", "resources in minResources")
    if spec.min_resources is not None:
        nano, problems = parse_amounts(spec.min_resources, "spec.minResources")
        resources = in_units(nano)
    required, preferred = _topology(meta)
    return PodGroup(
        key=GroupKey(meta.namespace, meta.name, COSCHEDULING),
        uid=meta.uid,
        resource_version=meta.resource_version,
        generation=meta.generation,
        min_count=spec.min_member if spec.min_member > 0 else None,
        min_resources=resources,
        timeout=spec.schedule_timeout_seconds,
        phase=wired.status.phase,
        required_topology=required,
        preferred_topology=preferred,
        problems=tuple(problems),
        too_large=None if count.excess is None else count.excess.text,
    )


def _topology(meta: ObjectMeta) -> tuple[str | None, str | None]:
    """Return what the annotations ask for: (required, preferred). They are decoded only where they may."""
    raw = bytes(meta.annotations)
    if _MARK not in raw:
        return None, None
    found = texts_decoder.decode(raw)
    return found.get(REQUIRED_TOPOLOGY) or None, found.get(PREFERRED_TOPOLOGY) or None


READERS: dict[str, tuple[msgspec.json.Decoder[Any], Callable[[Any, Interner], PodGroup]]] = {
    NATIVE_KIND: (_decoder, _native_group),
    COSCHEDULING_KIND: (_decoder, _coscheduling_group),
}
"""Kind → the decoder of its wire form, and what makes the model of it."""
