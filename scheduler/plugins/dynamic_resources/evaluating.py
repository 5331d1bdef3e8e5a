"""Compiles and evaluates the CEL expressions of selectors. Imported once there is one (`selecting.EVALUATING`)."""

from functools import partial

from scheduler.cel.errors import EffortError, EvaluationError
from scheduler.cel.program import CompileError, DeviceView, compile_further
from scheduler.cel.program import compile as compile_cel
from scheduler.cel.quantity import Quantity, QuantityError
from scheduler.cel.version import Version, VersionError
from scheduler.model.devices import DeviceID, DeviceTraits
from scheduler.plugins.dynamic_resources.requested import AllocationError, UnfinishedError
from scheduler.plugins.dynamic_resources.selector_results import holds
from scheduler.state.effort import Effort

_MOST = 5_000
"""Steps that one evaluation may take in an attempt whose steps are limited: it can't be interrupted."""
_ASKED = 10
"""Steps of an evaluation besides those that the program takes."""
_SHOWN_PER_STEP = 4
"""How many attributes of a device are made ready for an expression in one step."""
_TOO_COSTLY = f"the expression costs more than {_MOST:,} steps (about {_MOST / 1e3:g} ms of one core) for one device"
_NO_SUCH_KEY = "no such key:"
_HINT = (
    ". consider using CEL optional chaining (.? followed by orValue()) "
    "or guarding the check with has() for optional fields"
)


def selects(expression: str, whose: str, traits: DeviceTraits, device: DeviceID, owner: str, effort: Effort) -> bool:
    """Whether an expression selects a device: `Programs.selects`."""
    try:
        return holds(expression, traits, owner, partial(_matches, owner, effort))
    except CompileError as error:
        raise AllocationError(f"{whose}: CEL compile error: {error}") from None
    except (EvaluationError, VersionError) as error:
        hint = _HINT if _NO_SUCH_KEY in str(error) else ""
        raise AllocationError(f"{whose} on device {device}: CEL runtime error: {error}{hint}") from None


def _matches(owner: str, effort: Effort, expression: str, traits: DeviceTraits) -> bool:
    if effort.is_limited:
        program, steps = compile_further(expression, owner)
    else:
        program, steps = compile_cel(expression, owner), 0
    effort.count(steps)
    if program is None:
        raise UnfinishedError
    effort.count(program.owed() + _ASKED + len(traits.attributes) // _SHOWN_PER_STEP)
    if program.error is not None:
        raise program.error
    try:
        answer = program.evaluate(_view(traits), _MOST if effort.is_limited else None)
    except EffortError as error:
        effort.count(error.steps)
        raise EvaluationError(_TOO_COSTLY) from None
    except EvaluationError as error:
        effort.count(error.steps)
        raise
    effort.count(answer.steps)
    return answer.matches


def _view(traits: DeviceTraits) -> DeviceView:
    """What CEL sees of a device. Raises VersionError."""
    attributes: dict[str, str | bool | int | Version] = {}
    for name, (kind, value) in traits.attributes.items():
        if not kind and value:
            continue  # a list
        if not kind:
            raise VersionError(f"attribute {name}: unsupported attribute value")
        try:
            attributes[name] = Version.parse(value) if kind == "version" else value
        except VersionError as error:
            raise VersionError(f"attribute {name}: parse semantic version: {error}") from None
    capacity = {name: _quantity(one.text) for name, one in traits.capacity.items()}
    return DeviceView(traits.driver, attributes, capacity, traits.shared)


def _quantity(text: str) -> Quantity:
    try:
        return Quantity.parse(text)
    except QuantityError:
        return Quantity(0)
