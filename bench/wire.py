"""What a written pod costs API server, etcd and client, by how it is said: JSON or protobuf, connections, watchers.

`python -m bench.wire [--pods N] [--rounds N] [--only WORDS]`. On a control plane of its own each variant binds the same
number of new pods and posts their Scheduled events, by turns in a random order; CPU time of each process, in
milliseconds a pod. The difference to the first variant is taken within each round, so that others' load matters less.

`--shares` says it in another way, which load hardly changes: in a CPU profile of the API server, what reading the
bodies and making the answers take for each 100 that all else takes, which is the same for each variant.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import gzip
import random
import ssl
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import aiohttp
import msgspec

from bench.pprof import MalformedError, Profile, fields, read
from podberth.kube import writes
from podberth.kube.client import Client
from podberth.kube.connection import Connection, Tls
from podberth.kube.http1 import ConnectionPool
from podberth.kube.kubeconfig import from_kubeconfig
from podberth.kube.machine import loop_factory
from podberth.kube.objects import list_page, partial
from podberth.kube.resources import EVENTS, NAMESPACES, NODES, PODS
from podberth.kube.writes import PROTOBUF, PodRef
from podberth.model.kinds import Decoder
from podberth.testing.workloads.writes import create_all, delete_labelled
from tests.builders import node, pod
from tests.controlplane.cluster import ControlPlane

JSON = "application/json"
LABEL = "bench.podberth.dev/wire"
NAMESPACE = "wire"
SECONDS = 16
"""Of a profile."""


@dataclass(frozen=True)
class Variant:
    """One way to write, and who watches meanwhile."""

    name: str
    body: str = JSON
    accept: str = JSON
    query: str = ""
    connections: int = 48
    ciphers: str = ""
    events: bool = True
    watchers: tuple[tuple[str, str], ...] = ()
    """(Accept, fieldSelector) of each watch of pods."""


LISTS = (
    ("JSON", JSON, "identity"),
    ("JSON, gzip", JSON, "gzip"),
    ("protobuf", PROTOBUF, "identity"),
)
LIVE = "status.phase!=Succeeded,status.phase!=Failed"
VARIANTS = (
    Variant("JSON, 48 connections"),
    Variant("the same again"),
    Variant("JSON, fieldValidation=Ignore", query="fieldValidation=Ignore"),
    Variant("JSON, answers in protobuf", accept=PROTOBUF),
    Variant("protobuf, answers in JSON", body=PROTOBUF),
    Variant("protobuf", body=PROTOBUF, accept=PROTOBUF),
    Variant("JSON, no events", events=False),
    Variant("JSON, 8 connections", connections=8),
    Variant("JSON, 16 connections", connections=16),
    Variant("JSON, 24 connections", connections=24),
    Variant("JSON, 96 connections", connections=96),
    Variant("JSON, AES128-GCM", ciphers="TLS_AES_128_GCM_SHA256"),
    Variant("JSON, ChaCha20", ciphers="TLS_CHACHA20_POLY1305_SHA256"),
    Variant("JSON, 1 watcher in JSON", watchers=((JSON, ""),)),
    Variant("JSON, 1 watcher in JSON, live pods", watchers=((JSON, LIVE),)),
    Variant("JSON, 2 watchers in JSON", watchers=((JSON, ""), (JSON, ""))),
    Variant("JSON, 1 watcher in protobuf", watchers=((PROTOBUF, ""),)),
    Variant("JSON, 1 watcher in JSON, 1 in protobuf", watchers=((JSON, ""), (PROTOBUF, ""))),
)


@dataclass(frozen=True)
class Cost:
    """CPU in milliseconds a pod, and memory."""

    server: float
    etcd: float
    client: float
    allocated: float
    """KB that the API server allocated a pod: no load on the machine changes it."""


Write = Callable[[Variant, list[PodRef]], Awaitable[Cost]]


class Bench:
    """One control plane, one namespace, pods made anew for each turn."""

    def __init__(self, cluster: ControlPlane, connection: Connection, client: Client, pods: int) -> None:
        self._cluster = cluster
        self._connection = connection
        self._client = client
        self._pods = pods
        self._rounds = 0
        self._pools: dict[str, ConnectionPool] = {}

    async def set_up(self, nodes: int) -> None:
        """The namespace and nodes to bind to."""
        await self._client.create(NAMESPACES.path(), msgspec.json.encode({"metadata": {"name": NAMESPACE}}))
        made = ((NODES.path(), msgspec.json.encode(node(f"n{i}", zone=f"z{i % 10}"))) for i in range(nodes))
        await create_all(self._client, made)

    async def round(self, variants: Sequence[Variant], write: Write | None = None) -> dict[str, Cost]:
        """Make pods for all variants, write them variant by variant in a random order, delete them."""
        write = write or self._write
        self._rounds += 1
        run = f"r{self._rounds}"
        path = PODS.path(NAMESPACE)
        refs: list[PodRef] = []

        async def create(numbers: Iterator[int]) -> None:
            for i in numbers:
                made = pod(f"{run}-{i}", "10m", namespace=NAMESPACE, labels={LABEL: run})
                made["metadata"].pop("uid", None)
                made["spec"]["schedulerName"] = "nobody"
                made |= {"apiVersion": "v1", "kind": "Pod"}
                answer = partial.decode(await self._client.create(path, msgspec.json.encode(made)))
                refs.append(PodRef(NAMESPACE, answer.name, answer.uid))

        numbers = iter(range(self._pods * len(variants)))
        await asyncio.gather(*(create(numbers) for _ in range(16)))
        costs = {}
        for i, variant in enumerate(random.sample(variants, len(variants))):
            async with AsyncExitStack() as stack:
                for accept, selector in variant.watchers:
                    await stack.enter_async_context(_watch(self._connection, accept, selector))
                costs[variant.name] = await write(variant, refs[i * self._pods : (i + 1) * self._pods])
        await delete_labelled(self._client, path, f"{LABEL}={run}")
        return costs

    async def _write(self, variant: Variant, refs: list[PodRef]) -> Cost:
        if variant.name not in self._pools:
            connection = replace(self._connection, tls=_Ciphers(variant.ciphers, self._cluster))
            self._pools[variant.name] = ConnectionPool(connection, time.monotonic)
        pool = self._pools[variant.name]
        token = self._connection.credentials.header
        headers = f"User-Agent: berth/bench\r\nAccept: {variant.accept}\r\nAuthorization: {token}\r\n"
        query = f"?{variant.query}" if variant.query else ""

        async def post(path: str, body: bytes) -> None:
            message = pool.message("POST", path + query, headers, body, variant.body)
            answer = await pool.send("POST", message, 60.0)
            assert answer.status in (200, 201), answer

        async def work(numbers: Iterator[int]) -> None:
            for i in numbers:
                bound = _binding(variant, refs[i], f"n{i % 100}")
                await post(*bound)
                if variant.events:
                    await post(*_event(variant, refs[i], f"n{i % 100}"))

        # connections are made before it counts
        await asyncio.gather(
            *(
                pool.send("GET", pool.message("GET", "/readyz", headers, None, ""), 60.0)
                for _ in range(variant.connections)
            )
        )
        allocated = await self._allocated()
        before = self._spent()
        numbers = iter(range(len(refs)))
        await asyncio.gather(*(work(numbers) for _ in range(variant.connections)))
        after = self._spent()
        allocated = await self._allocated() - allocated
        server, etcd, client = (1000 * (b - a) / len(refs) for a, b in zip(before, after, strict=True))
        return Cost(server, etcd, client, allocated / 1024 / len(refs))

    async def lists(self, nodes: int, turns: int = 5) -> None:
        """Print what a LIST of all nodes costs both sides, in ms of CPU, by how it is sent; the least of some turns."""
        assert self._connection.tls is not None
        print("| list of nodes | KB | API server | received | decoded |\n| --- | ---: | ---: | ---: | ---: |")
        for name, accept, encoding in LISTS:
            headers = {
                "Authorization": self._connection.credentials.header or "",
                "Accept": accept,
                "Accept-Encoding": encoding,
            }
            best = [float("inf")] * 3
            async with aiohttp.ClientSession(headers=headers, read_bufsize=1 << 20, auto_decompress=False) as session:
                for _ in range(turns):
                    before = self._spent()
                    url = f"{self._connection.host}{NODES.path()}"
                    async with session.get(url, ssl=self._connection.tls.context()) as response:
                        body = await response.read()
                    after, began = self._spent(), time.process_time()
                    whole = gzip.decompress(body) if encoding == "gzip" else body
                    if accept == JSON:
                        decode = Decoder().node
                        assert len([decode(raw) for raw in list_page.decode(whole).items or ()]) == nodes
                    else:
                        assert sum(_walk(whole[4:])) > nodes
                    spent = (after[0] - before[0], after[2] - before[2], time.process_time() - began)
                    best = [min(old, new) for old, new in zip(best, spent, strict=True)]
            cells = " | ".join(f"{1000 * seconds:.0f}" for seconds in best)
            print(f"| {name} | {len(body) // 1024} | {cells} |", flush=True)

    async def shares(self, variant: Variant) -> tuple[float, float, float, int]:
        """Reading, answering, watching: percent of the rest; and the samples that this rests on."""
        profiles: list[Profile] = []

        async def profiled(of: Variant, refs: list[PodRef]) -> Cost:
            asked = self._client.request("GET", "/debug/pprof/profile", query=f"seconds={SECONDS}", timeout=60.0)
            profiling = asyncio.create_task(asked)
            cost = await self._write(of, refs)
            profiles.append(read(await profiling))
            return cost

        await self.round([variant], profiled)
        (profile,) = profiles
        reading = profile.within("createHandler.func1", "versioning.(*codec).Decode")
        answering = profile.within("handlers.transformResponseObject")
        watching = profile.within("handlers.(*WatchServer).HandleHTTP")
        rest = profile.total - reading - answering - watching
        return 100 * reading / rest, 100 * answering / rest, 100 * watching / rest, profile.total // 10_000_000

    def _spent(self) -> tuple[float, float, float]:
        return _spent_by(self._cluster.apiserver.pid), _spent_by(self._cluster.etcd.pid), time.process_time()

    async def _allocated(self) -> float:
        lines = (await self._client.get("/metrics")).decode().splitlines()
        return next(float(line.split()[1]) for line in lines if line.startswith("go_memstats_alloc_bytes_total "))


def _binding(variant: Variant, pod: PodRef, node: str) -> tuple[str, bytes]:
    made = writes.protobuf_binding if variant.body == PROTOBUF else writes.binding
    return writes.pod_path(pod, "binding"), made(pod, node)


def _event(variant: Variant, pod: PodRef, node: str) -> tuple[str, bytes]:
    said = writes.event(
        pod,
        kind="Normal",
        reason="Scheduled",
        action="Binding",
        note=f"Successfully assigned {pod.namespace}/{pod.name} to {node}",
        controller="berth",
        instance="berth-bench-1",
        moment=time.time(),
    )
    return EVENTS.path(pod.namespace), said.protobuf() if variant.body == PROTOBUF else said.json()


class _Ciphers(Tls):
    """TLS with one cipher."""

    def __init__(self, cipher: str, cluster: ControlPlane) -> None:
        super().__init__()
        self._made = _context(cipher, cluster)

    def context(self) -> ssl.SSLContext:
        return self._made


def _context(cipher: str, cluster: ControlPlane) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(cluster.ca))
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if cipher:
        # Python has no call for the ciphers of TLS 1.3 before 3.15; SSL_CTX* comes first after an object's head
        pointer = ctypes.c_void_p.from_address(id(context) + object.__basicsize__).value
        library = ctypes.CDLL(next(iter(_libssl())))
        library.SSL_CTX_set_ciphersuites.argtypes = (ctypes.c_void_p, ctypes.c_char_p)
        assert library.SSL_CTX_set_ciphersuites(pointer, cipher.encode()) == 1
    return context


def _walk(body: bytes) -> Iterator[int]:
    """One for each field of a message and of those within; what a decoder in Python would at least have to touch."""
    for _, value in fields(body):
        yield 1
        if isinstance(value, bytes) and len(value) > 1:
            try:
                inner = list(_walk(value))
            except MalformedError:
                continue  # a text
            yield from inner


def _libssl() -> list[str]:
    lines = Path("/proc/self/maps").read_text().splitlines()
    return [line.split()[-1] for line in lines if "libssl" in line]


def _spent_by(pid: int) -> float:
    """Seconds of CPU of all threads that live, to the nanosecond: `stat` counts in hundredths."""
    files = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(file.read_text().split()[0]) for file in files) / 1e9


@asynccontextmanager
async def _watch(connection: Connection, accept: str, selector: str) -> AsyncIterator[None]:
    """Read a watch of pods and throw it away; reading is in the client's cost."""
    assert connection.tls is not None
    headers = {"Accept": accept, "Authorization": connection.credentials.header or ""}
    query = {"watch": "true", "fieldSelector": selector}
    async with aiohttp.ClientSession(headers=headers, read_bufsize=1 << 20) as session:
        url = f"{connection.host}/api/v1/pods"
        async with session.get(url, params=query, ssl=connection.tls.context()) as response:

            async def read() -> None:
                while await response.content.readany():
                    pass

            reading = asyncio.create_task(read())
            await asyncio.sleep(1.0)  # without a version it begins with what is there
            yield
            reading.cancel()


