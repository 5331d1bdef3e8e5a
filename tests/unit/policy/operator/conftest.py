"""Virtual time, policy objects as the API server stores them, and an API server that is a dict."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from podberth.kube.client import MERGE_PATCH
from podberth.kube.errors import ApiError, Unreachable
from podberth.kube.flow import API, Lane
from podberth.policy.operator.judge import Stored, read
from podberth.policy.operator.reconcile import Entry, entry
from tests.unit.policy import build

Object = dict[str, Any]
TEAM = "/apis/podberth.dev/v1alpha1/namespaces/team/metadatapolicies"


class Clock:
    """Time that passes when somebody sleeps, or a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        """Pass time, and let others run."""
        self.now += seconds
        await asyncio.sleep(0)


def stored_object(name: str, *rules: Object, mode: str | None = None, generation: int = 1, **more: Any) -> Object:
    """A policy of the namespace `team` as the API server gives it."""
    found = build.policy(name, *rules, mode=mode, namespace="team")
    found["metadata"] |= {"uid": f"uid-{name}", "resourceVersion": "1", "generation": generation}
    return {**found, **more}


def stored(name: str, *rules: Object, **more: Any) -> Stored:
    """The same, read."""
    return read(stored_object(name, *rules, **more))


class Server:
    """Policies and Events of one namespace, behind the few methods of `Client` that the reconciler calls."""

    def __init__(self, *documents: Object) -> None:
        self.policies = {document["metadata"]["name"]: document for document in documents}
        self.events: list[Object] = []
        self.patches: list[str] = []
        self.fails: list[ApiError | Unreachable] = []
        self.version = 1
        self.read: list[str] = []

    async def get(self, path: str, *, query: str = "", lane: Lane = API, tries: int = 1) -> bytes:
        """One policy."""
        if self.fails:
            raise self.fails.pop()
        self.read.append(path)
        return json.dumps(self.policies[path.removeprefix(f"{TEAM}/")]).encode()

    async def patch(self, path: str, body: bytes, content_type: str = MERGE_PATCH, *, lane: Lane = API) -> bytes:
        """A merge patch of a status, with the preconditions that its metadata are."""
        given = json.loads(body)
        name = path.removeprefix(f"{TEAM}/").removesuffix("/status")
        self.patches.append(name)
        if self.fails:
            raise self.fails.pop()
        found = self.policies.get(name)
        if found is None:
            raise ApiError(404, "NotFound")
        if given["metadata"] != {field: found["metadata"][field] for field in ("uid", "resourceVersion")}:
            raise ApiError(409, "Conflict")
        self.version += 1
        found["metadata"]["resourceVersion"] = str(self.version)
        found["status"] = {**found.get("status", {}), **given["status"]}
        return b"{}"

    async def create(self, path: str, body: bytes, *, lane: Lane = API, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        """An Event."""
        assert path == "/apis/events.k8s.io/v1/namespaces/team/events"
        self.events.append(json.loads(body))
        return b"{}"

    def index(self, namespace: str) -> list[Entry]:
        """What the index has of a namespace."""
        return [entry(one) for one in self.policies.values() if one["metadata"]["namespace"] == namespace]
