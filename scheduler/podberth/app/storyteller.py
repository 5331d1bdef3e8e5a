"""`/debug/story`: a pod's story for who asks the serving port, with the times of the calendar.

Next stage: `podberth.engine.timeline` says what is in it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import msgspec

from podberth.app.scheduler import Scheduler
from podberth.engine.story import Timeline
from podberth.kube.errors import one_line
from podberth.kube.lease import Elector
from podberth.kube.writes import micro_time

PATH = "/debug/story"
WANTED = "want ?pod=NAMESPACE/NAME or ?uid=UID"


class Storyteller:
    """Answers for one scheduler, on its event loop."""

    def __init__(
        self,
        scheduler: Scheduler,
        elector: Elector | None,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        calendar: Callable[[], float] = time.time,
    ) -> None:
        self._scheduler = scheduler
        self._elector = elector
        self._monotonic = monotonic
        self._calendar = calendar

    def answer(self, query: Mapping[str, str]) -> tuple[int, str | bytes]:
        """Status, and JSON or one line that says why there is none."""
        engine = self._scheduler.engine
        pod, uid = query.get("pod", ""), query.get("uid", "")
        namespace, slash, name = pod.partition("/")
        if bool(pod) == bool(uid) or (pod and not (namespace and slash and name)) or "/" in name:
            return 400, WANTED
        timeline = engine.history.story(uid) if uid else engine.history.story_of(namespace, name)
        if timeline is None:
            asked = one_line(uid or pod)[:512]
            return 404, (
                f"{asked}: no story of this pod; there is one of each pod that was to be scheduled since this process "
                f"started, and of those that were bound the latest ones are kept{self._stands_by()}"
            )
        self._date(timeline)
        return 200, msgspec.json.encode(timeline)

    def _date(self, timeline: Timeline) -> None:
        """Add what only who has a clock knows."""
        now = self._calendar()
        epoch = now - self._monotonic()
        for entry in timeline.entries:
            entry.time = micro_time(epoch + timeline.since + entry.seconds)
        timeline.told_at = micro_time(now)
        timeline.leads = self._scheduler.leading
        if self._elector is not None:
            timeline.leader = self._elector.term.holder
            leads_since = self._scheduler.leads_since
            if self._elector.follows and leads_since is not None and timeline.since < leads_since:
                timeline.leads_since = micro_time(epoch + leads_since)

    def _stands_by(self) -> str:
        """Says that another replica has more to tell, if so."""
        if self._scheduler.leading or self._elector is None:
            return ""
        return f". This replica stands by: ask the leader, {self._elector.term.holder or 'once there is one'}"
