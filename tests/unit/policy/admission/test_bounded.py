"""The policy cache under more policies than a namespace may have: what applies, what is kept, and what comes back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from podberth.policy.admission.cache import KEPT_UNITS, PolicyCache
from podberth.policy.admission.group import Stored, known
from podberth.policy.admission.reviewer import Reviewer
from podberth.policy.bounds import MOST, bound, price
from podberth.policy.options import Options
from podberth.policy.parse import parse
from podberth.policy.spec import Policy
from tests.unit.policy.admission.builders import Object, config_map, policy, review, rule
from tests.unit.policy.admission.conftest import POLICIES, Api, until
from tests.unit.policy.admission.test_reviewer import asked

WIDE = {f"key-{i}": "v" for i in range(32)}


def wide(name: str, *, reject: bool = False, mode: str = "enforce", namespace: str = "team") -> Object:
    """A policy of 24 or 64 rules with 32 writes, or 16 criteria, each: over 600 units, and above 16 KB."""
    if reject:
        rules = [rule({"matchLabels": dict(list(WIDE.items())[:16])}, reject=True, message="m" * 1000)] * 64
    else:
        rules = [rule({"matchLabels": {"never": "x"}}, labels=WIDE, message="m" * 400)] * 24
    return policy(name, *rules, namespace=namespace, mode=mode)


@asynccontextmanager
async def following(api: Api) -> AsyncIterator[PolicyCache]:
    """A cache that follows the API server, with threads for what is long."""
    async with api.client() as client:
        cache = PolicyCache(client)
        running = asyncio.create_task(cache.run())
        yield cache
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def put(api: Api, *bodies: Object) -> None:
    """Create policies."""
    for body in bodies:
        made = await api.create(POLICIES.format(body["metadata"]["namespace"]), body)
        assert made.status == 201, made.body


def units(*bodies: Object) -> int:
    """What these cost together."""
    return sum(price(parse(body)).units for body in bodies)


async def test_long_policies_are_known_before_it_is_ready(api: Api) -> None:
    """Policies that have to be requested again count as not listed yet, so a cold replica never says yes."""
    assert units(wide("a")) > KEPT_UNITS
    await put(api, *(wide(f"p{i}") for i in range(3)))
    async with following(api) as cache:
        await cache.wait_known()
        assert cache.unready is None
        assert (cache.counts(), cache.of("team").units) == ((3, 0), units(wide("a"), wide("b"), wide("c")))


async def test_a_long_policy_that_rejects_is_no_error_at_the_start(api: Api) -> None:
    """Its namespace is closed until it is read, and costs no more than it may."""
    await put(api, wide("p", reject=True))
    with capture_logs() as logs:
        async with following(api) as cache:
            await cache.wait_known()
            assert not cache.of("team").closed
    assert [one["event"] for one in logs if one["log_level"] == "error"] == []


async def test_too_many(api: Api) -> None:
    """Of forty dear policies some apply, the others are left out and not kept, and other namespaces have all theirs."""
    many = [wide(f"p{i:02}", mode="warn") for i in range(40)]
    await put(api, *many, policy("small", rule(labels={"a": "b"}), namespace="berth"))
    async with following(api) as cache:
        await cache.wait_known()
        held = cache.of("team")
        assert held.units <= MOST < held.units + units(many[0])
        assert (len(held.policies.policies), held.left_out, held.closed) == (40 - held.left_out, held.left_out, False)
        assert cache.left_out == held.left_out > 20
        assert sorted(cache.kept("team")) == [one.name for one in held.policies.policies]
        assert cache.of("berth").policies.policies
        reviewer = Reviewer(cache, Options(own_namespace="berth"))
        response = await asked(reviewer, review(config_map()))
        assert response["allowed"]
        said = f"{held.left_out} MetadataPolicies of this namespace are not applied: together they cost too much"
        assert response["warnings"][0] == said


async def test_what_rejects_stays(api: Api) -> None:
    """A policy that rejects applies though many that only warn were there before it."""
    await put(api, *(wide(f"p{i:02}", mode="warn") for i in range(20)))
    await put(api, policy("no", rule({"matchLabels": {"bad": "x"}}, reject=True, message="never")))
    async with following(api) as cache:
        await cache.wait_known()
        held = cache.of("team")
        assert held.left_out and "no" in {one.name for one in held.policies.policies}


async def test_closed(api: Api) -> None:
    """When a policy that rejects does not fit, nothing comes in there, updates without a change and deletes aside."""
    rejecting = [wide(f"p{i:02}", reject=True) for i in range(40)]
    assert units(*rejecting) > MOST
    await put(api, *rejecting)
    async with following(api) as cache:
        await cache.wait_known()
        assert cache.of("team").closed and cache.closed == 1
        reviewer = Reviewer(cache, Options(own_namespace="berth"))
        for pass_ in ("mutate", "validate"):
            response = await asked(reviewer, review(config_map()), pass_)
            assert (response["allowed"], response["status"]["code"]) == (False, 403)
            assert "cost more than 8192 units" in response["status"]["message"]
        same = config_map(labels={"a": "b"})
        assert (await asked(reviewer, review(same, "UPDATE", old=same)))["allowed"]
        assert (await asked(reviewer, review(None, "DELETE", old=same)))["allowed"]
        assert (await asked(reviewer, review(wide("another"))))["allowed"]
        assert (await asked(reviewer, review(config_map(), namespace="other")))["allowed"]


async def test_room_is_filled_again(api: Api) -> None:
    """When policies go, those that were left out are requested again and apply."""
    many = [wide(f"p{i:02}", mode="warn") for i in range(24)]
    await put(api, *many)
    async with following(api) as cache:
        await cache.wait_known()
        before = [one.name for one in cache.of("team").policies.policies]
        assert len(before) < 24
        for name in before:
            assert (await api.call("DELETE", f"{POLICIES.format('team')}/{name}")).status == 200
        rest = [body for body in many if body["metadata"]["name"] not in before]
        await until(lambda: len(cache.of("team").policies.policies) == min(len(rest), len(before)))
        assert not {one.name for one in cache.of("team").policies.policies} & set(before)


async def test_closed_until_what_rejects_is_read_again(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """When there is room again for a policy that rejects, nothing comes in before the policy is back."""
    many = [wide(f"p{i:02}", reject=True) for i in range(24)]
    await put(api, *many)
    async with following(api) as cache:
        await cache.wait_known()
        before = cache.of("team")
        assert before.closed
        read, get = asyncio.Event(), cache._get  # noqa: SLF001

        async def later(stored: Stored) -> bytes | None:
            await read.wait()
            return await get(stored)

        monkeypatch.setattr(cache, "_get", later)
        for one in many[: before.left_out]:
            assert (await api.call("DELETE", f"{POLICIES.format('team')}/{one['metadata']['name']}")).status == 200
        await until(lambda: cache.of("team").left_out == 0)
        assert cache.of("team").closed
        read.set()
        await until(lambda: not cache.of("team").closed)
        assert len(cache.of("team").policies.policies) == 24 - before.left_out


SPEC = Policy("p")
names = st.sampled_from("abcdefgh")
edits = st.lists(
    st.tuples(names, st.sampled_from([None, 1000, 2250, 3750]), st.integers(0, 3), st.integers(0, 3)), max_size=25
)


@settings(max_examples=150, deadline=None)
@given(edits)
def test_groups_after_any_edits(changes: list[tuple[str, int | None, int, int]]) -> None:
    """However a namespace came to its policies, what applies is what the bound says of those that are there."""
    there: dict[str, Stored] = {}
    for i, (name, cost, kind, day) in enumerate(changes):
        if cost is None:
            there.pop(name, None)
        else:
            there[name] = Stored("team", name, f"uid-{i}", "1", i, f"2026-01-0{day + 1}", SPEC, "", cost, kind)
        held, missing = known(there.values())
        expected = bound(sorted((one.place, one.units) for one in there.values()))
        assert (held.units, held.closed, held.left_out) == (
            expected.units,
            expected.closed or any(one.kind == 0 for one in missing),
            len(there) - len(expected.applied),
        )
        assert held.counts == (len(expected.applied), 0)
        for one in missing:
            one.policy = SPEC
        held, missing = known(there.values())
        assert (held.closed, missing) == (expected.closed, [])
        applied = set(expected.applied)
        assert all((one.policy is not None) == (one.place in applied) for one in there.values())
