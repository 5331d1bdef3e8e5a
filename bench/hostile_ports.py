"""What clients that mean no good do to a port of ours: how long a probe waits meanwhile, and what they cost.

`python -m bench.hostile_ports PORT [--host H] [--plain] [--pid N] [--probes N] [--crowd N] [--only NAME]` asks the port
of a running component for /livez before and during each attack, one probe after the other, each over a connection of
its own, as a kubelet does. With `--pid` also that process' descriptors, memory and CPU time. `rows` is for other
programs. Attacks are bounded in number and end by themselves; point them at your own loopback only.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import ssl
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles

SECONDS = 20.0
"""A probe that is not answered by then counts as this long, and as lost."""
AT_ONCE = 64
PROBE = b"GET /livez HTTP/1.1\r\nHost: probe\r\nConnection: close\r\n\r\n"
REQUEST = b"GET /livez?verbose HTTP/1.1\r\nHost: x\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Target:
    """A port, and the process that listens there if it is known."""

    port: int
    host: str = "127.0.0.1"
    plain: bool = False
    pid: int | None = None

    def context(self) -> ssl.SSLContext | None:
        """As a kubelet's: it verifies nothing."""
        return None if self.plain else ssl._create_unverified_context()


@dataclass(frozen=True, slots=True)
class Cost:
    """A process at one moment. CPU in seconds, memory in MB; zeros when the process is not known."""

    descriptors: int = 0
    memory: float = 0.0
    cpu: float = 0.0


@dataclass(frozen=True, slots=True)
class Row:
    """One attack: probes in milliseconds before and during it, probes lost, and what the process had and used."""

    attack: str
    before_p50: float
    before_p99: float
    during_p50: float
    during_p99: float
    lost: int
    before: Cost
    during: Cost


CHUNKED = b"POST /livez HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
LAST = b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"

Attack = Callable[[Target, int], contextlib.AbstractAsyncContextManager[None]]


async def connect(target: Target, *, tls: bool = True) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """One more connection."""
    context = target.context() if tls else None
    async with asyncio.timeout(SECONDS):
        return await asyncio.open_connection(target.host, target.port, ssl=context)


async def ask(target: Target, words: bytes, *, tls: bool = True) -> bytes:
    """Connect, say this, and return all that is answered. Raises OSError and TimeoutError."""
    async with asyncio.timeout(SECONDS):
        reader, writer = await connect(target, tls=tls)
        try:
            writer.write(words)
            return await reader.read()
        finally:
            writer.transport.abort()


async def many(target: Target, count: int, said: bytes, *, tls: bool = True) -> list[asyncio.StreamWriter]:
    """So many connections that have said this and wait; those that the port has closed by then are among them."""
    turns = asyncio.Semaphore(AT_ONCE)

    async def one() -> asyncio.StreamWriter | None:
        async with turns:
            try:
                _, writer = await connect(target, tls=tls)
            except (OSError, TimeoutError):
                return None
            if said:
                writer.write(said)
            return writer

    return [writer for writer in await asyncio.gather(*(one() for _ in range(count))) if writer is not None]


def standing(said: bytes, *, tls: bool = True) -> Attack:
    """Connections that say this once, and stay."""

    @asynccontextmanager
    async def attack(target: Target, count: int) -> AsyncIterator[None]:
        writers = await many(target, count, said, tls=tls)
        try:
            yield
        finally:
            for writer in writers:
                writer.transport.abort()

    return attack


