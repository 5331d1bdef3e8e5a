"""What a recording costs: CPU of `berth run` with it and without, beside each other; bytes of a pod's life.

`python -m bench.recording [--server real|null] [--rounds N] [--pods N] [--rate N] [--control] [--turns N] [--lives N
[--verify]]`. Two schedulers that differ in `--record` only bind one stream of pods on one server at the same time: what
else a machine does then is the same for both, where runs by turns differ by a third. For the bytes, pods come ten a
second on virtual time, as a Deployment's, a Job's and a StatefulSet's do, and each has the updates that a kubelet
writes.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, cast

from bench.contenders import BerthContender
from bench.null_server import NullServer
from podberth.app.metrics import Meter
from podberth.app.scheduler import Handle, Scheduler
from podberth.engine.engine import Engine
from podberth.engine.stimuli import Bound, Cycle, Gone, Put
from podberth.framework.config import default_configuration
from podberth.framework.profiles import annotated, build
from podberth.lab.recording.log import Limits, segments
from podberth.lab.recording.reading import part
from podberth.lab.recording.recorder import Recorder
from podberth.lab.recording.verify import verify
from podberth.model import wire
from podberth.model.kinds import Decoder
from podberth.plugins.registry import registry
from tests.builders import node, pod
from tests.controlplane.api import Api
from tests.controlplane.cluster import Cluster, ControlPlane
from tests.controlplane.wait import wait_for
from tests.integration.objects import pods_path
from tests.unit.lab.recording.flights import Flight, Parts

PER_SECOND = 10.0
BEGAN = 100.0
"""The clock when a flight begins."""
LASTS = 600.0
"""Seconds that a pod runs."""
SERVERS: dict[str, Callable[[], Cluster]] = {"real": ControlPlane, "null": NullServer}
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace"}
NODES, AT_ONCE, PATIENCE = 200, 20, 120.0


class RecordingContender(BerthContender):
    """`berth run --record`."""

    key, title = "recording", "Berth, recording"

    def options(self, place: Path) -> list[str]:
        return ["--record", str(place / "recording")]


class ControlContender(BerthContender):
    """`berth run` once more, in place of the one that records: what is found then is chance."""

    key, title = "control", "Berth"


def beside(cluster: Cluster, other: type[BerthContender], rounds: int, pods: int, rate: float) -> list[list[float]]:
    """What two schedulers take for one stream, of which each binds every second pod and sees all, and all go.

    CPU milliseconds for each of its own pods, of both, of each round; both are started anew for it.
    """
    api, found = cluster.api, list[list[float]]()
    api.create_many("/api/v1/nodes", (node(f"node-{i}", "64", "256Gi", pods="500") for i in range(NODES)))
    with tempfile.TemporaryDirectory(prefix="berth-bench-") as directory:
        contenders = [kind(cluster, Path(directory)) for kind in (BerthContender, other)]
        for number in range(rounds):
            started = [each.start() for each in contenders]
            before = [each.cpu_seconds() for each in started]
            namespace = f"round-{number}"
            path = pods_path(namespace)
            api.create("/api/v1/namespaces", {**NAMESPACE, "metadata": {"name": namespace}})
            names = [each.scheduler_name for each in contenders]
            stream(api, path, [ordinary(i, namespace, names[i % 2]) for i in range(pods)], rate)
            wait_for("all pods to be bound", partial(all_bound, api, path), PATIENCE, 0.5)
            api.delete(path)
            for each in started:
                each.wait_known()
            spent = [each.cpu_seconds() - began for each, began in zip(started, before, strict=True)]
            found.append([1000 * seconds / (pods / 2) for seconds in spent])
            for each in started:
                each.end()
    return found


def ordinary(number: int, namespace: str, scheduler: str) -> dict[str, Any]:
    """A pod of one of forty Deployments."""
    app = f"app-{number % 40}"
    made: dict[str, Any] = pod(
        f"{app}-{number}", "50m", "64Mi", namespace=namespace, labels={"app": app}, scheduler=scheduler
    )
    del made["metadata"]["uid"]
    return made


def stream(api: Api, path: str, bodies: list[dict[str, Any]], rate: float) -> None:
    """Create pods at a rate, some at once."""
    began = time.monotonic()
    for first in range(0, len(bodies), AT_ONCE):
        time.sleep(max(0.0, began + first / rate - time.monotonic()))
        api.create_many(path, bodies[first : first + AT_ONCE])


def all_bound(api: Api, path: str) -> bool:
    """Whether each pod of a namespace has a node."""
    return all(each["spec"].get("nodeName") for each in api.list(path))


def turn(pods: int, directory: Path | None) -> float:
    """Seconds of CPU, of all threads, for a backlog: watched, decided, bound, seen bound, and gone."""
    config = default_configuration()
    frameworks = build(config, registry())
    engine = Engine(frameworks)
    handle: Handle = Meter(engine, frameworks).handle
    decoder, recorder = Decoder(annotated(frameworks)), None
    if directory is not None:
        recorder = Recorder(directory, Limits(), config, frameworks, patient=True)
        handle = recorder.follow(cast(Scheduler, Parts(engine)), handle)

    def read(kind: str, made: Any) -> Any:
        raw = wire.encode(made)
        thing = decoder.of_kind(kind)(raw)
        if recorder is not None:
            recorder.read(kind, thing, raw)
        return thing

    for i in range(200):
        handle(Put(read("Node", node(f"n{i}", "4000", "4000Gi", pods="100000")), True), 0.0)
    waiting = [pod(f"p{i}", "10m") for i in range(pods)]
    placed = [{**one, "spec": {**one["spec"], "nodeName": "n0"}, "status": {"phase": "Pending"}} for one in waiting]
    began, now = time.process_time(), 1.0
    for one in waiting:
        now += 1e-4
        handle(Put(read("Pod", one), True), now)
    for one in placed:
        now += 1e-4
        (instruction,) = handle(Cycle(), now)
        handle(Bound(instruction.pod.uid), now)
        handle(Put(read("Pod", one)), now)
    for one in placed:
        now += 1e-4
        handle(Gone("Pod", "default", one["metadata"]["name"], one["metadata"]["uid"]), now)
    if recorder is not None:
        recorder.close()
    return time.process_time() - began


async def added(pods: int, turns: int) -> tuple[float, float]:
    """Microseconds of CPU of a pod in the engine alone, without and with the recording: the least of several turns."""
    with tempfile.TemporaryDirectory(prefix="berth-bench-") as directory:
        pairs = [(turn(pods, None), turn(pods, Path(directory) / str(i))) for i in range(turns)]
    plain, recorded = (min(column) for column in zip(*pairs, strict=True))
    return 1e6 * plain / pods, 1e6 * recorded / pods


def hexed(random: Random) -> str:
    """A UID."""
    return str(uuid.UUID(int=random.getrandbits(128), version=4))


def life(number: int, random: Random) -> dict[str, Any]:
    """A pod as one of three kinds of controllers makes it."""
    app = f"app-{random.randrange(40)}"
    kind = ("ReplicaSet", "Job", "StatefulSet")[number % 3]
    name = f"{app}-{random.getrandbits(24):06x}-{random.getrandbits(20):05x}"
    made: dict[str, Any] = pod(name, f"{random.choice((50, 100, 250))}m", "64Mi")
    created = f"2026-11-29T{number // 36000 % 24:02}:{number // 600 % 60:02}:{number // 10 % 60:02}Z"
    made["metadata"] |= {"uid": hexed(random), "creationTimestamp": created}
    made["metadata"]["labels"] = {"app": app, "pod-template-hash": f"{hash(app) & 0xFFFFFF:06x}"}
    owner = {"kind": kind, "name": app, "uid": str(uuid.UUID(int=hash(app) & (1 << 64) - 1)), "controller": True}
    if kind == "Job":
        owner |= {"name": f"{app}-{number}", "uid": hexed(random)}
        made["metadata"]["labels"] = {"job-name": owner["name"], "controller-uid": owner["uid"]}
    if kind == "StatefulSet":
        made["metadata"]["labels"] = {"app": app, "statefulset.kubernetes.io/pod-name": name}
    made["metadata"]["ownerReferences"] = [owner]
    return made


async def bytes_of_a_life(lives: int, *, again: bool = False) -> float:
    """Bytes on the disk for each pod that came and went. `again`: all is decided again, and what came of it printed."""
    random = Random(1)
    with tempfile.TemporaryDirectory(prefix="berth-bench-") as directory:
        flight = Flight(Path(directory))
        for i in range(200):
            made = node(f"node-{i:03}", "64", "256Gi", zone=f"z{i % 3}")
            flight.put(made)
        going: list[tuple[float, str]] = []
        flushed = flight.now
        for number in range(lives):
            flight.now += random.expovariate(PER_SECOND)
            made = life(number, random)
            flight.put(made)
            flight.work()
            name = made["metadata"]["name"]
            began = {**made, "spec": {**made["spec"], "nodeName": flight.placed.pop(name)}}
            began["status"] = {"phase": "Running", "startTime": made["metadata"]["creationTimestamp"]}
            began["status"]["conditions"] = [
                {"type": "Ready", "status": "True"},
                {"type": "PodScheduled", "status": "True", "lastTransitionTime": made["metadata"]["creationTimestamp"]},
            ]
            flight.now += 0.01
            flight.put({**began, "status": {**began["status"], "phase": "Pending"}})
            flight.put(began)
            going.append((flight.now + LASTS, name))
            while going and going[0][0] < flight.now:
                gone = going.pop(0)[1]
                flight.put({**flight.objects["Pod", gone], "status": {"phase": "Running"}})
                flight.gone("Pod", gone)
            if flight.now - flushed > 1.0:  # as often as in production
                flushed = flight.now
                flight.written()
        flight.written()
        flight.close()
        if again:
            found = verify(part(directory))
            print(
                f"{found.differ} differ of {found.placed:,} placed and {found.failed:,} failed in "
                f"{flight.now - BEGAN:,.0f} s of their time"
            )
        return sum(each.stat().st_size for each in segments(Path(directory))) / lives


def main() -> None:
    """Measure, and print both."""
    options = argparse.ArgumentParser(prog="python -m bench.recording", description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--server", choices=SERVERS, default="real")
    options.add_argument("--rounds", type=int, default=5, help="for which both are started anew")
    options.add_argument("--pods", type=int, default=4_000, help="of a round")
    options.add_argument("--rate", type=float, default=100.0, help="pods a second")
    options.add_argument("--control", action="store_true", help="neither records: how far two equal ones differ")
    options.add_argument("--turns", type=int, default=5, help="of the engine alone")
    options.add_argument("--lives", type=int, default=36_000)
    options.add_argument("--verify", action="store_true", help="decide again what was recorded of these lives")
    chosen = options.parse_args()
    if chosen.lives:
        each = asyncio.run(bytes_of_a_life(chosen.lives, again=chosen.verify))
        day = each * PER_SECOND * 86_400
        print(
            f"{each:.0f} bytes a pod's life, of {chosen.lives:,}; 24 h at {PER_SECOND:g} a second: {day / 1e6:.0f} MB"
        )
    if chosen.turns:
        plain, recorded = asyncio.run(added(1_500, chosen.turns))
        print(
            f"{plain:.1f} µs of CPU a pod in the engine, {recorded:.1f} with the recording: {recorded - plain:.1f} more"
        )
    if chosen.rounds:
        other = ControlContender if chosen.control else RecordingContender
        with SERVERS[chosen.server]() as cluster:
            rounds = beside(cluster, other, chosen.rounds, chosen.pods, chosen.rate)
        for plain, second in rounds:
            print(f"{plain:.4f} ms a pod, {other.title} {second:.4f}: {second / plain:.3f}")
        plain, second = (statistics.median(column) for column in zip(*rounds, strict=True))
        ratio = statistics.median(second / plain for plain, second in rounds)
        print(f"{chosen.server} server, medians: {plain:.4f} and {second:.4f} ms; of the ratios: {ratio:.3f}")


if __name__ == "__main__":
    main()
