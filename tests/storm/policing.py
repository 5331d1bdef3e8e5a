"""`berth admission` and `berth operator` as simulated processes, and the API server's side of the webhook.

Of the admission server everything runs but its port, its certificates and the writing of webhook configurations. Of the
operator everything runs but its probes, and kopf as `kopfed` says. What is dear is judged and analysed inline.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

import msgspec

from podberth.kube.machine import Machine
from podberth.policy.admission import settings as admission
from podberth.policy.admission.replica import Replica
from podberth.policy.operator import settings as operating
from podberth.policy.operator.replica import Operator
from podberth.policy.options import Pass
from tests.storm.berth import LEASE, _NoBlocks
from tests.storm.kopfed import connector_of
from tests.storm.loop import Loop
from tests.storm.network import Network
from tests.storm.process import NAMESPACE, Process

JsonObject = dict[str, Any]
AUDIT_SECONDS = 60.0
TIMEOUT_SECONDS = 3.0
"""What the API server waits for a webhook."""


class _NoCertificates:
    async def ready(self) -> None:
        """There is nothing to wait for."""

    async def follow(self) -> None:
        await asyncio.Event().wait()


class _NoPort:
    """Where reviews come in: `Webhook` calls the reviewer."""

    port = 0

    def __init__(self) -> None:
        self.draining = False
        self.open = False

    async def start(self, host: str, port: int) -> None:
        self.open = True

    async def drain(self, seconds: float) -> None:
        self.draining = True
        await asyncio.sleep(seconds)
        self.open = False

    async def stop(self) -> None:
        self.open = False


class Admission(Process):
    """A replica of the admission server."""

    replica: Replica | None = None

    async def work(self, machine: Machine) -> None:
        settings = admission.Settings(namespace=NAMESPACE, register=False, scheduler_lease=LEASE)
        async with self.client_of(machine) as client:
            self.client = client
            replica = Replica(client, settings, machine=machine, elector=self.candidate(client, machine))
            replica.certificates = _NoCertificates()  # type: ignore[assignment]
            replica.server = _NoPort()  # type: ignore[assignment]
            replica.blocks = _NoBlocks()  # type: ignore[assignment]
            self.replica = replica
            await replica.run()

    def _terminate(self) -> None:
        if self.replica is not None:
            self.replica.end()

    @property
    def ready(self) -> bool:
        """Whether the Service sends reviews to it."""
        replica = self.replica
        return (
            self.alive
            and not self.loop.stopped
            and replica is not None
            and bool(replica.server.open)  # type: ignore[attr-defined]
            and not replica.server.draining
            and replica.cache.unready is None
        )


class OperatorProcess(Process):
    """A replica of the operator."""

    lease = "berth-operator"
    operator: Operator | None = None

    async def work(self, machine: Machine) -> None:
        settings = operating.Settings(
            namespace=NAMESPACE, audit_kinds=("pods",), audit_seconds=AUDIT_SECONDS, scheduler_lease=LEASE
        )
        async with self.client_of(machine) as client, self.client_of(machine) as slow, self.client_of(machine) as aside:
            self.client = client
            operator = Operator(client, slow, settings, elector=self.candidate(aside, machine), machine=machine)
            operator.session.connector = partial(connector_of, self.loop)  # type: ignore[method-assign]
            self.operator = operator
            await self.until_told(operator.work())


class Webhook:
    """The API server's side: two reviews of each pod that is created, with the failurePolicy Ignore.

    `on_answer` hears of each review that was answered, by whom.
    """

    def __init__(self, replicas: list[Admission], network: Network, loop: Loop, rng: Random) -> None:
        self.answered = 0
        self.open = 0
        """Pods that nobody reviewed: failurePolicy Ignore."""
        self._replicas = replicas
        self._network = network
        self._loop = loop
        self._rng = rng
        self._uids = 0

    def review(self, pod: JsonObject, then: Callable[[JsonObject | None, str], None]) -> None:
        """Have a pod reviewed; `then` gets it as it may be created (None: it may not), and by whom (empty: nobody)."""

        def validated(answer: JsonObject | None, who: str) -> None:
            if answer is None:
                then(pod, "")
            else:
                then(pod if answer["allowed"] else None, who)

        def mutated(answer: JsonObject | None, who: str) -> None:
            if answer is None:
                self.open += 1
                then(pod, "")
            elif not answer["allowed"]:
                then(None, who)
            else:
                _patch(pod, answer)
                self._ask(pod, "validate", validated)

        self._ask(pod, "mutate", mutated)

    def _ask(self, pod: JsonObject, pass_: Pass, then: Callable[[JsonObject | None, str], None]) -> None:
        reachable = [one for one in self._replicas if one.ready and one.name not in self._network.cut_off]
        over = False

        def once(answer: JsonObject | None, who: str) -> None:
            nonlocal over
            if not over:
                over = True
                then(answer, who)

        self._loop.call_later(TIMEOUT_SECONDS, once, None, "")
        if not reachable:
            return
        process = self._rng.choice(reachable)
        self._uids += 1
        body = msgspec.json.encode(_review(f"{self._uids:032x}", pod))
        process.loop.call_soon_threadsafe(self._begin, process, body, pass_, once)

    def _begin(self, process: Admission, body: bytes, pass_: Pass, then: Callable[..., None]) -> None:
        process.loop.create_task(self._answer(process, body, pass_, then))

    async def _answer(self, process: Admission, body: bytes, pass_: Pass, then: Callable[..., None]) -> None:
        assert process.replica is not None
        user = process.user
        reply = await process.replica.reviewer.answer(body, pass_)
        if reply.status == 200 and not process.loop.void:
            self.answered += 1
            self._loop.call_soon_threadsafe(then, msgspec.json.decode(reply.body)["response"], user)


def _review(uid: str, pod: JsonObject) -> JsonObject:
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": uid,
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "namespace": pod["metadata"]["namespace"],
            "name": pod["metadata"]["name"],
            "operation": "CREATE",
            "userInfo": {"username": "controller"},
            "object": pod,
            "dryRun": False,
        },
    }


def _patch(pod: JsonObject, answer: JsonObject) -> None:
    """Apply the additions and replacements of a JSON patch."""
    for operation in msgspec.json.decode(base64.b64decode(answer.get("patch") or "W10=")):
        *way, last = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
        at: Any = pod
        for part in way:
            at = at[part]
        if operation["op"] in ("add", "replace"):
            at[last] = operation["value"]
