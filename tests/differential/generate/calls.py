"""Selectors from a seed that call any function the environment declares, with arguments of the types it declares.

`generate/expressions.py` writes what people write. This goes through `declarations.txt` instead: each overload comes
as often as any other, its type variables stand for any type, and now and then an argument hides its type (`dyn`) or is
of another one. `leaves.txt` has what a line may end with: a type, and an expression of it.
"""

from __future__ import annotations

from collections import defaultdict
from importlib.resources import files
from pathlib import Path
from random import Random
from typing import NamedTuple


class Type(NamedTuple):
    """A name, and the types that it is made of: Type("list", (Type("int"),))."""

    name: str
    of: tuple[Type, ...] = ()


BOOL, INT = Type("bool"), Type("int")

_SCALARS = (
    *("int", "uint", "double", "bool", "string", "bytes", "dyn"),
    *("kubernetes.Quantity", "kubernetes.Semver"),
)
_KEYS = ("string", "int", "uint", "bool")
_OPERATORS = {"_[_]": "{}[{}]", "_[?_]": "{}[?{}]", "_?_:_": "({} ? {} : {})", "@in": "({} in {})"}
_ANY_ORDER = ("all", "exists", "exists_one")


def _parsed(text: str) -> Type:
    """Of its text, as in list(optional_type(V))."""
    name, _, inner = text.partition("(")
    return Type(name, tuple(map(_parsed, _split(inner[:-1]))))


def _split(text: str) -> list[str]:
    found, depth, begin = [], 0, 0
    for place, letter in enumerate(text):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and not depth:
            found.append(text[begin:place].strip())
            begin = place + 1
    return [*found, text[begin:].strip()] if text else []


def _is_variable(one: Type) -> bool:
    return len(one.name) == 1


class Overload:
    """One line of `declarations.txt`."""

    def __init__(self, line: str) -> None:
        self.name, _, self.style, rest = line.split(" ", 3)
        arguments, _, result = rest.rpartition(" -> ")
        self.arguments = [_parsed(one) for one in _split(arguments[1:-1])]
        self.result = _parsed(result)

    def bind(self, wanted: Type, bound: dict[str, Type]) -> bool:
        """Whether it gives a value of the type; if so, with these type variables."""
        return _unify(self.result, wanted, bound)

    def text(self, given: list[str]) -> str:
        """The call."""
        name = self.name
        if name in _OPERATORS:
            return _OPERATORS[name].format(*given)
        if name == "_?._":
            return f"{given[0]}.?a"
        if name in ("!_", "-_"):
            return f"{name[0]}({given[0]})"
        if name[0] == name[-1] == "_":
            return f"({given[0]} {name.strip('_')} {given[1]})"
        if self.style == "m":
            return f"{given[0]}.{name}({', '.join(given[1:])})"
        return f"{name}({', '.join(given)})"


def _unify(one: Type, wanted: Type, bound: dict[str, Type]) -> bool:
    if _is_variable(one):
        return bound.setdefault(one.name, wanted) == wanted
    return one.name == wanted.name and all(_unify(a, b, bound) for a, b in zip(one.of, wanted.of, strict=True))


def _overloads() -> dict[str, list[Overload]]:
    """By the name of the type of the result; those of any type under ""."""
    lines = files("podberth.cel").joinpath("declarations.txt").read_text(encoding="utf-8").splitlines()
    found = defaultdict(list)
    for line in lines:
        if not line.startswith(("@s", "@n", "cel.@")):
            one = Overload(line)
            found["" if _is_variable(one.result) else one.result.name].append(one)
    return dict(found)


def _leaves() -> dict[str, list[str]]:
    found = defaultdict(list)
    for line in (Path(__file__).parent / "leaves.txt").read_text(encoding="utf-8").splitlines():
        kind, _, text = line.partition(" ")
        found[kind].append(text)
    return dict(found)


_OVERLOADS = _overloads()
_LEAVES = _leaves()


