"""Every metric of `berth run`, and the meter that writes kube-scheduler's.

Families are kube-scheduler's by its names, types, labels and buckets (`pkg/scheduler/metrics/metrics.go`), then our
own; `make reference` writes their page. The meter passes stimuli on to the engine, and counts and times what it does.
The engine has no clock: the meter lends it one, and reads from the record of each attempt which extension points it
passed, and when. Plugins are timed in one attempt of ten, as upstream (pluginMetricsSamplePercent).
"""

from __future__ import annotations

import random
import time
from collections import Counter as Tally
from collections.abc import Callable, Mapping
from operator import sub
from typing import Any

from podberth.engine.engine import Engine
from podberth.engine.instructions import (
    UNSCHEDULABLE,
    Bind,
    BoundByPlugin,
    Failed,
    GroupTried,
    Instruction,
    Nominate,
    PermitWaited,
    PreBindWrite,
    Verified,
    VictimsChosen,
)
from podberth.engine.stimuli import (
    BindFailed,
    BindWithdrawn,
    Bound,
    Cycle,
    ExtendersAnswered,
    ExtendersFailed,
    Gone,
    Put,
    Stimulus,
    key_of,
)
from podberth.framework.decision import EXTENDERS, Decision, Trace
from podberth.framework.guard import spelled
from podberth.framework.interface import POINTS
from podberth.framework.runtime import Framework
from podberth.framework.status import SUCCESS
from podberth.model.pod import Pod
from podberth.service.metrics import Asked, Counter, Family, Histogram, Instrument, Labels, exponential

_ATTEMPT = exponential(0.001, 2, 15)
_STEP = exponential(0.0001, 2, 12)

