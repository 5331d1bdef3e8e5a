"""One namespace at its worst against the admission server, and what another namespace's reviews take meanwhile.

`python -m bench.hostile_admission [--only NAME] [--seconds N] [--rounds N]`. One replica, an embedded API server that
holds policies and owners, and an attacker as the namespace `evil` (over loopback, for so many seconds and no longer)
are processes of their own. This one posts small reviews of the namespace `team` at an even pace, and asks the probe,
in rounds of three kinds, so that whatever else the machine does hits all of them: `alone`, without the attack;
`elsewhere`, while the same attack goes to another replica with an API server of its own; `beside`, while it goes to
this one. The attack takes cores from everybody who is on the machine, so what one replica's tenants do to each other
is what `beside` is longer than `elsewhere`. Memory is the replica's with its workers, from before the attacks to the
most that was seen. `turn_ms` does not depend on how busy the machine is: it is the longest that the replica's event
loop was held since it started, in CPU time.

For others to call: `scenarios()` gives functions, each of which takes a `Stage` and returns a `Measured`.

    async with stage() as made:
        rows = [await scenario(made) for scenario in scenarios()]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from bench.admission import quantile, review
from bench.attacks import EVIL, JSON_TYPE, controllers, large, session
from podberth.apiserver import ApiServer
from tests.controlplane.wait import wait_for
from tests.integration.admission import NAMESPACE, POLICIES, Replica, policy

TEAM = "team"
CRD = Path(__file__).parents[1] / "manifests" / "crd-metadatapolicies.yaml"
PACE = 0.02
"""Seconds between two reviews of the other namespace."""
BOUNDS = {"elsewhere_p99_times": 1.5, "turn_ms": 20.0, "livez_failed_count": 0.0, "memory_mb": 20.0}
TURN = "berth_admission_longest_turn_seconds"
ATTACK = (sys.executable, "-m", "bench.attacks")
SERVE = (sys.executable, "-m", "bench.hostile_admission", "--serve")
Object = dict[str, Any]


@dataclass
class Measured:
    """One row: what a tenant wrote, what it did to others, and what it may do at most.

    `costs` and `bounds` are by measure, the last word of which is its unit.
    """

    name: str
    kind: str
    shape: str
    bytes: int
    objects: int
    costs: dict[str, float]
    bounds: dict[str, float] = field(default_factory=lambda: dict(BOUNDS))
    note: str = ""


@dataclass(frozen=True)
class Site:
    """A replica, and the API server that it reads."""

    api: str
    replica: Replica

    @property
    def url(self) -> str:
        """Where the replica serves."""
        return f"https://127.0.0.1:{self.replica.port}"


@dataclass
class Stage:
    """The replica that is measured, another one that is attacked in its place, and how long is measured."""

    site: Site
    other: Site
    session: aiohttp.ClientSession
    seconds: float
    rounds: int

    async def call(self, verb: str, path: str, body: Any = None) -> None:
        """Have both API servers do the same."""
        for site in (self.site, self.other):
            await _call(self.session, site.api, verb, path, body)


Scenario = Callable[[Stage], Awaitable[Measured]]


@asynccontextmanager
async def stage(seconds: float = 4.0, rounds: int = 3) -> AsyncIterator[Stage]:
    """Two replicas, each with an API server of its own that has the same."""
    async with session() as client, _site(client) as site, _site(client) as other:
        yield Stage(site, other, client, seconds, rounds)


@asynccontextmanager
async def _site(client: aiohttp.ClientSession) -> AsyncIterator[Site]:
    """An API server with two namespaces, and a replica that knows the policies of both and registers nothing."""
    async with _api_server() as api:
        with tempfile.TemporaryDirectory() as home:
            config = Path(home) / "kubeconfig"
            config.write_text(yaml.safe_dump(_kubeconfig(api)))
            replica = Replica(Path(home), config, "", "--no-register", "--log-level=error")
            for name in (NAMESPACE, EVIL, TEAM):
                with contextlib.suppress(RuntimeError):  # some are there already
                    await _call(client, api, "POST", "/api/v1/namespaces", {"metadata": {"name": name}})
            crd = yaml.safe_load(CRD.read_text())
            await _call(client, api, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
            await _call(client, api, "POST", POLICIES.format(TEAM), policy("team", _defaults("team")))
            replica.start()
            try:
                await asyncio.to_thread(wait_for, "the replica to be ready", lambda: replica.ready, 60.0)
                yield Site(api, replica)
            finally:
                await asyncio.to_thread(replica.stop)


async def _call(client: aiohttp.ClientSession, api: str, verb: str, path: str, body: Any = None) -> None:
    async with client.request(verb, api + path, json=body) as response:
        if response.status >= 400:
            raise RuntimeError(f"{verb} {path}: {response.status} {await response.text()}")


def scenarios() -> list[Scenario]:
    """All rows. Each returns the costs of one shape; nothing of it is left for the next."""
    return [costly_policies, edited_policy, many_controllers, large_pods]


async def costly_policies(made: Stage) -> Measured:
    """S2: 150 policies of 32 KB in mode warn, and four clients that create small objects in their namespace."""
    writes = {f"key-{i:02}": "value" for i in range(20)}
    action = {"updatedLabels": writes, "updatedAnnotations": writes}
    rules = [{"policyPredicate": {}, "policyAction": action} for _ in range(44)]
    body = policy("p000", *rules)
    body["spec"]["mode"] = "warn"
    path = POLICIES.format(EVIL)
    for i in range(150):
        await made.call("POST", path, {**body, "metadata": {"name": f"p{i:03}"}})
    await _settled(made)
    shape = f"150 policies in mode warn, {len(rules)} rules of 40 writes each, and creates by four clients"
    found = await _measured(made, "policies", shape, len(json.dumps(body)), 150, "policies")
    for i in range(150):
        await made.call("DELETE", f"{path}/p{i:03}")
    return found


async def edited_policy(made: Stage) -> Measured:
    """One policy with 65,536 values, edited twenty times a second."""
    values = [f"v{i}" for i in range(32)]
    criteria = [{"key": f"k{i}", "operator": "NotIn", "values": values} for i in range(16)]
    predicate = {name: {"matchExpressions": criteria} for name in ("labelSelector", "annotationSelector")}
    rejects = {"reject": True, "message": "no"}
    body = policy("edited", *({"policyPredicate": predicate, "policyAction": rejects} for _ in range(64)))
    path = POLICIES.format(EVIL)
    await made.call("POST", path, body)
    shape = "a policy of 64 rules with 32 criteria of 32 values each, edited again and again"
    found = await _measured(made, "edited-policy", shape, len(json.dumps(body)), 1, "edits")
    await made.call("DELETE", f"{path}/edited")
    return found


async def many_controllers(made: Stage) -> Measured:
    """S3: forty reviews at once of pods with 20,000 controllers each, by clients that hang up after a second."""
    await made.call("POST", POLICIES.format(EVIL), policy("relabel", _defaults("evil")))
    await _settled(made)
    shape = "pods with 20,000 ownerReferences that are all controllers, forty at once, hanging up after a second"
    found = await _measured(made, "controllers", shape, len(controllers(20_000)), 40, "controllers")
    await made.call("DELETE", f"{POLICIES.format(EVIL)}/relabel")
    return found


async def large_pods(made: Stage) -> Measured:
    """S6: eight pods of 1.2 MB at once, again and again."""
    await made.call("POST", POLICIES.format(EVIL), policy("relabel", _defaults("evil")))
    await _settled(made)
    shape = "pods of 6,000 containers, eight at once"
    found = await _measured(made, "large-pods", shape, len(large()), 8, "large")
    await made.call("DELETE", f"{POLICIES.format(EVIL)}/relabel")
    return found


# -- the processes beside this one ------------------------------------------------------------------------------------


@asynccontextmanager
async def _api_server() -> AsyncIterator[str]:
    """The URL of an embedded API server in a process of its own, which ends when its input does."""
    pipe = asyncio.subprocess.PIPE
    server = await asyncio.create_subprocess_exec(*SERVE, stdin=pipe, stdout=pipe)
    assert server.stdin is not None and server.stdout is not None
    try:
        yield (await server.stdout.readline()).decode().strip()
    finally:
        server.stdin.close()
        await server.wait()


async def _serve() -> None:
    async with ApiServer() as server:
        print(server.url, flush=True)
        await asyncio.to_thread(sys.stdin.read)


# -- measuring ---------------------------------------------------------------------------------------------------------


@dataclass
class Took:
    """What reviews took, in milliseconds, and what the replica did meanwhile."""

    whole: list[float] = field(default_factory=list)
    """From the first byte out to the last byte in."""
    loop: list[float] = field(default_factory=list)
    """CPU that the replica's event loop used meanwhile: for this review, and for whatever came before it."""
    queue: list[float] = field(default_factory=list)
    """How long the loop could have run meanwhile and had no core to run on: that is the machine's doing."""

    def p99(self) -> tuple[float, float, float]:
        """The 99th percentile of each."""
        return quantile(self.whole, 0.99), quantile(self.loop, 0.99), quantile(self.queue, 0.99)


