"""Room that evicted pods were promised: counted as taken until their successors have it."""

from dataclasses import dataclass

from podberth.cache.cluster import Cluster
from podberth.evictor.owners import owner_key
from podberth.evictor.target import claim
from podberth.model.pod import Pod

KEPT_SECONDS = 120.0
"""A successor that is not placed by then found something else, or nobody made it."""


@dataclass(frozen=True, slots=True)
class _Claim:
    ghost: str
    owner: str
    until: float


class Claims:
    """By the evicted pod's UID, oldest first."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._claims: dict[str, _Claim] = {}

    def __len__(self) -> int:
        return len(self._claims)

    def add(self, pod: Pod, row: int, now: float) -> None:
        """A pod is to be evicted, and its successor could go to this row."""
        self.drop(pod.uid)
        self._claims[pod.uid] = _Claim(claim(pod, row, self._cluster), owner_key(pod), now + KEPT_SECONDS)

    def drop(self, uid: str) -> None:
        """The pod was not evicted."""
        found = self._claims.pop(uid, None)
        if found is not None:
            self._cluster.forget(found.ghost)

    def settle(self, owner: str) -> None:
        """A new pod of an owner was placed: the oldest of the owner's claims is made good."""
        uid = next((uid for uid, found in self._claims.items() if found.owner == owner), None)
        if uid is not None:
            self.drop(uid)

    def expire(self, now: float) -> None:
        """Drop those that nobody came for."""
        for uid in [uid for uid, found in self._claims.items() if found.until <= now]:
            self.drop(uid)
