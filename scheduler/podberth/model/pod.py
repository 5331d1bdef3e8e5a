"""A pod as the scheduler sees it: a few fields of its own, and a shape shared by all pods of one template.

The shape holds everything that decides where a pod may go. Equal bytes on the wire give the
*same* shape object, so a thousand replicas cost one parse, and caches can be keyed by identity.
"""

import re
from collections.abc import Hashable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from podberth.model import wire
from podberth.model.annotated import NOTHING_READ, AnnotationError, AnnotationsRead, Mode, affinity_of, carries, kept
from podberth.model.limits import LIMITS, Count, Excess, Limits
from podberth.model.pod_group import COSCHEDULING, LABEL, NATIVE, GroupKey
from podberth.model.promise import ANNOTATION as PROMISE
from podberth.model.promise import TOKEN as PROMISE_TOKEN
from podberth.model.shape import HEAVY, PodShape, parse_shape, reports, resize_infeasible
from podberth.model.wire import annotation

EXPECTED_DURATION = "podberth.dev/expected-duration"
"""Annotation of a pod: how long it is expected to run, such as 90s, 15m or 1h30m."""
_TOKEN = b"expected-duration"
_DURATION = re.compile(r"(?=\d)(?:(\d{1,6})h)?(?:(\d{1,8})m)?(?:(\d{1,9})s)?", re.ASCII)
_LONGEST = 32
"""Longer texts are no durations, and are not kept."""


class Lasting(NamedTuple):
    """The known end of a pod that does not run for ever. Durations in seconds, from its start."""

    enforced: int | None
    """It is stopped after so long."""
    expected: int | None
    """Its owner expects it to end after so long."""

    def seconds(self, *, trusting: bool) -> int | None:
        """Return the longest that it can run; None: nobody knows. `trusting`: a time that is only expected counts."""
        known = [each for each in (self.enforced, self.expected if trusting else None) if each is not None]
        return min(known, default=None)


@lru_cache(maxsize=4096)
def lasting(restart_policy: str | None, deadline: int | None, expected: str | None) -> Lasting | None:
    """Return the Lasting of a pod; None: it runs until somebody removes it."""
    seconds = None if expected is None else duration(expected)
    if deadline is None and seconds is None and restart_policy not in ("Never", "OnFailure"):
        return None
    return Lasting(deadline, seconds)


def expected_text(annotations: bytes) -> str | None:
    """Return the annotation's value in a pod's annotations, None where it has none: then nothing is decoded."""
    text = annotation(annotations, EXPECTED_DURATION, _TOKEN)
    return text if text is None or len(text) <= _LONGEST else ""


def duration(text: str) -> int | None:
    """Return seconds of a text such as 1h30m; None where it is none."""
    found = _DURATION.fullmatch(text)
    if found is None:
        return None
    hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return hours * 3600 + minutes * 60 + seconds


@lru_cache(maxsize=4096)
def since_epoch(text: str) -> float | None:
    """Return seconds since the epoch of an RFC 3339 time; None where it is none."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


NO_LABELS: Mapping[str, str] = {}
BOUND = 50_000
"""Things of a sort that an interner keeps."""
SMALL_BYTES = 24 << 20
"""50,000 pods of which no two are alike come from some 20 MB."""
BIG_BYTES = 4 << 20
"""Three or four of the biggest legal pods."""
LENDS = 4 << 10
"""Ordinary shapes lend their parts to others; those from more bytes are not kept for that."""
LENDERS = 1024
"""The number that is kept. Pods of which only the requests are new, or the node that they name, are of few sorts."""


class Pod(Struct, gc=False, weakref=False):
    """One pod. `key` is namespace/name; `uid` is its identity."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    generation: int
    labels: Mapping[str, str]
    shape: PodShape
    scheduler_name: str
    priority: int
    preempts: bool
    node_name: str
    nominated_node_name: str
    created: str
    """RFC 3339 text, which sorts as time."""
    started: str | None
    terminating: bool
    preempted: bool
    """A scheduler asked it to go (condition DisruptionTarget, PreemptionByScheduler)."""
    finished: bool
    gates: tuple[str, ...]
    owner: tuple[str, str, str] | None
    """(kind, name, uid) of the controller. A kind of another group has that after it where Kubernetes' own of the same
    name selects pods: StatefulSet.apps.kruise.io.
    """
    condition: tuple[str, str, str, str] | None
    """status, reason, message and lastTransitionTime of PodScheduled."""
    phase: str = ""
    ready: bool = False
    """It counts as healthy for its disruption budget."""
    mirror: bool = False
    """A kubelet's word for a pod of its own; nobody else can remove it."""
    made_claims: tuple[tuple[str, str | None], ...] = ()
    """(name in the spec, name of the claim that was made of the template; None: none was needed)."""
    scheduling_group: GroupKey | None = None
    """The pod group that it names, in its spec or by the label of scheduler-plugins. `PodGroups.of`: if it counts."""
    lasts: Lasting | None = None
    """The time for which it runs; None: until somebody removes it."""
    too_large: Excess | None = None
    """The limit that it is beyond (`podberth/model/limits.py`), so that it is not tried; None: none."""

    @property
    def annotations(self) -> Mapping[str, str]:
        """Return the annotations that a plugin reads: they decide, so they are part of the shape."""
        return self.shape.annotations

    @property
    def key(self) -> str:
        """namespace/name."""
        return f"{self.namespace}/{self.name}"

    @property
    def belongs_to_node(self) -> bool:
        """Return whether a drain leaves it there, and a new node of the kind has one like it: a static pod, a
        DaemonSet's.
        """
        return self.mirror or (self.owner is not None and self.owner[0] in ("DaemonSet", "Node"))


