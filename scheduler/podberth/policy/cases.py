"""Cases in JSON or YAML: those of `berth policy eval --cases`, and the tests that users keep beside their policies."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from podberth.model.mistakes import as_json, kind_of
from podberth.policy import objects, options
from podberth.policy.evaluate import OPERATIONS, Operation, Verdict, admitted, evaluate, warnings
from podberth.policy.objects import JsonObject
from podberth.policy.options import Options
from podberth.policy.parse import PolicyError, parse
from podberth.policy.spec import Policies, Policy

CASE = ("name", "operation", "object", "oldObject", "options", "expect")
_SHOWN = 1000
"""The largest number of characters of a text that are shown; the message of a rejection has at most 1,024."""
EXPECT = ("allowed", "code", "message", "labels", "annotations", "schedulerName", "warnings", "changed")


class CaseError(ValueError):
    """A case that can't be read; the text names the field."""


def answer(case: Any) -> dict[str, Any]:
    """Return the verdict on one case, with the fields that `berth policy eval` promises.

    A policy that is not acceptable is left out with a warning and the others decide, as in a cluster.
    Raises CaseError.
    """
    if not isinstance(case, dict):
        raise CaseError("want a JSON object with policies, operation and object")
    refused: list[str] = []
    try:
        given = options.parse(_field(case, "options", dict, {}))
        policies = _accepted(_field(case, "policies", list, []), given, refused)
    except options.OptionsError as error:
        raise CaseError(str(error)) from None
    found = judged(policies, case, given)
    return promised(found, refused if found.exempt is None else ())


def judged(policies: Policies, case: Mapping[str, Any], given: Options) -> Verdict:
    """Return the verdict on the request of a case: of both passes, if its options do not ask for one of them.

    Raises CaseError.
    """
    operation, obj, old = request(case)
    one_pass = (case.get("options") or {}).get("pass") is not None
    return (evaluate if one_pass else admitted)(policies, operation, obj, old, given)


def request(case: Mapping[str, Any]) -> tuple[Operation, JsonObject | None, JsonObject | None]:
    """Return operation (CREATE when absent), object and old object of a case.

    Raises CaseError.
    """
    word = str(case.get("operation") or "CREATE").upper()
    operation = next((known for known in OPERATIONS if known == word), None)
    if operation is None:
        raise CaseError(f'operation: Unsupported value: "{word[:40]}": want {", ".join(OPERATIONS)}')
    obj, old = (_object(case, field) for field in ("object", "oldObject"))
    if obj is None and operation in ("CREATE", "UPDATE"):
        raise CaseError("object: Required value")
    return operation, obj, old


def promised(found: Verdict, refused: Sequence[str] = ()) -> dict[str, Any]:
    """Return a verdict as JSON. Warnings about `refused` policies come first."""
    return {
        "allowed": found.allowed,
        "code": found.code,
        "message": found.message,
        "patch": found.patch,
        "object": found.object,
        "warnings": warnings([*refused, *found.warnings]),
    }


def _accepted(documents: list[Any], given: Options, refused: list[str]) -> Policies:
    """Return the policies that can be read; a warning is added for each of the others."""
    policies: list[Policy] = []
    for i, document in enumerate(documents):
        try:
            policies.append(parse(document, given.allowed_prefixes, name=f"policy-{i}", new=True))
        except PolicyError as error:
            refused.append(f'MetadataPolicy "{name_of(document, f"policies[{i}]")}" is not accepted: {error.line}')
    return Policies(policies)


def name_of(document: Any, otherwise: str) -> str:
    """Return the name of a policy, which may be any value."""
    return _of_metadata(document, "name") or otherwise


def namespace_of(document: Any) -> str:
    """Return the namespace of a policy, which may be any value; empty when it names none."""
    return _of_metadata(document, "namespace")


def _of_metadata(document: Any, field: str) -> str:
    metadata = document.get("metadata") if isinstance(document, dict) else None
    found = metadata.get(field) if isinstance(metadata, dict) else None
    return found if isinstance(found, str) else ""


def _object(case: Mapping[str, Any], field: str) -> JsonObject | None:
    found = case.get(field)
    if found is None:
        return None
    try:
        return objects.check(found)
    except objects.ShapeError as error:
        raise CaseError(f"{field}.{error}".replace(".want", ": want", 1)) from None


def _field(case: Mapping[str, Any], name: str, wanted: type, otherwise: Any) -> Any:
    found = case.get(name)
    if found is None:
        return otherwise
    if not isinstance(found, wanted):
        raise CaseError(f"{name}: want a {'map' if wanted is dict else 'list'}, got {kind_of(found)}")
    return found


# -- tests ------------------------------------------------------------------------------------------------------------


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
        asked = _field(case, "options", dict, {})
        given = options.parse(asked)
        if (wrong := options.unknown(asked)) is not None:
            raise CaseError(wrong)
        found = judged(policies, case, given)
    except (CaseError, options.OptionsError) as error:
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
