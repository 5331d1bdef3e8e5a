"""What plugins find out about the claims of a pod that has many: claim by claim, and kept from slice to slice.

An attempt begins again from the start with each slice. A pod may name ten thousand claims, and each plugin that goes
through all of them would take up a slice of its own time and again.
"""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from scheduler.model.pod import Pod
from scheduler.model.shape import PodShape
from scheduler.model.volumes import ClaimVolume
from scheduler.state.effort import Effort

Found = TypeVar("Found")

MANY = 64
"""From so many claims on, what was found is kept, and charged."""
_AT_ONCE = 1_000
"""So many claims are looked at again in one go when storage has changed."""
_PART = 200
"""Claims between two charges."""
_KEPT_MOST = 8
_LATELY = 100
"""What was asked for within so many questions belongs to a pod that is still being decided."""


class _Answer:
    """What was found of one pod for one question, as far as it came."""

    __slots__ = ("claims", "found")

    def __init__(self, found: Any, claims: Iterator[ClaimVolume]) -> None:
        self.found = found
        self.claims: Iterator[ClaimVolume] | None = claims
        """The claims that were not looked at yet."""


class _OfPod:
    """Everything that was found of one pod."""

    __slots__ = ("again", "answers", "asked", "version")

    def __init__(self, version: int) -> None:
        self.version = version
        self.again = False
        """Storage has changed since the pod was first asked about."""
        self.asked = 0
        self.answers: dict[str, _Answer] = {}


class OfClaims:
    """Answers by pod and question, right as long as no storage object changes."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str, PodShape], _OfPod] = {}
        self._asked = 0
        self.looked_at = 0
        """How many claims of pods with many were looked at."""

    def go_through(
        self,
        pod: Pod,
        question: str,
        begin: Callable[[], Found],
        look: Callable[[Found, ClaimVolume], bool],
        version: int,
        effort: Effort,
        *,
        each: int = 1,
    ) -> Found:
        """What `begin` made, after `look` was told of each claim of the pod, up to one for which it returns true.

        `version` counts changes of storage objects, `each` are the steps that a claim takes. Not to be changed.

        Raises SliceOver; asked again, it goes on with the next claim. Raises what `look` raises.
        """
        claims = pod.shape.volumes.claims
        if len(claims) < MANY:
            found = begin()
            for used in claims:
                if look(found, used):
                    break
            return found
        of = self._of(pod, version)
        answer = of.answers.get(question)
        if answer is None:
            answer = of.answers[question] = _Answer(begin(), iter(claims))
        # Others' claims change all the time: what has to be done again for that must not use up the slices.
        charge = effort.count if of.again and len(claims) <= _AT_ONCE else effort.charge
        while answer.claims is not None:
            try:
                looked = self._look_at_some(answer, look)
            except BaseException:
                del of.answers[question]
                raise
            self.looked_at += looked
            charge(1 + each * looked)
        known: Found = answer.found
        return known

    def forget(self, pod: Pod) -> None:
        """A pod has got its node."""
        self._kept.pop((pod.uid, pod.name, pod.shape), None)

    @staticmethod
    def _look_at_some(answer: _Answer, look: Callable[[Any, ClaimVolume], bool]) -> int:
        claims = answer.claims
        assert claims is not None
        for looked in range(_PART):
            used = next(claims, None)
            if used is None or look(answer.found, used):
                answer.claims = None
                return looked + 1
        return _PART

    def _of(self, pod: Pod, version: int) -> _OfPod:
        self._asked += 1
        key = (pod.uid, pod.name, pod.shape)
        of = self._kept.get(key)
        if of is None:
            if len(self._kept) >= _KEPT_MOST:
                self._make_room()
            of = self._kept[key] = _OfPod(version)
        elif of.version != version:
            of.version, of.again = version, True
            of.answers.clear()
        of.asked = self._asked
        return of

    def _make_room(self) -> None:
        """Forget what was not asked for lately; if all was, the newest: some pods have to get to their end."""
        oldest = min(self._kept, key=lambda key: self._kept[key].asked)
        if self._kept[oldest].asked + _LATELY < self._asked:
            del self._kept[oldest]
        else:
            self._kept.popitem()
