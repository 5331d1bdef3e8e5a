"""What one namespace does to the admission server at its worst; `bench.hostile_admission` runs it as a process.

`python -m bench.attacks URL API NAME SECONDS`: over loopback, for so many seconds and no longer. Prints how often it
was done and how often it gave up, as JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import sys
import time
from collections.abc import Callable
from functools import partial

import aiohttp

from bench.admission import review
from tests.integration.admission import POLICIES

EVIL = "evil"
JSON_TYPE = {"Content-Type": "application/json"}


def small() -> bytes:
    """A review of a small object."""
    return review(EVIL, 1)


def controllers(count: int) -> bytes:
    """A review of a pod with so many controllers."""
    document = json.loads(review(EVIL, 1))
    document["request"]["object"]["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"web-{i}", "uid": f"uid-{i:08}", "controller": True}
        for i in range(count)
    ]
    document["request"]["object"]["metadata"]["labels"]["evil"] = "other"
    return json.dumps(document).encode()


def large() -> bytes:
    """A review of a pod of 1.2 MB."""
    document = json.loads(review(EVIL, 1))
    resources = {"requests": {"cpu": "100m", "memory": "100Mi"}, "limits": {"memory": "200Mi"}}
    document["request"]["object"]["spec"]["containers"] = [
        {"name": f"c{i}", "image": "registry.example/some/app:v1", "resources": resources, "env": [{"name": "A"}]}
        for i in range(6000)
    ]
    return json.dumps(document).encode()


ATTACKS: dict[str, tuple[Callable[[], bytes], int, float]] = {
    "policies": (small, 4, 30.0),
    "controllers": (partial(controllers, 20_000), 40, 1.0),
    "large": (large, 8, 30.0),
}
"""By name: the body, how many clients, and after how many seconds each hangs up."""


async def attack(url: str, api: str, name: str, seconds: float) -> None:
    """Do something as the namespace `evil` until the time is over. Prints how often it was done, and given up."""
    if name == "edits":
        await _edit(api, time.monotonic() + seconds)
        return
    make, clients, patience = ATTACKS[name]
    body = make()
    until = time.monotonic() + seconds
    answered = given_up = 0

    async def client() -> None:
        nonlocal answered, given_up
        while time.monotonic() < until:
            try:
                async with asyncio.timeout(min(patience, max(until - time.monotonic(), 0.1))):
                    async with made.post(f"{url}/mutate", data=body, headers=JSON_TYPE) as response:
                        said = await response.read()
                answered += 1
                if b'"code":429' in said:
                    await asyncio.sleep(1.0)  # as the API's clients do when they are told so
            except (TimeoutError, aiohttp.ClientError):
                given_up += 1

    async with session() as made:
        await asyncio.gather(*(client() for _ in range(clients)))
    print(json.dumps({"answered": answered, "given_up": given_up}))


async def _edit(api: str, until: float) -> None:
    """Edit a policy, ten times a second."""
    path = f"{api}{POLICIES.format(EVIL)}/edited"
    done = 0
    async with session() as made:
        while time.monotonic() < until:
            done += 1
            change = [{"op": "replace", "path": "/spec/rules/0/policyAction/message", "value": str(done)}]
            headers = {"Content-Type": "application/json-patch+json"}
            async with made.patch(path, data=json.dumps(change), headers=headers) as response:
                await response.read()
            await asyncio.sleep(0.1)
    print(json.dumps({"answered": done, "given_up": 0}))


def session() -> aiohttp.ClientSession:
    """A client that verifies nothing and opens as many connections as it needs."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context, limit=0))


if __name__ == "__main__":
    os.nice(15)  # whoever attacks has a machine of their own: their processor time is not what others wait for
    url, api, name, seconds = sys.argv[1:]
    asyncio.run(attack(url, api, name, float(seconds)))
