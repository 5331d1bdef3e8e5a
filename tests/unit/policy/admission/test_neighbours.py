"""One namespace at its worst, and the others' reviews: rows S2, S3, S6 and S7 of what was tried against this server."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import aiohttp
import pytest

from podberth.kube.errors import ApiError
from podberth.policy.admission import jobs
from podberth.policy.admission.lanes import OverloadedError
from podberth.policy.admission.review import Bytes, Hint
from podberth.policy.admission.reviewer import BIG_BYTES, Reviewer, ReviewReply
from podberth.policy.admission.server import BODIES_EACH
from podberth.policy.options import Pass
from tests.unit.policy.admission.builders import Object, applied, config_map, encoded, pod, policy, review, rule
from tests.unit.policy.admission.conftest import until
from tests.unit.policy.admission.test_reviewer import (
    DEFAULT_TEAM,
    OWNED,
    RELABEL,
    Cluster,
    asked,
    owned,
    patch_of,
    replica_set,
    reviewer,
)
from tests.unit.policy.admission.test_server import Site, post

SPEAKS = {f"k{i}": "v" for i in range(32)}


def costly(count: int, namespace: str = "evil") -> list[Object]:
    """Policies in mode warn, each with 64 rules of 64 writes that match everything."""
    rules = [rule(labels=SPEAKS, annotations=SPEAKS) for _ in range(64)]
    return [policy(f"p{i}", *rules, namespace=namespace, mode="warn") for i in range(count)]


# -- S2: policies that are dear to judge -------------------------------------------------------------------------------


async def test_nobody_waits_behind_costly_policies(monkeypatch: pytest.MonkeyPatch) -> None:
    """A review of a namespace whose policies cost much is judged aside: another's, which comes later, is first."""
    by = reviewer(DEFAULT_TEAM, *costly(7))
    done: list[str] = []
    real, go_on = jobs.ruled, threading.Event()
    monkeypatch.setattr(jobs, "ruled", lambda *given: go_on.wait(20) and real(*given))  # however fast the thread is

    async def ask(name: str, document: Object) -> None:
        assert (await by.answer(encoded(document), "mutate")).status == 200
        done.append(name)
        if name == "team":
            go_on.set()

    evil = review(config_map(), namespace="evil")
    await asyncio.gather(ask("evil", evil), ask("team", review(config_map())))
    assert done == ["team", "evil"]


# -- S3: owners --------------------------------------------------------------------------------------------------------


class Held(Cluster):
    """A cluster whose answers wait, for objects of one namespace."""

    def __init__(self, namespace: str) -> None:
        super().__init__()
        self.go_on = asyncio.Event()
        self.under_way = 0
        self._part = f"/namespaces/{namespace}/"

    async def get(self, path: str, *, tries: int = 1) -> bytes:
        """Wait, then answer."""
        self.under_way += 1
        try:
            if self._part in path:
                await self.go_on.wait()
            return await super().get(path, tries=tries)
        finally:
            self.under_way -= 1


async def test_many_controllers_cost_nothing() -> None:
    """An object that names 20,000 controllers, where the API allows one, makes no request; its labels stay."""
    cluster = Cluster()
    references = [{**OWNED, "name": f"rs-{i}", "uid": f"uid-{i}"} for i in range(20_000)]
    obj = pod(labels={"app": "web"}, ownerReferences=references)
    response = await asked(reviewer(RELABEL, cluster=cluster), review(obj))
    assert cluster.asked == []
    assert applied(obj, patch_of(response))["metadata"]["labels"] == {"app": "web", "tier": "x"}
    assert any("names 20000 controllers, and may have one" in said for said in response["warnings"])


async def test_other_references_are_not_looked_at() -> None:
    """Among 500 references the one controller is asked for, and nobody else."""
    cluster = Cluster()
    cluster.objects["/apis/apps/v1/namespaces/team/replicasets/web"] = replica_set()
    others = [{**OWNED, "name": f"rs-{i}", "uid": f"uid-{i}", "controller": False} for i in range(500)]
    obj = pod(labels={"app": "web"}, ownerReferences=[*others, OWNED])
    await asked(reviewer(RELABEL, cluster=cluster), review(obj))
    assert cluster.asked == ["/apis/apps/v1/namespaces/team/replicasets/web"]


def of_another(i: int, namespace: str) -> Object:
    """A review of a pod whose owner nobody asked for yet."""
    obj = owned(name=f"rs-{i}", uid=f"uid-{i}")
    obj["metadata"]["namespace"] = namespace
    return review(obj, namespace=namespace)


