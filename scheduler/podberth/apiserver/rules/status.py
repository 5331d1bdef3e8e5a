"""Errors as the API speaks them: Status objects, reasons, causes and the field-error grammar.

Upstream: k8s.io/apimachinery pkg/api/errors/errors.go and pkg/util/validation/field/errors.go.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

JsonObject = dict[str, Any]


class StatusError(Exception):
    """A request's failure, carrying the Status object that the client will read."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: JsonObject | None = None,
        retry_after: int = 0,
        metadata: JsonObject | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.retry_after = retry_after
        self.metadata = metadata or {}

    def body(self) -> JsonObject:
        """Return the Status object; empty reason and details are left out, as Go's omitempty does."""
        status: JsonObject = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.metadata,
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None:
            status["details"] = self.details
        status["code"] = self.code
        return status


def success(details: JsonObject | None = None, code: int = 0) -> JsonObject:
    """Return the Status object of a call that has no object to give back."""
    status: JsonObject = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details is not None:
        status["details"] = details
    if code:
        status["code"] = code
    return status


def _details(group: str, kind: str, name: str, **more: Any) -> JsonObject:
    details: JsonObject = {}
    if name:
        details["name"] = name
    if group:
        details["group"] = group
    if kind:
        details["kind"] = kind
    details.update(more)
    return details


def qualified(group: str, plural: str) -> str:
    """`pods`, `deployments.apps`: how the API's sentences name a resource."""
    return f"{plural}.{group}" if group else plural


def not_found(group: str, plural: str, name: str) -> StatusError:
    """404 for a name that isn't there."""
    text = f'{qualified(group, plural)} "{name}" not found'
    return StatusError(404, "NotFound", text, _details(group, plural, name))


def unknown_path() -> StatusError:
    """404 for a path that no resource serves."""
    return StatusError(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(group: str, plural: str, name: str, being_deleted: bool) -> StatusError:
    """409 for a create whose name is taken."""
    text = "object is being deleted: " if being_deleted else ""
    text += f'{qualified(group, plural)} "{name}" already exists'
    return StatusError(409, "AlreadyExists", text, _details(group, plural, name))


def conflict(group: str, plural: str, name: str, why: str) -> StatusError:
    """409 in the grammar that clients match on."""
    text = f'Operation cannot be fulfilled on {qualified(group, plural)} "{name}": {why}'
    return StatusError(409, "Conflict", text, _details(group, plural, name))


def modified(group: str, plural: str, name: str) -> StatusError:
    """409 for a write that was based on an older version."""
    return conflict(
        group,
        plural,
        name,
        "the object has been modified; please apply your changes to the latest version and try again",
    )


def forbidden(group: str, plural: str, name: str, why: str) -> StatusError:
    """403 from admission or authorisation."""
    subject = qualified(group, plural) + (f' "{name}"' if name else "")
    return StatusError(403, "Forbidden", f"{subject} is forbidden: {why}", _details(group, plural, name))


def bad_request(why: str) -> StatusError:
    """400 for a request that can't be understood."""
    return StatusError(400, "BadRequest", why)


@contextmanager
def decoding(version: str, kind: str) -> Iterator[None]:
    """Take a list where a map belongs, or a number where a list belongs, for what it is: an undecodable body.

    The real decoder knows every field's type and says so in its own words; here the first use finds out.
    """
    try:
        yield
    except (AttributeError, TypeError, KeyError, ValueError) as error:
        raise bad_request(f'{kind} in version "{version}" cannot be handled as a {kind}: json: {error}') from error


def wrong_namespace() -> StatusError:
    """400 for an object that names another namespace than its path."""
    return bad_request("the namespace of the provided object does not match the namespace sent on the request")


def unauthorized() -> StatusError:
    """401 for a token that nobody has."""
    return StatusError(401, "Unauthorized", "Unauthorized")


def expired(why: str, metadata: JsonObject | None = None) -> StatusError:
    """410 for a resourceVersion whose history is gone."""
    return StatusError(410, "Expired", why, metadata=metadata)


def too_large_version(asked: int, current: int) -> StatusError:
    """504 for a resourceVersion from the future (storage.NewTooLargeResourceVersionError)."""
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    return StatusError(
        504,
        "Timeout",
        f"Timeout: Too large resource version: {asked}, current: {current}",
        {"causes": [cause], "retryAfterSeconds": 1},
        retry_after=1,
    )


def method_not_allowed() -> StatusError:
    """405 for a verb that the path doesn't have."""
    return StatusError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {})


