"""Logs instructions that need no request: failed attempts, failing plugins, decisions that differ (`--verify`)."""

from collections.abc import Callable
from typing import Any

import structlog

from podberth.app.naming import about
from podberth.engine.instructions import (
    UNSCHEDULABLE,
    Carries,
    Failed,
    GroupTried,
    Misbehaved,
    PermitWaited,
    Verified,
    VictimsChosen,
)
from podberth.framework.status import PluginError
from podberth.framework.verify import Summary
from podberth.service.log import RateLimit

log = structlog.get_logger("scheduler")

FETCH = "Fetch"


class Reports:
    """Carries these instructions out. `unschedulable` hears when a pod finds no node."""

    def __init__(self, unschedulable: Callable[[], None]) -> None:
        self._unschedulable = unschedulable
        self._misbehaved = RateLimit()
        self.carries: Carries = {
            Failed: self.failed,
            Misbehaved: self.misbehaved,
            Verified: self.verified,
            **dict.fromkeys((PermitWaited, GroupTried, VictimsChosen), lambda _: None),  # the meter counts them
        }

    def failed(self, failed: Failed) -> None:
        """Log a failed attempt; at debug level if the line before about this pod said the same."""
        if failed.reason == UNSCHEDULABLE:
            self._unschedulable()
        (log.debug if failed.repeated else log.info)(
            "not scheduled",
            **about(failed.pod),
            reason=failed.reason,
            attempt=failed.attempts,
            message=failed.message[:1024],
        )

    def misbehaved(self, misbehaved: Misbehaved) -> None:
        """Log a plugin that failed at a point where no pod fails with it."""
        error = misbehaved.error
        where = {"plugin": error.plugin, "point": error.point, "pod": misbehaved.pod.key}
        self._misbehaved.write((error.plugin, error.point), log.error, "plugin failed", **where, error=error.text)

    def plugin_failed(self, error: PluginError) -> None:
        """Log the line of a third-party plugin that raised, at any point: whose pod it was, another line says."""
        if error.point == FETCH:
            return  # of a source; that is said once, where it is refreshed
        kind = (error.plugin, error.point, error.at)
        facts = {"plugin": error.plugin, "point": error.point, "at": error.at}
        self._misbehaved.write(kind, log.error, "a plugin raised an exception", **facts, error=error.text)

    def verified(self, verified: Verified) -> None:
        """Two lines for a difference: what differs, and what a bug report needs. Nothing if there is none."""
        difference = verified.difference
        if difference is None:
            return
        of_verification = structlog.get_logger("verify")
        of_verification.error(
            "a decision differs from a second one without kept results",
            **about(verified.pod),
            differs=list(difference.what),
            decided=_facts(difference.kept),
            second_decision=_facts(difference.rebuilt),
            nodes=list(difference.nodes),
            fault_in=difference.blame,
            numbers=list(difference.numbers),
            done="the second decision is used, and all kept results are dropped",
        )
        of_verification.error("for the report of a decision that differs", **about(verified.pod), dump=difference.dump)


def _facts(summary: Summary) -> dict[str, Any]:
    if summary.message:
        return {"message": summary.message, "plugins": list(summary.plugins)}
    return {"best": list(summary.best), "of": summary.count, "total": summary.total}
