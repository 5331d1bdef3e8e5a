"""Whether webhook configurations cover a namespace is known only from an answer that can be read."""

from typing import Any, cast

import msgspec
import pytest
from podberth.policy.operator.covering import NAME_LABEL, OF_POLICIES, Covering

from podberth.kube.client import Client
from podberth.kube.errors import Unreachable

NAMED = {"key": NAME_LABEL, "operator": "NotIn", "values": ["kube-system"]}


class Server:
    """Answers with one configuration, whatever is asked for."""

    def __init__(self, **hook: Any) -> None:
        self.hooks: Any = [{"name": f"judge{OF_POLICIES}", **hook}]

    async def get(self, path: str) -> bytes:
        return msgspec.json.encode({"metadata": {}, "webhooks": self.hooks})


@pytest.mark.parametrize(
    "selector",
    [
        7,
        {"matchLabels": 7},
        {"matchExpressions": 7},
        {"matchExpressions": [7]},
        {"matchExpressions": [NAMED | {"values": 7}]},
    ],
)
async def test_fields_of_another_type(selector: Any) -> None:
    """Such an answer says neither that a namespace is covered, nor that it is not."""
    server = Server(namespaceSelector={"matchExpressions": [NAMED]})
    now = [100.0]
    covering = Covering(cast(Client, server), "berth", lambda: now[0])
    assert await covering.since("team") == 0.0
    server.hooks[0]["namespaceSelector"] = selector
    with pytest.raises(Unreachable):
        await covering.since("team")
    server.hooks[0]["namespaceSelector"] = {"matchExpressions": [NAMED]}
    now[0] = 110.0
    assert await covering.since("team") == 10.0
    assert await covering.since("kube-system") == 0.0


@pytest.mark.parametrize("selector", [None, {}])
async def test_no_selector_is_every_namespace(selector: Any) -> None:
    """As the API server has it."""
    now = [100.0]
    covering = Covering(cast(Client, Server(namespaceSelector=selector)), "berth", lambda: now[0])
    await covering.since("team")
    now[0] = 110.0
    assert await covering.since("team") == 10.0
