"""What the scheduler's requests say, byte for byte where it matters."""

from __future__ import annotations

import json
import re

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from scheduler.kube import writes
from scheduler.kube.writes import PodRef
from tests.unit.kube.conftest import ScriptedServer

POD = PodRef("ns", "web-0", "u-1", "42")


def test_a_binding_names_pod_uid_and_node() -> None:
    """The uid is what keeps a binding from a namesake."""
    path, body = writes.binding(POD, "node-7")
    assert path == "/api/v1/namespaces/ns/pods/web-0/binding"
    assert json.loads(body) == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"namespace": "ns", "name": "web-0", "uid": "u-1"},
        "target": {"kind": "Node", "name": "node-7"},
    }


def test_an_event_is_what_kube_scheduler_writes() -> None:
    """events.k8s.io/v1 with regarding, action, controller and a micro time; no series."""
    path, body = writes.event(
        POD,
        kind="Normal",
        reason="Scheduled",
        action="Binding",
        note="Successfully assigned ns/web-0 to node-7",
        controller="berth",
        instance="berth-abc",
        moment=1700000000.123456,
    )
    found = json.loads(body)
    assert path == "/apis/events.k8s.io/v1/namespaces/ns/events"
    assert re.fullmatch(r"web-0\.[0-9a-f]+", found["metadata"].pop("name"))
    assert found == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"namespace": "ns"},
        "eventTime": "2023-11-14T22:13:20.123456Z",
        "type": "Normal",
        "reason": "Scheduled",
        "action": "Binding",
        "note": "Successfully assigned ns/web-0 to node-7",
        "reportingController": "berth",
        "reportingInstance": "berth-abc",
        "regarding": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": "ns",
            "name": "web-0",
            "uid": "u-1",
            "resourceVersion": "42",
        },
    }


def test_micro_time_always_has_six_digits() -> None:
    """A whole second keeps its zeros: MicroTime's parser wants them."""
    assert writes.micro_time(0.0) == "1970-01-01T00:00:00.000000Z"


def test_event_names_are_unique_and_fit() -> None:
    """Ten thousand in a row differ, also for a pod whose name takes all 253 bytes."""
    names = {writes.event_name("p" * 253) for _ in range(10_000)}
    assert len(names) == 10_000
    assert all(len(name) <= 253 for name in names)


@given(st.text(max_size=400), st.integers(4, 300))
def test_shorten_cuts_between_characters(text: str, limit: int) -> None:
    """The result has at most so many bytes, is valid UTF-8, and begins as the text does."""
    found = writes.shorten(text, limit)
    assert len(found.encode()) <= limit
    if len(text.encode("utf-8", "replace")) > limit:
        assert found.endswith("...")
        assert text.encode("utf-8", "replace").startswith(found[:-3].encode())


def test_a_condition_patch_has_all_that_autoscalers_look_at() -> None:
    """Status, reason, message, observedGeneration; lastProbeTime null; the uid guards against a namesake."""
    path, body = writes.condition_patch(
        POD,
        status="False",
        reason="Unschedulable",
        message="0/3 nodes are available: 3 Insufficient cpu.",
        transition="2024-01-01T00:00:00Z",
        generation=3,
        nominated="",
    )
    assert path == "/api/v1/namespaces/ns/pods/web-0/status"
    assert json.loads(body) == {
        "metadata": {"uid": "u-1"},
        "status": {
            "conditions": [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "Unschedulable",
                    "message": "0/3 nodes are available: 3 Insufficient cpu.",
                    "lastProbeTime": None,
                    "lastTransitionTime": "2024-01-01T00:00:00Z",
                    "observedGeneration": 3,
                }
            ],
            "nominatedNodeName": None,
        },
    }


@pytest.mark.parametrize(("node", "want"), [("n1", "n1"), ("", None)])
def test_a_nomination_can_be_set_and_cleared(node: str, want: str | None) -> None:
    """Null removes the field under strategic merge."""
    _, body = writes.nomination_patch(POD, node)
    assert json.loads(body)["status"] == {"nominatedNodeName": want}


def test_eviction_and_deletion_have_preconditions() -> None:
    """Both only ever hit the pod with this uid."""
    path, body = writes.eviction(POD, 30)
    assert path.endswith("/pods/web-0/eviction")
    assert json.loads(body)["deleteOptions"] == {"preconditions": {"uid": "u-1"}, "gracePeriodSeconds": 30}
    path, body = writes.deletion(POD)
    assert path.endswith("/pods/web-0")
    assert json.loads(body) == {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": "u-1"}}


async def test_the_callers_send_what_the_builders_built(server: ScriptedServer) -> None:
    """Verb, path and media type of each request on the wire."""

    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(status=201, body=b"{}")

    server.answer = answer
    async with server.client() as client:
        await writes.bind(client, POD, "n")
        said = writes.event(POD, kind="Normal", reason="R", action="A", note="", controller="berth", instance="i")
        await writes.record(client, *said)
        await writes.patch_status(client, *writes.nomination_patch(POD, "n"))
        await writes.evict(client, POD)
        await writes.delete_pod(client, POD)
    pod = "/api/v1/namespaces/ns/pods/web-0"
    assert server.seen == [
        ("POST", f"{pod}/binding"),
        ("POST", "/apis/events.k8s.io/v1/namespaces/ns/events"),
        ("PATCH", f"{pod}/status"),
        ("POST", f"{pod}/eviction"),
        ("DELETE", pod),
    ]
    assert server.headers[2]["Content-Type"] == "application/strategic-merge-patch+json"
