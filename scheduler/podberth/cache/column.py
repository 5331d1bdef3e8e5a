"""A column of interned values: one small integer a row, each distinct value kept once.

A predicate is written for one value, asked once per distinct value, and gathered over the rows.
"""

from collections.abc import Callable, Hashable, Iterable
from typing import Any, Generic, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from podberth.model.selectors import parse_go_int

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
Codes = NDArray[np.int32]
Numbers = NDArray[Any]
"""Integers, or doubles that hold integers."""

Value = TypeVar("Value", bound=Hashable)

Some = TypeVar("Some", Bools, Ints, NDArray[np.float64], Codes)


def at(values: Some, rows: NDArray[np.intp]) -> Some:
    """Return the values of some rows, given in ascending order; `values` itself when that is all of them."""
    return values if len(rows) == len(values) else values.take(rows)


ABSENT = -1
MEMOS = 1024
_KEPT_BYTES = 8 << 20
"""The memory in bytes that the answers of one column may take."""


_nothing: dict[int, Codes] = {}


def _absent(capacity: int) -> Codes:
    """Return the codes of a column without values."""
    found = _nothing.get(capacity)
    if found is None:
        found = np.full(capacity, ABSENT, dtype=np.int32)
        found.flags.writeable = False
        _nothing.clear()
        _nothing[capacity] = found
    return found


class _Memo:
    __slots__ = ("answers", "epoch", "known")

    def __init__(self, answers: NDArray[Any], epoch: int) -> None:
        self.answers = answers
        self.known = 0
        self.epoch = epoch


class KeptAnswers(NamedTuple):
    """The number of questions of which a column keeps the answers, and the bytes that these take."""

    questions: int
    size: int


