"""The type checker: which overload each call means, each node's type, and what doesn't fit.

The API server stores no selector that its own checker refuses. So this one has to accept what that accepts; what else
it refuses, and in which words, is seen by those only who try an expression here first.
"""

from podberth.cel import types
from podberth.cel.parser import Issue
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
    walk,
)
from podberth.cel.types import (
    BOOL,
    DYN,
    ERROR,
    FIELDS,
    INT,
    Overload,
    Substitutions,
    Type,
    functions,
    is_dyn,
    most_general,
    shown,
    type_named,
)
from podberth.cel.values import TypeValue, Uint

_LITERAL = {
    bool: BOOL,
    int: INT,
    Uint: types.UINT,
    float: types.DOUBLE,
    str: types.STRING,
    bytes: types.BYTES,
    type(None): types.NULL,
}


_LEFT_OUT = {
    "duration": "durations and timestamps",
    "timestamp": "durations and timestamps",
    "url": "URLs",
    "isURL": "URLs",
    "format": "templates and named formats",
}
"""The functions that lead to what is left out → what that is."""


def check(root: Node) -> list[Issue]:
    """Write types and overloads into the tree; return what is wrong with it.

    Type parameters are final once the whole tree was seen.
    """
    checker = _Checker()
    checker.walk.all(root)
    for node in walk(root):
        node.type = checker.types.resolved(node.type, final=True)
    return checker.issues


