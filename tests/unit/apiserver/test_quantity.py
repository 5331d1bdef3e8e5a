"""Quantities: exact values and canonical texts."""

from __future__ import annotations

import pytest

from podberth.apiserver.rules import quantity


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("0", "0"),
        ("0.0Gi", "0"),
        ("1000m", "1"),
        ("0.5", "500m"),
        ("1.5", "1500m"),
        ("1500000", "1500k"),
        ("1024Mi", "1Gi"),
        ("0.5Gi", "512Mi"),
        ("1.5Ki", "1536"),
        ("512", "512"),
        ("0.5Mi", "512Ki"),
        ("-1.5", "-1500m"),
        ("+2", "2"),
        ("1e3", "1e3"),
        ("12e6", "12e6"),
        ("1E3", "1e3"),
        ("2E", "2E"),
        ("100n", "100n"),
        ("0.0000000001", "1n"),
        (".5", "500m"),
        ("5.", "5"),
    ],
)
def test_canonical(text: str, want: str) -> None:
    """The canonical text has the value of the original, in its family, without a longer form."""
    assert quantity.canonical(text) == want
    assert quantity.parse(want)[0] == quantity.parse(text)[0]


@pytest.mark.parametrize("text", ["", "x", "1x", "1 Gi", "1_000", "0x10", "--1", "1kk", "1e999999999", "1e"])
def test_no_quantity(text: str) -> None:
    """What Go's grammar doesn't know is refused."""
    with pytest.raises(ValueError, match="quantit"):
        quantity.parse(text)


def test_resource_lists_know_thousandths() -> None:
    """A resource list is rounded up to thousandths, also below zero away from it."""
    amounts = {"a": "0.0001", "b": "-0.0001", "c": 2, "d": 0.5}
    quantity.canonicalise(amounts)
    assert amounts == {"a": "1m", "b": "-1m", "c": "2", "d": "500m"}


@pytest.mark.parametrize("value", [True, None, [], {}])
def test_neither_text_nor_number(value: object) -> None:
    """Other JSON than text and numbers is no quantity."""
    with pytest.raises(ValueError, match="quantities must match"):
        quantity.text_of(value)
