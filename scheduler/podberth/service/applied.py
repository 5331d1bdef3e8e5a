"""Objects that a service keeps as they should be, by the API server's own merge (server-side apply).

What others add to an object stays, as labels and owners do; but not where it would change what the object does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import msgspec

from podberth.kube.client import Client
from podberth.kube.resources import Resource

APPLY = "application/apply-patch+yaml"
Object = dict[str, Any]


async def apply(
    client: Client,
    resource: Resource,
    namespace: str | None,
    wanted: Object,
    manager: str,
    means: Callable[[Object], bool],
) -> Object:
    """Apply an object, and return it as it is stored. `means`: whether that is what is wanted.

    If it is not, as others added something to a list that is merged by name, the object is put as a whole, under the
    metadata that it has. Raises ApiError and Unreachable.
    """
    path = resource.path(namespace, wanted["metadata"]["name"])
    query = urlencode({"fieldManager": manager, "force": "true"})
    body = msgspec.json.encode(wanted)
    found: Object = msgspec.json.decode(await client.request("PATCH", path, query=query, body=body, content_type=APPLY))
    if not means(found):
        whole = msgspec.json.encode({**wanted, "metadata": found["metadata"]})
        query = urlencode({"fieldManager": manager})
        found = msgspec.json.decode(await client.request("PUT", path, query=query, body=whole))
    return found
