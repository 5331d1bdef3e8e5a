"""One review, from its bytes to the answer's: where it is judged, and what is counted.

What is cheap is judged in the event loop (a tenth of a millisecond): a small review of a namespace whose policies cost
little. All else waits for its namespace's slot `aside`, so that nobody waits behind it. What is said is `judging`'s.
Nothing here has side effects but counts, and a dry run is not counted.
"""

from __future__ import annotations

import asyncio

import structlog

from podberth.policy.admission import judging, review
from podberth.policy.admission.aside import Aside, WorkError
from podberth.policy.admission.cache import PolicyCache
from podberth.policy.admission.judging import KnownPolicies, Question, ReviewReply, Ruling
from podberth.policy.admission.lanes import OverloadedError
from podberth.policy.admission.review import Bytes, Hint, Request
from podberth.policy.admission.tally import Tallies
from podberth.policy.options import Pass

__all__ = ["ReviewReply", "Reviewer"]

BIG_BYTES = 64 << 10
"""The size from which on a review is decoded by a worker: a pod of 10,000 containers takes milliseconds."""
INLINE_UNITS = 1024
"""The largest price of policies that are judged in the server's process: about half a millisecond of a review
(`bounds`).
"""
PATIENCE = 1.5
"""Seconds that a review may wait for a slot aside: the API server waits three for the answer."""

log = structlog.get_logger("admission")


class Reviewer:
    """Answers reviews from one policy cache, in this process or by the workers."""

    def __init__(self, cache: PolicyCache, aside: Aside, tallies: Tallies | None = None) -> None:
        self.live_schedulers: frozenset[str] | None = None
        self.tallies = tallies or Tallies()
        self._cache = cache
        self._aside = aside

    async def answer(self, body: Bytes, pass_: Pass) -> ReviewReply:
        """Return the answer to a review. It never raises for what the bytes hold, and never allows what is not
        understood.
        """
        request: Request | None = None
        if len(body) < BIG_BYTES:
            read = judging.read(body)
            if isinstance(read, Ruling):
                return read.answer
            request, hint = read, Hint(read.uid, read.namespace)
        else:
            hint = review.hint(body)
        until = asyncio.get_running_loop().time() + PATIENCE
        try:
            held, ruling = await self._ruled(
                body, request, hint.namespace, Question(pass_, self.live_schedulers), until
            )
        except OverloadedError as error:
            return self.overloaded(hint, error)
        except WorkError as error:
            if not error.end or not hint.uid:
                raise
            text = "this object could not be judged with the time and memory that one review may have"
            return judging.refusal(hint.uid, text, code=413, outcome="failed").answer
        if ruling.effects:
            self.tallies.add(ruling.effects, held.uids, pass_)
        if ruling.denied is not None:
            log.info("denied", **ruling.denied)
        return ruling.answer

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
        return judging.refusal(hint.uid, text, code=429, outcome="overloaded").answer

    async def _ruled(
        self, body: Bytes, request: Request | None, namespace: str, question: Question, until: float
    ) -> tuple[KnownPolicies, Ruling]:
        """Return the ruling, and the policies that it used."""
        while True:
            held = self._cache.of(namespace)
            if request is not None and held.units <= INLINE_UNITS:
                ruling = judging.judge(request, held, self._aside.terms, question)
            else:
                ruling = await self._aside.review(namespace, held, question, body, until)
            if not ruling.elsewhere:
                return held, ruling
            namespace = ruling.namespace
