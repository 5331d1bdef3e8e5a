"""Small changes of a module's code, each as a person might get it wrong."""

from __future__ import annotations

import ast
import copy
import functools
import itertools
from collections import Counter
from collections.abc import Iterator
from types import CodeType
from typing import NamedTuple

OPERATORS = """
    Add:Sub Sub:Add Mult:Add Div:Mult FloorDiv:Mult Mod:Mult Pow:Mult BitAnd:BitOr BitOr:BitAnd BitXor:BitOr
    LShift:RShift RShift:LShift And:Or Or:And
    Lt:LtE LtE:Lt Gt:GtE GtE:Gt Eq:NotEq NotEq:Eq Is:IsNot IsNot:Is In:NotIn NotIn:In
"""
CALLED = """
    min:max max:min minimum:maximum maximum:minimum argmin:argmax argmax:argmin any:all all:any logical_and:logical_or
    logical_or:logical_and floor:ceil ceil:floor rint:floor round:int trunc:ceil
"""
"""Functions and methods that are taken for one another."""
_OPERATORS, _CALLED = (dict(pair.split(":") for pair in pairs.split()) for pairs in (OPERATORS, CALLED))


class Mutant(NamedTuple):
    """A change of one function. Its name does not change when other code does."""

    path: str
    function: str
    change: str
    line: int
    last: int
    """Its lines: from the first of the statement to where what is changed ends."""
    at: int
    """Which node of the module's tree."""
    choice: int
    """Which of the changes of that node."""

    @property
    def name(self) -> str:
        """As it stands in lists: it names no line."""
        return f"{self.path} {self.function}: {self.change}"


def mutants(path: str, source: str) -> list[Mutant]:
    """All mutants of a module's functions, in the order of the code."""
    found, seen = [], Counter[str]()
    for at, place in enumerate(_nodes(ast.parse(source))):
        if not place.function:
            continue
        for choice, changed in enumerate(_changes(place.node)):
            # A number says little without what it is part of.
            shown = place.around if isinstance(place.node, ast.Constant) else place.node
            before, kept = _text(shown), copy.copy(place.node)
            _become(place.node, changed)
            change = f"{before} → {_text(shown)}"
            _become(place.node, kept)
            seen[f"{place.function}: {change}"] += 1
            if (again := seen[f"{place.function}: {change}"]) > 1:
                change += f" #{again}"
            last = getattr(getattr(place.node, "test", place.node), "end_lineno", place.line)
            found.append(Mutant(path, place.function, change, place.line, last, at, choice))
    return found


@functools.lru_cache(4)
def compiled(source: str, filename: str, mutant: Mutant | None) -> CodeType:
    """The module's code with that change, or without any."""
    tree = ast.parse(source)
    if mutant is not None:
        node = next(itertools.islice(_nodes(tree), mutant.at, None)).node
        _become(node, list(_changes(node))[mutant.choice])
    return compile(tree, filename, "exec", dont_inherit=True)


def replaced(old: CodeType, new: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """The functions' code that differs, old and new: modules of one shape."""
    for one, other in zip(old.co_consts, new.co_consts, strict=False):
        if isinstance(one, CodeType) and isinstance(other, CodeType):
            if one != other:
                yield one, other
            yield from replaced(one, other)


class _Place(NamedTuple):
    node: ast.AST
    function: str
    """Empty for what an import runs."""
    around: ast.AST
    line: int
    """The first of its statement."""


def _nodes(tree: ast.AST, function: str = "", inside: bool = False, line: int = 0) -> Iterator[_Place]:
    for field, value in ast.iter_fields(tree):
        if field in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        for child in value if isinstance(value, list) else [value]:
            match child:
                case ast.Assert() | ast.Raise() | ast.arguments():  # no test reaches it, it is text, an import makes it
                    pass
                case ast.keyword(arg="strict"):  # it asserts that two things have the same length
                    pass
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                    within = inside or not isinstance(child, ast.ClassDef)
                    yield from _nodes(child, f"{function}.{name}".lstrip("."), within)
                case ast.AST():
                    at = child.lineno if isinstance(child, ast.stmt) else line
                    yield _Place(child, function if inside else "", tree, at)
                    yield from _nodes(child, function, inside, at)


def _changes(node: ast.AST) -> Iterator[ast.AST]:
    """What may stand in its place."""
    match node:
        case ast.BinOp(left, op, right) if not _is_text(left) and not _is_text(right):
            yield from (_with(node, op=other) for other in _other(op))
        case ast.AugAssign(op=op, value=value) if not _is_text(value):
            yield from (_with(node, op=other) for other in _other(op))
        case ast.BoolOp(op=op):
            yield from (_with(node, op=other) for other in _other(op))
        case ast.Compare(ops=ops):
            for i, compared in enumerate(ops):
                yield _with(node, ops=[*ops[:i], *_other(compared), *ops[i + 1 :]])
        case ast.UnaryOp(op=ast.Not() | ast.Invert() | ast.USub(), operand=operand):
            yield operand
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            if isinstance(test, ast.Name | ast.Attribute | ast.Call | ast.Subscript):
                yield _with(node, test=ast.UnaryOp(ast.Not(), test))
        case ast.Constant(value=bool(value)):
            yield _with(node, value=not value)
        case ast.Constant(value=int(value) | float(value)):
            yield _with(node, value=value + 1)
            if value:
                yield _with(node, value=value - 1)
        case ast.Call(func=func, args=args):
            yield from _calls(node, func, args)


def _other(op: ast.AST) -> list[ast.AST]:
    name = _OPERATORS.get(type(op).__name__)
    return [getattr(ast, name)()] if name else []


def _calls(node: ast.Call, func: ast.expr, args: list[ast.expr]) -> Iterator[ast.AST]:
    if isinstance(func, ast.Name) and func.id in _CALLED:
        yield _with(node, func=ast.Name(_CALLED[func.id], ast.Load()))
    if isinstance(func, ast.Attribute) and func.attr in _CALLED:
        yield _with(node, func=_with(func, attr=_CALLED[func.attr]))
    if isinstance(func, ast.Attribute) and func.attr in ("log", "sqrt") and args:
        yield ast.Constant(1.0)
    if isinstance(func, ast.Name) and func.id == "int" and any(isinstance(arg, ast.BinOp) for arg in args):
        yield _with(node, func=ast.Name("round", ast.Load()))


def _with(node: ast.AST, **fields: object) -> ast.AST:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


def _become(node: ast.AST, other: ast.AST) -> None:
    """Turn the node, which its parents know, into the other, at its place."""
    place = {name: getattr(node, name) for name in ("lineno", "col_offset", "end_lineno", "end_col_offset")}
    other = copy.copy(other)
    node.__class__ = other.__class__
    node.__dict__.clear()
    node.__dict__.update(other.__dict__ | place)
    ast.fix_missing_locations(node)


def _is_text(node: ast.expr) -> bool:
    """Whether it joins texts or lists: without that, it only raises an error."""
    return isinstance(node, ast.JoinedStr | ast.List | ast.Tuple | ast.ListComp) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def _text(node: ast.AST) -> str:
    """A node on one line; of a statement, its head."""
    return " ".join(ast.unparse(node).split("\n")[0].split())
