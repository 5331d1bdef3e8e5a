"""CEL selectors of requests and classes: compiled once, asked of each distinct look of a device."""

from scheduler.cel import (
    CompileError,
    DeviceView,
    EvaluationError,
    Program,
    Quantity,
    QuantityError,
    Version,
    VersionError,
)
from scheduler.cel import compile as compile_cel
from scheduler.model.devices import DeviceID, Look
from scheduler.plugins.dynamic_resources.looks import holds
from scheduler.plugins.dynamic_resources.wanted import AllocationError
from scheduler.state.effort import Effort

_KEPT_CHARACTERS = 256 << 10
"""Of the expressions whose programs are kept. One may be ten thousand characters long."""
_COMPILING = 2
"""Steps for each character of an expression that is compiled, roughly."""
_NO_SUCH_KEY = "no such key:"
_HINT = (
    ". consider using CEL optional chaining (.? followed by orValue()) "
    "or guarding the check with has() for optional fields"
)


class Programs:
    """Compiled expressions, as many as are kept."""

    def __init__(self) -> None:
        self.effort = Effort()
        """Whose steps compiling and evaluating take."""
        self._programs: dict[str, Program] = {}
        self._characters = 0

    def of(self, expression: str) -> Program:
        """The program of an expression, which may have an error."""
        found = self._programs.get(expression)
        if found is None:
            if self._characters + len(expression) > _KEPT_CHARACTERS:
                self._programs.clear()
                self._characters = 0
            found = self._programs[expression] = compile_cel(expression)
            self._characters += len(expression)
            self.effort.count(_COMPILING * len(expression))
        return found

    def selects(self, expression: str, whose: str, look: Look, device: DeviceID) -> bool:
        """Whether the expression selects a device. `whose`: of what it is a selector, for messages.

        Raises AllocationError.
        """
        try:
            return holds(expression, look, self._matches)
        except CompileError as error:
            raise AllocationError(f"{whose}: CEL compile error: {error}") from None
        except (EvaluationError, VersionError) as error:
            hint = _HINT if _NO_SUCH_KEY in str(error) else ""
            raise AllocationError(f"{whose} on device {device}: CEL runtime error: {error}{hint}") from None

    def _matches(self, expression: str, look: Look) -> bool:
        program = self.of(expression)
        if program.error is not None:
            raise program.error
        try:
            answer = program.evaluate(_view(look))
        except EvaluationError as error:
            self.effort.count(error.steps)
            raise
        self.effort.count(answer.steps)
        return answer.matches


def _view(look: Look) -> DeviceView:
    """What CEL sees of a device. Raises VersionError."""
    attributes: dict[str, str | bool | int | Version] = {}
    for name, (kind, value) in look.attributes.items():
        if not kind and value:
            continue  # a list
        if not kind:
            raise VersionError(f"attribute {name}: unsupported attribute value")
        try:
            attributes[name] = Version.parse(value) if kind == "version" else value
        except VersionError as error:
            raise VersionError(f"attribute {name}: parse semantic version: {error}") from None
    capacity = {name: _quantity(one.text) for name, one in look.capacity.items()}
    return DeviceView(look.driver, attributes, capacity, look.shared)


def _quantity(text: str) -> Quantity:
    try:
        return Quantity.parse(text)
    except QuantityError:
        return Quantity(0)
