"""IP addresses and prefixes, parsed as Go's net/netip does, with its messages."""

import re
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address

from podberth.cel.errors import EvaluationError, works
from podberth.cel.goquote import quoted
from podberth.cel.operators import no_overload
from podberth.cel.values import Address, Prefix, Value

_HEXADECIMAL = re.compile(r"[0-9a-fA-F]*", re.ASCII)
_DIGITS = re.compile(r"[0-9]+", re.ASCII)


class AddressError(ValueError):
    """A text that is no address or prefix; the message is Go's."""


def _wrong(text: str, message: str, at: str = "") -> AddressError:
    return AddressError(f"ParseAddr({quoted(text)}): {message}" + (f" (at {quoted(at)})" if at else ""))


def parse_address(text: str) -> tuple[IPv4Address | IPv6Address, str]:
    """An address and its zone. Raises AddressError."""
    for character in text:
        if character == ".":
            return IPv4Address(bytes(_fields(text, text))), ""
        if character == ":":
            return _parse_six(text)
        if character == "%":
            raise _wrong(text, "missing IPv6 address")
    raise _wrong(text, "unable to parse IP")


def _fields(whole: str, text: str) -> list[int]:
    """The four numbers of an IPv4 address."""
    fields: list[int] = []
    value = digits = 0
    for index, character in enumerate(text):
        if character in "0123456789":
            if digits == 1 and value == 0:
                raise _wrong(whole, "IPv4 field has octet with leading zero")
            value = value * 10 + int(character)
            digits += 1
            if value > 255:
                raise _wrong(whole, "IPv4 field has value >255")
        elif character == ".":
            if index in (0, len(text) - 1) or text[index - 1] == ".":
                raise _wrong(whole, "IPv4 field must have at least one digit", text[index:])
            if len(fields) == 3:
                raise _wrong(whole, "IPv4 address too long")
            fields.append(value)
            value = digits = 0
        else:
            raise _wrong(whole, "unexpected character", text[index:])
    if len(fields) < 3:
        raise _wrong(whole, "IPv4 address too short")
    return [*fields, value]


def _parse_six(whole: str) -> tuple[IPv6Address, str]:
    text, percent, zone = whole.partition("%")
    if percent and not zone:
        raise _wrong(whole, "zone must be a non-empty string")
    groups: list[int] = []
    ellipsis = -1
    if text.startswith("::"):
        ellipsis, text = 0, text[2:]
        if not text:
            return IPv6Address(0), zone
    while len(groups) < 16:
        text, done = _group(whole, text, groups, ellipsis)
        if done:
            break
        if text[0] == ":":
            if ellipsis >= 0:
                raise _wrong(whole, "multiple :: in address", text)
            ellipsis, text = len(groups), text[1:]
            if not text:
                break
    if text:
        raise _wrong(whole, "trailing garbage after address", text)
    if len(groups) < 16:
        if ellipsis < 0:
            raise _wrong(whole, "address string too short")
        groups[ellipsis:ellipsis] = [0] * (16 - len(groups))
    elif ellipsis >= 0:
        raise _wrong(whole, "the :: must expand to at least one field of zeros")
    return IPv6Address(bytes(groups)), zone


def _group(whole: str, text: str, groups: list[int], ellipsis: int) -> tuple[str, bool]:
    """Read one group and the colon after it; returns the rest, and whether that is all."""
    found = _HEXADECIMAL.match(text)
    digits = found.group() if found is not None else ""
    if len(digits) > 4:
        raise _wrong(whole, "each group must have 4 or less digits", text)
    if not digits:
        raise _wrong(whole, "each colon-separated field must have at least one digit", text)
    if text[len(digits) : len(digits) + 1] == ".":
        if ellipsis < 0 and len(groups) != 12:
            raise _wrong(whole, "embedded IPv4 address must replace the final 2 fields of the address", text)
        if len(groups) > 12:
            raise _wrong(whole, "too many hex fields to fit an embedded IPv4 at the end of the address", text)
        groups += _fields(whole, text)
        return "", True
    groups += divmod(int(digits, 16), 256)
    text = text[len(digits) :]
    if not text:
        return "", True
    if text[0] != ":":
        raise _wrong(whole, "unexpected character, want colon", text)
    if len(text) == 1:
        raise _wrong(whole, "colon must be followed by more characters", text)
    return text[1:], False


def parse_prefix(text: str) -> Prefix:
    """An address and a length. Raises AddressError."""
    address, slash, length = text.rpartition("/")
    where = f"netip.ParsePrefix({quoted(text)})"
    if not slash:
        raise AddressError(f"{where}: no '/'")
    try:
        ip, zone = parse_address(address)
    except AddressError as error:
        raise AddressError(f"{where}: {error}") from None
    if zone:
        raise AddressError(f"{where}: IPv6 zones cannot be present in a prefix")
    if not _DIGITS.fullmatch(length) or (len(length) > 1 and length[0] == "0") or len(length) > 18:
        raise AddressError(f"{where}: bad bits after slash: {quoted(length)}")
    if int(length) > ip.max_prefixlen:
        raise AddressError(f"{where}: prefix length out of range")
    return Prefix(ip, int(length))


