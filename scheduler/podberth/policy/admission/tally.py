"""Counts what this replica does for each policy, and brings the counts into the status of the policy. Pure.

A status holds the sums of all replicas, and beside them, for each replica that wrote lately, how far that replica's own
counts are in the sums. Both change in one conditional write, so a replica whose write was answered by nobody reads
the object again and knows what is left to add: nothing is added twice, and nothing but what a killed replica
had not written yet is lost. `counting` does the reading and writing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from podberth.policy.evaluate import Effect
from podberth.policy.objects import JsonObject
from podberth.policy.options import Pass

FIELDS = ("matched", "rejected", "mutated")
KEPT_FOR = timedelta(hours=1)
"""The time after which the entry of a silent replica is removed: its counts are in the sums."""
WROTE_LAST = 8
"""The number of entries that stay whatever their times say: those written last, at the end of the list. A clock of a
writer or reader may be wrong by more than `KEPT_FOR`.
"""
MOST_REPLICAS = 32

Key = tuple[str, str, str]
"""Namespace, name and uid of a policy: one that is deleted and created again starts from zero."""


class Tally(msgspec.Struct):
    """Counts that only grow, and when each last grew (seconds since the epoch)."""

    matched: int = 0
    rejected: int = 0
    mutated: int = 0
    times: dict[str, float] = msgspec.field(default_factory=dict)

    def counts(self) -> dict[str, int]:
        """Return the three counts by field."""
        return {"matched": self.matched, "rejected": self.rejected, "mutated": self.mutated}


class Tallies:
    """The counts of this replica since its start. `wall` is a clock: seconds since the epoch."""

    def __init__(self, wall: Callable[[], float] = time.time) -> None:
        self.of: dict[Key, Tally] = {}
        self._wall = wall

    def add(self, effects: Iterable[Effect], uids: Mapping[str, str], pass_: Pass) -> None:
        """Count one review. The mutating pass tells what matched; the validating one only adds rejections."""
        now = self._wall()
        for effect in effects:
            key = (effect.namespace, effect.policy, uids.get(effect.policy, ""))
            tally = self.of.get(key)
            if tally is None:
                tally = self.of[key] = Tally()
            if pass_ == "mutate":
                tally.matched += 1
                tally.times["matched"] = now
            if effect.rejected:
                tally.rejected += 1
                tally.times["rejected"] = now
            if effect.mutated:
                tally.mutated += 1
                tally.times["mutated"] = now


class _Entry(msgspec.Struct):
    replica: str | None = None
    time: str | None = None
    matched: int | None = None
    rejected: int | None = None
    mutated: int | None = None


class _Sum(msgspec.Struct, rename="camel"):
    count: int | None = None
    last_time: str | None = None


class Counted(msgspec.Struct):
    """The fields that `status` reads of the status of a policy."""

    counted: list[_Entry] | None = None
    matched: _Sum | None = None
    rejected: _Sum | None = None
    mutated: _Sum | None = None


def stamp(moment: datetime) -> str:
    """Return a time as a metav1.Time."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def status(held: Mapping[str, Any], replica: str, mine: Tally, written: Mapping[str, int], now: datetime) -> JsonObject:
    """Return the fields to write into the status `held`, which is a `Counted`, so that `mine` is in the sums.

    The entry of this replica says how much of `mine` the sums hold already. If it is not there any more, `written` says
    it: what they held of it when this replica last wrote.
    """
    entries = list(held.get("counted") or ())
    own = next((one for one in entries if one.get("replica") == replica), written)
    found: JsonObject = {}
    for field, count in mine.counts().items():
        before = held.get(field) or {}
        more = count - int(own.get(field) or 0)
        if more > 0:
            last = max(str(before.get("lastTime") or ""), stamp(datetime.fromtimestamp(mine.times[field], UTC)))
            found[field] = {"count": int(before.get("count") or 0) + more, "lastTime": last}
    oldest = stamp(now - KEPT_FOR)
    others = [one for one in entries if one.get("replica") != replica]
    late = max(len(others) - WROTE_LAST, 0)
    kept = [one for one in others[:late] if str(one.get("time") or "") >= oldest] + others[late:]
    found["counted"] = [*kept[-(MOST_REPLICAS - 1) :], {"replica": replica, **mine.counts(), "time": stamp(now)}]
    return found
