"""Makes an object's bytes those of its wire form, with the annotations that somebody reads.

So there are no environments, commands, arguments, probes, mounts, managed fields or statuses that no decision reads.
"""

from typing import Any

import msgspec
from msgspec import Raw

from podberth.model import devices_wire, wire
from podberth.model.annotated import DECIDING
from podberth.model.kinds import READERS, SELECTING

_SPEC = msgspec.json.Decoder(devices_wire.ClaimSpec)
_STATUS = msgspec.json.Decoder(devices_wire.ClaimStatus)
_BUDGET = msgspec.json.Decoder(wire.BudgetStatus)
_META, _CONTAINER, _SELECTING = wire.ObjectMeta(), wire.Container(), wire.PodSelecting()
"""Their fields are the defaults, and only these are left out when a form is encoded: msgspec goes by identity."""


def reduced(kind: str, raw: bytes | Raw, read: frozenset[str], *, labels: bool = False) -> str:
    """Return its JSON without its resourceVersion. `read`: keys of annotations that plugins read; `labels`: a pod's
    stay, which its own entry says else.

    Raises msgspec.MsgspecError.
    """
    made = READERS[kind][0].decode(raw)
    made.metadata.resource_version = ""
    made.metadata.annotations = _annotations(made.metadata.annotations, read)
    match kind:
        case "Pod":
            _reduce_pod(made)
            made.metadata.labels = made.metadata.labels if labels else _META.labels
        case "ResourceClaim":
            made.spec = _again(_SPEC, made.spec)
            made.status = _again(_STATUS, made.status)
        case "PodDisruptionBudget":
            made.status = _again(_BUDGET, made.status)
        case kind if kind in SELECTING:
            made.status = _SELECTING.status
    return msgspec.json.encode(made).decode()


def _annotations(raw: Raw, read: frozenset[str]) -> Raw:
    text = wire.present(raw)
    if not text:
        return _META.annotations
    held = wire.texts_decoder.decode(text)
    kept = {key: value for key, value in held.items() if key.startswith(DECIDING) or key in read}
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