async def test_one_namespaces_look_ups_are_few() -> None:
    """Forty slow look-ups of one namespace have two requests under way, and another's is answered meanwhile."""
    cluster = Held("evil")
    everywhere = [{**RELABEL, "metadata": {"name": "relabel", "namespace": name}} for name in ("evil", "team")]
    by = reviewer(*everywhere, cluster=cluster)
    asking = [asyncio.create_task(asked(by, of_another(i, "evil"))) for i in range(40)]
    await until(lambda: cluster.under_way == 2)
    assert (await asked(by, of_another(0, "team")))["allowed"]
    assert cluster.under_way == 2
    cluster.go_on.set()
    await asyncio.gather(*asking)


async def test_who_hangs_up_asks_for_nothing() -> None:
    """Look-ups that nobody waits for any more are given up at once; one that others wait for goes on."""
    cluster = Held("team")
    by = reviewer(RELABEL, cluster=cluster)
    asking = [asyncio.create_task(asked(by, of_another(i, "team"))) for i in (0, 0, 1)]
    await until(lambda: cluster.under_way == 2)
    for task in asking[1:]:
        task.cancel()
    await asyncio.gather(*asking[1:], return_exceptions=True)
    await until(lambda: cluster.under_way == 1)
    cluster.go_on.set()
    assert (await asking[0])["allowed"]
    assert len(cluster.asked) == 1


async def test_one_look_up_for_all_that_ask() -> None:
    """Reviews of the same owner at the same time share one request."""
    cluster = Held("team")
    by = reviewer(RELABEL, cluster=cluster)
    asking = [asyncio.create_task(asked(by, of_another(0, "team"))) for _ in range(30)]
    await until(lambda: cluster.under_way == 1)
    cluster.go_on.set()
    await asyncio.gather(*asking)
    assert len(cluster.asked) == 1


async def test_huge_selector_is_not_read() -> None:
    """A selector of thousands of labels is not parsed: what is there is left alone, and that is said."""
    cluster = Cluster()
    labels = {f"key-{i}": "x" for i in range(5000)}
    cluster.objects["/apis/apps/v1/namespaces/team/replicasets/web"] = {
        "metadata": {"uid": "rs-1"},
        "spec": {"selector": {"matchLabels": labels}},
    }
    response = await asked(reviewer(RELABEL, cluster=cluster), review(owned()))
    assert any("selector has more than" in said for said in response["warnings"])


# -- S7: whose owner ---------------------------------------------------------------------------------------------------


async def test_one_namespaces_404_is_not_anothers_answer() -> None:
    """A pod that claims the uid of another namespace's owner learns and teaches nothing about that one."""
    cluster = Held("evil")
    cluster.objects["/apis/apps/v1/namespaces/team/replicasets/web"] = replica_set()
    everywhere = [{**RELABEL, "metadata": {"name": "relabel", "namespace": name}} for name in ("evil", "team")]
    by = reviewer(*everywhere, cluster=cluster)
    evil = owned()
    evil["metadata"]["namespace"] = "evil"
    first = asyncio.create_task(asked(by, review(evil, namespace="evil")))
    await until(lambda: cluster.under_way == 1)
    second = asyncio.create_task(asked(by, review(owned())))
    await until(lambda: len(cluster.asked) == 1)  # asked for itself, while evil's look-up is still under way
    guarded = await second
    cluster.go_on.set()
    lied = await first
    assert applied(owned(), patch_of(guarded))["metadata"]["labels"] == {"app": "web", "tier": "x"}
    assert applied(evil, patch_of(lied))["metadata"]["labels"] == {"app": "renamed", "tier": "x"}
    with pytest.raises(ApiError):
        await cluster.get("/apis/apps/v1/namespaces/evil/replicasets/web")


# -- S6: large bodies --------------------------------------------------------------------------------------------------


class Gate(Reviewer):
    """A reviewer whose answers for the namespace `evil` wait for the test."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.begun: list[str] = []
        self.gone = 0

    async def answer(self, body: Bytes, pass_: Pass) -> ReviewReply:
        """Wait if it is evil's."""
        namespace = json.loads(bytes(body))["request"]["namespace"]
        self.begun.append(namespace)
        try:
            if namespace == "evil":
                await self.go_on.wait()
        except asyncio.CancelledError:
            self.gone += 1
            raise
        return ReviewReply(200, b"{}", "allowed")


@contextmanager
def opened(gate: Gate) -> Iterator[Gate]:
    """However a test ends, nobody is left waiting."""
    try:
        yield gate
    finally:
        gate.go_on.set()


