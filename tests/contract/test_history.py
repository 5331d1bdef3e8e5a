"""History that is gone: 410, by status for lists and as an ERROR event for watches."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from podberth.apiserver import ApiServer
from tests.contract.client import Api, names
from tests.controlplane.cluster import ControlPlane

PATH = "/api/v1/namespaces/default/configmaps"


class Compacted(NamedTuple):
    """A server that has forgotten what was before, and what a client still holds from then."""

    api: Api
    version: str
    token: str


BEFORE, AFTER = ("xa", "xb", "xc"), ("xd", "xe")


@pytest.fixture(scope="module")
def forgetful_plane(control_plane_binaries: Path) -> Iterator[tuple[ControlPlane, str, str]]:
    """A control plane without history, and what a client would still hold; of its own, for it is harmed."""
    with ControlPlane() as plane:
        for name in BEFORE:
            plane.api.create(PATH, {"metadata": {"name": name}})
        page = plane.api.get(PATH, limit=1)["metadata"]
        for name in AFTER:
            plane.api.create(PATH, {"metadata": {"name": name}})
        plane.compact()
        # The watch cache remembers longer than etcd; only a restart empties it.
        plane.restart_apiserver()
        yield plane, page["resourceVersion"], page["continue"]


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.real)])
async def compacted(request: pytest.FixtureRequest) -> AsyncIterator[Compacted]:
    """A server that forgot what a client holds on to."""
    if request.param == "real":
        plane, version, token = request.getfixturevalue("forgetful_plane")
        api = Api(plane.url, plane.admin_token, str(plane.ca))
        yield Compacted(api, version, token)
        await api.close()
        return
    async with ApiServer() as server:
        api = Api(server.url)
        for name in BEFORE:
            (await api.post(PATH, {"metadata": {"name": name}})).ok()
        page = (await api.get(PATH, limit=1)).ok()["metadata"]
        for name in AFTER:
            (await api.post(PATH, {"metadata": {"name": name}})).ok()
        server.store.compact()
        yield Compacted(api, page["resourceVersion"], page["continue"])
        await api.close()


async def test_a_watch_from_too_long_ago(compacted: Compacted) -> None:
    """A watch from a forgotten version begins well and has one event: ERROR with a Status 410 Expired."""
    async with compacted.api.watch(PATH, resourceVersion=compacted.version, timeoutSeconds=30) as events:
        [(type_, status)] = await events.rest()
    assert type_ == "ERROR"
    assert (status["kind"], status["code"], status["reason"]) == ("Status", 410, "Expired")
    assert status["message"].startswith(f"too old resource version: {compacted.version} (")


async def test_a_list_that_was_interrupted(compacted: Compacted) -> None:
    """The next page is a 410 that offers to go on without consistency; the offered token does so."""
    reply = await compacted.api.get(PATH, limit=1, **{"continue": compacted.token})
    message = reply.refused(410, "Expired")
    assert message.startswith("The provided continue parameter is too old to display a consistent list result.")
    token = reply.body["metadata"]["continue"]
    assert json.loads(base64.urlsafe_b64decode(token + "=="))["rv"] == -1
    rest = (await compacted.api.get(PATH, **{"continue": token})).ok()
    assert {"xb", "xd", "xe"} <= set(names(rest))


async def test_a_list_of_now_works(compacted: Compacted) -> None:
    """A fresh list is all a client needs to go on."""
    listed = (await compacted.api.get(PATH)).ok()
    assert "xe" in names(listed)
    since = listed["metadata"]["resourceVersion"]
    async with compacted.api.watch(PATH, resourceVersion=since, timeoutSeconds=30) as events:
        (await compacted.api.post(PATH, {"metadata": {"name": "xf"}})).ok()
        assert (await events.next())[1]["metadata"]["name"] == "xf"
