"""Plans a checked tree as closures. Each closure takes the frame of an evaluation and gives a value or raises.

What is constant is computed here, once; `PlanError` says that it can't be.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from podberth.cel import code, cost
from podberth.cel.code import KEYS, Attribute, Code, Frame, Implementation, Plan, Qualifier, device_of, variable
from podberth.cel.errors import AbortError, EvaluationError
from podberth.cel.gotext import shown
from podberth.cel.library import conversions, lists, network, operators, quantities, regex, strings, times
from podberth.cel.library.operators import check_hashable
from podberth.cel.tree import (
    Call,
    Fold,
    ListLiteral,
    Literal,
    MapLiteral,
    Message,
    Name,
    Node,
    Select,
    after_those,
)
from podberth.cel.types import LIST, MAP, PARAMETER, Overload, Type, functions, is_dyn
from podberth.cel.values import NONE, Map, Optional, Value, go_type, type_name

_OVERLOADS: dict[str, Implementation] = {
    **conversions.OVERLOADS,
    **lists.OVERLOADS,
    **network.OVERLOADS,
    **lists.OPTIONALS,
    **quantities.OVERLOADS,
    **regex.OVERLOADS,
    **strings.OVERLOADS,
    **times.OVERLOADS,
    **network.URLS,
}
"""Overload → its code; the types of its arguments are checked before."""
_SINGLE: dict[str, Implementation] = {
    **operators.BINARY,
    **operators.UNARY,
    **conversions.SINGLE,
    **lists.SINGLE,
    **regex.SINGLE,
    **strings.SINGLE,
}
"""Function → one code for all overloads, which looks at its arguments itself."""


def implementation_of(function: str, overload: str, count: int) -> Implementation:
    """Return the code of a call to a function with so many arguments; `overload` is empty when several fit."""
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
    """Return whether a call with two arguments ends at the first that fails: `format`, and functions that find their
    overload when they run.
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
    """Return the error for arguments that no overload takes."""
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
    plan = planner.plan_all(root)
    return Planned(plan.code(), planner.slots, planner.patterns)


def _planned_first(node: Node) -> Iterable[Node]:
    """Return the nodes within a node that are planned before it, in this order, and not in a scope of their own."""
    match node:
        case Call() | ListLiteral() | MapLiteral():
            return node.parts()
        case Fold():
            return (node.over,)
    return ()


