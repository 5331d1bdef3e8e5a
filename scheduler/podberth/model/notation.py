"""Quantities that are written back: the amount, and how it was written (apimachinery `resource/quantity.go`)."""

import re

from msgspec import Struct

from podberth.model.quantity import MILLI, NANO, parse_nano

DECIMAL, BINARY, EXPONENT = "DecimalSI", "BinarySI", "DecimalExponent"
_KIBI = 1024
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL = ("n", "u", "m", "", "k", "M", "G", "T", "P", "E")
_MOST = (1 << 63) - 1
_MOST_DIGITS = 18
_ODD = re.compile(r"[+.eE]|^-?0")
_PARTS = re.compile(r"[+-]?0*([0-9]*)(?:\.([0-9]*))?(.*)", re.DOTALL)
_POWERS = {suffix: 3 * i - 9 for i, suffix in enumerate(_DECIMAL)}


class Quantity(Struct, gc=False, frozen=True):
    """An amount in nano-units, with the notation in which it is shown."""

    nano: int
    notation: str
    text: str = ""
    """As it was written, where apimachinery shows it so though its canonical form is another: `2e0`, `+5`, `1.500`."""

    @property
    def whole(self) -> int:
        """Units, rounded away from zero (Quantity.Value)."""
        return _away(self.nano, NANO)

    @property
    def milli(self) -> int | None:
        """Thousandths; None when they are not exact, or too many for 64 bits (safeMilliValue)."""
        milli, rest = divmod(self.nano, MILLI)
        return None if rest or abs(milli) > _MOST else milli

    def __str__(self) -> str:
        """The canonical form (CanonicalizeBytes), or the text that is remembered."""
        if self.text:
            return self.text
        if not self.nano:
            return "0"
        notation = self.notation
        small = abs(self.nano) < _KIBI * NANO
        if notation == BINARY and (small or self.nano % NANO):
            notation = DECIMAL
        if notation == BINARY:
            amount, power = self.nano // NANO, 0
            while amount % _KIBI == 0 and power < len(_BINARY) - 1:
                amount //= _KIBI
                power += 1
            return f"{amount}{_BINARY[power]}"
        amount, power = self.nano, 0
        while amount % 1000 == 0 and (notation == EXPONENT or power < len(_DECIMAL) - 1):
            amount //= 1000
            power += 1
        if notation == DECIMAL:
            return f"{amount}{_DECIMAL[power]}"
        exponent = 3 * power - 9
        return f"{amount}e{exponent}" if exponent else str(amount)


def parse_quantity(text: str | int | float) -> Quantity:
    """Read a quantity. Raises QuantityError."""
    nano = parse_nano(text)
    written = text if isinstance(text, str) else repr(text)
    is_binary = written.endswith("i")
    if is_binary:
        notation = DECIMAL if 0 < nano < NANO else BINARY
    else:
        notation = EXPONENT if any(letter in written[:-1] for letter in "eE") else DECIMAL
    found = Quantity(nano, notation)
    if _ODD.search(written) is None or str(found) == written:
        return found
    text = _remembered_binary(written) if is_binary else _remembered(written)
    return Quantity(nano, notation, text) if text else found


def _remembered(text: str) -> str:
    """The text of a decimal, where ParseQuantity takes it to be canonical; empty: it does not."""
    found = _PARTS.fullmatch(text)
    assert found is not None
    number, decimals, suffix = found[1] or "0", found[2] or "", found[3]
    digits = number + decimals
    power = _POWERS[suffix] if suffix in _POWERS else int(suffix[1:])
    scale = power - len(decimals)
    if len(digits) > _MOST_DIGITS or scale < _POWERS["n"] or scale % 3:
        return ""
    return "" if digits.startswith("0") or digits.endswith("000") else text


def _remembered_binary(text: str) -> str:
    """The same for units of 1,024."""
    found = _PARTS.fullmatch(text)
    if found is None or found[2] or found[3] not in _BINARY:
        return ""
    number, power = found[1] or "0", _BINARY.index(found[3])
    fits = len(number) + 3 * power < _MOST_DIGITS - 3 and int(number) * _KIBI**power <= _MOST
    return text if fits and int(number) % 8 else ""


def of_whole(amount: int, notation: str) -> Quantity:
    """So many units (NewQuantity)."""
    return Quantity(amount * NANO, notation)


def of_milli(amount: int, notation: str) -> Quantity:
    """So many thousandths (NewMilliQuantity)."""
    return Quantity(amount * MILLI, notation)


def _away(nano: int, unit: int) -> int:
    amount = -(-abs(nano) // unit)
    return -amount if nano < 0 else amount