ATTEMPTS = Family(
    "scheduler_schedule_attempts_total",
    "counter",
    "Attempts to schedule a pod, by result: scheduled, unschedulable, or error.",
    ("result", "profile"),
)
ATTEMPT_SECONDS = Family(
    "scheduler_scheduling_attempt_duration_seconds",
    "histogram",
    "Seconds that an attempt took, from taking the pod off the queue to the API server's answer to its Binding.",
    ("result", "profile"),
    _ATTEMPT,
)
ALGORITHM_SECONDS = Family(
    "scheduler_scheduling_algorithm_duration_seconds",
    "histogram",
    "Seconds that filtering, scoring and (for pods that fit on no node) preemption took.",
    (),
    _ATTEMPT,
)
EVENT_SECONDS = Family(
    "scheduler_event_handling_duration_seconds",
    "histogram",
    "Seconds that applying one change of the cluster to the cache and the queue took.",
    ("event",),
    _STEP,
)
PENDING = Family("scheduler_pending_pods", "gauge", "Pending pods, by the queue that they are in.", ("queue",))
QUEUED = Family(
    "scheduler_queued_entities", "gauge", "The same as scheduler_pending_pods: only pods are queued.", ("queue", "type")
)
SLI_SECONDS = Family(
    "scheduler_pod_scheduling_sli_duration_seconds",
    "histogram",
    "Seconds from a pod's first entry into the active queue to its binding, over all its attempts.",
    ("attempts",),
    exponential(0.01, 2, 20),
)
POD_ATTEMPTS = Family(
    "scheduler_pod_scheduling_attempts",
    "histogram",
    "How many attempts it took to bind a pod.",
    (),
    exponential(1, 2, 5),
)
POINT_SECONDS = Family(
    "scheduler_framework_extension_point_duration_seconds",
    "histogram",
    "Seconds that all plugins of an extension point took for all nodes. Score includes PreScore, and Reserve includes "
    "assuming the pod. Permit and PostBind are measured only when all plugins there are synchronous.",
    ("extension_point", "status", "profile"),
    _STEP,
)
PLUGIN_SECONDS = Family(
    "scheduler_plugin_execution_duration_seconds",
    "histogram",
    "Seconds that one call of a plugin took, for all nodes of the call. One attempt in ten is timed.",
    ("plugin", "extension_point", "status"),
    exponential(0.00001, 1.5, 20),
)
EVALUATIONS = Family(
    "scheduler_plugin_evaluation_total",
    "counter",
    "Attempts that used a plugin's result at an extension point, whether it was computed or kept from an equal pod.",
    ("plugin", "extension_point", "profile"),
)
INCOMING = Family(
    "scheduler_queue_incoming_pods_total",
    "counter",
    "Pods that entered a queue, by the event that moved them there.",
    ("queue", "event"),
)
INCOMING_ENTITIES = Family(
    "scheduler_queue_incoming_entities_total",
    "counter",
    "The same as scheduler_queue_incoming_pods_total: only pods are queued.",
    ("queue", "event", "type"),
)
PREEMPTIONS = Family(
    "scheduler_preemption_attempts_total",
    "counter",
    "Attempts to find victims for a pod that fits on no node, successful or not.",
)
VICTIMS = Family(
    "scheduler_preemption_victims", "histogram", "How many victims one preemption had.", (), exponential(1, 2, 7)
)
GROUP_ATTEMPTS = Family(
    "scheduler_podgroup_schedule_attempts_total",
    "counter",
    "Attempts to schedule a pod group, by result: scheduled, unschedulable, waiting_on_preemption, or error.",
    ("result", "profile"),
)
GROUP_ATTEMPT_SECONDS = Family(
    "scheduler_podgroup_scheduling_attempt_duration_seconds",
    "histogram",
    "Seconds that an attempt to schedule a pod group took, with the turns of others between its parts.",
    ("result", "profile"),
    _ATTEMPT,
)
GROUP_ALGORITHM_SECONDS = Family(
    "scheduler_podgroup_scheduling_algorithm_duration_seconds",
    "histogram",
    "Seconds until it was decided where the pods of a group go, without the search for victims.",
    (),
    _ATTEMPT,
)
GROUP_PREEMPTIONS = Family(
    "scheduler_workload_preemption_attempts_total",
    "counter",
    "Attempts to find victims for a pod group, by result: Success (some were found) or Unschedulable.",
    ("result",),
)
GROUP_VICTIMS = Family(
    "scheduler_workload_preemption_victims",
    "histogram",
    "How many victims one preemption for a pod group had.",
    (),
    exponential(1, 2, 11),
)
DISRUPTIONS = Family(
    "scheduler_preemption_workload_disruptions",
    "histogram",
    "How many groups one preemption removes as a whole, where it removes any.",
    ("preemptor",),
    exponential(1, 2, 11),
)
VIOLATIONS = Family(
    "scheduler_preemption_pdb_violations_total",
    "counter",
    "Victims of preemption that overdraw a PodDisruptionBudget.",
    ("preemptor",),
)
AFTER_FLUSH = Family(
    "scheduler_pod_scheduled_after_flush_total",
    "counter",
    "Pods that were bound only because they are tried again after five minutes without an event for them: a plugin may "
    "lack an event or a queueing hint.",
)
PERMIT_WAIT = Family(
    "scheduler_permit_wait_duration_seconds",
    "histogram",
    "Seconds that pods waited for Permit plugins, by result.",
    ("result",),
    _ATTEMPT,
)
CACHE_SIZE = Family(
    "scheduler_cache_size", "gauge", "How many nodes, pods and assumed pods are in the cache.", ("type",)
)
UNSCHEDULABLE_PODS = Family(
    "scheduler_unschedulable_pods",
    "gauge",
    "Pending pods by the plugins that rejected them last. A pod counts once for each of its plugins.",
    ("plugin", "profile"),
)
LEADER = Family(
    "leader_election_master_status", "gauge", "1 while this process holds the Lease, 0 while it does not.", ("name",)
)

