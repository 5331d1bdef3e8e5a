"""Where the story takes place: an embedded API server, or a namespace of its own on a real cluster, left tidy."""

import asyncio
import secrets
import time
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import msgspec

from podberth.apiserver import podgroups
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
from podberth.testing.demo import cast, devices
from podberth.testing.demo.acts import ACTS
from podberth.testing.demo.cast import Setting
from podberth.testing.demo.mirror import Mirror
from podberth.testing.demo.objects import Object, namespace
from podberth.testing.demo.play import PATIENCE, Audience, Play
from podberth.testing.demo.recording import Recording
from podberth.testing.demo.summary import summarise
from podberth.testing.demo.tidy import Tidy
from podberth.testing.demo.witness import Witness

REAL_SCALE = 40
"""On nodes that are somebody's, the story's pods ask for this part of what they would."""


@dataclass(frozen=True, slots=True)
class Options:
    """How to tell it. `pace`: seconds for the eye a step; `seed` decides between equally good nodes."""

    pace: float = 0.0
    seed: int = 0


async def embedded(audience: Audience, options: Options) -> Recording:
    """Tell the story on an API server in this process, over real HTTP on the loopback."""
    async with ApiServer(port=0, gates=[podgroups.GATE]) as server:
        connection = Connection(host=server.url, source="embedded API server")
        async with Client(connection, qps=-1) as client:
            setting = Setting(namespace="demo", scheduler="berth", own_server=True)
            await client.create(NAMESPACES.path(), _json(namespace(setting.namespace)))
            return await _tell(client, setting, audience, options, f"the embedded API server at {server.url}")


async def elsewhere(connection: Connection, audience: Audience, options: Options, notice: Any) -> Recording:
    """Tell the story on a real cluster: in a namespace of its own, on the nodes that are there, or on some for it.

    Whatever happens, everything is deleted again; `notice(text)` hears what could not be. Raises ApiError, Unreachable.
    """
    name = f"berth-demo-{secrets.token_hex(3)}"
    async with Client(connection, qps=-1) as client:
        listed = msgspec.json.decode(await client.get(NODES.path(), query="limit=1", tries=1))
        bare = not listed["items"]
        if bare:
            setting = Setting(name, name, prefix=f"{name}-")
        else:
            setting = Setting(name, name, own_nodes=False, scale=REAL_SCALE)
        async with Tidy(client, setting, notice):
            return await _tell(client, setting, audience, options, connection.source or connection.host)


async def _tell(client: Client, setting: Setting, audience: Audience, options: Options, where: str) -> Recording:
    started, has_devices = time.monotonic(), False
    if setting.own_nodes:
        for node in cast.nodes(setting):
            await _create_node(client, node)
        has_devices = await devices.publish(client, setting)
        for pod in cast.others(setting, devices=has_devices):
            await client.create(PODS.path(setting.namespace), _json(pod))
    config = configuration(setting)
    frameworks = build(config, registry())
    async with AsyncExitStack() as stack:
        mirror = await stack.enter_async_context(Mirror(client, time.monotonic))
        witness = Witness(mirror.stir, setting.short)
        own_client = await stack.enter_async_context(Client(client.connection, qps=-1))
        scheduler = Scheduler(own_client, witness.watch(frameworks), config, seed=options.seed, observe=witness.observe)
        running = asyncio.create_task(scheduler.run(drain_seconds=2.0))
        try:

            def ask(pod: Pod) -> Explanation:
                return explain(pod, frameworks[pod.scheduler_name], scheduler.engine.cluster)

            def ask_about_group(name: str) -> GroupExplanation:
                cluster, key = scheduler.engine.cluster, GroupKey(setting.namespace, name)
                gang = gang_of(key, cluster)
                assert gang is not None
                return explain_group(gang, frameworks[setting.scheduler], cluster)

            play = Play(
                client,
                mirror,
                witness,
                setting,
                audience,
                ask,
                ask_about_group,
                pace=options.pace,
                has_devices=has_devices,
            )
            play.recording.server = where
            await _beside(running, _acts(play, scheduler))
            play.recording.summary = summarise(play, time.monotonic() - started)
        finally:
            scheduler.stop()
            await running
    return play.recording


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


def configuration(setting: Setting) -> SchedulerConfiguration:
    """Two profiles: one as it comes, one that prefers the fullest node. On nodes that are somebody's, none preempts."""
    strategy = {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]}
    packing = {"name": "NodeResourcesFit", "args": {"scoringStrategy": strategy}}
    plugins = {} if setting.own_nodes else {"postFilter": {"disabled": [{"name": "*"}]}}
    return decode(
        {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "leaderElection": {"leaderElect": False},
            "profiles": [
                {"schedulerName": setting.scheduler, "plugins": plugins},
                {"schedulerName": setting.packer, "plugins": plugins, "pluginConfig": [packing]},
            ],
        }
    )


async def _create_node(client: Client, node: Object) -> None:
    """Create a node with its status, and take off the not-ready taint that a real server gives each new node."""
    made = msgspec.json.decode(await client.create(NODES.path(), _json(node)))
    wanted = node["spec"].get("taints")
    if made["spec"].get("taints") != wanted:
        name = node["metadata"]["name"]
        await client.patch(NODES.path(name=name), _json({"spec": {"taints": wanted}}))


def _json(document: Object) -> bytes:
    return msgspec.json.encode(document)
