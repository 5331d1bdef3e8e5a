"""The same on a real API server: pods of others beside a hostile one, bound by Berth and by kube-scheduler in turn.

Waits are by the clock, from the sending of a pod to the watch's word of its binding: they hold what the API server
and this machine take. So each scheduler's figures stand beside its own with nothing hostile there. A crowd keeps the
API server busy, too, on the same cores. So for a crowd they stand beside figures with the same crowd created for a
scheduler that does not exist: what is left is what this scheduler does about it.
"""

from __future__ import annotations

import asyncio
import secrets
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from bench.contenders import BerthContender, Contender, KubeScheduler
from bench.crowd import HOST
from bench.hostile import town
from bench.hostile.row import Chosen, Row
from bench.hostile.shapes.specs import node_terms
from bench.hostile.shapes.terms import apart, needs, not_in, rather, spread
from bench.hostile.town import TENANT, Object
from podberth.kube.client import Client
from podberth.kube.errors import ApiError
from podberth.kube.kubeconfig import from_kubeconfig
from podberth.kube.machine import loop_factory
from podberth.kube.resources import NAMESPACES, NODES, PODS
from podberth.testing.workloads.driver import quantile
from podberth.testing.workloads.objects import LABEL
from podberth.testing.workloads.writes import Bindings, create_all, delete_labelled
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.process import DiedError, Process

PLACED = 2_000
"""Pods that are there before, each with a label of its own."""
OTHERS = "tenant"
RATE = 50.0
"""Pods of others a second."""
NOBODY = "nobody"
"""A schedulerName that no scheduler serves."""
PATIENCE = 60.0
"""Seconds that the last of them may take."""
SIZES = (50, 1_000)


@dataclass(frozen=True, slots=True)
class Attack:
    """What a tenant creates while pods of others come."""

    name: str
    shape: str
    make: Callable[[int], Object]
    count: int = 1
    others: int = 40
    sizes: tuple[int, ...] = SIZES
    crowd: bool = False
    """Many in a row: what is bounded is others' 99th percentile."""


ATTACKS = (
    Attack(
        "live-s1",
        "two pods with 700 required anti-affinity terms that select every pod (S1)",
        lambda i: apart(not_in(700)),
        2,
    ),
    Attack("live-preferred", "two pods with those terms, preferred", lambda i: rather(not_in(700)), 2, sizes=(1_000,)),
    Attack("live-s1-8000", "a pod with 8,000 such terms", lambda i: apart(not_in(8_000)), sizes=(1_000,)),
    Attack("live-spread", "a pod with 500 spread constraints", lambda i: spread(500), sizes=(1_000,)),
    Attack(
        "live-node-affinity",
        "a pod with 8,000 node selector terms of one absent host name each",
        lambda i: node_terms([{"matchExpressions": [needs("In", [f"x{k}"], HOST)]} for k in range(8_000)]),
        sizes=(1_000,),
    ),
    Attack(
        "live-s1-crowd",
        "1,000 pods in a row with 100 such terms each, no two alike",
        lambda i: apart(not_in(100, f"s{i}-")),
        1_000,
        others=400,
        sizes=(50,),
        crowd=True,
    ),
)


class Waits(msgspec.Struct):
    """Milliseconds that pods of others waited; those that were not bound are counted only."""

    p50: float
    p99: float
    most: float
    unbound: int
    cpu: float
    died: bool = False