async def _run(cluster: ControlPlane, home: Path, chosen: argparse.Namespace) -> None:
    connection = from_kubeconfig([str(cluster.kubeconfig(home / "kubeconfig"))], None)
    words = chosen.only.split(",") if chosen.only else []
    named = [v for v in VARIANTS[1:] if not words or any(w == v.name or w in v.name.split(", ")[1:] for w in words)]
    variants = [VARIANTS[0], *named]
    async with Client(connection, qps=-1, timeout=120.0) as client:
        bench = Bench(cluster, connection, client, chosen.pods)
        await bench.set_up(chosen.lists or 100)
        await bench.round(VARIANTS[:1])
        if chosen.lists:
            await bench.lists(chosen.lists)
            return
        if chosen.shares:
            print("| variant | reading | answering | watchers | samples |\n| --- | ---: | ---: | ---: | ---: |")
            for variant in variants:
                reading, answering, watching, samples = await bench.shares(variant)
                print(f"| {variant.name} | {reading:.1f} | {answering:.1f} | {watching:.1f} | {samples} |", flush=True)
            return
        rounds: list[dict[str, Cost]] = []
        for i in range(chosen.rounds):
            rounds.append(await bench.round(variants))
            print(f"round {i + 1} of {chosen.rounds}", file=sys.stderr, flush=True)
            if i % 5 == 4:
                print(_table(variants, rounds), flush=True)
        print(_table(variants, rounds))