def unsupported_media_type(accepted: Iterable[str]) -> StatusError:
    """415 for a body in a format that isn't spoken here; without a list, one that nobody has heard of."""
    formats = ", ".join(accepted)
    if not formats:
        return StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
    return StatusError(
        415,
        "UnsupportedMediaType",
        f"the body of the request was in an unknown format - accepted media types include: {formats}",
    )


def internal(why: str) -> StatusError:
    """500 in the shape of NewInternalError."""
    return StatusError(500, "InternalError", f"Internal error occurred: {why}", {"causes": [{"message": why}]})


def unprocessable() -> StatusError:
    """422 for a JSON patch that can't be applied; the API doesn't tell why (NewGenericServerResponse)."""
    return StatusError(422, "Invalid", "the server rejected our request due to an error in our request", {})


class NothingServedError(Exception):
    """The path's group isn't served at all: the answer is plain text, no Status."""


_TYPES = {
    "Required": ("FieldValueRequired", "Required value"),
    "Invalid": ("FieldValueInvalid", "Invalid value"),
    "NotSupported": ("FieldValueNotSupported", "Unsupported value"),
    "Forbidden": ("FieldValueForbidden", "Forbidden"),
    "Duplicate": ("FieldValueDuplicate", "Duplicate value"),
    "TooLong": ("FieldValueTooLong", "Too long"),
    "TooMany": ("FieldValueTooMany", "Too many"),
    "TypeInvalid": ("FieldValueTypeInvalid", "Invalid value"),
    "NotFound": ("FieldValueNotFound", "Not found"),
}
_VALUELESS = frozenset({"Required", "Forbidden", "TooLong"})


@dataclass(frozen=True)
class FieldError:
    """One violated rule of one field."""

    type: str
    field: str
    value: Any = None
    detail: str = ""

    def text(self) -> str:
        """Return the error without its path, as a cause's message has it."""
        words = _TYPES[self.type][1]
        if self.type not in _VALUELESS:
            words += f": {json.dumps(self.value, ensure_ascii=False, separators=(',', ':'))}"
        return f"{words}: {self.detail}" if self.detail else words

    def __str__(self) -> str:
        return f"{self.field}: {self.text()}"

    def cause(self) -> JsonObject:
        """Return the entry for Status.details.causes."""
        return {"reason": _TYPES[self.type][0], "message": self.text(), "field": self.field}


Errors = Iterator[FieldError]


def required(field: str, detail: str = "") -> FieldError:
    """Return the error of a field that has to be there."""
    return FieldError("Required", field, None, detail)


def invalid_value(field: str, value: Any, detail: str) -> FieldError:
    """Return the error of a field whose value breaks a rule."""
    return FieldError("Invalid", field, value, detail)


def misnamed(rule: Callable[[str], Iterable[str]], value: str, field: str) -> Errors:
    """Yield the errors of a field whose value breaks one of the rules in `names`."""
    for text in rule(value):
        yield invalid_value(field, value, text)


def not_supported(field: str, value: Any, supported: Sequence[str]) -> FieldError:
    """Return the error of a field whose value is not among the known ones."""
    return FieldError("NotSupported", field, value, "supported values: " + ", ".join(json.dumps(v) for v in supported))


def forbidden_field(field: str, detail: str) -> FieldError:
    """Return the error of a field that may not be there, or may not change."""
    return FieldError("Forbidden", field, None, detail)


def duplicate(field: str, value: Any) -> FieldError:
    """Return the error of a value that may stand once only."""
    return FieldError("Duplicate", field, value)


def invalid(group: str, kind: str, name: str, errors: Sequence[FieldError]) -> StatusError:
    """422 with all field errors; several are put in brackets, equal ones are told once."""
    texts = list(dict.fromkeys(str(error) for error in errors))
    joined = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    causes = [error.cause() for error in errors]
    subject = f'{qualified(group, kind)} "{name}" is invalid'
    return StatusError(422, "Invalid", f"{subject}: {joined}", _details(group, kind, name, causes=causes))
