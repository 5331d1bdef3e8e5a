"""Records what `berth shadow` sees of a cluster, in the same form as `berth run`."""

import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from podberth import __version__
from podberth.explain.shadow.shadow import Change
from podberth.lab.recording.entries import LISTED, Head, Kind
from podberth.lab.recording.log import Limits, Log
from podberth.lab.recording.writing import Writing
from podberth.model.kinds import KINDS, Decoder

_MALFORMED = (msgspec.MsgspecError, ValueError, ArithmeticError, RecursionError)


class ShadowRecorder:
    """Records changes in their order. `written`: how many there were; `ended`: why there are no more."""

    def __init__(
        self,
        directory: Path,
        of: str,
        decoder: Decoder,
        began: float,
        *,
        later: Callable[[float, Callable[[], None]], object],
        ended: Callable[[str], None],
    ) -> None:
        """`of`: the scheduler that is followed; `later`, `ended`: as of `Writing`. Raises OSError, LogError."""
        self._log = Log(directory, Limits())
        self._decoder = decoder
        head = Head(berth=__version__, of=of, began=began, fresh=True)
        self._writing = Writing(self._log, head, frozenset(), later=later, wall=time.time, ended=ended)
        self.written = 0

    def write(self, change: Change) -> None:
        """Add a change; what can't be read is left out, as it is of the comparison."""
        writing = self._writing
        if writing.ended is not None:
            return
        if change.synced:
            writing.event(Kind.SYNCED, change.at)
        elif change.gone is not None:
            writing.gone(change.kind, *change.gone, change.at)
        elif change.kind in KINDS:
            try:
                thing = self._decoder.of_kind(change.kind)(change.object)
            except _MALFORMED:
                return
            writing.put(thing, change.object, LISTED * change.listed, change.at)
        self.written += 1

    def close(self) -> None:
        """Write what waits, and end."""
        self._writing.close()