class _Planner:
    def __init__(self) -> None:
        self.slots = 0
        self.patterns = 0
        self.made: dict[int, Plan] = {}
        """Identity of a node → its plan."""
        self._scopes: list[dict[str, Code]] = []
        self._plans: dict[type[Node], Callable[[Any], Plan]] = {
            Literal: self._literal,
            Name: self._name,
            Select: self._select,
            Call: self._call,
            ListLiteral: self._list,
            MapLiteral: self._map,
            Message: self._message,
            Fold: self._fold,
        }

    def plan_all(self, root: Node) -> Plan:
        """Return the plan of a node as `plan` does, without deeper recursion for a long expression."""
        for node in after_those(root, _planned_first):
            self.made[id(node)] = self._plans[type(node)](node)
        return self.made[id(root)]

    def plan(self, node: Node) -> Plan:
        if self.made and (made := self.made.get(id(node))) is not None:
            return made
        return self._plans[type(node)](node)

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
                return Plan(Attribute(scope[node.name]))
        return Plan(Attribute(device_of, device=True))

    def _select(self, node: Select) -> Plan:
        if node.constant is not None:
            return Plan.constant_of(node.constant)
        chain = self.plan(node.operand).chain()
        chain.add(Qualifier(node.field, test=node.test))
        return Plan(chain)

    def _call(self, node: Call) -> Plan:
        args = [self.plan(part) for part in node.parts()]
        function = node.function
        special = _SPECIAL.get(function)
        if special is not None:
            return special(args)
        if function in ("_[_]", "_[?_]", "_?._"):
            return self._index(args, function != "_[_]")
        overload = node.overloads[0] if len(node.overloads) == 1 else ""
        if overload == "in_list":
            among = code.among_constants(args)
            if among is not None:
                return among
        if function in _CONVERSIONS and len(args) == 1 and args[0].constant:
            try:
                return Plan.constant_of(implementation_of(function, overload, 1)(args[0].value))
            except EvaluationError as error:
                raise PlanError(str(error)) from None
        if (
            function in ("matches", "find", "findAll")
            and len(args) > 1
            and args[1].constant
            and type(args[1].value) is str
        ):
            searching = self._searching(function, args[1].value)
            return Plan(code=code.variadic([arg.code() for arg in args], searching, cost.price_of(function, overload)))
        implementation = implementation_of(function, overload, len(args))
        price = cost.price_of(function, overload)
        make = code.variadic if ends_early(function, overload) else code.call
        return Plan(code=make([arg.code() for arg in args], implementation, price))

    def _searching(self, function: str, pattern: str) -> code.Implementation:
        """Return the code of a search; a constant pattern is compiled here, once."""
        self.patterns += 1
        try:
            if self.patterns > _MOST_PATTERNS:
                raise regex.PatternError("expression too large")
            return regex.searching(function, regex.compiled(pattern))
        except regex.PatternError as error:
            raise PlanError(str(error)) from None

    @staticmethod
    def _index(args: list[Plan], optional: bool) -> Plan:
        chain = args[0].chain()
        key = args[1]
        if key.constant:
            if type(key.value) not in KEYS:
                raise PlanError(f"invalid qualifier type: {go_type(key.value)}")
            chain.add(Qualifier(key.value, optional=optional))
        else:
            chain.add(Qualifier(None, key.resolved(), optional=optional))
        return Plan(chain)

    def _list(self, node: ListLiteral) -> Plan:
        elements = [self.plan(element) for element in node.elements]
        constant = all(element.constant for element in elements)
        code = _list_code([element.code() for element in elements], node.optional, 0 if constant else cost.LIST)
        return _folded(code) if constant else Plan(code=code)

    def _map(self, node: MapLiteral) -> Plan:
        entries = [(self.plan(key), self.plan(value), optional) for key, value, optional in node.entries]
        constant = all(key.constant and value.constant for key, value, _ in entries)
        codes = [(key.code(), value.code(), optional) for key, value, optional in entries]
        code = _map_code(codes, 0 if constant else cost.MAP)
        return _folded(code) if constant else Plan(code=code)

    def _message(self, node: Message) -> Plan:
        raise PlanError(f"unknown type: {node.name.removeprefix('.')}")

    def _fold(self, node: Fold) -> Plan:
        over = self.plan(node.over).code()
        initial = self.plan(node.initial).code()
        kept, first, second = self._slot(), self._slot(), self._slot()
        self._scopes.append({node.accumulator: code.accumulator(kept, initial)})
        names = {node.first: variable(first)}
        if node.second:
            names[node.second] = variable(second)
        self._scopes.append(names)
        accumulated = self._scopes[-2][node.accumulator]
        if node.accumulator in names:
            names[node.accumulator] = accumulated
        condition = self.plan_all(node.condition)
        step = self.plan_all(node.step).code()
        self._scopes.pop()
        result = self.plan_all(node.result).code()
        self._scopes.pop()
        endless = condition.value if condition.constant else None
        slots = (kept, first, second if node.second else -1)
        return Plan(code=code.loop(over, slots, (condition.code(), step, result), endless))


def _folded(code: Code) -> Plan:
    frame = Frame(Map({}), 0)
    try:
        return Plan.constant_of(code(frame))
    except AbortError as error:  # cel-go's compiler crashes there
        raise PlanError(str(error)) from None
    except EvaluationError as error:
        return Plan(code=_raiser(str(error)))


def _raiser(text: str) -> Code:
    def run(frame: Frame) -> Value:
        raise EvaluationError(text)

    return run


def _list_code(elements: list[Code], optional: frozenset[int], price: int) -> Code:
    if not optional:

        def run(frame: Frame) -> Value:
            frame.cost += price
            return [element(frame) for element in elements]

        return run

    def run_optional(frame: Frame) -> Value:
        frame.cost += price
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


def _map_code(entries: list[tuple[Code, Code, bool]], price: int) -> Code:
    def run(frame: Frame) -> Value:
        frame.cost += price
        result = Map({})
        for key_code, value_code, optional in entries:
            key = key_code(frame)
            value = value_code(frame)
            check_hashable(key)
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
    "_&&_": lambda args: Plan(code=code.logical([arg.code() for arg in args], until=False)),
    "_||_": lambda args: Plan(code=code.logical([arg.code() for arg in args], until=True)),
    "_?_:_": lambda args: Plan(Attribute(args[0].code(), branches=(args[1].chain(), args[2].chain()))),
    "@not_strictly_false": lambda args: Plan(code=code.not_strictly_false(args[0].code())),
    "or": lambda args: Plan(code=code.optional_or(args[0].code(), args[1].code(), unwrap=False)),
    "orValue": lambda args: Plan(code=code.optional_or(args[0].code(), args[1].code(), unwrap=True)),
}