def scheduled(pid: int) -> tuple[float, float]:
    """Milliseconds that a process's main thread has run, and has waited for a core (Linux, `schedstats`)."""
    ran, waited, _ = Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()
    return int(ran) / 1e6, int(waited) / 1e6


async def _measured(made: Stage, name: str, shape: str, size: int, objects: int, work: str) -> Measured:
    """Rounds without the attack, with it elsewhere, and beside it."""
    alone, elsewhere, beside = Took(), Took(), Took()
    probes: list[float] = []
    replica = made.site.replica
    await _others(made, Took(), [], 1.0)  # a server that answered nobody yet is smaller
    answered, before, most, cpu = 0, resident(replica.pid), 0.0, 0.0
    for _ in range(made.rounds):
        await _others(made, alone, [], made.seconds)
        await _attacked(made, made.other, work, elsewhere, [])
        began = replica.cpu_seconds()
        seen, number = await _attacked(made, made.site, work, beside, probes)
        cpu += replica.cpu_seconds() - began
        most = max(most, seen)
        answered += number
    costs: dict[str, float] = {}
    for when, took in (("alone", alone), ("elsewhere", elsewhere), ("beside", beside)):
        costs |= {f"{when}_p50_ms": quantile(took.whole, 0.5), f"{when}_p99_ms": quantile(took.whole, 0.99)}
    costs |= {
        "alone_p99_times": costs["beside_p99_ms"] / costs["alone_p99_ms"],
        "elsewhere_p50_times": costs["beside_p50_ms"] / costs["elsewhere_p50_ms"],
        "elsewhere_p99_times": costs["beside_p99_ms"] / costs["elsewhere_p99_ms"],
        "elsewhere_loop_p99_ms": quantile(elsewhere.loop, 0.99),
        "beside_loop_p99_ms": quantile(beside.loop, 0.99),
        "elsewhere_queue_p99_ms": quantile(elsewhere.queue, 0.99),
        "beside_queue_p99_ms": quantile(beside.queue, 0.99),
        "livez_ms": max(probes),
        "livez_failed_count": float(sum(probe == float("inf") for probe in probes)),
        "memory_mb": most - before,
        "turn_ms": 1000 * (await asyncio.to_thread(replica.metrics)).get(TURN, 0.0),
        "replica_cpu_ms": 1000 * cpu / made.rounds,
    }
    kind = "MetadataPolicy" if work in ("policies", "edits") else "Pod"
    return Measured(name, kind, shape, size, objects, costs, note=f"{answered} of the attack's were answered")


