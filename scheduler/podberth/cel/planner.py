"""Plans a checked tree as closures: of variables and selections, of calls, and of loops.

Each closure takes the frame of an evaluation and gives a value or raises. A call evaluates its arguments first, then
the function. A loop's value is made when it is first read; an error in
it is kept and raised then. What is constant is computed here, once; `PlanError` says that it can't be.
"""

from collections.abc import Callable, Iterable, Sequence
from math import isinf
from typing import Final, NamedTuple, TypeAlias

from podberth.cel.errors import METER, UNITS, EffortError, EvaluationError
from podberth.cel.functions import Implementation, implementation_of
from podberth.cel.library import strings
from podberth.cel.library.conversions import shown
from podberth.cel.library.operators import no_overload
from podberth.cel.tree import (
    Call,
    Fold,
    ListLiteral,
    Literal,
    MapLiteral,
    Name,
    Node,
    Select,
    Walk,
)
from podberth.cel.values import (
    EMPTY,
    LISTS,
    MAPS,
    MISSING,
    NONE,
    GrowingList,
    GrowingMap,
    Map,
    Optional,
    Uint,
    Value,
    size_of,
    type_name,
)


class Frame:
    """The state of one evaluation. `slots` holds the variables of loops and bindings, by the index from the plan."""

    __slots__ = ("device", "slots")

    def __init__(self, device: Map, slots: int) -> None:
        self.device = device
        self.slots: list[Value] = [UNSET] * slots


class _Unset:
    __slots__ = ()


UNSET: Final = _Unset()
Code: TypeAlias = Callable[[Frame], Value]


# --- variables and selections -----------------------------------------------------------------------------------------

KEYS = frozenset({str, int, bool, Uint, float})
"""The types that the key of a lookup may have."""


def _choice(condition: Code, then: Code, otherwise: Code) -> Code:
    def run(frame: Frame) -> Value:
        chosen = condition(frame)
        if chosen is True:
            return then(frame)
        if chosen is False:
            return otherwise(frame)
        raise no_overload()

    return run


def no_such_key(key: Value) -> EvaluationError:
    """Return the error for a key that is not there."""
    return EvaluationError(f"no such key: {shown(key)}")


def _of_device(path: tuple[str, ...]) -> Code | None:
    """Return the code of usual lookups in one step (the driver; an attribute or a capacity by name); else None."""
    if len(path) == 1:
        (field,) = path

        def run_field(frame: Frame) -> Value:
            METER.spent += UNITS
            value = frame.device.items.get(field, MISSING)
            if value is MISSING:
                raise no_such_key(field)
            return value

        return run_field
    if len(path) != 3 or path[0] not in ("attributes", "capacity"):
        return None
    which, domain, name = path

    def run(frame: Frame) -> Value:
        METER.spent += UNITS
        value = frame.device.items[which].items.get(domain, EMPTY).items.get(name, MISSING)
        if value is MISSING:
            raise no_such_key(name)
        return value

    return run


def _lookup(base: Code, key: Code, *, optional: bool, test: bool) -> Code:
    """Return the code of one lookup; in what is optional, of an optional value. `test`: whether there is a value."""

    def run(frame: Frame) -> Value:
        value = base(frame)
        METER.spent += UNITS
        lenient = optional
        if type(value) is Optional:
            if value is NONE:
                return False if test else value
            value, lenient = value.value, True
        name = key(frame)
        if type(name) not in KEYS:
            raise EvaluationError(f"invalid qualifier type: {type_name(name)}")
        found = find(value, name)
        if test:
            return found is not MISSING
        if found is MISSING:
            if lenient:
                return NONE
            raise missing(value, name)
        return Optional(found) if lenient else found

    return run


def missing(value: Value, key: Value) -> EvaluationError:
    """Return the error for a lookup that found nothing."""
    if type(value) in LISTS:
        return EvaluationError(f"index out of bounds: {shown(key)}")
    return no_such_key(key)


def find(value: Value, key: Value) -> Value:
    """Return the value at the key or index, or MISSING."""
    kind = type(value)
    if kind in MAPS:
        found: Value = value.find(key)
        return found
    if kind in LISTS:
        index = _index(key)
        return value[index] if 0 <= index < len(value) else MISSING
    return MISSING


def _index(key: Value) -> int:
    kind = type(key)
    if kind is int or kind is Uint:
        if kind is Uint and key >= 1 << 63:
            raise EvaluationError(f"unsupported index value {key} in list")
        return int(key)
    if kind is float:
        if not isinf(key) and key.is_integer() and -(2.0**63) <= key < 2.0**63:
            return int(key)
        raise EvaluationError(f"unsupported index value {shown(key)} in list")
    raise EvaluationError(f"unsupported index type '{type_name(key)}' in list")


