"""What `berth run` serves over HTTPS: health, gauges, configuration, stories of pods."""

from __future__ import annotations

import heapq
import time
from collections import Counter as Tally
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from podberth.app import families
from podberth.app.bindings import FAILURES
from podberth.app.comparer import Comparer
from podberth.app.reload import Reloader
from podberth.app.rivals import Rivals
from podberth.app.scheduler import Scheduler
from podberth.app.storyteller import PATH, Storyteller
from podberth.engine.placement_conflicts import CONSTRAINTS
from podberth.kube.client import Client
from podberth.kube.lease import Elector
from podberth.service.metrics import Asked, Instrument, Labels
from podberth.service.pages import Checks
from podberth.service.serving import Endpoints

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
    """All that there is to serve about one scheduler."""
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
        """Upstream's leader watchdog: the term is over, and the process still here."""
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
        kinds = self._scheduler.watch.awaited()
        return f"not listed yet: {', '.join(kinds)}" if kinds else None

    def _gap(self) -> str | None:
        return self._scheduler.freshness.gap() or None

    def _stopping(self) -> str | None:
        return "shutting down" if self._scheduler.stopping else None

    # -- numbers -------------------------------------------------------------------------------------------------

    def instruments(self) -> list[Instrument]:
        scheduler, written = self._scheduler, self._scheduler.writer.written
        found: list[Instrument] = [
            *scheduler.meter.instruments(),
            Asked(families.PENDING, self._pending),
            Asked(families.QUEUED, lambda: {(*at, "pod"): count for at, count in self._pending().items()}),
            Asked(families.INCOMING, self._incoming),
            Asked(families.INCOMING_ENTITIES, lambda: {(*by, "pod"): n for by, n in self._incoming().items()}),
            Asked(families.CACHE_SIZE, self._cache_size),
            Asked(families.UNSCHEDULABLE_PODS, self._unschedulable),
            Asked(families.COSTLY_NAMESPACES, self._costly),
            Asked(families.KEPT_NODES, self._kept_nodes),
            Asked(families.IN_FLIGHT, lambda: {(): float(scheduler.engine.in_flight)}),
            Asked(families.INBOX, lambda: {(): float(scheduler.inbox)}),
            Asked(families.BIND_FAILURES, self._bind_failures),
            Asked(families.UNANSWERED, lambda: {(): float(scheduler.writer.bindings.unanswered)}),
            Asked(families.REFUSALS, lambda: {(why,): float(n) for why, n in scheduler.refusals.counted.items()}),
            Asked(families.CONFLICTS, lambda: {(what,): float(written.conflicts[what]) for what in CONSTRAINTS}),
            Asked(families.DEVICES_TWICE, lambda: {(): float(written.devices_given_twice)}),
            Asked(families.STATUSES_WAITING, lambda: {(): float(len(scheduler.writer.statuses))}),
            Asked(families.STATUSES_DROPPED, lambda: {(): float(scheduler.writer.statuses.dropped)}),
            Asked(families.EVENTS_DROPPED, lambda: {(): float(written.events_dropped)}),
            Asked(families.STALENESS, self._staleness),
            Asked(
                families.WATCHED_OBJECTS,
                lambda: {(r.resource.called,): float(len(r)) for r in scheduler.watch.reflectors},
            ),
            Asked(families.WATCH_TROUBLE, self._trouble),
            Asked(
                families.WATCH_CHECKS,
                lambda: {(r.resource.called,): float(r.counts.checks) for r in scheduler.watch.reflectors},
            ),
            Asked(families.BLIND, lambda: {(): float(bool(scheduler.freshness.gap()))}),
            Asked(families.RETRIES, lambda: {(str(code),): float(n) for code, n in self._client.retries.items()}),
        ]
        found += self._reloader.instruments()
        found += scheduler.sources.instruments()
        if self._comparer.found is not None:
            found.append(Asked(families.DIFFERENCES, lambda: {(): float(self._comparer.found or 0)}))
        if self._elector is not None:
            found.append(Asked(families.LEADER, self._leader))
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
        """The profiles that keep room for pod groups."""
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
            for trouble in families.TROUBLES
        }

    def _leader(self) -> Values:
        assert self._elector is not None
        return {(self._reloader.config.leader_election.resource_name,): float(self._elector.leading)}

    def configuration(self) -> Any:
        """As a KubeSchedulerConfiguration, less what is secret in it."""
        return _without_keys(msgspec.to_builtins(self._reloader.config))


def _without_keys(document: Any) -> Any:
    if isinstance(document, dict):
        return {k: "REDACTED" if k == "keyData" and v else _without_keys(v) for k, v in document.items()}
    return [_without_keys(value) for value in document] if isinstance(document, list) else document