def empty_like(pod: Pod) -> Pod:
    """Return a pod of the same name that asks for nothing, and has no labels and no priority."""
    return replace(pod, labels=NO_LABELS, shape=_empty_shape(pod.namespace), priority=0)


@lru_cache(maxsize=128)
def _empty_shape(namespace: str) -> PodShape:
    return parse_shape(wire.Pod(metadata=wire.ObjectMeta(namespace=namespace)), b"")


Key = TypeVar("Key", bound=Hashable)
Thing = TypeVar("Thing")


class Known(Generic[Key, Thing]):
    """Key → what was parsed from it. Past a bound, on their number or on the bytes they came from, it starts afresh.

    Big ones have a bound of their own: one tenant's must not push out everybody else's.
    """

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._small: dict[Key, Thing] = {}
        self._big: dict[Key, Thing] = {}
        self._small_bytes = self.big_bytes = 0

    def __len__(self) -> int:
        return len(self._small) + len(self._big)

    def get(self, key: Key) -> Thing | None:
        """Return what was read from these bytes, if it is kept."""
        found = self._small.get(key)
        return self._big.get(key) if found is None and self._big else found

    def put(self, key: Key, thing: Thing, weight: int) -> None:
        """Remember a thing that came from so many bytes."""
        if weight > HEAVY:
            if self.big_bytes + weight > BIG_BYTES:
                self._big.clear()
                self.big_bytes = 0
            self._big[key] = thing
            self.big_bytes += weight
            return
        if len(self._small) >= self._bound or self._small_bytes + weight > SMALL_BYTES:
            self._small.clear()
            self._small_bytes = 0
        self._small[key] = thing
        self._small_bytes += weight


