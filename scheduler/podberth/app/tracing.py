"""Traces of attempts: an observer that makes OpenTelemetry spans of what the engine tells and of what is written.

`berth run --tracing` alone imports this module, and with it the packages of the extra `podberth[otel]`. A span is made
when an attempt has ended, from the record that the metrics and the pod's story have anyway, so nothing is added to the
attempt. Spans wait in the SDK's queue, which is bounded and drops, for the SDK's thread, which sends them.
"""

from __future__ import annotations

import logging
import os
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import structlog
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, StatusCode, set_span_in_context
from opentelemetry.util.types import AttributeValue

from podberth import __version__
from podberth.app.scheduler import Scheduler
from podberth.cache.cluster import Placement
from podberth.engine.instructions import UNSCHEDULABLE
from podberth.engine.observers import Observer
from podberth.engine.queue.queued import QueuedPod
from podberth.engine.story import MOST_NAMED, cut
from podberth.framework.binding import Call, Holds, Wait
from podberth.framework.config import ConfigError
from podberth.framework.decision import AttemptRecord, Decision, Trace
from podberth.framework.guard import spelled
from podberth.kube.client import Client
from podberth.kube.connection import Connection
from podberth.kube.errors import ApiError
from podberth.kube.flow import Lane
from podberth.kube.machine import MACHINE, Machine
from podberth.model.pod import Pod
from podberth.model.pod_group import PodGroup
from podberth.service.log import RateLimit

log = structlog.get_logger("tracing")

MOST_KEPT = 4096
"""The number of pods whose last attempt is remembered, and of objects to which their writes belong."""
MOST_CALLS = 256
"""The number of calls of plugins in one attempt that have a span; preemption may make thousands."""
CLOSE_SECONDS = 3.0
"""Seconds for which the end of the process waits for the last spans to be sent."""
PROTOCOL = "http/protobuf"
_PATH = re.compile(
    r"/(?:api|apis/[^/]+)/[^/]+(?:/namespaces/(?P<namespace>[^/]+))?/(?P<resource>[^/]+)"
    r"(?:/(?P<name>[^/]+)(?:/(?P<subresource>.+))?)?"
)
_QUIET = re.compile(r"/(?:leases|\w+reviews)(?:/|$)")
"""Writes that are no part of scheduling: Leases, and questions about who may read metrics."""

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")
Named = tuple[str, str, str]
"""(plural of its kind, namespace, name)."""
PluginCall = tuple[str, str, float, float]
"""(plugin, extension point, begin, seconds)."""


def by_environment() -> Tracing:
    """Return what sends spans by OTLP, set up by the environment variables OTEL_*.

    Raises ConfigError for a value that can't be used.
    """
    for name in ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"):
        if os.environ.get(name, PROTOCOL) != PROTOCOL:
            raise ConfigError(f'{name}: "{os.environ[name]}": expected {PROTOCOL}')
    for package in ("opentelemetry", "urllib3"):
        _tell_in_our_log(logging.getLogger(package))
    own = Resource.create({"service.name": "berth", "service.version": __version__})
    provider = TracerProvider(resource=own.merge(OTELResourceDetector().detect()), shutdown_on_exit=False)
    try:
        exporter = OTLPSpanExporter()
        provider.add_span_processor(BatchSpanProcessor(exporter))
    except ValueError as error:
        raise ConfigError(f"environment variables OTEL_*: {error}") from None
    return Tracing(provider, exporter.shutdown)


class _Attempt:
    """An attempt to schedule a pod, from its first extension point to the end of its Binding."""

    __slots__ = ("began", "calls", "ended", "offset", "phase", "root", "since", "span", "trace")

    def __init__(self, root: Span, began: float, offset: float, trace: Trace | None) -> None:
        self.root = root
        self.began = began
        self.offset = offset
        """Seconds since the epoch at engine time 0."""
        self.trace = trace
        self.calls: list[PluginCall] = []
        self.phase = "Bind"
        """The part of its binding cycle in which the pod is: Permit, PreBind or Bind."""
        self.since: float | None = None
        """The begin of that part; None: it follows the last extension point."""
        self.span: Span | None = None
        """The span of that part, once something needs it."""
        self.ended = False

    def nanoseconds(self, at: float) -> int:
        """Return an engine time as OpenTelemetry counts time."""
        return int((at + self.offset) * 1e9)


