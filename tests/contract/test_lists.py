"""Lists: paging, selectors, resourceVersion rules."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.contract.client import Api, names, pod


async def some_pods(api: Api, pods: str, *found: str, **spec: Any) -> None:
    """Create pods of these names."""
    for reply in await asyncio.gather(*(api.post(pods, pod(name, **spec)) for name in found)):
        reply.ok()


async def test_items_carry_no_kind(api: Api, pods: str) -> None:
    """Built-in kinds are listed without kind and apiVersion, which only the list has."""
    await some_pods(api, pods, "a")
    body = (await api.get(pods)).ok()
    assert (body["kind"], body["apiVersion"]) == ("PodList", "v1")
    assert "kind" not in body["items"][0]
    assert "apiVersion" not in body["items"][0]


async def test_pages_are_one_consistent_list(api: Api, pods: str) -> None:
    """Later pages show the state and the resourceVersion of the first one, whatever is written in between."""
    await some_pods(api, pods, *"abcde")
    first = (await api.get(pods, limit=2)).ok()
    assert names(first) == ["a", "b"]
    assert first["metadata"]["remainingItemCount"] == 3
    (await api.delete(f"{pods}/c")).ok()
    await some_pods(api, pods, "aa", "z")
    second = (await api.get(pods, limit=2, **{"continue": first["metadata"]["continue"]})).ok()
    third = (await api.get(pods, limit=2, **{"continue": second["metadata"]["continue"]})).ok()
    assert names(second) + names(third) == ["c", "d", "e"]
    assert {page["metadata"]["resourceVersion"] for page in (first, second, third)} == {
        first["metadata"]["resourceVersion"]
    }
    assert "continue" not in third["metadata"]


async def test_order_is_by_namespace_and_name(api: Api, pods: str) -> None:
    """Lists are ordered by key."""
    await some_pods(api, pods, "b", "a-b", "a.b", "a")
    assert names((await api.get(pods)).ok()) == ["a", "a-b", "a.b", "b"]


@pytest.mark.parametrize(
    ("selector", "want"),
    [
        ("tier=web", ["a", "b"]),
        ("tier==web,env=prod", ["a"]),
        ("tier!=web", ["c", "d"]),
        ("env", ["a", "b", "c"]),
        ("!env", ["d"]),
        ("env in (prod,test)", ["a", "b", "c"]),
        ("env notin (prod)", ["b", "d"]),
        ("env in (prod),tier notin (db)", ["a"]),
        ("gen>7", ["c"]),
        ("gen<8", ["a"]),
        ("tier=", []),
        ("", ["a", "b", "c", "d"]),
    ],
)
async def test_label_selectors(api: Api, pods: str, selector: str, want: list[str]) -> None:
    """Equality, set and number requirements select as the API promises."""
    await some_pods(api, pods, "a", labels={"tier": "web", "env": "prod", "gen": "007"})
    await some_pods(api, pods, "b", labels={"tier": "web", "env": "test", "gen": "x"})
    await some_pods(api, pods, "c", labels={"tier": "db", "env": "prod", "gen": "10"})
    await some_pods(api, pods, "d")
    assert names((await api.get(pods, labelSelector=selector)).ok()) == want


@pytest.mark.parametrize(
    ("selector", "want"),
    [
        ("metadata.name=a", ["a"]),
        ("spec.nodeName=", ["a", "c"]),
        ("spec.nodeName!=", ["b"]),
        ("spec.schedulerName=berth", ["a", "b"]),
        ("spec.schedulerName=berth,spec.nodeName=", ["a"]),
        ("status.phase=Pending,spec.schedulerName!=berth", ["c"]),
        ("status.phase!=Pending", []),
    ],
)
async def test_field_selectors_of_pods(api: Api, pods: str, selector: str, want: list[str]) -> None:
    """Pods are selected by the fields that schedulers and kubectl ask for."""
    await some_pods(api, pods, "a", schedulerName="berth")
    await some_pods(api, pods, "b", schedulerName="berth", nodeName="n1")
    await some_pods(api, pods, "c")
    assert names((await api.get(pods, fieldSelector=selector)).ok()) == want


async def test_unknown_field_label(api: Api, pods: str) -> None:
    """A field nobody indexed is refused by name."""
    assert (await api.get(pods, fieldSelector="spec.color=red")).refused(400, "BadRequest") == (
        "field label not supported: spec.color"
    )


@pytest.mark.parametrize(
    ("query", "code", "reason", "message"),
    [
        ({"labelSelector": "a in"}, 400, "BadRequest", "unable to parse requirement: found '' expected: '('"),
        ({"labelSelector": "a=b=c"}, 400, "BadRequest", "found '=', expected: ',' or 'end of string'"),
        (
            {"sendInitialEvents": "true"},
            422,
            "Invalid",
            'ListOptions.meta.k8s.io "" is invalid: sendInitialEvents: Forbidden: '
            "sendInitialEvents is forbidden for list",
        ),
        (
            {"resourceVersion": "x"},
            400,
            "BadRequest",
            'invalid resource version: resourceVersion: Invalid value: "x": '
            'strconv.ParseUint: parsing "x": invalid syntax',
        ),
    ],
)
async def test_bad_parameters(api: Api, pods: str, query: dict[str, str], code: int, reason: str, message: str) -> None:
    """Parameters that make no sense are refused in the API's words."""
    assert (await api.get(pods, **query)).refused(code, reason) == message


async def test_a_version_from_the_future(api: Api, pods: str) -> None:
    """A resourceVersion that isn't there yet is answered by 504 with a cause that clients look for."""
    reply = await api.get(pods, resourceVersion=10**12)
    assert reply.refused(504, "Timeout").startswith("Timeout: Too large resource version: 1000000000000, current: ")
    assert reply.body["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"
    assert reply.headers["Retry-After"] == "1"


async def test_all_namespaces(api: Api, namespace: str, pods: str) -> None:
    """The cluster-wide path lists every namespace, and a field selector narrows it."""
    await some_pods(api, pods, "a")
    body = (await api.get("/api/v1/pods", fieldSelector=f"metadata.namespace={namespace}")).ok()
    assert [(item["metadata"]["namespace"], item["metadata"]["name"]) for item in body["items"]] == [(namespace, "a")]
