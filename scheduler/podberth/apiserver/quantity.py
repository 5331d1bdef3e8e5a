"""Quantities: exact parsing and the canonical text that a real API server gives back.

Upstream: k8s.io/apimachinery pkg/api/resource/quantity.go (ParseQuantity, CanonicalizeBytes).
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from typing import Any

GRAMMAR = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
SUFFIX = "unable to parse quantity's suffix"
NANO = 10**9
MILLI = 10**6

_NUMBER = re.compile(r"([+-]?)(\d+(?:\.\d*)?|\.\d+|(?=[A-Za-z]))(.*)", re.DOTALL)
_EXPONENT = re.compile(r"[eE]([+-]?\d+)")
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_TEXT = ["", *_BINARY]
_DECIMAL_TEXT = {power: suffix for suffix, power in _DECIMAL.items()}


@lru_cache(maxsize=8192)
def parse(text: str) -> tuple[int, str]:
    """The value in 10⁻⁹ units, rounded away from zero, and the family it was written in: binary, decimal, exponent."""
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise ValueError(GRAMMAR)
    sign, digits, suffix = match.groups()
    family = "decimal"
    if suffix in _BINARY:
        factor = Fraction(1024 ** _BINARY[suffix])
        family = "binary"
    elif suffix in _DECIMAL:
        factor = Fraction(10) ** _DECIMAL[suffix]
    elif exponent := _EXPONENT.fullmatch(suffix):
        # An exponent outside int32 is refused upstream; one beyond 300 would only cost time here.
        if abs(int(exponent[1])) > 300:
            raise ValueError(GRAMMAR)
        factor = Fraction(10) ** int(exponent[1])
        family = "exponent"
    else:
        # Letters of the grammar in an order that means nothing are told apart from other letters.
        raise ValueError(SUFFIX if re.fullmatch(r"[eEinumkKMGTP]*[-+]?[0-9]*", suffix) else GRAMMAR)
    # No digits before a suffix are zero to the real parser.
    scaled = Fraction(digits or 0) * factor * NANO
    nano = -(-scaled.numerator // scaled.denominator)
    return (-nano if sign == "-" else nano), family


@lru_cache(maxsize=8192)
def canonical(text: str) -> str:
    """The shortest text without loss, in the family the writer chose."""
    return _written(*parse(text))


def _written(nano: int, family: str) -> str:
    if nano == 0:
        return "0"
    sign, size = ("-" if nano < 0 else ""), abs(nano)
    if family == "binary" and size >= 1024 * NANO and size % NANO == 0:
        units, power = size // NANO, 0
        while units % 1024 == 0 and power < 6:
            units, power = units // 1024, power + 1
        return f"{sign}{units}{_BINARY_TEXT[power]}"
    units, exponent = size, -9
    while units % 1000 == 0 and exponent < 18:
        units, exponent = units // 1000, exponent + 3
    if family == "exponent":
        return f"{sign}{units}" + (f"e{exponent}" if exponent else "")
    return f"{sign}{units}{_DECIMAL_TEXT[exponent]}"


def text_of(value: Any) -> str:
    """A quantity as it may stand in JSON: text or a bare number."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    raise ValueError(GRAMMAR)


@lru_cache(maxsize=8192)
def _in_a_list(text: str) -> str:
    """Resource lists know nothing finer than a thousandth (SetDefaults_ResourceList)."""
    nano_units, family = parse(text)
    if nano_units % MILLI == 0:
        return canonical(text)
    size = -(-abs(nano_units) // MILLI)
    rounded = canonical(f"{size}e-3" if family == "exponent" else f"{size}m")
    return f"-{rounded}" if nano_units < 0 else rounded


def canonicalise(amounts: dict[str, Any]) -> None:
    """Rewrite a resource list in place to canonical texts; raises ValueError for what is no quantity."""
    for name, value in amounts.items():
        amounts[name] = _in_a_list(text_of(value))


def add(first: Any, second: Any) -> str:
    """The sum of two, written as the first one is unless that is zero (Quantity.Add)."""
    (one, family), (other, others) = parse(text_of(first)), parse(text_of(second))
    return _written(one + other, family if one else others)


def times(amount: Any, number: int) -> str:
    """So many times an amount, written as that is."""
    one, family = parse(text_of(amount))
    return _written(one * number, family)


def nano(amounts: dict[str, Any] | None, name: str) -> int:
    """One entry of a resource list in 10⁻⁹ units; absent is zero."""
    value = (amounts or {}).get(name)
    return 0 if value is None else parse(text_of(value))[0]
