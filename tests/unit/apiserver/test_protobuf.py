"""Bodies in protobuf: what is understood, and that all else is refused rather than misread."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podberth.apiserver import protobuf

BINDING = (
    b"k8s\x00\x0a\x0d\x0a\x02v1\x12\x07Binding"
    b"\x12\x1d\x0a\x0c\x0a\x03web\x1a\x02ns*\x01u\x12\x0d\x0a\x04Node\x1a\x05node7"
)


def test_a_binding() -> None:
    """Bytes written out by hand from generated.proto."""
    assert protobuf.read(BINDING) == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "web", "namespace": "ns", "uid": "u"},
        "target": {"kind": "Node", "name": "node7"},
    }


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"k8s",
        b"k8s\x00",
        BINDING[:-1],
        BINDING.replace(b"v1", b"v2"),
        BINDING.replace(b"Binding", b"Bondage"),
        BINDING.replace(b"*\x01u", b"j\x01u"),
        BINDING.replace(b"*\x01u", b"*\x01\xff"),
        BINDING.replace(b"*\x01u", b"(\x01\x08"),
    ],
    ids=["empty", "short", "no object", "cut", "version", "kind", "field", "no text", "wire type"],
)
def test_what_is_not_understood(body: bytes) -> None:
    """An unknown field is refused as well: leaving it out would be to misread the object."""
    with pytest.raises(protobuf.NotUnderstoodError):
        protobuf.read(body)


@given(st.binary(max_size=80))
def test_any_bytes(tail: bytes) -> None:
    """Whatever comes is read or refused, and nothing else happens."""
    for start in (b"k8s\x00", BINDING[:30]):
        try:
            assert isinstance(protobuf.read(start + tail), dict)
        except protobuf.NotUnderstoodError:
            continue
