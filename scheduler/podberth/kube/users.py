"""Users as the API server names them, and the one that a client certificate names.

Mirrors k8s.io/apiserver `pkg/authentication/request/x509/x509.go` (CommonNameUserConversion).
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime

import msgspec

AUTHENTICATED = "system:authenticated"
CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"
UID = "1.3.6.1.4.1.57683.2"


class NobodyError(Exception):
    """What was shown says of nobody who it is: one line that says why."""


class User(msgspec.Struct, frozen=True):
    """As a TokenReview names it."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, list[str]] = msgspec.field(default_factory=dict)


def certified(certificate: bytes) -> User:
    """Whom a certificate (DER, verified) names: the last CN is the user, each O a group.

    Raises NobodyError, also when it has expired since its connection was made.
    """
    from cryptography import x509  # as nobody may come with one
    from cryptography.x509.oid import NameOID, ObjectIdentifier

    try:
        read = x509.load_der_x509_certificate(certificate)
        found: dict[ObjectIdentifier, list[str]] = {}
        for attribute in read.subject:
            found.setdefault(attribute.oid, []).append(str(attribute.value))
        until = read.not_valid_after_utc
    except ValueError as error:
        raise NobodyError(f"the client certificate can't be read: {error}") from None
    names, uids = found.get(NameOID.COMMON_NAME, []), found.get(ObjectIdentifier(UID), [])
    if until < datetime.now(UTC):
        raise NobodyError("the client certificate has expired")
    if not names or not names[-1]:
        raise NobodyError("the client certificate has no common name")
    if uids and (len(uids) > 1 or not uids[0]):
        raise NobodyError("the client certificate has more than one UID, or an empty one")
    groups = (*found.get(NameOID.ORGANIZATION_NAME, ()), AUTHENTICATED)
    identity = f"X509SHA256={hashlib.sha256(certificate).hexdigest()}"
    return User(names[-1], "".join(uids), groups, {CREDENTIAL_ID: [identity]})
