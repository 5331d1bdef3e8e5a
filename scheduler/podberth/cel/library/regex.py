"""Regular expressions as RE2 reads them: their syntax, with the errors of Go's regexp/syntax, and matching.

Matching takes time linear in pattern and text: all ways to match are followed at once.
"""

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeAlias

from podberth.cel.errors import METER, PER_INSTRUCTION, EvaluationError
from podberth.cel.library.operators import no_overload, refused
from podberth.cel.values import Value

Ranges: TypeAlias = tuple[tuple[int, int], ...]

LAST: Final = 0x10FFFF
_DIGIT: Final = ((48, 57),)
_WORD: Final = ((48, 57), (65, 90), (95, 95), (97, 122))
_SPACE: Final = ((9, 10), (12, 13), (32, 32))
PERL: Final = {"d": _DIGIT, "w": _WORD, "s": _SPACE}
POSIX: Final = {
    "alnum": ((48, 57), (65, 90), (97, 122)), "alpha": ((65, 90), (97, 122)), "ascii": ((0, 127),),
    "blank": ((9, 9), (32, 32)), "cntrl": ((0, 31), (127, 127)), "digit": _DIGIT, "graph": ((33, 126),),
    "lower": ((97, 122),), "print": ((32, 126),), "punct": ((33, 47), (58, 64), (91, 96), (123, 126)),
    "space": ((9, 13), (32, 32)), "upper": ((65, 90),), "word": _WORD, "xdigit": ((48, 57), (65, 70), (97, 102)),
}  # fmt: skip
_NAMES: Final = "C Cc Cf Co Cs L Ll Lm Lo Lt Lu M Mc Me Mn N Nd Nl No P Pc Pd Pe Pf Pi Po Ps S Sc Sk Sm So Z Zl Zp Zs"
CATEGORIES: Final = frozenset(_NAMES.split())
SCRIPTS: Final[dict[str, tuple[str, ...]]] = {
    name: (name.upper() + " ",)
    for name in ("Arabic", "Armenian", "Bengali", "Cyrillic", "Devanagari", "Ethiopic", "Georgian", "Greek", "Gujarati",
                 "Hangul", "Hebrew", "Hiragana", "Kannada", "Katakana", "Khmer", "Lao", "Latin", "Malayalam",
                 "Mongolian", "Myanmar", "Sinhala", "Tamil", "Telugu", "Thai", "Tibetan")
} | {"Han": ("CJK UNIFIED ", "CJK COMPATIBILITY IDEOGRAPH", "CJK RADICAL", "KANGXI RADICAL")}  # fmt: skip
"""Script → beginnings of the names of its characters, as Python does not know scripts."""


_MOST_REPEATS: Final = 1000
_MOST_NESTED: Final = 200
_SIMPLE: Final = {"a": 7, "f": 12, "t": 9, "n": 10, "r": 13, "v": 11}
_COUNT: Final = re.compile(r"\{([0-9]+)(?:(,)([0-9]*))?\}")
_NAMED: Final = re.compile(r"\(\?(?:P<|<)(?=.)", re.DOTALL)
_HEX: Final = re.compile(r"[0-9a-fA-F]{2}")
_HEX_DIGITS: Final = frozenset("0123456789abcdefABCDEF")
_GROUP_NAME: Final = re.compile(r"[A-Za-z0-9_]+")


class PatternError(ValueError):
    """A pattern that can't be compiled; the text is that of Go's regexp."""

    def __init__(self, what: str, part: str | None = None) -> None:
        super().__init__(f"error parsing regexp: {what}" + (f": `{part}`" if part is not None else ""))


@dataclass(frozen=True, slots=True)
class Chars:
    """A set of which one character matches; `fold`: in either case."""

    ranges: Ranges
    negated: bool = False
    fold: bool = False
    category: Callable[[str], bool] | None = None
    more: "tuple[Chars, ...]" = ()


@dataclass(frozen=True, slots=True)
class Assert:
    """An empty match: begin, end, line-begin, line-end, word, no-word."""

    kind: str


@dataclass(frozen=True, slots=True)
class Sequence:
    """Patterns that match one after the other."""

    parts: "tuple[Tree, ...]"