class Tracing(Observer):
    """Makes a trace of each attempt: the extension points, the plugins that were called, the binding cycle."""

    def __init__(
        self, provider: TracerProvider, give_up: Callable[[], None] | None = None, machine: Machine = MACHINE
    ) -> None:
        """`give_up`: has the provider send nothing more, at once."""
        self._provider = provider
        self._give_up = give_up
        self._record: AttemptRecord | None = None
        self._tracer = provider.get_tracer("podberth", __version__)
        self._clock, self._wall = machine.monotonic, machine.wall
        self._open: OrderedDict[str, _Attempt] = OrderedDict()
        """UID → the attempt whose pod is in its binding cycle."""
        self._parents: OrderedDict[Named, _Attempt | Context] = OrderedDict()
        """The parent of what is written to an object: of a pod, its last attempt, or the preemption that it is a victim
        of; of a claim or a volume, the attempt that has it written."""
        self._trace: Trace | None = None
        self._calls: list[PluginCall] = []
        """The calls of plugins in the attempt whose record is `_trace`."""

    def follow_scheduler(self, scheduler: Scheduler) -> None:
        """Trace the attempts of a scheduler, and have each call of a plugin timed."""
        self._record = scheduler.engine.scheduling.record
        scheduler.engine.observe(self)
        scheduler.meter.tell_calls(self._called)

    def _called(self, plugin: str, point: str, began: float, seconds: float) -> None:
        trace = None if self._record is None else self._record.trace
        if trace is None:
            return  # no attempt is under way
        if trace is not self._trace:
            self._trace, self._calls = trace, []
        if len(self._calls) < MOST_CALLS:
            self._calls.append((plugin, point, began, seconds))

    def client(self, connection: Connection, **options: Any) -> Client:
        """Return a client whose writes are spans. `options`: as of `Client`."""
        return TracedClient(self, connection, **options)

    def close(self) -> None:
        """End what is under way, and send what waits, for `CLOSE_SECONDS` at most."""
        for uid in list(self._open):
            self._end_open(uid, "stopped")
        # The SDK would try for half a minute where nobody answers.
        closing = threading.Thread(target=self._provider.shutdown, name="tracing", daemon=True)
        closing.start()
        closing.join(CLOSE_SECONDS)
        if closing.is_alive() and self._give_up is not None:
            self._give_up()

    # -- what the engine tells ---------------------------------------------------------------------------------------

    def assumed(self, queued: QueuedPod, node: str, decision: Decision, now: float) -> None:
        """Begin the trace of an attempt that found a node."""
        self._end_open(queued.pod.uid, "reverted")  # the attempt before, if nothing has told of its end
        attempt = self._begin(queued, now)
        attempt.root.set_attribute("k8s.node.name", node)
        attempt.root.set_attribute("berth.nodes.evaluated", decision.nodes)
        attempt.root.set_attribute("berth.nodes.feasible", decision.fitting)
        _keep(self._open, queued.pod.uid, attempt)

    def failed(self, queued: QueuedPod, reason: str, message: str, plugins: frozenset[str], now: float) -> None:
        """Make the trace of an attempt that failed, before or after it found a node."""
        attempt = self._open.pop(queued.pod.uid, None) or self._begin(queued, now)
        attempt.root.set_attribute("berth.plugins", sorted(plugins))
        attempt.root.set_attribute("berth.message", cut(message))
        self._end(attempt, "unschedulable" if reason == UNSCHEDULABLE else "error", message)

    def waits(self, queued: QueuedPod, node: str, plugin: str, answer: Holds | Wait | Call, now: float) -> None:
        """Begin the part of the binding cycle in which a plugin has the pod wait."""
        attempt = self._open.get(queued.pod.uid)
        if attempt is None:
            return
        plugins = [plugin]
        match answer:
            case Holds(seconds):
                point, plugins = "Permit", list(seconds)
            case Wait(writes=writes):
                point = "PreBind"
                for write in writes:
                    kind, namespace, name = write.key
                    _keep(self._parents, (f"{kind.lower()}s", namespace, name), attempt)
            case Call():
                point = spelled(answer.point)
        self._next_phase(attempt, point, {"berth.plugins": plugins})

    def posted(self, queued: QueuedPod, node: str, now: float) -> None:
        """Begin the last part: the Binding of a pod that had to wait."""
        attempt = self._open.get(queued.pod.uid)
        if attempt is not None:
            self._next_phase(attempt, "Bind", {})

    def bind_failed(self, queued: QueuedPod, status: int, message: str, now: float) -> None:
        """Mark the Binding as failed; `failed` follows."""
        attempt = self._open.get(queued.pod.uid)
        if attempt is not None:
            self._phase_of(attempt).set_status(StatusCode.ERROR, cut(message))

    def bound(self, queued: QueuedPod, node: str, by: str, now: float) -> None:
        """End the trace: the pod is bound."""
        self._end_open(queued.pod.uid, "scheduled")

    def placed(self, pod: Pod, before: Placement | None, now: float, ours: bool) -> None:
        """End the trace of a pod that the watch shows on a node before its Binding is answered."""
        self._end_open(pod.uid, "scheduled" if ours else "bound by another")

    def left(self, uid: str, why: str, now: float) -> None:
        """End the trace of a pod that is gone."""
        self._end_open(uid, why)

    def preempted(self, pod: Pod, node: str, victims: tuple[Pod, ...], group: PodGroup | None, now: float) -> None:
        """Add whom a pod preempts to its last attempt; the deletions of the victims belong to that."""
        parent = self._parent(("pods", pod.namespace, pod.name))
        names = [victim.key for victim in victims[:MOST_NAMED]]
        about: dict[str, AttributeValue] = {"berth.victims": names, "berth.victims.count": len(victims)}
        if group is None:
            about["k8s.node.name"] = node
        span = self._tracer.start_span("Preempt", parent, attributes=about)
        span.end()
        for victim in victims:
            _keep(self._parents, ("pods", victim.namespace, victim.name), set_span_in_context(span))

    # -- what is written ---------------------------------------------------------------------------------------------

    def _parent(self, named: Named) -> Context:
        """Return the parent of what is written to an object; none, if no attempt is known that has it written."""
        found = self._parents.get(named)
        if isinstance(found, _Attempt):
            return set_span_in_context(found.root if found.ended else self._phase_of(found))
        return Context() if found is None else found

    @contextmanager
    def writing(self, verb: str, path: str, requests: int = 1) -> Iterator[Span]:
        """Make a span of a write, under the attempt of the pod that it is about."""
        span = self._write(verb, path, requests)
        try:
            yield span
        except BaseException as error:
            if isinstance(error, ApiError):
                span.set_attribute("http.response.status_code", error.status)
            span.set_status(StatusCode.ERROR, cut(str(error) or type(error).__name__))
            raise
        finally:
            span.end()

    def _write(self, verb: str, path: str, requests: int) -> Span:
        about: dict[str, AttributeValue] = {"http.request.method": verb, "url.path": path}
        if requests > 1:
            about["berth.requests"] = requests
        what, parent = path, Context()
        found = _PATH.fullmatch(path)
        if found is not None:
            resource, name = found["resource"], found["name"] or ""
            what = "/".join(filter(None, (resource, found["subresource"])))
            parent = self._parent((resource, found["namespace"] or "", name))
        return self._tracer.start_span(f"{verb} {what}", parent, kind=SpanKind.CLIENT, attributes=about)

    # -- spans -------------------------------------------------------------------------------------------------------

    def _begin(self, queued: QueuedPod, now: float) -> _Attempt:
        pod, trace = queued.pod, queued.trace
        began = trace[0] if trace else now
        offset = self._wall() - self._clock()
        about: dict[str, AttributeValue] = {
            "k8s.namespace.name": pod.namespace,
            "k8s.pod.name": pod.name,
            "k8s.pod.uid": pod.uid,
            "berth.profile": pod.scheduler_name,
            "berth.attempt": queued.attempts,
        }
        root = self._tracer.start_span("Schedule", Context(), attributes=about, start_time=int((began + offset) * 1e9))
        attempt = _Attempt(root, began, offset, trace)
        if trace is self._trace:
            attempt.calls = self._calls  # Reserve plugins are called later
        _keep(self._parents, ("pods", pod.namespace, pod.name), attempt)
        return attempt

    def _end_open(self, uid: str, result: str) -> None:
        attempt = self._open.pop(uid, None)
        if attempt is not None:
            self._end(attempt, result)

    def _end(self, attempt: _Attempt, result: str, error: str = "") -> None:
        attempt.ended = True
        attempt.root.set_attribute("berth.result", result)
        if result == "error":
            attempt.root.set_status(StatusCode.ERROR, cut(error))
        if attempt.root.is_recording():
            self._points(attempt)
        if attempt.since is not None or attempt.span is not None or result == "scheduled":
            self._phase_of(attempt).end(attempt.nanoseconds(self._clock()))
        attempt.root.end(attempt.nanoseconds(self._clock()))
        attempt.trace, attempt.calls, attempt.span = None, [], None  # only the root is needed from now on

    def _points(self, attempt: _Attempt) -> None:
        """Make a span of each extension point that the attempt passed, and of the plugins' calls in it."""
        trace, calls = attempt.trace, attempt.calls
        parent = set_span_in_context(attempt.root)
        for i in range(1, len(trace), 3) if trace else ():
            assert trace is not None
            begin, point, status, end = trace[i - 1], trace[i], trace[i + 1], trace[i + 2]
            span = self._span(attempt, parent, point, begin, {"berth.status": status})
            inside = set_span_in_context(span)
            for plugin, of, began, seconds in calls:
                if begin <= began < end:
                    called = self._span(attempt, inside, f"{of} {plugin}", began, {"berth.plugin": plugin})
                    called.end(attempt.nanoseconds(began + seconds))
            span.end(attempt.nanoseconds(end))

    def _phase_of(self, attempt: _Attempt) -> Span:
        """Return the span of the part of the binding cycle in which the pod is."""
        if attempt.span is None:
            since = attempt.since
            if since is None:
                since = attempt.trace[-1] if attempt.trace else attempt.began
            parent = set_span_in_context(attempt.root)
            attempt.span = self._span(attempt, parent, attempt.phase, since, {})
        return attempt.span

    def _next_phase(self, attempt: _Attempt, phase: str, about: dict[str, AttributeValue]) -> None:
        now = self._clock()
        if attempt.since is not None:
            if attempt.phase == phase and phase != "Bind":
                return  # the plugin was asked again
            self._phase_of(attempt).end(attempt.nanoseconds(now))
        attempt.phase, attempt.since, attempt.span = phase, now, None
        self._phase_of(attempt).set_attributes(about)

    def _span(
        self, attempt: _Attempt, parent: Context, name: str, began: float, about: dict[str, AttributeValue]
    ) -> Span:
        return self._tracer.start_span(name, parent, attributes=about, start_time=attempt.nanoseconds(began))