def _address(text: str) -> Address:
    try:
        ip, zone = parse_address(text)
    except AddressError as error:
        message = f"IP Address {quoted(text)} parse error during conversion from string: {error}"
        raise EvaluationError(message) from None
    if zone:
        raise EvaluationError(f"IP address {quoted(text)} with zone value is not allowed")
    if _mapped(ip):
        raise EvaluationError(f"IPv4-mapped IPv6 address {quoted(text)} is not allowed")
    return Address(ip)


def _prefix(text: str) -> Prefix:
    where = "network address parse error during conversion from string: "
    try:
        prefix = parse_prefix(text)
    except AddressError as error:
        raise EvaluationError(f"{where}{where}{error}") from None
    if _mapped(prefix.ip):
        raise EvaluationError(f"{where}IPv4-mapped IPv6 address {quoted(text)} is not allowed")
    return prefix


def _mapped(ip: IPv4Address | IPv6Address) -> bool:
    return isinstance(ip, IPv6Address) and ip.ipv4_mapped is not None


def _canonical(text: str) -> bool:
    return address_text(_address(text).ip) == text


def address_text(ip: IPv4Address | IPv6Address) -> str:
    """The canonical text of an address."""
    if isinstance(ip, IPv6Address) and ip.ipv4_mapped is not None:
        return f"::ffff:{ip.ipv4_mapped}"
    return IPv6Address(int(ip)).compressed if isinstance(ip, IPv6Address) else str(ip)


def _network(prefix: Prefix) -> int:
    shift = prefix.ip.max_prefixlen - prefix.bits
    return int(prefix.ip) >> shift << shift


def _contains(prefix: Prefix, other: Address) -> bool:
    if prefix.ip.version != other.ip.version:
        return False
    shift = prefix.ip.max_prefixlen - prefix.bits
    return int(prefix.ip) >> shift == int(other.ip) >> shift


def _contains_text(prefix: Prefix, text: str) -> bool:
    try:
        other = _address(text)
    except EvaluationError:
        raise no_overload() from None  # as upstream words it
    return _contains(prefix, other)


def _contains_prefix(prefix: Prefix, other: Prefix) -> bool:
    return prefix.bits <= other.bits and _contains(prefix, Address(other.ip))


def _masked(prefix: Prefix) -> Prefix:
    return Prefix(type(prefix.ip)(_network(prefix)), prefix.bits)


def _is_global_unicast(ip: IPv4Address | IPv6Address) -> bool:
    broadcast = ip.version == 4 and int(ip) == 0xFFFFFFFF
    return not (broadcast or ip.is_unspecified or ip.is_loopback or ip.is_multicast or _link_local(ip))


def _link_local(ip: IPv4Address | IPv6Address) -> bool:
    if ip.version == 4:
        return int(ip) >> 16 == 0xA9FE
    return int(ip) >> 118 == 0xFE80 >> 6


def _link_local_multicast(ip: IPv4Address | IPv6Address) -> bool:
    if ip.version == 4:
        return int(ip) >> 8 == 0xE00000
    return int(ip) >> 112 & 0xFF0F == 0xFF02


OVERLOADS: dict[str, Callable[..., Value]] = {
    "string_to_ip": _address,
    "ip_family": lambda address: address.ip.version,
    "ip_is_canonical": _canonical,
    "ip_is_unspecified": lambda address: address.ip.is_unspecified,
    "ip_is_loopback": lambda address: address.ip.is_loopback,
    "ip_is_link_local_multicast": lambda address: _link_local_multicast(address.ip),
    "ip_is_link_local_unicast": lambda address: _link_local(address.ip),
    "ip_is_global_unicast": lambda address: _is_global_unicast(address.ip),
    "is_ip": works(_address),
    "ip_to_string": lambda address: address_text(address.ip),
    "string_to_cidr": _prefix,
    "cidr_contains_ip_string": _contains_text,
    "cidr_contains_ip_ip": _contains,
    "cidr_contains_cidr_string": lambda prefix, text: _contains_prefix(prefix, _prefix(text)),
    "cidr_contains_cidr": _contains_prefix,
    "cidr_ip": lambda prefix: Address(prefix.ip),
    "cidr_prefix_length": lambda prefix: prefix.bits,
    "cidr_masked": _masked,
    "is_cidr": works(_prefix),
    "cidr_to_string": lambda prefix: f"{address_text(prefix.ip)}/{prefix.bits}",
}