async def _attacked(made: Stage, site: Site, work: str, took: Took, probes: list[float]) -> tuple[float, int]:
    """One round while `site` is attacked: the most memory that was seen, and how often the attack was answered."""
    argv = (*ATTACK, site.url, site.api, work, str(made.seconds + 2))
    attacker = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE)
    await asyncio.sleep(1.0)  # it is warm then
    most = await _others(made, took, probes, made.seconds)
    said, _ = await attacker.communicate()
    return most, json.loads(said)["answered"]


async def _others(made: Stage, took: Took, probes: list[float], seconds: float) -> float:
    """Post reviews of the other namespace at an even pace, ask the probe on the way; the most memory that was seen."""
    most, number, began = 0.0, 0, time.perf_counter()
    site = made.site
    tasks: list[asyncio.Task[None]] = []

    async def one(body: bytes) -> None:
        since, (ran, waited) = time.perf_counter(), scheduled(site.replica.pid)
        async with made.session.post(f"{site.url}/mutate", data=body, headers=JSON_TYPE) as response:
            if response.status != 200 or b'"allowed":true' not in await response.read():
                raise RuntimeError(f"a review of {TEAM} failed: {response.status}")
        took.whole.append(1000 * (time.perf_counter() - since))
        now = scheduled(site.replica.pid)
        took.loop.append(now[0] - ran)
        took.queue.append(now[1] - waited)

    async def probe() -> None:
        since = time.perf_counter()
        try:
            async with asyncio.timeout(5.0), made.session.get(f"{site.url}/livez") as response:
                await response.read()
            probes.append(1000 * (time.perf_counter() - since))
        except (TimeoutError, aiohttp.ClientError):
            probes.append(float("inf"))

    while time.perf_counter() - began < seconds:
        number += 1
        tasks.append(asyncio.create_task(one(review(TEAM, number))))
        if number % 10 == 0:
            tasks.append(asyncio.create_task(probe()))
            most = max(most, resident(site.replica.pid))
        await asyncio.sleep(max(began + number * PACE - time.perf_counter(), 0))
    await asyncio.gather(*tasks)
    return most


