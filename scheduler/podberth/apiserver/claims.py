"""What the status of a ResourceClaim may say: who uses the claim, and that its devices are freed, never exchanged.

Upstream: pkg/apis/resource/validation/validation.go (validateResourceClaimStatusUpdate). Devices are stored as they
came: whether there are such devices, and to whom else they were given, the API server does not look at.
"""

from __future__ import annotations

from podberth.apiserver.status import (
    FieldError,
    JsonObject,
    duplicate,
    forbidden_field,
    invalid_value,
    required,
)

MOST_USERS = 256
_FIELD = "status.reservedFor"


def status_rules(new: JsonObject, old: JsonObject) -> list[FieldError]:
    """Return what a new status breaks."""
    status, before = new.get("status") or {}, old.get("status") or {}
    users = status.get("reservedFor") or []
    errors = _users(users)
    if users and status.get("allocation") is None:
        errors.append(forbidden_field(_FIELD, "may not be specified when `allocated` is not set"))
    elif old["metadata"].get("deletionTimestamp"):
        were = before.get("reservedFor") or []
        if any(user not in were for user in users):
            why = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
            errors.append(forbidden_field(_FIELD, why))
    if before.get("allocation") is not None and status.get("allocation") not in (None, before["allocation"]):
        errors.append(invalid_value("status.allocation", None, "field cannot be modified once set"))
    return errors


def _users(users: list[JsonObject]) -> list[FieldError]:
    errors: list[FieldError] = []
    if len(users) > MOST_USERS:
        errors.append(FieldError("TooMany", _FIELD, len(users), f"must have at most {MOST_USERS} items"))
    seen: set[str] = set()
    for index, user in enumerate(users):
        field = f"{_FIELD}[{index}]"
        errors += [required(f"{field}.{name}") for name in ("resource", "name", "uid") if not user.get(name)]
        uid = user.get("uid", "")
        if uid in seen:
            errors.append(duplicate(field, user))
        seen.add(uid)
    return errors