def _table(variants: list[Variant], rounds: list[dict[str, Cost]]) -> str:
    lines = [
        "| variant | API server | etcd | client | KB | server, difference |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    first = variants[0].name
    for variant in variants:
        costs = [each[variant.name] for each in rounds]
        cells = [f"{statistics.mean(getattr(c, part) for c in costs):.3f}" for part in ("server", "etcd", "client")]
        cells.append(f"{statistics.median(c.allocated for c in costs):.0f}")
        share, error = _share([c.server for c in costs], [each[first].server for each in rounds])
        lines.append(f"| {variant.name} | {' | '.join(cells)} | {share:+.1%} ± {error:.1%} |")
    return "\n".join(lines)


def _share(mine: Sequence[float], first: Sequence[float]) -> tuple[float, float]:
    """How much more than the first, and the standard error of that (jackknife over the rounds)."""
    a, b, n = sum(mine), sum(first), len(mine)
    without = [(a - x) / (b - y) for x, y in zip(mine, first, strict=True)] if n > 1 else [1.0]
    return a / b - 1, ((n - 1) * statistics.pvariance(without)) ** 0.5


def main() -> None:
    """Measure and print a table after each round."""
    options = argparse.ArgumentParser(prog="python -m bench.wire", description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--pods", type=int, default=150, help="of a variant in a round")
    options.add_argument("--rounds", type=int, default=20)
    options.add_argument("--shares", action="store_true", help="read CPU profiles; wants some thousand pods")
    options.add_argument("--lists", type=int, default=0, metavar="NODES", help="what lists of so many nodes cost")
    options.add_argument("--only", default="", help="comma-separated words of the variants' names")
    chosen = options.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="berth-wire-") as home,
        ControlPlane() as cluster,
        asyncio.Runner(loop_factory=loop_factory()) as runner,
    ):
        runner.run(_run(cluster, Path(home), chosen))


if __name__ == "__main__":
    main()
