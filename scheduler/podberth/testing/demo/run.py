"""Runs the story on an embedded API server, over real HTTP on the loopback."""

import asyncio
import time
from collections import Counter
from collections.abc import Coroutine
from statistics import median
from typing import Any

import msgspec

from podberth.apiserver.rules import podgroups
from podberth.apiserver.server import ApiServer
from podberth.app.scheduler import Scheduler
from podberth.explain.explain import explain
from podberth.explain.explanation import Explanation
from podberth.explain.gangs.answer import GroupExplanation
from podberth.explain.gangs.explain import explain_group
from podberth.explain.gangs.gang import gang_of
from podberth.framework.config import API_VERSION, KIND, SchedulerConfiguration, decode
from podberth.framework.profiles import build
from podberth.kube.client import Client
from podberth.kube.connection import Connection
from podberth.kube.resources import NAMESPACES, NODES, PODS
from podberth.model.pod import Pod
from podberth.model.pod_group import GroupKey
from podberth.plugins.registry import registry
from podberth.testing.demo import cast, witness
from podberth.testing.demo.acts import ACTS
from podberth.testing.demo.cast import NAMESPACE, PACKER, PROFILES, SCHEDULER, Object, namespace
from podberth.testing.demo.play import PATIENCE, Audience, Mirror, Play
from podberth.testing.demo.recording import Recording
from podberth.testing.demo.witness import Witness


def summarise(play: Play, seconds: float) -> list[tuple[str, str, str]]:
    """(number, what it counts, a word of explanation); `seconds`: how long the story took."""
    mirror, verdicts = play.mirror, play.witness.verdicts
    mine = [pod for pod in mirror.pods.values() if pod.scheduler_name in PROFILES]
    bound = [pod for pod in mine if pod.node_name]
    others = sum(bool(pod.node_name) for pod in mirror.pods.values()) - len(bound)
    middle = median(verdict.seconds for verdict in verdicts)
    return [
        (f"{len(bound)} of {len(mine)}", "pods bound", f"{others} of others left alone"),
        (str(len(verdicts)), "decisions", f"over all {len(mirror.nodes)} nodes each"),
        (witness.took(middle), "a decision", "median, filters and scores"),
        (f"{1 / middle:,.0f}", "decisions a second", "at that pace, on one core"),
        (witness.took(median(_waits(play))), "from created to bound", "median, over HTTP"),
        (str(sum(verdict.regret for verdict in verdicts)), "points of regret", "chosen against best, summed"),
        (str(len(overbooked(play))), "nodes overbooked", "as the API server has it"),
        (f"{seconds:.1f} s", "the whole story", "pauses for the eye included"),
    ]


def overbooked(play: Play) -> list[str]:
    """Return nodes whose pods ask for more of anything than there is."""
    mirror = play.mirror
    found = []
    for node in mirror.nodes.values():
        asked: Counter[str] = Counter()
        for pod in mirror.on(node.name):
            asked.update(pod.shape.requests)
        if any(amount > node.allocatable.get(name, 0) for name, amount in asked.items()):
            found.append(node.name)
    return found


def _waits(play: Play) -> list[float]:
    """Return the seconds from a pod's POST until the watch showed its node, for pods bound at the first try."""
    tries = Counter(verdict.pod for verdict in play.witness.verdicts)
    at_once = {step.pod for step in play.recording.steps if step.kind == "bound"}
    at_once -= {step.pod for step in play.recording.steps if step.kind in ("gated", "pending")}
    seen = play.mirror.seen
    return [
        seen[pod.uid] - play.created[key]
        for key, pod in play.mirror.pods.items()
        if key in play.created and pod.uid in seen and tries[key] == 1 and pod.name in at_once
    ]


async def embedded(audience: Audience, *, pace: float = 0.0, seed: int = 0) -> Recording:
    """Tell the story on an API server in this process.

    `pace`: seconds for the eye a step; `seed` decides between equally good nodes.
    """
    async with ApiServer(port=0, gates=[podgroups.GATE]) as server:
        connection = Connection(host=server.url, source="embedded API server")
        async with Client(connection, qps=-1) as client:
            play = await _told(client, audience, pace, seed)
    play.recording.server = f"the embedded API server at {server.url}"
    return play.recording


async def _told(client: Client, audience: Audience, pace: float, seed: int) -> Play:
    started = time.monotonic()
    await client.create(NAMESPACES.path(), _json(namespace(NAMESPACE)))
    for node in cast.nodes():
        await client.create(NODES.path(), _json(node))
    await cast.publish(client)
    for pod in cast.others():
        await client.create(PODS.path(NAMESPACE), _json(pod))
    config = configuration()
    frameworks = build(config, registry())
    async with Mirror(client, time.monotonic) as mirror, Client(client.connection, qps=-1) as own_client:
        witness = Witness(mirror.stir)
        scheduler = Scheduler(own_client, witness.watch(frameworks), config, seed=seed, observe=witness.observe)
        running = asyncio.create_task(scheduler.run(drain_seconds=2.0))
        try:

            def ask(pod: Pod) -> Explanation:
                return explain(pod, frameworks[pod.scheduler_name], scheduler.engine.cluster)

            def ask_about_group(name: str) -> GroupExplanation:
                cluster, key = scheduler.engine.cluster, GroupKey(NAMESPACE, name)
                gang = gang_of(key, cluster)
                assert gang is not None
                return explain_group(gang, frameworks[SCHEDULER], cluster)

            play = Play(client, mirror, witness, audience, ask, ask_about_group, pace=pace)
            await _beside(running, _acts(play, scheduler))
            play.recording.summary = summarise(play, time.monotonic() - started)
        finally:
            scheduler.stop()
            await running
    return play


async def _acts(play: Play, scheduler: Scheduler) -> None:
    async with asyncio.timeout(PATIENCE):
        await scheduler.wait_synced()
    for act in ACTS:
        await act(play)


async def _beside(running: asyncio.Task[None], work: Coroutine[Any, Any, None]) -> None:
    """Do the work while the scheduler runs; what breaks the scheduler comes out here."""
    story = asyncio.create_task(work)
    try:
        await asyncio.wait({story, running}, return_when=asyncio.FIRST_COMPLETED)
        if running.done() and not story.done():
            running.result()
            raise RuntimeError("the scheduler stopped in the middle of the story")
        story.result()
    finally:
        story.cancel()
        await asyncio.gather(story, return_exceptions=True)


def configuration() -> SchedulerConfiguration:
    """Return two profiles: one as it comes, one that prefers the fullest node."""
    strategy = {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]}
    packing = {"name": "NodeResourcesFit", "args": {"scoringStrategy": strategy}}
    return decode(
        {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "leaderElection": {"leaderElect": False},
            "profiles": [{"schedulerName": SCHEDULER}, {"schedulerName": PACKER, "pluginConfig": [packing]}],
        }
    )


def _json(document: Object) -> bytes:
    return msgspec.json.encode(document)
