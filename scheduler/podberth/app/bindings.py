"""Posts Bindings, and does not let go of one before it is known what became of it.

A Binding that was sent may be stored whatever came back: nothing, a 500, a proxy's page. "Unknown" is not "no", so the
pod keeps its room, and is asked for until the API server says where it is. A single read that shows the pod unbound
proves nothing: the Binding may still be on its way. Then it is sent again. That is safe, for it names the same pod (by
UID) and the same node: one of the two is stored, the other gets a 409. Where that does not help, the Binding is given
up once it is too old to be stored. Nor is it sent again when the API server's data has become that of a backup: what
was written for the pod before, as the allocations of its claims, is lost.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import structlog
from msgspec import Struct

from podberth.app.naming import about, ref
from podberth.app.under_way import UnderWay
from podberth.engine.instructions import Bind, Withdraw
from podberth.engine.stimuli import BindFailed, BindWithdrawn, Bound, Stimulus
from podberth.kube import live_pod
from podberth.kube.answers import read_answer
from podberth.kube.client import Client
from podberth.kube.errors import ApiError, Unreachable
from podberth.kube.flow import CONFIRM
from podberth.kube.writes import bind, pod_path

log = structlog.get_logger("writer")

ASK_AGAIN = 1.0
"""Seconds between questions about a Binding whose fate is unknown, doubling to `ASK_AGAIN_MOST`."""
ASK_AGAIN_MOST = 30.0
ASK_SECONDS = 5.0
SEND_AGAIN = 10.0
"""Seconds after which a Binding is sent again that was not answered at all. One that was answered, in a way that leaves
open what happened, is sent again after the next question."""
MOST_SENT = 8
"""How often one Binding is sent."""
SETTLED = 75.0
"""Seconds after which a Binding that was sent can't be stored any more: API servers give up requests after 60 s."""

TAKEN, GONE, REFUSED, WITHDRAWN, NOT_SENT, LOST = "taken", "gone", "refused", "withdrawn", "not_sent", "lost"
FAILURES = (TAKEN, GONE, REFUSED, WITHDRAWN, NOT_SENT, LOST)
"""Why Bindings fail, in the words of the metric."""


class _Failure(Struct, frozen=True):
    """The pod is not bound by us, and it is certain. `quietly`: the pod goes, which is nobody's failure."""

    why: str
    status: int
    message: str
    quietly: bool = False


_OF_BACKUP = "the API server's data is that of a backup"
_BY_ANOTHER = _Failure(TAKEN, 409, "another process has bound the pod to the same node", quietly=True)


class _Unknown(Struct, frozen=True):
    """It may be bound, or may still be. `silent`: there was no answer at all."""

    message: str
    silent: bool


class _Recalled(Exception):  # noqa: N818 - no error: nobody is to send it any more
    """It must not leave."""


class View(Protocol):
    """What is known of the cluster (`podberth.app.watch`)."""

    histories: int
    """How often it turned out that the API server's data is that of a backup."""

    @property
    def relisting(self) -> bool:
        """Return whether what is known is in part of before the last such backup."""

    @property
    def clear(self) -> bool:
        """Return whether anything may be decided now."""


class Everything:
    """Nothing is hidden, and no backup is restored."""

    histories = 0
    relisting = False
    clear = True


class _Posting(Struct):
    """A Binding under way."""

    bind: Bind
    clock: Callable[[], float]
    view: View
    history: int
    """In which history it was decided."""
    sent: int = 0
    sent_at: float = 0.0
    objection: str = ""
    """Why it must not be sent (again)."""
    doubtful: bool = False
    """Whether one that was sent may be stored."""
    task: asyncio.Task[None] | None = None

    def on_send(self) -> None:
        """It leaves at this moment.

        Raises _Recalled: what the client sends again by itself was answered in a way that says that nothing was done.
        """
        if self.objects() and not self.doubtful:
            raise _Recalled
        self.sent += 1
        self.sent_at = self.clock()

    def objects(self) -> str:
        """Return why it must not be sent (again), by what is known now."""
        if not self.objection and (self.view.relisting or self.view.histories != self.history):
            self.objection = _OF_BACKUP
        return self.objection