class _Checker:
    def __init__(self) -> None:
        self.issues: list[Issue] = []
        self.types = Substitutions()
        self._functions = functions()
        self._scopes: list[dict[str, Type]] = []
        self.walk: Walk[None] = Walk(
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

    def _wrong(self, node: Node, message: str) -> None:
        self.issues.append(Issue(node.position, message))

    def _undeclared(self, node: Node, name: str) -> None:
        node.type = ERROR
        known = f"; {_LEFT_OUT[name]} of Kubernetes' CEL are not known here" if name in _LEFT_OUT else ""
        self._wrong(node, f"undeclared reference to '{name}' (in container ''){known}")

    def _mismatch(self, node: Node, expected: Type, actual: Type) -> None:
        self._wrong(node, f"expected type '{shown(expected)}' but found '{shown(actual)}'")

    # Names

    def _local(self, name: str) -> Type | None:
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        return None

    def _literal(self, node: Literal) -> None:
        node.type = _LITERAL[type(node.value)]

    def _name(self, node: Name) -> None:
        if not node.name.startswith("."):
            local = self._local(node.name)
            if local is not None:
                node.type = local
                return
        if not self._global(node, node.name.removeprefix(".")):
            self._undeclared(node, node.name)

    @staticmethod
    def _global(node: Name | Select, name: str) -> bool:
        if name == "device":
            node.type = types.DEVICE
            return True
        named = type_named(name)
        if named is None:
            return False
        node.type = types.type_of(named)
        node.constant = TypeValue(name)
        return True

    def _select(self, node: Select) -> None:
        if not node.test:
            path = _path(node)
            if path is not None and (path[0].startswith(".") or self._local(path[0]) is None):
                name = ".".join(path).removeprefix(".")
                if type_named(name) is not None and self._global(node, name):
                    return
        result = self._field(node, node.operand, node.field, optional=False)
        node.type = BOOL if node.test else self.types.resolved(result)

    def _field(self, node: Node, operand: Node, field: str, optional: bool) -> Type:
        self.walk.one(operand)
        target, wrapped = types.unwrapped(self.types.resolved(operand.type))
        result = ERROR
        if target.kind == types.MAP:
            result = target.args[1]
        elif target.kind == types.STRUCT:
            known = FIELDS.get(field) if target == types.DEVICE else None
            if known is not None:
                result = known
            elif target == types.DEVICE or type_named(target.name) is not None:
                self._wrong(node, f"undefined field '{field}'")
            else:
                self._wrong(node, f"unexpected failed resolution of '{target.name}'")
        elif target.kind == types.PARAMETER:
            self.types.assignable([(DYN, target)])
            result = DYN
        else:
            if not is_dyn(target) and target != ERROR:
                self._wrong(node, f"type '{shown(target)}' does not support field selection")
            result = DYN
        return types.optional_of(result) if wrapped or optional else result

    # Calls

    def _call(self, node: Call) -> None:
        if node.function == "_?._":
            field = node.args[1]
            result = self._field(node, node.args[0], str(field.value) if type(field) is Literal else "", optional=True)
            node.type = self.types.resolved(result)
            node.overloads = ("select_optional_field",)
            field.type = types.STRING
            return
        for arg in node.args:
            self.walk.one(arg)
        if node.target is not None:
            path = _path(node.target)
            qualified = None if path is None else f"{'.'.join(path)}.{node.function}".removeprefix(".")
            if qualified in self._functions:
                node.function, node.target = str(qualified), None
            else:
                self.walk.one(node.target)
        node.function = node.function.removeprefix(".")
        overloads = self._functions.get(node.function)
        if overloads is None:
            self._undeclared(node, node.function)
            return
        self._resolve(node, overloads)

    def _resolve(self, node: Call, overloads: tuple[Overload, ...]) -> None:
        given = [part.type for part in node.parts()]
        if node.function in ("_&&_", "_||_"):
            self._logical(node)
            return
        names: list[str] = []
        result: Type | None = None
        for overload in overloads:
            if overload.member != (node.target is not None) or len(overload.args) != len(given):
                continue
            args, gives = overload.args, overload.result
            if overload.parameters:
                fresh = {name: self.types.fresh() for name in overload.parameters}
                args = tuple(_instantiated(arg, fresh) for arg in args)
                gives = _instantiated(gives, fresh)
            if self.types.assignable(list(zip(given, args, strict=True))):
                names.append(overload.name)
                found = self.types.resolved(gives)
                if result is None:
                    result = found
                elif not is_dyn(result) and found != result:
                    result = DYN
        if result is None:
            node.type = ERROR
            final = [shown(self.types.resolved(known, final=True)) for known in given]
            target = f"{final.pop(0)}." if node.target is not None else ""
            applied = f"{target}({', '.join(final)})"
            self._wrong(node, f"found no matching overload for '{node.function}' applied to '{applied}'")
            return
        node.type = result
        node.overloads = tuple(names)

    def _logical(self, node: Call) -> None:
        node.type = BOOL
        node.overloads = ("logical_and" if node.function == "_&&_" else "logical_or",)
        for arg in node.args:
            if not self.types.assignable([(arg.type, BOOL)]):
                self._mismatch(arg, BOOL, arg.type)
                node.type = ERROR

    # Literals of lists and maps

    def _joined(self, before: Type | None, now: Type) -> Type:
        if before is None:
            return now
        if self.types.assignable([(before, now)]):
            return most_general(before, now)
        return DYN

    def _unwrapped(self, node: Node, optional: bool) -> Type:
        if not optional:
            return node.type
        inner, wrapped = types.unwrapped(node.type)
        if not wrapped and not is_dyn(inner):
            self._mismatch(node, types.optional_of(inner), inner)
        return inner

    def _list(self, node: ListLiteral) -> None:
        known: Type | None = None
        for index, element in enumerate(node.elements):
            self.walk.one(element)
            known = self._joined(known, self._unwrapped(element, index in node.optional))
        node.type = types.list_of(self.types.fresh() if known is None else known)

    def _map(self, node: MapLiteral) -> None:
        keys: Type | None = None
        values: Type | None = None
        for key, value, optional in node.entries:
            self.walk.one(key)
            keys = self._joined(keys, key.type)
            self.walk.one(value)
            values = self._joined(values, self._unwrapped(value, optional))
        if keys is None or values is None:
            keys, values = self.types.fresh(), self.types.fresh()
        node.type = types.map_of(keys, values)

    # Loops

    def _fold(self, node: Fold) -> None:
        self.walk.one(node.over)
        self.walk.one(node.initial)
        over = self.types.resolved(node.over.type)
        kept = node.initial.type
        two = node.second != ""
        if over.kind == types.LIST:
            first, second = (INT, over.args[0]) if two else (over.args[0], DYN)
        elif over.kind == types.MAP:
            first, second = over.args
        elif is_dyn(over) or over == ERROR or over.kind == types.PARAMETER:
            self.types.assignable([(DYN, over)])
            first = second = DYN
        else:
            message = f"expression of type '{shown(over)}' cannot be range of a comprehension"
            self._wrong(node.over, f"{message} (must be list, map, or dynamic)")
            first = second = ERROR
        self._scopes.append({node.accumulator: kept})
        self._scopes.append({node.first: first, node.second: second} if two else {node.first: first})
        self.walk.all(node.condition)
        self._expect(node.condition, BOOL)
        self.walk.all(node.step)
        self._expect(node.step, kept)
        self._scopes.pop()
        self.walk.all(node.result)
        self._scopes.pop()
        node.type = self.types.resolved(node.result.type)

    def _expect(self, node: Node, expected: Type) -> None:
        if not self.types.assignable([(expected, node.type)]):
            self._mismatch(node, expected, node.type)


def _instantiated(known: Type, fresh: dict[str, Type]) -> Type:
    if known.kind == types.PARAMETER:
        return fresh[known.name]
    if known.args:
        return Type(known.kind, known.name, tuple(_instantiated(arg, fresh) for arg in known.args))
    return known


def _path(node: Node) -> list[str] | None:
    """Return the names of `a.b.c`, if the node is nothing else."""
    path: list[str] = []
    while type(node) is Select:
        if node.test:
            return None
        path.append(node.field)
        node = node.operand
    if type(node) is not Name:
        return None
    path.append(node.name)
    return path[::-1]
