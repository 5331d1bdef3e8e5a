"""The yardstick: binds pods to nodes in turn and posts the same event as a scheduler, without any thought.

`python -m bench.binder KUBECONFIG SCHEDULER_NAME`. A process of its own, so that its CPU can be read; aiohttp with
uvloop and 48 connections for bindings, as many for events, both in protobuf, which costs the API server least.

It is frozen: what Berth costs is held against what this costs, so it shares no code with Berth and is never improved.
A test knows its bytes.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
import sys
import tempfile
import time
from functools import lru_cache
from itertools import cycle
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import uvloop
import yaml

CONNECTIONS = 48
PROTOBUF = {"Content-Type": "application/vnd.kubernetes.protobuf"}
READY = "ready"


def varint(number: int) -> bytes:
    """A number from 0 on, seven bits a byte, the least first."""
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


LENGTHS = tuple(varint(length) for length in range(2048))
KEYS = tuple(bytes((field << 3 | 2,)) for field in range(16))


def integer(field: int, number: int) -> bytes:
    """A field that holds a number."""
    return bytes((field << 3,)) + varint(number)


def message(field: int, body: bytes) -> bytes:
    """A field that holds a message."""
    length = len(body)
    return KEYS[field] + (LENGTHS[length] if length < 2048 else varint(length)) + body


def text(field: int, value: str) -> bytes:
    """A field that holds a string; nothing for an empty one."""
    return message(field, value.encode()) if value else b""


@lru_cache(64)
def head(api_version: str, kind: str) -> bytes:
    """What comes before an object of this kind: four bytes, and typeMeta of a runtime.Unknown."""
    return b"k8s\x00" + message(1, text(1, api_version) + text(2, kind))


def envelope(api_version: str, kind: str, body: bytes) -> bytes:
    """An object as a request's body."""
    return head(api_version, kind) + message(2, body)


class Meta(msgspec.Struct, rename="camel"):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""
    scheduler_name: str = ""
    scheduling_gates: list[Any] = []


class Object(msgspec.Struct):
    metadata: Meta
    spec: Spec


class Event(msgspec.Struct):
    type: str
    object: Object


class Page(msgspec.Struct):
    metadata: dict[str, Any]
    items: list[Object] | None


_event, _page = msgspec.json.Decoder(Event), msgspec.json.Decoder(Page)


class Binder:
    """One scheduler name, one API server."""

    def __init__(self, session: aiohttp.ClientSession, url: str, scheduler_name: str) -> None:
        self._session = session
        self._url = url
        self._name = scheduler_name
        self._bindings: asyncio.Queue[Meta] = asyncio.Queue()
        self._events: asyncio.Queue[tuple[Meta, str]] = asyncio.Queue()
        self._seen: set[str] = set()

    async def run(self) -> None:
        """Until cancelled."""
        nodes = cycle([node.metadata.name for node in (await self._list("nodes")).items or ()])
        async with asyncio.TaskGroup() as tasks:
            for _ in range(CONNECTIONS):
                tasks.create_task(self._bind(nodes))
                tasks.create_task(self._record())
            pods = await self._list("pods")
            for pod in pods.items or ():
                self._take(pod)
            print(READY, flush=True)
            await self._follow(pods.metadata["resourceVersion"])

    async def _list(self, plural: str) -> Page:
        async with self._session.get(f"{self._url}/api/v1/{plural}") as response:
            return _page.decode(await response.read())

    async def _follow(self, version: str) -> None:
        query = {"watch": "true", "resourceVersion": version}
        timeout = aiohttp.ClientTimeout(total=None)
        async with self._session.get(f"{self._url}/api/v1/pods", params=query, timeout=timeout) as response:
            rest = b""
            async for chunk in response.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    event = _event.decode(line)
                    if event.type == "ADDED":
                        self._take(event.object)

    def _take(self, pod: Object) -> None:
        spec, uid = pod.spec, pod.metadata.uid
        if (
            spec.scheduler_name == self._name
            and not spec.node_name
            and not spec.scheduling_gates
            and uid not in self._seen
        ):
            self._seen.add(uid)
            self._bindings.put_nowait(pod.metadata)

    async def _bind(self, nodes: Any) -> None:
        while True:
            pod = await self._bindings.get()
            node = next(nodes)
            metadata = text(1, pod.name) + text(3, pod.namespace) + text(5, pod.uid)
            target = text(1, "Node") + text(3, node)
            body = envelope("v1", "Binding", message(1, metadata) + message(2, target))
            if await self._post(f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/binding", body) < 300:
                self._events.put_nowait((pod, node))

    async def _record(self) -> None:
        while True:
            pod, node = await self._events.get()
            regarding = text(1, "Pod") + text(2, pod.namespace) + text(3, pod.name) + text(4, pod.uid) + text(5, "v1")
            body = envelope(
                "events.k8s.io/v1",
                "Event",
                message(1, text(1, f"{pod.name}.{time.time_ns():x}") + text(3, pod.namespace))
                + message(2, integer(1, int(time.time())))
                + text(4, self._name)
                + text(5, "binder")
                + text(6, "Binding")
                + text(7, "Scheduled")
                + message(8, regarding)
                + text(10, f"Successfully assigned {pod.namespace}/{pod.name} to {node}")
                + text(11, "Normal"),
            )
            await self._post(f"/apis/events.k8s.io/v1/namespaces/{pod.namespace}/events", body)

    async def _post(self, path: str, body: bytes) -> int:
        async with self._session.post(self._url + path, data=body, headers=PROTOBUF) as response:
            await response.read()
            return response.status


async def main(document: dict[str, Any], scheduler_name: str) -> None:
    """Bind on the cluster of the tests' kubeconfig (a token and a CA)."""
    cluster = document["clusters"][0]["cluster"]
    with tempfile.NamedTemporaryFile() as ca:
        ca.write(base64.b64decode(cluster["certificate-authority-data"]))
        ca.flush()
        context = ssl.create_default_context(cafile=ca.name)
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=2 * CONNECTIONS + 1, ssl=context),
        headers={
            "Authorization": f"Bearer {document['users'][0]['user']['token']}",
            "Accept": "application/json",
        },
        read_bufsize=1 << 20,
        skip_auto_headers=("Accept-Encoding",),
    ) as session:
        await Binder(session, cluster["server"], scheduler_name).run()


if __name__ == "__main__":
    uvloop.run(main(yaml.safe_load(Path(sys.argv[1]).read_text()), sys.argv[2]))
