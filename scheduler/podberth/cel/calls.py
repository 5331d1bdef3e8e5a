"""The code of each function, found by its overload."""

from collections.abc import Callable

from podberth.cel import types
from podberth.cel.errors import EvaluationError
from podberth.cel.library import conversions, lists, network, operators, quantities, strings
from podberth.cel.values import (
    Value,
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
