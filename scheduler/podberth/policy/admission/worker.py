"""A worker: a process that judges one review after the other, for `aside`. It ends when the server does.

Run as `python -m podberth.policy.admission.worker FD`, with a socket of the server's. It has less of a claim to the
processor than the server itself, and a limit on its memory, so that an object as large and as odd as anybody can make
it costs its own review and nothing else.
"""

from __future__ import annotations

import os
import resource
import signal
import socket
import sys
import traceback
from pathlib import Path

import msgspec

from podberth.policy.admission.jobs import LENGTHS, Desk, Job, Reply
from podberth.policy.admission.memory import block, give_back

NICE = 10
MEMORY = 128 << 20
"""The largest private memory of the process in bytes. Two workers and the server fit into the chart's limit with it."""
TIRED = 64 << 20
"""Resident bytes above which it asks to be replaced: what one odd object took is then given back."""

_decode = msgspec.msgpack.Decoder(Job).decode


def serve(connection: socket.socket) -> None:
    """Do jobs until the other end is closed."""
    desk = Desk()
    lengths = memoryview(bytearray(LENGTHS.size))
    while _fill(connection, lengths):
        head, body = (block(length) for length in LENGTHS.unpack(lengths))
        if not (_fill(connection, head) and _fill(connection, body)):
            return
        reply = _reply(desk, head, body)
        del body
        encoded = msgspec.msgpack.encode(msgspec.structs.replace(reply, tired=_resident() > TIRED))
        connection.sendall(LENGTHS.pack(len(encoded), 0) + encoded)


def _reply(desk: Desk, head: memoryview, body: memoryview) -> Reply:
    try:
        return desk.do(_decode(head), body)
    except MemoryError:
        return Reply(failed="more memory than one job may have", exhausted=True)
    except Exception:  # noqa: BLE001 - a bug of ours: the server logs it, and the failurePolicy decides
        return Reply(failed=traceback.format_exc(limit=20)[-4000:])


def _fill(connection: socket.socket, view: memoryview) -> bool:
    """Read until the buffer is full; False when the other end was closed."""
    while view:
        read = connection.recv_into(view)
        if not read:
            return False
        view = view[read:]
    return True


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def main() -> None:
    """Get ready, and serve. Signals are the server's business: when it goes, the socket is closed."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    os.nice(NICE)
    give_back()
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    with socket.socket(fileno=int(sys.argv[1])) as connection:
        try:
            serve(connection)
        except ConnectionError:
            return


if __name__ == "__main__":
    main()
