"""What comparing a watch with a list of metadata costs, beside a whole list: `python -m bench.cross_check PODS`.

On a real etcd and kube-apiserver. CPU seconds of the API server are from /proc, ours are of the thread.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from podberth.kube.client import Client
from podberth.kube.cross_check import CrossCheck
from podberth.kube.flow import CHECK
from podberth.kube.kubeconfig import from_kubeconfig
from podberth.kube.listwatch import FetchPage, ListWatch, Pause
from podberth.kube.resources import PODS
from podberth.model.kinds import Decoder
from podberth.model.pod import Pod
from tests.controlplane import namespaces
from tests.controlplane.cluster import ControlPlane
from tests.integration.objects import pod, pods_path

_TICKS = os.sysconf("SC_CLK_TCK")
_BATCH = 5000


def cpu(pid: int) -> float:
    """CPU seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


async def measure(cluster: ControlPlane, kubeconfig: Path) -> None:
    """Follow the pods, then make one check; what both cost."""
    decoder = Decoder()
    async with Client(from_kubeconfig([str(kubeconfig)]), qps=-1.0) as client:
        machine: ListWatch[Pod] = ListWatch(decoder.pod, rng=lambda: 0.0)
        server, own = cpu(cluster.apiserver.pid), time.thread_time()
        while isinstance(action := machine.action(0.0), FetchPage):
            body = await client.get(PODS.path(), query=action.query, tries=1, timeout=action.seconds)
            for item in machine.page(body, 0.0):
                machine.objects.listed(item)
            machine.page_done()
        pods = len(machine.objects.known)
        say("whole list", pods, cpu(cluster.apiserver.pid) - server, time.thread_time() - own)
        for _ in range(3):
            check = CrossCheck(machine, rng=lambda: 0.0, every=0.0)
            before, seen, longest = machine.counts.checks, 0, 0.0
            server, own = cpu(cluster.apiserver.pid), time.thread_time()
            while machine.counts.checks == before:
                began = time.thread_time()
                turn = check.turn(time.monotonic())
                longest = max(longest, time.thread_time() - began)
                match turn:
                    case FetchPage(query, seconds):
                        body = await client.get(PODS.path(), query=query, tries=1, lane=CHECK, timeout=seconds)
                        seen += len(body)
                        began = time.thread_time()
                        check.page(body, time.monotonic())
                        longest = max(longest, time.thread_time() - began)
                    case Pause(seconds):
                        await asyncio.sleep(seconds)
                    case found:
                        raise AssertionError(found)
            say("one check", pods, cpu(cluster.apiserver.pid) - server, time.thread_time() - own)
            print(f"  {seen / 1e6:.1f} MB; the longest turn took {1000 * longest:.1f} ms")


def say(what: str, pods: int, server: float, own: float) -> None:
    """One line."""
    print(f"{what} of {pods} pods: API server {server:.2f} s of CPU, Berth {own:.2f} s")


def main(pods: int) -> None:
    """Make that many pods, and measure."""
    with ControlPlane() as cluster, TemporaryDirectory() as home:
        namespace = namespaces.create(cluster.api)
        for start in range(0, pods, _BATCH):
            made = [pod(f"p-{i}", "nobody") for i in range(start, min(start + _BATCH, pods))]
            cluster.api.create_many(pods_path(namespace), made)
        asyncio.run(measure(cluster, cluster.kubeconfig(Path(home) / "kubeconfig")))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50_000)
