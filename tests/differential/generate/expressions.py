"""Selectors from a seed: mostly of right types, of every kind of value, and now and then with a mistake."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

_STRINGS = ('"a100"', '"h100"', '""', '"gpu.example.com"', '"a"', '"1.9.0"', '"é"', '"3"')
_INTS = ("0", "1", "3", "-1", "7", "9223372036854775807", "2")
_DOUBLES = ("0.0", "1.5", "-2.25", "1e10")
_UINTS = ("0u", "3u", "18446744073709551615u")
_QUANTITIES = ("1", "20Gi", "500m", "40Gi", "1e3", "0", "100G")
_VERSIONS = ("1.9.0", "1.9.0-rc1", "0.0.0", "12.0.1", "1.10.0-alpha.1")
_NAMES = ("model", "index", "healthy", "version", "k1", "nope")
_DOMAINS = ("gpu.example.com", "other.com", "nope")
_PATTERNS = ("^a", "[0-9]+", "a|h", "(a+)+$", ".*", "\\\\.com$", "(?i)GPU", "[^a-z]")


class _Writer:
    def __init__(self, dice: Random) -> None:
        self._dice = dice
        self._variables: list[tuple[str, str]] = []

    def write(self, kind: str, depth: int) -> str:
        """An expression of the kind; or of another one, rarely."""
        if self._dice.random() < 0.004:
            kind = self._dice.choice(tuple(_LEAVES))
        known = [name for name, of in self._variables if of == kind]
        if known and self._dice.random() < 0.35:
            return self._dice.choice(known)
        if depth <= 0 or self._dice.random() < 0.15:
            return _LEAVES[kind](self)
        return self._dice.choice(_BRANCHES[kind])(self, depth - 1)

    def pick(self, values: tuple[str, ...]) -> str:
        """One of them."""
        return self._dice.choice(values)

    def attribute(self) -> str:
        """Something that may be of any type, or not be there."""
        domain, name = self.pick(_DOMAINS[:1] * 4 + _DOMAINS), self.pick(_NAMES)
        form = self.pick((".{name}", ".{name}", '["{name}"]', '.?{name}.orValue("none")', ".?{name}.orValue(1)"))
        return f'device.attributes["{domain}"]{form.format(name=name)}'

    def loop(self, macro: str, kind: str, depth: int, body: str) -> str:
        """A macro over a list."""
        over = self.write(f"list_{kind}", depth)
        name = f"v{len(self._variables)}"
        self._variables.append((name, kind))
        inner = self.write(body, depth)
        self._variables.pop()
        return f"{over}.{macro}({name}, {inner})"

    def bound(self, kind: str, result: str, depth: int) -> str:
        """cel.bind."""
        value = self.write(kind, depth)
        name = f"b{len(self._variables)}"
        self._variables.append((name, kind))
        inner = self.write(result, depth)
        self._variables.pop()
        return f"cel.bind({name}, {value}, {inner})"


_Leaf = Callable[[_Writer], str]
_Branch = Callable[[_Writer, int], str]


def _form(text: str, *kinds: str) -> _Branch:
    """A text with expressions of these kinds in it."""
    return lambda writer, depth: text.format(*(writer.write(kind, depth) for kind in kinds))


def _any(*texts: str, kinds: tuple[str, ...]) -> _Branch:
    return lambda writer, depth: writer.pick(texts).format(*(writer.write(kind, depth) for kind in kinds))


_LEAVES: dict[str, _Leaf] = {
    "bool": lambda writer: writer.pick(("true", "false", "device.allowMultipleAllocations")),
    "int": lambda writer: writer.pick(_INTS),
    "uint": lambda writer: writer.pick(_UINTS),
    "double": lambda writer: writer.pick(_DOUBLES),
    "string": lambda writer: writer.pick((*_STRINGS, "device.driver")),
    "dyn": _Writer.attribute,
    "quantity": lambda writer: writer.pick(
        (f'quantity("{writer.pick(_QUANTITIES)}")', 'device.capacity["gpu.example.com"].memory')
    ),
    "semver": lambda writer: f'semver("{writer.pick(_VERSIONS)}")',
    "list_int": lambda writer: writer.pick(("[1, 2, 3]", "[0, 3]", "[]", "lists.range(4)", "[7]")),
    "list_string": lambda writer: writer.pick(('["a100", "h100"]', '[""]', "[device.driver]", "[]")),
    "map": lambda writer: writer.pick(('{"a": 1, "b": 2}', '{"model": 3}', "{}")),
    "optional": lambda writer: writer.pick(("optional.of(3)", "optional.none()", "optional.ofNonZeroValue(0)")),
}
_COMPARED = ("{} == {}", "{} != {}", "{} < {}", "{} <= {}", "{} > {}", "{} >= {}")
_EQUAL = ("{} == {}", "{} != {}")
_MATHS = ("({} + {})", "({} - {})", "{} * {}", "{} / {}", "{} % {}")
_LOGIC = ("({} && {})", "({} || {})", "{} && {}", "{} || {}")

_BRANCHES: dict[str, tuple[_Branch, ...]] = {
    "bool": (
        _any(*_LOGIC, kinds=("bool", "bool")),
        _any(*_LOGIC, kinds=("bool", "bool")),
        _form("!({})", "bool"),
        _form("({} ? {} : {})", "bool", "bool", "bool"),
        _any(*_COMPARED, kinds=("int", "int")),
        _any(*_COMPARED, kinds=("string", "string")),
        _any(*_COMPARED, kinds=("int", "double")),
        _any(*_COMPARED, kinds=("uint", "int")),
        _any(*_COMPARED, kinds=("dyn", "int")),
        _any(*_COMPARED, kinds=("dyn", "string")),
        _any(*_EQUAL, kinds=("dyn", "dyn")),
        _any(*_EQUAL, kinds=("dyn", "semver")),
        _any(*_EQUAL, kinds=("list_int", "list_int")),
        _any(*_EQUAL, kinds=("map", "map")),
        _any(*_EQUAL, kinds=("optional", "optional")),
        _any(*_EQUAL, kinds=("quantity", "quantity")),
        _form("dyn({})", "dyn"),
        _form("{} in {}", "int", "list_int"),
        _form("{} in {}", "string", "list_string"),
        _form("{} in {}", "dyn", "list_string"),
        _form("{} in {}", "string", "map"),
        _any("{}.startsWith({})", "{}.endsWith({})", "{}.contains({})", kinds=("string", "string")),
        _any("{}.startsWith({})", "{}.contains({})", kinds=("dyn", "string")),
        lambda writer, depth: f'{writer.write("string", depth)}.matches("{writer.pick(_PATTERNS)}")',
        lambda writer, depth: f'{writer.write("dyn", depth)}.matches("{writer.pick(_PATTERNS)}")',
        _any("{}.isGreaterThan({})", "{}.isLessThan({})", kinds=("quantity", "quantity")),
        _any("{}.isGreaterThan({})", "{}.isLessThan({})", kinds=("dyn", "semver")),
        lambda writer, depth: f'has(device.attributes["{writer.pick(_DOMAINS)}"].{writer.pick(_NAMES)})',
        lambda writer, depth: f'"{writer.pick(_NAMES)}" in device.attributes["{writer.pick(_DOMAINS)}"]',
        lambda writer, depth: writer.loop(writer.pick(("all", "exists", "exists_one")), "int", depth, "bool"),
        lambda writer, depth: writer.loop(writer.pick(("all", "exists", "exists_one")), "string", depth, "bool"),
        lambda writer, depth: writer.bound("dyn", "bool", depth),
        lambda writer, depth: writer.bound("int", "bool", depth),
        _form("{}.hasValue()", "optional"),
        _form("sets.intersects({}, {})", "list_int", "list_int"),
        _form("{}.isSorted()", "list_int"),
        _form("isQuantity({})", "string"),
        _form("isSemver({}, true)", "string"),
    ),
    "int": (
        _any(*_MATHS, kinds=("int", "int")),
        _form("-({})", "int"),
        _form("({} ? {} : {})", "bool", "int", "int"),
        _any("size({})", "{}.size()", kinds=("string",)),
        _form("{}.size()", "list_int"),
        _form("{}.size()", "map"),
        _form("{}[{}]", "list_int", "int"),
        _form("{}[{}]", "map", "string"),
        _form("{}.a", "map"),
        _any("int({})", kinds=("string",)),
        _any("int({})", kinds=("double",)),
        _any("int({})", kinds=("uint",)),
        _any("{}.indexOf({})", "{}.lastIndexOf({})", kinds=("string", "string")),
        _any("{}.sum()", "{}.min()", "{}.max()", kinds=("list_int",)),
        _form("{}.orValue({})", "optional", "int"),
        _form("{}.value()", "optional"),
        _form("{}[?{}].orValue({})", "list_int", "int", "int"),
        _form("{}.compareTo({})", "quantity", "quantity"),
        _form("{}.compareTo({})", "dyn", "semver"),
        _any("{}.asInteger()", kinds=("quantity",)),
        _any("{}.major()", "{}.minor()", "{}.patch()", kinds=("semver",)),
    ),
    "uint": (_any(*_MATHS, kinds=("uint", "uint")), _form("uint({})", "int")),
    "double": (
        _any("({} + {})", "{} * {}", "{} / {}", kinds=("double", "double")),
        _form("double({})", "int"),
        _form("{}.asApproximateFloat()", "quantity"),
    ),
    "string": (
        _form("({} + {})", "string", "string"),
        _form("string({})", "int"),
        _form("string({})", "double"),
        _form("({} ? {} : {})", "bool", "string", "string"),
        _any("{}.lowerAscii()", "{}.upperAscii()", "{}.trim()", kinds=("string",)),
        _form("{}.replace({}, {})", "string", "string", "string"),
        _any("{}.substring({})", "{}.charAt({})", kinds=("string", "int")),
        _form("{}.join({})", "list_string", "string"),
        lambda writer, depth: f'{writer.write("string", depth)}.find("{writer.pick(_PATTERNS)}")',
        _form("{}[{}]", "list_string", "int"),
    ),
    "dyn": (
        _form("dyn({})", "int"),
        _form("dyn({})", "string"),
        _form("dyn({})", "bool"),
        _form("({} ? {} : {})", "bool", "dyn", "dyn"),
        _form("({} + {})", "dyn", "int"),
        lambda writer, depth: writer.attribute(),
        lambda writer, depth: writer.attribute(),
    ),
    "quantity": (
        _form("{}.add({})", "quantity", "quantity"),
        _form("{}.sub({})", "quantity", "int"),
        _form("({} ? {} : {})", "bool", "quantity", "quantity"),
    ),
    "semver": (_form("semver({}, true)", "string"),),
    "list_int": (
        _form("[{}, {}]", "int", "int"),
        _form("({} + {})", "list_int", "list_int"),
        lambda writer, depth: writer.loop("map", "int", depth, "int"),
        lambda writer, depth: writer.loop("filter", "int", depth, "bool"),
        _any("{}.reverse()", "{}.sort()", "{}.distinct()", kinds=("list_int",)),
        _form("{}.slice({}, 2)", "list_int", "int"),
    ),
    "list_string": (
        _form("[{}, {}]", "string", "string"),
        _form("{}.split({})", "string", "string"),
        lambda writer, depth: writer.loop("filter", "string", depth, "bool"),
        lambda writer, depth: writer.loop("map", "int", depth, "string"),
        lambda writer, depth: f'{writer.write("string", depth)}.findAll("{writer.pick(_PATTERNS)}")',
    ),
    "map": (_form('{{"a": {}, "b": {}}}', "int", "int"), _form('{{{}: {}}}', "string", "int")),
    "optional": (
        _form("optional.of({})", "int"),
        _form("{}.?a", "map"),
        _form("{}[?{}]", "list_int", "int"),
        _form("{}.or({})", "optional", "optional"),
        _form("{}.optMap(o, o + 1)", "optional"),
    ),
}  # fmt: skip


def expression(seed: int, number: int) -> str:
    """The expression of this name, the same one every time."""
    dice = Random(f"selector-{seed}-{number}")
    return _Writer(dice).write("bool", dice.choice((2, 3, 3, 4, 5)))
