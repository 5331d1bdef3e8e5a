"""The kinds whose objects an audit counts, and their lists, page by page.

Kinds are called as for kubectl: `pods`, `deployments.apps`, `widgets.v1.example.com`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec

from podberth.kube.client import Client, list_pages, read_answer
from podberth.kube.errors import ApiError
from podberth.kube.resources import Resource
from podberth.policy.objects import JsonObject

DEFAULT_KINDS = (
    "pods",
    "configmaps",
    "services",
    "persistentvolumeclaims",
    "deployments.apps",
    "statefulsets.apps",
    "daemonsets.apps",
    "jobs.batch",
    "cronjobs.batch",
)
"""No Secrets, on purpose: counting them needs the right to read them all."""
FIRST, MOST, PAGE_BYTES = 5, 100, 1_000_000
"""Objects of the first page, of the others at most, and what a page should come to: an object may have 1.5 MB."""
_VERSIONS = {"": "v1", "apps": "v1", "batch": "v1", "networking.k8s.io": "v1", "policy": "v1", "autoscaling": "v2"}


class KindError(ValueError):
    """A kind that can't be found from its name."""


def resource(name: str) -> Resource:
    """Return the resource that a name stands for. Its `kind` is left open: lists say it.

    Raises KindError.
    """
    plural, _, group = name.partition(".")
    first, _, rest = group.partition(".")
    if _is_version(first) and rest:
        return Resource(rest, first, plural, True, "")
    if not plural or group not in _VERSIONS:
        raise KindError(f"{name}: want PLURAL, PLURAL.GROUP of a well-known group, or PLURAL.VERSION.GROUP")
    return Resource(group, _VERSIONS[group], plural, True, "")


def _is_version(text: str) -> bool:
    return text[:1] == "v" and text[1:2].isdigit()


class Page(msgspec.Struct, rename="camel"):
    """One page of a list. Its items carry no kind and apiVersion: the list has them."""

    kind: str = ""
    api_version: str = ""
    items: list[JsonObject] | None = None

    def objects(self) -> list[JsonObject]:
        """Return the items as objects of their own."""
        kind = self.kind.removesuffix("List")
        return [{"apiVersion": self.api_version, "kind": kind, **item} for item in self.items or ()]


_page = msgspec.json.Decoder(Page).decode


class _Served(msgspec.Struct):
    name: str


class _Discovery(msgspec.Struct):
    resources: list[_Served]


_discovery = msgspec.json.Decoder(_Discovery).decode


async def served(client: Client, root: str) -> frozenset[str]:
    """Return the plurals of the kinds of a version of a group; none where the cluster does not have that.

    `root`: as `Resource.root`. Everybody may ask that. Raises ApiError, Unreachable.
    """
    try:
        found = read_answer(await client.get(root), _discovery)
    except ApiError as error:
        if error.status == 404:
            return frozenset()
        raise
    return frozenset(one.name for one in found.resources)


async def pages(client: Client, kind: Resource, namespace: str | None) -> AsyncIterator[Page]:
    """Yield the pages of a kind in a namespace, or (None) everywhere; each as long as the size of the last one's
    objects allows.

    Raises ApiError, and Unreachable, also for an answer that is no list.
    """
    async for body, _ in list_pages(client, kind.path(namespace), first=FIRST, most=MOST, page_bytes=PAGE_BYTES):
        yield read_answer(body, _page)
