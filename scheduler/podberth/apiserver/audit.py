"""Who asked: users behind bearer tokens, and the in-memory audit log that tests read their invariants from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


@dataclass(frozen=True)
class User:
    """An authenticated user."""

    name: str
    groups: tuple[str, ...] = ("system:authenticated",)
    uid: str = ""

    @property
    def is_master(self) -> bool:
        """Members of system:masters may do anything."""
        return "system:masters" in self.groups


MASTER = User("system:admin", ("system:masters", "system:authenticated"))
ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))


class AuditEntry(NamedTuple):
    """One finished request; a watch is entered when it ends."""

    verb: str
    path: str
    user: str
    code: int
    time: float
    annotations: dict[str, str]


@dataclass
class Trail:
    """What one request leaves behind besides its answer: warnings for the client, annotations for the audit log."""

    user: User
    warnings: list[str] = field(default_factory=list)
    annotations: dict[str, str] = field(default_factory=dict)
