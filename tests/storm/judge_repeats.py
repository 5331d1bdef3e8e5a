"""H1: no process asks the API server for the same thing again and again, whatever that answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from tests.storm.asked import Entry

WINDOW_SECONDS = 10.0
MOST = 30
"""How often a process may send one request, by its verb and its object, in that time."""


class RepeatJudge:
    """Counts requests in one window after the other. `say`: as `Judge.say`."""

    def __init__(self, say: Callable[[str, str], None]) -> None:
        self._say = say
        self._window = 0
        self._sent: Counter[tuple[str, str]] = Counter()

    def entered(self, entry: Entry) -> None:
        """A line of the audit log."""
        if not entry.name or entry.verb in ("watch", "list") or _is_shared(entry):
            return
        window = int(entry.at // WINDOW_SECONDS)
        if window != self._window:
            self._window = window
            self._sent.clear()
        what = f"{entry.verb} {entry.resource} {entry.namespace}/{entry.name}"
        self._sent[entry.user, what] += 1
        if self._sent[entry.user, what] == MOST + 1:
            self._say("H1", f"{entry.user} sends {what} again and again")


def _is_shared(entry: Entry) -> bool:
    """Whether it is about a claim of many pods, which is written for each of them."""
    return entry.resource.startswith("resourceclaims") and "-" not in entry.name
