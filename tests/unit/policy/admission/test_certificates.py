"""Certificates through their life: what is made when, and that whoever connects trusts them at every moment."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from cryptography import x509
from cryptography.x509.verification import PolicyBuilder, Store

from podberth.policy.admission import certificates
from podberth.policy.admission.certificates import CertificateError, Material, advance

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = ("berth-admission.berth.svc", "127.0.0.1")
OVERLAP = timedelta(minutes=5)


def step(material: Material | None, now: datetime, *, published: bool = True, **more: object) -> Material:
    """One look at it."""
    return advance(material, NAMES, now, published=published, overlap=OVERLAP, **more)  # type: ignore[arg-type]


def trusted(material: Material, bundle: bytes, now: datetime) -> bool:
    """Whether a client that knows the bundle accepts the serving certificate (RFC 5280 as Go and OpenSSL do it)."""
    store = Store(x509.load_pem_x509_certificates(bundle))
    verifier = PolicyBuilder().store(store).time(now).build_server_verifier(x509.DNSName(NAMES[0]))
    try:
        verifier.verify(material.leaf, [])
    except x509.verification.VerificationError:
        return False
    return True


def test_first_material() -> None:
    """From nothing comes a CA and a certificate for all names, good for clients whose clock is a little behind."""
    made = step(None, NOW)
    assert trusted(made, made.bundle, NOW - timedelta(minutes=4))
    names = made.leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == [NAMES[0]]
    assert [str(ip) for ip in names.get_values_for_type(x509.IPAddress)] == [NAMES[1]]
    assert made.authorities[0].certificate.extensions.get_extension_for_class(x509.BasicConstraints).critical
    assert step(made, NOW + timedelta(days=100)) is made


def test_serving_certificate_is_renewed_in_time() -> None:
    """After two thirds of its year the serving certificate is made anew, by the same CA."""
    made = step(None, NOW)
    renewed = step(made, NOW + timedelta(days=250))
    assert renewed.serving != made.serving
    assert renewed.bundle == made.bundle
    assert trusted(renewed, made.bundle, NOW + timedelta(days=250))


def test_names_are_kept_up() -> None:
    """A name that is wanted and not in the certificate leads to a new one; one that is too many does not."""
    made = step(None, NOW)
    wider = advance(made, (*NAMES, "other.example"), NOW, published=True, overlap=OVERLAP)
    assert wider.serving != made.serving
    assert step(wider, NOW) is wider


def test_authority_rotates_with_overlap() -> None:
    """A new CA is trusted before it signs, and the old one until nothing it signed is served."""
    made = step(None, NOW)
    later = NOW + timedelta(days=certificates.CA_DAYS * 0.67)
    made = step(made, later - timedelta(days=150))  # a fresh serving certificate
    joined = step(made, later)
    assert len(joined.authorities) == 2
    assert joined.serving == made.serving
    assert joined.authorities[1] == made.authorities[0]
    assert step(joined, later + timedelta(days=1), published=False) is joined  # not before everybody trusts it

    signed = step(joined, later + OVERLAP)
    assert signed.bundle == joined.bundle
    assert signed.issuer == signed.authorities[0]
    assert step(signed, later + OVERLAP + timedelta(minutes=4)) is signed
    done = step(signed, later + 2 * OVERLAP)
    assert [a.pem for a in done.authorities] == [joined.authorities[0].pem]
    assert step(done, later + 3 * OVERLAP) is done

    stages = [made, joined, signed, done]
    for before, after in pairwise(stages):
        for served in (before, after):  # replicas and API servers may each be one stage behind
            for known in (before, after):
                assert trusted(served, known.bundle, later + OVERLAP)


def test_rotation_on_demand() -> None:
    """A CA made before the moment asked for is replaced with the same overlap, once."""
    made = step(None, NOW)
    asked = NOW + timedelta(hours=1)
    assert step(made, NOW + timedelta(minutes=1), rotate_before=asked) is made  # the moment has not come
    joined = step(made, asked, rotate_before=asked)
    assert len(joined.authorities) == 2
    assert step(joined, asked, published=False, rotate_before=asked) is joined
    signed = step(joined, asked + OVERLAP, rotate_before=asked)
    done = step(signed, asked + 2 * OVERLAP, rotate_before=asked)
    assert len(done.authorities) == 1
    assert step(done, asked + 3 * OVERLAP, rotate_before=asked) is done


def test_after_a_long_sleep() -> None:
    """When everything has ended there is nothing to wait for: one step gives what can be served."""
    made = step(None, NOW)
    later = NOW + timedelta(days=certificates.CA_DAYS + 1)
    woken = step(made, later, published=False)
    assert trusted(woken, woken.bundle, later)
    ended = NOW + timedelta(days=certificates.SERVING_DAYS + 1)  # only the serving certificate did
    assert trusted(step(made, ended, published=False), made.bundle, ended)


def test_rotation_never_leaves_the_issuer_out() -> None:
    """Whatever the order of looks, publications and demands, the served certificate is trusted by the bundle."""
    material, now = step(None, NOW), NOW
    for i in range(60):
        now += timedelta(days=37, minutes=i)
        demand = now - timedelta(days=20) if i % 7 == 0 else None
        material = step(material, now, published=i % 3 != 0, rotate_before=demand)
        assert trusted(material, material.bundle, now)
        assert len(material.authorities) <= 3


def test_read_gives_back_what_was_stored() -> None:
    """Stored parts make the same material; parts of two do not fit, and nothing of them is told."""
    made, other = step(None, NOW), step(None, NOW)
    assert certificates.read(made.bundle, made.authority_key, made.serving, made.serving_key) == made
    for broken in (
        replace(made, serving_key=other.serving_key),
        replace(made, authority_key=other.authority_key),
        replace(made, authorities=other.authorities, authority_key=other.authority_key),
        replace(made, serving=b"-----BEGIN CERTIFICATE-----\nxx\n-----END CERTIFICATE-----\n"),
        replace(made, serving_key=b""),
        replace(made, authorities=()),
    ):
        with pytest.raises(CertificateError) as error:
            certificates.read(broken.bundle, broken.authority_key, broken.serving, broken.serving_key)
        assert "BEGIN" not in str(error.value)


def test_bundle_is_split() -> None:
    """A bundle's certificates are told apart, whatever their line breaks; rubbish holds none."""
    made, other = step(None, NOW), step(None, NOW)
    text = made.bundle.replace(b"\n", b"\r\n") + b"\n\n" + other.bundle
    assert certificates.certificates(text) == [made.bundle, other.bundle]
    assert certificates.certificates(b"rubbish") == []
