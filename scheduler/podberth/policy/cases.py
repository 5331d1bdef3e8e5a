"""Reads the cases of `berth policy eval` from JSON, and writes their verdicts as JSON."""

from collections.abc import Mapping
from typing import Any

from podberth.model.mistakes import kind_of
from podberth.policy import objects, options, verdict
from podberth.policy.evaluate import OPERATIONS, Operation, admitted, evaluate
from podberth.policy.objects import JsonObject
from podberth.policy.options import Options
from podberth.policy.parse import PolicyError, parse
from podberth.policy.spec import Policies, Policy
from podberth.policy.verdict import Verdict

KNOWN = ("id", "policies", "operation", "object", "oldObject", "options")


class CaseError(ValueError):
    """A case that can't be read; the text names the field."""


def answer(case: Any) -> dict[str, Any]:
    """Return the verdict on one case, as `as_json` has it.

    A policy that is not acceptable is left out with a warning and the others decide, as in a cluster.
    Raises CaseError.
    """
    if not isinstance(case, dict):
        raise CaseError("want a JSON object with policies, operation and object")
    warnings: list[str] = []
    try:
        given = options.parse(_field(case, "options", dict, {}))
        policies = _accepted(_field(case, "policies", list, []), given, warnings)
    except options.OptionsError as error:
        raise CaseError(str(error)) from None
    found = judged(policies, case, given)
    return as_json(found, warnings if found.exempt is None else [])


def judged(policies: Policies, case: Mapping[str, Any], given: Options) -> Verdict:
    """Return the verdict on the request of a case: of both passes, if its options do not ask for one of them.

    Raises CaseError.
    """
    operation, obj, old = request(case)
    one_pass = (case.get("options") or {}).get("pass") is not None
    return (evaluate if one_pass else admitted)(policies, operation, obj, old, given)


def request(case: Mapping[str, Any]) -> tuple[Operation, JsonObject | None, JsonObject | None]:
    """Operation (CREATE when absent), object and old object of a case.

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


def as_json(found: Verdict, warnings: list[str]) -> dict[str, Any]:
    """Return a verdict with the fields that `berth policy eval` promises. `warnings` about policies come first."""
    return {
        "allowed": found.allowed,
        "code": found.code,
        "message": found.message,
        "patch": found.patch,
        "object": found.object,
        "warnings": verdict.warnings([*warnings, *found.warnings]),
    }


def _accepted(documents: list[Any], given: Options, warnings: list[str]) -> Policies:
    """Return the policies that can be read; a warning is added for each of the others."""
    policies: list[Policy] = []
    for i, document in enumerate(documents):
        try:
            policies.append(parse(document, given.allowed_prefixes, name=f"policy-{i}"))
        except PolicyError as error:
            warnings.append(f'MetadataPolicy "{name_of(document, f"policies[{i}]")}" is not accepted: {error.line}')
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
