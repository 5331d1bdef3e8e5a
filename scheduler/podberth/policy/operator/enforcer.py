"""Has the API server enforce the policies of a namespace by itself, where it can.

The release's switch says who enforces. A move to the other way is: write the new one, wait until it is in force, take
the old one away. What is done depends on nothing but what is stored, so another replica goes on where one ended:

- *To the API server.* The objects are written. Once a dry run in the namespace is answered by them, the statuses say
  Native. Only then does the webhook leave the policies out.
- *To the webhook.* The statuses say Webhook, and from then on the webhook judges the policies. The objects stay until
  that is `HANDOVER_SECONDS` ago and the webhook configurations have covered the namespace for as long.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
import structlog

from podberth.kube.client import Client, read_answer
from podberth.kube.errors import ApiError
from podberth.kube.objects import partial
from podberth.policy import bounds
from podberth.policy.native.compile import POLICIES, Compiled, compile_namespace
from podberth.policy.operator.covering import Covering
from podberth.policy.operator.judge import Stored
from podberth.policy.operator.natives import KINDS, Natives, RefusedError, digests
from podberth.policy.operator.settings import Settings
from podberth.policy.operator.ways import Enforcement, Rules, since_of, way_of, ways
from podberth.policy.spec import Policies

IN_FORCE_SECONDS = 3.0
"""From a write until API servers use it that the dry run did not reach: each looks for changes once a second."""
UNSEEN_SECONDS = 10.0
"""After a write; then what the API server answers instead is said, and it is asked less often."""
HANDOVER_SECONDS = 3.0
MOST_NAMESPACES = 100
"""So many namespaces may have natively enforced policies. The API server asks their objects in every request whether
they are meant, so they cost all tenants something."""
OWNER_SECONDS = 60.0
AGAIN_SECONDS = 1.0
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
TOO_MANY = f"policies are enforced by the API server in {MOST_NAMESPACES} namespaces already, which is the most"
REFUSED = "the API server refuses what the policy is in CEL"

log = structlog.get_logger("enforcer")
Object = dict[str, Any]


class Enforced(msgspec.Struct, frozen=True):
    """The enforcement of each policy, and the seconds after which to look again (0: when something changes)."""

    ways: Mapping[str, Enforcement]
    again: float = 0.0
    writes: int = 0
    size: int = 0


class _Split(msgspec.Struct, frozen=True):
    """The result of compiling a namespace's policies, without the objects themselves."""

    basis: object
    native: frozenset[str]
    stays: Mapping[str, tuple[str, str]]
    version: str
    digests: dict[tuple[str, str], bytes]


