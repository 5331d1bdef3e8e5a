"""The handlers of kopf: which changes lead to which reconciliation. Read this first.

Each handler reconciles the namespace that something happened in (`reconcile`). `memo` has the parts of the operator
that handlers ask (`replica`). What kopf keeps about a policy is in its `status.kopf`; no policy gets an annotation or
a finalizer. `kopf_limits` says what kopf does not do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import kopf

from podberth.kube.resources import METADATA_POLICIES
from podberth.policy.operator.enforcement import KINDS, SETS, Enforcer, Kept
from podberth.policy.operator.index import Index
from podberth.policy.operator.kopf_limits import STREAM_SECONDS, Essence, Session, tame_logging
from podberth.policy.operator.reconcile import Entry, Reconciler
from podberth.policy.operator.settings import Settings

POLICIES = METADATA_POLICIES.group, METADATA_POLICIES.version, METADATA_POLICIES.plural
OURS = SETS.version, SETS.plural
REGISTRY = kopf.get_default_registry()
WORKERS = 64
"""Objects of a kind that kopf handles at once. Each takes 30 KB while it is handled."""
RETRY_SECONDS = 60.0
"""After a fault that nobody foresaw."""


@dataclass
class Parts:
    """The memo of kopf: the parts of a replica that handlers ask."""

    settings: Settings
    session: Session
    policies: Index[Entry]
    sets: Index[Kept]
    reconciler: Reconciler
    enforcer: Enforcer


@kopf.on.startup()
async def configure(settings: kopf.OperatorSettings, memo: Parts, **_: Any) -> None:
    """Make all of kopf's settings."""
    tame_logging()
    settings.posting.enabled = False
    settings.peering.standalone = True
    settings.scanning.disabled = True
    settings.persistence.diffbase_storage = Essence(name="kopf")
    settings.persistence.progress_storage = kopf.StatusProgressStorage(name="kopf")
    settings.persistence.finalizer = "podberth.dev/never-set"  # kopf removes what it takes for its own; not the default
    settings.process.ultimate_exiting_timeout = 30.0
    settings.queueing.exit_timeout = 0.5
    settings.queueing.worker_limit = WORKERS
    settings.queueing.idle_timeout = 0.1
    settings.watching.server_timeout = STREAM_SECONDS  # an int: API servers refuse 55.0
    settings.watching.client_timeout = 2 * STREAM_SECONDS
    settings.watching.connect_timeout = 10.0
    settings.watching.chunk_size = 20  # a policy may have 1.5 MB, and take ten times that once it is read
    settings.networking.request_timeout = 30.0
    # Of kinds that others have objects of, only what matters is read.
    selectors = settings.watching.label_selectors
    selectors[OURS] = memo.settings.selector
    for kind in KINDS.values():
        selectors[kind.group, kind.version, kind.plural] = memo.settings.selector


@kopf.on.login(errors=kopf.ErrorsMode.TEMPORARY)
async def login(memo: Parts, **_: Any) -> kopf.AiohttpSession:
    """Connect as the rest of Berth does."""
    return await memo.session.open()


@kopf.on.resume(*POLICIES, backoff=RETRY_SECONDS)
@kopf.on.create(*POLICIES, backoff=RETRY_SECONDS)
@kopf.on.update(*POLICIES, backoff=RETRY_SECONDS)
async def reconcile(namespace: str | None, memo: Parts, **_: Any) -> None:
    """Reconcile the namespace of a policy that is there, or has another spec."""
    await memo.reconciler.look(str(namespace))


@kopf.on.event(*POLICIES)
async def notice(type: str | None, namespace: str | None, body: kopf.Body, memo: Parts, **_: Any) -> None:
    """Take note of a policy that is there, was deleted, or whose status somebody wrote."""
    if type == "DELETED":
        memo.policies.drop(str(namespace), body.metadata["uid"])
    else:
        memo.policies.put(body)
    if type in ("MODIFIED", "DELETED"):
        memo.reconciler.look_soon(str(namespace))


@kopf.on.event(*OURS)
async def repair(type: str | None, namespace: str | None, body: kopf.Body, memo: Parts, **_: Any) -> None:
    """Take note of a set that is there, or that we or somebody wrote or deleted."""
    if type == "DELETED":
        memo.sets.drop(str(namespace), body.metadata["uid"])
        memo.enforcer.forget(str(namespace))
    else:
        memo.sets.put(body)
    memo.reconciler.look_soon(str(namespace))


for _kind in KINDS.values():

    @kopf.on.event(_kind.group, _kind.version, _kind.plural)
    async def look(memo: Parts, **_: Any) -> None:
        """Look at the release: we or somebody wrote or deleted an admission policy or a binding."""
        memo.enforcer.wake()
