"""The yardstick for pods that claim devices: the bare binder, and what has to be written of claims before a Binding.

`python -m bench.claim_binder KUBECONFIG SCHEDULER_NAME`. Nobody can bind such a pod with less: the claim gets its
finalizer, its status says which devices it has and for which pod, then come the Binding and the event. Where a class
serves an extended resource, the claim is created, and the pod's status names it. Nothing is decided. Nodes are taken in
turn, and of each the devices that are next in its slices and that no claim has, whether they match or not: the API
server does not look at that.

As `bench/binder.py`, it shares no code with Berth and is never improved; a test knows its bytes (decision 37).
"""

from __future__ import annotations

import asyncio
import base64
import ssl
import sys
import tempfile
import time
from collections import deque
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiohttp
import msgspec
import uvloop
import yaml

from bench.binder import CONNECTIONS, PROTOBUF, READY, envelope, integer, message, text

PATCH = {"Content-Type": "application/merge-patch+json"}
JSON = {"Content-Type": "application/json"}
FINALIZER = "resource.kubernetes.io/delete-protection"
RESOURCES = "/apis/resource.k8s.io/v1"

Key = tuple[str, str]
"""Namespace and name."""


class Lenient(msgspec.Struct, rename="camel"):
    """Of an object, only what is read here."""


class Meta(Lenient):
    name: str
    namespace: str = ""
    uid: str = ""


class Version(Lenient):
    resource_version: str


class Container(Lenient):
    name: str
    resources: dict[str, Any] = {}


class PodSpec(Lenient):
    node_name: str = ""
    scheduler_name: str = ""
    resource_claims: list[dict[str, str]] = []
    containers: list[Container] = []


class Named(Lenient):
    resource_claim_name: str = ""


class PodStatus(Lenient):
    resource_claim_statuses: list[Named] = []


class Pod(Lenient):
    metadata: Meta
    spec: PodSpec
    status: PodStatus


class Asked(Lenient):
    name: str = ""
    count: int = 1
    capacity: dict[str, Any] = {}


class Request(Lenient):
    name: str
    exactly: Asked | None = None
    first_available: list[Asked] = []


class Devices(Lenient):
    requests: list[Request] = []


class Result(Lenient):
    pool: str
    device: str


class Results(Lenient):
    results: list[Result] = []


class Allocation(Lenient):
    devices: Results


class ClaimSpec(Lenient):
    devices: Devices


class ClaimStatus(Lenient):
    allocation: Allocation | None = None


class Claim(Lenient):
    metadata: Meta
    spec: ClaimSpec
    status: ClaimStatus = msgspec.field(default_factory=ClaimStatus)


class Device(Lenient):
    name: str
    allow_multiple_allocations: bool = False


class Pool(Lenient):
    name: str


class SliceSpec(Lenient):
    driver: str
    pool: Pool
    node_name: str = ""
    devices: list[Device] = []


class Slice(Lenient):
    spec: SliceSpec


class ClassSpec(Lenient):
    extended_resource_name: str = ""


class Class(Lenient):
    metadata: Meta
    spec: ClassSpec


class PodEvent(msgspec.Struct):
    type: str
    object: Pod


class ClaimEvent(msgspec.Struct):
    type: str
    object: Claim


class Pods(msgspec.Struct):
    metadata: Version
    items: list[Pod] | None


class Claims(msgspec.Struct):
    metadata: Version
    items: list[Claim] | None


class Slices(msgspec.Struct):
    items: list[Slice] | None


class Classes(msgspec.Struct):
    items: list[Class] | None


class Stock:
    """The devices that no claim has, by node. Those that may be shared are always there."""

    def __init__(self, slices: list[Slice], claims: list[Claim]) -> None:
        taken = {
            (result.pool, result.device)
            for claim in claims
            if claim.status.allocation is not None
            for result in claim.status.allocation.devices.results
        }
        free: dict[str, deque[tuple[SliceSpec, Device]]] = {}
        for spec in (each.spec for each in slices):
            free.setdefault(spec.node_name, deque()).extend(
                (spec, device) for device in spec.devices if (spec.pool.name, device.name) not in taken
            )
        self._free = deque(free.items())
        self._given: dict[Key, tuple[deque[tuple[SliceSpec, Device]], list[tuple[SliceSpec, Device]]]] = {}

    def take(self, claim: Key, requests: list[Request]) -> tuple[str, list[dict[str, Any]]]:
        """The next node that has as many, and what is written of its devices. Raises LookupError if none has."""
        wanted = [asked for request in requests for asked in _each(request)]
        for _ in range(len(self._free)):
            self._free.rotate(-1)
            node, free = self._free[-1]
            if len(free) >= len(wanted):
                given = [free.popleft() for _ in wanted]
                shared = [each for each in given if each[1].allow_multiple_allocations]
                free.extend(shared)
                if not shared:
                    self._given[claim] = free, given
                return node, [_result(*asked, *one) for asked, one in zip(wanted, given, strict=True)]
        raise LookupError(f"no node has {len(wanted)} devices left")

    def put_back(self, claim: Key) -> None:
        """A claim is gone."""
        if claim in self._given:
            free, given = self._given.pop(claim)
            free.extend(given)