class Bindings:
    """The Bindings that are under way. `bound` is called for each that has succeeded, after `answer`."""

    def __init__(
        self,
        client: Client,
        answer: Callable[[Stimulus], None],
        under_way: UnderWay,
        bound: Callable[[Bind], None],
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep,
        view: Callable[[], View] = Everything,
    ) -> None:
        self.failures: Counter[str] = Counter()
        """Why Bindings failed, and how often."""
        self.unanswered = 0
        """Bindings that were sent without an answer that says what became of them."""
        self._client = client
        self._answer = answer
        self._under_way = under_way
        self._bound = bound
        self._clock = clock
        self._sleep = sleep
        self._view = view
        self._postings: dict[str, _Posting] = {}

    def __len__(self) -> int:
        """Bindings whose outcome is not known yet."""
        return len(self._postings)

    def post(self, instruction: Bind) -> None:
        """Post it; `answer` gets Bound or BindFailed."""
        log.debug("binding", **_about(instruction), attempt=instruction.attempts)
        view = self._view()
        posting = _Posting(instruction, self._clock, view, view.histories)
        before = self._postings.get(instruction.pod.uid)
        if before is not None and before.task is not None:
            # The pod seemed to be gone, as after a restore, and was decided anew. Only one of the two answers.
            before.task.cancel()
            posting.sent = before.sent if before.bind.node == instruction.node else 0
        self._postings[instruction.pod.uid] = posting
        posting.task = self._under_way.start(self._post(posting))

    def withdraw(self, instruction: Withdraw) -> None:
        """Its node takes the pod no longer. If the Binding was not sent yet, it is not, and `answer` is told."""
        posting = self._postings.get(instruction.pod.uid)
        if posting is None:
            return
        posting.objection = instruction.message
        if posting.sent or posting.task is None:
            return  # what was sent can't be taken back, unless the server says that nothing was done (`on_send`)
        del self._postings[instruction.pod.uid]
        posting.task.cancel()
        self._withdrawn(posting)

    def _withdrawn(self, posting: _Posting) -> None:
        self.failures[WITHDRAWN] += 1
        log.info("binding withdrawn before anything was done", **_about(posting.bind), why=posting.objection)
        self._answer(BindWithdrawn(posting.bind.pod.uid, posting.objection))

    async def _post(self, posting: _Posting) -> None:
        uid = posting.bind.pod.uid
        try:
            outcome = await self._send(posting)
            failure = await self._settle(posting, outcome) if isinstance(outcome, _Unknown) else outcome
        except _Recalled:
            self._withdrawn(posting)
            return
        except Exception:
            # A fault of ours, or of what answers in the API server's place: the pod is tried again all the same.
            log.exception("a Binding failed in an unexpected way", **_about(posting.bind))
            failure = _Failure(LOST, 0, "the Binding failed in an unexpected way, which the log of Berth shows")
        finally:
            if self._postings.get(uid) is posting:
                del self._postings[uid]
        if failure is None:
            self._answer(Bound(uid))
            self._bound(posting.bind)
        elif failure is _BY_ANOTHER:
            # A former leader, as both choose alike. The room stays taken; the event and the count are the other's.
            self.failures[failure.why] += 1
            log.info("bound by another process", **_about(posting.bind), attempt=posting.bind.attempts)
            self._answer(Bound(uid))
        else:
            self._failed(posting.bind, failure)

    def _failed(self, bind: Bind, failure: _Failure) -> None:
        self.failures[failure.why] += 1
        say = log.info if failure.quietly else log.warning
        told = {**_about(bind), "attempt": bind.attempts}
        say("binding failed", **told, status=failure.status, why=failure.why, error=failure.message)
        self._answer(BindFailed(bind.pod.uid, failure.status, failure.message, failure.quietly))

    async def _settle(self, posting: _Posting, outcome: _Unknown) -> _Failure | None:
        """Ask, and send it again, until it is known what became of it; None: the pod is bound."""
        posting.doubtful = True
        self.unanswered += 1
        told = {**_about(posting.bind), "attempt": posting.bind.attempts}
        log.warning("binding unanswered, asking for the pod", **told, error=outcome.message)
        pause, refused = ASK_AGAIN, None
        while True:
            found = await self._ask(posting.bind)
            if not isinstance(found, _Unknown):
                return found
            if not found.silent:  # the API server says that the pod is not bound
                age = self._clock() - posting.sent_at
                may_be_sent = refused is None and not posting.objects() and posting.sent < MOST_SENT
                # Between two streams nobody knows whether the API server's data is that of a backup.
                if may_be_sent and posting.view.clear:
                    if age >= (SEND_AGAIN if outcome.silent else ASK_AGAIN):
                        again = await self._send(posting)
                        if isinstance(again, _Unknown):
                            outcome = again
                        elif again is None or again.why in (TAKEN, GONE):
                            return again
                        elif again.why == REFUSED:
                            refused = again  # this one; the one before may still be on its way
                elif age >= SETTLED:
                    return refused or _Failure(LOST, 0, posting.objection or outcome.message)
            await self._sleep(pause)
            pause = min(2 * pause, ASK_AGAIN_MOST)

    async def _send(self, posting: _Posting) -> _Failure | _Unknown | None:
        """Send it once; None: the API server said yes."""
        try:
            decided = posting.bind
            await bind(self._client, ref(decided.pod), decided.node, on_send=posting.on_send, since=decided.since)
        except ApiError as error:
            if error.status == 409:
                # Bound by another scheduler, replaced, not ready; or bound by us, and the answer to that was lost.
                found = await self._ask(posting.bind)
                if found is None and posting.sent == 1:
                    return _BY_ANOTHER
                return _Failure(REFUSED, 409, error.message, True) if isinstance(found, _Unknown) else found
            if error.status >= 500 and not error.by_webhook:
                return _Unknown(str(error), silent=False)
            if error.status == 404 or error.has_cause("NamespaceTerminating"):
                return _Failure(GONE, error.status, error.message, quietly=True)
            return _Failure(REFUSED, error.status, error.message)
        except Unreachable as error:
            return _Unknown(str(error), silent=error.timed_out) if error.sent else _Failure(NOT_SENT, 0, str(error))
        return None

    async def _ask(self, bind: Bind) -> _Failure | _Unknown | None:
        """Return where the pod is by the API server's word; None: on our node. Unknown, and not
        silent: it is unbound.
        """
        pod = bind.pod
        try:
            body = await self._client.get(pod_path(ref(pod)), lane=CONFIRM, tries=2, timeout=ASK_SECONDS)
            live = read_answer(body, live_pod.decode)
        except ApiError as error:
            if error.status == 404:
                return _Failure(GONE, 404, error.message, quietly=True)
            return _Unknown(str(error), silent=True)
        except Unreachable as error:
            return _Unknown(str(error), silent=True)  # asked again: the assumption holds until the API has spoken
        if live.metadata.uid != pod.uid:
            return _Failure(GONE, 409, "another pod has its name", quietly=True)
        if live.spec.node_name:
            elsewhere = f"the pod was bound to {live.spec.node_name} by somebody else"
            return None if live.spec.node_name == bind.node else _Failure(TAKEN, 409, elsewhere, quietly=True)
        if live.metadata.deletion_timestamp is not None:
            return _Failure(GONE, 409, "the pod is being deleted", quietly=True)
        return _Unknown("the pod is not bound", silent=False)


def _about(bind: Bind | Withdraw) -> dict[str, str]:
    return {**about(bind.pod), "node": bind.node}
