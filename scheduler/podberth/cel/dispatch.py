"""Which code a call runs: that of its overload, or the first overload that takes the arguments there are."""

from podberth.cel import conversions, lists, network, operators, optionals, quantities, regex, strings, temporal, urls
from podberth.cel.calls import Implementation
from podberth.cel.declarations import Overload, functions
from podberth.cel.errors import EvaluationError
from podberth.cel.types import LIST, MAP, PARAMETER, Type, is_dyn
from podberth.cel.values import Value, type_name

_OVERLOADS: dict[str, Implementation] = {
    **conversions.OVERLOADS,
    **lists.OVERLOADS,
    **network.OVERLOADS,
    **optionals.OVERLOADS,
    **quantities.OVERLOADS,
    **regex.OVERLOADS,
    **strings.OVERLOADS,
    **temporal.OVERLOADS,
    **urls.OVERLOADS,
}
"""By the overload's name. What they take is checked before."""
_SINGLE: dict[str, Implementation] = {
    **operators.BINARY,
    **operators.UNARY,
    **conversions.SINGLE,
    **lists.SINGLE,
    **regex.SINGLE,
    **strings.SINGLE,
}
"""By the function's name: one code for all overloads, which looks at its arguments itself."""


def implementation(function: str, overload: str, count: int) -> Implementation:
    """The code of a call to a function with so many arguments; `overload` is empty when several fit."""
    single = _SINGLE.get(function)
    if single is not None:
        return single
    declared = functions()[function]
    known = [one for one in declared if len(one.args) == count and one.name in _OVERLOADS]
    if overload:
        known = [one for one in known if one.name == overload]
    if len(known) == 1:
        return _guarded(function, known[0])
    return _dispatched(function, known)


def ends_early(function: str, overload: str) -> bool:
    """Return whether a call ends at the first argument that fails, though it has two: `format`, and what finds its
    overload among several when it runs.
    """
    if overload or function in _SINGLE:
        return overload == "string_format"
    return sum(one.name in _OVERLOADS for one in functions()[function]) > 1


def _guarded(function: str, overload: Overload) -> Implementation:
    run = _OVERLOADS[overload.name]
    args = overload.args
    if all(is_dyn(arg) or arg.kind == PARAMETER for arg in args):
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


def _dispatched(function: str, overloads: list[Overload]) -> Implementation:
    def run(*values: Value) -> Value:
        for overload in overloads:
            if all(map(takes, overload.args, values)):
                return _OVERLOADS[overload.name](*values)
        raise refused(function, values)

    return run


def refused(function: str, values: tuple[Value, ...]) -> EvaluationError:
    """The error for arguments that no overload takes."""
    return EvaluationError(f"no such overload: {function}({', '.join(map(type_name, values))})")


def takes(known: Type, value: Value) -> bool:
    """Return whether the value is of the type; of a list or a map, only the first item is looked at."""
    if known.kind == PARAMETER or is_dyn(known):
        return True
    if known.name != type_name(value):
        return False
    if known.kind == LIST and len(value):
        return takes(known.args[0], value[0])
    if known.kind == MAP and len(value):
        key, item = next(value.pairs())
        return takes(known.args[0], key) and takes(known.args[1], item)
    return True
