"""Berth's spans in an OpenTelemetry Collector that has the configuration of examples/tracing."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from podberth import __version__
from tests.controlplane.cluster import free_port
from tests.controlplane.process import Process
from tests.controlplane.wait import wait_for
from tests.traces import PODS, Seen, Traces, one_pod

pytestmark = pytest.mark.real

CONFIGURATION = Path(__file__).parents[3] / "examples/tracing/collector.yaml"
ERROR = 2
"""STATUS_CODE_ERROR of OTLP."""


def about(attributes: list[dict[str, Any]]) -> dict[str, str]:
    """Return the attributes that are strings."""
    return {each["key"]: each["value"]["stringValue"] for each in attributes if "stringValue" in each["value"]}


def spans(batch: dict[str, Any]) -> Iterator[Seen]:
    """Return the spans of a line of the file, all of which Berth has sent."""
    for sent in batch["resourceSpans"]:
        resource = about(sent["resource"]["attributes"])
        assert (resource["service.name"], resource["service.version"]) == ("berth", __version__)
        for span in (span for scope in sent["scopeSpans"] for span in scope["spans"]):
            own, parent = int(span["spanId"], 16), int(span.get("parentSpanId") or "0", 16)
            times = int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])
            failed = span.get("status", {}).get("code") == ERROR
            yield Seen(own, parent, span["name"], about(span.get("attributes", [])), *times, failed)


async def test_a_pod_in_its_file(collector: Path, tmp_path: Path) -> None:
    """The file has the pod's attempt, whole: its extension points, plugins, and the Binding that was written."""
    file, port = tmp_path / "traces.jsonl", free_port()
    sets = {
        "receivers.otlp.protocols.http.endpoint": f"127.0.0.1:{port}",
        "exporters.file.path": file,
        "service.telemetry.metrics.level": "none",
    }
    given = [f"--set={key}={value}" for key, value in sets.items()]
    process = Process("collector", [collector, f"--config={CONFIGURATION}", *given], tmp_path / "collector.log")
    process.start()
    try:

        def listens() -> bool:
            process.check()
            with closing(socket.socket()) as tried:
                return tried.connect_ex(("127.0.0.1", port)) == 0

        wait_for("the collector to listen", listens)
        await one_pod(tmp_path, f"http://127.0.0.1:{port}")
    finally:
        code = process.stop()
    assert code == 0, process.tail()
    traces = Traces(span for line in file.read_text().splitlines() for span in spans(json.loads(line)))
    (web,) = traces.attempts("web")
    assert (web.parent, web.failed) == (0, False)
    assert (web.about["berth.result"], web.about["k8s.node.name"]) == ("scheduled", "n1")
    assert traces.names(web) == ["PreFilter", "Filter", "Reserve", "Bind"]  # one node needs no score
    assert "Filter NodeResourcesFit" in traces.names(traces.child(web, "PreFilter"))
    written = traces.child(traces.child(web, "Bind"), "POST pods/binding")
    assert written.about["url.path"] == f"{PODS}/web/binding"
    assert traces.names(written) == []
    assert all(child.begin >= span.begin for span in traces.spans for child in traces.below(span))
