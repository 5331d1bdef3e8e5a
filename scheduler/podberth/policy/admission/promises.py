"""Checks the annotation by which a pod requires things of its node while it runs; a mistake in it is refused.

Without the webhook the scheduler leaves such a pod pending and the evictor says so in an Event; both are later.
"""

from podberth.model.promise import ANNOTATION, parse_promise
from podberth.policy.admission.review import Request
from podberth.policy.objects import JsonObject


def problem(request: Request) -> str | None:
    """Return the problem with a pod's annotation; None: there is none, or it was there before this request."""
    if (request.group, request.kind) != ("", "Pod") or request.sub_resource:
        return None
    text = _text(request.object)
    if text is None or text == _text(request.old):
        return None
    promise = parse_promise(text)
    return None if promise is None or promise.problem is None else f"metadata.annotations: {promise.problem}"


def _text(obj: JsonObject | None) -> str | None:
    annotations: dict[str, str] = ((obj or {}).get("metadata") or {}).get("annotations") or {}
    return annotations.get(ANNOTATION)
