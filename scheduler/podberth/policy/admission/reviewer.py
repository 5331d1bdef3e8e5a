"""One review, from its bytes to the answer's: when it is judged, and what is said.

What is cheap is judged at once (a tenth of a millisecond): a small review of a namespace whose policies cost little.
All else waits for its namespace's turn (`turns`), so that others wait for one such review and never for several.
Nothing here has side effects.
"""

from __future__ import annotations

import msgspec
import structlog
from msgspec import structs

from podberth.model.promise import ANNOTATION, parse_promise
from podberth.policy import bounds, keys
from podberth.policy.admission import review
from podberth.policy.admission.cache import PolicyCache
from podberth.policy.admission.group import KnownPolicies
from podberth.policy.admission.review import BIG_BYTES, Bytes, Hint, MalformedError, Request, ReviewError
from podberth.policy.admission.turns import NamespaceTurns, OverloadedError
from podberth.policy.evaluate import OPERATIONS, Patch, Verdict, evaluate, warnings
from podberth.policy.native.requests import SEEN_NAME
from podberth.policy.objects import JsonObject
from podberth.policy.options import NO_OPTIONS, Options, Pass
from podberth.policy.spec import cut

CHEAP_UNITS = 512
"""The largest price of policies that are judged at once: about half a millisecond of a review (`bounds`)."""
PATIENCE = 1.5
"""Seconds that a review may wait for its turn: the API server waits three for the answer."""
IN_FORCE = "webhook"
"""The word by which either pass shows that it is in force."""
LONGEST_NOTE = 1024

log = structlog.get_logger("admission")


class ReviewReply(msgspec.Struct, frozen=True):
    """HTTP status and body; `outcome` is one word for the metrics."""

    status: int
    body: bytes
    outcome: str
    operation: str = ""


class Reviewer:
    """Answers reviews from one policy cache.

    `options` holds for all reviews, but for what each request says itself. No policy applies in the namespaces
    `exempt`.
    """

    def __init__(
        self,
        cache: PolicyCache,
        options: Options = NO_OPTIONS,
        exempt: frozenset[str] = frozenset(),
    ) -> None:
        self.live_schedulers: frozenset[str] | None = None
        self.turns = NamespaceTurns(1)
        self._cache = cache
        self._options = options
        self._exempt = exempt

    async def answer(self, body: Bytes, pass_: Pass) -> ReviewReply:
        """Return the answer to a review. It never raises for what the bytes hold, and never allows what is not
        understood.
        """
        if len(body) >= BIG_BYTES:
            hint = review.hint(body)
        else:
            request = _read(body)
            if isinstance(request, ReviewReply):
                return request
            if self._cache.of(request.namespace).units <= CHEAP_UNITS:
                return self._judged(request, pass_)
            hint = Hint(request.uid, request.namespace)
        try:
            async with self.turns.turn(hint.namespace, PATIENCE):
                request = _read(body)
                return request if isinstance(request, ReviewReply) else self._judged(request, pass_)
        except OverloadedError as error:
            return self.overloaded(hint, error)

    def overloaded(self, hint: Hint, error: OverloadedError) -> ReviewReply:
        """Return the answer when nobody's turn came. To a namespace that stands in its own way the answer is no, as
        others' objects would be let in unpoliced by a failurePolicy of Ignore; else the failurePolicy decides.
        """
        if not error.own or not hint.uid:
            return ReviewReply(503, b"too much is waiting\n", "overloaded")
        text = (
            f"the admission server has too much work from namespace {hint.namespace[:63]}: large objects, or policies "
            "that cost much; try again"
        )
        return _refusal(hint.uid, text, code=429, outcome="overloaded")

    def _judged(self, request: Request, pass_: Pass) -> ReviewReply:
        """Return what the policies of the request's namespace say."""
        operation = next(known for known in OPERATIONS if known == request.operation)
        if request.namespace in self._exempt:
            told = {"exempt": f"namespace {request.namespace} is exempt"}
            return ReviewReply(200, review.answer(request.uid, allowed=True, audit=told), "exempt", operation)
        if request.dry_run and (request.group, request.kind, request.name) == ("", "ConfigMap", SEEN_NAME):
            return _seen(request, pass_)
        held = self._cache.of(request.namespace)
        options = structs.replace(
            self._options,
            namespace=request.namespace,
            sub_resource=request.sub_resource,
            user_info=request.user,
            pass_=pass_,
            live_schedulers=self.live_schedulers,
        )
        found = evaluate(held.policies, operation, request.object, request.old, options)
        if held.closed and found.allowed and found.exempt is None:
            return _refusal(request.uid, bounds.CLOSED, code=403, outcome="denied", operation=operation)
        if not found.allowed:
            _log_denied(request, found, pass_)
        return _answer(request, found, pass_, held)


