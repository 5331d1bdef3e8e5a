"""From the bytes of an API object to the model, by kind."""

from collections.abc import Callable, Mapping

from podberth.model import devices, pod_group_parse, storage, wire
from podberth.model.annotated import NOTHING_READ, AnnotationsRead
from podberth.model.devices import DEVICE_KINDS, DeviceKind
from podberth.model.limits import LIMITS, Limits
from podberth.model.namespaced import Namespace, SelectingObject, parse_namespace, parse_selecting
from podberth.model.node import Node, parse_node
from podberth.model.pod import BOUND, Interner, Pod, parse_pod
from podberth.model.pod_group import POD_GROUP_KINDS, PodGroup
from podberth.model.storage import STORAGE_KINDS, StorageKind

Modelled = Pod | Node | Namespace | SelectingObject | StorageKind | DeviceKind | PodGroup
_PARSERS: Mapping[str, Callable[[bytes, Interner], "StorageKind | DeviceKind | PodGroup"]] = {
    **storage.PARSERS,
    **devices.PARSERS,
    **pod_group_parse.PARSERS,
}

SELECTING = ("Service", "ReplicationController", "ReplicaSet", "StatefulSet", "PodDisruptionBudget")
KINDS = ("Node", "Pod", "Namespace", *SELECTING, *STORAGE_KINDS, *DEVICE_KINDS, *POD_GROUP_KINDS)

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
        self._annotated = annotated
        self._bound = bound
        self._limits = limits
        self.interner = Interner(annotated, bound, limits=limits)

    def follow(self, annotated: AnnotationsRead, limits: Limits = LIMITS) -> bool:
        """Read these annotations, and go by these limits, from now on; whether that is a change."""
        if (self._annotated, self._limits) == (annotated, limits):
            return False
        self._annotated, self._limits = annotated, limits
        self.interner = Interner(annotated, self._bound, limits=self._limits)
        return True

    def beside(self) -> "Decoder":
        """One like it for the large objects, in another thread.

        Two interners and no lock: the loop would have to wait for whatever the thread does while it holds the lock,
        such as to let go of all that is known. Pods of one template are about equally large and still share a shape;
        if some are just below the bound, there are two shapes, which costs memory and nothing else.
        """
        return Decoder(self._annotated, LARGE_BOUND, limits=self._limits)

    def pod(self, raw: bytes) -> Pod:
        """Decode a pod. Raises msgspec.DecodeError when the bytes are none."""
        return parse_pod(wire.pod_decoder.decode(raw), self.interner)

    def node(self, raw: bytes) -> Node:
        """A node. Raises msgspec.DecodeError when the bytes are not one."""
        return parse_node(wire.node_decoder.decode(raw), self.interner)

    def namespace(self, raw: bytes) -> Namespace:
        """Raises msgspec.DecodeError when the bytes are not a namespace."""
        return parse_namespace(wire.namespace_decoder.decode(raw), self.interner)

    def of_kind(self, kind: str) -> Callable[[bytes], Modelled]:
        """The decoding function for one of `KINDS`."""
        match kind:
            case "Pod":
                return self.pod
            case "Node":
                return self.node
            case "Namespace":
                return self.namespace
        if kind in _PARSERS:
            parse = _PARSERS[kind]
            return lambda raw: parse(raw, self.interner)
        return lambda raw: parse_selecting(kind, wire.selecting_decoder.decode(raw), self.interner)
