"""The policies that the API server enforces in truth, because the objects are there that the operator has written.

A policy's status says `Native`, and goes on to say so when the operator is removed, whose objects then go as well. So a
replica leaves a policy out only while both say so. All four objects of a namespace have to be there (the policy and the
binding of either half), of one release, and each has to name the policy. Only metadata is kept.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

import msgspec
import structlog

from podberth.kube.client import Client
from podberth.kube.errors import ApiError
from podberth.kube.machine import MACHINE, Machine
from podberth.kube.objects import Change, Deleted, MarkedMeta, Partial
from podberth.kube.reflector import Reflector, follow
from podberth.kube.resources import Resource
from podberth.policy.native.compile import NAMESPACE_LABEL, POLICIES, RELEASE_LABEL, name_of

KINDS = tuple(
    Resource("admissionregistration.k8s.io", "v1", f"{half.lower()}admission{plural}", False, f"{half}Admission{kind}")
    for half in ("Validating", "Mutating")
    for kind, plural in (("Policy", "policies"), ("PolicyBinding", "policybindings"))
)

log = structlog.get_logger("natives")


class _Object(Partial):
    metadata: MarkedMeta


class _Said(msgspec.Struct, frozen=True):
    namespace: str
    release: str
    policies: frozenset[str]


_decode = msgspec.json.Decoder(_Object).decode


class Natives:
    """`changed(namespace)` is called when something else is enforced there."""

    def __init__(self, client: Client, changed: Callable[[str], None], machine: Machine = MACHINE) -> None:
        self._client = client
        self._changed = changed
        self._machine = machine
        self._found: dict[tuple[str, str], _Said] = {}
        self._here: defaultdict[str, dict[tuple[str, str], _Said]] = defaultdict(dict)
        self._trusted = True
        """Until it is known which objects there are, the statuses count."""

    async def run(self) -> None:
        """Follow the objects until cancelled."""
        reflectors = [
            Reflector(
                self._client,
                kind,
                _decode,
                lambda changes, replaced, kind=kind: self._deliver(kind.kind, changes),  # type: ignore[misc]
                label_selector=RELEASE_LABEL,
                on_refused=self._refused,
                rng=self._machine.chance,
                clock=self._machine.monotonic,
            )
            for kind in KINDS
        ]
        await follow(reflectors, self._trust_no_more)

    def enforces(self, namespace: str, policy: str) -> bool:
        """Return whether objects for this policy of this namespace are there."""
        if self._trusted:
            return True
        found: defaultdict[str, set[str]] = defaultdict(set)
        for (kind, _), said in self._here.get(namespace, {}).items():
            if policy in said.policies:
                found[said.release].add(kind)
        return any(len(kinds) == len(KINDS) for kinds in found.values())

    def _deliver(self, kind: str, changes: Iterable[Change[_Object]]) -> None:
        for change in changes:
            key = kind, change.name if isinstance(change, Deleted) else change.object.name
            before = self._found.pop(key, None)
            if before is not None:
                del self._here[before.namespace][key]
                if not self._here[before.namespace]:
                    del self._here[before.namespace]
            now = None if isinstance(change, Deleted) else _said(key[1], change.object.metadata)
            if now is not None:
                self._found[key] = self._here[now.namespace][key] = now
            if before != now and not self._trusted:
                for namespace in {one.namespace for one in (before, now) if one is not None}:
                    self._changed(namespace)

    def _refused(self, kind: Resource, error: ApiError | None) -> None:
        if error is not None:
            log.error(
                "admission policies can't be watched: what the API server enforces is judged here as well",
                kind=kind.kind,
                error=str(error)[:300],
            )
            self._trust_no_more()

    def _trust_no_more(self) -> None:
        if self._trusted:
            self._trusted = False
            self._changed("")


def _said(name: str, meta: MarkedMeta) -> _Said | None:
    """Return what an object says of itself; None for those of modes warn and observe, which refuse
    and write nothing.
    """
    labels, annotations = meta.labels or {}, meta.annotations or {}
    namespace = labels.get(NAMESPACE_LABEL, "")
    if not namespace or not name.endswith(name_of("", namespace)):
        return None
    return _Said(namespace, labels.get(RELEASE_LABEL, ""), frozenset(annotations.get(POLICIES, "").split()))
