"""The code of each function, found by its overload, and what a call costs.

Costs are in the units of cel-go and of Kubernetes' estimator. The limit is on their sum.
"""

from collections.abc import Callable, Sequence
from math import ceil
from typing import Final

from podberth.cel import types
from podberth.cel.errors import METER, AbortError, EvaluationError
from podberth.cel.library import conversions, lists, network, operators, quantities, strings
from podberth.cel.values import (
    LISTS,
    MAPS,
    NONE,
    OWN,
    Optional,
    Value,
    size_of,
    type_name,
)

Implementation = Callable[..., Value]

_OVERLOADS: dict[str, Implementation] = {
    **conversions.OVERLOADS,
    **lists.OVERLOADS,
    **network.OVERLOADS,
    **lists.OPTIONALS,
    **quantities.OVERLOADS,
    **strings.OVERLOADS,
}
"""Overload → its code; the types of its arguments are checked before."""
_SINGLE: dict[str, Implementation] = {
    **operators.BINARY,
    **operators.UNARY,
    **conversions.SINGLE,
    **lists.SINGLE,
    **strings.SINGLE,
}
"""Function → one code for all overloads, which looks at its arguments itself."""


def implementation_of(function: str, overload: str, count: int) -> Implementation:
    """Return the code of a call to a function with so many arguments; `overload` is empty when several fit."""
    single = _SINGLE.get(function)
    if single is not None:
        return single
    declared = types.functions()[function]
    known = [one for one in declared if len(one.args) == count and one.name in _OVERLOADS]
    if overload:
        known = [one for one in known if one.name == overload]
    if len(known) == 1:
        return _guarded(function, known[0])
    return _dispatched(function, known)


def ends_early(function: str, overload: str) -> bool:
    """Return whether a call ends at the first argument that fails, as where the overload is found when it runs."""
    if overload or function in _SINGLE:
        return False
    return sum(one.name in _OVERLOADS for one in types.functions()[function]) > 1


def _guarded(function: str, overload: types.Overload) -> Implementation:
    run = _OVERLOADS[overload.name]
    args = overload.args
    if all(types.is_dyn(arg) or arg.kind == types.PARAMETER for arg in args):
        return run
    if len(args) == 1:
        arg = args[0]

        def unary(value: Value) -> Value:
            if not takes(arg, value):
                raise refused(function, (value,))
            return run(value)

        return unary

    def guarded(*values: Value) -> Value:
        if not all(map(takes, args, values)):
            raise refused(function, values)
        return run(*values)

    return guarded


def _dispatched(function: str, overloads: list[types.Overload]) -> Implementation:
    def run(*values: Value) -> Value:
        for overload in overloads:
            if all(map(takes, overload.args, values)):
                return _OVERLOADS[overload.name](*values)
        raise refused(function, values)

    return run


def refused(function: str, values: tuple[Value, ...]) -> EvaluationError:
    """Return the error for arguments that no overload takes."""
    return EvaluationError(f"no such overload: {function}({', '.join(map(type_name, values))})")


def takes(known: types.Type, value: Value) -> bool:
    """Return whether the value is of the type; of a list or a map, only the first item is looked at."""
    if known.kind == types.PARAMETER or types.is_dyn(known):
        return True
    if known.name != type_name(value):
        return False
    if known.kind == types.LIST and len(value):
        return takes(known.args[0], value[0])
    if known.kind == types.MAP and len(value):
        key, item = next(value.pairs())
        return takes(known.args[0], key) and takes(known.args[1], item)
    return True


# --- prices -----------------------------------------------------------------------------------------------------------

LIST: Final = 10
MAP: Final = 30

_TRAVERSAL: Final = 0.1
_REGEX: Final = 0.25

Price = Callable[[Sequence[Value], Value], int]
"""The price of a call by its arguments and its result. An argument that failed (FAILED) counts as 1 in size."""


def _scan(size: int, factor: float = 1.0) -> int:
    return ceil(size * factor * _TRAVERSAL)


def _first(args: Sequence[Value], result: Value) -> int:
    return _scan(size_of(args[0]))


def _first_twice(args: Sequence[Value], result: Value) -> int:
    return _scan(size_of(args[0]), 2)


def _second(args: Sequence[Value], result: Value) -> int:
    return _scan(size_of(args[1]))


def _result_twice(args: Sequence[Value], result: Value) -> int:
    return _scan(size_of(result), 2)


def _inner_size(value: Value) -> int:
    return size_of(value.value) if type(value) is Optional and value is not NONE else size_of(value)


def _equality(args: Sequence[Value], result: Value) -> int:
    return 1 if type(args[0]) in OWN else _smaller(args, result)


def _smaller(args: Sequence[Value], result: Value) -> int:
    return _scan(min(_inner_size(args[0]), _inner_size(args[1])))