class Interner:
    """Equal bytes → the same parsed object. Bounded: past the bound it starts afresh.

    Sharing is for speed and memory only; nothing is wrong when two equal shapes are two objects.
    `annotated`: the annotations that count.
    """

    def __init__(
        self, annotated: AnnotationsRead = NOTHING_READ, bound: int = BOUND, *, limits: Limits = LIMITS
    ) -> None:
        self._affinity_modes = annotated.affinity
        self._of_nodes, self._of_pods = annotated.of_nodes, annotated.of_pods
        self.limits = limits
        self.known_shapes: Known[tuple[Any, ...], PodShape] = Known(bound)
        self.known_labels: Known[bytes, Mapping[str, str]] = Known(bound)
        self._affinities: Known[tuple[bytes, bytes, str, Mode], tuple[bytes, str | None]] = Known(bound)
        self._by_spec: dict[tuple[Any, ...], PodShape] = {}
        self._by_terms: dict[tuple[Any, ...], PodShape] = {}
        """Shapes that others may take parts over from: by containers and volumes, and by terms."""
        self.traits: Known[Any, Any] = Known(bound)
        """The parts of devices that selectors read, shared by devices that are alike (`podberth.model.devices`)."""
        self.device_lists: Known[Any, Any] = Known(bound)
        """The devices of a slice, shared by slices that publish the same, as those of nodes of one make may."""
        self.claim_specs: Known[bytes, Any] = Known(bound)
        """The specs of resource claims, shared by claims of one template."""

    @property
    def lending(self) -> int:
        """Return how many shapes are kept for others to take parts over from."""
        return len(self._by_spec) + len(self._by_terms)

    def labels(self, raw: msgspec.Raw) -> Mapping[str, str]:
        """Return the label (or annotation) map of these bytes, shared."""
        text = wire.present(raw)
        if not text:
            return NO_LABELS
        found = self.known_labels.get(text)
        if found is None:
            found = wire.texts_decoder.decode(text)
            self.known_labels.put(text, found, len(text))
        return found

    def node_annotations(self, raw: msgspec.Raw) -> Mapping[str, str]:
        """Return those of a node's annotations that are read."""
        return kept(raw, self._of_nodes) if self._of_nodes else NO_LABELS

    def shape(self, pod: wire.Pod, promise: str | None = None, *, in_group: bool = False) -> PodShape:
        """Return the shape of a pod, shared by all pods whose placement-deciding bytes are equal.

        `promise`: the text of its annotation, which decides too. `in_group`: it names a pod group.
        """
        spec, status = pod.spec, pod.status
        affinity, problem = wire.present(spec.affinity), None
        if self._affinity_modes:
            affinity, problem = self._affinity(pod, affinity)
        annotations = kept(pod.metadata.annotations, self._of_pods) if self._of_pods else NO_LABELS
        of_terms = (pod.metadata.namespace, affinity, wire.present(spec.topology_spread_constraints))
        of_spec = (
            wire.present(spec.overhead),
            wire.present(spec.resources),
            _spec_key(spec),
            _status_key(spec, status),
        )
        key = (
            of_terms,
            of_spec,
            problem,
            wire.present(spec.node_selector),
            wire.present(spec.tolerations),
            wire.present(spec.resource_claims),
            in_group,
            promise,
            tuple(annotations.items()) if annotations else (),
        )
        found = self.known_shapes.get(key)
        if found is None:
            found = parse_shape(
                pod,
                affinity,
                promise,
                in_group=in_group,
                annotations=annotations,
                same_spec=self._by_spec.get(of_spec),
                same_terms=self._by_terms.get(of_terms),
                limits=self.limits,
            )
            found.annotation_problem = problem
            found.weight = _weight(key)
            self.known_shapes.put(key, found, found.weight)
            if found.weight <= LENDS and found.lends_terms:
                _lend(self._by_spec, of_spec, found)
                _lend(self._by_terms, of_terms, found)
        return found

    def _affinity(self, pod: wire.Pod, own: bytes) -> tuple[bytes, str | None]:
        """Return the affinity to go by, and why an annotation can't be honoured."""
        usual = self._affinity_modes.get(pod.spec.scheduler_name)
        if usual is None or not carries(pod.metadata.annotations):
            return own, None
        asked = (bytes(pod.metadata.annotations), own, pod.metadata.namespace, usual)
        found = self._affinities.get(asked)
        if found is None:
            try:
                found = affinity_of(*asked), None
            except AnnotationError as error:
                found = own, str(error)
            self._affinities.put(asked, found, _weight(asked))
        return found


_PHASES = {phase: phase for phase in ("Pending", "Running", "Succeeded", "Failed", "Unknown")}
"""One text for all pods of a phase."""
_MIRROR = "kubernetes.io/config.mirror"
_group_decoder = msgspec.json.Decoder(wire.SchedulingGroup)


def _weight(key: tuple[Any, ...]) -> int:
    """Return the bytes and characters in a key."""
    total = 0
    for part in key:
        kind = type(part)
        if kind is bytes or kind is str:
            total += len(part)
        elif kind is tuple:
            total += _weight(part)
    return total


def _lend(shapes: dict[tuple[Any, ...], PodShape], key: tuple[Any, ...], shape: PodShape) -> None:
    """Remember a shape that others may take a part over from; past the bound it starts afresh."""
    if len(shapes) >= LENDERS:
        shapes.clear()
    shapes.setdefault(key, shape)


def _spec_key(spec: wire.PodSpec) -> tuple[Any, ...]:
    """Return what decides of containers and volumes."""
    return (
        bool(spec.host_network and spec.host_users is False),
        tuple([_container_key(c) for c in spec.containers]),
        tuple([_container_key(c) for c in spec.init_containers]) if spec.init_containers else (),
        _volumes_key(spec.volumes) if spec.volumes else (),
    )


def _container_key(c: wire.Container) -> tuple[str, bytes, bytes, str | None, str, bytes, bytes]:
    ports, resources, mounts = bytes(c.ports), bytes(c.resources), bytes(c.volume_mounts)
    # The pod's status says which container has which device, if it asks for them as resources.
    name = c.name if wire.mentions(resources, b"/") else ""
    ports = ports if wire.mentions(ports, b"hostPort") else b""
    mounts = mounts if wire.mentions(mounts, b"bindMountOptions") else b""
    return c.image, resources, ports, c.restart_policy, name, mounts, wire.present(c.restart_policy_rules)


def _volumes_key(volumes: list[wire.Volume]) -> tuple[Any, ...]:
    # Their number is held to a limit, also where most of them are of kinds that do not decide.
    found: list[Any] = [len(volumes)]
    for v in volumes:
        if v.persistent_volume_claim:
            found.append(v.persistent_volume_claim.claim_name)
        elif v.image:
            found.append((v.image.reference,))
        elif wire.present(v.ephemeral):
            found.append((v.name, None))
        elif v != wire.Volume(v.name):
            found.append(msgspec.json.encode(v))
    return tuple(found)


