"""From the bytes of an API object to the model, by kind."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec

from podberth.model import devices, pod_group_parse, storage, wire
from podberth.model.annotated import NOTHING_READ, AnnotationsRead
from podberth.model.devices import DeviceKind
from podberth.model.limits import LIMITS, Limits
from podberth.model.namespaced import Namespace, SelectingObject, parse_namespace, parse_selecting
from podberth.model.node import Node, parse_node
from podberth.model.pod import BOUND, Interner, Pod, parse_pod
from podberth.model.pod_group import PodGroup
from podberth.model.storage import StorageKind

Modelled = Pod | Node | Namespace | SelectingObject | StorageKind | DeviceKind | PodGroup

SELECTING = ("Service", "ReplicationController", "ReplicaSet", "StatefulSet", "PodDisruptionBudget")
_selecting: msgspec.json.Decoder[wire.PodSelecting] = msgspec.json.Decoder(wire.PodSelecting)
_pod: msgspec.json.Decoder[wire.Pod] = msgspec.json.Decoder(wire.Pod)
_node: msgspec.json.Decoder[wire.Node] = msgspec.json.Decoder(wire.Node)
READERS: Mapping[str, tuple[msgspec.json.Decoder[Any], Callable[[Any, Interner], Modelled]]] = {
    "Node": (_node, parse_node),
    "Pod": (_pod, parse_pod),
    "Namespace": (msgspec.json.Decoder(wire.Namespace), parse_namespace),
    **{kind: (_selecting, partial(parse_selecting, kind)) for kind in SELECTING},
    **storage.READERS,
    **devices.READERS,
    **pod_group_parse.READERS,
}
"""Kind → the decoder of its wire form, and what makes the model of it."""
KINDS = tuple(READERS)

LARGE_BOUND = 500
"""Large objects are few, and what is small in them is seldom shared."""


class Decoder:
    """Decodes objects of the kinds that a scheduler watches; what repeats is shared through one interner.

    `annotated`, `bound`: as for `Interner`. For one thread, as the interner counts the bytes that it keeps: large
    objects, which are decoded in a thread of their own, have a decoder of their own (`beside`).
    """

    def __init__(
        self, annotated: AnnotationsRead = NOTHING_READ, bound: int = BOUND, *, limits: Limits = LIMITS
    ) -> None:
        self.annotated = annotated
        self._bound = bound
        self._limits = limits
        self.interner = Interner(annotated, bound, limits=limits)

    def follow(self, annotated: AnnotationsRead, limits: Limits = LIMITS) -> bool:
        """Read these annotations, and go by these limits, from now on; whether that is a change."""
        if (self.annotated, self._limits) == (annotated, limits):
            return False
        self.annotated, self._limits = annotated, limits
        self.interner = Interner(annotated, self._bound, limits=self._limits)
        return True

    def beside(self) -> "Decoder":
        """One like it for the large objects, in another thread.

        Two interners and no lock: the loop would have to wait for whatever the thread does while it holds the lock,
        such as to let go of all that is known. Pods of one template are about equally large and still share a shape;
        if some are just below the bound, there are two shapes, which costs memory and nothing else.
        """
        return Decoder(self.annotated, LARGE_BOUND, limits=self._limits)

    def pod(self, raw: bytes) -> Pod:
        """Decode a pod. Raises msgspec.DecodeError when the bytes are none."""
        return parse_pod(_pod.decode(raw), self.interner)

    def node(self, raw: bytes) -> Node:
        """Decode a node. Raises msgspec.DecodeError when the bytes are none."""
        return parse_node(_node.decode(raw), self.interner)

    def of_kind(self, kind: str) -> Callable[[bytes], Modelled]:
        """Return the function that decodes one of `KINDS`.

        It raises msgspec.DecodeError when the bytes are not of that kind.
        """
        decoder, model_of = READERS[kind]
        return lambda raw: model_of(decoder.decode(raw), self.interner)
