"""Judges one review and returns plain data, in the server's own process or in a worker's.

Pure: no network, no clock, no log. `reviewer` asks here for what is cheap, `worker` for what is dear.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import msgspec

from podberth.policy import bounds
from podberth.policy.admission import promises, review
from podberth.policy.admission.review import Bytes, MalformedError, Request, ReviewError
from podberth.policy.evaluate import OPERATIONS, Effect, Verdict, evaluate, warnings
from podberth.policy.options import Options, Pass
from podberth.policy.spec import Policies, Policy

MOST_NAMED = 256
"""The largest number of refused policies of a namespace that warnings name."""


class ReviewReply(msgspec.Struct, frozen=True):
    """HTTP status and body; `outcome` is one word for the metrics."""

    status: int
    body: bytes
    outcome: str
    operation: str = ""


class Terms(msgspec.Struct, frozen=True):
    """Terms that hold for all reviews of a server. `own_namespace` and `exempt` are namespaces without policies."""

    own_namespace: str
    exempt: frozenset[str] = frozenset()
    allowed_prefixes: tuple[str, ...] = ()
    reserved_prefixes: tuple[str, ...] = ()
    reserve_known: bool = True
    stamp: bool = True


class KnownPolicies(msgspec.Struct, frozen=True, dict=True):
    """The policies that apply in a namespace, and the names of those that should and can't.

    Policies are kept as bytes (`encoded`), a tenth of what they are as objects, and made of them where they are asked:
    here if they cost little, else in a worker. `version` differs whenever the policies do. `closed`: one that rejects
    is left out, so nothing may come in.
    """

    specs: tuple[bytes, ...] = ()
    refused: tuple[str, ...] = ()
    uids: Mapping[str, str] = {}
    """Policy name → UID: counts belong to this object, and not to a later one of that name."""
    left_out: int = 0
    closed: bool = False
    units: int = 0
    version: int = 0

    @cached_property
    def policies(self) -> Policies:
        """The policies, to be asked."""
        return Policies(map(_decoded, self.specs))

    @property
    def said(self) -> list[str]:
        """Return the warnings about policies that do not apply, which every answer has."""
        found = [f'MetadataPolicy "{name}" is not accepted, and not applied' for name in self.refused]
        if self.left_out:
            found.append(
                f"{self.left_out} MetadataPolicies of this namespace are not applied: together they cost too much"
            )
        return found


def encoded(policy: Policy) -> bytes:
    """Return a policy's bytes as `KnownPolicies` keeps them."""
    return msgspec.msgpack.encode(policy)


_decoded = msgspec.msgpack.Decoder(Policy).decode


class Question(msgspec.Struct, frozen=True):
    """The options of one review. `live_schedulers` None: not known."""

    pass_: Pass
    live_schedulers: frozenset[str] | None = None


_NOT_YET = ReviewReply(500, b"", "failed")


class Ruling(msgspec.Struct):
    """The answer to a review, and what is to be counted and logged."""

    answer: ReviewReply = _NOT_YET
    namespace: str = ""
    effects: tuple[Effect, ...] = ()
    denied: dict[str, str | bool] | None = None
    """A refusal for the log: the object and the rules. It has no labels or annotations: those may hold secrets."""
    elsewhere: bool = False
    """True if the review is of `namespace`, for which the policies were not at hand: it is not judged yet."""


def read(body: Bytes) -> Request | Ruling:
    """Return the request in a review, or the answer if it is malformed."""
    try:
        request = review.read(body)
    except ReviewError as error:
        return Ruling(ReviewReply(400, str(error).encode("utf-8", "replace"), "malformed"))
    except MalformedError as error:
        return refusal(error.uid, str(error))
    if request.operation not in OPERATIONS:
        return refusal(request.uid, f"request.operation: want one of {', '.join(OPERATIONS)}")
    return request


def refusal(uid: str, text: str, *, code: int = 400, outcome: str = "malformed", operation: str = "") -> Ruling:
    """Return an answer that denies the request, whatever the policies say."""
    return Ruling(ReviewReply(200, review.answer(uid, allowed=False, code=code, message=text), outcome, operation))


def judge(request: Request, held: KnownPolicies, terms: Terms, question: Question) -> Ruling:
    """Return the ruling of the policies of the request's namespace. A request that is not understood is never
    allowed.
    """
    operation = next(known for known in OPERATIONS if known == request.operation)
    if request.namespace in terms.exempt:
        told = {"exempt": f"namespace {request.namespace} is exempt"}
        done = review.answer(request.uid, allowed=True, audit=told)
        return Ruling(ReviewReply(200, done, "exempt", operation), request.namespace)
    options = _options(request, terms, question)
    found = evaluate(held.policies, operation, request.object, request.old, options)
    said: list[str] = []
    if found.exempt is None:
        said += held.said
        if held.closed and found.allowed:
            return refusal(request.uid, bounds.CLOSED, code=403, outcome="denied", operation=operation)
    ruling = Ruling(_answer(request, found, question.pass_, said), request.namespace)
    if not request.dry_run:
        ruling.effects = found.effects
    if not found.allowed:
        ruling.denied = _denied(request, found, question.pass_)
    return ruling


def _answer(request: Request, found: Verdict, pass_: Pass, said: list[str]) -> ReviewReply:
    if found.allowed and pass_ == "validate" and found.exempt is None:
        wrong = promises.problem(request)
        if wrong is not None:
            refused = review.answer(request.uid, allowed=False, code=403, message=wrong)
            return ReviewReply(200, refused, "denied", request.operation)
    encoded = review.answer(
        request.uid,
        allowed=found.allowed,
        code=found.code,
        message=found.message,
        patch=found.patch if pass_ == "mutate" else (),
        warnings=warnings([*said, *found.warnings]) if said else found.warnings,
        audit=found.audit,
    )
    return ReviewReply(200, encoded, _outcome(found), request.operation)


def _options(request: Request, terms: Terms, question: Question) -> Options:
    return Options(
        namespace=request.namespace,
        own_namespace=terms.own_namespace,
        sub_resource=request.sub_resource,
        user_info=request.user,
        dry_run=request.dry_run,
        pass_=question.pass_,
        allowed_prefixes=terms.allowed_prefixes,
        reserved_prefixes=terms.reserved_prefixes,
        reserve_known=terms.reserve_known,
        stamp=terms.stamp,
        live_schedulers=question.live_schedulers,
    )


def _denied(request: Request, found: Verdict, pass_: Pass) -> dict[str, str | bool]:
    return {
        "kind": request.kind[:80],
        "group": request.group[:80],
        "namespace": request.namespace[:80],
        "name": request.name[:253],
        "operation": request.operation,
        "rules": found.audit.get("rejected-by", ""),
        "dry_run": request.dry_run,
        "pass": pass_,
    }


def _outcome(found: Verdict) -> str:
    if not found.allowed:
        return "denied"
    if found.exempt is not None:
        return "exempt"
    return "mutated" if found.patch else "allowed"
