"""Test cases that users keep beside their policies, and whether a verdict is what a case expects."""

from collections.abc import Iterator, Mapping
from typing import Any

from podberth.model.mistakes import as_json, kind_of
from podberth.policy import objects
from podberth.policy.cases import CaseError, judged
from podberth.policy.options import OptionsError
from podberth.policy.options import parse as parse_options
from podberth.policy.spec import Policies
from podberth.policy.verdict import Verdict

CASE = ("name", "operation", "object", "oldObject", "options", "expect")
_SHOWN = 1000
"""The largest number of characters of a text that are shown; the message of a rejection has at most 1,024."""
EXPECT = ("allowed", "code", "message", "labels", "annotations", "schedulerName", "warnings", "changed")


def check(policies: Policies, case: Any, path: str) -> list[str]:
    """Return the differences from the expectation; empty: the case passes.

    Raises CaseError.
    """
    _known(case, path, CASE)
    expected = case.get("expect")
    if expected is None:
        raise CaseError(f"{path}.expect: Required value")
    _known(expected, f"{path}.expect", EXPECT)
    try:
        found = judged(policies, case, parse_options(case.get("options")))
    except (CaseError, OptionsError) as error:
        raise CaseError(f"{path}.{error}") from None
    return list(_differences(found, expected, path))


def title(case: Any, index: int) -> str:
    """Return the title of a case."""
    name = case.get("name") if isinstance(case, dict) else None
    return str(name or f"cases[{index}]")


def _differences(found: Verdict, expected: Mapping[str, Any], path: str) -> Iterator[str]:
    for field, got in (("allowed", found.allowed), ("code", found.code), ("changed", bool(found.patch))):
        if field in expected and expected[field] != got:
            more = f" ({found.message})" if found.message and field != "changed" else ""
            yield f"{field}: want {_shown(expected[field])}, got {_shown(got)}{more}"
    if "message" in expected and str(expected["message"]) not in found.message:
        yield f"message: want a text with {_shown(expected['message'])}, got {_shown(found.message)}"
    after = objects.snapshot(found.object)
    for field, held in (("labels", after.labels), ("annotations", after.annotations)):
        wanted = expected.get(field) or {}
        _known(wanted, f"{path}.expect.{field}")
        for key, value in wanted.items():
            if held.get(key) != value:
                yield f"{field}[{key}]: want {_shown(value)}, got {_shown(held.get(key))}"
    if "schedulerName" in expected:
        name = ((found.object or {}).get("spec") or {}).get("schedulerName")
        if name != expected["schedulerName"]:
            yield f"schedulerName: want {_shown(expected['schedulerName'])}, got {_shown(name)}"
    if "warnings" in expected:
        yield from _warned(found.warnings, expected["warnings"], f"{path}.expect.warnings")


def _warned(found: list[str], expected: Any, path: str) -> Iterator[str]:
    """Yield a difference for each expected text without a warning of its own, and for each warning left over."""
    if not isinstance(expected, list) or not all(isinstance(text, str) for text in expected):
        raise CaseError(f"{path}: want a list of texts")
    left = list(found)
    for text in expected:
        match = next((warning for warning in left if text in warning), None)
        if match is None:
            yield f"warnings: want one with {_shown(text)}, got {_shown(found)}"
        else:
            left.remove(match)
    for warning in left:
        yield f"warnings: {_shown(warning)} was not expected"


def _known(item: Any, path: str, names: tuple[str, ...] = ()) -> None:
    if not isinstance(item, dict):
        raise CaseError(f"{path}: want a map, got {kind_of(item)}")
    for name in item:
        if names and name not in names:
            raise CaseError(f"{path}.{str(name)[:80]}: Unknown field: want {', '.join(names)}")


def _shown(value: Any) -> str:
    return "none" if value is None else as_json(value, _SHOWN)