@dataclass(slots=True)
class Place:
    """One cluster of one size, what is created there, and what was measured."""

    client: Client
    run: str = field(default_factory=lambda: secrets.token_hex(3))
    runs: int = 0
    refused: dict[str, str] = field(default_factory=dict)
    alone: dict[tuple[str, int], Waits] = field(default_factory=dict)
    """What pods of others wait with nothing hostile there, by scheduler and how many they are."""
    unserved: dict[tuple[str, str], Waits] = field(default_factory=dict)
    """By scheduler and attack, what they wait while the crowd is created for a scheduler that does not exist."""

    async def set_up(self, nodes: int) -> None:
        """Nodes, namespaces and placed pods."""
        await create_all(self.client, ((NODES.path(), raw) for raw in town.nodes(nodes)), again=True)
        made = (town.encoded(town.namespace(name)) for name in (TENANT, OTHERS))
        await create_all(self.client, ((NAMESPACES.path(), raw) for raw in made), again=True)
        placed = (self._placed(i, nodes) for i in range(PLACED))
        await create_all(self.client, ((PODS.path(OTHERS), raw) for raw in placed), again=True)

    async def tear_down(self) -> None:
        """Remove pods and nodes, for another size."""
        for namespace in (TENANT, OTHERS):
            await delete_labelled(self.client, PODS.path(namespace), "")
        await delete_labelled(self.client, NODES.path(), "")

    async def waits(self, contender: Contender, attack: Attack | None, others: int, served: str = "") -> Waits:
        """Start a scheduler, have it bind pods of others beside the attack, end it, remove the pods.

        `served`: the schedulerName of the hostile pods, if not this scheduler's.
        """
        self.runs += 1
        run = f"run-{self.run}-{self.runs}"
        process = await asyncio.to_thread(contender.start)
        try:
            # A first few, so that no figure is of a start.
            await self._measured(f"{run}-first", contender.scheduler_name, 10, process)
            began = process.cpu_seconds()
            by = served or contender.scheduler_name
            hostile = asyncio.create_task(self._attack(attack, by)) if attack else None
            try:
                found = await self._measured(run, contender.scheduler_name, others, process)
            finally:
                if hostile is not None:
                    hostile.cancel()
                    await asyncio.gather(hostile, return_exceptions=True)
            try:
                process.check()
                found.cpu = 1000 * (process.cpu_seconds() - began)
            except DiedError:
                found.died = True
            return found
        finally:
            await asyncio.to_thread(process.kill)
            await delete_labelled(self.client, PODS.path(TENANT), "")
            await delete_labelled(self.client, PODS.path(OTHERS), LABEL)

    async def _measured(self, run: str, scheduler: str, count: int, process: Process) -> Waits:
        sent: dict[tuple[str, str], float] = {}
        keys = [(OTHERS, f"{run}-{i}") for i in range(count)]

        def note(index: int, moment: float) -> None:
            sent[keys[index]] = moment

        async with Bindings(self.client, run) as bindings:
            bodies = ((PODS.path(OTHERS), town.encoded(self._other(run, i, scheduler))) for i in range(count))
            await create_all(self.client, bodies, rate=RATE, sent=note)
            await bindings.wait(lambda: len(bindings.at) >= count or not process.running, PATIENCE, lambda: None)
            waited = sorted(1000 * (bindings.at[key] - sent[key]) for key in keys if key in bindings.at)
        return Waits(
            quantile(waited, 0.5) or 0.0,
            quantile(waited, 0.99) or 0.0,
            max(waited, default=0.0),
            count - len(waited),
            0.0,
        )

    async def _attack(self, attack: Attack, scheduler: str) -> None:
        """One after the other; what the API server does not take is noted, and the rest not tried."""
        await asyncio.sleep(0.1)  # into the stream of the others' pods
        for i in range(attack.count):
            made = attack.make(i)
            made["metadata"] |= {"name": f"worst-{i}"}
            made["spec"]["schedulerName"] = scheduler
            try:
                await self.client.create(PODS.path(TENANT), town.encoded(_new(made)))
            except ApiError as error:
                self.refused[attack.name] = str(error)[:200]
                return

    def _placed(self, i: int, nodes: int) -> bytes:
        made = town.pod(
            f"placed-{i}", OTHERS, {"app": f"app-{i}"}, {"nodeName": f"node-{i % nodes}"}, cpu="10m", memory="10Mi"
        )
        return town.encoded(_new(made))

    def _other(self, run: str, i: int, scheduler: str) -> Object:
        made = town.pod(
            f"{run}-{i}",
            OTHERS,
            {"app": f"web-{i % 4}", LABEL: run},
            {"schedulerName": scheduler},
            cpu="1m",
            memory="1Mi",
        )
        return _new(made)