DECISIONS = Family(
    "berth_decisions_total",
    "counter",
    "Attempts, by whether results kept from equal pods were used (hit), or every node was filtered and scored (miss).",
    ("memo", "profile"),
)
VERIFICATIONS = Family(
    "berth_verifications_total",
    "counter",
    "Decisions that --verify computed a second time from the objects, by result: equal or differs.",
    ("result", "profile"),
)
COSTLY_NAMESPACES = Family(
    "berth_namespace_costly_steps",
    "gauge",
    "Steps (microseconds of a core) that a namespace was charged with lately, for the 20 namespaces with the most. One "
    "with more than 5,000 lets the pods of others go first.",
    ("namespace",),
)
KEPT_NODES = Family(
    "berth_pod_group_reserved_nodes",
    "gauge",
    "Nodes on which room is kept for a pod group that waits for long (argument reservation of GangScheduling).",
    ("profile",),
)
IN_FLIGHT = Family(
    "berth_writes_in_flight",
    "gauge",
    "Writes for pods in their binding cycle, and calls of extenders, that are not answered yet.",
)
INBOX = Family("berth_inbox", "gauge", "Changes of the cluster that were received and are not applied yet.")
BIND_FAILURES = Family(
    "berth_binding_failures_total",
    "counter",
    "Bindings that failed, by reason. taken: another scheduler bound the pod first. gone: the pod or its namespace was "
    "deleted, or the pod was replaced. withdrawn: the node changed before the Binding was sent. refused: the API "
    "server said no. not_sent: there was no connection. lost: it was sent, and was not stored.",
    ("reason",),
)
UNANSWERED = Family(
    "berth_bindings_unanswered_total",
    "counter",
    "Bindings without an answer that tells what became of them. Berth keeps the room and asks for the pod.",
)
REFUSALS = Family(
    "berth_pods_refused_total",
    "counter",
    "Pods that a kubelet did not admit after Berth had bound them, by the kubelet's reason: OutOfcpu, OutOfpods and "
    "others. Many of them mean that somebody else binds pods to the same nodes.",
    ("reason",),
)
CONFLICTS = Family(
    "berth_placement_conflicts_total",
    "counter",
    "Pods bound by Berth whose required anti-affinity (anti_affinity) or DoNotSchedule spread constraint "
    "(topology_spread) does not hold, since another scheduler placed a pod about the same time.",
    ("constraint",),
)
DEVICES_TWICE = Family(
    "berth_devices_given_twice_total",
    "counter",
    "Pods bound by Berth with a device that another scheduler gave to another claim at the same time. Only ending one "
    "of the pods mends it: the event DeviceGivenTwice names the device and both claims.",
)
TOO_LARGE = Family(
    "berth_pods_too_large_total",
    "counter",
    "Pods beyond a limit, by the limit as the configuration names it, each counted once. waiting: a pod for us, which "
    "is not tried; placed: it has a node, so all that it requests counts, and of its terms those within the limits.",
    ("limit", "pod"),
)
STATUSES_WAITING = Family(
    "berth_statuses_waiting", "gauge", "Pods for which a condition or a nominated node waits to be written."
)
STATUSES_DROPPED = Family(
    "berth_statuses_dropped_total",
    "counter",
    "Conditions and nominated nodes that were not written, since too many wait or the pod was bound meanwhile.",
)
EVENTS_DROPPED = Family("berth_events_dropped_total", "counter", "Events about pods that could not be written.")
STALENESS = Family(
    "berth_watch_staleness_seconds",
    "gauge",
    "Seconds since the API server last said anything about the objects of a kind: an event, a bookmark, a list, or a "
    "comparison that found no difference. About 60 is normal.",
    ("kind",),
)
WATCHED_OBJECTS = Family("berth_watch_objects", "gauge", "How many objects of a kind are known.", ("kind",))
WATCH_TROUBLE = Family(
    "berth_watch_trouble_total",
    "counter",
    "Problems with lists and watches, by kind of problem: errors, expired, stalls, garbled, malformed, missed_deletes "
    "(deletions that only a list showed), lost (objects whose last event never came, found by comparison with a list), "
    "went_back (etcd was restored from a backup).",
    ("kind", "trouble"),
)
WATCH_CHECKS = Family(
    "berth_watch_checks_total",
    "counter",
    "Comparisons of what is known of a kind with a list of its objects' metadata.",
    ("kind",),
)
BLIND = Family(
    "berth_scheduling_blind",
    "gauge",
    "1 while no pod is scheduled because nodes or pods can't be followed: nothing is heard of them for too long, they "
    "may not be read, or etcd was restored from a backup and is not listed yet. /readyz says which.",
)
RETRIES = Family(
    "berth_api_retries_total",
    "counter",
    "Requests that were sent again, by the status code of the answer before.",
    ("code",),
)
RELOADS = Family("berth_config_reloads_total", "counter", "Reloads of the configuration, by result.", ("result",))
RELOAD_OK = Family(
    "berth_config_last_reload_successful",
    "gauge",
    "1 if the configuration was never reloaded or the last reload succeeded, 0 if the last reload failed.",
)
SOURCE_AGE = Family(
    "berth_plugin_source_age_seconds",
    "gauge",
    "Seconds since a source of a plugin was refreshed. Absent while its default counts.",
    ("profile", "plugin", "source"),
)
SOURCE_REFRESHES = Family(
    "berth_plugin_source_refreshes_total",
    "counter",
    "Questions to a source of a plugin, by result: success or error.",
    ("profile", "plugin", "source", "result"),
)
DIFFERENCES = Family(
    "berth_cache_differences",
    "gauge",
    "How many differences the last comparison of the cache with a fresh list found (SIGUSR2 starts one).",
)
RECORDS = Family(
    "berth_recording",
    "gauge",
    "1 while berth run --record records, 0 once the recording has ended because of the disk or a fault; absent without "
    "that option.",
)
RECORDED_BYTES = Family("berth_recording_bytes_total", "counter", "Bytes that berth run --record has written.")

