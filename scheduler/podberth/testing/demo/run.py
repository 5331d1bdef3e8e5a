"""Runs the story where it takes place: an embedded API server, or a namespace of its own on a real cluster.

A real cluster is left as it was found: also after an error, and on Ctrl-C.
"""

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass
from statistics import median
from types import TracebackType
from typing import Any, Self

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
from podberth.kube.errors import ApiError, Unreachable
from podberth.kube.resources import EVENTS, NAMESPACES, NODES, POD_GROUPS, PODS, Resource
from podberth.model.pod import Pod
from podberth.model.pod_group import GroupKey
from podberth.plugins.registry import registry
from podberth.testing.demo import cast, witness
from podberth.testing.demo.acts import ACTS
from podberth.testing.demo.cast import Object, Setting, namespace
from podberth.testing.demo.play import PATIENCE, Audience, Mirror, Play
from podberth.testing.demo.recording import Recording
from podberth.testing.demo.witness import Witness

NOW = msgspec.json.encode({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0})
GRACE = 4.0
"""Seconds that the cluster's own namespace controller gets before we look whether there is one."""
LONGEST = 12.0
CONFIG_MAPS = Resource("", "v1", "configmaps", True, "ConfigMap")
EVERYWHERE = "kube-root-ca.crt"
"""A ConfigMap that a controller manager puts into each namespace."""
REAL_SCALE = 40
"""The story's pods ask for one part in so many of what they would, on nodes that are somebody's."""


def summarise(play: Play, seconds: float) -> list[tuple[str, str, str]]:
    """(number, what it counts, a word of explanation); `seconds`: how long the story took."""
    mirror, verdicts = play.mirror, play.witness.verdicts
    mine = [pod for pod in mirror.pods.values() if pod.scheduler_name in play.setting.profiles]
    bound = [pod for pod in mine if pod.node_name]
    others = sum(bool(pod.node_name) for pod in mirror.pods.values()) - len(bound)
    rows = [(f"{len(bound)} of {len(mine)}", "pods bound", f"{others} of others left alone")]
    if verdicts:
        middle = median(verdict.seconds for verdict in verdicts)
        rows.append((str(len(verdicts)), "decisions", f"over all {verdicts[-1].nodes} nodes each"))
        rows.append((witness.took(middle), "a decision", "median, filters and scores"))
        rows.append((f"{1 / middle:,.0f}", "decisions a second", "at that pace, on one core"))
    waits = _waits(play)
    if waits:
        rows.append((witness.took(median(waits)), "from created to bound", "median, over HTTP"))
    regret = sum(verdict.regret for verdict in verdicts)
    rows.append((str(regret), "points of regret", "chosen against best, summed"))
    rows.append((str(len(overbooked(play))), "nodes overbooked", "as the API server has it"))
    rows.append((f"{seconds:.1f} s", "the whole story", "pauses for the eye included"))
    return rows


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


class Tidy:
    """Makes the story's namespace; at the end of the block deletes it with all that is in it, and the story's nodes.

    `notice` hears what was and was not possible.
    """

    def __init__(self, client: Client, setting: Setting, notice: Callable[[str], None]) -> None:
        self._client = client
        self._setting = setting
        self._notice = notice

    async def __aenter__(self) -> Self:
        try:
            await self._client.create(NAMESPACES.path(), msgspec.json.encode(namespace(self._setting.namespace)))
        except ApiError:
            raise  # nothing was made
        except BaseException:
            await self._clean()  # who knows
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._clean()

    async def _clean(self) -> None:
        setting = self._setting
        await self._delete(PODS.path(setting.namespace), "the pods")
        if setting.own_nodes:
            await self._clean_devices()
            for node in cast.nodes(setting):
                await self._delete(NODES.path(name=node["metadata"]["name"]), f"node {node['metadata']['name']}")
        if not await self._delete(NAMESPACES.path(name=setting.namespace), f"namespace {setting.namespace}"):
            return
        try:
            gone = await self._gone(GRACE) or await self._finish_by_hand() or await self._gone(LONGEST)
        except (ApiError, Unreachable) as problem:
            self._notice(f"Could not see namespace {setting.namespace} go: {problem}")
            return
        rest = "gone" if gone else "empty, and the cluster is deleting it"
        self._notice(f"Cleaned up: namespace {setting.namespace} is {rest}.")

    async def _clean_devices(self) -> None:
        try:
            await cast.let_claims_go(self._client, self._setting)
        except (ApiError, Unreachable) as error:
            if not (isinstance(error, ApiError) and error.status == 404):  # 404: the server has no devices
                self._notice(f"Could not delete the claims: {error}")
        for path, what in cast.left(self._setting):
            await self._delete(path, what)

    async def _delete(self, path: str, what: str) -> bool:
        try:
            await self._client.delete(path, NOW)
        except ApiError as error:
            if error.status == 404:
                return False
            self._notice(f"Could not delete {what}: {error}")
            return False
        except Unreachable as error:
            self._notice(f"Could not delete {what}: {error}. When the cluster is back: kubectl delete {what}")
            return False
        return True

    async def _gone(self, seconds: float) -> bool:
        """Wait for the namespace to go; return False if it does not in time."""
        deadline = asyncio.get_running_loop().time() + seconds
        while asyncio.get_running_loop().time() < deadline:
            if not await self._exists(NAMESPACES.path(name=self._setting.namespace)):
                return True
            await asyncio.sleep(0.1)
        return False

    async def _exists(self, path: str) -> bool:
        try:
            await self._client.get(path)
        except ApiError as error:
            if error.status != 404:
                raise
            return False
        return True

    async def _finish_by_hand(self) -> bool:
        """Do the namespace controller's part where no controllers run (envtest). Return False where they do.

        All that ever was in such a namespace is ours: pods, deleted before, their events, and a pod group.
        """
        name = self._setting.namespace
        path = NAMESPACES.path(name=name)
        found = msgspec.json.decode(await self._client.get(path))
        if (found.get("status") or {}).get("conditions") or await self._exists(CONFIG_MAPS.path(name, EVERYWHERE)):
            return False
        await self._delete(EVENTS.path(name), "the events")
        await self._delete(POD_GROUPS.path(name), "the pod groups")
        found["spec"]["finalizers"] = []
        await self._client.replace(f"{path}/finalize", msgspec.json.encode(found))
        return await self._gone(GRACE)


@dataclass(frozen=True, slots=True)
class Options:
    """The way to tell it. `pace`: seconds for the eye a step; `seed` decides between equally good nodes."""

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
        has_devices = await cast.publish(client, setting)
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
    """Return two profiles: one as it comes, one that prefers the fullest node. On nodes that are somebody's, none
    preempts.
    """
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
