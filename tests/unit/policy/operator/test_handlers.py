"""The handlers under kopf's own runner, on the embedded API server; and the whole operator, put together."""

from __future__ import annotations

import asyncio
import contextlib
import copy
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import aiohttp
import kopf
import pytest
from kopf.testing import KopfRunner

from podberth.apiserver import ApiServer
from podberth.kube.client import Client
from podberth.kube.connection import Connection
from podberth.kube.lease import LeaseLostError
from podberth.policy.operator import handlers, index, replica
from podberth.policy.operator.replica import Operator
from podberth.policy.operator.settings import Settings
from tests.unit.policy.admission.conftest import CRD as PLAIN_CRD
from tests.unit.policy.admission.conftest import CRDS, POLICIES, Api, until
from tests.unit.policy.build import policy, rule

CRD = copy.deepcopy(PLAIN_CRD)
CRD["spec"]["versions"][0]["subresources"] = {"status": {}}
TEAM = POLICIES.format("team")
RULE = rule(set_labels={"team": "a"})


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    """An embedded API server with two namespaces and no CRD."""
    async with ApiServer() as server, aiohttp.ClientSession() as session:
        made = Api(server, session)
        for name in ("berth", "team"):
            assert (await made.create("/api/v1/namespaces", {"metadata": {"name": name}})).status == 201
        yield made


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Waiting is not tested; and kopf's default registry stays what it is."""
    monkeypatch.setattr(index, "CHECK_SECONDS", 0.2)
    monkeypatch.setattr(index, "AGAIN_SECONDS", 0.1)
    yield
    kopf.set_default_registry(handlers.REGISTRY)


@contextlib.asynccontextmanager
async def served(api: Api) -> AsyncIterator[Operator]:
    """The whole operator, ended afterwards; what ends it earlier comes out here."""
    async with api.client() as client, api.client() as slow:
        operator = Operator(client, slow, Settings("berth", host="127.0.0.1", port=0, audit_seconds=0.0))
        async with asyncio.TaskGroup() as tasks:
            working = tasks.create_task(operator.run())
            yield operator
            working.cancel()
            await asyncio.wait((working,))


@contextlib.asynccontextmanager
async def running(url: str) -> AsyncIterator[None]:
    """`kopf run` of the handlers' file, in a thread; ended afterwards."""
    registry = kopf.OperatorRegistry()
    ours: dict[str, Any] = {}

    async def begin(memo: Any, **_: Any) -> None:
        """Before the handlers' own startup: what a replica has."""
        ours["after"] = contextlib.AsyncExitStack()
        client = await ours["after"].enter_async_context(Client(Connection(host=url), qps=-1.0))
        operator = Operator(client, client, Settings("berth", audit_seconds=0.0))
        client.fence = None
        memo.update(vars(operator.memo()))
        ours["operator"] = operator
        ours["beside"] = [asyncio.create_task(part) for part in (operator.missed.run(), operator.enforcer.run())]

    async def end(**_: Any) -> None:
        """What is under way ends before its client does."""
        for one in ours["operator"].reconciler._namespaces.values():  # noqa: SLF001 - a replica's process ends here
            if one.soon is not None:
                one.soon[1].cancel()
        passes = (task for task in asyncio.all_tasks() if "Reconciler" in repr(task.get_coro()))
        under_way = [*ours["beside"], *passes]
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
        await ours["after"].aclose()

    kopf.on.startup(registry=registry)(begin)
    kopf.on.cleanup(registry=registry)(end)
    runner = KopfRunner(["run", "--all-namespaces", "--quiet", str(handlers.__file__)], registry=registry, timeout=30)
    with contextlib.ExitStack() as stack:
        await asyncio.to_thread(stack.enter_context, runner)
        try:
            yield
        finally:
            await asyncio.to_thread(stack.close)
    assert runner.exit_code == 0
    assert runner.exception is None


async def put(api: Api, name: str, **more: Any) -> None:
    """Create a policy."""
    made = await api.create(TEAM, {**policy(name, RULE, namespace="team"), **more})
    assert made.status == 201, made.body


def says(api: Api, name: str, **wanted: str) -> Callable[[], Awaitable[bool]]:
    """Whether the conditions of a policy have these statuses."""

    async def there() -> bool:
        status = (await api.get(f"{TEAM}/{name}")).get("status", {})
        listed = (one for one in status.get("conditions", []) if isinstance(one, dict))
        found = {one["type"]: one["status"] for one in listed}
        return {kind: found.get(kind) for kind in wanted} == wanted

    return there


async def handled(api: Api, name: str) -> Any:
    """Return what kopf keeps of a policy."""
    return (await api.get(f"{TEAM}/{name}")).get("status", {}).get("kopf")


async def test_created_changed_and_deleted(api: Api) -> None:
    """Handlers are called for each change, and a policy has neither annotations nor finalizers."""
    await api.create(CRDS, CRD)
    await put(api, "resumed")
    async with running(api.server.url):
        await until(says(api, "resumed", Conflict="False"))
        await api.create(TEAM, policy("other", rule(set_labels={"team": "b"}), namespace="team"))
        await until(says(api, "resumed", Conflict="True"))
        await until(says(api, "other", Conflict="True"))
        edited = {"spec": {"rules": [RULE]}}
        patched = await api.call("PATCH", f"{TEAM}/other", edited, "application/merge-patch+json")
        assert patched.status == 200
        await until(says(api, "other", Conflict="False"))

        async def settled() -> bool:
            return bool(await handled(api, "other") == {"last-handled-configuration": '{"generation":2}'})

        await until(settled)
        found = await api.get(f"{TEAM}/other")
        assert found["metadata"].keys().isdisjoint({"annotations", "finalizers"})
        await api.call("DELETE", f"{TEAM}/other")
        assert (await api.call("GET", f"{TEAM}/other")).status == 404
        await until(says(api, "resumed", Conflict="False"))