def _status_key(spec: wire.PodSpec, status: wire.PodStatus) -> tuple[Any, ...]:
    """Return what decides of the resources that the kubelet reports: it names the containers that they are of."""
    reported = reports(status) if status.container_statuses or status.init_container_statuses else ()
    totals = (bytes(status.allocated_resources), bytes(status.resources))
    infeasible = bool(status.conditions) and resize_infeasible(status)
    if not reported and not any(totals) and not infeasible:
        return ()
    names = tuple([c.name for c in (*(spec.init_containers or ()), *spec.containers)]) if reported else ()
    return (reported, totals, infeasible, names)


def _conditions(conditions: Sequence[wire.Condition]) -> tuple[tuple[str, str, str, str] | None, bool, bool]:
    """`Pod.condition`, of which the first counts, `Pod.preempted`, which any may say, and `Pod.ready`."""
    scheduled, preempted, ready = None, False, None
    for one in conditions:
        if one.type == "PodScheduled":
            if scheduled is None:
                scheduled = (one.status, one.reason, one.message, one.last_transition_time or "")
        elif one.type == "DisruptionTarget":
            preempted |= one.status == "True" and one.reason == "PreemptionByScheduler"
        elif one.type == "Ready" and ready is None:
            ready = one.status == "True"
    return scheduled, preempted, bool(ready)


_CONTROLLERS = {"ReplicationController": "v1", "ReplicaSet": "apps/v1", "StatefulSet": "apps/v1"}
"""The kinds of controllers whose selectors count for spreading, and their API."""


def _kind_of(owner: wire.OwnerReference) -> str:
    """Return the owner's kind as `Pod.owner` has it. Recordings have no `apiVersion`."""
    if not owner.api_version or _CONTROLLERS.get(owner.kind, owner.api_version) == owner.api_version:
        return owner.kind
    return f"{owner.kind}.{owner.api_version.partition('/')[0]}"


def _group_of(namespace: str, named: bytes, labels: Mapping[str, str]) -> GroupKey | None:
    """Return the group that a pod names: in spec.schedulingGroup (`named`, its JSON), else by the label."""
    if named:
        name = _group_decoder.decode(named).pod_group_name
        if name:
            return GroupKey(namespace, name, NATIVE)
    if labels:
        name = labels.get(LABEL)
        if name:
            return GroupKey(namespace, name, COSCHEDULING)
    return None


def parse_pod(pod: wire.Pod, interner: Interner) -> Pod:
    """Build the scheduler's pod from the decoded wire form."""
    meta, spec, status = pod.metadata, pod.spec, pod.status
    annotations = bytes(meta.annotations)
    owner = None
    if meta.owner_references:
        owner = next(((_kind_of(o), o.name, o.uid) for o in meta.owner_references if o.controller), None)
    condition, preempted, ready = _conditions(status.conditions) if status.conditions else (None, False, False)
    labels, too_large = interner.labels(meta.labels), None
    if len(labels) > interner.limits.labels:
        count = Count(interner.limits)
        count.allows(len(labels), "labels", "labels")
        labels, too_large = dict(sorted(labels.items())[: interner.limits.labels]), count.excess
    group = _group_of(meta.namespace, wire.present(spec.scheduling_group), labels)
    shape = interner.shape(pod, wire.annotation(annotations, PROMISE, PROMISE_TOKEN), in_group=group is not None)
    return Pod(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        generation=meta.generation,
        labels=labels,
        shape=shape,
        scheduler_name=spec.scheduler_name,
        priority=spec.priority or 0,
        preempts=spec.preemption_policy != "Never",
        node_name=spec.node_name,
        nominated_node_name=status.nominated_node_name,
        created=meta.creation_timestamp or "",
        started=status.start_time,
        terminating=meta.deletion_timestamp is not None,
        preempted=preempted,
        finished=status.phase in ("Succeeded", "Failed"),
        gates=tuple([gate.name for gate in spec.scheduling_gates]) if spec.scheduling_gates else (),
        owner=owner,
        condition=condition,
        phase=_PHASES.get(status.phase, ""),
        ready=ready,
        mirror=wire.annotation(annotations, _MIRROR, b"config.mirror") is not None,
        made_claims=tuple([(one.name, one.resource_claim_name) for one in status.resource_claim_statuses])
        if status.resource_claim_statuses
        else (),
        scheduling_group=group,
        lasts=lasting(spec.restart_policy, spec.active_deadline_seconds, expected_text(annotations)),
        too_large=shape.too_large or too_large,
    )
