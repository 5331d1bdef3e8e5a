"""The gates that only time opens, or somebody who puts labels back: the breaker, the owner's, the tokens'."""

from podberth.evictor.breaker import Breaker
from podberth.evictor.followed import ClosedGate, Followed, Gate
from podberth.evictor.owners import Owners
from podberth.evictor.settings import Settings
from podberth.evictor.tokens import Tokens
from podberth.evictor.wording import succeeds

_BREAKER_SECONDS = 600.0
"""When the breaker closes every grace starts anew, so those that it holds need not look whether it did."""


class Gates:
    """All three; whoever passes takes a token, and is asked for as one of its owner's."""

    def __init__(self, settings: Settings, now: float) -> None:
        self.breaker = Breaker(settings.changed_share, settings.changed_window)
        self.owners = Owners(settings.owner_backoff, settings.owner_backoff_most)
        self.tokens = Tokens(settings, now)

    def closed(self, followed: Followed, node: str, now: float) -> ClosedGate | None:
        """The gate that holds a pod back for longest, if any does."""
        if self.breaker.open:
            return ClosedGate(Gate.BREAKER, _BREAKER_SECONDS, "the breaker is open, for too many nodes changed at once")
        pod = followed.pod
        spared = self.owners.spared(pod, now, followed.placed_at)
        tokens, limit = self.tokens.wait(node, pod.namespace, now)
        if spared is not None and spared.seconds >= tokens:
            return ClosedGate(Gate.OWNER, spared.seconds, succeeds(spared))
        return ClosedGate(Gate.RATE, tokens, f"it waits for its turn, {limit} are allowed") if tokens else None
