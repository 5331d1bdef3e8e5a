"""Compiles and evaluates the CEL expressions of selectors. Imported once there is one (`selecting.EVALUATING`)."""

from functools import partial

from podberth.cache.search_steps import CappedSearch
from podberth.cel.errors import EffortError, EvaluationError
from podberth.cel.library.quantities import Quantity, QuantityError, Version, VersionError
from podberth.cel.program import CompileError, DeviceView, compile_counting
from podberth.model.devices import DeviceID, DeviceTraits
from podberth.plugins.dynamic_resources.requested import AllocationError
from podberth.plugins.dynamic_resources.selecting import holds

_MOST = 5_000
"""Steps that one evaluation may take. Kubernetes would let it cost 200 times as much, up to a second of one core."""
_ASKED = 10
"""Steps of an evaluation besides those that the program takes."""
_SHOWN_PER_STEP = 4
"""The number of attributes of a device that are made ready for an expression in one step."""
_TOO_COSTLY = f"the expression costs more than {_MOST:,} steps (about {_MOST / 1e3:g} ms of one core) for one device"
_NO_SUCH_KEY = "no such key:"
_HINT = (
    ". consider using CEL optional chaining (.? followed by orValue()) "
    "or guarding the check with has() for optional fields"
)


def selects(
    expression: str, whose: str, traits: DeviceTraits, device: DeviceID, owner: str, search: CappedSearch | None
) -> bool:
    """Return whether an expression selects a device: `Programs.selects`."""
    try:
        return holds(expression, traits, owner, partial(_matches, owner, search))
    except CompileError as error:
        raise AllocationError(f"{whose}: CEL compile error: {error}") from None
    except (EvaluationError, VersionError) as error:
        hint = _HINT if _NO_SUCH_KEY in str(error) else ""
        raise AllocationError(f"{whose} on device {device}: CEL runtime error: {error}{hint}") from None


def _matches(owner: str, search: CappedSearch | None, expression: str, traits: DeviceTraits) -> bool:
    program, steps = compile_counting(expression, owner)
    if search is not None:
        search.take(steps + _ASKED + len(traits.attributes) // _SHOWN_PER_STEP)
    if program.error is not None:
        raise CompileError(program.error)
    try:
        answer = program.evaluate(_view(traits), _MOST)
    except EvaluationError as error:
        if search is not None:
            search.take(error.steps)
        if isinstance(error, EffortError):
            raise EvaluationError(_TOO_COSTLY) from None
        raise
    if search is not None:
        search.take(answer.steps)
    return answer.matches


def _view(traits: DeviceTraits) -> DeviceView:
    """Return what CEL sees of a device. Raises VersionError."""
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