def _each(request: Request) -> list[tuple[str, Asked]]:
    """What is asked for, once for each device. Of alternatives the last, which is what there is."""
    if request.exactly is not None:
        return [(request.name, request.exactly)] * request.exactly.count
    last = request.first_available[-1]
    return [(f"{request.name}/{last.name}", last)] * last.count


def _result(request: str, asked: Asked, spec: SliceSpec, device: Device) -> dict[str, Any]:
    found = {"request": request, "driver": spec.driver, "pool": spec.pool.name, "device": device.name}
    if not device.allow_multiple_allocations:
        return found
    return {**found, "shareID": str(uuid4()), "consumedCapacity": asked.capacity.get("requests", {})}


class ClaimBinder:
    """One scheduler name, one API server."""

    def __init__(self, session: aiohttp.ClientSession, url: str, scheduler_name: str) -> None:
        self._session = session
        self._url = url
        self._name = scheduler_name
        self._bindings: asyncio.Queue[Pod] = asyncio.Queue()
        self._events: asyncio.Queue[tuple[Meta, str]] = asyncio.Queue()
        self._seen: set[str] = set()
        self._claims: dict[Key, list[Request]] = {}
        self._waiting: dict[Key, Pod] = {}
        """Pods whose claim was not seen yet."""
        self._classes: dict[str, str] = {}
        """Extended resource → class."""
        self._stock = Stock([], [])

    async def run(self) -> None:
        """Until cancelled."""
        classes = msgspec.json.decode(await self._get(f"{RESOURCES}/deviceclasses"), type=Classes)
        slices = msgspec.json.decode(await self._get(f"{RESOURCES}/resourceslices"), type=Slices)
        claims = msgspec.json.decode(await self._get(f"{RESOURCES}/resourceclaims"), type=Claims)
        self._classes = {each.spec.extended_resource_name: each.metadata.name for each in classes.items or ()}
        self._stock = Stock(slices.items or [], claims.items or [])
        for claim in claims.items or ():
            self._learn("ADDED", claim)
        pods = msgspec.json.decode(await self._get("/api/v1/pods"), type=Pods)
        async with asyncio.TaskGroup() as tasks:
            for _ in range(CONNECTIONS):
                tasks.create_task(self._bind())
                tasks.create_task(self._record())
            for pod in pods.items or ():
                self._take(pod)
            print(READY, flush=True)
            tasks.create_task(self._follow_claims(claims.metadata.resource_version))
            tasks.create_task(self._follow_pods(pods.metadata.resource_version))

    async def _get(self, path: str) -> bytes:
        async with self._session.get(self._url + path) as response:
            return await response.read()

    async def _follow_pods(self, version: str) -> None:
        events = msgspec.json.Decoder(PodEvent)
        async for line in self._lines("/api/v1/pods", version):
            self._take(events.decode(line).object)

    async def _follow_claims(self, version: str) -> None:
        events = msgspec.json.Decoder(ClaimEvent)
        async for line in self._lines(f"{RESOURCES}/resourceclaims", version):
            event = events.decode(line)
            self._learn(event.type, event.object)

    async def _lines(self, path: str, version: str) -> AsyncIterator[bytes]:
        query = {"watch": "true", "resourceVersion": version}
        timeout = aiohttp.ClientTimeout(total=None)
        async with self._session.get(self._url + path, params=query, timeout=timeout) as response:
            rest = b""
            async for chunk in response.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    yield line

    def _learn(self, kind: str, claim: Claim) -> None:
        key = claim.metadata.namespace, claim.metadata.name
        if kind == "DELETED":
            self._stock.put_back(key)
            self._claims.pop(key, None)
        elif key not in self._claims:
            self._claims[key] = claim.spec.devices.requests
            if key in self._waiting:
                self._take(self._waiting.pop(key))

    def _take(self, pod: Pod) -> None:
        meta, spec, named = pod.metadata, pod.spec, pod.status.resource_claim_statuses
        if spec.scheduler_name != self._name or spec.node_name or meta.uid in self._seen:
            return
        if len(named) < len(spec.resource_claims):
            return  # they are not made yet
        for key in _keys(pod):
            if key not in self._claims:
                self._waiting[key] = pod
                return
        self._seen.add(meta.uid)
        self._bindings.put_nowait(pod)

    async def _bind(self) -> None:
        while True:
            pod = await self._bindings.get()
            meta, node = pod.metadata, ""
            at = f"/api/v1/namespaces/{meta.namespace}/pods/{meta.name}"
            for key in _keys(pod):
                path = f"{RESOURCES}/namespaces/{key[0]}/resourceclaims/{key[1]}"
                await self._patch(path, {"metadata": {"finalizers": [FINALIZER]}})
                node = await self._allocate(path, key, self._claims[key], meta)
            for container in pod.spec.containers:
                for resource in container.resources.get("requests", ()):
                    if resource in self._classes:
                        node = await self._serve(at, container.name, resource, meta)
            metadata = text(1, meta.name) + text(3, meta.namespace) + text(5, meta.uid)
            target = text(1, "Node") + text(3, node)
            body = envelope("v1", "Binding", message(1, metadata) + message(2, target))
            await self._send("POST", f"{at}/binding", body, PROTOBUF)
            self._events.put_nowait((meta, node))

    async def _allocate(self, path: str, key: Key, requests: list[Request], pod: Meta) -> str:
        """Give a claim its devices; the node that has them."""
        node, results = self._stock.take(key, requests)
        only = {"key": "metadata.name", "operator": "In", "values": [node]}
        allocation = {
            "devices": {"results": results},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [only]}]},
            "allocationTimestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }
        reserved = [{"resource": "pods", "name": pod.name, "uid": pod.uid}]
        await self._patch(f"{path}/status", {"status": {"allocation": allocation, "reservedFor": reserved}})
        return node

    async def _serve(self, at: str, container: str, resource: str, pod: Meta) -> str:
        """Make a claim for an extended resource and give it a device; the node that has it."""
        request = {"name": "device", "exactly": {"deviceClassName": self._classes[resource], "count": 1}}
        owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid, "controller": True}
        name = f"{pod.name}-extended-resources"
        metadata = {
            "name": name,
            "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
            "ownerReferences": [owner],
            "finalizers": [FINALIZER],
        }
        path = f"{RESOURCES}/namespaces/{pod.namespace}/resourceclaims"
        claim = msgspec.json.encode({"metadata": metadata, "spec": {"devices": {"requests": [request]}}})
        await self._send("POST", path, claim, JSON)
        asked = [Request("device", exactly=Asked())]
        node = await self._allocate(f"{path}/{name}", (pod.namespace, name), asked, pod)
        mapping = {"containerName": container, "resourceName": resource, "requestName": "device"}
        said = {"resourceClaimName": name, "requestMappings": [mapping]}
        await self._patch(f"{at}/status", {"status": {"extendedResourceClaimStatus": said}})
        return node

    async def _record(self) -> None:
        while True:
            pod, node = await self._events.get()
            regarding = text(1, "Pod") + text(2, pod.namespace) + text(3, pod.name) + text(4, pod.uid) + text(5, "v1")
            said = (
                message(1, text(1, f"{pod.name}.{time.time_ns():x}") + text(3, pod.namespace))
                + message(2, integer(1, int(time.time())))
                + text(4, self._name)
                + text(5, "binder")
                + text(6, "Binding")
                + text(7, "Scheduled")
                + message(8, regarding)
                + text(10, f"Successfully assigned {pod.namespace}/{pod.name} to {node}")
                + text(11, "Normal")
            )
            body = envelope("events.k8s.io/v1", "Event", said)
            await self._send("POST", f"/apis/events.k8s.io/v1/namespaces/{pod.namespace}/events", body, PROTOBUF)

    async def _patch(self, path: str, change: dict[str, Any]) -> None:
        await self._send("PATCH", path, msgspec.json.encode(change), PATCH)

    async def _send(self, verb: str, path: str, body: bytes, headers: dict[str, str]) -> None:
        """What is refused ends everything: a yardstick that leaves something out would be too long."""
        async with self._session.request(verb, self._url + path, data=body, headers=headers) as response:
            answer = await response.read()
            if response.status >= 300:
                raise RuntimeError(f"{verb} {path}: {response.status} {answer.decode()}")


def _keys(pod: Pod) -> list[Key]:
    return [(pod.metadata.namespace, each.resource_claim_name) for each in pod.status.resource_claim_statuses]


async def main(document: dict[str, Any], scheduler_name: str) -> None:
    """Bind on the cluster of the tests' kubeconfig (a token and a CA)."""
    cluster = document["clusters"][0]["cluster"]
    with tempfile.NamedTemporaryFile() as ca:
        ca.write(base64.b64decode(cluster["certificate-authority-data"]))
        ca.flush()
        context = ssl.create_default_context(cafile=ca.name)
    token = document["users"][0]["user"]["token"]
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=2 * CONNECTIONS + 2, ssl=context),
        headers={"Authorization": f"Bearer {token}", "Accept": "application/json"},
        read_bufsize=1 << 20,
        skip_auto_headers=("Accept-Encoding",),
    ) as session:
        await ClaimBinder(session, cluster["server"], scheduler_name).run()


if __name__ == "__main__":
    uvloop.run(main(yaml.safe_load(Path(sys.argv[1]).read_text()), sys.argv[2]))
