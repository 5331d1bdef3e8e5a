"""The policies of a namespace, read in pages and only as far as there is room for.

A namespace may hold thousands of policies of a megabyte each. What is kept of it is bounded: where its policies are
larger than that together, none of them is looked at, and those that were read so far are told why.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from podberth.kube.client import Client
from podberth.kube.resources import METADATA_POLICIES
from podberth.policy.operator import judge
from podberth.policy.operator.judge import Stored
from podberth.policy.operator.pages import bodies

MOST_BYTES = 4_000_000
MOST_TEXTS = 80_000
"""Keys and values, quotation marks telling: each takes many times its length once it is read."""


class Read(msgspec.Struct, frozen=True):
    """The policies that were read of a namespace, and their size in bytes."""

    policies: Sequence[Stored]
    size: int


class _Named(msgspec.Struct):
    namespace: str = ""


class _Head(msgspec.Struct):
    metadata: _Named


async def read(client: Client, namespace: str, allowed_prefixes: tuple[str, ...] = ()) -> Read:
    """The policies of one namespace, as the API server has them.

    Raises ApiError and Unreachable.
    """
    raw: list[bytes] = []
    size = texts = 0
    async for body, page in bodies(client, METADATA_POLICIES, namespace):
        raw += map(bytes, page.items or ())
        size += len(body)
        texts += body.count(b'"') // 2
        if size > MOST_BYTES or texts > MOST_TEXTS:
            why = (
                f"the policies of this namespace are too large together to be looked at: {size} bytes and {texts} "
                f"texts in the first {len(raw)} of them, want {MOST_BYTES} and {MOST_TEXTS} at most in all"
            )
            return Read([judge.unread(msgspec.json.decode(item, type=judge.Unread), why) for item in raw], size)
    # Seconds, for the largest that are read.
    return Read(await asyncio.to_thread(_read_all, raw, allowed_prefixes), size)


async def namespaces(client: Client, watched: tuple[str, ...]) -> set[str]:
    """The namespaces that have policies.

    Raises ApiError and Unreachable.
    """
    found: set[str] = set()
    for namespace in watched or (None,):
        async for _, page in bodies(client, METADATA_POLICIES, namespace):
            found.update(msgspec.json.decode(item, type=_Head).metadata.namespace for item in page.items or ())
    return found


def _read_all(raw: list[bytes], allowed_prefixes: tuple[str, ...]) -> list[Stored]:
    found = []
    for item in raw:
        document: dict[str, Any] = msgspec.json.decode(item)
        found.append(judge.read(document, allowed_prefixes))
    return found