def large(namespace: str, size: int = 1_200_000) -> bytes:
    """A review of an object of so many bytes."""
    obj: dict[str, Any] = {**config_map(), "data": {"blob": "x" * size}}
    obj["metadata"]["namespace"] = namespace
    return encoded(review(obj))


FIT = BODIES_EACH // len(large("evil"))
"""So many large reviews of one namespace are held at once."""


async def test_large_reviews_have_room_by_namespace() -> None:
    """However many large reviews of one namespace wait, another's is read and answered at once."""
    with opened(Gate()) as gate:
        made = Site(gate)
        await made.server.start("127.0.0.1", 0)
        async with made.session(limit=0) as session:
            evil = [asyncio.create_task(post(session, f"{made.url}/mutate", large("evil"))) for _ in range(12)]
            await until(lambda: len(gate.begun) == FIT)
            async with asyncio.timeout(60):
                assert (await post(session, f"{made.url}/mutate", large("team")))[0] == 200
            assert gate.begun.count("evil") == FIT
            gate.go_on.set()
            await asyncio.gather(*evil)
        await made.server.stop()


@pytest.mark.parametrize("size", [10, 1_200_000])
async def test_who_hangs_up_holds_nothing(size: int) -> None:
    """When a client goes away its review is given up, and what it held is free."""
    with opened(Gate()) as gate:
        made = Site(gate)
        await made.server.start("127.0.0.1", 0)
        async with made.session(limit=0) as session:
            asking = [asyncio.create_task(post(session, f"{made.url}/mutate", large("evil", size))) for _ in range(3)]
            await until(lambda: len(gate.begun) == 3)
            for task in asking:
                task.cancel()
            await asyncio.gather(*asking, return_exceptions=True)
            await until(lambda: gate.gone == 3)
            assert made.server.bodies.busy == 0
        await made.server.stop()
        assert b'outcome="gone"} 3.0' in made.metrics.text()


async def test_overload_is_the_own_namespaces() -> None:
    """Who stands in their own way is told no, which no failurePolicy turns into a yes; others get no answer."""
    by = reviewer(DEFAULT_TEAM)
    answer = by.overloaded(Hint("uid-1", "evil"), OverloadedError("evil", own=True))
    response = json.loads(answer.body)["response"]
    assert (answer.status, response["uid"], response["allowed"]) == (200, "uid-1", False)
    assert (response["status"]["code"], response["status"]["details"]) == (429, {"retryAfterSeconds": 1})
    assert "namespace evil" in response["status"]["message"]
    for hint, own in ((Hint("uid-1", "team"), False), (Hint("", "evil"), True)):
        answer = by.overloaded(hint, OverloadedError("x", own=own))
        assert (answer.status, answer.outcome) == (503, "overloaded")


async def test_too_many_large_ones_are_refused() -> None:
    """With more large reviews of a namespace than may wait, the next one is refused before its body is read."""
    with opened(Gate()) as gate:
        made = Site(gate)
        made.server.bodies.most = 1
        gate.overloaded = reviewer(DEFAULT_TEAM).overloaded  # type: ignore[method-assign]
        await made.server.start("127.0.0.1", 0)
        async with made.session(limit=0) as session:
            evil = [asyncio.create_task(post(session, f"{made.url}/mutate", large("evil"))) for _ in range(FIT)]
            await until(lambda: len(gate.begun) == FIT)
            last = asyncio.create_task(post(session, f"{made.url}/mutate", large("evil")))
            await until(lambda: made.server.bodies.waiting == 1)
            async with asyncio.timeout(60):
                status, body = await post(session, f"{made.url}/mutate", large("evil", BIG_BYTES))
            assert (status, json.loads(body)["response"]["status"]["code"]) == (200, 429)
            gate.go_on.set()
            await asyncio.gather(*evil, last)
        await made.server.stop()


async def test_answers_outlive_a_session_that_is_closed() -> None:
    """A client that closes its session while others wait changes nothing for them."""
    with opened(Gate()) as gate:
        made = Site(gate)
        await made.server.start("127.0.0.1", 0)
        async with made.session() as stays:
            async with made.session() as goes:
                lost = asyncio.create_task(post(goes, f"{made.url}/mutate", large("evil", 10)))
                await until(lambda: len(gate.begun) == 1)
            with pytest.raises((aiohttp.ClientError, asyncio.CancelledError)):
                await lost
            assert (await post(stays, f"{made.url}/mutate", large("team", 10)))[0] == 200
        await made.server.stop()
