"""The release's switch: who enforces policies, the API server by itself or the webhook, and the moves between the two.

What the API server reads is one set for each namespace, an object that holds its policies as data, and eight admission
policies and bindings for the release. A move is: write the new way, wait until it is seen to be in force, take the old
one away. While both are there, both enforce. What is done depends on nothing but what is stored, so another replica
goes on where one ended:

- *To the API server.* Sets and admission policies are written. Once all sets are seen to be in force, the mutating
  binding gets the annotation `IN_FORCE`, by which the admission server keeps no webhook configurations, and these go.
- *To the webhook.* The admission server, which has the same switch, writes its configurations. Once they are there,
  and the webhook answers, bindings and admission policies go, and then the sets.

*Seen to be in force* is a dry run in the namespace that is refused with the set's version by both halves, and where the
set has something to tell, answered with a warning that has the version, too.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from hashlib import sha256
from typing import Any
from urllib.parse import urlencode

import msgspec
import structlog

from podberth.kube.client import Client, list_items, read_answer
from podberth.kube.errors import ApiError, Unreachable
from podberth.kube.machine import MACHINE, Machine
from podberth.kube.objects import Version, older, partial, read_version
from podberth.kube.resources import (
    CLUSTER_ROLES,
    CONFIG_MAPS,
    MUTATING_BINDINGS,
    MUTATING_POLICIES,
    MUTATING_WEBHOOKS,
    VALIDATING_BINDINGS,
    VALIDATING_POLICIES,
    VALIDATING_WEBHOOKS,
    Resource,
)
from podberth.policy import bounds
from podberth.policy.native.admission_policies import IN_FORCE, admission_policies, name_of, same
from podberth.policy.native.policy_set import API_VERSION, SET_KIND, SET_NAME, SET_PLURAL, PolicySet, Source, policy_set
from podberth.policy.native.requests import SEEN_NAME
from podberth.policy.operator.judge import Stored
from podberth.policy.operator.listing import served
from podberth.policy.operator.settings import Settings
from podberth.policy.operator.status import NATIVE, NOT_ACCEPTED, OLDER, Enforcement, Way, way_of
from podberth.policy.spec import GROUP
from podberth.service.applied import APPLY, apply

LOOK_SECONDS = 30.0
"""Between two looks at the whole, if nothing happens."""
RETRY_SECONDS = 2.0
PAUSE_SECONDS = 1.5
"""After the validating half is written, before the mutating half is: without it, the reasons for a refusal would be
stored as an annotation. The API server takes up to a second until it uses what was written, for each half by itself."""
SPREAD_SECONDS = 3.0
"""From a write until API servers use it that the dry run did not reach: each looks for changes once a second."""
UNSEEN_SECONDS = 10.0
"""Statuses wait so long for what was written; then they say what the API server answers instead."""
LOOK_AGAIN_SECONDS = 1.0
KINDS = {
    resource.kind: resource
    for resource in (VALIDATING_POLICIES, VALIDATING_BINDINGS, MUTATING_POLICIES, MUTATING_BINDINGS)
}
"""In the order in which they are written."""
SETS = Resource("", API_VERSION, SET_PLURAL, True, SET_KIND)
WEBHOOKS = (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
OPEN = ("default", "kube-public")
"""Namespaces that each cluster has: in one of them the webhook is asked whether it answers."""
GATHER_SECONDS = 0.2
REFUSALS = (400, 413, 422)
MYSELF = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
FIELD_MANAGER = "berth-operator"
NOTHING_TOLD = "it was refused, but without the warning that shows that modes warn and observe are told of"
_ANSWERED = re.compile(r"denied (?:the )?request: webhook(?: |$)")

log = structlog.get_logger("enforcement")
Object = dict[str, Any]
Key = tuple[str, str]
"""Kind and name."""


class Kept(msgspec.Struct, frozen=True):
    """A set as the index has it."""

    uid: str
    version: Version
    digest: bytes


class Enforced(msgspec.Struct, frozen=True):
    """The enforcement of each policy, and the seconds after which to look again (0: when something changes)."""

    ways: Mapping[str, Enforcement]
    again: float = 0.0
    pending: bool = False
    """Nobody has seen in force yet what was written: that is told in a moment."""


class _Written(msgspec.Struct, frozen=True):
    """A set that we wrote, and when."""

    digest: bytes
    version: Version
    since: float


class _Hook(msgspec.Struct, rename="camel"):
    client_config: Mapping[str, Any] = {}


class _Configuration(msgspec.Struct):
    webhooks: list[_Hook] | None = None


_configuration = msgspec.json.Decoder(_Configuration).decode


def kept(document: Mapping[str, Any]) -> Kept:
    """Return the part of a set that the index keeps."""
    meta = document["metadata"]
    return Kept(meta["uid"], read_version(meta["resourceVersion"]), _digest(document))


class Enforcer:
    """`sets(namespace)` returns the set that the index has, `everywhere()` the namespaces that have policies, or None
    while that is not known.

    `look_everywhere()` is called when another way is in force.
    """

    def __init__(
        self,
        client: Client,
        settings: Settings,
        sets: Callable[[str], Kept | None],
        everywhere: Callable[[], Collection[str] | None],
        look_everywhere: Callable[[], None],
        machine: Machine = MACHINE,
    ) -> None:
        self.writes = 0
        self.repairs = 0
        self.found: dict[Key, Object] = {}
        """The admission policies and bindings of the release, as they were last read."""
        self._client = client
        self._settings = settings
        self._sets = sets
        self._everywhere = everywhere
        self._look_everywhere = look_everywhere
        self._machine = machine
        self._missing = "it is not known yet whether the API server has admission policies in CEL"
        self._known = asyncio.Event()
        self._wake = asyncio.Event()
        self._user = ""
        self._owner: list[Object] = []
        self._written: dict[str, _Written] = {}
        self._proved: dict[str, bytes] = {}
        """Namespace → digest of the set that was seen to be in force; empty where there is nothing to enforce."""
        self._changed = float("-inf")
        """When an admission policy or a binding was written last."""
        self._objects = 0
        """The number of admission policies and bindings that there have to be."""
        self._refused = ""
        """Why admission policies can't be written, until another replica leads."""
        self._said = ""
        self._away = ""
        """Why the webhook does not enforce, where it should; empty when it does."""

    @property
    def native(self) -> bool:
        """Return whether the API server is to enforce."""
        return self._settings.enforcement != "webhook" and not self._missing

    @property
    def moved(self) -> bool:
        """Return whether the webhook has left policies to the API server."""
        binding = self.found.get(self._binding)
        return binding is not None and (binding["metadata"].get("annotations") or {}).get(IN_FORCE) == "true"

    @property
    def _binding(self) -> Key:
        return "MutatingAdmissionPolicyBinding", name_of(self._settings.release)

    # -- one namespace -----------------------------------------------------------------------------------------------

    async def enforce(self, namespace: str, stored: Sequence[Stored]) -> Enforced:
        """Write the set of a namespace, look whether it is in force, and say who enforces each policy.

        Raises ApiError and Unreachable.
        """
        await self._known.wait()
        there = self._sets(namespace)
        exempt = namespace in self._settings.exempt
        if exempt or not (self.native or self.found):
            await self._nothing(namespace, there, exempt=exempt and bool(stored))
            return Enforced({one.name: self._not_native(one, exempt=exempt) for one in stored})
        unread = any(one.unread for one in stored)
        if unread and there is not None:
            self._proved[namespace] = b""
            return Enforced({})  # nobody knows what they say: what is in force stays
        settings = self._settings
        sources = [Source(one.policy, one.uid, one.generation) for one in stored if one.policy is not None]
        closed = bounds.CLOSED if unread or any(one.closes for one in stored) else ""
        wanted = await asyncio.to_thread(
            policy_set, sources, namespace, settings.release, settings.reserved, closed=closed
        )
        answer: str | None = ""
        refused = ""
        try:
            if wanted.document is None:
                await self._nothing(namespace, there, exempt=bool(stored))
            else:
                answer = await self._bring(namespace, wanted, wanted.document, there)
        except ApiError as error:
            if error.status not in REFUSALS:
                raise
            refused = f"the API server refuses the set of this namespace: {str(error)[:500]}"
            log.error("the API server refuses a set of policies", namespace=namespace, error=str(error)[:300])
        if answer is None:
            return Enforced({}, LOOK_AGAIN_SECONDS, pending=True)
        found: dict[str, Enforcement] = {}
        for one in stored:
            kept = way_of(one.status) == "Native"
            if one.policy is None:
                found[one.name] = NOT_ACCEPTED
            elif refused:
                found[one.name] = Enforcement("Native" if kept else self._other, "Refused", refused, older=kept)
            elif one.name in wanted.left:
                found[one.name] = Enforcement("None", "NotNative", f"not enforced: {wanted.left[one.name]}")
            elif answer:
                found[one.name] = OLDER if kept else self._starting(answer)
            else:
                found[one.name] = NATIVE
        return Enforced(found, UNSEEN_SECONDS if answer else 0.0)

    async def _nothing(self, namespace: str, there: Kept | None, *, exempt: bool) -> None:
        """Have no set in a namespace. `exempt`: that is how it should be while the API server enforces."""
        if there is not None:
            self._written.pop(namespace, None)
            await self._remove(SETS.path(namespace, SET_NAME), there.uid)
            log.info("set deleted", namespace=namespace)
        if exempt:
            self._proved[namespace] = b""
        else:
            self._proved.pop(namespace, None)

    def forget(self, namespace: str | None = None) -> None:
        """Take note that what we wrote may be gone, in a namespace or everywhere: it is compared with the index."""
        if namespace is None:
            self._written.clear()
        else:
            self._written.pop(namespace, None)

    def _not_native(self, one: Stored, *, exempt: bool) -> Enforcement:
        if exempt:
            return Enforcement("None", "ExemptNamespace", "not enforced: the namespace is exempt")
        if one.policy is None and not one.unread:  # what nobody here has read, the webhook judges all the same
            return NOT_ACCEPTED
        switched = self._settings.enforcement == "webhook"
        message = "this release leaves policies to the webhook" if switched else self._missing
        reason = "Switched" if switched else "KindsMissing"
        if self._settings.webhook and self._settings.enforcement != "native":
            if self._away:
                return Enforcement("None", "NoWebhook", f"not enforced: {message}, and {self._away}")
            return Enforcement("Webhook", reason, message)
        return Enforcement("None", reason, f"not enforced: {message}")

    def _starting(self, answer: str) -> Enforcement:
        message = f"a dry run does not show that the API server enforces the policy: {answer}"
        return Enforcement(self._other, "Starting", message)

    @property
    def _other(self) -> Way:
        """Who enforces a policy that the API server does not, while it is to enforce: the webhook until it goes."""
        return "Webhook" if self._settings.webhook and not self.moved else "None"

    async def _bring(self, namespace: str, wanted: PolicySet, document: Object, there: Kept | None) -> str | None:
        """Have a set in force; what the API server answers in its place, empty when it is, None while that is open."""
        digest, written, now = _digest(document), self._written.get(namespace), self._machine.monotonic()
        behind = written is not None and (there is None or older(there.version, written.version))
        if not (behind and written is not None and written.digest == digest):  # else the index has it in a moment
            if behind or there is None or there.digest != digest:
                if not behind and self._proved.get(namespace) == digest:
                    self.repairs += 1
                    log.warning("a set was changed or deleted by somebody, writing it again", namespace=namespace)
                meta = await self._apply(SETS, namespace, document)
                written = _Written(digest, read_version(meta["resourceVersion"]), now)
                self._written[namespace] = written
                self._proved.pop(namespace, None)
            elif written is None or written.digest != digest:
                written = _Written(digest, there.version, float("-inf"))
        if self._proved.get(namespace) == digest:
            return ""
        since = max(written.since, self._changed)
        if now < since + SPREAD_SECONDS:
            return None
        answer = await self._unseen(namespace, wanted)
        if not answer:
            self._proved[namespace] = digest
            self._wake.set()
        elif now < since + UNSEEN_SECONDS:
            return None
        else:
            log.error("a set of policies is not seen to be in force", namespace=namespace, answer=answer)
        return answer

    async def _unseen(self, namespace: str, wanted: PolicySet) -> str:
        """Ask by a dry run whether a set is in force; the answer if not, empty when it is."""
        if len(self.found) < self._objects:
            return "the admission policies are not written yet"
        answer, warnings = await self._dry_run(namespace)
        if f"{wanted.version} {wanted.version}" not in answer:
            return answer
        if wanted.tells and not any(wanted.version in warning for warning in warnings):
            return NOTHING_TOLD
        return ""

    async def _dry_run(self, namespace: str) -> tuple[str, Sequence[str]]:
        """Return the answer to the dry run, and its warnings. Raises Unreachable."""
        body = msgspec.json.encode({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": SEEN_NAME}})
        query = urlencode({"fieldManager": FIELD_MANAGER, "force": "true", "dryRun": "All"})
        path = CONFIG_MAPS.path(namespace, SEEN_NAME)
        try:
            await self._client.request("PATCH", path, query=query, body=body, content_type=APPLY)
        except ApiError as error:
            return str(error)[:500], error.warnings
        return "the object was let in", ()

    # -- the release -------------------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Look at the whole: something may have changed."""
        self._wake.set()

    async def run(self) -> None:
        """Keep the way of the release in force until cancelled."""
        while True:
            self._wake.clear()
            try:
                await self._look()
                wait = LOOK_SECONDS
            except (ApiError, Unreachable) as error:
                self._say("what enforces policies can't be read or written, trying again", str(error))
                wait = RETRY_SECONDS
            await asyncio.sleep(GATHER_SECONDS)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._wake.wait()

    def _say(self, told: str, reason: str) -> None:
        if reason != self._said:
            log.warning(told, reason=reason[:300])
        self._said = reason

    async def _look(self) -> None:
        before = self.native, bool(self.found), self.moved, self._away
        self._missing, kinds = await self._discover()
        try:
            self.found = {key: one for kind in kinds for key, one in await self._list(kind)}
            if self.native:
                await self._write()
        except ApiError as error:
            if error.status not in (403, *REFUSALS) or (error.status == 403 and self.moved):
                raise  # without rights, what is in force stays
            self._missing = f"the API server does not take the admission policies: {str(error)[:300]}"
            if error.status != 403:
                self._refused = self._missing
        if self._missing and self._settings.enforcement != "webhook":
            self._say("policies are not enforced by the API server itself", self._missing)
        if self.native:
            if self._known.is_set() and not self.moved and self._all_proved():
                await self._write(now_moved=True)
                log.info("policies are enforced by the API server itself")
            if self.moved:
                await self._drop_webhooks()
        elif self.found and await self._is_left():
            for kind in reversed(KINDS):
                for key, one in self.found.items():
                    if key[0] == kind:
                        await self._remove(KINDS[kind].path(None, key[1]), one["metadata"]["uid"])
                if kind.startswith("Mutating"):
                    await asyncio.sleep(PAUSE_SECONDS / 2)
            self.found = {}
            log.info("policies are left to the webhook")
        self._away = "" if self.native else await self._webhook_away()
        self._known.set()
        if before != (self.native, bool(self.found), self.moved, self._away):
            self._look_everywhere()

    def _all_proved(self) -> bool:
        """Return whether the sets of all namespaces that have policies are seen to be in force."""
        namespaces = self._everywhere()
        return namespaces is not None and self._proved.keys() >= set(namespaces)

    async def _webhook_away(self) -> str:
        """Return why the webhook does not enforce; empty when it does, or is not asked to. One late answer is none."""
        if not self._settings.webhook or self._settings.enforcement == "native":
            return ""
        problem = await self._webhook_problem()
        if problem and not self._away:
            await asyncio.sleep(RETRY_SECONDS)
            problem = await self._webhook_problem()
        if problem and problem != self._away:
            log.error("nobody enforces policies", reason=problem[:300])
        return problem

    async def _is_left(self) -> bool:
        """Return whether the admission policies can go. Until then sets are kept as they should be."""
        if self._settings.enforcement != "webhook":
            return True
        problem = await self._webhook_problem()
        if problem:
            self._say("the API server enforces policies until the webhook can", problem)
        return not problem

    async def _discover(self) -> tuple[str, list[str]]:
        """Return why the API server can't enforce policies by itself (empty when it can), and which kinds it has."""
        plurals = await served(self._client, VALIDATING_POLICIES.root)
        found = [kind for kind, resource in KINDS.items() if resource.plural in plurals]
        gone = sorted({resource.plural for resource in KINDS.values()} - plurals)
        if gone:
            return f"the API server has no {', '.join(gone)} (Kubernetes 1.36 and newer have)", found
        return self._refused, found

    async def _list(self, kind: str) -> list[tuple[Key, Object]]:
        ours = {"labelSelector": self._settings.selector}
        found = [msgspec.json.decode(item) async for item in list_items(self._client, KINDS[kind].path(), ours)]
        return [((kind, one["metadata"]["name"]), one) for one in found]

    async def _write(self, *, now_moved: bool = False) -> None:
        """Make the admission policies and bindings what they should be. `now_moved`: the webhook can go from now on."""
        settings = self._settings
        moved = now_moved or self.moved
        owners = await self._owners()
        wanted = admission_policies(settings.release, await self._myself(), settings.exempt, stamp=settings.stamp)
        self._objects = len(wanted)
        for one in wanted:
            key = one["kind"], one["metadata"]["name"]
            meta = {**one["metadata"], **({"ownerReferences": owners} if owners else {})}
            if key == self._binding and moved:
                meta["annotations"] = {IN_FORCE: "true"}
            before = self.found.get(key)
            if before is not None and _means(before, {**one, "metadata": meta}, key == self._binding):
                continue
            if key[0] == "MutatingAdmissionPolicy" and before is None:
                await asyncio.sleep(PAUSE_SECONDS)
            self.repairs += self._known.is_set() and not now_moved
            self.found[key] = {**one, "metadata": await self._apply(KINDS[key[0]], None, {**one, "metadata": meta})}
            self._changed = self._machine.monotonic()
            if key == self._binding and before is None:
                self._proved.clear()
            log.info("admission policy written", kind=key[0], name=key[1])

    async def _owners(self) -> list[Object]:
        """Return the ClusterRole with which the garbage collector removes the objects; a new role has a new uid."""
        name = self._settings.owner
        if name:
            try:
                uid = read_answer(await self._client.get(CLUSTER_ROLES.path(None, name)), partial.decode).metadata.uid
            except ApiError as error:
                if error.status not in (403, 404):
                    raise
                log.error("the owner of admission policies can't be read", owner=name, error=str(error)[:300])
            else:
                head = {"apiVersion": CLUSTER_ROLES.api_version, "kind": CLUSTER_ROLES.kind}
                self._owner = [{**head, "name": name, "uid": uid}]
        return self._owner

    async def _myself(self) -> str:
        """Return the user that the API server takes us for: nobody else may write sets."""
        if not self._user:
            body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
            answer = msgspec.json.decode(await self._client.create(MYSELF, msgspec.json.encode(body)))
            self._user = str(answer["status"]["userInfo"]["username"])
        return self._user

    async def _drop_webhooks(self) -> None:
        if not self._settings.webhook:
            return
        for resource in WEBHOOKS:
            await self._remove(resource.path(None, self._settings.webhook))

    async def _webhook_problem(self) -> str:
        """Return why the webhook can't take over; empty when it enforces already."""
        name = self._settings.webhook
        if not name:
            return "there is no webhook"
        for resource in WEBHOOKS:
            try:
                found = read_answer(await self._client.get(resource.path(None, name)), _configuration)
            except ApiError as error:
                if error.status not in (403, 404):
                    raise
                return str(error)
            if not found.webhooks or not all(one.client_config.get("caBundle") for one in found.webhooks):
                return f"{resource.plural} {name} has no caBundle yet"
        where = next((one for one in OPEN if one not in self._settings.exempt), "")
        answer = (await self._dry_run(where))[0] if where else ""
        return "" if not where or _ANSWERED.search(answer) else f"the webhook does not answer a dry run: {answer}"

    # -- requests ----------------------------------------------------------------------------------------------------

    async def _apply(self, resource: Resource, namespace: str | None, wanted: Object) -> Object:
        """Apply one object; its metadata."""

        def means(found: Object) -> bool:
            return same(found.get("spec"), wanted["spec"])

        found = await apply(self._client, resource, namespace, wanted, FIELD_MANAGER, means)
        self.writes += 1
        written: Object = found["metadata"]
        return written

    async def _remove(self, path: str, uid: str = "") -> None:
        """Delete an object, if it is there; `uid` empty: whichever it is."""
        options: Object = {"kind": "DeleteOptions", "apiVersion": "v1"}
        if uid:
            options["preconditions"] = {"uid": uid}
        try:
            await self._client.delete(path, msgspec.json.encode(options))
        except ApiError as error:
            if error.status not in (404, 409):
                raise
        else:
            self.writes += 1


def _digest(document: Mapping[str, Any]) -> bytes:
    """Return what has to be the same of a set: what others add to its metadata is theirs."""
    meta = document["metadata"]
    owners = sorted(one["uid"] for one in meta.get("ownerReferences") or ())
    marks = [
        {key: value for key, value in (meta.get(field) or {}).items() if key.startswith(f"{GROUP}/")}
        for field in ("labels", "annotations")
    ]
    return sha256(msgspec.json.encode([owners, marks], order="deterministic")).digest()


def _means(found: Object, wanted: Object, annotated: bool) -> bool:
    """Return whether an admission policy or binding is as it should be."""
    before, after = found["metadata"], wanted["metadata"]
    owners = {one["uid"] for one in before.get("ownerReferences") or ()}
    return (
        same(found.get("spec"), wanted["spec"])
        and all((before.get("labels") or {}).get(key) == value for key, value in after["labels"].items())
        and owners >= {one["uid"] for one in after.get("ownerReferences", ())}
        and (not annotated or _mark(before) == _mark(after))
    )


def _mark(meta: Object) -> Any:
    return (meta.get("annotations") or {}).get(IN_FORCE)