async def test_what_an_older_crd_let_in(api: Api) -> None:
    """Specs and statuses of any shape: each is told what is wrong, and the others are looked at as ever."""
    await api.create(CRDS, CRD)
    odd: list[Any] = [7, [7], "text", [{"policyPredicate": 7}], [{}]]
    for number, spec in enumerate({"rules": rules} for rules in odd):
        await api.create(TEAM, {**policy(f"odd{number}", RULE, namespace="team"), "spec": spec})
    await put(api, "fine")
    for name, status in (("odd3", {"kopf": "text"}), ("odd4", {"conditions": "text"})):
        patched = await api.call("PATCH", f"{TEAM}/{name}/status", {"status": status}, "application/merge-patch+json")
        assert patched.status == 200, patched.body
    async with served(api):
        await until(says(api, "fine", Accepted="True"))
        for number in range(5):
            await until(says(api, f"odd{number}", Accepted="False"))


async def test_the_crd_comes_and_goes(api: Api, capsys: pytest.CaptureFixture[str]) -> None:
    """Without the CRD it waits, alive, unready, and says so once; it goes on when the CRD is there, and a new process
    does when it is there again.
    """
    with pytest.raises(BaseExceptionGroup) as ended:
        async with served(api) as operator:
            await until(lambda: operator.pulse.absent)
            assert "CRD is missing" in str(operator.unready())
            assert operator.dead() is None
            await api.create(CRDS, CRD)
            await until(lambda: operator.unready() is None)
            await put(api, "one")
            await until(says(api, "one", Accepted="True"))
            await api.call("DELETE", f"{CRDS}/metadatapolicies.podberth.dev")
            await asyncio.Event().wait()
    assert ended.group_contains(LeaseLostError)
    async with served(api) as operator:
        await until(lambda: operator.pulse.absent)
        await api.create(CRDS, CRD)
        await put(api, "two")
        await until(says(api, "two", Conflict="False"))
    assert capsys.readouterr().out.count("the CRD of MetadataPolicies is not there") == 2


async def test_whole_operator(api: Api) -> None:
    """Put together it leads, writes the status of a policy, answers probes, and gives its Lease back when it ends."""
    await api.create(CRDS, CRD)
    async with served(api) as operator:
        await put(api, "one")
        await until(says(api, "one", Accepted="True", Conflict="False", SelfConsistent="True", Enforced="False"))
        async with api.session.get(f"http://127.0.0.1:{operator.probe.port}/livez") as answer:
            assert answer.status == 200
            assert "leads" in await answer.text()
    lease = await api.get("/apis/coordination.k8s.io/v1/namespaces/berth/leases/berth-operator")
    assert lease["spec"]["holderIdentity"] == ""


async def test_what_a_watch_lost_is_found_by_a_list(api: Api) -> None:
    """A policy of which no event came is in the index after the next comparison, and its namespace is looked at."""
    await api.create(CRDS, CRD)
    await put(api, "one")
    async with served(api) as operator:
        await until(says(api, "one", Accepted="True"))
        (kept,) = operator.policies.of("team")
        operator.policies.drop("team", kept.uid)
        await operator.reconciler.look("team")
        operator.session.relisted.set()
        await until(lambda: [one.uid for one in operator.policies.of("team")] == [kept.uid])


async def test_a_deletion_that_nobody_told(api: Api) -> None:
    """What is in the index and not in a list is gone, also when no event said so."""
    await api.create(CRDS, CRD)
    await put(api, "one")
    async with served(api) as operator:
        await until(lambda: operator.missed.complete.is_set() and len(operator.policies.of("team")) == 1)
        (kept,) = operator.policies.of("team")
        ghost = await api.get(f"{TEAM}/one")
        ghost["metadata"] |= {"name": "ghost", "uid": "ghost"}
        operator.policies.put(ghost)
        assert len(operator.policies.of("team")) == 2
        operator.session.relisted.set()
        await until(lambda: operator.policies.of("team") == [kept])
        operator.policies.put(ghost)  # an older state that was under way
        assert operator.policies.of("team") == [kept]


async def test_a_kopf_that_does_not_end(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """The term ends soon after the first of kopf's tasks, though another one forgets that it was cancelled."""
    await api.create(CRDS, CRD)
    monkeypatch.setattr(replica, "ENDING_SECONDS", 0.1)
    stubborn = asyncio.Event()

    async def forgets() -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        stubborn.set()
        await asyncio.Event().wait()

    async def roots(**_: Any) -> list[asyncio.Task[None]]:
        return [asyncio.create_task(asyncio.sleep(0)), asyncio.create_task(forgets())]

    monkeypatch.setattr(kopf, "spawn_tasks", roots)
    with pytest.raises(BaseExceptionGroup) as ended:
        async with served(api):
            await asyncio.Event().wait()
    assert stubborn.is_set()
    assert ended.group_contains(LeaseLostError, match=r"kopf itself not within")
