"""Messages between the server and its workers: a header in msgpack, then the bytes that it is about.

Both ends are of one process image, so nothing here is a format that anybody else relies on.
"""

from __future__ import annotations

import struct

import msgspec

from podberth.policy import bounds
from podberth.policy.admission.judging import KnownPolicies, Question, Ruling, Terms, encoded, judge, read
from podberth.policy.admission.review import Bytes
from podberth.policy.parse import PolicyError, parse

LENGTHS = struct.Struct("!II")
"""The lengths of header and bytes, which are sent before both."""


class Rules(msgspec.Struct, frozen=True):
    """A namespace's `KnownPolicies` on its way to a worker."""

    specs: tuple[bytes, ...]
    refused: tuple[str, ...]
    left_out: int
    closed: bool


class Start(msgspec.Struct, frozen=True, tag="start"):
    """The first message to a worker: what holds for all reviews."""

    terms: Terms


class Review(msgspec.Struct, frozen=True, tag="review"):
    """Judge the review in the bytes. `rules` come when this worker does not have this version of them yet.

    `forget` names the namespaces whose rules are not needed any more.
    """

    namespace: str
    version: int
    question: Question
    rules: Rules | None = None
    forget: tuple[str, ...] = ()


class Parse(msgspec.Struct, frozen=True, tag="parse"):
    """Read the policy in the bytes, and compute its price."""


Job = Start | Review | Parse


class Parsed(msgspec.Struct, frozen=True):
    """A policy, as `KnownPolicies` keeps it, and its price; or the problem with it."""

    spec: bytes = b""
    problem: str = ""
    units: int = 0
    kind: int = 0


class Reply(msgspec.Struct, frozen=True):
    """The result of a job. `failed` is a traceback; `tired` says that the worker holds more memory than it should."""

    ruling: Ruling | None = None
    parsed: Parsed | None = None
    failed: str = ""
    exhausted: bool = False
    """True if it failed for want of memory, which is the job's doing and no bug."""
    tired: bool = False


def parsed(raw: Bytes | msgspec.Raw, allowed_prefixes: tuple[str, ...]) -> Parsed:
    """Return the policy in an object's bytes with its price, or the problem with it."""
    try:
        policy = parse(msgspec.json.decode(raw), allowed_prefixes)
    except PolicyError as error:
        return Parsed(problem=error.line)
    units, kind = bounds.price(policy)
    return Parsed(encoded(policy), "", units, kind)


def rules(held: KnownPolicies) -> Rules:
    """Return the part of the policies that a worker needs."""
    return Rules(held.specs, held.refused, held.left_out, held.closed)


def ruled(body: Bytes, namespace: str, held: KnownPolicies, terms: Terms, question: Question) -> Ruling:
    """Return the ruling on a review. One of another namespace than expected is not judged, only marked as
    `elsewhere`.
    """
    request = read(body)
    if isinstance(request, Ruling):
        return request
    if request.namespace != namespace:
        return Ruling(namespace=request.namespace, elsewhere=True)
    return judge(request, held, terms, question)


class Desk:
    """The state of one worker: the terms, and the rules of the namespaces that it knows."""

    def __init__(self) -> None:
        self._terms = Terms("")
        self._held: dict[str, tuple[int, KnownPolicies]] = {}

    @property
    def namespaces(self) -> frozenset[str]:
        """Return whose rules are here."""
        return frozenset(self._held)

    def do(self, job: Job, body: Bytes) -> Reply:
        """Do one job, and return its result."""
        match job:
            case Start():
                self._terms = job.terms
                return Reply()
            case Parse():
                return Reply(parsed=parsed(body, self._terms.allowed_prefixes))
        for namespace in job.forget:
            self._held.pop(namespace, None)
        if job.rules is not None:
            given = job.rules
            held = KnownPolicies(given.specs, given.refused, {}, given.left_out, given.closed)
            self._held[job.namespace] = (job.version, held)
        version, held = self._held[job.namespace]
        if version != job.version:
            raise KeyError(f"rules of {job.namespace}: version {version} is here, {job.version} is meant")
        return Reply(ruled(body, job.namespace, held, self._terms, job.question))
