"""Finds names and labels that may have been meant; no masks, which are all spelt nearly alike."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from difflib import get_close_matches

from podberth.cache.nodes import Nodes
from podberth.explain.objects.dump import is_masked
from podberth.model.selectors import Requirement

VALUES = 2000
"""The largest number of values of one label that are compared."""
_NAMES = 20_000
"""The largest number of names that are compared."""
_ZEROS = re.compile(r"0+(?=[0-9])")


def similar(text: str, known: Iterable[str], most: int = 1) -> list[str]:
    """Return those that are spelt nearly so, the likeliest first; none for a text of a masked dump."""
    return [] if is_masked(text) else get_close_matches(text, known, n=most)


def near_names(name: str, known: Iterable[str], most: int = 3) -> list[str]:
    """Return names that may have been meant: those with the same numbers (7, 07) before those spelt similarly."""
    names = list(dict.fromkeys(known))
    plain = _without_zeros(name)
    same = [each for each in names if _without_zeros(each) == plain and each != name]
    return list(dict.fromkeys([*same[:most], *similar(name, names[:_NAMES], most)]))[:most]


def nearest_name(name: str, known: Iterable[str]) -> str:
    """Return the name that was most likely meant; empty: none is spelt nearly so."""
    return next(iter(near_names(name, known)), "")


def meant(near: Iterable[str]) -> str:
    """Return a question whether one of these names was meant; empty: there is none."""
    names = ", ".join(near)
    return f" (did you mean {names}?)" if names else ""


def _without_zeros(name: str) -> str:
    return _ZEROS.sub("", name.lower())


def label_values(nodes: Nodes) -> Mapping[str, Collection[str]]:
    """Return the values that each label has on nodes."""
    found: dict[str, dict[str, None]] = {}
    for _, node in nodes.live():
        for key, value in node.labels.items():
            known = found.setdefault(key, {})
            if len(known) < VALUES:
                known[value] = None
    return found


def near_labels(requirement: Requirement, known: Mapping[str, Collection[str]]) -> Iterator[tuple[str, str]]:
    """Yield (value, value of a node that is spelt nearly so) for a requirement that no node meets.

    If no node has the label, yield one pair: an empty text, and the label that is spelt nearly so.
    """
    values = known.get(requirement.key)
    if values is None:
        for near in similar(requirement.key, known):
            yield "", near
    elif requirement.operator == "In" and not any(value in values for value in requirement.values):
        for value in sorted(requirement.values):
            if near := nearest_name(value, values):
                yield value, near
