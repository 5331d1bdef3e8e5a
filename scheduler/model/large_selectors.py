"""Label selectors of thousands of requirements, read a part at a time: a tenant may write one of 100,000 labels."""

from scheduler.model import wire
from scheduler.model.parts import Parts, in_order, some_of
from scheduler.model.selectors import (
    EVERYTHING,
    NOTHING,
    PART,
    LabelSelector,
    Requirement,
    check_operator,
    requirement_in_parts,
    requirements_of,
    steps_of,
)


def label_selector_in_parts(selector: wire.LabelSelector | None, path: str) -> Parts[LabelSelector]:
    """As `parse_label_selector`: a tenant may write 100,000 labels. What is asked of it later is worked out, too.

    Raises SelectorError naming the field path.
    """
    if selector is None:
        return NOTHING
    labels, found = selector.match_labels or {}, list[Requirement]()
    for keys in some_of((yield from in_order(list(labels)))):
        found += requirements_of({key: labels[key] for key in keys}, path)
        yield len(keys)
    steps = 0
    for i, expression in enumerate(selector.match_expressions or ()):
        where = f"{path}.matchExpressions[{i}]"
        check_operator(expression.operator, where)
        found.append((yield from requirement_in_parts(expression, where)))
        steps += steps_of(expression)
        if steps >= PART:
            yield steps
            steps = 0
    if selector.match_expressions:
        keys_and_places: list[tuple[str, str, tuple[int, str, int], int]] = []
        for requirements in some_of(found):
            for one in requirements:
                keys_and_places.append((one.key, one.operator, _by_values(one), len(keys_and_places)))
            yield len(requirements)
        found = [found[place] for *_, place in (yield from in_order(keys_and_places))]
    if not found:
        return EVERYTHING
    made = LabelSelector(tuple(found))
    yield from made.working_out()
    return made


def selector_of_labels(labels: dict[str, str]) -> Parts[LabelSelector]:
    """What a map of labels selects, as Services have it: none selects nothing. Nothing is checked."""
    found, only = list[Requirement](), dict[str, frozenset[str]]()
    for keys in some_of((yield from in_order(list(labels)))):
        for key in keys:
            value = labels[key]
            values = only.get(value)
            if values is None:
                values = only[value] = frozenset((value,))
            found.append(Requirement(key, "In", values))
        yield len(keys) // 2
    if not found:
        return NOTHING
    made = LabelSelector(tuple(found))
    yield from made.working_out()
    return made


def _by_values(requirement: Requirement) -> tuple[int, str, int]:
    """What orders requirements on the same key, however many values they have."""
    values = requirement.values
    return len(values), min(values, default=""), hash(values)
