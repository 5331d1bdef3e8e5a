"""Policies that the API server enforces: what a replica leaves out, and about which namespaces nobody asks it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from math import inf

import pytest

from podberth.kube.resources import Resource
from podberth.model.promise import ANNOTATION as PROMISE
from podberth.policy.admission.aside import Aside
from podberth.policy.admission.cache import PolicyCache
from podberth.policy.admission.group import LATE_SECONDS, MOST_KEPT, Group, Stored
from podberth.policy.admission.judging import Terms
from podberth.policy.admission.natives import KINDS
from podberth.policy.admission.settings import Settings
from podberth.policy.admission.webhooks import MUTATING, VALIDATING, desired
from podberth.policy.native.compile import NAMESPACE_LABEL, RELEASE_LABEL, name_of
from podberth.policy.native.compile import POLICIES as ENFORCED
from tests.unit.policy.admission.builders import Object, policy, rule
from tests.unit.policy.admission.conftest import POLICIES, Api, until

TEAM = POLICIES.format("team")


@asynccontextmanager
async def following(api: Api, leave: bool = True) -> AsyncIterator[PolicyCache]:
    """A cache that follows the API server."""
    async with api.client() as client:
        cache = PolicyCache(client, Aside(Terms("berth")), leave_native=leave)
        running = asyncio.create_task(cache.run())
        await cache.wait_known()
        yield cache
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def say(api: Api, name: str, way: str, generation: int = 1) -> None:
    """Write a status, as the operator does."""
    status = {"enforcement": {"way": way, "since": "2026-01-01T00:00:00Z", "generation": generation}}
    body = {"status": status}
    told = await api.call("PATCH", f"{TEAM}/{name}/status", body, "application/merge-patch+json")
    assert told.status == 200, told.body


async def serve_natives(api: Api) -> None:
    """The API server has admission policies in CEL; here they are kept, and not evaluated."""
    for kind in KINDS:
        names = {
            "kind": kind.kind,
            "plural": kind.plural,
            "singular": kind.kind.lower(),
            "listKind": f"{kind.kind}List",
        }
        schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
        version = {"name": kind.version, "served": True, "storage": True, "schema": schema}
        spec = {"group": kind.group, "scope": "Cluster", "names": names, "versions": [version]}
        meta = {"name": f"{kind.plural}.{kind.group}", "annotations": {"api-approved.kubernetes.io": "unapproved"}}
        made = await api.create(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            {
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": meta,
                "spec": spec,
            },
        )
        assert made.status == 201, made.body


async def write_natives(api: Api, *names: str, release: str = "berth", kinds: Sequence[Resource] = KINDS) -> None:
    """Objects that enforce these policies, as the operator writes them."""
    for kind in kinds:
        labels = {RELEASE_LABEL: release, NAMESPACE_LABEL: "team"}
        meta = {"name": name_of(release, "team"), "labels": labels, "annotations": {ENFORCED: " ".join(names)}}
        body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta}
        made = await api.create(kind.path(), body)
        assert made.status == 201, made.body


async def delete_native(api: Api, kind: Resource, release: str = "berth") -> None:
    """One of the objects goes."""
    told = await api.call("DELETE", kind.path(None, name_of(release, "team")))
    assert told.status == 200, told.body


async def put(api: Api, name: str) -> None:
    """Create a policy."""
    made = await api.create(TEAM, policy(name, rule(reject=True)))
    assert made.status == 201, made.body


def applied(cache: PolicyCache) -> set[str]:
    """What is judged here."""
    return {one.name for one in cache.of("team").policies.policies}


def left(cache: PolicyCache) -> list[str]:
    """About which namespaces nobody need ask."""
    return list(cache.left)


async def test_left_by_the_status(api: Api) -> None:
    """What the status says of this very generation counts, and it counts at once."""
    await serve_natives(api)
    await write_natives(api, "one", "two")
    await put(api, "one")
    await put(api, "two")
    async with following(api) as cache:
        assert (applied(cache), left(cache)) == ({"one", "two"}, [])
        await say(api, "one", "Native")
        await until(lambda: applied(cache) == {"two"})
        assert left(cache) == []
        await say(api, "two", "None")
        await until(lambda: applied(cache) == set())
        assert left(cache) == ["team"]
        await say(api, "one", "Webhook")
        await until(lambda: applied(cache) == {"one"})
        assert left(cache) == []
        await say(api, "one", "Native", generation=7)
        await say(api, "two", "Webhook")
        await until(lambda: applied(cache) == {"one", "two"})


async def test_a_policy_that_is_not_accepted_leaves_nothing(api: Api) -> None:
    """Anybody may have thousands of namespaces with one: they don't belong into the webhook configurations."""
    await serve_natives(api)
    await put(api, "one")
    await say(api, "one", "None")
    async with following(api) as cache:
        await until(lambda: applied(cache) == set())
        assert left(cache) == []