def _both(args: Sequence[Value], result: Value) -> int:
    return _scan(_inner_size(args[0]) + _inner_size(args[1]))


def _matching(args: Sequence[Value], result: Value) -> int:
    return ceil((1 + _inner_size(args[0])) * _TRAVERSAL) * ceil(_inner_size(args[1]) * _REGEX)


def _containing(args: Sequence[Value], result: Value) -> int:
    return _scan(_inner_size(args[0])) * _scan(_inner_size(args[1]))


def _contains_ip(args: Sequence[Value], result: Value) -> int:
    return _scan(2 * size_of(args[0]))


def _contains_cidr(args: Sequence[Value], result: Value) -> int:
    return _contains_ip(args, result) + _first(args, result) + 1


def _and_second(price: Price) -> Price:
    return lambda args, result: price(args, result) + _second(args, result)


def _traversal(value: Value) -> int:
    kind = type(value)
    if kind is str:
        return int(len(value.encode("utf-8", "surrogatepass")) * _TRAVERSAL)
    if kind is bytes:
        return int(len(value) * _TRAVERSAL)
    if kind in LISTS:
        METER.spend(len(value))
        return sum(map(_traversal, value))
    if kind in MAPS:
        METER.spend(len(value))
        return sum(_traversal(key) + _traversal(item) for key, item in value.pairs())
    return 1


def _traversed(args: Sequence[Value], result: Value) -> int:
    return _traversal(args[0])


def _output(args: Sequence[Value], result: Value) -> int:
    return size_of(result) + 1 + LIST


def _flattened(args: Sequence[Value], result: Value) -> int:
    depth = 1 if len(args) == 1 else args[1]
    if type(depth) is not int:
        raise AbortError("internal error: the depth of flatten() is no int")
    return size_of(args[0]) * max(depth, 1 if depth < 0 else 0) + 1 + LIST


def _self_compared(index: int) -> Price:
    def price(args: Sequence[Value], result: Value) -> int:
        compared = args[index]
        if type(compared) not in LISTS:
            raise AbortError("internal error: what is to be sorted is no list")
        size = size_of(compared)
        factor = 2.0
        if size and type(compared[0]) in (str, bytes):
            factor += _TRAVERSAL
        return int(size * size * factor) + 1 + LIST

    return price


def _sets(factor: int) -> Price:
    return lambda args, result: 1 + size_of(args[0]) * size_of(args[1]) * factor


_BY_FUNCTION: Final[dict[str, Price]] = {
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf", "includes"), _traversed),
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim"), _first),
    **dict.fromkeys(("replace", "split", "ip.isCanonical"), _first_twice),
    "join": _result_twice,
    **dict.fromkeys(("find", "findAll", "matches"), _matching),
    **dict.fromkeys(("cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"), _first),
    "containsIP": _contains_ip,
    "containsCIDR": _contains_cidr,
}
_BY_OVERLOAD: Final[dict[str, Price]] = {
    "cidr_contains_ip_string": _and_second(_contains_ip),
    "cidr_contains_cidr_string": _and_second(_contains_cidr),
    "list_slice": _output,
    "lists_range": _output,
    "list_reverse": _output,
    "list_flatten": _flattened,
    "list_flatten_int": _flattened,
    "list_distinct": _self_compared(0),
    "list_sets_contains_list": _sets(1),
    "list_sets_intersects_list": _sets(1),
    "list_sets_equivalent_list": _sets(2),
    "starts_with_string": _second,
    "ends_with_string": _second,
    **dict.fromkeys(("string_to_bytes", "bytes_to_string", "strings_quote"), _first),
    "in_list": lambda args, result: size_of(args[1]),
    **dict.fromkeys((f"{name}_{kind}" for name in ("less", "greater", "less_equals", "greater_equals")
                     for kind in ("string", "bytes")), _smaller),
    **dict.fromkeys(("add_string", "add_bytes"), _both),
    "contains_string": _containing,
    "string_to_ip": _first,
}  # fmt: skip


def price_of(function: str, overload: str) -> Price | None:
    """Return the price of a call; None: it is always 1. `overload` is empty when several fit."""
    if overload in _EXTENSIONS or overload.endswith("_sort"):
        return _BY_OVERLOAD.get(overload, _self_compared(0))
    if overload.endswith("_sortByAssociatedKeys"):
        return _self_compared(1)
    found = _BY_FUNCTION.get(function)
    if found is not None and not (function == "matches" and not overload):
        return found
    if function == "ip" and overload != "cidr_ip":
        return _first
    if function in ("_==_", "_!=_"):
        return _equality if function == "_==_" else _smaller
    return _BY_OVERLOAD.get(overload)


_EXTENSIONS: Final = frozenset(name for name in _BY_OVERLOAD if name.startswith(("list_", "lists_", "cidr_contains_")))