@dataclass(frozen=True, slots=True)
class Choice:
    """Alternatives of which the first that matches is taken."""

    parts: "tuple[Tree, ...]"


@dataclass(frozen=True, slots=True)
class Repeat:
    """A repetition from `low` to `high` times (-1: any number); `lazy`: as few as possible."""

    part: "Tree"
    low: int
    high: int
    lazy: bool


Tree: TypeAlias = "Chars | Assert | Sequence | Choice | Repeat"


@dataclass(slots=True)
class _Flags:
    fold: bool = False
    multi: bool = False
    dot_all: bool = False
    lazy: bool = False

    def copy(self) -> "_Flags":
        return _Flags(self.fold, self.multi, self.dot_all, self.lazy)


@lru_cache(maxsize=16)
def parse(pattern: str) -> Tree:
    """Return the tree of a pattern, both when a selector is validated and when it is planned.

    Raises PatternError.
    """
    parser = _Parser(pattern)
    tree = parser.choice(0)
    if parser.at < len(pattern):
        raise PatternError("unexpected )", pattern)
    return tree


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self._flags = _Flags()

    def choice(self, depth: int) -> Tree:
        """Parse alternatives up to a closing parenthesis or the end."""
        if depth > _MOST_NESTED:
            raise PatternError("expression nests too deeply", self.text)
        branches: list[Tree] = []
        parts: list[Tree] = []
        while self.at < len(self.text) and self.text[self.at] != ")":
            if self.text[self.at] == "|":
                self.at += 1
                branches.append(Sequence(tuple(parts)))
                parts = []
            else:
                self._item(parts, depth)
        if not branches:
            return Sequence(tuple(parts))
        return Choice((*branches, Sequence(tuple(parts))))

    def _item(self, parts: list[Tree], depth: int) -> None:
        character = self.text[self.at]
        if character in "*+?":
            self._repeat(parts, character)
        elif character == "{" and (counted := _COUNT.match(self.text, self.at)) is not None:
            self._counted(parts, counted)
        elif character == "(":
            self._group(parts, depth)
        elif character == "[":
            parts.append(self._class())
        elif character == "\\":
            self._escape(parts)
        else:
            self.at += 1
            parts.append(self._plain(character))

    def _plain(self, character: str) -> Tree:
        if character == ".":
            return Chars(() if self._flags.dot_all else ((10, 10),), negated=True)
        if character == "^":
            return Assert("line-begin" if self._flags.multi else "begin")
        if character == "$":
            return Assert("line-end" if self._flags.multi else "end")
        return self._literal(ord(character))

    def _literal(self, code: int) -> Chars:
        return Chars(((code, code),), fold=self._flags.fold)

    def _repeat(self, parts: list[Tree], operator: str) -> None:
        start = self.at
        self.at += 1
        lazy = self._lazy()
        bounds = {"*": (0, -1), "+": (1, -1), "?": (0, 1)}[operator]
        self._apply(parts, start, bounds, lazy)

    def _counted(self, parts: list[Tree], counted: "re.Match[str]") -> None:
        start = self.at
        low = int(counted[1]) if len(counted[1]) < 6 else _MOST_REPEATS + 1
        high = low
        if counted[2]:
            high = -1 if not counted[3] else int(counted[3]) if len(counted[3]) < 6 else _MOST_REPEATS + 1
        self.at = counted.end()
        if low > _MOST_REPEATS or high > _MOST_REPEATS or 0 <= high < low:
            raise PatternError("invalid repeat count", counted[0])
        self._apply(parts, start, (low, high), self._lazy())

    def _lazy(self) -> bool:
        lazy = self._flags.lazy
        if self.text[self.at : self.at + 1] == "?":
            self.at += 1
            lazy = not lazy
        return lazy

    def _apply(self, parts: list[Tree], start: int, bounds: tuple[int, int], lazy: bool) -> None:
        operator = self.text[start : self.at]
        if not parts:
            raise PatternError("missing argument to repetition operator", operator)
        if self.text[self.at : self.at + 1] in ("*", "+", "?") or _COUNT.match(self.text, self.at):
            counted = _COUNT.match(self.text, self.at)
            end = counted.end() if counted is not None else self.at + 1
            if self.text[end : end + 1] == "?":
                end += 1
            raise PatternError("invalid nested repetition operator", self.text[start:end])
        repeated = Repeat(parts[-1], *bounds, lazy)
        if _repeats(repeated) > _MOST_REPEATS:
            raise PatternError("invalid repeat count", operator)
        parts[-1] = repeated

    def _group(self, parts: list[Tree], depth: int) -> None:
        outer = self._flags.copy()
        if self.text.startswith("(?", self.at):
            if _NAMED.match(self.text, self.at):
                self._name()
            elif self._set_flags():
                return
        else:
            self.at += 1
        inner = self.choice(depth + 1)
        if self.at >= len(self.text):
            raise PatternError("missing closing )", self.text)
        self.at += 1
        self._flags = outer
        parts.append(inner)

    def _name(self) -> None:
        start, end = self.at, self.text.find(">", self.at)
        capture = self.text[start : end + 1] if end >= 0 else self.text[start:]
        if end < 0 or _GROUP_NAME.fullmatch(capture[capture.index("<") + 1 : -1]) is None:
            raise PatternError("invalid named capture", capture)
        self.at = end + 1

    def _set_flags(self) -> bool:
        """Parse `(?i)`, for the rest of the group, which ends here, or `(?i:`, for a group of its own."""
        start = self.at
        at = self.at + 2
        value, seen = True, False
        while at < len(self.text):
            letter = self.text[at]
            at += 1
            if letter in "imsU":
                name = {"i": "fold", "m": "multi", "s": "dot_all", "U": "lazy"}[letter]
                setattr(self._flags, name, value)
                seen = True
            elif letter == "-" and value:
                value, seen = False, False
            elif letter in ":)":
                if not value and not seen:
                    break
                self.at = at
                return letter == ")"
            else:
                break
        raise PatternError("invalid or unsupported Perl syntax", self.text[start:at])

    def _escape(self, parts: list[Tree]) -> None:
        following = self.text[self.at + 1 : self.at + 2]
        kinds = {"A": "begin", "z": "end", "b": "word", "B": "no-word"}
        if following in kinds:
            self.at += 2
            parts.append(Assert(kinds[following]))
        elif following == "Q":
            end = self.text.find("\\E", self.at + 2)
            quoted = self.text[self.at + 2 : end if end >= 0 else len(self.text)]
            self.at = end + 2 if end >= 0 else len(self.text)
            parts.extend(self._literal(ord(character)) for character in quoted)
        else:
            known = self._known_class()
            parts.append(self._literal(self._code()) if known is None else known)

    def _known_class(self) -> Chars | None:
        """`\\d` and its like, and `\\p{L}`."""
        letter = self.text[self.at + 1 : self.at + 2]
        if letter.lower() in PERL and letter:
            self.at += 2
            return Chars(PERL[letter.lower()], negated=letter.isupper(), fold=self._flags.fold)
        if letter in ("p", "P"):
            return self._unicode(letter == "P")
        return None

    def _unicode(self, negated: bool) -> Chars:
        start = self.at
        self.at += 2
        name = self.text[self.at : self.at + 1]
        if not name:
            raise PatternError("invalid character class range", self.text[start:])
        self.at += 1
        if name == "{":
            end = self.text.find("}", self.at)
            if end < 0:
                raise PatternError("invalid character class range", self.text[start:])
            name = self.text[self.at : end]
            self.at = end + 1
        if name.startswith("^"):
            negated, name = not negated, name[1:]
        if name == "Any":
            return Chars(((0, LAST),), negated=negated)
        if name in SCRIPTS:
            prefixes = SCRIPTS[name]
            return Chars((), negated, self._flags.fold, lambda one: unicodedata.name(one, "").startswith(prefixes))
        if name not in CATEGORIES:
            raise PatternError("invalid character class range", self.text[start : self.at])
        return Chars((), negated, self._flags.fold, lambda one: unicodedata.category(one).startswith(name))

    def _code(self) -> int:
        """Parse an escape, and return its character."""
        start = self.at
        self.at += 1
        letter = self.text[self.at : self.at + 1]
        if not letter:
            raise PatternError("trailing backslash at end of expression", "")
        self.at += 1
        if letter in _SIMPLE:
            return _SIMPLE[letter]
        if letter in "01234567":
            return self._octal(start, letter)
        if letter == "x":
            return self._hexadecimal(start)
        if letter < "\x80" and not letter.isalnum():
            return ord(letter)
        raise PatternError("invalid escape sequence", self.text[start : self.at])

    def _octal(self, start: int, letter: str) -> int:
        following = self.text[self.at : self.at + 1]
        if letter != "0" and not (following and following in "01234567"):
            raise PatternError("invalid escape sequence", self.text[start : self.at])
        digits = letter
        while len(digits) < 3 and self.at < len(self.text) and self.text[self.at] in "01234567":
            digits += self.text[self.at]
            self.at += 1
        return int(digits, 8)

    def _hexadecimal(self, start: int) -> int:
        """Parse two hexadecimal digits, or any number of them in braces. Raises PatternError at the first wrong one."""
        found = _HEX.match(self.text, self.at)
        if found is not None:
            self.at = found.end()
            return int(found[0], 16)
        begin = end = self.at + 1
        if not self.text.startswith("{", self.at):
            raise PatternError("invalid escape sequence", self.text[start : end + 1])
        number = 0
        while number <= LAST and self.text[end : end + 1] in _HEX_DIGITS:
            number = number * 16 + int(self.text[end], 16)
            end += 1
        if number > LAST or end == begin or self.text[end : end + 1] != "}":
            raise PatternError("invalid escape sequence", self.text[start : end + (number <= LAST)])
        self.at = end + 1
        return number

    def _class(self) -> Chars:
        start = self.at
        self.at += 1
        negated = self.text[self.at : self.at + 1] == "^"
        if negated:
            self.at += 1
        ranges: list[tuple[int, int]] = []
        more: list[Chars] = []
        first = True
        while self.text[self.at : self.at + 1] != "]" or first:
            if self.at >= len(self.text):
                raise PatternError("missing closing ]", self.text[start:])
            if self.text[self.at] == "-" and not first and self.text[self.at + 1 : self.at + 2] != "]":
                self._stray_dash(start)
            first = False
            known = self._posix() or (self._known_class() if self.text[self.at] == "\\" else None)
            if known is not None:
                more.append(known)
                continue
            ranges.append(self._range(start))
        self.at += 1
        return Chars(tuple(ranges), negated, self._flags.fold, more=tuple(more))

    def _stray_dash(self, start: int) -> None:
        following = self.text[self.at + 1 : self.at + 2]
        if not following:
            raise PatternError("missing closing ]", self.text[start:])

    def _posix(self) -> Chars | None:
        if not self.text.startswith("[:", self.at):
            return None
        end = self.text.find(":]", self.at + 2)
        if end < 0:
            return None
        name = self.text[self.at + 2 : end]
        negated = name.startswith("^")
        if name.removeprefix("^") not in POSIX:
            raise PatternError("invalid character class range", self.text[self.at : end + 2])
        self.at = end + 2
        return Chars(POSIX[name.removeprefix("^")], negated, self._flags.fold)

    def _range(self, start: int) -> tuple[int, int]:
        begin = self.at
        low = high = self._class_code(start)
        if self.text[self.at : self.at + 1] == "-" and self.text[self.at + 1 : self.at + 2] not in ("", "]"):
            self.at += 1
            high = self._class_code(start)
            if high < low:
                raise PatternError("invalid character class range", self.text[begin : self.at])
        return low, high

    def _class_code(self, start: int) -> int:
        if self.at >= len(self.text):
            raise PatternError("missing closing ]", self.text[start:])
        if self.text[self.at] == "\\":
            return self._code()
        self.at += 1
        return ord(self.text[self.at - 1])


