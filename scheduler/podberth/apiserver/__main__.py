"""`python -m podberth.apiserver --port 0`: the embedded API server as a process of its own.

It prints one line, `listening on URL`, and serves until SIGTERM or SIGINT.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import sys

from podberth.apiserver.server import ApiServer


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m podberth.apiserver", description="Embedded Kubernetes API server")
    parser.add_argument("--port", type=int, default=0, help="0 lets the system choose")
    parser.add_argument("--kubeconfig", default="", help="write a kubeconfig for this server to this file")
    return parser.parse_args()


async def _serve(arguments: argparse.Namespace) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    async with ApiServer(arguments.port) as server:
        if arguments.kubeconfig:
            server.kubeconfig(arguments.kubeconfig)
        sys.stdout.write(f"listening on {server.url}\n")
        sys.stdout.flush()
        await stopped.wait()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(_arguments()))