class TracedClient(Client):
    """A client that makes a span of each write, but for Leases."""

    def __init__(self, tracing: Tracing, connection: Connection, **options: Any) -> None:
        super().__init__(connection, **options)
        self._tracing = tracing

    async def request(self, verb: str, path: str, **options: Any) -> bytes:
        """Do what a client does, in a span."""
        if verb == "GET" or _QUIET.search(path):
            return await super().request(verb, path, **options)
        with self._tracing.writing(verb, path) as span:
            before: Callable[[], None] | None = options.get("on_send")

            def leaves() -> None:
                span.add_event("sent")
                if before is not None:
                    before()

            return await super().request(verb, path, **{**options, "on_send": leaves})

    async def create_many(self, objects: Sequence[tuple[str, bytes]], content_type: str, *, lane: Lane) -> list[int]:
        """Do what a client does, in one span for all."""
        with self._tracing.writing("POST", objects[0][0], len(objects)):
            return await super().create_many(objects, content_type, lane=lane)

    async def patch_many(self, patches: Sequence[tuple[str, bytes, str]], *, lane: Lane) -> list[tuple[int, bytes]]:
        """Do what a client does, in one span for all."""
        with self._tracing.writing("PATCH", patches[0][0], len(patches)):
            return await super().patch_many(patches, lane=lane)


def _keep(kept: OrderedDict[_Key, _Value], key: _Key, value: _Value) -> None:
    """Put a value behind all others; the oldest goes where there are too many."""
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > MOST_KEPT:
        kept.popitem(last=False)


class _Bridge(logging.Handler):
    """Has the SDK's own warnings in our log: that nobody takes the spans, or that some are dropped."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._rate = RateLimit()

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line, without a traceback."""
        self._rate.write(record.msg, log.warning, "traces", said=cut(record.getMessage()))


def _tell_in_our_log(logger: logging.Logger) -> None:
    logger.setLevel(logging.WARNING)
    logger.propagate = False
    if not any(isinstance(handler, _Bridge) for handler in logger.handlers):
        logger.addHandler(_Bridge())