def _read(body: Bytes) -> Request | ReviewReply:
    """Return the request in a review, or the answer if it is malformed."""
    try:
        request = review.read(body)
    except ReviewError as error:
        return ReviewReply(400, str(error).encode("utf-8", "replace"), "malformed")
    except MalformedError as error:
        return _refusal(error.uid, str(error))
    if request.operation not in OPERATIONS:
        return _refusal(request.uid, f"request.operation: want one of {', '.join(OPERATIONS)}")
    return request


def _refusal(uid: str, text: str, *, code: int = 400, outcome: str = "malformed", operation: str = "") -> ReviewReply:
    """Return an answer that denies the request, whatever the policies say."""
    return ReviewReply(200, review.answer(uid, allowed=False, code=code, message=text), outcome, operation)


def _answer(request: Request, found: Verdict, pass_: Pass, held: KnownPolicies) -> ReviewReply:
    said = held.said if found.exempt is None else []
    if found.allowed and pass_ == "validate" and found.exempt is None and (wrong := _wrong_promise(request)):
        return _refusal(request.uid, wrong, code=403, outcome="denied", operation=request.operation)
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


def _outcome(found: Verdict) -> str:
    if not found.allowed:
        return "denied"
    if found.exempt is not None:
        return "exempt"
    return "mutated" if found.patch else "allowed"


def _log_denied(request: Request, found: Verdict, pass_: Pass) -> None:
    """Log the object and the rules, without labels and annotations: those may hold secrets."""
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


def _seen(request: Request, pass_: Pass) -> ReviewReply:
    """Return the answer to the operator's dry run: the validating pass refuses it, with what was noted before.

    The mutating pass adds its word to the annotation in which the API server's own policies note theirs. These refuse
    before the validating pass is asked, so while both ways are in force the word is in their refusal.
    """
    annotations = ((request.object or {}).get("metadata") or {}).get("annotations") or {}
    said = cut(f"{IN_FORCE} {annotations.get(keys.VERDICT, '')}".rstrip(), LONGEST_NOTE)
    if pass_ == "validate":
        return _refusal(request.uid, said, code=403, outcome="denied", operation=request.operation)
    patch = Patch(request.object or {})
    patch.merge("metadata", "annotations", {keys.VERDICT: said})
    return ReviewReply(
        200, review.answer(request.uid, allowed=True, patch=patch.operations), "mutated", request.operation
    )


def _wrong_promise(request: Request) -> str:
    """Return the problem with what a pod requires of its node while it runs; "" when there is none, or it is not new.

    Without the webhook the scheduler leaves such a pod pending and the evictor says so in an Event; both are later.
    """
    if (request.group, request.kind) != ("", "Pod") or request.sub_resource:
        return ""
    text = _promised(request.object)
    if text is None or text == _promised(request.old):
        return ""
    promise = parse_promise(text)
    return "" if promise is None or promise.problem is None else f"metadata.annotations: {promise.problem}"


def _promised(obj: JsonObject | None) -> str | None:
    annotations: dict[str, str] = ((obj or {}).get("metadata") or {}).get("annotations") or {}
    return annotations.get(ANNOTATION)
