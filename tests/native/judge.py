"""What the evaluator says of a request, and in what an API server's answer differs from that."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from podberth.policy import keys
from podberth.policy.evaluate import Operation, evaluate
from podberth.policy.native.admission_policies import MOST_BYTES
from podberth.policy.options import Options, UserInfo
from podberth.policy.spec import Policies
from tests.controlplane.api import Told

Object = dict[str, Any]
ADMIN = UserInfo("admin", ("system:masters",))
INVALID = 422
"""Of an object that is not legal. Admission policies refuse after that was found, webhooks before."""


class Expected(NamedTuple):
    """What the evaluator says: `denied` is "" for an object that is let in as `object`."""

    denied: str
    object: Object
    warnings: list[str]
    """Of the validating pass: what modes warn say of the object as it will be stored."""
    first: list[str]
    """Of the mutating pass."""
    early: bool
    """Whether the mutating pass denies it."""


def expected(
    policies: Policies,
    namespace: str,
    operation: Operation,
    new: Object,
    old: Object | None,
    *,
    forged: bool,
    stamp: bool = True,
) -> Expected:
    """Both passes, one after the other. `forged`: an annotation `keys.VERDICT` that was sent along stays."""
    options = Options(namespace=namespace, user_info=ADMIN, live_schedulers=frozenset(), stamp=stamp)
    first = evaluate(policies, operation, new, old, options)
    if not first.allowed:
        return Expected(first.message, new, [], first.warnings, True)
    if first.exempt is not None:
        return Expected("", new, [], [], False)
    stored: Object = first.object or {}
    if not forged:
        stored = {**stored, "metadata": _without_verdict(stored["metadata"])}
    second = evaluate(policies, operation, stored, old, msgspec.structs.replace(options, pass_="validate"))
    return Expected("" if second.allowed else second.message, stored, second.warnings, first.warnings, False)


def of_policies(told: Told, wanted: Expected) -> str:
    """In what the answer of an API server differs that enforces by itself; "" for nothing."""
    if told.status == INVALID:
        return ""
    if wanted.denied:
        if told.status != 403:
            return f"let in, expected: {wanted.denied[:200]}"
        said = told.body["message"].partition(" denied request: ")[2]
        line = " ".join(wanted.denied.split("\n"))
        if len(line.encode()) > MOST_BYTES and said.endswith("..."):
            line = line[: len(said) - 3] + "..."
        return "" if said == line.strip() else f"message {said[:200]!r}, expected {line[:200]!r}"
    ours = [one for one in told.warnings if one.startswith("Validation failed for ")]
    said_warnings = [one.partition("binding '")[2].partition("': ")[2] for one in ours]
    wishes = [one for one in wanted.warnings if " would write " in one or one.startswith("would be rejected")]
    return _difference(told, wanted) or _of_lists("warnings", said_warnings, wishes)


def of_webhook(told: Told, wanted: Expected) -> str:
    """In what the answer of an API server differs that asks the webhook; "" for nothing."""
    if told.status == INVALID:
        return "invalid, expected a refusal" if wanted.early else ""
    if wanted.denied:
        if told.status != 403:
            return f"let in, expected: {wanted.denied[:200]}"
        said = told.body["message"].partition(" denied the request: ")[2]
        return "" if said == wanted.denied else f"message {said[:200]!r}, expected {wanted.denied[:200]!r}"
    # What both passes say is sent once; the API server has warnings of its own about annotations that are old.
    said_warnings = [one for one in told.warnings if not one.startswith(("metadata.", "spec."))]
    wishes = list(dict.fromkeys([*wanted.first, *wanted.warnings]))
    return _difference(told, wanted) or _of_lists("warnings", said_warnings, wishes)


def between(native: Told, webhook: Told) -> str:
    """In what the two answers differ, asked of the API server alone; "" for nothing."""
    if INVALID in (native.status, webhook.status):
        return ""
    if (native.status == 403) != (webhook.status == 403):
        return f"natively {native.status}, by the webhook {webhook.status}"
    if native.status == 403:
        return ""
    stored = _stored(native.body), _stored(webhook.body)
    return "" if stored[0] == stored[1] else f"natively {stored[0]}, by the webhook {stored[1]}"


def _difference(told: Told, wanted: Expected) -> str:
    if told.status >= 300:
        return f"refused: {told.body['message'][:300]}"
    for field in ("labels", "annotations"):
        got = told.body["metadata"].get(field) or {}
        want = wanted.object["metadata"].get(field) or {}
        if got != want:
            return f"{field} {got}, expected {want}"
    scheduler = (wanted.object.get("spec") or {}).get("schedulerName", "default-scheduler")
    if wanted.object["kind"] == "Pod" and told.body["spec"]["schedulerName"] != scheduler:
        return f"schedulerName {told.body['spec']['schedulerName']}, expected {scheduler}"
    return ""


def _of_lists(what: str, got: list[str], want: list[str]) -> str:
    return "" if sorted(got) == sorted(want) else f"{what} {sorted(got)}, expected {sorted(want)}"


def _stored(body: Object) -> Object:
    """What policies may change of an object."""
    meta = _without_verdict(body["metadata"])
    spec = body.get("spec") or {}
    return {
        "labels": meta.get("labels") or {},
        "annotations": meta["annotations"],
        "scheduler": spec.get("schedulerName"),
        "class": (body.get("status") or {}).get("qosClass"),
    }


def _without_verdict(meta: Object) -> Object:
    annotations = dict(meta.get("annotations") or {})
    annotations.pop(keys.VERDICT, None)
    return {**meta, "annotations": annotations}