class Enforcer:
    """`leading` is asked before each write."""

    def __init__(
        self,
        client: Client,
        settings: Settings,
        natives: Natives,
        leading: Callable[[], bool],
        *,
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.natives = natives
        self._client = client
        self._settings = settings
        self._leading = leading
        self._wall = wall
        self._monotonic = monotonic
        self._covering = Covering(client, settings.webhook, monotonic)
        self._split: dict[str, _Split] = {}
        self._entering: set[str] = set()
        """Namespaces that are looked at, and may get their first objects."""
        self._refused: dict[str, dict[tuple[str, int], str]] = {}
        """Namespace → uid and generation of policies whose objects the API server refused, and what it said."""
        self._owner: tuple[float, list[Object]] = (float("-inf"), [])

    @property
    def namespaces(self) -> frozenset[str]:
        """Return the namespaces that have admission policies of ours."""
        return self.natives.namespaces

    async def enforce(self, namespace: str, stored: Sequence[Stored]) -> Enforced | None:
        """Do what is due in a namespace; None when nothing can be said of its policies now.

        Raises ApiError and Unreachable.
        """
        await self.natives.known()
        if any(one.unread for one in stored):
            return None  # nobody knows what they say: what is in force stays
        rules = Rules(self._settings.enforcement, bool(self._settings.webhook), self.natives.missing)
        exempt = namespace in self._settings.exempt
        policies = [] if exempt or not rules.native else [one for one in stored if one.policy is not None or one.over]
        if not rules.missing:
            try:
                return await self._bring(namespace, rules, stored, policies, exempt)
            finally:
                self._entering.discard(namespace)
        nobody: frozenset[str] = frozenset()
        return Enforced(ways(rules, stored, exempt=exempt, native=nobody, stays={}, in_force=False, written=False))

    def _full(self, namespace: str) -> bool:
        """Return whether there is no room for this namespace; else it has its place until `_bring` ends."""
        if self.natives.holds(namespace):
            return False
        held = self.natives.namespaces | self._entering
        self._entering.add(namespace)
        return namespace not in held and len(held) >= MOST_NAMESPACES

    async def _bring(
        self, namespace: str, rules: Rules, stored: Sequence[Stored], policies: Sequence[Stored], exempt: bool
    ) -> Enforced:
        before = self.natives.writes
        again, size = 0.0, 0
        while True:
            split, objects = await self._compiled(namespace, rules, policies)
            if objects is None:
                break
            size += sum(len(msgspec.json.encode(one)) for one in objects)
            again = await self._hold(namespace, rules, stored, split)
            if again or not self._leading():
                break
            try:
                again = await self.natives.bring(namespace, objects)
                break
            except ApiError as error:
                if error.status not in (403, 404):
                    raise
                self.natives.give_up(str(error))
                again = AGAIN_SECONDS
                break
            except RefusedError as error:
                await self._find_refused(namespace, policies, split.native, error)
        written = not again and self.natives.as_wanted(namespace, split.digests)
        in_force, answer = written, ""
        if written and split.native:
            again, answer = await self._seen(namespace, split.version)
            in_force = not again
        if not stored:
            self._split.pop(namespace, None)
            self._refused.pop(namespace, None)
        found = ways(
            rules,
            stored,
            exempt=exempt,
            native=split.native,
            stays=split.stays,
            in_force=in_force,
            written=written,
            answer=answer,
        )
        return Enforced(found, again, self.natives.writes - before, size)

    async def _seen(self, namespace: str, version: str) -> tuple[float, str]:
        """Seconds after which to look again whether what was written is in force, 0 when it is; and what speaks
        against it, once that has lasted.
        """
        answer = await self.natives.unseen(namespace, version)
        settled = self.natives.settled(namespace)
        if not answer:
            return max(IN_FORCE_SECONDS - settled, 0.0), ""
        if settled < UNSEEN_SECONDS:
            return AGAIN_SECONDS, ""
        log.error("admission policies are not seen to be in force", namespace=namespace, answer=answer)
        return UNSEEN_SECONDS, answer

    # -- what it should be ---------------------------------------------------------------------------------------

    async def _compiled(
        self, namespace: str, rules: Rules, policies: Sequence[Stored]
    ) -> tuple[_Split, list[Object] | None]:
        """Return what should be there, and the objects; None when they are there as they should be."""
        refused = self._refused.get(namespace, {})
        names = {one.name: refused[_version(one)] for one in policies if _version(one) in refused}
        owners = await self._owners()
        full = self._full(namespace)
        versions = frozenset((_version(one), one.over) for one in policies)
        basis = versions, rules, tuple(names.items()), str(owners), full
        kept = self._split.get(namespace)
        if kept is not None and kept.basis == basis and self.natives.as_wanted(namespace, kept.digests):
            return kept, None
        compiled = Compiled((), {}, {})
        if not full:
            compiled = await asyncio.to_thread(self._compile, namespace, policies, names)
        objects = [self._marked(one, compiled.native, owners) for one in compiled.objects]
        stays = {name: ("Refused" if name in names else "NotNative", why) for name, why in compiled.left.items()}
        if full:
            stays = {one.name: ("TooManyNamespaces", TOO_MANY) for one in policies}
        split = self._split[namespace] = _Split(
            basis, frozenset(compiled.native), stays, compiled.version, digests(objects)
        )
        return split, objects

    def _compile(self, namespace: str, policies: Sequence[Stored], refused: Mapping[str, str]) -> Compiled:
        accepted = Policies(one.policy for one in policies if one.policy is not None)
        closed = bounds.CLOSED if any(one.closes for one in policies) else ""
        settings = self._settings
        return compile_namespace(
            accepted,
            namespace,
            settings.release,
            settings.reserved,
            refused=refused,
            stamp=settings.stamp,
            closed=closed,
        )

    def _marked(self, one: Object, names: Sequence[str], owners: list[Object]) -> Object:
        """An object with its owner, and with the policies that it enforces."""
        meta = {**one["metadata"], "annotations": {POLICIES: " ".join(names)}}
        if owners:
            meta["ownerReferences"] = owners
        return {**one, "metadata": meta}

    async def _owners(self) -> list[Object]:
        """The ClusterRole with which the garbage collector removes the objects; a role made again has another uid."""
        name = self._settings.owner
        now = self._monotonic()
        if name and now - self._owner[0] >= OWNER_SECONDS:
            try:
                uid = read_answer(await self._client.get(f"{ROLES}/{name}"), partial.decode).metadata.uid
            except ApiError as error:
                if error.status not in (403, 404):
                    raise
                log.error("the owner of admission policies can't be read", owner=name, error=str(error)[:300])
                self._owner = now, self._owner[1]
                return self._owner[1]
            owner = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": name, "uid": uid}
            self._owner = now, [owner]
        return self._owner[1]

    # -- what stands in the way ----------------------------------------------------------------------------------

    async def _hold(self, namespace: str, rules: Rules, stored: Sequence[Stored], split: _Split) -> float:
        """Seconds for which the objects have to stay as they are; 0 when they may be written.

        They stay until the webhook has taken over, where policies move there.
        """
        if rules.native or not rules.falls_back:
            return 0.0
        enforced = self.natives.policies(namespace)
        leaving = [one for one in stored if one.policy is not None and one.name in enforced - split.native]
        if not leaving:
            self._covering.forget(namespace)
            return 0.0
        covered = await self._covering.since(namespace)
        if covered < HANDOVER_SECONDS or not all(self._told(one) for one in leaving):
            return AGAIN_SECONDS
        return 0.0

    def _told(self, one: Stored) -> bool:
        """Return whether the webhook knows for long enough that this policy is its own."""
        if way_of(one.status) != "Webhook":
            return False
        try:
            since = datetime.fromisoformat(since_of(one.status)).timestamp()
        except ValueError:
            return True  # nobody but us writes it; the webhook configurations were waited for as well
        return not 0 <= self._wall() - since < HANDOVER_SECONDS + 1

    async def _find_refused(
        self, namespace: str, stored: Sequence[Stored], native: frozenset[str], error: RefusedError
    ) -> None:
        """Find the policies whose objects the API server refuses; where no single one is, all of them together are."""
        known = set(map(_version, stored))
        policies = [one for one in stored if one.name in native]
        found = {one: why for one, why in self._refused.get(namespace, {}).items() if one in known}
        self._refused[namespace] = found
        before = len(found)
        for one in policies if len(policies) > 1 else ():
            compiled = await asyncio.to_thread(self._compile, namespace, [one], {})
            try:
                for made in compiled.objects:
                    body = msgspec.json.encode(made)
                    await self.natives.apply(KINDS[made["kind"]], made["metadata"]["name"], body, dry_run=True)
            except RefusedError as alone:
                found[_version(one)] = f"{REFUSED}: {alone}"
        if len(found) == before:
            found |= {_version(one): f"{REFUSED}: {error}" for one in policies}
        log.error("the API server refuses the admission policies of a namespace", namespace=namespace, error=str(error))


def _version(one: Stored) -> tuple[str, int]:
    return one.uid, one.generation
