"""Functions of lists, sets, maps and optional values: those of cel-go's extensions and those of Kubernetes."""

from collections.abc import Callable
from functools import cmp_to_key

from podberth.cel.errors import METER, UNITS, EvaluationError
from podberth.cel.library.conversions import shown
from podberth.cel.library.operators import COMPARABLE, add, compare, no_overload
from podberth.cel.values import (
    LISTS,
    MAPS,
    MISSING,
    NONE,
    GrowingMap,
    Map,
    Optional,
    Uint,
    Value,
    equal,
    type_name,
)

_LONGEST_RANGE = 1_000_000
_KINDS = ("int", "uint", "double", "bool", "string", "bytes")
_ZERO: dict[str, Value] = {"int": 0, "uint": Uint(0), "double": 0.0}


def _has(values: list[Value], element: Value) -> bool:
    METER.spend(len(values))
    return any(equal(element, value) is True for value in values)


def _contains(values: list[Value], some: list[Value]) -> bool:
    return all(_has(values, element) for element in some)


def _equivalent(left: list[Value], right: list[Value]) -> bool:
    return _contains(left, right) and _contains(right, left)


def _intersects(left: list[Value], right: list[Value]) -> bool:
    return any(_has(right, element) for element in left)


def _range(count: int) -> list[Value]:
    if count < 0:
        raise EvaluationError(f"lists.range: size must be non-negative, got {count}")
    if count > _LONGEST_RANGE:
        raise EvaluationError(f"lists.range: size {count} exceeds maximum allowed ({_LONGEST_RANGE})")
    METER.spend(count >> 4)
    return list(range(count))


def _slice(values: list[Value], start: int, end: int) -> list[Value]:
    where = f"cannot slice({start}, {end})"
    if start < 0 or end < 0:
        raise EvaluationError(f"{where}, negative indexes not supported")
    if start > end:
        raise EvaluationError(f"{where}, start index must be less than or equal to end index")
    if len(values) < end:
        raise EvaluationError(f"{where}, list is length {len(values)}")
    return list(values[start:end])


def _flatten(values: Value, *depth: Value) -> list[Value]:
    """Return the list with nested lists opened to a depth. The arguments are checked here."""
    if type(values) not in LISTS or (depth and type(depth[0]) is not int):
        given = ", ".join(map(_shown_type, depth))
        raise EvaluationError(f"no such overload: {_shown_type(values)}.flatten({given})")
    levels = depth[0] if depth else 1
    if levels < 0:
        raise EvaluationError("level must be non-negative")
    return _flattened(values, levels)


def _shown_type(value: Value) -> str:
    """Return a type with its parameters, which are unknown when an expression runs."""
    name = type_name(value)
    return name + {"list": "(dyn)", "map": "(dyn, dyn)", "optional_type": "(dyn)"}.get(name, "")


def _flattened(values: Value, depth: int) -> list[Value]:
    flat: list[Value] = []
    for value in values:
        if type(value) not in LISTS or depth == 0:
            flat.append(value)
        else:
            flat.extend(_flattened(value, depth - 1))
        METER.spend(1 + (len(flat) >> 3) if type(value) in LISTS else 1)
    return flat


def _distinct(values: list[Value]) -> list[Value]:
    unique: list[Value] = []
    for value in values:
        if not _has(unique, value):
            unique.append(value)
    return unique


def _sorted_by(values: list[Value], keys: list[Value]) -> list[Value]:
    if len(values) != len(keys):
        text = "@sortByAssociatedKeys() expected a list of the same size as the associated keys list"
        raise EvaluationError(f"{text}, but got {len(values)} and {len(keys)} elements respectively")
    if not values:
        return values
    METER.spend(UNITS * len(keys) * len(keys).bit_length())
    kind = type(keys[0])
    if kind not in COMPARABLE:
        raise EvaluationError("list elements must be comparable")
    if any(type(key) is not kind for key in keys) and len(keys) > 1:
        raise EvaluationError("list elements must have the same type")

    def order(one: int, two: int) -> int:
        return _compared(keys[one], keys[two]) or 0

    return [values[index] for index in sorted(range(len(keys)), key=cmp_to_key(order))]


def _sort(values: Value) -> Value:
    if type(values) not in LISTS:
        raise _unsortable(values, "sort")
    return _sorted_by(values, values)


def _sort_by(values: Value, keys: Value) -> Value:
    if type(values) not in LISTS:
        raise _unsortable(values, "@sortByAssociatedKeys")
    return _sorted_by(values, keys)


def _unsortable(value: Value, function: str) -> EvaluationError:
    """Return the error for what is no list. cel-go asks a string itself, whose error does not name the function."""
    return no_overload() if type(value) is str else EvaluationError(f"no such overload: {function}")


