"""The code of loops. A loop's value is made when it is first read; an error in it is kept and raised then."""

from collections.abc import Iterable

from podberth.cel.calls import bare
from podberth.cel.effort import stopped
from podberth.cel.errors import AbortError, EvaluationError
from podberth.cel.frame import UNSET, Code, Frame
from podberth.cel.values import LISTS, MAPS, GrowingList, GrowingMap, Map, Value, go_type


class _Failed:
    """An error in place of a value."""

    __slots__ = ("error",)

    def __init__(self, error: EvaluationError) -> None:
        self.error = error


def accumulator(slot: int, initial: Code) -> Code:
    """The code that reads what a loop keeps."""

    def run(frame: Frame) -> Value:
        value = frame.slots[slot]
        if value is UNSET:
            value = frame.slots[slot] = _begun(initial, frame)
        if type(value) is _Failed:
            raise bare(value.error)
        return value

    return run


def _begun(initial: Code, frame: Frame) -> Value:
    try:
        value = initial(frame)
    except AbortError:
        raise
    except EvaluationError as error:
        return _Failed(bare(error))
    if type(value) in LISTS and not value:
        return GrowingList()
    if type(value) in MAPS and not value:
        return GrowingMap({})
    return value


def loop(over: Code, slots: tuple[int, int, int], parts: tuple[Code, Code, Code], fixed: Value) -> Code:
    """The code of a loop; `fixed` is its condition when that is constant."""
    kept, first, second = slots
    condition, step, result = parts

    def run(frame: Frame) -> Value:
        ranged = over(frame)
        variables = frame.slots
        outer = variables[kept]
        variables[kept] = UNSET
        for key, value in _items(ranged, second >= 0):
            variables[first] = key
            if second >= 0:
                variables[second] = value
            if fixed is None:
                if condition(frame) is not True:
                    break
            elif fixed is not True:
                break
            try:
                variables[kept] = step(frame)
            except AbortError:
                raise
            except EvaluationError as error:
                variables[kept] = _Failed(bare(error))
            if frame.cost > frame.most:
                raise stopped(frame.cost)
        value = result(frame)
        variables[kept] = outer
        if type(value) is GrowingList:
            return list(value)
        if type(value) is GrowingMap:
            return Map(value.items, value.names)
        return value

    return run


def _items(ranged: Value, pairs: bool) -> Iterable[tuple[Value, Value]]:
    kind = type(ranged)
    if kind in LISTS:
        return enumerate(list(ranged)) if pairs else ((item, None) for item in list(ranged))
    if kind in MAPS:
        return list(ranged.pairs()) if pairs else [(key, None) for key in ranged]
    if pairs:
        raise EvaluationError(f"unsupported comprehension range type: {go_type(ranged)}")
    raise EvaluationError(f"got '{go_type(ranged)}', expected iterable type")
