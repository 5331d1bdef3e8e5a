"""Thousands of reasons of one plugin that are all about the same nodes, such as a pod that asks for thousands of
resources which no node offers.

A plugin makes the texts in parts (`SortedTexts`), as anybody may write such a pod, and what looks at all reasons of a
decision looks at one mask and one list of texts instead of a pair for each.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import overload

from scheduler.framework.status import Reason, printable
from scheduler.state.column import Bools
from scheduler.state.effort import Effort

_PART = 2_500
"""How many texts are made in one part."""
_MERGED_PER_STEP = 10


class SortedTexts:
    """Texts, sorted, made in parts of which each is kept: an attempt whose slice is over goes on where it was."""

    def __init__(self, texts: Iterator[str]) -> None:
        """`texts`: all different, in any order."""
        self._left = texts
        self._runs: list[list[str]] = []
        self._over = False

    @property
    def complete(self) -> bool:
        """Whether all parts are made."""
        return self._over and len(self._runs) == 1

    def all(self, effort: Effort) -> list[str]:
        """All texts, not to be changed.

        Raises SliceOver.
        """
        while not self._over:
            part = sorted(map(printable, islice(self._left, _PART)))
            self._runs.append(part)
            self._over = len(part) < _PART
            effort.charge(len(part))
        while len(self._runs) > 1:
            self._runs.sort(key=len, reverse=True)
            merged = sorted(self._runs.pop() + self._runs.pop())
            self._runs.append(merged)
            effort.charge(len(merged) // _MERGED_PER_STEP)
        return self._runs[0]


class ManyReasons(Sequence[tuple[Reason, Bools]]):
    """`Rejections`: some, and then a reason that no preemption resolves for each of the texts."""

    def __init__(self, few: Sequence[tuple[Reason, Bools]], texts: Sequence[str], where: Bools) -> None:
        """`texts`: sorted; `where`: bool[rows] of the nodes that all of the texts are about."""
        self.few = few
        self.texts = texts
        self.where = where

    @property
    def masks(self) -> Iterable[Bools]:
        """Every mask once."""
        return chain((where for _, where in self.few), (self.where,))

    def at(self, few: Sequence[tuple[Reason, Bools]], where: Bools) -> "ManyReasons":
        """These texts, of other nodes."""
        return ManyReasons(few, self.texts, where)

    def __len__(self) -> int:
        return len(self.few) + len(self.texts)

    def __iter__(self) -> Iterator[tuple[Reason, Bools]]:
        yield from self.few
        for text in self.texts:
            yield Reason(text, unresolvable=True), self.where

    @overload
    def __getitem__(self, index: int) -> tuple[Reason, Bools]: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[tuple[Reason, Bools]]: ...

    def __getitem__(self, index: int | slice) -> tuple[Reason, Bools] | Sequence[tuple[Reason, Bools]]:
        return list(self)[index]


def holds(texts: Sequence[str], text: str) -> bool:
    """Whether a text is among sorted ones."""
    at = bisect_left(texts, text)
    return at < len(texts) and texts[at] == text


def listed(counts: dict[str, int], texts: Sequence[str], count: int) -> str:
    """`COUNT TEXT, …`, sorted: those that are counted apart, and the sorted texts, of which each has the same count."""
    apart = sorted(f"{number} {printable(text)}" for text, number in counts.items())
    parts: list[str] = []
    done = 0
    for one in apart:
        until = bisect_left(texts, one, done, key=lambda text: f"{count} {text}")
        if until > done:
            parts.append(_joined(texts[done:until], count))
            done = until
        parts.append(one)
    if done < len(texts):
        parts.append(_joined(texts[done:], count))
    return ", ".join(parts)


def _joined(texts: Sequence[str], count: int) -> str:
    return f"{count} " + f", {count} ".join(texts)