def _repeats(tree: Tree) -> int:
    """Return the number of times that nested counted repetitions can repeat."""
    if isinstance(tree, Repeat):
        many = max(tree.low, tree.high, 1) if tree.high >= 0 else max(tree.low, 1)
        return many * _repeats(tree.part)
    if isinstance(tree, (Sequence, Choice)):
        return max(map(_repeats, tree.parts), default=1)
    return 1


_LARGEST: Final = 10_000
"""The largest number of instructions of a program. Go allows a hundred times as many; no useful pattern needs them."""
_WORDS: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")

_CHAR, _SPLIT, _ASSERT, _MATCH = range(4)
_Test = Callable[[str], bool]
_Instruction = tuple[int, int, int, _Test | str | None]
"""(the instruction, the next one, the alternative one, the test)."""


class Pattern:
    """A compiled pattern."""

    def __init__(self, text: str) -> None:
        compiler = _Compiler()
        self._start = compiler.emit(parse(text), compiler.add((_MATCH, -1, -1, None)))
        self._program = compiler.program

    def matches(self, text: str) -> bool:
        """Return whether it matches anywhere in the text."""
        return self.find(text, 0, shortest=True) is not None

    def find(self, text: str, begin: int, shortest: bool = False) -> tuple[int, int] | None:
        """Return the leftmost match from a position on; of several there, the one that the pattern prefers."""
        found: tuple[int, int] | None = None
        threads: list[tuple[int, int]] = []
        program = self._program
        for at in range(begin, len(text) + 1):
            if found is None:
                threads = [*threads, (self._start, at)]
            if not threads:
                break
            ready = self._followed(threads, text, at)
            METER.spend(len(ready) + 1)
            threads = []
            character = text[at : at + 1]
            for state, start in ready:
                what, onward, _, test = program[state]
                if what == _MATCH:
                    found = (start, at)
                    if shortest:
                        return found
                    break
                if character and test(character):  # type: ignore[operator,misc]
                    threads.append((onward, start))
        return found

    def _followed(self, threads: list[tuple[int, int]], text: str, at: int) -> list[tuple[int, int]]:
        """Return all that can be reached without a character, in order of preference."""
        seen: set[int] = set()
        ready: list[tuple[int, int]] = []
        program = self._program
        for state, start in threads:
            waiting = [state]
            while waiting:
                state = waiting.pop()
                if state in seen:
                    continue
                seen.add(state)
                what, onward, other, test = program[state]
                if what == _SPLIT:
                    waiting.append(other)
                    waiting.append(onward)
                elif what == _ASSERT:
                    if _holds(str(test), text, at):
                        waiting.append(onward)
                else:
                    ready.append((state, start))
        METER.spend(len(seen))
        return ready

    def find_all(self, text: str, count: int) -> list[Value]:
        """Return all matches that don't overlap, at most `count` unless that is negative."""
        result: list[Value] = []
        at, last = 0, -1
        while at <= len(text) and (count < 0 or len(result) < count):
            found = self.find(text, at)
            if found is None:
                break
            start, end = found
            if end > start or start != last:
                result.append(text[start:end])
            last = end
            at = end if end > start else end + 1
            if end == start and end > len(text):
                break
        return result