def variable(slot: int) -> Code:
    """Return the code that reads a variable of a loop."""

    def run(frame: Frame) -> Value:
        return frame.slots[slot]

    return run


def device_of(frame: Frame) -> Map:
    """Return the code that reads `device`."""
    return frame.device


# --- calls ------------------------------------------------------------------------------------------------------------


class Plan:
    """A part of the expression as it is evaluated: its code, and what is known of it before."""

    __slots__ = ("code", "constant", "path", "value")

    def __init__(self, code: Code, path: tuple[str, ...] | None = None) -> None:
        self.code = code
        self.path = path
        """The constant names by which it is looked up in the device; None: it is something else."""
        self.constant = False
        self.value: Value = None

    @classmethod
    def constant_of(cls, value: Value) -> "Plan":
        """Return the plan of a constant."""
        made = cls(lambda frame: value)
        made.constant = True
        made.value = value
        return made

    def looked_up(self, key: "Plan", *, optional: bool = False, test: bool = False) -> "Plan":
        """Return the plan of a lookup in this part. Raises PlanError for a constant that is no key."""
        path = None
        if key.constant:
            if type(key.value) not in KEYS:
                raise PlanError(f"invalid qualifier type: {type_name(key.value)}")
            if self.path is not None and type(key.value) is str and not optional and not test:
                path = (*self.path, key.value)
        fast = None if path is None else _of_device(path)
        return Plan(fast or _lookup(self.code, key.code, optional=optional, test=test), path)


def call(args: Sequence[Code], function: Implementation) -> Code:
    """Return the code of an ordinary function. It takes steps by the sizes of its arguments."""
    if len(args) == 1:
        (arg,) = args

        def unary(frame: Frame) -> Value:
            value = arg(frame)
            METER.spend(UNITS + size_of(value))
            return function(value)

        return unary
    if len(args) == 2:
        left, right = args

        def binary(frame: Frame) -> Value:
            one, two = left(frame), right(frame)
            METER.spend(UNITS + size_of(one) + size_of(two))
            return function(one, two)

        return binary

    def variadic(frame: Frame) -> Value:
        values = [arg(frame) for arg in args]
        METER.spend(UNITS + sum(map(size_of, values)))
        return function(*values)

    return variadic


def bare(error: EvaluationError) -> EvaluationError:
    """Return the error without its traceback, which would grow each time it is raised again."""
    error.__traceback__ = error.__context__ = None
    return error


def logical(terms: Sequence[Code], until: bool) -> Code:
    """Return the code of `&&` (until false) or `||` (until true): a term that decides absorbs an error in another."""

    def run(frame: Frame) -> Value:
        failed: EvaluationError | None = None
        for term in terms:
            try:
                value = term(frame)
            except EffortError:
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
    """Return the code that tells whether a loop goes on: an error doesn't stop it."""

    def run(frame: Frame) -> Value:
        try:
            value = arg(frame)
        except EffortError:
            raise
        except EvaluationError:
            value = True
        return value if type(value) is bool else True

    return run


def optional_or(left: Code, right: Code, unwrap: bool) -> Code:
    """Return the code of `or` or `orValue`, which evaluates the right side only when it is needed."""

    def run(frame: Frame) -> Value:
        value = left(frame)
        if type(value) is not Optional:
            raise no_overload()
        if value is NONE:
            return right(frame)
        return value.value if unwrap else value

    return run


def among_constants(args: Sequence[Plan]) -> Plan | None:
    """Return the plan of `x in [1, 2]` for a constant list, which is one lookup; None: the list is not constant."""
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
    return Plan(_in_set(args[0].code, known))


def _in_set(arg: Code, known: Map) -> Code:
    items = known.items

    def run(frame: Frame) -> Value:
        value = arg(frame)
        if type(value) is str:
            return value in items
        return known.find(value) is True

    return run


# --- loops ------------------------------------------------------------------------------------------------------------


class _Failed:
    """An error in place of a value."""

    __slots__ = ("error",)

    def __init__(self, error: EvaluationError) -> None:
        self.error = error


def accumulator(slot: int, initial: Code) -> Code:
    """Return the code that reads what a loop keeps."""

    def run(frame: Frame) -> Value:
        value = frame.slots[slot]
        if value is UNSET:
            value = frame.slots[slot] = _begun(initial, frame)
        if type(value) is _Failed:
            raise bare(value.error)
        return value

    return run


