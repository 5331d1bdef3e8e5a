"""Pods of groups that are about to use a claim, from Reserve until what they need is written, or they are reverted.

Pods of one group may share a claim before it is allocated: what one of them was promised is promised to all of them.
One of them writes it, and the others wait for that. Upstream counts such pods in `dynamicresources/dra_manager.go`
(inFlightAllocation.sharers), and lets all of them write: all but the first fail.
"""

from collections.abc import Iterator
from typing import NamedTuple

from podberth.model.devices import ClaimKey
from podberth.model.pod_group import GroupKey

MOST = 256
"""How many pods a claim may be reserved for (ResourceClaimReservedForMaxSize)."""


class ClaimUser(NamedTuple):
    """One of the pods."""

    name: str
    group: GroupKey


class ClaimUsers:
    """The pods, by the UID of the claim."""

    def __init__(self) -> None:
        self._users: dict[str, dict[str, ClaimUser]] = {}
        self._writers: dict[str, str] = {}
        """UID of a claim → UID of the pod for which it is being written."""
        self.unseen: dict[str, str] = {}
        """UID of a claim → the version with which it was written for a user, and that the watch does not show yet."""
        self.taking_out: dict[str, int] = {}
        """UID of a pod → how many writes are under way that take it out of its claims."""
        self.moved_on: set[str] = set()
        """UIDs of claims that this process has written, and over whose version of now it has sent nothing since that it
        does not wait for: so nothing can take a pod out of them any more that somebody sent before."""
        self.overtaken: set[str] = set()
        """UIDs of claims without devices that this process has written, so that no allocation arrives any more that an
        earlier leader has sent."""
        self.released: list[ClaimKey] = []
        """Claims that nobody writes any more: those that waited for that may go on."""

    def __len__(self) -> int:
        return len(self._users)

    def of(self, claim: str, group: GroupKey) -> Iterator[tuple[str, ClaimUser]]:
        """(UID, pod) of the users of one group, in the order in which they came."""
        return ((uid, user) for uid, user in self._users.get(claim, _NOBODY).items() if user.group == group)

    def uids(self, claim: str) -> set[str]:
        """UIDs of the pods that are about to use the claim."""
        return set(self._users.get(claim, _NOBODY))

    def add(self, claim: str, pod: str, user: ClaimUser) -> None:
        """A pod is about to use the claim."""
        self._users.setdefault(claim, {})[pod] = user

    def remove(self, claim: str, key: ClaimKey, pod: str) -> None:
        """A pod has what it needs of the claim, or does not need it any more."""
        users = self._users.get(claim)
        if users is not None and users.pop(pod, None) is not None and not users:
            del self._users[claim]
        if self._writers.get(claim) == pod:
            del self._writers[claim]
            self.released.append(key)

    def writer(self, claim: str) -> str:
        """UID of the pod for which the claim is being written; empty: it is not."""
        return self._writers.get(claim, "")

    def write(self, claim: str, pod: str) -> None:
        """The claim is about to be written for this pod."""
        self._writers[claim] = pod

    def forget(self, claim: str) -> None:
        """The claim is gone."""
        self.unseen.pop(claim, None)
        self.moved_on.discard(claim)
        self.overtaken.discard(claim)

    def take_released(self) -> list[ClaimKey]:
        """Claims that nobody writes any more, since this was last asked."""
        found, self.released = self.released, []
        return list(dict.fromkeys(found))


_NOBODY: dict[str, ClaimUser] = {}
