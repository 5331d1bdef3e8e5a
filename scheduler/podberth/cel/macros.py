"""Calls that are loops, bindings or presence tests in disguise, and what they become."""

from collections.abc import Callable

from podberth.cel.tree import Call, Fold, ListLiteral, Literal, MapLiteral, Name, Node, Select

ACCUMULATOR = "@result"
_UNUSED = "#unused"
_OTHER_ACCUMULATOR = "__result__"
_MOST_COPIED = 20_000
_NO_NAME = "argument must be a simple name"


class MacroError(Exception):
    """A macro with arguments that it can't take."""

    def __init__(self, position: int, message: str) -> None:
        super().__init__(message)
        self.position = position
        self.message = message


_Macro = Callable[[int, Node, list[Node]], Node | None]


class Copies:
    """Copies parts of one expression, up to a number of nodes: macros within macros double each time."""

    def __init__(self) -> None:
        self._left = _MOST_COPIED

    def of(self, node: Node) -> Node:
        """The tree below the node, with nodes of its own. Raises MacroError."""
        self._left -= 1
        if self._left < 0:
            raise MacroError(node.position, "expression is too large with its macros expanded")
        return node.copied(self.of)


def expand(position: int, function: str, args: list[Node], target: Node | None, copies: Copies) -> Node | None:
    """Return what the call becomes, or None when it is an ordinary call. Raises MacroError."""
    if target is None:
        if function == "has" and len(args) == 1:
            return _has(position, args[0])
        return None
    if function in ("optMap", "optFlatMap") and len(args) == 2:
        return _optional(position, function, target, args, copies)
    macro = _MACROS.get((function, len(args)))
    return None if macro is None else macro(position, target, args)


def _has(position: int, arg: Node) -> Node:
    if type(arg) is not Select:
        raise MacroError(arg.position, "invalid argument to has() macro")
    return Select(position, arg.operand, arg.field, test=True)


def _variable(arg: Node, complaint: str) -> str:
    if type(arg) is not Name:
        raise MacroError(arg.position, complaint)
    if arg.name in (ACCUMULATOR, _OTHER_ACCUMULATOR):
        raise MacroError(arg.position, "iteration variable overwrites accumulator variable")
    return arg.name


def _one(args: list[Node], complaint: str) -> tuple[str, str]:
    return _variable(args[0], complaint), ""


def _two(args: list[Node]) -> tuple[str, str]:
    first, second = args[:2]
    if type(first) is not Name or type(second) is not Name:
        raise MacroError((second if type(first) is Name else first).position, _NO_NAME)
    if first.name == second.name:
        raise MacroError(second.position, f"duplicate variable name: {first.name}")
    return _variable(first, _NO_NAME), _variable(second, _NO_NAME)


def _accumulated(at: int) -> Name:
    return Name(at, ACCUMULATOR)


def _every(at: int, over: Node, names: tuple[str, str], test: Node) -> Node:
    condition = Call(at, "@not_strictly_false", [_accumulated(at)])
    step = Call(at, "_&&_", [_accumulated(at), test])
    return Fold(at, over, names, ACCUMULATOR, Literal(at, True), (condition, step, _accumulated(at)))


def _any(at: int, over: Node, names: tuple[str, str], test: Node) -> Node:
    condition = Call(at, "@not_strictly_false", [Call(at, "!_", [_accumulated(at)])])
    step = Call(at, "_||_", [_accumulated(at), test])
    return Fold(at, over, names, ACCUMULATOR, Literal(at, False), (condition, step, _accumulated(at)))


def _exactly_one(at: int, over: Node, names: tuple[str, str], test: Node) -> Node:
    more = Call(at, "_+_", [_accumulated(at), Literal(at, 1)])
    step = Call(at, "_?_:_", [test, more, _accumulated(at)])
    result = Call(at, "_==_", [_accumulated(at), Literal(at, 1)])
    return Fold(at, over, names, ACCUMULATOR, Literal(at, 0), (Literal(at, True), step, result))


def _collect(at: int, over: Node, names: tuple[str, str], initial: Node, filtered: Node | None, step: Node) -> Node:
    if filtered is not None:
        step = Call(at, "_?_:_", [filtered, step, _accumulated(at)])
    return Fold(at, over, names, ACCUMULATOR, initial, (Literal(at, True), step, _accumulated(at)))


