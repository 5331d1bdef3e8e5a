"""Quantities that are written back: the amount, and how it was written (apimachinery `resource/quantity.go`)."""

from msgspec import Struct

from scheduler.model.quantity import MILLI, NANO, parse_nano

DECIMAL, BINARY, EXPONENT = "DecimalSI", "BinarySI", "DecimalExponent"
_KIBI = 1024
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL = ("n", "u", "m", "", "k", "M", "G", "T", "P", "E")
_MOST = (1 << 63) - 1


class Quantity(Struct, gc=False, frozen=True):
    """An amount in nano-units, with the notation in which it is shown."""

    nano: int
    notation: str

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
        """The canonical form (CanonicalizeBytes)."""
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
    if written.endswith("i"):
        return Quantity(nano, DECIMAL if 0 < nano < NANO else BINARY)
    has_exponent = any(letter in written[:-1] for letter in "eE")
    return Quantity(nano, EXPONENT if has_exponent else DECIMAL)


def of_whole(amount: int, notation: str) -> Quantity:
    """So many units (NewQuantity)."""
    return Quantity(amount * NANO, notation)


def of_milli(amount: int, notation: str) -> Quantity:
    """So many thousandths (NewMilliQuantity)."""
    return Quantity(amount * MILLI, notation)


def _away(nano: int, unit: int) -> int:
    amount = -(-abs(nano) // unit)
    return -amount if nano < 0 else amount