class Column(Generic[Value]):
    """Codes by row (int32, -1 where absent) and the values they stand for."""

    def __init__(self, capacity: int) -> None:
        self.codes: Codes = _absent(capacity)
        """The codes, which must not be written to while `blank`: all columns without a value share them."""
        self.values: list[Value | None] = []
        self._code: dict[Value, int] = {}
        self._rows_with: list[int] = []
        self._free: list[int] = []
        self._memos: dict[Hashable, _Memo] = {}
        self._kept_bytes = 0
        self._epoch = 0
        self._in_order = 0
        """The number of rows whose code is their own number."""
        self.filled = 0
        """The number of rows that have a value."""
        self.version = 0
        """A number that changes with the value of any row."""

    def grow(self, capacity: int) -> None:
        """Make room for `capacity` rows."""
        if not self.codes.flags.writeable:
            self.codes = _absent(capacity)
            return
        grown = np.full(capacity, ABSENT, dtype=np.int32)
        grown[: len(self.codes)] = self.codes
        self.codes = grown

    def set(self, row: int, value: Value | None) -> None:
        """Write one row; None is absent. Codes without rows are used again."""
        old = int(self.codes[row])
        if value is None and old == ABSENT:
            return
        new = ABSENT if value is None else self._intern(value)
        if new == old:
            return
        if not self.codes.flags.writeable:
            self.codes = self.codes.copy()
        self.version += 1
        self.codes[row] = new
        self._in_order += (new == row) - (old == row)
        if new != ABSENT:
            self._rows_with[new] += 1
            self.filled += 1
        if old != ABSENT:
            self._rows_with[old] -= 1
            self.filled -= 1
            if self._rows_with[old] == 0:
                del self._code[cast(Value, self.values[old])]
                self.values[old] = None
                self._free.append(old)

    def fill(self, values: Iterable[tuple[int, Value]]) -> None:
        """Write many rows of a column that is blank, each once."""
        rows, codes = [], []
        for row, value in values:
            rows.append(row)
            code = self._intern(value)
            codes.append(code)
            self._rows_with[code] += 1
        if rows:
            self.codes = self.codes.copy()
            self.version += 1
            self.codes[rows] = codes
            self._in_order = int(np.count_nonzero(self.codes[rows] == rows))
            self.filled = len(rows)

    def get(self, row: int) -> Value | None:
        """Return the value of one row, None where absent."""
        code = int(self.codes[row])
        return None if code == ABSENT else self.values[code]

    def gather(self, by_code: Some, rows: int) -> Some:
        """Return the elements at the codes of the first `rows` rows; the last element is that of rows without a
        value.
        """
        return by_code[:rows] if self._in_order == rows else by_code.take(self.codes[:rows])

    def total(self, by_row: Ints) -> Ints:
        """Return int64[rows]: for each row, the sum over all rows with the same value; 0 for rows without a value."""
        codes = self.codes[: len(by_row)]
        sums = np.zeros(len(self.values) + 1, dtype=np.int64)
        np.add.at(sums, codes, by_row)
        sums[ABSENT] = 0
        return sums.take(codes)

    def kept(self) -> KeptAnswers:
        """Return the size of the kept answers, counted from what is there."""
        size = sum(memo.answers.nbytes for memo in self._memos.values())
        return KeptAnswers(len(self._memos), size)

    @property
    def blank(self) -> bool:
        """True if no row has a value."""
        return not self._code

    def code_of(self, value: Value) -> int:
        """Return the code of a value, -1 when no row has it."""
        return self._code.get(value, ABSENT)

    def codes_of(self, values: Iterable[Value]) -> list[int]:
        """Return the codes of those values that some row has."""
        code = self._code
        return [code[value] for value in values if value in code]

    def where(self, rows: int, question: Hashable, accepts: Callable[[Value | None], bool]) -> Bools:
        """Return bool[rows]: which of the first `rows` rows hold an accepted value. Absent rows ask `accepts(None)`.

        `question` names the predicate: the same question is asked once per distinct value, ever.
        """
        return cast(Bools, self.answers(question, accepts, np.bool_).take(self.codes[:rows]))

    def map(self, rows: int, question: Hashable, number: Callable[[Value | None], int]) -> Ints:
        """Return int64[rows]: a number for each row's value, asked once per distinct value as in `where`."""
        return cast(Ints, self.answers(question, number, np.int64).take(self.codes[:rows]))

    def holds(self, rows: int, value: Value) -> Bools:
        """Return bool[rows]: which of the first `rows` rows hold exactly this value."""
        code = self.code_of(value)
        if code == ABSENT:
            return np.zeros(rows, dtype=np.bool_)
        return cast(Bools, self.codes[:rows] == code)

    def numbers(self) -> tuple[Ints, Bools]:
        """Return (the values read as integers, by code; which of them are integers) of a column of texts."""
        are = self.answers("is a number", _is_number, np.bool_)
        return cast(Ints, self.answers("number", _number, np.int64)[: len(self.values)]), are[: len(self.values)]

    def _intern(self, value: Value) -> int:
        code = self._code.get(value)
        if code is None:
            if self._free:
                code = self._free.pop()
                self.values[code] = value
                # An answer kept for the value that had this code before must not be given for the new one.
                self._epoch += 1
            else:
                code = len(self.values)
                self.values.append(value)
                self._rows_with.append(0)
            self._code[value] = code
        return code

    def answers(self, question: Hashable, ask: Callable[[Value | None], Any], dtype: type[np.generic]) -> NDArray[Any]:
        """Return the answers by code; the last slot, which code -1 reads, is the answer for an absent value."""
        key = question, dtype
        memo = self._memos.get(key)
        count = len(self.values)
        if memo is None or memo.epoch != self._epoch or count >= len(memo.answers):
            answers = np.zeros(2 * count + 2, dtype=dtype)
            answers[-1] = ask(None)  # before it is counted as kept: a plugin's function may raise
            self._make_room(key, answers.nbytes)
            memo = self._memos[key] = _Memo(answers, self._epoch)
        for code in range(memo.known, count):
            value = self.values[code]
            if value is not None:
                memo.answers[code] = ask(value)
        memo.known = count
        return memo.answers

    def _make_room(self, key: Hashable, size: int) -> None:
        """Drop the oldest answers until there is room: any pod may ask any question."""
        old = self._memos.pop(key, None)
        self._kept_bytes += size - (0 if old is None else old.answers.nbytes)
        while self._memos and (len(self._memos) >= MEMOS or self._kept_bytes > _KEPT_BYTES):
            oldest = self._memos.pop(next(iter(self._memos)))
            self._kept_bytes -= oldest.answers.nbytes


def _number(value: object) -> int:
    return (parse_go_int(str(value)) or 0) if value is not None else 0


def _is_number(value: object) -> bool:
    return value is not None and parse_go_int(str(value)) is not None
