"""Errors about documents are in words that an author of YAML or JSON knows."""

import msgspec
import pytest

from podberth.model.mistakes import kind_of, misfit


class Inner(msgspec.Struct):
    """A part of a document."""

    count: int = 0
    labels: dict[str, str] = {}


class Outer(msgspec.Struct):
    """A document."""

    name: str
    inner: Inner | None = None


@pytest.mark.parametrize(
    ("value", "want"),
    [
        (None, "nothing"),
        (True, "true or false"),
        (3, "a number"),
        (0.5, "a number"),
        ("x", "text"),
        ([], "a list"),
        ({}, "a mapping"),
    ],
)
def test_kind_of(value: object, want: str) -> None:
    """Every kind of value that YAML and JSON have."""
    assert kind_of(value) == want


@pytest.mark.parametrize(
    ("text", "where", "want"),
    [
        ("3", "", "expected a mapping, got a whole number"),
        ('{"name": 3}', "", "name: expected text, got a whole number"),
        ('{"name": "x", "inner": []}', "spec", "spec.inner: expected a mapping, got a list"),
        ('{"name": "x", "inner": {"count": "1"}}', "", "inner.count: expected a whole number, got text"),
        ('{"inner": null}', "spec", "spec: missing the field name"),
        ('{"name": "x", "inner": {"labels": {"a": true}}}', "", "inner.labels[...]: expected text, got true or false"),
        ("[" * 200_000, "spec", "spec: it is nested too deeply"),
    ],
)
def test_misfit(text: str, where: str, want: str) -> None:
    """Path, what was expected, and what is there; a document that nobody can nest like that by hand, too."""
    with pytest.raises((msgspec.DecodeError, RecursionError)) as caught:
        msgspec.json.decode(text, type=object if text.startswith("[") else Outer)
    assert misfit(caught.value, where) == want


def test_text_that_is_none() -> None:
    """Bytes that are no text."""
    with pytest.raises(UnicodeDecodeError) as caught:
        b"\xff".decode()
    assert misfit(caught.value) == "it is not UTF-8"