def _is_sorted(values: list[Value]) -> bool:
    for index, value in enumerate(values):
        if type(value) not in COMPARABLE:
            raise no_overload()
        if index and _compared(values[index - 1], value) == 1:
            return False
    return True


def _compared(left: Value, right: Value) -> int | None:
    """Return -1, 0 or 1; None for values without an order, such as NaN."""
    try:
        return compare(left, right)
    except EvaluationError:
        return None


def _sum(zero: Value) -> Callable[[list[Value]], Value]:
    def summed(values: list[Value]) -> Value:
        total = zero
        for value in values:
            if type(value) is bool or value is None:
                raise no_overload()
            total = add(total, value)
        return total

    return summed


def _extreme(name: str, better: int) -> Callable[[list[Value]], Value]:
    def found(values: list[Value]) -> Value:
        result: Value = MISSING
        for value in values:
            if type(value) not in COMPARABLE:
                raise no_overload()
            if result is MISSING or _compared(result, value) == better:
                result = value
        if result is MISSING:
            raise EvaluationError(f"{name} called on empty list")
        return result

    return found


def _index(values: list[Value], element: Value) -> int:
    for index, value in enumerate(values):
        if equal(value, element) is True:
            return index
    return -1


def _last_index(values: list[Value], element: Value) -> int:
    for index in range(len(values) - 1, -1, -1):
        if equal(values[index], element) is True:
            return index
    return -1


def _includes(within: Value, element: Value) -> bool:
    if type(within) in LISTS:
        return any(equal(value, element) is True for value in within)
    return equal(within, element) is True


def _inserted(into: Map, key: Value, value: Value) -> Map:
    if into.find(key) is not MISSING:
        raise EvaluationError(f"insert failed: key {shown(key)} already exists")
    if type(into) is not GrowingMap:
        into = Map(dict(into.items), None if into.names is None else dict(into.names))
    into.put(key, value)
    return into


def _merged(into: Map, more: Value) -> Map:
    if type(more) not in MAPS:
        raise no_overload()
    for key, value in more.pairs():
        into = _inserted(into, key, value)
    return into


OVERLOADS: dict[str, Callable[..., Value]] = {
    "list_sets_contains_list": _contains,
    "list_sets_equivalent_list": _equivalent,
    "list_sets_intersects_list": _intersects,
    "lists_range": _range,
    "list_slice": _slice,
    "list_reverse": lambda values: values[::-1],
    "list_distinct": _distinct,
    "list_a_index_of_int": _index,
    "list_a_last_index_of_int": _last_index,
    "list_includes_dyn_dyn": _includes,
    "@mapInsert_map_key_value": _inserted,
    "@mapInsert_map_map": _merged,
    **{f"list_{kind}_is_sorted_bool": _is_sorted for kind in _KINDS},
    **{f"list_{kind}_sum_{kind}": _sum(zero) for kind, zero in _ZERO.items()},
    **{f"list_{kind}_min_{kind}": _extreme("min", 1) for kind in _KINDS},
    **{f"list_{kind}_max_{kind}": _extreme("max", -1) for kind in _KINDS},
}
SINGLE: dict[str, Callable[..., Value]] = {
    "flatten": _flatten,
    "sort": _sort,
    "@sortByAssociatedKeys": _sort_by,
}


def _is_zero(value: Value) -> bool:
    kind = type(value)
    if value is None:
        return True
    if kind in LISTS or kind in MAPS:
        return len(value) == 0
    if kind in (bool, int, Uint, float, str, bytes):
        return not value
    return False


def _non_zero(value: Value) -> Optional:
    return NONE if _is_zero(value) else Optional(value)


def _value(optional: Optional) -> Value:
    if optional is NONE:
        raise EvaluationError("optional.none() dereference")
    return optional.value


def _unwrapped(values: list[Value]) -> list[Value]:
    for value in values:
        if type(value) is not Optional:
            raise EvaluationError(f"value {shown(value)} is not optional")
    return [value.value for value in values if value is not NONE]


OPTIONALS: dict[str, Callable[..., Value]] = {
    "optional_of": Optional,
    "optional_ofNonZeroValue": _non_zero,
    "optional_none": lambda: NONE,
    "optional_value": _value,
    "optional_hasValue": lambda optional: optional is not NONE,
    "optional_unwrap": _unwrapped,
    "optional_unwrapOpt": _unwrapped,
    "list_first": lambda values: Optional(values[0]) if values else NONE,
    "list_last": lambda values: Optional(values[-1]) if values else NONE,
}
