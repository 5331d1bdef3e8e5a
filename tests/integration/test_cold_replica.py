"""A replica of the admission server that does not know the policies yet: it is not ready, and allows nothing."""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import web

from bench.admission import review
from tests.controlplane import namespaces
from tests.controlplane.api import ApiError, Object
from tests.controlplane.cluster import Cluster
from tests.controlplane.wait import wait_for
from tests.integration.admission import EVERYWHERE, MUTATING, POLICIES, VALIDATING, Policed, Replica, policy, rules
from tests.integration.berth import START
from tests.integration.proxy import Proxy

REJECT_ALL = policy(
    "reject-all", *rules("[{policyPredicate: {}, policyAction: {reject: true, message: nothing today}}]")
)


class Withholding(Proxy):
    """A proxy that answers nothing about policies until it is told to."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.tells = threading.Event()
        self.asked = threading.Event()
        """Somebody has asked for policies."""

    async def _pass(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path == EVERYWHERE:
            self.asked.set()
            await asyncio.to_thread(self.tells.wait)
        return await super()._pass(request)


@pytest.fixture
def withholding(policed: Policed) -> Iterator[Withholding]:
    """Between a replica and the API server."""
    between = Withholding(policed.cluster)
    with between:
        yield between
        between.tells.set()


def asked(replica: Replica, path: str, namespace: str) -> tuple[int, Object]:
    """What a replica answers to a review of a pod; {} for an answer that is no review."""
    context = ssl._create_unverified_context()
    request = urllib.request.Request(
        f"https://127.0.0.1:{replica.port}{path}", review(namespace, 1), {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=30, context=context) as answer:
            said: Object = json.load(answer)
            return answer.status, said["response"]
    except urllib.error.HTTPError as error:
        with error:
            assert b"allowed" not in error.read()
            return error.code, {}


def test_cold_replica_allows_nothing(policed: Policed, withholding: Withholding, tmp_path: Path) -> None:
    """Until it knows the policies: alive, not ready, each review a 503, nothing registered. Then it applies them."""
    team = namespaces.create(policed.api, "team")
    try:
        policed.api.create(POLICIES.format(team), REJECT_ALL)
        replica = Replica(policed.home, withholding.kubeconfig(tmp_path / "kubeconfig"), "")
        policed.started.append(replica)
        replica.start()
        assert withholding.asked.wait(START)
        wait_for("it to be alive", lambda: replica.probe("/livez") == 200, START)
        assert replica.probe("/readyz") == 503
        for path in ("/mutate", "/validate"):
            assert asked(replica, path, team) == (503, {})
        for path in (MUTATING, VALIDATING):
            with pytest.raises(ApiError) as absent:
                policed.api.get(path)
            assert absent.value.status == 404
        assert replica.probe("/readyz") == 503
        withholding.tells.set()
        policed.wait_ready(replica)
        status, said = asked(replica, "/validate", team)
        assert status == 200
        assert not said["allowed"] and "nothing today" in said["status"]["message"]
    finally:
        namespaces.remove(policed.api, team, by_hand=True)
