"""Finds what each name of an expression refers to, and which function each call means.

There are no types before an expression runs. The API server stores no selector whose types don't fit, so checking them
once more would find nothing; a function looks at its arguments when it is called.
"""

from podberth.cel.functions import functions
from podberth.cel.parser import Issue
from podberth.cel.tree import Call, Fold, ListLiteral, Literal, MapLiteral, Name, Node, Select, Walk
from podberth.cel.values import TypeValue

DEVICE = "device"
NAMED = frozenset(
    (
        *("bool", "bytes", "double", "int", "list", "map", "null_type", "string", "type", "uint", "optional_type"),
        *("google.protobuf.Duration", "google.protobuf.Timestamp", "net.IP", "net.CIDR", "kubernetes.DRADevice"),
    )
)
"""The types that an expression may name."""
FIELDS = frozenset(("driver", "allowMultipleAllocations", "attributes", "capacity"))
"""The fields of `device`."""
_LEFT_OUT = {
    "duration": "durations and timestamps",
    "timestamp": "durations and timestamps",
    "url": "URLs",
    "isURL": "URLs",
    "format": "templates and named formats",
}
"""The functions that lead to what is left out → what that is."""


def resolve(root: Node) -> list[Issue]:
    """Write into the tree which types names stand for, and the names of functions; return what is wrong with it."""
    resolver = _Resolver()
    resolver.walk.all(root)
    return resolver.issues


class _Resolver:
    def __init__(self) -> None:
        self.issues: list[Issue] = []
        self._functions = functions()
        self._scopes: list[frozenset[str]] = []
        """The variables of the loops around what is looked at."""
        self.walk: Walk[None] = Walk(
            {
                Literal: lambda node: None,
                Name: self._name,
                Select: self._select,
                Call: self._call,
                ListLiteral: self._parts,
                MapLiteral: self._parts,
                Fold: self._fold,
            }
        )

    def _undeclared(self, node: Node, name: str) -> None:
        known = f"; {_LEFT_OUT[name]} of Kubernetes' CEL are not known here" if name in _LEFT_OUT else ""
        self.issues.append(Issue(node.position, f"undeclared reference to '{name}' (in container ''){known}"))

    def _is_local(self, name: str) -> bool:
        return any(name in scope for scope in self._scopes)

    def _parts(self, node: Node) -> None:
        for part in node.parts():
            self.walk.one(part)

    def _name(self, node: Name) -> None:
        name = node.name.removeprefix(".")
        if name != node.name or not self._is_local(name):
            if name in NAMED:
                node.constant = TypeValue(name)
            elif name != DEVICE:
                self._undeclared(node, node.name)

    def _select(self, node: Select) -> None:
        path = None if node.test else _path(node)
        if path is not None and (path[0].startswith(".") or not self._is_local(path[0])):
            name = ".".join(path).removeprefix(".")
            if name in NAMED:
                node.constant = TypeValue(name)
                return
        self.walk.one(node.operand)
        self._check_field(node, node.operand, node.field)

    def _check_field(self, node: Node, operand: Node, field: str) -> None:
        """Say that the device does not have a field."""
        if type(operand) is not Name or operand.name.removeprefix(".") != DEVICE or field in FIELDS:
            return
        if operand.name != DEVICE or not self._is_local(DEVICE):
            self.issues.append(Issue(node.position, f"undefined field '{field}'"))

    def _call(self, node: Call) -> None:
        for arg in node.args:
            self.walk.one(arg)
        if node.function == "_?._":
            operand, field = node.args
            self._check_field(node, operand, str(field.value) if type(field) is Literal else "")
            return
        if node.target is not None:
            path = _path(node.target)
            qualified = "" if path is None else f"{'.'.join(path)}.{node.function}".removeprefix(".")
            if qualified in self._functions:
                node.function, node.target = qualified, None
            else:
                self.walk.one(node.target)
        node.function = node.function.removeprefix(".")
        overloads = self._functions.get(node.function)
        if overloads is None:
            self._undeclared(node, node.function)
            return
        member, count = node.target is not None, len(list(node.parts()))
        if node.function not in _OF_ANY_NUMBER and not any(
            one.member == member and len(one.args) == count for one in overloads
        ):
            text = f"found no matching overload for '{node.function}' with {count} arguments"
            self.issues.append(Issue(node.position, text))

    def _fold(self, node: Fold) -> None:
        self.walk.one(node.over)
        self.walk.one(node.initial)
        self._scopes.append(frozenset((node.accumulator,)))
        self._scopes.append(frozenset((node.first, node.second)))
        self.walk.all(node.condition)
        self.walk.all(node.step)
        self._scopes.pop()
        self.walk.all(node.result)
        self._scopes.pop()


_OF_ANY_NUMBER = frozenset(("_&&_", "_||_"))


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