def _begun(initial: Code, frame: Frame) -> Value:
    try:
        value = initial(frame)
    except EffortError:
        raise
    except EvaluationError as error:
        return _Failed(bare(error))
    if type(value) in LISTS and not value:
        return GrowingList()
    if type(value) in MAPS and not value:
        return GrowingMap({})
    return value


def loop(over: Code, slots: tuple[int, int, int], parts: tuple[Code, Code, Code], fixed: Value) -> Code:
    """Return the code of a loop; `fixed` is its condition when that is constant."""
    kept, first, second = slots
    condition, step, result = parts

    def run(frame: Frame) -> Value:
        ranged = over(frame)
        variables = frame.slots
        outer = variables[kept]
        variables[kept] = UNSET
        for key, value in _items(ranged, second >= 0):
            variables[first] = key
            if second >= 0:
                variables[second] = value
            if fixed is None:
                if condition(frame) is not True:
                    break
            elif fixed is not True:
                break
            try:
                variables[kept] = step(frame)
            except EffortError:
                raise
            except EvaluationError as error:
                variables[kept] = _Failed(bare(error))
            METER.spend(UNITS)
        value = result(frame)
        variables[kept] = outer
        if type(value) is GrowingList:
            return list(value)
        if type(value) is GrowingMap:
            return Map(value.items, value.names)
        return value

    return run


def _items(ranged: Value, pairs: bool) -> Iterable[tuple[Value, Value]]:
    kind = type(ranged)
    if kind in LISTS:
        return enumerate(list(ranged)) if pairs else ((item, None) for item in list(ranged))
    if kind in MAPS:
        return list(ranged.pairs()) if pairs else [(key, None) for key in ranged]
    if pairs:
        raise EvaluationError(f"unsupported comprehension range type: {type_name(ranged)}")
    raise EvaluationError(f"got '{type_name(ranged)}', expected iterable type")


# --- the plan of a tree -----------------------------------------------------------------------------------------------

_CONVERSIONS: Final = frozenset(
    {"bool", "bytes", "double", "dyn", "duration", "int", "string", "timestamp", "type", "uint"}
)


_MOST_PATTERNS: Final = 64
"""The most constant patterns of an expression, each of which may take half a megabyte. Kubernetes has no limit."""


class PlanError(Exception):
    """The expression can't be planned; the text says why."""


class Planned(NamedTuple):
    """The code of a whole expression, and how many variables and constant patterns it has."""

    code: Code
    slots: int
    patterns: int


def planned(root: Node) -> Planned:
    """Return the code of the whole expression. Raises PlanError."""
    planner = _Planner()
    plan = planner.walk.all(root)
    return Planned(plan.code, planner.slots, planner.patterns)