TROUBLES = ("errors", "expired", "stalls", "garbled", "malformed", "missed_deletes", "lost", "went_back")
SAMPLED = 0.1
KEEP_MOST = 1024
"""The number of attempts and changes that are collected before their times go into histograms."""
ATTEMPTS_TOLD = 15
"""The number of attempts from which on the label only says `15+`."""
RESERVE = "Reserve"
_TIMED = {point: spelled(point) for point in (*POINTS, "unreserve", "normalize") if point != "queue_sort"}
_EVALUATED = {"PreFilter": ("pre_filter",), "Filter": ("filter",), "Score": ("score",)}


class Meter:
    """Measures one engine. It may be used on the event loop's thread only.

    Each pod costs a few appends to plain lists. `fold` turns these into histograms, thousands at a time or when the
    metrics are read.
    """

    def __init__(
        self,
        engine: Engine,
        frameworks: Mapping[str, Framework],
        *,
        clock: Callable[[], float] = time.monotonic,
        rng: Callable[[], float] = random.random,
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._rng = rng
        self._timed_share = SAMPLED
        self._called: Callable[[str, str, float, float], None] | None = None
        self._attempts = Counter(ATTEMPTS)
        self._attempt_seconds = Histogram(ATTEMPT_SECONDS)
        self._algorithm_seconds = Histogram(ALGORITHM_SECONDS)
        self._event_seconds = Histogram(EVENT_SECONDS)
        self._sli_seconds = Histogram(SLI_SECONDS)
        self._pod_attempts = Histogram(POD_ATTEMPTS)
        self._point_seconds = Histogram(POINT_SECONDS)
        self._plugin_seconds = Histogram(PLUGIN_SECONDS)
        self._victims = Histogram(VICTIMS)
        self._group_attempts = Counter(GROUP_ATTEMPTS)
        self._group_seconds = Histogram(GROUP_ATTEMPT_SECONDS)
        self._group_algorithm = Histogram(GROUP_ALGORITHM_SECONDS)
        self._group_preemptions = Counter(GROUP_PREEMPTIONS)
        self._group_victims = Histogram(GROUP_VICTIMS)
        self._disruptions = Histogram(DISRUPTIONS)
        self._violations = Counter(VIOLATIONS)
        self._decisions = Counter(DECISIONS)
        self._verifications = Counter(VERIFICATIONS)
        self._points: Tally[tuple[str, str]] = Tally()
        """(profile, extension point) → attempts that went through it."""
        self._begun: dict[str, float] = {}
        """UID of a pod that is being prepared → the time at which its attempt began."""
        self._binding: dict[str, tuple[Bind | BoundByPlugin, float, float]] = {}
        """UID → (instruction, start of its attempt, time at which it was given)."""
        self._passed: dict[str, list[Trace]] = {}
        """Profile → traces of its attempts, with times."""
        self._bounds: dict[str, list[tuple[float, float, float, int, float]]] = {}
        self._events: dict[str, list[float]] = {}
        self._calls: dict[Labels, list[float]] = {}
        self._spans: dict[str, _Spans] = {}
        self._after_flush = 0
        self._permit_waits = Histogram(PERMIT_WAIT)
        self._kept = 0
        self._cold = False
        """True if the attempt under way has to filter and score all nodes, as nothing is kept for its pod's shape."""
        self._computed: dict[str, int] = {}
        self._record = engine.scheduling.record
        self._record.clock = clock
        self.follow(frameworks)

    def follow(self, frameworks: Mapping[str, Framework]) -> None:
        """Measure these profiles from now on."""
        self._frameworks = frameworks
        self._computed.clear()
        for name in frameworks:
            self._spans.setdefault(name, _Spans(self._clock))
        self._tells = any(framework.profile.plugins("post_bind") for framework in frameworks.values())
        self._listen(None)

    def tell_calls(self, called: Callable[[str, str, float, float], None]) -> None:
        """Time the plugins in each attempt, and tell of each call: plugin, extension point, begin, seconds."""
        self._timed_share, self._called = 1.0, called

    def instruments(self) -> list[Instrument]:
        """Return all metrics that are written here."""
        self.fold()
        return [
            *(one for one in vars(self).values() if isinstance(one, (Counter, Histogram))),
            Asked(AFTER_FLUSH, lambda: {(): float(self._after_flush)}),
            Asked(EVALUATIONS, self._evaluations),
            Asked(PREEMPTIONS, self._preemptions),
        ]

    @property
    def kept(self) -> int:
        """Return the number of attempts and changes whose times are not in a histogram yet."""
        kept = (self._passed, self._bounds, self._events, self._calls)
        return sum(len(values) for by_label in kept for values in by_label.values())

    def verified(self) -> dict[str, int]:
        """Return how many decisions were verified, how many differed; nothing if none was."""
        found = self._verifications.read().values
        differing = sum(int(count) for (result, _), count in found.items() if result == "differs")
        if not found:
            return {}
        return {"verified": int(sum(found.values())), "differing": differing}

    def handle(self, stimulus: Stimulus, now: float) -> list[Instruction]:
        """Do what `Engine.handle` does, and measure it."""
        kind = type(stimulus)
        if kind is Cycle:
            return self._cycle(now)
        if isinstance(stimulus, (Put, Gone)):
            event = self._event(stimulus)
            began = self._clock()
            done = self._sampled(stimulus, now) if event == "UnscheduledPodAdd" else self._engine.handle(stimulus, now)
            if event:
                self._events.setdefault(event, []).append(self._clock() - began)
                self._count()
        elif isinstance(stimulus, Bound):
            began = now
            self._bound(stimulus.uid)
            done = self._sampled(stimulus, now) if self._tells else self._engine.handle(stimulus, now)
        else:
            began = now
            if isinstance(stimulus, (BindFailed, BindWithdrawn)):
                began = self._refused(stimulus.uid, now)
            done = self._engine.handle(stimulus, now)
            if isinstance(stimulus, (ExtendersAnswered, ExtendersFailed)):
                self._take()
        if done:
            self._note(done, now if kind is Put else began)
        return done

    def _sampled(self, stimulus: Stimulus, now: float) -> list[Instruction]:
        """Handle a stimulus, with plugins timed in one case of ten."""
        if self._rng() >= self._timed_share:
            return self._engine.handle(stimulus, now)
        self._listen(self._timed)
        try:
            return self._engine.handle(stimulus, now)
        finally:
            self._listen(None)

    def fold(self) -> None:
        """Turn the durations that were collected into histograms."""
        for profile, spans in self._spans.items():
            for (point, status), seconds in spans.kept.items():
                self._point_seconds.extend(seconds, point, status, profile)
            spans.kept.clear()
        for profile, traces in self._passed.items():
            self._fold_points(profile, traces)
        for profile, rows in self._bounds.items():
            begins, sents, ends, attempts, firsts = zip(*rows, strict=True)
            self._point_seconds.extend(map(sub, ends, sents), "Bind", SUCCESS, profile)
            self._attempts.add(len(rows), "scheduled", profile)
            self._attempt_seconds.extend(map(sub, ends, begins), "scheduled", profile)
            self._pod_attempts.extend(attempts)
            for tries in set(attempts):
                told = str(tries) if tries < ATTEMPTS_TOLD else f"{ATTEMPTS_TOLD}+"
                waits = [end - first for end, first, of in zip(ends, firsts, attempts, strict=True) if of == tries]
                self._sli_seconds.extend(waits, told)
        for event, seconds in self._events.items():
            self._event_seconds.extend(seconds, event)
        for call, seconds in self._calls.items():
            self._plugin_seconds.extend(seconds, *call)
        for kept in (self._passed, self._bounds, self._events, self._calls):
            kept.clear()
        self._kept = 0

    def _fold_points(self, profile: str, traces: list[Trace]) -> None:
        """Turn traces of attempts into durations of extension points; equal paths go together."""
        alike: dict[tuple[tuple[str, ...], tuple[str, ...]], list[list[float]]] = {}
        for trace in traces:
            alike.setdefault((tuple(trace[1::3]), tuple(trace[2::3])), []).append(trace[::3])
        for (passed, statuses), times in alike.items():
            columns = list(zip(*times, strict=True))
            for i, (point, status) in enumerate(zip(passed, statuses, strict=True)):
                if point != EXTENDERS and point not in passed[:i]:  # after extenders, some are passed again
                    self._point_seconds.extend(map(sub, columns[i + 1], columns[i]), point, status, profile)
                    self._points[profile, point] += len(times)
            decided = len(passed) - (passed[-1:] == (RESERVE,))
            if decided:
                self._algorithm_seconds.extend(map(sub, columns[decided], columns[0]))

    def _cycle(self, now: float) -> list[Instruction]:
        sampled = self._rng() < self._timed_share
        if sampled:
            self._listen(self._timed)
        began = self._clock()
        try:
            done = self._engine.handle(Cycle(), now)
        except BaseException:
            self._record.take()
            raise
        finally:
            if sampled:
                self._listen(None)
        if done:
            profile = self._record.profile
            if profile in self._frameworks:
                computed = self._frameworks[profile].computed
                self._cold = computed != self._computed.get(profile, 0)
                self._computed[profile] = computed
            self._take()
            self._note(done, began)
            self._cold = False
        return done

    def _take(self) -> None:
        """Keep the trace of the attempt that has just come to its end."""
        passed = self._record.take()
        if passed is not None:
            self._passed.setdefault(self._record.profile, []).append(passed)
            self._count()

    def _count(self) -> None:
        self._kept += 1
        if self._kept >= KEEP_MOST:
            self.fold()

    def _listen(self, timed: Callable[..., Any] | None) -> None:
        for name, framework in self._frameworks.items():
            framework.listen(timed, self._record.reached, self._spans[name])

    def _timed(self, plugin: Any, point: Callable[..., Any], *args: Any) -> Any:
        name = _TIMED.get(getattr(point, "__name__", ""))
        if name is None:  # a hint, or a question that plugins ask each other
            return point(*args)
        began = self._clock()
        status = "Error"
        try:
            answer = point(*args)
            status = SUCCESS
        finally:
            seconds = self._clock() - began
            self._calls.setdefault((plugin.name, name, status), []).append(seconds)
            if self._called is not None:
                self._called(plugin.name, name, began, seconds)
        return answer

    def _note(self, done: list[Instruction], began: float) -> None:
        """Count what these instructions tell. `began`: the start of their attempt, if nothing more exact is known."""
        for instruction in done:
            kind = type(instruction)
            if kind is Bind:
                self._bind(instruction, began)  # type: ignore[arg-type]
            elif isinstance(instruction, BoundByPlugin):
                self._bind(instruction, began)
                self._bound(instruction.pod.uid)
            elif isinstance(instruction, (PreBindWrite, Nominate)):
                self._begun.setdefault(instruction.pod.uid, began)
            elif isinstance(instruction, Failed):
                pod = instruction.pod
                result = "unschedulable" if instruction.reason == UNSCHEDULABLE else "error"
                self._attempts.add(1, result, pod.scheduler_name)
                since = self._begun.pop(pod.uid, began)
                self._attempt_seconds.observe(self._clock() - since, result, pod.scheduler_name)
                if instruction.decision is not None:
                    self._decisions.add(1, self._memo(instruction.decision), pod.scheduler_name)
            elif isinstance(instruction, Verified):
                result = "equal" if instruction.difference is None else "differs"
                self._verifications.add(1, result, instruction.pod.scheduler_name)
            elif isinstance(instruction, PermitWaited):
                self._permit_waits.observe(instruction.seconds, instruction.result)
            elif isinstance(instruction, GroupTried):
                labels = instruction.result, instruction.pod.scheduler_name
                self._group_attempts.add(1, *labels)
                self._group_seconds.observe(instruction.seconds, *labels)
                self._group_algorithm.observe(instruction.algorithm)
                if instruction.preempts is not None:
                    self._group_preemptions.add(1, SUCCESS if instruction.preempts else "Unschedulable")
            elif isinstance(instruction, VictimsChosen):
                self._chosen(instruction)

    def _chosen(self, chosen: VictimsChosen) -> None:
        (self._victims if chosen.preemptor == "pod" else self._group_victims).observe(chosen.victims)
        if chosen.groups:
            self._disruptions.observe(chosen.groups, chosen.preemptor)
        if chosen.violations:
            self._violations.add(chosen.violations, chosen.preemptor)

    def _bind(self, bind: Bind | BoundByPlugin, began: float) -> None:
        pod, now = bind.pod, self._clock()
        if self._begun:
            since = self._begun.pop(pod.uid, None)
            if since is not None:
                self._point_seconds.observe(now - since, "PreBind", SUCCESS, pod.scheduler_name)
                began = since
        self._binding[pod.uid] = (bind, began, now)
        self._decisions.add(1, self._memo(bind.decision), pod.scheduler_name)

    def _memo(self, decision: Decision) -> str:
        return "hit" if decision.quick and not self._cold else "miss"

    def _bound(self, uid: str) -> None:
        found = self._binding.pop(uid, None)
        if found is not None:
            bind, began, sent = found
            self._after_flush += bind.flushed
            row = (began, sent, self._clock(), bind.attempts, bind.first_seen)
            self._bounds.setdefault(bind.pod.scheduler_name, []).append(row)

    def _refused(self, uid: str, now: float) -> float:
        """Forget a Binding that failed, and return when its attempt began."""
        found = self._binding.pop(uid, None)
        if found is None:
            return now
        bind, began, sent = found
        self._point_seconds.observe(self._clock() - sent, "Bind", "Error", bind.pod.scheduler_name)
        return began

    def _event(self, change: Put | Gone) -> str:
        """Return the label of a change, in kube-scheduler's words; empty for other schedulers' waiting pods."""
        if isinstance(change, Gone):
            if change.kind != "Pod":
                return f"{change.kind}Delete"
            self._begun.pop(change.uid, None)  # no answer will end its attempt
            return "AssignedPodDelete" if self._engine.cluster.placement(change.uid) else "UnscheduledPodDelete"
        thing = change.thing
        if not isinstance(thing, Pod):
            return f"{key_of(thing)[0]}{'Add' if change.added else 'Update'}"
        if thing.node_name:
            placement = self._engine.cluster.placement(thing.uid)
            return "AssignedPodAdd" if placement is None or placement.assumed else "AssignedPodUpdate"
        if thing.scheduler_name not in self._frameworks:
            return ""
        return "UnscheduledPodAdd" if change.added else "UnscheduledPodUpdate"

    def _evaluations(self) -> dict[Labels, float]:
        return {
            (plugin.name, point, profile): float(count)
            for (profile, point), count in self._points.items()
            if profile in self._frameworks
            for step in _EVALUATED.get(point, ())
            for plugin in self._frameworks[profile].profile.plugins(step)
        }

    def _preemptions(self) -> dict[Labels, float]:
        return {(): float(sum(count for (_, point), count in self._points.items() if point == "PostFilter"))}


class _Spans:
    """Durations of the extension points of one profile that are not part of a decision."""

    __slots__ = ("_began", "_clock", "kept")

    def __init__(self, clock: Callable[[], float]) -> None:
        self.kept: dict[tuple[str, str], list[float]] = {}
        self._clock = clock
        self._began = 0.0

    def begin(self) -> None:
        """Note the start of a span, as guard.Spans does."""
        self._began = self._clock()

    def end(self, point: str, status: str) -> None:
        """Note the end of a span, as guard.Spans does."""
        self.kept.setdefault((point, status), []).append(self._clock() - self._began)
