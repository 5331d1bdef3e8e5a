"""The scheduler's requests, byte for byte where it matters."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import msgspec
import pytest
from aiohttp import web
from hypothesis import example, given
from hypothesis import strategies as st

from podberth.apiserver import protobuf
from podberth.app.evictor import evictions
from podberth.kube import writes
from podberth.kube.errors import ApiError, Unreachable
from podberth.kube.flow import BIND
from podberth.kube.writes import PROTOBUF, PodRef
from tests.unit.kube.conftest import ScriptedServer
from tests.unit.kube.wirekit import DONE, stored

POD = PodRef("ns", "web-0", "u-1", "42")


def told(
    about: PodRef = POD, note: str = "Successfully assigned ns/web-0 to node-7", moment: float = 0
) -> writes.Event:
    """The event of a binding."""
    return writes.event(
        about,
        kind="Normal",
        reason="Scheduled",
        action="Binding",
        note=note,
        controller="berth",
        instance="berth-abc",
        moment=moment or 1700000000.123456,
    )


def test_a_binding_names_pod_uid_and_node() -> None:
    """The uid is what keeps a binding from a namesake."""
    assert writes.pod_path(POD, "binding") == "/api/v1/namespaces/ns/pods/web-0/binding"
    assert json.loads(writes.binding(POD, "node-7")) == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"namespace": "ns", "name": "web-0", "uid": "u-1"},
        "target": {"kind": "Node", "name": "node-7"},
    }


def test_an_event_is_what_kube_scheduler_writes() -> None:
    """events.k8s.io/v1 with regarding, action, controller and a micro time; no series."""
    found = json.loads(told().json())
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
    path, body = writes.eviction(POD)
    assert path.endswith("/pods/web-0/eviction")
    assert json.loads(body)["deleteOptions"] == {"preconditions": {"uid": "u-1"}}
    path, body = writes.deletion(POD)
    assert path.endswith("/pods/web-0")
    assert json.loads(body) == {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": "u-1"}}


async def yes(request: web.Request) -> web.StreamResponse:
    """Return what the API server says to a write that it has carried out."""
    if request.path.endswith("/events"):
        return web.Response(status=201, body=stored("Event", "web-0.1", "events.k8s.io/v1"))
    if request.path.endswith(("/binding", "/eviction")):
        return web.Response(status=201, body=DONE)
    return web.Response(body=stored("Pod", "web-0"))


async def test_the_callers_send_what_the_builders_built(server: ScriptedServer) -> None:
    """Verb, path and media type of each request on the wire."""

    server.answer = yes
    async with server.client() as client:
        await writes.bind(client, POD, "n")
        await writes.record(client, told())
        await writes.patch_status(client, *writes.nomination_patch(POD, "n"))
        await evictions.evict(client, POD, dry_run=False)
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
    assert {headers["Accept"] for headers in server.headers} == {"application/json"}


WORDS = st.text(max_size=300)


@example("", "", PodRef("", "", "", ""), 9_999_999_999_999_991)  # more digits than a double has
@given(WORDS, WORDS, st.builds(PodRef, WORDS, WORDS, WORDS, WORDS), st.integers(1, 10**16))
def test_both_encodings_say_the_same(node: str, note: str, about: PodRef, moment: int) -> None:
    """A server reads the JSON out of the protobuf, but for empty fields, which protobuf leaves out."""
    assert protobuf.read(writes.protobuf_binding(about, node)) == _filled(json.loads(writes.binding(about, node)))
    said = msgspec.structs.replace(told(about, note), moment=moment)
    assert protobuf.read(said.protobuf()) == _filled(json.loads(said.json()))


def test_an_event_about_an_object_of_no_namespace() -> None:
    """It is in the namespace `default`, in both encodings; annotations are map entries, field 12 of its metadata."""
    node = writes.Regarding("v1", "Node", "", "n1", "u-1")
    said = msgspec.structs.replace(told(), about=node)
    body = json.loads(said.json())
    assert body["metadata"]["namespace"] == "default"
    assert body["regarding"] == {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u-1"}
    assert protobuf.read(said.protobuf()) == body
    marked = msgspec.structs.replace(said, annotations={"a": "b"})
    assert json.loads(marked.json())["metadata"]["annotations"] == {"a": "b"}
    assert b"\x1a\x07default\x62\x06\x0a\x01a\x12\x01b" in marked.protobuf()


def _filled(found: Any) -> Any:
    return {name: _filled(value) for name, value in found.items() if value != ""} if isinstance(found, dict) else found


async def test_bindings_and_events_are_said_in_protobuf(server: ScriptedServer) -> None:
    """By a client that speaks it; answers and the rest stay JSON."""

    server.answer = yes
    async with server.client(protobuf=True) as client:
        await writes.bind(client, POD, "n")
        await writes.record(client, said := told())
        await writes.patch_status(client, *writes.nomination_patch(POD, "n"))
    assert server.bodies[:2] == [writes.protobuf_binding(POD, "n"), said.protobuf()]
    types = [headers["Content-Type"] for headers in server.headers]
    assert types == [PROTOBUF, PROTOBUF, "application/strategic-merge-patch+json"]
    assert {headers["Accept"] for headers in server.headers} == {"application/json"}


@pytest.mark.parametrize("code", [406, 415])
async def test_json_after_a_refusal(server: ScriptedServer, code: int) -> None:
    """A server that does not speak protobuf is asked once: the same write goes in JSON, and all after it."""

    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(status=code) if request.content_type == PROTOBUF else await yes(request)

    server.answer = answer
    async with server.client(protobuf=True) as client:
        await writes.bind(client, POD, "n")
        await writes.record(client, told())
    types = [headers["Content-Type"] for headers in server.headers]
    assert types == [PROTOBUF, "application/json", "application/json"]


async def test_other_refusals_are_the_callers(server: ScriptedServer) -> None:
    """A conflict in protobuf is raised, not tried again in JSON."""

    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(status=409)

    server.answer = answer
    async with server.client(protobuf=True) as client:
        with pytest.raises(ApiError, match="409"):
            await writes.bind(client, POD, "n")
        assert client.protobuf
    assert len(server.seen) == 1


async def test_swallowed_binds_hold_nobody_up(server: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many Bindings as may be under way are sent and never answered: the next ones go over other connections."""
    monkeypatch.setattr(writes, "BIND_PATIENCE", 0.01)
    over = asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        if len(server.seen) <= BIND.width:
            await over.wait()
        return await yes(request)

    server.answer = answer
    async with server.client(qps=-1) as client:
        found = await asyncio.gather(
            *(writes.bind(client, POD, "n") for _ in range(BIND.width + 10)), return_exceptions=True
        )
        lost = [each for each in found if isinstance(each, Unreachable)]
        assert len(lost) >= BIND.width
        assert all(each.sent for each in lost)
        assert len(server.seen) == BIND.width + 10
        monkeypatch.setattr(writes, "BIND_PATIENCE", 30.0)
        await writes.bind(client, POD, "n")
        over.set()


