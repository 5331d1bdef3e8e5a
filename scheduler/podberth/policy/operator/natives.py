"""Our admission policies on the API server: which there are, and making them what they should be. The leader's work.

A watch of each kind, limited to this release's label, says which there are and at which generation. What was written is
remembered with its generation, so an object that somebody changes or deletes is noticed by the watch and written again
when its namespace has its turn. Only metadata is kept.

The validating half comes before the mutating one, and goes after it: without it, the reasons for a refusal would be
stored as an annotation. The API server takes up to a second until it uses what was written, for each half by itself, so
`PAUSE_SECONDS` lie in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from typing import Any
from urllib.parse import urlencode

import msgspec
import structlog

from podberth.kube.client import Client, read_answer
from podberth.kube.errors import ApiError, Unreachable
from podberth.kube.machine import MACHINE, Machine
from podberth.kube.objects import Change, Deleted, MarkedMeta, Partial
from podberth.kube.reflector import Reflector, follow
from podberth.kube.resources import CONFIG_MAPS, Resource
from podberth.policy.native.compile import NAMESPACE_LABEL, POLICIES, RELEASE_LABEL, label_of
from podberth.policy.native.likeness import same
from podberth.policy.native.requests import SEEN_NAME

FIELD_MANAGER = "berth-operator"
APPLY = "application/apply-patch+yaml"
PAUSE_SECONDS = 1.5
RETRY_SECONDS = 2.0
LOOK_SECONDS = 60.0
"""Between two looks whether the API server has these kinds."""

log = structlog.get_logger("natives")
Object = dict[str, Any]
Key = tuple[str, str]
"""Kind and name."""


def _resource(kind: str, plural: str) -> Resource:
    return Resource("admissionregistration.k8s.io", "v1", plural, False, kind)


KINDS = {
    one.kind: one
    for one in (
        _resource("ValidatingAdmissionPolicy", "validatingadmissionpolicies"),
        _resource("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings"),
        _resource("MutatingAdmissionPolicy", "mutatingadmissionpolicies"),
        _resource("MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings"),
    )
}
"""In the order in which they are written; they are deleted the other way round."""
_ORDER = {kind: number for number, kind in enumerate(KINDS)}
_REFUSALS = (400, 413, 422)
SEEN_KEY = "podberth.dev/in-force"


class RefusedError(Exception):
    """The API server says that an object is not legal."""


class _Meta(MarkedMeta, rename="camel"):
    generation: int = 0
    owner_references: list[dict[str, Any]] | None = None


class Found(Partial):
    """The metadata of one of our objects."""

    metadata: _Meta


_decode = msgspec.json.Decoder(Found).decode


class _Written(msgspec.Struct, frozen=True):
    digest: bytes
    uid: str
    generation: int
    namespace: str
    owners: frozenset[str]

    def is_still(self, meta: _Meta) -> bool:
        """Return whether nobody changed what was written. An event that is older than our write says nothing."""
        if (meta.uid, _namespace(meta)) != (self.uid, self.namespace):
            return False
        return meta.generation <= self.generation and self.owners <= _owners(meta)


class Natives:
    """`changed(namespace)` is called when an object is not what we wrote (None: perhaps anywhere)."""

    def __init__(
        self,
        client: Client,
        release: str,
        changed: Callable[[str | None], None],
        machine: Machine = MACHINE,
    ) -> None:
        self.missing = "it is not known yet whether the API server has admission policies in CEL"
        """Why nothing can be enforced natively; empty when it can be."""
        self.writes = 0
        self.repairs = 0
        self._client = client
        self._label = label_of(release)
        self._changed = changed
        self._machine = machine
        self._found: dict[Key, _Meta] = {}
        self._by_namespace: dict[str, set[Key]] = {}
        self._written: dict[Key, _Written] = {}
        self._steps: dict[str, float] = {}
        """Namespace → when one of its objects was last written or deleted."""
        self._seen: dict[str, str] = {}
        """Namespace → the version that a dry run has shown to be in force since anything was written there."""
        self._writing: set[Key] = set()
        """Whose new generation is not known yet."""
        self._known = asyncio.Event()

    # -- what there is -------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Follow our objects until cancelled; wait where the API server does not have such kinds."""
        self._forget()
        while True:
            try:
                missing = await self._discover()
            except (ApiError, Unreachable) as error:
                log.error("the API server does not say whether it has admission policies", error=str(error)[:300])
                await asyncio.sleep(RETRY_SECONDS)
                continue
            if not missing:
                break
            if missing != self.missing:
                log.warning("policies are not enforced by the API server itself", reason=missing)
            self.learned(missing)
            await asyncio.sleep(LOOK_SECONDS)
        reflectors = [
            Reflector(
                self._client,
                kind,
                _decode,
                lambda changes, replaced, kind=kind: self._deliver(kind.kind, changes),  # type: ignore[misc]
                label_selector=f"{RELEASE_LABEL}={self._label}",
                rng=self._machine.chance,
                clock=self._machine.monotonic,
            )
            for kind in KINDS.values()
        ]
        await follow(reflectors, lambda: self.learned(""))

    def learned(self, missing: str) -> None:
        """Take note that it is known which of our objects there are. `missing`: why there are none."""
        self.missing = missing
        self._known.set()
        self._changed(None)

    def give_up(self, why: str) -> None:
        """Nothing of ours can be written, though it can be read: until another replica leads."""
        self.missing = f"the operator may not write admission policies: {why[:300]}"
        log.error("policies are not enforced by the API server itself", reason=self.missing)

    async def known(self) -> None:
        """Wait until it is known which of our objects there are, or that there can be none."""
        await self._known.wait()

    @property
    def namespaces(self) -> frozenset[str]:
        """Return the namespaces that have admission policies of ours."""
        return frozenset(self._by_namespace)

    def __len__(self) -> int:
        return len(self._found)

    def holds(self, namespace: str) -> bool:
        """Return whether something is enforced in this namespace."""
        return namespace in self._by_namespace

    def policies(self, namespace: str) -> frozenset[str]:
        """The policies that our objects enforce in this namespace."""
        held = (self._found[key].annotations or {} for key in self._by_namespace.get(namespace, ()))
        return frozenset(name for annotations in held for name in annotations.get(POLICIES, "").split())

    async def _discover(self) -> str:
        """Return why there can be no objects of ours; empty when there can be.

        Raises ApiError and Unreachable for an answer that says neither.
        """
        root = next(iter(KINDS.values())).root
        try:
            listed = read_answer(await self._client.get(root), _listed)
            gone = sorted({one.plural for one in KINDS.values()} - {one.name for one in listed.resources})
            if gone:
                return f"the API server has no {', '.join(gone)} (Kubernetes 1.36 and newer have)"
            for kind in KINDS.values():
                await self._client.get(kind.path(), query=urlencode({"limit": "1", "labelSelector": RELEASE_LABEL}))
        except ApiError as error:
            if error.status == 404:
                return f"the API server has no {root.removeprefix('/apis/')}"
            if error.status == 403:
                return f"the operator may not list admission policies: {str(error)[:300]}"
            raise
        return ""

    def _forget(self) -> None:
        for store in (self._found, self._by_namespace, self._written, self._steps, self._seen):
            store.clear()
        self._known.clear()

    def _deliver(self, kind: str, changes: Iterable[Change[Found]]) -> None:
        for change in changes:
            key = kind, change.name if isinstance(change, Deleted) else change.object.name
            if isinstance(change, Deleted):
                gone = self._found.pop(key, None)
                written = self._written.pop(key, None)
                if gone is not None:
                    self._leave(gone, key)
                if written is not None:
                    self._drifted(written.namespace)
                continue
            self._learn(key, change.object.metadata)
            written = self._written.get(key)
            meta = change.object.metadata
            if written is None:
                if namespace := _namespace(meta):
                    self._changed(namespace)
            elif key not in self._writing and not written.is_still(meta):
                del self._written[key]
                self._drifted(written.namespace)

    def _drifted(self, namespace: str) -> None:
        self.repairs += 1
        log.warning("an admission policy was changed or deleted by somebody, writing it again", namespace=namespace)
        self._changed(namespace)

    def _learn(self, key: Key, meta: _Meta) -> None:
        before = self._found.get(key)
        if before is not None:
            self._leave(before, key)
        self._found[key] = meta
        self._by_namespace.setdefault(_namespace(meta), set()).add(key)

    def _leave(self, meta: _Meta, key: Key) -> None:
        """Namespaces come and go without end: nothing stays of one that has none of our objects any more."""
        namespace = _namespace(meta)
        held = self._by_namespace.get(namespace, set())
        held.discard(key)
        if not held:
            self._by_namespace.pop(namespace, None)
            self._seen.pop(namespace, None)

    # -- what there should be ------------------------------------------------------------------------------------

    def as_wanted(self, namespace: str, digests: dict[Key, bytes]) -> bool:
        """Return whether exactly these were written, and nobody touched them since."""
        held = self._by_namespace.get(namespace, set())
        return held == digests.keys() and all(
            key in self._written and self._written[key].digest == digest for key, digest in digests.items()
        )

    def settled(self, namespace: str) -> float:
        """Seconds since anything was written in this namespace; a long time when nothing was."""
        return self._machine.monotonic() - self._steps.get(namespace, float("-inf"))

    async def unseen(self, namespace: str, version: str) -> str:
        """Ask the API server by a dry run whether it enforces this version; its answer if not, empty when it does.

        Only the API server that answers has shown it. Raises Unreachable.
        """
        if self._seen.get(namespace) == version:
            return ""
        steps = self._steps.get(namespace)
        meta = {"name": SEEN_NAME, "annotations": {SEEN_KEY: version}}
        body = msgspec.json.encode({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})
        query = urlencode({"fieldManager": FIELD_MANAGER, "force": "true", "dryRun": "All"})
        path = CONFIG_MAPS.path(namespace, SEEN_NAME)
        try:
            await self._client.request("PATCH", path, query=query, body=body, content_type=APPLY)
        except ApiError as error:
            if f"{version} {version}" not in error.message:
                return str(error)[:300]
            if self._steps.get(namespace) == steps:
                self._seen[namespace] = version
            return ""
        return "the object was let in"

    async def bring(self, namespace: str, objects: Sequence[Object]) -> float:
        """Write and delete what differs; seconds after which the rest may follow, 0 when nothing is left to do.

        Raises ApiError, Unreachable, and RefusedError for an object that is not legal.
        """
        wanted = {(one["kind"], one["metadata"]["name"]): one for one in objects}
        for key in sorted(wanted, key=_order):
            if key[0].startswith("Mutating") and (wait := self._too_early(namespace, key)):
                return wait
            await self._bring(namespace, key, wanted[key])
        gone = self._by_namespace.get(namespace, set()) - wanted.keys()
        for key in sorted(gone, key=_order, reverse=True):
            if not key[0].startswith("Mutating") and not wanted and (wait := self._left(namespace)):
                return wait
            await self._delete(namespace, key)
        return 0.0

    def _too_early(self, namespace: str, key: Key) -> float:
        """Seconds that the first mutating object has to wait for the validating ones."""
        return 0.0 if key in self._found else self._left(namespace)

    def _left(self, namespace: str) -> float:
        return max(PAUSE_SECONDS - self.settled(namespace), 0.0)

    async def _bring(self, namespace: str, key: Key, wanted: Object) -> None:
        body = msgspec.json.encode(wanted)
        digest = sha256(body).digest()
        written = self._written.get(key)
        if written is not None and written.digest == digest:
            return
        before = self._found.get(key)
        self._writing.add(key)
        try:
            meta = await self._apply(KINDS[key[0]], key[1], wanted, body)
        finally:
            self._writing.discard(key)
        now = _Written(digest, meta.uid, meta.generation, namespace, _owners(meta))
        heard = self._found.get(key)
        if heard is not None and heard.uid == meta.uid and not now.is_still(heard):
            self._drifted(namespace)  # somebody wrote after us, and the watch told it before our answer came
        else:
            self._written[key] = now
            self._learn(key, meta)
        if before is None or (before.uid, before.generation) != (meta.uid, meta.generation):
            self._step(namespace)
            log.info("admission policy written", kind=key[0], name=key[1], generation=meta.generation)

    async def _apply(self, kind: Resource, name: str, wanted: Object, body: bytes) -> _Meta:
        path = kind.path(None, name)
        found = await self.apply(kind, name, body)
        if not same(found.get("spec"), wanted["spec"]):
            # What others added to lists that are merged by name: an apply leaves it.
            meta = {**wanted["metadata"], "resourceVersion": found["metadata"]["resourceVersion"]}
            whole = msgspec.json.encode({**wanted, "metadata": meta})
            raw = await self._client.request("PUT", path, query=urlencode({"fieldManager": FIELD_MANAGER}), body=whole)
            return read_answer(raw, _decode).metadata
        return msgspec.convert(found["metadata"], _Meta)

    async def apply(self, kind: Resource, name: str, body: bytes, *, dry_run: bool = False) -> Object:
        """Apply one object by the server's own merge.

        Raises ApiError, Unreachable and RefusedError.
        """
        query = {"fieldManager": FIELD_MANAGER, "force": "true", **({"dryRun": "All"} if dry_run else {})}
        try:
            raw = await self._client.request(
                "PATCH", kind.path(None, name), query=urlencode(query), body=body, content_type=APPLY
            )
        except ApiError as error:
            if error.status in _REFUSALS:
                raise RefusedError(error.message[:1000]) from error
            raise
        read_answer(raw, _decode)
        found: Object = msgspec.json.decode(raw)
        return found

    async def _delete(self, namespace: str, key: Key) -> None:
        meta = self._found[key]
        options = msgspec.json.encode({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": meta.uid}})
        try:
            await self._client.delete(KINDS[key[0]].path(None, key[1]), options)
        except ApiError as error:
            if error.status != 404:
                raise
        self._written.pop(key, None)
        self._found.pop(key, None)
        self._leave(meta, key)
        self._step(namespace)
        log.info("admission policy deleted", kind=key[0], name=key[1])

    def _step(self, namespace: str) -> None:
        now = self._machine.monotonic()
        if len(self._steps) > 1024:
            self._steps = {one: at for one, at in self._steps.items() if now - at < LOOK_SECONDS}
        self._steps[namespace] = now
        self._seen.pop(namespace, None)
        self.writes += 1


class _Named(msgspec.Struct):
    name: str = ""


class _Listed(msgspec.Struct):
    resources: list[_Named] = msgspec.field(default_factory=list)


_listed = msgspec.json.Decoder(_Listed).decode


def digests(objects: Iterable[Object]) -> dict[Key, bytes]:
    """Return what `as_wanted` compares."""
    return {(one["kind"], one["metadata"]["name"]): sha256(msgspec.json.encode(one)).digest() for one in objects}


def _order(key: Key) -> tuple[int, str]:
    return _ORDER[key[0]], key[1]


def _namespace(meta: _Meta) -> str:
    return (meta.labels or {}).get(NAMESPACE_LABEL, "")


def _owners(meta: _Meta) -> frozenset[str]:
    return frozenset(str(one.get("uid")) for one in meta.owner_references or ())
