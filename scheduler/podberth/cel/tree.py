"""The nodes of a parsed expression. The resolver writes into them what a name refers to."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

from podberth.cel.values import Value

Result = TypeVar("Result")


class Node:
    """A part of an expression. `position` is where it is shown, in code points."""

    __slots__ = ("position",)

    def __init__(self, position: int) -> None:
        self.position = position

    def parts(self) -> "Iterator[Node]":
        """Return the nodes directly below, in the order of the text."""
        return iter(())


class Literal(Node):
    """A constant."""

    __slots__ = ("value",)

    def __init__(self, position: int, value: Value) -> None:
        super().__init__(position)
        self.value = value


class Name(Node):
    """A variable or the name of a type. `constant` is the type that it names."""

    __slots__ = ("constant", "name")

    def __init__(self, position: int, name: str) -> None:
        super().__init__(position)
        self.name = name
        self.constant: Value = None


class Select(Node):
    """`operand.field`, or with `test` the question whether the field is there. May turn out to name a type."""

    __slots__ = ("constant", "field", "operand", "test")

    def __init__(self, position: int, operand: Node, field: str, test: bool = False) -> None:
        super().__init__(position)
        self.operand = operand
        self.field = field
        self.test = test
        self.constant: Value = None

    def parts(self) -> Iterator[Node]:
        """Yield the operand."""
        yield self.operand


class Call(Node):
    """A function or an operator."""

    __slots__ = ("args", "function", "target")

    def __init__(self, position: int, function: str, args: list[Node], target: Node | None = None) -> None:
        super().__init__(position)
        self.function = function
        self.args = args
        self.target = target

    def parts(self) -> Iterator[Node]:
        """Yield the target, if any, and the arguments."""
        if self.target is not None:
            yield self.target
        yield from self.args


class ListLiteral(Node):
    """`[a, ?b]`; `optional` are the indexes of elements with a question mark."""

    __slots__ = ("elements", "optional")

    def __init__(self, position: int, elements: list[Node], optional: frozenset[int] = frozenset()) -> None:
        super().__init__(position)
        self.elements = elements
        self.optional = optional

    def parts(self) -> Iterator[Node]:
        """Yield the elements."""
        yield from self.elements


class MapLiteral(Node):
    """`{key: value, ?key: value}`."""

    __slots__ = ("entries",)

    def __init__(self, position: int, entries: list[tuple[Node, Node, bool]]) -> None:
        super().__init__(position)
        self.entries = entries

    def parts(self) -> Iterator[Node]:
        """Yield keys and values in turn."""
        for key, value, _ in self.entries:
            yield key
            yield value


class Fold(Node):
    """The node that macros such as `all` and `map` become: a loop over `over` that keeps a value in `accumulator`."""

    __slots__ = ("accumulator", "condition", "first", "initial", "over", "result", "second", "step")

    def __init__(
        self,
        position: int,
        over: Node,
        names: tuple[str, str],
        accumulator: str,
        initial: Node,
        loop: tuple[Node, Node, Node],
    ) -> None:
        super().__init__(position)
        self.over = over
        self.first, self.second = names
        self.accumulator = accumulator
        self.initial = initial
        self.condition, self.step, self.result = loop

    def parts(self) -> Iterator[Node]:
        """Yield what it loops over, its initial value, its condition, its step and its result."""
        yield from (self.over, self.initial, self.condition, self.step, self.result)


class Walk(Generic[Result]):
    """A walk that visits each node after those in it that are in its own scope, and keeps the results of visits."""

    def __init__(self, visits: dict[type[Node], Callable[[Any], Result]]) -> None:
        """`visits`: what is called with a node, by its type. It visits the nodes within, by `one` or `all`."""
        self._visits = visits
        self._results: dict[int, Result] = {}
        """Identity of a node → the result of its visit."""

    def all(self, root: Node) -> Result:
        """Return the result of a node as `one` does, without deeper recursion for a long expression."""
        waiting = [(root, iter(_same_scope(root)))]
        while waiting:
            node, rest = waiting[-1]
            following = next(rest, None)
            if following is not None:
                waiting.append((following, iter(_same_scope(following))))
                continue
            waiting.pop()
            self._results[id(node)] = self._visits[type(node)](node)
        return self._results[id(root)]

    def one(self, node: Node) -> Result:
        """Return the result of a node, which is visited at most once by `all`."""
        if id(node) in self._results:
            return self._results[id(node)]
        return self._visits[type(node)](node)


def _same_scope(node: Node) -> Iterable[Node]:
    match node:
        case Call() if node.function != "_?._":
            return node.args
        case ListLiteral() | MapLiteral():
            return node.parts()
        case Fold():
            return (node.over,)
    return ()