def again(said: bytes, *, tls: bool = True, hands: int = 8) -> Attack:
    """A few clients that connect, say this, wait for the end, and do so again, as often as others would connect."""

    @asynccontextmanager
    async def attack(target: Target, count: int) -> AsyncIterator[None]:
        over = False

        async def hand() -> None:
            for _ in range(count // hands):
                if over:
                    return
                with contextlib.suppress(OSError, TimeoutError):
                    await ask(target, said, tls=tls)

        clients = [asyncio.create_task(hand()) for _ in range(hands)]
        try:
            yield
        finally:
            over = True  # not cancelled: in the middle of a handshake asyncio would leave a socket behind
            await asyncio.gather(*clients)

    return attack


ATTACKS: dict[str, Attack] = {
    "idle connections": standing(b""),
    "idle before TLS": standing(b"", tls=False),
    "half a request": standing(REQUEST[:-2]),
    "unread answers": standing(REQUEST * 500),
    "bogus tokens": standing(b"GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer bogus\r\n\r\n"),
    "garbage, again and again": again(b"\x16\x03\x01\x02\x00" + b"\xff" * 512, tls=False),
    "plain HTTP, again and again": again(REQUEST, tls=False),
    "huge headers, again and again": again(b"GET /livez HTTP/1.1\r\nX: " + b"a" * 70_000 + b"\r\n\r\n"),
    "connect and go": again(b"", tls=False),
    "half a handshake": standing(b"\x16\x03\x01\x02\x00\x01\x00\x01", tls=False),
    "half a body": standing(CHUNKED + b"1\r\na\r\n"),
    "trailers without end": again(CHUNKED + b"0\r\n" + b"X: a\r\n" * 20_000),
    "many requests in one connection": again(REQUEST * 500 + LAST),
}


def cost(target: Target) -> Cost:
    """As the kernel has it now."""
    if target.pid is None:
        return Cost()
    home = Path(f"/proc/{target.pid}")
    fields = (home / "stat").read_text().rpartition(")")[2].split()
    memory = int((home / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
    cpu = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return Cost(sum(1 for _ in (home / "fd").iterdir()), memory, cpu)


async def probe(target: Target) -> float | None:
    """Milliseconds until a probe is answered with 200; None when it is not."""
    began = time.perf_counter()
    try:
        said = await ask(target, PROBE)
    except (OSError, TimeoutError):
        return None
    return 1000 * (time.perf_counter() - began) if b" 200 " in said.partition(b"\r\n")[0] else None


async def probes(target: Target, count: int) -> tuple[float, float, int]:
    """p50, p99, and how many were lost; a lost one counts as long as one may take."""
    found = [await probe(target) for _ in range(count)]
    cuts = quantiles([1000 * SECONDS if one is None else one for one in found], n=100, method="inclusive")
    return cuts[49], cuts[98], found.count(None)


async def measure(target: Target, name: str, count: int, crowd: int) -> Row:
    """One attack, and the probes before and during it."""
    p50, p99, _ = await probes(target, count)
    before = cost(target)
    async with ATTACKS[name](target, crowd):
        during_p50, during_p99, lost = await probes(target, count)
        during = cost(target)
    return Row(name, p50, p99, during_p50, during_p99, lost, before, during)


async def rows(target: Target, *, count: int = 100, crowd: int = 1000, only: str = "") -> list[Row]:
    """A row for each attack that makes sense there, or for the one named."""
    names = [name for name in ATTACKS if only in ("", name)]
    if target.plain:
        names = [name for name in names if name not in ("idle before TLS", "plain HTTP, again and again")]
    return [await measure(target, name, count, crowd) for name in names]


def table(found: list[Row]) -> str:
    """As Markdown."""
    lines = [
        "| attack | /livez before, p50 and p99 | during | lost | descriptors | memory | CPU |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    lines += [
        f"| {row.attack} | {row.before_p50:.1f} and {row.before_p99:.1f} ms "
        f"| {row.during_p50:.1f} and {row.during_p99:.1f} ms | {row.lost} "
        f"| {row.before.descriptors} → {row.during.descriptors} "
        f"| {row.before.memory:.0f} → {row.during.memory:.0f} MB | {row.during.cpu - row.before.cpu:.1f} s |"
        for row in found
    ]
    return "\n".join(lines)


def main() -> None:
    """Attack, and print what came of it."""
    options = argparse.ArgumentParser(
        prog="python -m bench.hostile_ports", description=(__doc__ or "").partition("\n")[0]
    )
    options.add_argument("port", type=int)
    options.add_argument("--host", default="127.0.0.1")
    options.add_argument("--plain", action="store_true", help="the port has no TLS, as the operator's probes")
    options.add_argument("--pid", type=int, help="the process that listens there")
    options.add_argument("--probes", type=int, default=100, help="before and during each attack")
    options.add_argument("--crowd", type=int, default=1000, help="connections of an attack")
    options.add_argument("--only", default="", choices=["", *ATTACKS], help="one attack")
    chosen = options.parse_args()
    if chosen.probes < 2 or chosen.crowd < 1:
        options.error("--probes: want 2 or more; --crowd: want 1 or more")
    target = Target(chosen.port, chosen.host, chosen.plain, chosen.pid)
    print(table(asyncio.run(rows(target, count=chosen.probes, crowd=chosen.crowd, only=chosen.only))))


if __name__ == "__main__":
    main()
