"""The endpoints that `berth run` serves over HTTPS: health, gauges, configuration, stories of pods."""

from __future__ import annotations

import heapq
import time
from collections import Counter as Tally
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from podberth.app import metrics
from podberth.app.comparer import Comparer
from podberth.app.lease import Rivals
from podberth.app.reload import Reloader
from podberth.app.scheduler import Scheduler
from podberth.app.writer import FAILURES
from podberth.engine.placement_conflicts import CONSTRAINTS
from podberth.engine.story import Timeline
from podberth.kube.client import Client
from podberth.kube.errors import one_line
from podberth.kube.lease import Elector
from podberth.kube.writes import micro_time
from podberth.service.metrics import Asked, Instrument, Labels
from podberth.service.pages import Checks
from podberth.service.serving import Endpoints

PATH = "/debug/story"
WANTED = "want ?pod=NAMESPACE/NAME or ?uid=UID"
Values = Mapping[Labels, float]
_NAMESPACES = 20
"""Namespaces that are named among the costly ones."""


def endpoints(
    client: Client,
    scheduler: Scheduler,
    elector: Elector | None,
    reloader: Reloader,
    comparer: Comparer,
    rivals: Rivals,
) -> Endpoints:
    """Return what is served about one scheduler."""
    vitals = _Vitals(client, scheduler, elector, reloader, comparer)
    return Endpoints(
        live=vitals.live(),
        ready=vitals.ready(),
        notes=lambda: {**reloader.notes(), **rivals.notes(), **scheduler.sources.notes()},
        instruments=vitals.instruments,
        configuration=vitals.configuration,
        lookups={PATH: Storyteller(scheduler, elector).answer},
    )


