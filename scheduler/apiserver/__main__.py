"""`python -m scheduler.apiserver --port 0`: the embedded API server as a process of its own.

It prints one line, `listening on URL`, and serves until SIGTERM or SIGINT.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import sys

from scheduler.apiserver.audit import MASTER
from scheduler.apiserver.server import ApiServer


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m scheduler.apiserver", description="Embedded Kubernetes API server")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 lets the system choose")
    parser.add_argument("--history", type=int, default=20_000, help="watch events kept for each resource")
    parser.add_argument("--token", default="", help="the one bearer token that is accepted; none: everybody is admin")
    parser.add_argument("--tls-cert-file", default="")
    parser.add_argument("--tls-private-key-file", default="")
    parser.add_argument("--kubeconfig", default="", help="write a kubeconfig for this server to this file")
    return parser.parse_args()


async def _serve(arguments: argparse.Namespace) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    tls = (arguments.tls_cert_file, arguments.tls_private_key_file) if arguments.tls_cert_file else None
    tokens = {arguments.token: MASTER} if arguments.token else None
    server = ApiServer(arguments.port, host=arguments.host, history=arguments.history, tokens=tokens, tls=tls)
    async with server:
        if arguments.kubeconfig:
            server.kubeconfig(arguments.kubeconfig)
        sys.stdout.write(f"listening on {server.url}\n")
        sys.stdout.flush()
        await stopped.wait()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(_arguments()))