async def _settled(made: Stage) -> None:
    """Until the replica has read what there is: its count of policies stays for a second."""
    before = -1
    async with asyncio.timeout(120):
        while (now := await asyncio.to_thread(lambda: made.site.replica.policies)) != before:
            before = now
            await asyncio.sleep(1.0)


def resident(pid: int) -> float:
    """Megabytes that a process and its children have in memory (Linux)."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        found += map(int, task.read_text().split())
    total = 0
    for one in found:
        with contextlib.suppress(FileNotFoundError):  # it ended meanwhile
            total += int(Path(f"/proc/{one}/statm").read_text().split()[1])
    return total * 4096 / 1e6


def _defaults(name: str) -> Object:
    """A rule that writes a label where it is absent."""
    criterion = {"key": name, "operator": "DoesNotExist"}
    return {
        "policyPredicate": {"labelSelector": {"matchExpressions": [criterion]}},
        "policyAction": {"updatedLabels": {name: "yes"}},
    }


def _kubeconfig(url: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "here", "cluster": {"server": url}}],
        "users": [{"name": "me", "user": {}}],
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
        "current-context": "here",
    }


async def _main(only: str, seconds: float, rounds: int) -> None:
    async with stage(seconds, rounds) as made:
        for scenario in scenarios():
            if only in scenario.__name__:
                found = await scenario(made)
                print(f"\n{found.name}: {found.shape} ({found.bytes:,} bytes; {found.note})")
                for name, figure in found.costs.items():
                    most = found.bounds.get(name)
                    told = "" if most is None else f"  at most {most:g}: {'held' if figure <= most else 'BROKEN'}"
                    print(f"  {name:<20}{figure:>10.2f}{told}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="What one namespace at its worst does to others' reviews.")
    parser.add_argument("--only", default="", help="Scenarios whose name contains this.")
    parser.add_argument("--seconds", type=float, default=4.0, help="Of each round, without and beside the attack.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        asyncio.run(_serve())
    else:
        asyncio.run(_main(arguments.only, arguments.seconds, arguments.rounds))
