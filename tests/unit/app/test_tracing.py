"""Traces: a tree of spans for each attempt, of what the engine tells and the client writes; nobody waits for them."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from opentelemetry.exporter.otlp.proto.http.trace_exporter import DEFAULT_ENDPOINT
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from structlog.testing import capture_logs

from podberth import __version__
from podberth.apiserver import ApiServer, StatusError
from podberth.apiserver import server as embedded
from podberth.app import tracing as module
from podberth.app.scheduler import Scheduler
from podberth.app.tracing import Tracing
from podberth.cli.errors import InputError
from podberth.cli.run import tracing_by_environment
from podberth.framework.binding import Hold
from podberth.framework.config import ConfigError, decode
from podberth.framework.interface import Plugin
from podberth.framework.profiles import build
from podberth.kube.client import Client
from podberth.kube.connection import Connection
from tests.builders import configuration, node, pod, profile
from tests.registered import registry
from tests.storage import claim, storage_class, using, volume
from tests.traces import NODES, PATIENCE, PODS, Seen, Traces, create, one_pod, until

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
PRIORITIES = "/apis/scheduling.k8s.io/v1/priorityclasses"


class Pairs(Plugin):
    """Pods wait on permit until there are two of them."""

    name = "Pairs"

    def permit(self, assumed: Any, cluster: Any) -> Hold | None:
        others = list(assumed.waiting_pods)
        for other in others:
            other.allow(self.name)
        return None if others else Hold(600.0)


def of_memory(exporter: InMemorySpanExporter) -> Traces:
    """Return the spans that have ended in this process."""
    return Traces(
        Seen(
            span.context.span_id,
            span.parent.span_id if span.parent else 0,
            span.name,
            dict(span.attributes or {}),
            span.start_time or 0,
            span.end_time or 0,
            not span.status.is_ok and not span.status.is_unset,
        )
        for span in exporter.get_finished_spans()
    )


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def tracing(exporter: InMemorySpanExporter) -> Iterator[Tracing]:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    made = Tracing(provider)
    yield made
    made.close()


@asynccontextmanager
async def running(server: ApiServer, tracing: Tracing) -> AsyncIterator[Client]:
    """A scheduler whose attempts are traced; a client of somebody else."""
    pairs = profile("pairs", plugins={"multiPoint": {"enabled": [{"name": "Pairs"}]}})
    decoded = decode(configuration(profile(), pairs))
    here = Connection(host=server.url)
    async with Client(here, qps=-1) as client, tracing.client(here, qps=-1, protobuf=True) as own:
        scheduler = Scheduler(own, build(decoded, {**registry(), "Pairs": Pairs}), decoded)
        tracing.follow_scheduler(scheduler)
        schedules = asyncio.create_task(scheduler.run())
        try:
            async with asyncio.timeout(PATIENCE):
                await scheduler.wait_synced()
            yield client
        finally:
            scheduler.stop()
            await schedules


async def bound(client: Client) -> int:
    """Return how many pods have a node."""
    items = json.loads(await client.get(PODS))["items"]
    return sum(bool(item["spec"].get("nodeName")) for item in items)


async def unlucky(asked: embedded.Connection) -> None:
    """The API server refuses the Binding of one pod."""
    if asked.info.name == "unlucky" and asked.info.subresource == "binding":
        raise StatusError(403, "Forbidden", "no Bindings on Sundays")


async def test_spans_of_attempts(tracing: Tracing, exporter: InMemorySpanExporter) -> None:
    """A pod that is bound, one that fits nowhere, one that preempts, two that wait on permit, one that is refused."""

    async def ended(*names: str) -> None:
        async def found() -> bool:
            traces = of_memory(exporter)
            return all(map(traces.attempts, names))

        await until(found, f"the traces of {names}")

    async def written(what: str) -> None:
        async def found() -> bool:
            return any(span.name == what for span in of_memory(exporter).spans)

        await until(found, what)

    with capture_logs():
        async with ApiServer(fault=unlucky) as server, Client(Connection(host=server.url), qps=-1) as client:
            await create(client, NODES, node("n1", cpu="4"), node("n2", cpu="4"))
            await create(client, NODES, node("small", cpu="1", labels={"host": "small"}))
            await create(client, PRIORITIES, {"metadata": {"name": "urgent"}, "value": 1000})
            async with running(server, tracing) as client:
                await create(client, PODS, pod("web", "3"))
                await ended("web")
                await create(client, PODS, pod("huge", "30"))
                await written("PATCH pods/status")
                await create(client, PODS, pod("db", "3"))
                await ended("db")
                urgent = pod("urgent", "3")
                urgent["spec"]["priorityClassName"] = "urgent"
                await create(client, PODS, urgent)
                await written("DELETE pods")
                await create(client, PODS, pod("one", "10m", scheduler="pairs"), pod("two", "10m", scheduler="pairs"))
                await ended("one", "two")
                await create(client, PODS, pod("unlucky", "10m"))
                await ended("unlucky")
                await create(client, CLASSES, storage_class())
                await create(client, VOLUMES, volume("v", on=["host in small"]))
                await client.patch(f"{VOLUMES}/v/status", b'{"status": {"phase": "Available"}}')
                await create(client, CLAIMS, claim("data"))
                await create(client, PODS, using(pod("stores", "10m"), "data"))
                await written("PATCH persistentvolumes")
                await client.delete(f"{PODS}/stores")
                await ended("stores")
    traces = of_memory(exporter)

    (web,) = traces.attempts("web")
    assert {
        key: web.about[key] for key in ("k8s.namespace.name", "berth.profile", "berth.attempt", "berth.result")
    } == {
        "k8s.namespace.name": "default",
        "berth.profile": "berth",
        "berth.attempt": 1,
        "berth.result": "scheduled",
    }
    assert web.about["k8s.node.name"] in ("n1", "n2")
    assert web.about["k8s.pod.uid"]
    assert (web.about["berth.nodes.evaluated"], web.about["berth.nodes.feasible"]) == (3, 2)
    assert traces.names(web) == ["PreFilter", "Filter", "Score", "Reserve", "Bind"]
    # What equal pods share is computed first of all.
    assert {"Filter NodeResourcesFit", "Score NodeResourcesFit"} <= {*traces.names(traces.child(web, "PreFilter"))}
    assert "Score ImageLocality" in traces.names(traces.child(web, "Score"))
    binding = traces.child(traces.child(web, "Bind"), "POST pods/binding")
    assert binding.about["url.path"] == f"{PODS}/web/binding"
    for span in traces.spans:  # a child may end after its parent: a condition is written when the attempt is over
        assert span.begin <= span.end
        assert all(child.begin >= span.begin for child in traces.below(span))
    assert abs(web.end / 1e9 - time.time()) < PATIENCE

    huge = traces.attempts("huge")[0]
    assert (huge.about["berth.result"], huge.failed) == ("unschedulable", False)
    assert huge.about["berth.message"].startswith("0/3 nodes are available: 3 Insufficient cpu.")
    assert huge.about["berth.plugins"] == ("NodeResourcesFit",)
    assert traces.names(huge) == ["PreFilter", "Filter", "PostFilter", "PATCH pods/status"]

    preempting = traces.attempts("urgent")[0]
    assert preempting.about["berth.result"] == "unschedulable"
    chosen = traces.child(preempting, "Preempt")
    (victim,) = chosen.about["berth.victims"]
    assert victim in ("default/web", "default/db")
    assert traces.names(chosen) == ["PATCH pods/status", "DELETE pods"]
    assert {child.about["url.path"].removesuffix("/status") for child in traces.below(chosen)} == {
        f"/api/v1/namespaces/{victim.replace('/', '/pods/')}"
    }

    (one,) = traces.attempts("one")
    assert traces.names(one)[-2:] == ["Permit", "Bind"]
    assert traces.child(one, "Permit").about["berth.plugins"] == ("Pairs",)
    assert traces.names(traces.child(one, "Bind")) == ["POST pods/binding"]

    refused = traces.attempts("unlucky")[0]
    assert (refused.about["berth.result"], refused.failed) == ("error", True)
    (post,) = traces.below(traces.child(refused, "Bind"))
    assert (post.failed, post.about["http.response.status_code"]) == (True, 403)

    stores = traces.attempts("stores")[0]
    assert stores.about["berth.result"] in ("terminating", "deleted")
    assert traces.names(stores)[-1] == "PreBind"
    waiting = traces.child(stores, "PreBind")
    assert waiting.about["berth.plugins"] == ("VolumeBinding",)
    assert "PATCH persistentvolumes" in traces.names(waiting)


class Collector:
    """What takes spans by OTLP over HTTP, as the OpenTelemetry collector does."""

    def __init__(self) -> None:
        self.resources: list[dict[str, str]] = []
        self.spans: list[Seen] = []

    async def take(self, request: web.Request) -> web.Response:
        """Keep the spans of a request."""
        for found in ExportTraceServiceRequest.FromString(await request.read()).resource_spans:
            self.resources.append({each.key: each.value.string_value for each in found.resource.attributes})
            for span in (span for scope in found.scope_spans for span in scope.spans):
                about = {each.key: each.value.string_value for each in span.attributes}
                own, parent = int.from_bytes(span.span_id, "big"), int.from_bytes(span.parent_span_id, "big")
                times = span.start_time_unix_nano, span.end_time_unix_nano
                self.spans.append(Seen(own, parent, span.name, about, *times, False))
        return web.Response(content_type="application/x-protobuf")


async def test_sent_by_a_process(tmp_path: Path) -> None:
    """`berth run --tracing` sends what it has to where the environment says, the last spans when it ends."""
    collector, app = Collector(), web.Application()
    app.router.add_post("/v1/traces", collector.take)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    where = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        await one_pod(tmp_path, where, OTEL_RESOURCE_ATTRIBUTES="site=harbour")
    finally:
        await runner.cleanup()
    traces = Traces(collector.spans)
    (web_pod,) = traces.attempts("web")
    assert web_pod.about["berth.result"] == "scheduled"
    assert traces.names(traces.child(web_pod, "Bind")) == ["POST pods/binding"]
    assert not [span for span in traces.spans if "leases" in span.name]
    about = collector.resources[0]
    assert {key: about[key] for key in ("service.name", "service.version", "site")} == {
        "service.name": "berth",
        "service.version": __version__,
        "site": "harbour",
    }


def test_example_of_a_collector() -> None:
    """It listens where Berth sends to by default, and each part that is set up is in the pipeline."""
    given = yaml.safe_load((Path(__file__).parents[3] / "examples/tracing/collector.yaml").read_text())
    assert f"http://{given['receivers']['otlp']['protocols']['http']['endpoint']}/" == DEFAULT_ENDPOINT
    ((kind, pipeline),) = given["service"]["pipelines"].items()
    assert kind == "traces"
    assert pipeline == {part: list(given[part]) for part in ("receivers", "processors", "exporters")}


async def test_nobody_takes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spans that nobody takes are dropped, with a few lines in the log; pods are bound, and the end is soon."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "16")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "16")
    monkeypatch.setattr(module, "CLOSE_SECONDS", 0.2)
    with capture_logs() as lines:
        traced = module.by_environment()
        async with ApiServer() as server, Client(Connection(host=server.url), qps=-1) as client:
            await create(client, NODES, node("n1", cpu="100"))
            async with running(server, traced) as client:
                await create(client, PODS, *(pod(f"p{i}", "10m") for i in range(20)))

                async def found() -> bool:
                    return await bound(client) == 20

                await until(found, "twenty Bindings")
        began = time.monotonic()
        traced.close()
        assert time.monotonic() - began < PATIENCE / 10
        for thread in threading.enumerate():
            if thread.name in ("tracing", "OtelBatchSpanRecordProcessor"):
                thread.join(PATIENCE)
    said = [line["said"] for line in lines if line["event"] == "traces"]
    assert said
    assert len(said) <= 40


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc", ': "grpc": expected http/protobuf'),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", ': "grpc": expected http/protobuf'),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "5", "OTEL_.*: max_export_batch_size must be less than or equal to max_queue_size"),
    ],
)
def test_settings_that_are_refused(monkeypatch: pytest.MonkeyPatch, name: str, value: str, says: str) -> None:
    """What can't be used ends the start with one line."""
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=says):
        module.by_environment()


def test_without_its_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """The switch without the extra is one line that says what to install."""
    monkeypatch.delitem(sys.modules, "podberth.app.tracing")
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.resources", None)
    with pytest.raises(InputError, match=r"^--tracing: expected the extra podberth\[otel\]: pip install"):
        tracing_by_environment()