class _Planner:
    def __init__(self) -> None:
        self.slots = 0
        self.patterns = 0
        self._scopes: list[dict[str, Code]] = []
        self.walk: Walk[Plan] = Walk(
            {
                Literal: self._literal,
                Name: self._name,
                Select: self._select,
                Call: self._call,
                ListLiteral: self._list,
                MapLiteral: self._map,
                Fold: self._fold,
            }
        )

    def _slot(self) -> int:
        self.slots += 1
        return self.slots - 1

    @staticmethod
    def _literal(node: Literal) -> Plan:
        return Plan.constant_of(node.value)

    def _name(self, node: Name) -> Plan:
        if node.constant is not None:
            return Plan.constant_of(node.constant)
        for scope in reversed(self._scopes):
            if node.name in scope:
                return Plan(scope[node.name])
        return Plan(device_of, ())

    def _select(self, node: Select) -> Plan:
        if node.constant is not None:
            return Plan.constant_of(node.constant)
        return self.walk.one(node.operand).looked_up(Plan.constant_of(node.field), test=node.test)

    def _call(self, node: Call) -> Plan:
        args = [self.walk.one(part) for part in node.parts()]
        function = node.function
        special = _SPECIAL.get(function)
        if special is not None:
            return special(args)
        if function in ("_[_]", "_[?_]", "_?._"):
            return args[0].looked_up(args[1], optional=function != "_[_]")
        if function == "@in":
            among = among_constants(args)
            if among is not None:
                return among
        if function in _CONVERSIONS and len(args) == 1 and args[0].constant:
            try:
                return Plan.constant_of(implementation_of(function, member=False, count=1)(args[0].value))
            except EvaluationError as error:
                raise PlanError(str(error)) from None
        if (
            function in ("matches", "find", "findAll")
            and len(args) > 1
            and args[1].constant
            and type(args[1].value) is str
        ):
            implementation = self._searching(function, args[1].value)
        else:
            implementation = implementation_of(function, member=node.target is not None, count=len(args))
        return Plan(call([arg.code for arg in args], implementation))

    def _searching(self, function: str, pattern: str) -> Implementation:
        """Return the code of a search; a constant pattern is compiled here, once."""
        self.patterns += 1
        try:
            if self.patterns > _MOST_PATTERNS:
                raise strings.PatternError("expression too large")
            return strings.searching(function, strings.compiled(pattern))
        except strings.PatternError as error:
            raise PlanError(str(error)) from None

    def _list(self, node: ListLiteral) -> Plan:
        elements = [self.walk.one(element) for element in node.elements]
        constant = all(element.constant for element in elements)
        code = _list_code([element.code for element in elements], node.optional)
        return _folded(code) if constant else Plan(code)

    def _map(self, node: MapLiteral) -> Plan:
        entries = [(self.walk.one(key), self.walk.one(value), optional) for key, value, optional in node.entries]
        constant = all(key.constant and value.constant for key, value, _ in entries)
        codes = [(key.code, value.code, optional) for key, value, optional in entries]
        code = _map_code(codes)
        return _folded(code) if constant else Plan(code)

    def _fold(self, node: Fold) -> Plan:
        over = self.walk.one(node.over).code
        initial = self.walk.one(node.initial).code
        kept, first, second = self._slot(), self._slot(), self._slot()
        self._scopes.append({node.accumulator: accumulator(kept, initial)})
        names = {node.first: variable(first)}
        if node.second:
            names[node.second] = variable(second)
        self._scopes.append(names)
        accumulated = self._scopes[-2][node.accumulator]
        if node.accumulator in names:
            names[node.accumulator] = accumulated
        condition = self.walk.all(node.condition)
        step = self.walk.all(node.step).code
        self._scopes.pop()
        result = self.walk.all(node.result).code
        self._scopes.pop()
        endless = condition.value if condition.constant else None
        slots = (kept, first, second if node.second else -1)
        return Plan(loop(over, slots, (condition.code, step, result), endless))


def _folded(code: Code) -> Plan:
    frame = Frame(Map({}), 0)
    try:
        return Plan.constant_of(code(frame))
    except EffortError:
        raise
    except EvaluationError as error:
        return Plan(_raiser(str(error)))


def _raiser(text: str) -> Code:
    def run(frame: Frame) -> Value:
        raise EvaluationError(text)

    return run


def _list_code(elements: list[Code], optional: frozenset[int]) -> Code:
    if not optional:

        def run(frame: Frame) -> Value:
            METER.spent += UNITS
            return [element(frame) for element in elements]

        return run

    def run_optional(frame: Frame) -> Value:
        METER.spent += UNITS
        result = []
        for index, element in enumerate(elements):
            value = element(frame)
            if index in optional:
                if type(value) is not Optional:
                    given = shown(value)
                    raise EvaluationError(f"cannot initialize optional list element from non-optional value {given}")
                if value is NONE:
                    continue
                value = value.value
            result.append(value)
        return result

    return run_optional


def _map_code(entries: list[tuple[Code, Code, bool]]) -> Code:
    def run(frame: Frame) -> Value:
        METER.spent += UNITS
        result = Map({})
        for key_code, value_code, optional in entries:
            key = key_code(frame)
            value = value_code(frame)
            if optional:
                if type(value) is not Optional:
                    names = f"'{shown(key)}' from non-optional value {shown(value)}"
                    raise EvaluationError(f"cannot initialize optional entry {names}")
                if value is NONE:
                    continue
                value = value.value
            result.put(key, value)
        return result

    return run


_SPECIAL: dict[str, Callable[[list[Plan]], Plan]] = {
    "_&&_": lambda args: Plan(logical([arg.code for arg in args], until=False)),
    "_||_": lambda args: Plan(logical([arg.code for arg in args], until=True)),
    "_?_:_": lambda args: Plan(_choice(args[0].code, args[1].code, args[2].code)),
    "@not_strictly_false": lambda args: Plan(not_strictly_false(args[0].code)),
    "or": lambda args: Plan(optional_or(args[0].code, args[1].code, unwrap=False)),
    "orValue": lambda args: Plan(optional_or(args[0].code, args[1].code, unwrap=True)),
}
