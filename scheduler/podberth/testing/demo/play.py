"""Steps of the tour on a live cluster: create a pod, wait for the API server, show the result. `acts` has them."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, Self

import msgspec

from podberth.explain.explanation import Explanation
from podberth.explain.gangs.answer import GroupExplanation
from podberth.kube.client import Client
from podberth.kube.objects import Change, Deleted
from podberth.kube.reflector import Reflector
from podberth.kube.resources import NODES, PODS, RESOURCE_CLAIMS
from podberth.model.kinds import Decoder
from podberth.model.node import Node
from podberth.model.pod import Pod
from podberth.testing.demo import witness
from podberth.testing.demo.cast import DEVICES, DISK, NAMESPACE, PROFILES, ZONE, Object
from podberth.testing.demo.recording import Act, NodeCard, PodCard, Recording, Step
from podberth.testing.demo.witness import SeenDecision, Witness

LIVE = "status.phase!=Succeeded,status.phase!=Failed"
PATIENCE = 15.0
"""Seconds that anything may take before the demo gives up on it."""
Audience = Callable[[Step | Act], None]


class LateError(Exception):
    """Something that had to happen did not happen in time."""


class Mirror:
    """Nodes and pods as the server has them. `now` is a monotonic clock; `seen` when each pod first had a node."""

    def __init__(self, client: Client, now: Callable[[], float]) -> None:
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, Pod] = {}
        self.seen: dict[str, float] = {}
        self._now = now
        self._changed = asyncio.Condition()
        self._telling: set[asyncio.Task[None]] = set()
        decoder = Decoder()
        self._reflectors: list[Reflector[Any]] = [
            Reflector(client, NODES, decoder.node, self._put_nodes),
            Reflector(client, PODS, decoder.pod, self._put_pods, field_selector=LIVE),
        ]
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._tasks = [asyncio.create_task(reflector.run()) for reflector in self._reflectors]
        await self.until(lambda: all(reflector.has_synced for reflector in self._reflectors), "the first lists", 15.0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def pod(self, namespace: str, name: str) -> Pod | None:
        """Return a pod, if the server has it."""
        return self.pods.get(f"{namespace}/{name}")

    def on(self, node: str) -> Iterator[Pod]:
        """Return the pods of one node, in the order of their names."""
        return iter(sorted((pod for pod in self.pods.values() if pod.node_name == node), key=lambda pod: pod.key))

    def used(self, node: str) -> int:
        """Return the milli-cores that the pods of a node ask for."""
        return sum(pod.shape.requests.get("cpu", 0) for pod in self.on(node))

    async def until(self, claim: Callable[[], bool], what: str, seconds: float) -> None:
        """Wait until the claim holds; it is checked after each change.

        Raises LateError.
        """
        try:
            async with asyncio.timeout(seconds), self._changed:
                await self._changed.wait_for(claim)
        except TimeoutError:
            raise LateError(f"waited {seconds:g} s for {what}, in vain") from None

    def stir(self) -> None:
        """Have all claims looked at again: something they read has changed."""
        task = asyncio.create_task(self._tell())
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    def _put_nodes(self, changes: list[Change[Node]], replaced: bool) -> None:
        for change in changes:
            if isinstance(change, Deleted):
                self.nodes.pop(change.name, None)
            else:
                self.nodes[change.object.name] = change.object
        self.stir()

    def _put_pods(self, changes: list[Change[Pod]], replaced: bool) -> None:
        for change in changes:
            if isinstance(change, Deleted):
                self.pods.pop(f"{change.namespace}/{change.name}", None)
            else:
                pod = change.object
                self.pods[pod.key] = pod
                if pod.node_name:
                    self.seen.setdefault(pod.uid, self._now())
        self.stir()


class Play:
    """Sends the requests of the tour to the API server, and shows the audience the results.

    `pace`: seconds that the eye gets for one step; 0 for no pauses.
    """

    def __init__(
        self,
        client: Client,
        mirror: Mirror,
        witness: Witness,
        audience: Audience,
        explain: Callable[[Pod], Explanation],
        explain_group: Callable[[str], GroupExplanation],
        *,
        pace: float,
    ) -> None:
        self.client = client
        self.mirror = mirror
        self.witness = witness
        self.recording = Recording()
        self.created: dict[str, float] = {}
        self._audience = audience
        self.explain_group = explain_group
        """The answer of `berth explain podgroup/NAME` of a group of ours, asked of the running scheduler's cache."""
        self._explain = explain
        self._pace = pace

    # --- telling --------------------------------------------------------------------------------------------------

    async def act(self, title: str, text: str) -> None:
        """Open a chapter."""
        act = Act(title, text)
        self.recording.acts.append(act)
        self._audience(act)
        await self.pause(2.0)

    async def show(self, kind: str, title: str, lines: Sequence[str] = (), *, beats: float = 1.0, **more: Any) -> Step:
        """Show one step to the audience."""
        step = Step(len(self.recording.acts) - 1, kind, title, list(lines), **more)
        self.recording.steps.append(step)
        self._audience(step)
        await self.pause(beats)
        return step

    async def pause(self, beats: float) -> None:
        """Give the eye some time."""
        if self._pace:
            await asyncio.sleep(beats * self._pace)

    # --- doing ----------------------------------------------------------------------------------------------------

    async def place(self, *pods: Object, together: bool = False) -> list[SeenDecision]:
        """Create pods, one after the other or all at once, and show where each went and why."""
        verdicts = []
        if together:
            for pod in pods:
                await self.create(pod)
        for pod in pods:
            if not together:
                await self.create(pod)
            verdicts.append(await self.show_outcome(pod["metadata"]["name"]))
        return verdicts

    async def create(self, pod: Object) -> None:
        """Create one pod."""
        name = pod["metadata"]["name"]
        self.created[f"{NAMESPACE}/{name}"] = asyncio.get_running_loop().time()
        await self.client.create(PODS.path(NAMESPACE), msgspec.json.encode(pod))
        await self.mirror.until(lambda: self._pod(name) is not None, f"pod {name} to show up", PATIENCE)
        self.card(self._there(name))

    async def create_claim(self, claim: Object) -> None:
        """Create a ResourceClaim."""
        await self.client.create(RESOURCE_CLAIMS.path(NAMESPACE), msgspec.json.encode(claim))

    async def show_outcome(self, name: str, *, after: SeenDecision | None = None, beats: float = 1.0) -> SeenDecision:
        """Wait until a pod is bound or has found no node, and show it.

        `after`: the failure before; only a node is waited for then.
        """
        verdict = await self.outcome(name, after=after)
        if verdict.node is None:
            await self.show(
                "pending",
                f"{name} stays pending",
                [verdict.message],
                pod=name,
                puts={name: ""},
                verdict=verdict,
            )
        else:
            node = verdict.node
            lines = witness.why(verdict)
            title, puts = f"{name} → {node}", {name: node}
            await self.show("bound", title, lines, beats=beats, pod=name, node=node, puts=puts, verdict=verdict)
        return verdict

    async def outcome(self, name: str, *, after: SeenDecision | None = None) -> SeenDecision:
        """Wait for the decision on a pod, and when it is a node, for the API server to say the same."""
        key = f"{NAMESPACE}/{name}"

        def settled() -> bool:
            verdict, pod = self.witness.last(key), self._pod(name)
            if verdict is None or verdict is after or pod is None:
                return False
            if verdict.node is None:
                return after is None and not pod.node_name
            return pod.node_name == verdict.node

        try:
            await self.mirror.until(settled, f"a decision on pod {name}", PATIENCE)
        except LateError as error:
            errors = [text for text in self.witness.errors if text.startswith(f"{name}: ")]
            raise LateError(f"{error} ({errors[-1]})" if errors else str(error)) from None
        verdict = self.witness.last(key)
        assert verdict is not None
        return verdict

    async def patch_pod(self, name: str, patch: Object) -> None:
        """Merge-patch a pod."""
        await self.client.patch(PODS.path(NAMESPACE, name), msgspec.json.encode(patch))

    async def patch_node(self, name: str, patch: Object) -> None:
        """Merge-patch a node."""
        await self.client.patch(NODES.path(name=name), msgspec.json.encode(patch))

    async def uncordon(self, name: str, more: str = "") -> None:
        """Open a node again, and show it. `more`: what else is to be said."""
        await self.patch_node(name, {"spec": {"unschedulable": False}})
        title, line = f"The maintenance of {name} is over: uncordon {name}", f"PATCH spec.unschedulable: false.{more}"
        await self.show("change", title, [line], node=name, cordons={name: False})

    # --- cards ----------------------------------------------------------------------------------------------------

    def explain(self, name: str) -> Explanation:
        """Return what `berth explain` says of a pod of ours, asked of the running scheduler's cache."""
        return self._explain(self._there(name))

    def shorten(self, text: str) -> str:
        """Return a text without the name of the story's namespace."""
        return text.replace(f"{NAMESPACE}/", "")

    def card(self, pod: Pod) -> PodCard:
        """Return the picture's view of a pod, kept in the recording."""
        requests = pod.shape.requests
        mine = pod.scheduler_name in PROFILES
        card = PodCard(
            pod.name,
            pod.labels.get("app", "") if mine else "others",
            requests.get("cpu", 0),
            requests.get("memory", 0),
            len(pod.shape.claims),
            mine,
        )
        self.recording.pods[pod.name] = card
        return card

    def node_card(self, node: Node) -> NodeCard:
        """Return the picture's view of a node, kept in the recording."""
        allocatable = node.allocatable
        card = NodeCard(
            node.name,
            node.labels.get(ZONE, ""),
            allocatable.get("cpu", 0),
            allocatable.get("memory", 0),
            len(DEVICES.get(node.name, ())),
            [f"{taint.key}{'=' if taint.value else ''}{taint.value}:{taint.effect}" for taint in node.taints],
            node.unschedulable,
            {key: value for key, value in node.labels.items() if key == DISK},
        )
        self.recording.nodes[card.name] = card
        return card

    def _pod(self, name: str) -> Pod | None:
        return self.mirror.pod(NAMESPACE, name)

    def _there(self, name: str) -> Pod:
        return self.mirror.pods[f"{NAMESPACE}/{name}"]
