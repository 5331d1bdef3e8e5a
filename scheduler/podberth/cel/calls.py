"""The code of calls: arguments first, then the function, and what it cost whether it succeeded or not."""

from collections.abc import Callable, Sequence

from podberth.cel.attribute import Attribute
from podberth.cel.cost import Price
from podberth.cel.errors import AbortError, EvaluationError
from podberth.cel.frame import Code, Frame
from podberth.cel.operators import check_hashable, no_overload
from podberth.cel.values import FAILED, LISTS, NONE, Map, Optional, Uint, Value

Implementation = Callable[..., Value]


class Plan:
    """How a part of the expression is evaluated: a constant, a chain of lookups, or code."""

    __slots__ = ("_attribute", "_code", "constant", "value")

    def __init__(self, attribute: Attribute | None = None, code: Code | None = None) -> None:
        self._attribute = attribute
        self._code = code
        self.constant = False
        self.value: Value = None

    @classmethod
    def constant_of(cls, value: Value) -> "Plan":
        """A value that is known."""
        made = cls(code=lambda frame: value)
        made.constant = True
        made.value = value
        return made

    def code(self) -> Code:
        """The code as a step of its own."""
        if self._code is None:
            assert self._attribute is not None
            self._code = self._attribute.code()
        return self._code

    def chain(self) -> Attribute:
        """The chain to which a lookup can be added."""
        if self._attribute is not None:
            return self._attribute
        return Attribute(self.code())

    def resolved(self) -> Code:
        """The code where it is a key: the lookup costs, the variable does not."""
        return self.code() if self._attribute is None else self._attribute.resolved()


def call(args: Sequence[Code], function: Implementation, price: Price | None) -> Code:
    """The code of an ordinary function."""
    if len(args) == 1:
        return _unary(args[0], function, price)
    if len(args) == 2:
        return _binary(args[0], args[1], function, price)
    return variadic(args, function, price)


def _charge(frame: Frame, price: Price | None, args: Sequence[Value], result: Value) -> None:
    frame.charge(1 if price is None else price(args, result))


def _unary(arg: Code, function: Implementation, price: Price | None) -> Code:
    def run(frame: Frame) -> Value:
        value: Value = FAILED
        try:
            value = arg(frame)
            result = function(value)
        except AbortError:
            raise
        except EvaluationError:
            _charge(frame, price, (value,), FAILED)
            raise
        if price is None:
            frame.cost += 1
        else:
            frame.charge(price((value,), result))
        return result

    return run


def _binary(left: Code, right: Code, function: Implementation, price: Price | None) -> Code:
    def run(frame: Frame) -> Value:
        one: Value = FAILED
        two: Value = FAILED
        try:
            one = left(frame)
            two = right(frame)
            result = function(one, two)
        except AbortError:
            raise
        except EvaluationError:
            if one is FAILED:
                two = _attempted(right, frame)
            _charge(frame, price, (one, two), FAILED)
            raise
        if price is None:
            frame.cost += 1
        else:
            frame.charge(price((one, two), result))
        return result

    return run


def _attempted(code: Code, frame: Frame) -> Value:
    """Return what the other argument comes to after one failed: it is evaluated, and paid for."""
    try:
        return code(frame)
    except AbortError:
        raise
    except EvaluationError:
        return FAILED


def variadic(args: Sequence[Code], function: Implementation, price: Price | None) -> Code:
    """The code of a call that ends at the first argument that fails."""
    count = len(args)

    def run(frame: Frame) -> Value:
        values: list[Value] = []
        try:
            for arg in args:
                values.append(arg(frame))  # noqa: PERF401  what there was before an error is needed
            result = function(*values)
        except AbortError:
            raise
        except EvaluationError:
            if len(values) >= count - 1:
                _charge(frame, price, [*values, FAILED][:count], FAILED)
            raise
        _charge(frame, price, values, result)
        return result

    return run


def bare(error: EvaluationError) -> EvaluationError:
    """The error without what Python remembers of where it was raised, which would grow each time it is raised again."""
    error.__traceback__ = error.__context__ = None
    return error


def logical(terms: Sequence[Code], until: bool) -> Code:
    """`&&` (until false) and `||` (until true): a term that decides makes up for an error in another."""

    def run(frame: Frame) -> Value:
        failed: EvaluationError | None = None
        for term in terms:
            try:
                value = term(frame)
            except AbortError:
                raise
            except EvaluationError as error:
                failed = failed or bare(error)
                continue
            if value is until:
                return until
            if type(value) is not bool:
                failed = failed or no_overload()
        if failed is not None:
            raise failed
        return not until

    return run


def not_strictly_false(arg: Code) -> Code:
    """Return whether a loop goes on: an error doesn't stop it."""

    def run(frame: Frame) -> Value:
        try:
            value = arg(frame)
        except AbortError:
            raise
        except EvaluationError:
            value = True
        frame.cost += 1
        return value if type(value) is bool else True

    return run


def optional_or(left: Code, right: Code, unwrap: bool) -> Code:
    """`or` and `orValue`: the right side is evaluated only when it is needed."""

    def run(frame: Frame) -> Value:
        value = left(frame)
        if type(value) is not Optional:
            raise no_overload()
        if value is NONE:
            return right(frame)
        return value.value if unwrap else value

    return run


def among_constants(args: Sequence[Plan]) -> Plan | None:
    """`x in [1, 2]` where the list is constant: one lookup."""
    within = args[1]
    if not within.constant or type(within.value) not in LISTS:
        return None
    if not within.value:
        return Plan.constant_of(False)
    if any(type(element) not in (bool, int, Uint, float, str) for element in within.value):
        return None
    known = Map({})
    for element in within.value:
        if element == element:  # NaN is in no set
            known.put(element, True)
    return Plan(code=_in_set(args[0].code(), known))


def _in_set(arg: Code, known: Map) -> Code:
    items = known.items

    def run(frame: Frame) -> Value:
        value = arg(frame)
        if type(value) is str:
            return value in items
        check_hashable(value)
        return known.find(value) is True

    return run