class _Caller:
    def __init__(self, dice: Random) -> None:
        self._dice = dice
        self._names: list[tuple[str, Type]] = []

    def write(self, wanted: Type, depth: int) -> str:
        """An expression of the type, or rarely of another."""
        dice = self._dice
        if dice.random() < 0.01:
            wanted = self.some_type(1)
        known = [name for name, of in self._names if of == wanted]
        if known and dice.random() < 0.5:
            return dice.choice(known)
        if depth <= 0 or dice.random() < 0.1:
            return self._leaf(wanted, depth)
        kind = dice.random()
        if kind < 0.04 and wanted.name != "dyn":
            return self._hidden(wanted, depth - 1)
        if kind < 0.2:
            return self._loop(wanted, depth - 1)
        if kind < 0.24:
            return self._bound(wanted, depth - 1)
        return self._call(wanted, depth - 1)

    def some_type(self, depth: int = 1) -> Type:
        """Any type."""
        dice = self._dice
        if not depth or dice.random() < 0.75:
            return Type(dice.choice(_SCALARS))
        kind = dice.choice(("list", "list", "map", "optional_type"))
        inner = self.some_type(depth - 1)
        return Type(kind, (Type(dice.choice(_KEYS)), inner) if kind == "map" else (inner,))

    def _leaf(self, wanted: Type, depth: int) -> str:
        dice, name = self._dice, wanted.name
        if name == "list":
            items = [self._leaf(wanted.of[0], 0) for _ in range(dice.choice((0, 1, 2, 2, 3)))]
            return f"[{', '.join(items)}]"
        if name == "map":
            count = dice.choice((0, 1, 2))
            pairs = [f"{self._leaf(wanted.of[0], 0)}: {self._leaf(wanted.of[1], 0)}" for _ in range(count)]
            return f"{{{', '.join(pairs)}}}"
        if name == "optional_type":
            form = dice.choice(("optional.none()", "optional.of({})", "optional.of({})", "optional.ofNonZeroValue({})"))
            return form.format(self._leaf(wanted.of[0], 0))
        return dice.choice(_LEAVES[name])

    def _hidden(self, wanted: Type, depth: int) -> str:
        """dyn(…), which may be of the type."""
        return f"dyn({self.write(wanted if self._dice.random() < 0.7 else self.some_type(), depth)})"

    def _call(self, wanted: Type, depth: int) -> str:
        of_type = _OVERLOADS.get(wanted.name, [])
        dice = self._dice
        several = of_type if of_type and dice.random() < 0.75 else _OVERLOADS[""]
        for _ in range(8):
            one, bound = dice.choice(several), dict[str, Type]()
            if one.bind(wanted, bound):
                filled = [self._filled(of, bound) for of in one.arguments]
                return one.text([self.write(of, depth) for of in filled])
        return self._leaf(wanted, depth)

    def _filled(self, one: Type, bound: dict[str, Type]) -> Type:
        """The type with a type for each of its variables."""
        if _is_variable(one):
            return bound.setdefault(one.name, self.some_type())
        if one.name == "map" and _is_variable(one.of[0]):
            bound.setdefault(one.of[0].name, Type(self._dice.choice(_KEYS)))
        return Type(one.name, tuple([self._filled(inner, bound) for inner in one.of]))

    def _loop(self, wanted: Type, depth: int) -> str:
        """A macro over a list or a map whose outcome is of the type; or a call, where there is none."""
        dice, item = self._dice, self.some_type(0)
        if wanted == BOOL:
            macro = dice.choice(_ANY_ORDER)
            if dice.random() < 0.4:
                over, names = self._pairs(item, depth)
                macro = dice.choice(("all", "exists", "exists_one", "existsOne"))
                return f"{over}.{macro}({', '.join(name for name, _ in names)}, {self._inside(names, wanted, depth)})"
            name = f"v{len(self._names)}"
            over = self.write(Type("list", (item,)), depth)
            return f"{over}.{macro}({name}, {self._inside([(name, item)], wanted, depth)})"
        if wanted.name == "list":
            name, kind = f"v{len(self._names)}", dice.random()
            if kind < 0.3:
                test = self._inside([(name, wanted.of[0])], BOOL, depth)
                return f"{self.write(wanted, depth)}.filter({name}, {test})"
            if kind < 0.4:
                key = self._inside([(name, wanted.of[0])], Type(dice.choice(("int", "string", "double"))), depth)
                return f"{self.write(wanted, depth)}.sortBy({name}, {key})"
            if kind < 0.7:
                made = self._inside([(name, item)], wanted.of[0], depth)
                test = f"{self._inside([(name, item)], BOOL, depth)}, " if dice.random() < 0.3 else ""
                return f"{self.write(Type('list', (item,)), depth)}.map({name}, {test}{made})"
            over, names = self._pairs(item, depth)
            made = self._inside(names, wanted.of[0], depth)
            test = f"{self._inside(names, BOOL, depth)}, " if dice.random() < 0.3 else ""
            return f"{over}.transformList({', '.join(name for name, _ in names)}, {test}{made})"
        if wanted.name == "map":
            names = [(f"k{len(self._names)}", wanted.of[0]), (f"w{len(self._names)}", item)]
            over = self.write(Type("map", (wanted.of[0], item)), depth)
            made = self._inside(names, wanted.of[1], depth)
            test = f"{self._inside(names, BOOL, depth)}, " if dice.random() < 0.3 else ""
            if dice.random() < 0.3:
                made = f"{{{self._inside(names, wanted.of[0], depth)}: {made}}}"
                return f"{over}.transformMapEntry({names[0][0]}, {names[1][0]}, {test}{made})"
            return f"{over}.transformMap({names[0][0]}, {names[1][0]}, {test}{made})"
        if wanted.name == "optional_type":
            name = f"v{len(self._names)}"
            over = self.write(Type("optional_type", (item,)), depth)
            if dice.random() < 0.5:
                return f"{over}.optFlatMap({name}, {self._inside([(name, item)], wanted, depth)})"
            return f"{over}.optMap({name}, {self._inside([(name, item)], wanted.of[0], depth)})"
        return self._call(wanted, depth)

    def _pairs(self, item: Type, depth: int) -> tuple[str, list[tuple[str, Type]]]:
        """Something to loop over with two variables, and those."""
        number, key = len(self._names), Type(self._dice.choice(_KEYS))
        if self._dice.random() < 0.5:
            return self.write(Type("list", (item,)), depth), [(f"i{number}", INT), (f"v{number}", item)]
        return self.write(Type("map", (key, item)), depth), [(f"k{number}", key), (f"v{number}", item)]

    def _inside(self, names: list[tuple[str, Type]], wanted: Type, depth: int) -> str:
        self._names += names
        text = self.write(wanted, depth)
        del self._names[len(self._names) - len(names) :]
        return text

    def _bound(self, wanted: Type, depth: int) -> str:
        of = self.some_type()
        name = f"b{len(self._names)}"
        return f"cel.bind({name}, {self.write(of, depth)}, {self._inside([(name, of)], wanted, depth)})"


def calling(seed: int, number: int) -> str:
    """The expression of this name, the same one every time."""
    dice = Random(f"calls-{seed}-{number}")
    return _Caller(dice).write(BOOL, dice.choice((2, 3, 3, 4)))