class _Vitals:
    def __init__(
        self, client: Client, scheduler: Scheduler, elector: Elector | None, reloader: Reloader, comparer: Comparer
    ) -> None:
        self._client = client
        self._scheduler = scheduler
        self._elector = elector
        self._reloader = reloader
        self._comparer = comparer

    # -- health --------------------------------------------------------------------------------------------------

    def live(self) -> Checks:
        return {} if self._elector is None else {"leaderElection": self._lost}

    def ready(self) -> Checks:
        leader: Checks = {} if self._elector is None else {"leaderElection": self._no_lease}
        return {**leader, "informer-sync": self._awaited, "watches": self._gap, "shutdown": self._stopping}

    def _lost(self) -> str | None:
        """Say that the term is over, and the process still here (upstream's leader watchdog)."""
        assert self._elector is not None
        return "the Lease is lost" if self._scheduler.led and not self._elector.leading else None

    def _no_lease(self) -> str | None:
        assert self._elector is not None
        if not self._elector.leading:
            if (error := self._elector.last_error) is not None:
                return f"does not lead, and can't reach the Lease: {error}"
            if not self._elector.reached:
                return "does not lead, and the API server has not answered about the Lease yet"
        return self._lost()

    def _awaited(self) -> str | None:
        kinds = [reflector.resource.called for reflector in self._scheduler.freshness.awaited()]
        return f"not listed yet: {', '.join(kinds)}" if kinds else None

    def _gap(self) -> str | None:
        return self._scheduler.freshness.gap() or None

    def _stopping(self) -> str | None:
        return "shutting down" if self._scheduler.stopping else None

    # -- numbers -------------------------------------------------------------------------------------------------

    def instruments(self) -> list[Instrument]:
        scheduler, writer = self._scheduler, self._scheduler.writer
        found: list[Instrument] = [
            *scheduler.meter.instruments(),
            Asked(metrics.PENDING, self._pending),
            Asked(metrics.QUEUED, lambda: {(*at, "pod"): count for at, count in self._pending().items()}),
            Asked(metrics.INCOMING, self._incoming),
            Asked(metrics.INCOMING_ENTITIES, lambda: {(*by, "pod"): n for by, n in self._incoming().items()}),
            Asked(metrics.CACHE_SIZE, self._cache_size),
            Asked(metrics.UNSCHEDULABLE_PODS, self._unschedulable),
            Asked(metrics.COSTLY_NAMESPACES, self._costly),
            Asked(metrics.KEPT_NODES, self._kept_nodes),
            Asked(metrics.IN_FLIGHT, lambda: {(): float(scheduler.engine.in_flight)}),
            Asked(metrics.INBOX, lambda: {(): float(scheduler.inbox)}),
            Asked(metrics.BIND_FAILURES, self._bind_failures),
            Asked(metrics.UNANSWERED, lambda: {(): float(writer.bindings.unanswered)}),
            Asked(metrics.REFUSALS, lambda: {(why,): float(n) for why, n in scheduler.watch.refusals.counted.items()}),
            Asked(metrics.CONFLICTS, lambda: {(what,): float(writer.conflicts[what]) for what in CONSTRAINTS}),
            Asked(metrics.DEVICES_TWICE, lambda: {(): float(writer.devices_given_twice)}),
            scheduler.watch.too_large,
            Asked(metrics.STATUSES_WAITING, lambda: {(): float(len(writer.statuses))}),
            Asked(metrics.STATUSES_DROPPED, lambda: {(): float(writer.statuses.dropped)}),
            Asked(metrics.EVENTS_DROPPED, lambda: {(): float(writer.events.dropped)}),
            Asked(metrics.STALENESS, self._staleness),
            Asked(
                metrics.WATCHED_OBJECTS,
                lambda: {(r.resource.called,): float(len(r)) for r in scheduler.watch.reflectors},
            ),
            Asked(metrics.WATCH_TROUBLE, self._trouble),
            Asked(
                metrics.WATCH_CHECKS,
                lambda: {(r.resource.called,): float(r.counts.checks) for r in scheduler.watch.reflectors},
            ),
            Asked(metrics.BLIND, lambda: {(): float(bool(scheduler.freshness.gap()))}),
            Asked(metrics.RETRIES, lambda: {(str(code),): float(n) for code, n in self._client.retries.items()}),
        ]
        found += self._reloader.instruments()
        found += [*scheduler.sources.instruments(), *scheduler.instruments]
        if self._comparer.found is not None:
            found.append(Asked(metrics.DIFFERENCES, lambda: {(): float(self._comparer.found or 0)}))
        if self._elector is not None:
            found.append(Asked(metrics.LEADER, self._leader))
        return found

    def _pending(self) -> Values:
        return {(place.value,): float(count) for place, count in self._scheduler.engine.queue.counts().items()}

    def _incoming(self) -> Values:
        incoming = self._scheduler.engine.queue.incoming
        return {(place.value, event): float(count) for (place, event), count in incoming.items()}

    def _cache_size(self) -> Values:
        cluster = self._scheduler.engine.cluster
        sizes = {"nodes": cluster.nodes.count, "pods": len(cluster), "assumed_pods": cluster.assumed()}
        return {(what,): float(size) for what, size in sizes.items()}

    def _unschedulable(self) -> Values:
        queue = self._scheduler.engine.queue
        # All that wait, in one go on the event loop: 50,000 of them must not take long.
        waiting = Tally([(queued.plugins, queued.pod.scheduler_name) for queued in queue])
        found: dict[Labels, float] = {}
        for (plugins, profile), count in waiting.items():
            for plugin in plugins:
                found[plugin, profile] = found.get((plugin, profile), 0.0) + count
        return found

    def _bind_failures(self) -> Values:
        failures = self._scheduler.writer.bindings.failures
        return {(why,): float(failures[why]) for why in FAILURES}

    def _kept_nodes(self) -> Values:
        kept = self._scheduler.engine.cluster.reservations.by_profile
        return {(name,): float(len(kept[name].rows) if name in kept else 0) for name in self._reserving()}

    def _reserving(self) -> Iterator[str]:
        """Return the profiles that keep room for pod groups."""
        frameworks = self._scheduler.engine.queue.frameworks
        return (name for name, framework in frameworks.items() if framework.profile.reservation is not None)

    def _costly(self) -> Values:
        owed = self._scheduler.engine.queue.fair_share.all_owed(time.monotonic())
        return {(name,): owed[name] for name in heapq.nlargest(_NAMESPACES, owed, key=owed.__getitem__)}

    def _staleness(self) -> Values:
        ages = {(r.resource.called,): r.staleness() for r in self._scheduler.watch.reflectors}
        return {kind: age for kind, age in ages.items() if age is not None}

    def _trouble(self) -> Values:
        return {
            (r.resource.called, trouble): float(getattr(r.counts, trouble))
            for r in self._scheduler.watch.reflectors
            for trouble in metrics.TROUBLES
        }

    def _leader(self) -> Values:
        assert self._elector is not None
        return {(self._reloader.config.leader_election.resource_name,): float(self._elector.leading)}

    def configuration(self) -> Any:
        """Return the configuration as a KubeSchedulerConfiguration, less what is secret in it."""
        return _without_keys(msgspec.to_builtins(self._reloader.config))


def _without_keys(document: Any) -> Any:
    if isinstance(document, dict):
        return {k: "REDACTED" if k == "keyData" and v else _without_keys(v) for k, v in document.items()}
    return [_without_keys(value) for value in document] if isinstance(document, list) else document


class Storyteller:
    """`/debug/story`: a pod's story for who asks the serving port, with the times of the calendar.

    Answers for one scheduler, on its event loop. `podberth.engine.story` says what is in a story.
    """

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
        """Return a status, and JSON or one line that says why there is none."""
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
        """Say that another replica has more to tell, if so."""
        if self._scheduler.leading or self._elector is None:
            return ""
        return f". This replica stands by: ask the leader, {self._elector.term.holder or 'once there is one'}"
