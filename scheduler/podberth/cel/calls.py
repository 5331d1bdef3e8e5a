"""The code of each function, found by the types of its arguments."""

from collections.abc import Callable

from podberth.cel.errors import EvaluationError
from podberth.cel.library import conversions, lists, network, operators, quantities, strings
from podberth.cel.types import functions
from podberth.cel.values import Value, type_name

Implementation = Callable[..., Value]

_OVERLOADS: dict[str, Implementation] = {
    **conversions.OVERLOADS,
    **lists.OVERLOADS,
    **network.OVERLOADS,
    **lists.OPTIONALS,
    **quantities.OVERLOADS,
    **strings.OVERLOADS,
}
"""Overload → its code; the types of its arguments are looked at before."""
_SINGLE: dict[str, Implementation] = {
    **operators.BINARY,
    **operators.UNARY,
    **conversions.SINGLE,
    **lists.SINGLE,
    **strings.SINGLE,
}
"""Function → one code for all overloads, which looks at its arguments itself."""


def implementation_of(function: str, *, member: bool, count: int) -> Implementation:
    """Return the code of a call to a function with so many arguments. `member`: the first stands before the dot."""
    single = _SINGLE.get(function)
    if single is not None:
        return single
    overloads = [
        (overload, _OVERLOADS[overload.name])
        for overload in functions()[function]
        if overload.member == member and len(overload.args) == count and overload.name in _OVERLOADS
    ]
    plain = {tuple(known.name for known in one.args): code for one, code in overloads if one.is_plain}

    def run(*values: Value) -> Value:
        names = tuple(map(type_name, values))
        code = plain.get(names)
        if code is not None:
            return code(*values)
        for overload, code in overloads:
            if overload.takes(values):
                return code(*values)
        raise EvaluationError(f"no such overload: {function}({', '.join(names)})")

    return run
