"""From the bytes of an API object to the model, by kind."""

from collections.abc import Callable, Mapping
from contextlib import suppress

from scheduler.model import devices_parse, pod_group_parse, storage_parse, wire
from scheduler.model.annotated import NOTHING_READ, AnnotationsRead
from scheduler.model.containers import asks_much, has_many, in_small_parts
from scheduler.model.devices import DEVICE_KINDS, DeviceKind
from scheduler.model.namespaced import Namespace, SelectingObject, parse_namespace, parse_selecting
from scheduler.model.node import Node, parse_node
from scheduler.model.pod import BOUND, Interner, NeededNowError, Pod, parse_pod
from scheduler.model.pod_group import COMPOSITE_KIND, POD_GROUP_KINDS, PodGroup
from scheduler.model.storage import STORAGE_KINDS, StorageKind

Modelled = Pod | Node | Namespace | SelectingObject | StorageKind | DeviceKind | PodGroup
_PARSERS: Mapping[str, Callable[[bytes, Interner], "StorageKind | DeviceKind | PodGroup"]] = {
    **storage_parse.PARSERS,
    **devices_parse.PARSERS,
    **pod_group_parse.PARSERS,
}

SELECTING = ("Service", "ReplicationController", "ReplicaSet", "StatefulSet", "PodDisruptionBudget")
KINDS = ("Node", "Pod", "Namespace", *SELECTING, *STORAGE_KINDS, *DEVICE_KINDS, *POD_GROUP_KINDS, COMPOSITE_KIND)

LARGE_BOUND = 500
"""Large objects are few, and what is small in them is seldom shared."""
SMALL = 8 << 10
"""A pod of fewer bytes has no hundreds of containers, as the API server fills them in."""


class Decoder:
    """Decodes objects of the kinds that a scheduler watches; what repeats is shared through one interner.

    `annotated`, `bound`: as for `Interner`. For one thread, as the interner counts the bytes that it keeps: large
    objects, which are decoded in a thread of their own, have a decoder of their own (`beside`).
    """

    def __init__(
        self,
        annotated: AnnotationsRead = NOTHING_READ,
        bound: int = BOUND,
        *,
        reads_later: bool = False,
        placed_too: bool = False,
    ) -> None:
        """`reads_later`: containers and volumes of waiting pods are read by whoever schedules them.

        `placed_too`: and those of pods that a node has or is kept for. Whoever gets them has to read them first.
        Without `reads_later`, this is so for pods with unusually much to read: others are read at once.
        """
        self._annotated = annotated
        self._bound = bound
        self._reads_later = reads_later
        self._placed_too = placed_too
        self.interner = Interner(annotated, bound, placed_too=placed_too)

    def annotate(self, annotated: AnnotationsRead) -> bool:
        """Read these annotations from now on; whether that is a change."""
        if self._annotated == annotated:
            return False
        self._annotated = annotated
        self.interner = Interner(annotated, self._bound, placed_too=self._placed_too)
        return True

    def beside(self, *, placed_too: bool = False) -> "Decoder":
        """One like it for the large objects, in another thread. `placed_too`: as above.

        Two interners and no lock: the loop would have to wait for whatever the thread does while it holds the lock,
        such as to let go of all that is known. Pods of one template are about equally large and still share a shape;
        if some are just below the bound, there are two shapes, which costs memory and nothing else.
        """
        return Decoder(self._annotated, LARGE_BOUND, reads_later=True, placed_too=placed_too)

    def pod(self, raw: bytes) -> Pod:
        """A pod. Raises msgspec.DecodeError when the bytes are not one."""
        read = None
        if self._reads_later or (self._placed_too and memoryview(raw).nbytes > SMALL):
            unread = wire.unread_pod_decoder.decode(raw)
            if not (self._reads_later or has_many(unread.spec)):
                read = wire.pod_decoder.decode(raw)
            if (read is None or asks_much(read.spec)) and in_small_parts(unread):
                with suppress(NeededNowError):
                    return parse_pod(unread, self.interner)
        return parse_pod(wire.pod_decoder.decode(raw) if read is None else read, self.interner)

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
        return lambda raw: parse_selecting(kind, wire.selecting_decoder.decode(raw))