async def test_a_page_is_no_yes(server: ScriptedServer) -> None:
    """A proxy that answers 200 with a page of its own leaves open what became of any write."""

    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(body=b"<html>sign in</html>", content_type="text/html")

    server.answer = answer
    async with server.client() as client:
        for write in (
            writes.bind(client, POD, "n"),
            writes.record(client, told()),
            writes.patch_status(client, *writes.nomination_patch(POD, "n")),
            writes.patch_object(client, "/api/v1/persistentvolumes/v", b"{}"),
            writes.create_object(client, "/api/v1/persistentvolumes", b"{}"),
            writes.delete_object(client, "/api/v1/persistentvolumes/v", b"{}"),
            writes.delete_pod(client, POD),
            evictions.evict(client, POD, dry_run=False),
        ):
            with pytest.raises(Unreachable) as caught:
                await write
            assert caught.value.sent


async def test_an_answer_without_a_version_is_none(server: ScriptedServer) -> None:
    """An object that the API server has written has a resourceVersion, or at least metadata."""

    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(body=b'{"said": "sign in"}')

    server.answer = answer
    async with server.client() as client:
        for write in (
            writes.patch_object(client, "/api/v1/persistentvolumes/v", b"{}"),
            writes.create_object(client, "/api/v1/persistentvolumes", b"{}"),
        ):
            with pytest.raises(Unreachable):
                await write
