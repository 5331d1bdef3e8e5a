"""One review, from its bytes to the answer's: which policies apply, what they say, and the owner guard's question.

Small reviews are answered in the event loop (a tenth of a millisecond); big ones are decoded and judged in a thread,
so that nobody waits behind them. Next stage: `scheduler.policy.evaluate`. Nothing here has side effects but counts, and
a dry run is not counted.
"""

from __future__ import annotations

import asyncio
from functools import partial

import msgspec
import structlog

from scheduler.model.selectors import LabelSelector
from scheduler.policy import guard, objects
from scheduler.policy.admission import promises, review
from scheduler.policy.admission.cache import PolicyCache
from scheduler.policy.admission.owners import Owners
from scheduler.policy.admission.review import MalformedError, Request, ReviewError
from scheduler.policy.admission.tally import Tallies
from scheduler.policy.evaluate import OPERATIONS, evaluate
from scheduler.policy.options import Options, Pass
from scheduler.policy.verdict import Verdict, warnings

THREAD_BYTES = 64 << 10
"""From this size on, decoding and judging may take milliseconds: somebody may send a pod of 10,000 containers."""

log = structlog.get_logger("admission")


class Answer(msgspec.Struct, frozen=True):
    """HTTP status and body; `outcome` is one word for the metrics."""

    status: int
    body: bytes
    outcome: str
    operation: str = ""


class Reviewer:
    """Answers reviews from one policy cache. `own_namespace` and `exempt` are namespaces without policies."""

    def __init__(
        self,
        cache: PolicyCache,
        owners: Owners,
        *,
        own_namespace: str,
        exempt: tuple[str, ...] = (),
        allowed_prefixes: tuple[str, ...] = (),
    ) -> None:
        self.live_schedulers: frozenset[str] | None = None
        self.guard_failures = 0
        self.tallies = Tallies()
        self._cache = cache
        self._owners = owners
        self._own_namespace = own_namespace
        self._exempt = frozenset(exempt)
        self._allowed_prefixes = allowed_prefixes

    async def answer(self, body: bytes, pass_: Pass) -> Answer:
        """The answer to a review: never an exception for what the bytes hold, never yes to what is not understood."""
        big = len(body) >= THREAD_BYTES
        try:
            request = await asyncio.to_thread(review.read, body) if big else review.read(body)
        except ReviewError as error:
            return Answer(400, str(error).encode("utf-8", "replace"), "malformed")
        except MalformedError as error:
            return _refusal(error.uid, str(error))
        operation = next((known for known in OPERATIONS if known == request.operation), None)
        if operation is None:
            return _refusal(request.uid, f"request.operation: want one of {', '.join(OPERATIONS)}")
        if request.namespace in self._exempt:
            done = review.answer(
                request.uid, allowed=True, audit={"exempt": f"namespace {request.namespace} is exempt"}
            )
            return Answer(200, done, "exempt", operation)
        held = self._cache.of(request.namespace)
        options = self._options(request, pass_)
        judge = partial(evaluate, held.policies, operation, request.object, request.old)
        found = await asyncio.to_thread(judge, options) if big else judge(options)
        said: list[str] = []
        if request.owners and (guard.matters(found) or held.policies.warns_of_labels):
            options = msgspec.structs.replace(options, owner_selectors=await self._guard(request, said))
            if options.owner_selectors:
                found = await asyncio.to_thread(judge, options) if big else judge(options)
        if found.effects and not request.dry_run:
            self.tallies.add(found.effects, held.uids, pass_)
        if found.exempt is None:
            said += [f'MetadataPolicy "{name}" is not accepted, and not applied' for name in held.refused]
        if not found.allowed:
            self._log_denial(request, found, pass_)
        elif pass_ == "validate" and found.exempt is None and (wrong := promises.problem(request)) is not None:
            return Answer(200, review.answer(request.uid, allowed=False, code=403, message=wrong), "denied", operation)
        encoded = review.answer(
            request.uid,
            allowed=found.allowed,
            code=found.code,
            message=found.message,
            patch=found.patch if pass_ == "mutate" else (),
            warnings=warnings([*said, *found.warnings]) if said else found.warnings,
            audit=found.audit,
        )
        return Answer(200, encoded, _outcome(found), operation)

    def _options(self, request: Request, pass_: Pass) -> Options:
        return Options(
            namespace=request.namespace,
            own_namespace=self._own_namespace,
            sub_resource=request.sub_resource,
            user_info=request.user,
            dry_run=request.dry_run,
            pass_=pass_,
            allowed_prefixes=self._allowed_prefixes,
            live_schedulers=self.live_schedulers,
        )

    async def _guard(self, request: Request, said: list[str]) -> tuple[LabelSelector, ...]:
        """What the object's owners select by. When that can't be known, no label that is there is overwritten: a
        ReplicaSet that loses its pods makes new ones without end; a label not written is seen, and said.
        """
        try:
            return await self._owners.selectors(request.namespace, request.owners)
        except guard.OwnerUnknownError as error:
            self.guard_failures += 1
            log.warning("owner could not be read, its labels are left alone", owner=str(error))
            said.append(f"owner could not be read, labels that are there are left alone: {error}")
            return guard.everything(objects.snapshot(request.object).labels)

    def _log_denial(self, request: Request, found: Verdict, pass_: Pass) -> None:
        """Who was refused by which rules; no label or annotation of the object, those may hold secrets."""
        log.info(
            "denied",
            kind=request.kind[:80],
            group=request.group[:80],
            namespace=request.namespace[:80],
            name=request.name[:253],
            operation=request.operation,
            rules=found.audit.get("rejected-by", ""),
            dry_run=request.dry_run,
            **{"pass": pass_},
        )


def _refusal(uid: str, text: str) -> Answer:
    return Answer(200, review.answer(uid, allowed=False, code=400, message=text), "malformed")


def _outcome(found: Verdict) -> str:
    if not found.allowed:
        return "denied"
    if found.exempt is not None:
        return "exempt"
    return "mutated" if found.patch else "allowed"
