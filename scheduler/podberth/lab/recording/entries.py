"""What is in the frames of a recording: entries, each a short array of MessagePack that begins with its `Kind`.

Pods are most of it, so they are short: a pod is its name, UID and state, and refers by numbers to its template (the
wire form of the first pod of its shape), labels, owner and node, each of which is written once in a segment. Other
objects are written in their wire form when they change in more than their resourceVersion. Times are nanoseconds since
the entry before.
"""

from collections.abc import Mapping
from enum import IntEnum
from functools import cache
from typing import Any

import msgspec
from msgspec import Raw, Struct, field

from podberth.explain.objects.dump import ANNOTATIONS
from podberth.model import devices_wire, pod_group_parse, storage_wire, wire
from podberth.model.kinds import SELECTING

VERSION = 1


class Kind(IntEnum):
    """The kinds of entries. `…`: the nanoseconds since the entry before."""

    HEAD = 0
    """(HEAD, Head as a mapping): the first entry of a segment, and of its state."""
    AT = 1
    """(AT, seconds): the time from here on, where nanoseconds don't say it."""
    EPOCH = 2
    """(EPOCH, seconds): the difference between the calendar and the time of entries."""
    TEXT = 3
    """(TEXT, text): the next of the names, which get numbers from 0."""
    MESSAGE = 4
    """(MESSAGE, text): the next of the messages, which get numbers of their own."""
    LABELS = 5
    """(LABELS, mapping): the next labels."""
    TEMPLATE = 6
    """(TEMPLATE, JSON): the next template."""
    POD = 7
    """(POD, …, how, template, labels, owner, name, UID, created, state…): a pod that gets the next number."""
    POD_AGAIN = 8
    """(POD_AGAIN, …, how, number, state…): what may change of a pod."""
    POD_GONE = 9
    """(POD_GONE, …, pod)."""
    OBJECT = 10
    """(OBJECT, …, how, kind, resourceVersion, JSON): another object."""
    OBJECT_AGAIN = 11
    """(OBJECT_AGAIN, …, how, kind, namespace, name, resourceVersion): nothing else changed."""
    OBJECT_GONE = 12
    """(OBJECT_GONE, …, kind, namespace, name, UID)."""
    CYCLE = 13
    """(CYCLE, …)."""
    TICK = 14
    """(TICK, …)."""
    BOUND = 15
    """(BOUND, …, pod)."""
    STIMULUS = 16
    """(STIMULUS, …, name of its class, what is in it…): one of the rare ones."""
    LEADS = 17
    """(LEADS, …, seconds): the process takes over."""
    CONFIGURED = 18
    """(CONFIGURED, …, configuration as JSON): it decides by this from now on."""
    SYNCED = 19
    """(SYNCED, …): everything was listed (of a shadow)."""
    PLACED = 20
    """(PLACED, pod, node): the decision of the stimulus before."""
    FAILED = 21
    """(FAILED, pod, reason, message): no node was found."""
    PREEMPTS = 22
    """(PREEMPTS, pod, node, victims): they have to leave."""


# What is written for each stimulus: a plain number takes a tenth of an enum's time to look up and to pack.
POD, POD_AGAIN, POD_GONE, CYCLE, TICK, BOUND, PLACED = (
    int(each) for each in (Kind.POD, Kind.POD_AGAIN, Kind.POD_GONE, Kind.CYCLE, Kind.TICK, Kind.BOUND, Kind.PLACED)
)
ADDED, LISTED = 1, 2
"""`how`, in bits: it was not there before; a list, and not a watch, has shown it."""
TERMINATING, PREEMPTED, FINISHED, READY = 1, 2, 4, 8
"""The bits in a pod's state."""
PHASES = ("", "Pending", "Running", "Succeeded", "Failed", "Unknown")


class Head(Struct, rename="camel", kw_only=True, omit_defaults=True):
    """What a segment says of itself.

    `of`: the scheduler that a shadow follows, empty for Berth's own; `began`: the calendar's time in seconds, and `at`
    that of the engine, when the segment began; `fresh`: a process began with it; `configuration`: as JSON; `seed`,
    `salt`, `verify`, `let_go_beside`: as the engine got them.
    """

    version: int = VERSION
    berth: str = ""
    of: str = ""
    began: float = 0.0
    at: float = 0.0
    fresh: bool = False
    masked: bool = False
    configuration: dict[str, Any] = field(default_factory=dict)
    seed: int = 0
    salt: str = ""
    verify: int = 0
    let_go_beside: int = 0


