"""Whom a client certificate names, as the API server reads it."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography.x509.oid import NameOID, ObjectIdentifier

from podberth.service.reviews import CREDENTIAL_ID, UID_OID, NobodyError, User, certified
from tests.certificates import Authority, der

CN, O, OU = NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME, NameOID.ORGANIZATIONAL_UNIT_NAME  # noqa: E741
U = ObjectIdentifier(UID_OID)
Subject = list[tuple[ObjectIdentifier, str]]
NAMED: list[tuple[str, Subject, User]] = [
    ("a user", [(CN, "ann")], User("ann", groups=("system:authenticated",))),
    (
        "groups, and what is none",
        [(O, "ops"), (OU, "unit"), (O, "readers"), (CN, "ann")],
        User("ann", groups=("ops", "readers", "system:authenticated")),
    ),
    ("the last name counts", [(CN, "ann"), (CN, "ben")], User("ben", groups=("system:authenticated",))),
    ("a UID", [(CN, "ann"), (U, "7")], User("ann", "7", ("system:authenticated",))),
]


@pytest.mark.parametrize(("subject", "want"), [case[1:] for case in NAMED], ids=[case[0] for case in NAMED])
def test_named(tmp_path: Path, subject: Subject, want: User) -> None:
    """Name, UID and groups; and the certificate itself, by its digest."""
    certificate = der(Authority(tmp_path).client(*subject))
    digest = hashlib.sha256(certificate).hexdigest()
    extra = {CREDENTIAL_ID: [f"X509SHA256={digest}"]}
    assert certified(certificate) == User(want.username, want.uid, want.groups, extra)


NOBODY: list[tuple[str, Subject, timedelta, str]] = [
    ("no name", [(O, "ops")], timedelta(hours=1), "no common name"),
    ("expired", [(CN, "ann")], timedelta(hours=-1), "has expired"),
    ("two UIDs", [(CN, "ann"), (U, "7"), (U, "8")], timedelta(hours=1), "more than one UID"),
]


@pytest.mark.parametrize(("subject", "lasts", "said"), [case[1:] for case in NOBODY], ids=[case[0] for case in NOBODY])
def test_nobody(tmp_path: Path, subject: Subject, lasts: timedelta, said: str) -> None:
    """Certificates that name nobody."""
    with pytest.raises(NobodyError, match=said):
        certified(der(Authority(tmp_path).client(*subject, lasts=lasts)))


def test_no_certificate() -> None:
    """Bytes that are none."""
    with pytest.raises(NobodyError, match="can't be read"):
        certified(b"no certificate")
