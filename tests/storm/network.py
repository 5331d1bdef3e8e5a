"""TCP between simulated processes: bytes arrive late, in order, or not at all.

Below the client's own connections, so that its pool, its parser and its time-outs are what runs. What Linux does by
itself is here, too: a SYN and lost data are sent again when the path heals; a connection without an answer dies by
keepalive when it is idle, and by TCP_USER_TIMEOUT (or after some 15 minutes) when data is not acknowledged.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from random import Random
from typing import Any

from tests.storm.loop import Loop

RETRANSMIT_SECONDS = 924.6
"""net.ipv4.tcp_retries2 = 15: when Linux gives up data that nobody acknowledges."""
_USER_TIMEOUT = getattr(socket, "TCP_USER_TIMEOUT", 18)

Factory = Callable[[], asyncio.BaseProtocol]


class Socket:
    """The options that a process has set."""

    family = socket.AF_UNIX
    """Whoever asks is not to set TCP_NODELAY: nothing waits here."""

    def __init__(self) -> None:
        self.options: dict[tuple[int, int], int] = {}

    def setsockopt(self, level: int, name: int, value: int) -> None:
        self.options[level, name] = value

    def getsockopt(self, level: int, name: int) -> int:
        return self.options.get((level, name), 0)

    @property
    def keepalive(self) -> float | None:
        """Seconds of silence after which an idle connection dies; None: never."""
        if not self.options.get((socket.SOL_SOCKET, socket.SO_KEEPALIVE)):
            return None
        tcp = socket.IPPROTO_TCP
        idle = self.options.get((tcp, socket.TCP_KEEPIDLE), 7200)
        every = self.options.get((tcp, socket.TCP_KEEPINTVL), 75)
        return float(idle + every * self.options.get((tcp, socket.TCP_KEEPCNT), 9))

    @property
    def patience(self) -> float:
        """Seconds after which a connection dies whose data nobody acknowledges."""
        return self.options.get((socket.IPPROTO_TCP, _USER_TIMEOUT), 0) / 1000 or RETRANSMIT_SECONDS


class End(asyncio.Transport):
    """One end of a connection."""

    def __init__(self, loop: Loop, wire: Wire) -> None:
        super().__init__()
        self.loop = loop
        self.wire = wire
        self.peer: End
        self.protocol: asyncio.Protocol
        self.socket = Socket()
        self.over = False
        self.heard_at = loop.here
        self.arrives_at = 0.0
        """When the last bytes towards this end arrive: none overtakes another."""
        self.unsent_since: float | None = None
        self._reading = True
        self._kept: list[bytes] = []

    # -- what a protocol calls -----------------------------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self.over:
            self.wire.send(self, data if type(data) is bytes else bytes(data))

    def abort(self) -> None:
        """A reset: the other end hears of it."""
        self.close()

    def close(self) -> None:
        if self.over:
            return
        self.end(None)
        self.wire.shut(self)

    def is_closing(self) -> bool:
        return self.over

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol  # type: ignore[assignment]

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self.protocol

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self.socket if name == "socket" else default

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        kept, self._kept = self._kept, []
        for data in kept:
            self.loop.call_soon(self.receive, data)

    # -- what the wire calls -------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        if self.over:
            return
        self.heard_at = self.loop.here
        if self._reading:
            self.protocol.data_received(data)
        else:
            self._kept.append(data)

    def end(self, error: Exception | None) -> None:
        """The connection is over for this end; its protocol hears of it."""
        if not self.over:
            self.over = True
            self.loop.call_soon(self.protocol.connection_lost, error)

    def lose(self, error: Exception) -> None:
        """Linux gives the connection up. The other end is not told, for nothing gets there."""
        if not self.over:
            self.end(error)
            self.wire.network.wires.pop(self.wire, None)


class Wire:
    """One connection."""

    def __init__(self, network: Network, client: Loop, server: Loop) -> None:
        self.network = network
        self.ends = End(client, self), End(server, self)
        self.ends[0].peer, self.ends[1].peer = self.ends[1], self.ends[0]
        self.silent = False
        self._held: list[tuple[End, bytes | None]] = []
        self.cut_next = False

    def send(self, sender: End, data: bytes) -> None:
        """From one end to the other."""
        if sender is self.ends[0] and self.network.on_send is not None:
            self.network.on_send(sender.loop, data)
        if self.silent:
            self._held.append((sender, data))
            if sender.unsent_since is None:
                sender.unsent_since = sender.loop.here
                self._watch(sender, sender.loop.here + sender.socket.patience)
            return
        if self.cut_next and sender is self.ends[1]:
            self.cut_next = False
            if self.network.on_cut is not None:
                self.network.on_cut(self.ends[0].loop)
            self._carry(sender, data[: len(data) // 2])
            self.reset()
            return
        self._carry(sender, data)

    def _carry(self, sender: End, data: bytes | None) -> None:
        """`data` None: the other end hears that this one is closed."""
        end, network = sender.peer, self.network
        at = sender.loop.here + (network.latency(self) if network.slow else network.quick())
        if at < end.arrives_at:
            at = end.arrives_at
        else:
            end.arrives_at = at
        if data is None:
            end.loop.at(at, end.end, None)
        else:
            end.loop.at(at, end.receive, data)

    def shut(self, sender: End) -> None:
        """One end was closed."""
        if self.silent:
            self._held.append((sender, None))
        else:
            self.network.wires.pop(self, None)
            self._carry(sender, None)

    def reset(self) -> None:
        """Both ends hear of a reset, after what was sent before."""
        self.network.wires.pop(self, None)
        for end in self.ends:
            at = max(end.arrives_at, self.network.loop.timeline.now + self.network.latency(self))
            end.loop.at(at, end.end, ConnectionResetError("connection reset by peer"))

    def silence(self) -> None:
        """From now on nothing gets through, and nobody is told."""
        self.silent = True
        now = self.network.loop.timeline.now
        for end in self.ends:
            if (after := end.socket.keepalive) is not None:
                self._watch(end, max(end.heard_at + after, now))

    def _watch(self, end: End, at: float) -> None:
        end.loop.at(at, self._look, end)

    def _look(self, end: End) -> None:
        """Whether Linux gives this end up."""
        if not self.silent or end.over:
            return
        now = end.loop.here
        if end.unsent_since is not None:
            due = end.unsent_since + end.socket.patience  # no probes while data is unacknowledged
        elif (after := end.socket.keepalive) is not None:
            due = end.heard_at + after
        else:
            return
        if now >= due - 1e-6:
            end.lose(TimeoutError("connection timed out"))
        else:
            self._watch(end, due)

    def heal(self) -> None:
        """What was held is sent again; a peer that has given up answers with a reset."""
        if not self.silent:
            return
        self.silent = False
        held, self._held = self._held, []
        for end in self.ends:
            end.unsent_since = None
        for sender, data in held:
            if sender.peer.over:
                sender.loop.call_soon(sender.end, ConnectionResetError("connection reset by peer"))
            else:
                self._carry(sender, data)
        if self.ends[0].over or self.ends[1].over:
            self.network.wires.pop(self, None)
            for end in self.ends:
                end.loop.call_soon(end.end, ConnectionResetError("connection reset by peer"))


class Network:
    """All connections, and what happens to them."""

    def __init__(self, loop: Loop, rng: Random) -> None:
        self.loop = loop
        """The network's own: it never stops."""
        self.wires: dict[Wire, None] = {}
        self.slow: dict[str, float] = {}
        """Process → seconds that its bytes take more, at most."""
        self.cut_off: set[str] = set()
        """Processes that nothing gets through to."""
        self.on_send: Callable[[Loop, bytes], None] | None = None
        self.on_cut: Callable[[Loop], None] | None = None
        self._rng = rng
        self._listeners: dict[int, tuple[Loop, Factory]] = {}
        self._waiting: list[tuple[str, asyncio.Future[None]]] = []

    def listen(self, port: int, loop: Loop, factory: Factory) -> None:
        """From now on, this process takes connections there."""
        self._listeners[port] = loop, factory

    def refuse(self, port: int) -> None:
        """Nobody takes connections there any more."""
        self._listeners.pop(port, None)

    def latency(self, wire: Wire) -> float:
        """Seconds for the next bytes."""
        seconds = self.quick()
        if self.slow:
            more = max(self.slow.get(end.loop.name, 0.0) for end in wire.ends)
            seconds += more * self._rng.random() ** 2
        return seconds

    def quick(self) -> float:
        """The same, while nobody's bytes are late."""
        return 0.0002 + 0.002 * self._rng.random()

    async def connect(self, loop: Loop, factory: Factory, host: str, port: int) -> tuple[End, asyncio.BaseProtocol]:
        """As `create_connection`."""
        while loop.name in self.cut_off:
            healed: asyncio.Future[None] = loop.create_future()
            self._waiting.append((loop.name, healed))
            await healed
        await asyncio.sleep(0.0005 + 0.002 * self._rng.random())
        found = self._listeners.get(port)
        if found is None or found[0].dead:
            raise ConnectionRefusedError(f"connect to {host}:{port}: connection refused")
        server, serving = found
        wire = Wire(self, loop, server)
        self.wires[wire] = None
        near, far = wire.ends
        near.protocol, far.protocol = factory(), serving()  # type: ignore[assignment]
        server.call_soon(far.protocol.connection_made, far)
        near.protocol.connection_made(near)
        return near, near.protocol

    def died(self, loop: Loop, *, told: bool) -> None:
        """A process ended. Its kernel closes its connections, unless the machine went with it."""
        for wire in list(self.wires):
            for end in wire.ends:
                if end.loop is loop and not end.over:
                    end.over = True
                    if told:
                        wire.shut(end)
                    else:
                        wire.silence()

    def cut(self, name: str) -> None:
        """Nothing gets to this process, nor from it."""
        self.cut_off.add(name)
        for wire in self.of(name):
            wire.silence()

    def heal(self, name: str) -> None:
        """The end of `cut`, and of `silence` for each of its connections."""
        self.cut_off.discard(name)
        for wire in self.of(name):
            wire.heal()
        waiting, self._waiting = self._waiting, []
        for whose, healed in waiting:
            if whose != name:
                self._waiting.append((whose, healed))
            elif not healed.done():
                healed.get_loop().call_soon_threadsafe(_set, healed)

    def of(self, name: str) -> list[Wire]:
        """A process' connections as a client, oldest first."""
        return [wire for wire in self.wires if wire.ends[0].loop.name == name]


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