encoder = msgspec.msgpack.Encoder()
decoder: msgspec.msgpack.Decoder[list[list[Any]]] = msgspec.msgpack.Decoder(list[list[Any]])

_SPEC = msgspec.json.Decoder(devices_wire.ClaimSpec)
_STATUS = msgspec.json.Decoder(devices_wire.ClaimStatus)
_BUDGET = msgspec.json.Decoder(wire.BudgetStatus)
_META, _CONTAINER, _SELECTING = wire.ObjectMeta(), wire.Container(), wire.PodSelecting()
"""Their fields are the defaults, and only these are left out when a form is encoded: msgspec goes by identity."""


@cache
def _decoder_of(kind: str) -> msgspec.json.Decoder[Any]:
    """Return the decoder of a kind's wire form."""
    found: Mapping[str, msgspec.json.Decoder[Any]] = {
        "Pod": wire.pod_decoder,
        "Node": wire.node_decoder,
        "Namespace": wire.namespace_decoder,
        **dict.fromkeys(SELECTING, wire.selecting_decoder),
        "PersistentVolume": storage_wire.volume,
        "PersistentVolumeClaim": storage_wire.claim,
        "StorageClass": storage_wire.storage_class,
        "CSINode": storage_wire.csi_node,
        "CSIDriver": storage_wire.csi_driver,
        "CSIStorageCapacity": storage_wire.csi_capacity,
        "VolumeAttachment": storage_wire.attachment,
        "ResourceClaim": devices_wire.claim,
        "ResourceSlice": devices_wire.resource_slice,
        "DeviceClass": devices_wire.device_class,
        "DeviceTaintRule": devices_wire.taint_rule,
        **pod_group_parse.DECODERS,
    }
    return found[kind]


class Reducer:
    """Makes an object's bytes those of its wire form, with the annotations that somebody reads.

    So there are no environments, commands, arguments, probes, mounts, managed fields or statuses that no decision
    reads. `read`: keys of annotations that plugins read.
    """

    def __init__(self, read: frozenset[str] = frozenset()) -> None:
        self._read = read

    def reduced(self, kind: str, raw: bytes | Raw) -> bytes:
        """Return it without its resourceVersion. Raises msgspec.MsgspecError."""
        made = _decoder_of(kind).decode(raw)
        made.metadata.resource_version = ""
        made.metadata.annotations = self._annotations(made.metadata.annotations)
        match kind:
            case "Pod":
                _reduce_pod(made)
            case "ResourceClaim":
                made.spec = _again(_SPEC, made.spec)
                made.status = _again(_STATUS, made.status)
            case "PodDisruptionBudget":
                made.status = _again(_BUDGET, made.status)
            case kind if kind in SELECTING:
                made.status = _SELECTING.status
        return msgspec.json.encode(made)

    def _annotations(self, raw: Raw) -> Raw:
        text = wire.present(raw)
        if not text:
            return _META.annotations
        held = wire.texts_decoder.decode(text)
        kept = {key: value for key, value in held.items() if key.startswith(ANNOTATIONS) or key in self._read}
        return Raw(msgspec.json.encode(kept)) if kept else _META.annotations


def _again(decoder: msgspec.json.Decoder[Any], raw: Raw) -> Raw:
    text = wire.present(raw)
    return Raw(msgspec.json.encode(decoder.decode(text))) if text else raw


def _reduce_pod(pod: wire.Pod) -> None:
    """Leave out what a pod's own entry says, and what only the kubelet reads of its containers."""
    meta, spec, status = pod.metadata, pod.spec, pod.status
    meta.name = meta.uid = ""
    meta.generation, meta.creation_timestamp, meta.deletion_timestamp, meta.owner_references = 0, None, None, None
    spec.node_name = ""
    status.phase = status.nominated_node_name = ""
    status.start_time = status.resource_claim_statuses = None
    status.conditions = [each for each in status.conditions or () if each.type == "PodResizePending"] or None
    for each in (*spec.containers, *(spec.init_containers or ())):
        if not wire.mentions(bytes(each.volume_mounts), b"bindMountOptions"):
            each.volume_mounts = _CONTAINER.volume_mounts
        if not wire.mentions(bytes(each.ports), b"hostPort"):
            each.ports = _CONTAINER.ports
