"""Arithmetic and comparisons, with overflow and the errors that cel-go has for types that don't go together."""

from collections.abc import Callable
from math import isnan

from podberth.cel.errors import METER, EvaluationError
from podberth.cel.values import (
    INT_MAX,
    INT_MIN,
    LISTS,
    MAPS,
    UINT_MAX,
    GrowingList,
    Uint,
    Value,
    equal,
    key_of,
)

NO_OVERLOAD = "no such overload"


def no_overload() -> EvaluationError:
    """Return the error for types that an operation doesn't take."""
    return EvaluationError(NO_OVERLOAD)


def _int(value: int) -> int:
    if INT_MIN <= value <= INT_MAX:
        return value
    raise EvaluationError("integer overflow")


def _uint(value: int) -> Uint:
    if 0 <= value <= UINT_MAX:
        return Uint(value)
    raise EvaluationError("unsigned integer overflow")


def refused(left: Value, function: str) -> EvaluationError:
    """Return the error for a left operand without such an operator; a string words it in another way."""
    return no_overload() if type(left) is str else EvaluationError(f"{NO_OVERLOAD}: {function}")


def add(left: Value, right: Value) -> Value:
    """Return `left + right`"""
    kind, other = type(left), type(right)
    if kind in LISTS:
        if other not in LISTS:
            raise no_overload()
        METER.spend((len(right) if kind is GrowingList else len(left) + len(right)) >> 3)
        if kind is GrowingList:
            left.extend(right)
            return left
        if not right:
            return left
        if not left:
            return right
        return [*left, *right]
    if kind not in _ADD:
        raise refused(left, "_+_")
    if kind is not other:
        raise no_overload()
    return _ADD[kind](left, right)


_ADD: dict[type, Callable[[Value, Value], Value]] = {
    int: lambda a, b: _int(a + b),
    Uint: lambda a, b: _uint(int(a) + int(b)),
    float: lambda a, b: a + b,
    str: lambda a, b: a + b,
    bytes: lambda a, b: a + b,
}


def _arithmetic(name: str, kinds: dict[type, Callable[[Value, Value], Value]]) -> Callable[[Value, Value], Value]:
    def operate(left: Value, right: Value) -> Value:
        kind = type(left)
        if kind not in kinds:
            raise refused(left, name)
        if kind is not type(right):
            raise no_overload()
        return kinds[kind](left, right)

    return operate


def _divide_int(left: int, right: int) -> int:
    if right == 0:
        raise EvaluationError("division by zero")
    quotient = abs(left) // abs(right)
    return _int(quotient if (left < 0) == (right < 0) else -quotient)


def _divide_uint(left: Uint, right: Uint) -> Uint:
    if right == 0:
        raise EvaluationError("division by zero")
    return Uint(int(left) // int(right))


def _divide_float(left: float, right: float) -> float:
    if right != 0:
        return left / right
    if left == 0 or isnan(left):
        return float("nan")
    positive = (left > 0) == (str(right)[0] != "-")
    return float("inf") if positive else float("-inf")


def _modulo_int(left: int, right: int) -> int:
    if right == 0:
        raise EvaluationError("modulus by zero")
    if left == INT_MIN and right == -1:
        raise EvaluationError("integer overflow")
    rest = abs(left) % abs(right)
    return -rest if left < 0 else rest


def _modulo_uint(left: Uint, right: Uint) -> Uint:
    if right == 0:
        raise EvaluationError("modulus by zero")
    return Uint(int(left) % int(right))


subtract = _arithmetic(
    "_-_",
    {int: lambda a, b: _int(a - b), Uint: lambda a, b: _uint(int(a) - int(b)), float: lambda a, b: a - b},
)
multiply = _arithmetic(
    "_*_",
    {int: lambda a, b: _int(a * b), Uint: lambda a, b: _uint(int(a) * int(b)), float: lambda a, b: a * b},
)
divide = _arithmetic("_/_", {int: _divide_int, Uint: _divide_uint, float: _divide_float})
modulo = _arithmetic("_%_", {int: _modulo_int, Uint: _modulo_uint})


def negate(value: Value) -> Value:
    """Return `-value`"""
    kind = type(value)
    if kind is int:
        return _int(-value)
    if kind is float:
        return -value
    raise no_overload() if kind is bool or kind is str else EvaluationError(f"{NO_OVERLOAD}: -_")


def negated(value: Value) -> bool:
    """Return `!value`"""
    if type(value) is not bool:
        raise no_overload()
    return not value


COMPARABLE = frozenset({bool, bytes, float, int, str, Uint})
"""The types that have an order."""
_NUMBERS = frozenset({int, Uint, float})


def compare(left: Value, right: Value) -> int:
    """Return -1, 0 or 1 for values that have an order; numbers of different types are ordered too."""
    kind, other = type(left), type(right)
    if kind is other:
        if kind is float and (isnan(left) or isnan(right)):
            raise EvaluationError("NaN values cannot be ordered")
        if kind is str and not (left.isascii() and right.isascii()):
            left, right = left.encode("utf-8", "surrogatepass"), right.encode("utf-8", "surrogatepass")
        return int(left > right) - int(left < right)
    if kind in _NUMBERS and other in _NUMBERS:
        return _compare_numbers(left, right)
    if kind is float and isnan(left):
        raise EvaluationError("NaN values cannot be ordered")
    raise no_overload()


def _compare_numbers(left: Value, right: Value) -> int:
    if type(left) is float or type(right) is float:
        for value in (left, right):
            if type(value) is float and isnan(value):
                raise EvaluationError("NaN values cannot be ordered")
        one, two = float(left), float(right)
        return (one > two) - (one < two)
    one_int, two_int = int(left), int(right)
    return (one_int > two_int) - (one_int < two_int)


def _ordered(name: str, outcomes: frozenset[int]) -> Callable[[Value, Value], bool]:
    def operate(left: Value, right: Value) -> bool:
        if type(left) not in COMPARABLE:
            raise refused(left, name)
        return compare(left, right) in outcomes

    return operate


less = _ordered("_<_", frozenset({-1}))
less_equals = _ordered("_<=_", frozenset({-1, 0}))
greater = _ordered("_>_", frozenset({1}))
greater_equals = _ordered("_>=_", frozenset({0, 1}))


def equals(left: Value, right: Value) -> bool:
    """Return `left == right`"""
    result = equal(left, right)
    if result is None:
        raise no_overload()
    return result


def differs(left: Value, right: Value) -> bool:
    """Return `left != right`: values that can't be compared differ."""
    return equal(left, right) is not True


def contained(element: Value, within: Value) -> bool:
    """Return `element in within`: an element of a list, or a key of a map."""
    kind = type(within)
    if kind in LISTS:
        METER.spend(len(within))
        return any(equal(element, item) is True for item in within)
    if kind in MAPS:
        return key_of(element) in within.items
    raise no_overload()


BINARY: dict[str, Callable[[Value, Value], Value]] = {
    "_+_": add,
    "_-_": subtract,
    "_*_": multiply,
    "_/_": divide,
    "_%_": modulo,
    "_<_": less,
    "_<=_": less_equals,
    "_>_": greater,
    "_>=_": greater_equals,
    "_==_": equals,
    "_!=_": differs,
    "@in": contained,
}
UNARY: dict[str, Callable[[Value], Value]] = {"-_": negate, "!_": negated}
