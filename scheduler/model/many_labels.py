"""Labels of a pod that has thousands of them: a tenant may write 100,000, and nobody goes through them in one turn."""

from collections.abc import Hashable, Mapping

MANY = 256
"""A thing with more labels than these is in indexes by those keys alone that somebody has asked about."""


class ManyLabels(dict[str, str]):
    """More than `MANY` labels, with a number that says which they are. It is worked out where they are decoded."""

    __slots__ = ("digest",)

    def __init__(self, labels: Mapping[str, str]) -> None:
        super().__init__(labels)
        keys = sorted(labels)  # as the API server writes them, so that they are in order already
        self.digest = hash((tuple(keys), tuple(map(labels.__getitem__, keys))))
        """Texts have hashes that nobody outside of the process knows, so nobody can choose labels of equal digests."""


def labels_of(decoded: dict[str, str]) -> Mapping[str, str]:
    """Labels as a pod holds them."""
    return ManyLabels(decoded) if len(decoded) > MANY else decoded


def key_of(labels: Mapping[str, str]) -> Hashable:
    """What is equal for equal labels. It takes as long as they are many, unless they are `ManyLabels`."""
    return labels.digest if isinstance(labels, ManyLabels) else frozenset(labels.items())