async def test_nothing_is_left_unless_asked_for(api: Api) -> None:
    """A status that somebody wrote while there was an operator means nothing without one."""
    await put(api, "one")
    await say(api, "one", "Native")
    async with following(api, leave=False) as cache:
        assert (applied(cache), left(cache)) == ({"one"}, [])


@pytest.mark.parametrize("gone", KINDS, ids=lambda kind: str(kind.kind))
async def test_who_is_removed_enforces_nothing(api: Api, gone: Resource) -> None:
    """The operator and its objects go, and the statuses stay: the policies are judged here again."""
    await serve_natives(api)
    await write_natives(api, "one")
    await put(api, "one")
    await say(api, "one", "Native")
    async with following(api) as cache:
        await until(lambda: left(cache) == ["team"])
        assert applied(cache) == set()
        await delete_native(api, gone)
        await until(lambda: applied(cache) == {"one"})
        assert left(cache) == []
        await write_natives(api, "one", kinds=[gone])
        await until(lambda: applied(cache) == set())
        assert left(cache) == ["team"]


async def test_each_policy_needs_objects_that_name_it(api: Api) -> None:
    """Objects of one release have to name it, all four: two halves of two releases are no whole."""
    await serve_natives(api)
    await write_natives(api, "one")
    await write_natives(api, "two", release="a", kinds=KINDS[:2])
    await write_natives(api, "two", release="b", kinds=KINDS[2:])
    for name in ("one", "two"):
        await put(api, name)
        await say(api, name, "Native")
    async with following(api) as cache:
        await until(lambda: applied(cache) == {"two"})
        await write_natives(api, "two", release="b", kinds=KINDS[:2])
        await until(lambda: applied(cache) == set())


async def test_where_there_are_no_such_kinds_nothing_is_left(api: Api) -> None:
    """A status that says Native on an API server that has no admission policies in CEL, or does not show them."""
    await put(api, "one")
    await say(api, "one", "Native")
    async with following(api) as cache:
        await until(lambda: applied(cache) == {"one"})
        assert left(cache) == []


def _stored(name: str, **more: object) -> Stored:
    made: Object = {"units": 1, "spec": b"x", **more}
    return Stored("team", name, f"uid-{name}", "1", **made)


def test_a_new_policy_changes_nothing_for_a_while() -> None:
    """Where the webhook is not asked, it still is not when a policy is new, for some seconds."""
    group = Group()
    group.put(_stored("native", left=True, native=True))
    assert group.left_until(before=False) == inf
    group.put(_stored("new", seen=100.0))
    assert group.left_until(before=False) == 0.0
    assert group.left_until(before=True) == 100.0 + LATE_SECONDS
    group.put(_stored("newer", seen=105.0))
    assert group.left_until(before=True) == 100.0 + LATE_SECONDS
    group.put(_stored("newer", seen=105.0, ours=True))
    assert group.left_until(before=True) == 0.0
    group.remove("newer")
    group.remove("new")
    assert group.left_until(before=True) == inf
    for number in range(MOST_KEPT + 1):
        group.put(_stored(f"p{number}", seen=100.0))
    assert group.left_until(before=True) == 0.0


def test_of_namespaces_that_are_left_one_annotation_is_asked_about() -> None:
    """What a pod asks of its node while it runs can't be read in CEL; the operator does not take it for policies."""
    settings = Settings("berth", failure_policy="Fail")
    wanted = desired(settings, VALIDATING, b"", left=("shop", "team"))
    policies, promises = wanted["webhooks"]
    assert promises["namespaceSelector"]["matchExpressions"] == [
        {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["shop", "team"]}
    ]
    assert promises["rules"][0]["resources"] == ["pods"]
    assert PROMISE in promises["matchConditions"][0]["expression"]
    assert promises["clientConfig"] == policies["clientConfig"]
    assert promises["name"] != policies["name"]
    assert len(desired(settings, VALIDATING, b"")["webhooks"]) == 1
    assert len(desired(settings, MUTATING, b"", left=("shop",))["webhooks"]) == 1


def test_namespaces_that_are_left_are_not_asked_about() -> None:
    wanted = desired(Settings("berth", exempt_namespaces=("quiet",)), MUTATING, b"", left=("shop", "team"))
    (criterion,) = wanted["webhooks"][0]["namespaceSelector"]["matchExpressions"]
    assert criterion["values"] == ["kube-system", "kube-node-lease", "berth", "quiet", "shop", "team"]