def _holds(kind: str, text: str, at: int) -> bool:
    if kind == "begin":
        return at == 0
    if kind == "end":
        return at == len(text)
    if kind == "line-begin":
        return at == 0 or text[at - 1] == "\n"
    if kind == "line-end":
        return at == len(text) or text[at] == "\n"
    before = at > 0 and text[at - 1] in _WORDS
    after = at < len(text) and text[at] in _WORDS
    return (before != after) == (kind == "word")


class _Compiler:
    def __init__(self) -> None:
        self.program: list[_Instruction] = []

    def add(self, instruction: _Instruction) -> int:
        """Append an instruction; return its index."""
        if len(self.program) >= _LARGEST:
            raise PatternError("expression too large")
        METER.spend(PER_INSTRUCTION)
        self.program.append(instruction)
        return len(self.program) - 1

    def emit(self, tree: Tree, onward: int) -> int:
        """Append the instructions of a tree, after which `onward` follows; return where they begin."""
        if isinstance(tree, Chars):
            return self.add((_CHAR, onward, -1, tested(tree)))
        if isinstance(tree, Assert):
            return self.add((_ASSERT, onward, -1, tree.kind))
        if isinstance(tree, Sequence):
            for part in reversed(tree.parts):
                onward = self.emit(part, onward)
            return onward
        if isinstance(tree, Choice):
            starts = [self.emit(part, onward) for part in tree.parts]
            begin = starts[-1]
            for start in reversed(starts[:-1]):
                begin = self.add((_SPLIT, start, begin, None))
            return begin
        return self._repeat(tree, onward)

    def _repeat(self, tree: Repeat, onward: int) -> int:
        begin = onward
        if tree.high < 0:
            loop = self.add((_SPLIT, -1, -1, None))
            body = self.emit(tree.part, loop)
            self.program[loop] = (_SPLIT, onward, body, None) if tree.lazy else (_SPLIT, body, onward, None)
            begin = loop
        else:
            for _ in range(tree.high - tree.low):
                body = self.emit(tree.part, begin)
                begin = self.add((_SPLIT, onward, body, None) if tree.lazy else (_SPLIT, body, onward, None))
        for _ in range(tree.low):
            begin = self.emit(tree.part, begin)
        return begin


