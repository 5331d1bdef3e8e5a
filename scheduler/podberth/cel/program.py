"""Compiles an expression once, and evaluates it for many devices."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from podberth.cel.errors import METER, STEPS, EffortError, EvaluationError
from podberth.cel.library.quantities import Quantity, Version
from podberth.cel.owned import Owned
from podberth.cel.parser import SyntaxIssueError, parsed
from podberth.cel.planner import Frame, PlanError, Planned, planned
from podberth.cel.resolver import resolve
from podberth.cel.values import NONE, DefaultMap, Map, Optional, Value, type_name

_REMEMBERED: Final = 500_000
"""The largest size of the cache, in characters of expressions: some hundred bytes each."""
_LEAST: Final = 64
_PATTERN: Final = 5_000
"""The size of a pattern, which may take as much memory as RE2 is allowed."""
_STEPS_PER_CHARACTER: Final = 8


class CompileError(Exception):
    """An expression that can't be used; the text says why."""


class Evaluation(NamedTuple):
    """A result, and the steps (about a microsecond each) that it took."""

    matches: bool
    steps: int


class DeviceView:
    """A device as an expression can ask about it.

    Names of attributes and capacities are qualified by a domain (`example.com/model`) or belong to the driver's.
    An attribute is a str, bool, int or Version. The mappings are read once, when the first expression is evaluated.
    """

    __slots__ = ("_value", "allow_multiple_allocations", "attributes", "capacity", "driver")

    def __init__(
        self,
        driver: str,
        attributes: Mapping[str, str | bool | int | Version],
        capacity: Mapping[str, Quantity],
        allow_multiple_allocations: bool | None = None,
    ) -> None:
        self.driver = driver
        self.attributes = attributes
        self.capacity = capacity
        self.allow_multiple_allocations = allow_multiple_allocations
        self._value: Map | None = None

    def value(self) -> Map:
        """Return the variable `device`."""
        if self._value is None:
            self._value = Map(
                {
                    "driver": self.driver,
                    "allowMultipleAllocations": bool(self.allow_multiple_allocations),
                    "attributes": _by_domain(self.attributes, self.driver),
                    "capacity": _by_domain(self.capacity, self.driver),
                }
            )
        return self._value


def _by_domain(values: Mapping[str, Value], driver: str) -> DefaultMap:
    domains: dict[Value, Map] = {}
    for qualified, value in values.items():
        domain, slash, name = qualified.partition("/")
        if not slash:
            domain, name = driver, qualified
        inner = domains.get(domain)
        if inner is None:
            inner = domains[domain] = Map({})
        inner.items[name] = value
    return DefaultMap(dict(domains))


class Program:
    """A compiled expression, or the reason why there is none."""

    __slots__ = ("_plan", "error", "expression", "steps", "weight")

    def __init__(self, expression: str, made: Planned | CompileError, spent: int) -> None:
        self.expression = expression
        self._plan = None if isinstance(made, CompileError) else made
        self.error = str(made) if isinstance(made, CompileError) else None
        """The reason, as a text: an exception that is raised again and again keeps the frames of each time."""
        self.steps = _STEPS_PER_CHARACTER * len(expression) + spent
        """The steps that compiling took, each of about a microsecond."""
        self.weight = _LEAST + len(expression) + (0 if self._plan is None else _PATTERN * self._plan.patterns)
        """The size of the program in the cache."""

    def matches(self, device: DeviceView) -> bool:
        """Return whether the device is selected. Raises EvaluationError and CompileError."""
        return self.evaluate(device).matches

    def evaluate(self, device: DeviceView, most: int = STEPS) -> Evaluation:
        """Return whether the device is selected, and the steps that the answer took. A raised error has `steps`, too.

        `most`: about how many steps it may take. One that would take more is ended by EffortError.
        """
        if self._plan is None:
            raise CompileError(self.error)
        METER.begin(most)
        try:
            value = self._plan.code(Frame(device.value(), self._plan.slots))
            METER.spend(0)
            result = value if type(value) is bool else _unwrapped(value)
            if type(result) is not bool:
                raise EvaluationError(f"CEL result of type {type_name(value)} could not be converted to bool")
        except RecursionError:
            error = EvaluationError("expression is nested too deeply")
            error.steps = METER.steps
            raise error from None
        except EvaluationError as error:
            error.steps = METER.steps
            raise
        return Evaluation(result, METER.steps)


def _unwrapped(value: Value) -> Value:
    """Return the bool within an optional bool; other values as they are."""
    while type(value) is Optional and value is not NONE:
        value = value.value
    return value


def _made(expression: str) -> Program:
    METER.begin()
    try:
        made: Planned | CompileError = _compiled(expression)
    except CompileError as error:
        made = error
    return Program(expression, made, METER.steps)


def _compiled(expression: str) -> Planned:
    """Return the code of an expression. Raises CompileError."""
    try:
        root = parsed(expression)
        issues = resolve(root)
        if issues:
            shown = (issue.shown(expression) for issue in sorted(issues, key=lambda issue: issue.position))
            raise CompileError("compilation failed: " + "\n".join(shown))
        return planned(root)
    except SyntaxIssueError as error:
        raise CompileError(f"compilation failed: {error.issue.shown(expression)}") from None
    except EffortError:
        raise CompileError("program instantiation failed: expression too large") from None
    except PlanError as error:
        raise CompileError(f"program instantiation failed: {error}") from None
    except RecursionError:
        raise CompileError("compilation failed: max recursion depth exceeded") from None


class Programs:
    """A cache of compiled expressions, shared by the owners that ask for them."""

    def __init__(self, most: int = _REMEMBERED) -> None:
        """`most` is the size of the cache, in characters."""
        self._known: Owned[Program] = Owned(most)

    def get(self, expression: str, owner: str) -> tuple[Program, int]:
        """Return the program, compiled at most once while it is remembered, and the steps that compiling took now."""
        program = self._known.get(expression, owner)
        if program is not None:
            return program, 0
        program = _made(expression)
        self._known.put(expression, program, program.weight, owner)
        return program, program.steps


_PROGRAMS: Final = Programs()


def compile(expression: str, owner: str = "") -> Program:
    """Return the program of an expression. Never raises: what is wrong with it is the program's `error`.

    `owner`: whoever asks. What one owner has compiled displaces nothing that others have.
    """
    return _PROGRAMS.get(expression, owner)[0]


def compile_counting(expression: str, owner: str) -> tuple[Program, int]:
    """Compile as `compile` does, and return the steps that it took: none if the program was kept. 10 KiB take up to 80
    ms.
    """
    return _PROGRAMS.get(expression, owner)
