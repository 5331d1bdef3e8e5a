"""A claim that was made and deleted while the watch lost both events does not keep its device."""

from __future__ import annotations

import asyncio

import pytest

from podberth.app.unshown_claims import UnshownClaims
from podberth.cache.devices import Devices
from podberth.engine.stimuli import Gone, Stimulus
from podberth.kube.errors import ApiError, Unreachable
from podberth.model.devices import AllocatedDevice, Allocation, DeviceID

DEVICE = DeviceID("gpu.test", "n", "d0")


class Server:
    """The API server's answer to whoever asks for a claim."""

    def __init__(self, answer: Exception | None) -> None:
        self._answer = answer
        self.asked: list[str] = []

    async def get(self, path: str) -> bytes:
        """GET."""
        self.asked.append(path)
        if self._answer is not None:
            raise self._answer
        return b"{}"


def devices() -> Devices:
    """A claim was made for a pod and written, and its watch has not shown it."""
    made = Devices()
    made.assume("\0p", Allocation((AllocatedDevice("r", DEVICE),), None), None)
    made.name("\0p", ("default", "p-extended-resources-x"))
    made.written("\0p", "7")
    return made


@pytest.mark.parametrize(
    ("answer", "gone"),
    [
        (ApiError(404, "NotFound", "not found"), True),
        (ApiError(500, "InternalError", "no"), False),
        (Unreachable("no route"), False),
        (None, False),
    ],
)
def test_a_claim_that_is_not_shown_is_asked_for(answer: Exception | None, gone: bool) -> None:
    """Not the first time, as the watch may only be late; and only "not found" says that it is gone."""
    heard: list[Stimulus] = []
    there, server = devices(), Server(answer)
    looks = UnshownClaims(server, lambda: there, heard.append)  # type: ignore[arg-type]
    asyncio.run(looks.look())
    assert server.asked == []
    asyncio.run(looks.look())
    assert server.asked == ["/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/p-extended-resources-x"]
    assert heard == ([Gone("ResourceClaim", "default", "p-extended-resources-x", "")] if gone else [])
    for stimulus in heard:
        assert isinstance(stimulus, Gone)
        there.drop(stimulus.kind, stimulus.namespace, stimulus.name)
    assert there.allocated.is_taken(DEVICE) is not gone