def _to_list(at: int, over: Node, names: tuple[str, str], args: list[Node]) -> Node:
    step = Call(at, "_+_", [_accumulated(at), ListLiteral(at, [args[-1]])])
    return _collect(at, over, names, ListLiteral(at, []), args[0] if len(args) == 2 else None, step)


def _map(at: int, target: Node, args: list[Node]) -> Node:
    return _to_list(at, target, _one(args, "argument is not an identifier"), args[1:])


def _filter(at: int, target: Node, args: list[Node]) -> Node:
    names = _one(args, "argument is not an identifier")
    return _to_list(at, target, names, [args[1], args[0]])


def _transform_list(at: int, target: Node, args: list[Node]) -> Node:
    return _to_list(at, target, _two(args), args[2:])


def _transform_map(at: int, target: Node, args: list[Node]) -> Node:
    names = _two(args)
    step = Call(at, "cel.@mapInsert", [_accumulated(at), Name(at, names[0]), args[-1]])
    return _collect(at, target, names, MapLiteral(at, []), args[2] if len(args) == 4 else None, step)


def _transform_entry(at: int, target: Node, args: list[Node]) -> Node:
    names = _two(args)
    step = Call(at, "cel.@mapInsert", [_accumulated(at), args[-1]])
    return _collect(at, target, names, MapLiteral(at, []), args[2] if len(args) == 4 else None, step)


def _bound(at: int, name: str, value: Node, result: Node) -> Fold:
    """A loop over nothing, of which only initial value and result count."""
    return Fold(at, ListLiteral(at, []), (_UNUSED, ""), name, value, (Literal(at, False), Name(at, name), result))


def _bind(at: int, target: Node, args: list[Node]) -> Node | None:
    if type(target) is not Name or target.name != "cel":
        return None
    if type(args[0]) is not Name:
        raise MacroError(args[0].position, "cel.bind() variable names must be simple identifiers")
    return _bound(at, args[0].name, args[1], args[2])


def _optional(at: int, function: str, target: Node, args: list[Node], copies: Copies) -> Node:
    if type(args[0]) is not Name:
        raise MacroError(args[0].position, f"{function}() variable name must be a simple identifier")
    there = Call(at, "hasValue", [], target)
    mapped: Node = _bound(at, args[0].name, Call(at, "value", [], copies.of(target)), args[1])
    if function == "optMap":
        mapped = _optional_call(at, "of", [mapped])
    return Call(at, "_?_:_", [there, mapped, _optional_call(at, "none", [])])


def _optional_call(at: int, name: str, args: list[Node]) -> Node:
    return Call(at, f"optional.{name}", args)


def _sort_by(at: int, target: Node, args: list[Node]) -> Node:
    if type(target) not in (ListLiteral, Select, Name, Fold, Call):
        complaint = "sortBy can only be applied to a list, identifier, comprehension, call or select expression"
        raise MacroError(target.position, complaint)
    name = "@__sortBy_input__"
    keys = _map(at, Name(at, name), args)
    return _bound(at, name, target, Call(at, "@sortByAssociatedKeys", [keys], Name(at, name)))


_MACROS: dict[tuple[str, int], _Macro] = {
    ("all", 2): lambda at, target, args: _every(at, target, _one(args, _NO_NAME), args[1]),
    ("exists", 2): lambda at, target, args: _any(at, target, _one(args, _NO_NAME), args[1]),
    ("exists_one", 2): lambda at, target, args: _exactly_one(at, target, _one(args, _NO_NAME), args[1]),
    ("all", 3): lambda at, target, args: _every(at, target, _two(args), args[2]),
    ("exists", 3): lambda at, target, args: _any(at, target, _two(args), args[2]),
    ("exists_one", 3): lambda at, target, args: _exactly_one(at, target, _two(args), args[2]),
    ("existsOne", 3): lambda at, target, args: _exactly_one(at, target, _two(args), args[2]),
    ("map", 2): _map,
    ("map", 3): _map,
    ("filter", 2): _filter,
    ("transformList", 3): _transform_list,
    ("transformList", 4): _transform_list,
    ("transformMap", 3): _transform_map,
    ("transformMap", 4): _transform_map,
    ("transformMapEntry", 3): _transform_entry,
    ("transformMapEntry", 4): _transform_entry,
    ("bind", 3): _bind,
    ("sortBy", 2): _sort_by,
}