@lru_cache(maxsize=512)
def tested(chars: Chars) -> _Test:
    """Return the test of one character."""
    if chars.fold:
        plain = tested(Chars(chars.ranges, False, False, chars.category, chars.more))
        if chars.negated:
            return lambda one: not any(map(plain, _folded(one)))
        return lambda one: any(map(plain, _folded(one)))
    ranges, negated, category = chars.ranges, chars.negated, chars.category
    more = tuple(map(tested, chars.more))
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1] and not more and category is None:
        character = chr(ranges[0][0])
        return (lambda one: one != character) if negated else (lambda one: one == character)

    def inside(one: str) -> bool:
        code = ord(one)
        for low, high in ranges:
            if low <= code <= high:
                return not negated
        for test in more:
            if test(one):
                return not negated
        if category is not None and category(one):
            return not negated
        return negated

    return inside


def _folded(one: str) -> tuple[str, ...]:
    """Return all cases of the character."""
    variants = {one}
    for other in (one.lower(), one.upper()):
        if len(other) == 1:
            variants |= {other, *(text for text in (other.lower(), other.upper()) if len(text) == 1)}
    variants |= _ALSO.get(one.lower(), set())
    return tuple(variants)


_ALSO: Final = {"k": {"\u212a"}, "s": {"\u017f"}, "å": {"\u212b"}}