def _new(document: Object) -> Object:
    """Without what only the API server gives."""
    for name in ("uid", "creationTimestamp"):
        document["metadata"].pop(name, None)
    document["spec"].pop("priority", None)
    return document


def rows(chosen: Chosen, say: Callable[[str], None]) -> Iterator[Row]:
    """Every attack at its sizes, Berth and kube-scheduler one after the other on one control plane."""
    wanted = [attack for attack in ATTACKS if chosen.wants(attack.name)]
    if not wanted:
        return
    with (
        tempfile.TemporaryDirectory(prefix="berth-hostile-") as directory,
        ControlPlane() as cluster,
        asyncio.Runner(loop_factory=loop_factory()) as runner,
    ):
        contenders: list[Contender] = [
            BerthContender(cluster, Path(directory)),
            KubeScheduler(cluster, Path(directory)),
        ]
        connection = from_kubeconfig([str(cluster.kubeconfig(Path(directory) / "kubeconfig"))], None)
        client = runner.run(Client(connection, qps=-1, timeout=120.0).__aenter__())
        try:
            for nodes in SIZES:
                attacks = [attack for attack in wanted if nodes in attack.sizes]
                place = Place(client)
                if attacks:
                    runner.run(place.set_up(nodes))
                for attack in attacks:
                    yield runner.run(_one(place, contenders, nodes, attack, say))
                if attacks:
                    runner.run(place.tear_down())
        finally:
            runner.run(client.__aexit__(None, None, None))


async def _one(
    place: Place, contenders: list[Contender], nodes: int, attack: Attack, say: Callable[[str], None]
) -> Row:
    taken: dict[str, Waits] = {}
    for contender in contenders:
        pace = contender.key, attack.others
        if pace not in place.alone:
            say(f"{nodes} nodes, nothing hostile: {contender.title}")
            place.alone[pace] = await place.waits(contender, None, attack.others)
        if attack.crowd:
            say(f"{nodes} nodes, {attack.name} for a scheduler that does not exist: {contender.title}")
            kept = contender.key, attack.name
            place.unserved[kept] = await place.waits(contender, attack, attack.others, NOBODY)
        say(f"{nodes} nodes, {attack.name}: {contender.title}")
        taken[contender.key] = await place.waits(contender, attack, attack.others)
    alone = {key: place.alone[key, attack.others] for key in taken}
    base = place.unserved.get(("berth", attack.name), alone["berth"])
    return _row(attack, nodes, taken, alone, base, place.refused)


def _row(
    attack: Attack,
    nodes: int,
    taken: dict[str, Waits],
    alone: dict[str, Waits],
    base: Waits,
    refused: dict[str, str],
) -> Row:
    berth, kube, before = taken["berth"], taken["kube"], alone["berth"]
    costs = {
        "alone_p50_ms": before.p50,
        "alone_p99_ms": before.p99,
        "others_p50_ms": berth.p50,
        "others_p99_ms": berth.p99,
        "others_ms": berth.most,
        "more_ms": berth.most - before.most,
        "unserved_p99_ms": base.p99,
        "p99_times": berth.p99 / base.p99 if base.p99 else 0.0,
        "unbound_count": berth.unbound,
        "cpu_ms": berth.cpu,
        "kube_alone_p99_ms": alone["kube"].p99,
        "kube_p50_ms": kube.p50,
        "kube_p99_ms": kube.p99,
        "kube_ms": kube.most,
        "kube_unbound_count": kube.unbound,
        "kube_cpu_ms": kube.cpu,
    }
    bounds: dict[str, float] = {"p99_times": 2.0} if attack.crowd else {"more_ms": 100.0}
    notes = [f"the API server refused it: {refused[attack.name]}"] if attack.name in refused else []
    notes += [f"{key} ended" for key, one in taken.items() if one.died]
    return Row(
        f"{nodes} nodes, {PLACED:,} pods, real API server",
        "Pod",
        f"{attack.name}-{nodes}",
        attack.shape,
        len(town.encoded(attack.make(0))),
        attack.count,
        costs,
        {"unbound_count": 0.0, **bounds},
        "; ".join(notes),
    )
