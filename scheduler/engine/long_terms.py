"""Bounds what waiting pods keep of their long affinity: of most of them, what is written stays, and no more.

Terms that were read take some ten times the room of what is written, and a namespace may have a thousand pods with a
thousand terms each. So terms stay read up to a bound for all namespaces together. Beyond it, the namespace that has
most forgets those of its pods that were tried longest ago. They are read again at their next attempts, which pay for
it. Terms of pods that have a node, or that a node is kept for, count for others and are not forgotten.
"""

from scheduler.model.shape import PodShape

MOST_BYTES = 2 << 20
"""The bound of what a pod has written, one of those in `scheduler/model/pod.py`."""


class LongTerms:
    """The shapes with long terms that were read for waiting pods."""

    def __init__(self, most: int = MOST_BYTES) -> None:
        """`most`: bytes of what is written."""
        self._most = most
        self._read: dict[str, dict[PodShape, int]] = {}
        """Namespace → shape → its bytes; the one that was read last comes last."""
        self._sizes: dict[str, int] = {}
        self.size = 0
        """The bytes of all of them."""

    def __len__(self) -> int:
        return sum(map(len, self._read.values()))

    def note(self, shape: PodShape) -> None:
        """The terms of this shape are read now, or will be. Others may have to forget theirs."""
        if not shape.forgettable:
            return
        own = self._read.setdefault(shape.namespace, {})
        size = own.pop(shape, None)
        if size is None:
            size = shape.weight
            self._sizes[shape.namespace] = self._sizes.get(shape.namespace, 0) + size
            self.size += size
        own[shape] = size
        while self.size > self._most:
            namespace = max(self._sizes, key=self._sizes.__getitem__)
            oldest = next(iter(self._read[namespace]))
            if oldest is shape:
                return  # larger than all there is room for, and needed now
            self._drop(namespace, oldest)
            oldest.forget()

    def _drop(self, namespace: str, shape: PodShape) -> None:
        own = self._read[namespace]
        size = own.pop(shape)
        self.size -= size
        self._sizes[namespace] -= size
        if not own:
            del self._read[namespace], self._sizes[namespace]