@lru_cache(maxsize=32)
def compiled(pattern: str) -> Pattern:
    """Return the compiled pattern. Raises PatternError."""
    return Pattern(pattern)


def _matches(text: Value, pattern: Value) -> bool:
    if type(text) is not str:
        raise refused(text, "matches")
    if type(pattern) is not str:
        raise no_overload()
    try:
        return compiled(pattern).matches(text)
    except PatternError as error:
        raise EvaluationError(str(error)) from None


def searching(function: str, pattern: str) -> Callable[..., Value]:
    """Return the code for a constant pattern. Raises PatternError."""
    known = Pattern(pattern)

    def run(text: Value, _: Value, count: Value = -1) -> Value:
        if type(text) is not str or type(count) is not int:
            raise no_overload()
        if function == "matches":
            return known.matches(text)
        if function == "findAll":
            return known.find_all(text, count)
        found = known.find(text, 0)
        return "" if found is None else text[found[0] : found[1]]

    return run


def _searched(pattern: str) -> Pattern:
    try:
        return compiled(pattern)
    except PatternError as error:
        raise EvaluationError(f"Illegal regex: {error}") from None


def _find(text: str, pattern: str) -> str:
    found = _searched(pattern).find(text, 0)
    return "" if found is None else text[found[0] : found[1]]


def _find_all(text: str, pattern: str, count: int = -1) -> list[Value]:
    return _searched(pattern).find_all(text, count)


SINGLE: dict[str, Callable[..., Value]] = {"matches": _matches}
OVERLOADS: dict[str, Callable[..., Value]] = {
    "string_find_string": _find,
    "string_find_all_string": _find_all,
    "string_find_all_string_int": _find_all,
}
