"""Chooses one of several equally good nodes by the seed and the pod alone, so that a run can be repeated."""

import zlib

from podberth.framework.decision import Decision


class Choice:
    """Chooses by a seed."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def row(self, decision: Decision) -> int:
        """One of the best rows."""
        best = decision.best()
        return best.item(self.pick(decision.pod.uid, len(best)))

    def pick(self, uid: str, equals: int) -> int:
        """Return which of so many equally good ones a pod takes."""
        return zlib.crc32(f"{self._seed}/{uid}".encode()) % equals if equals > 1 else 0
