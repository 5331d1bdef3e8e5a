"""IP addresses and prefixes. The standard library reads them; Kubernetes allows neither zones nor mapped addresses."""

from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address, ip_address

from podberth.cel.errors import EvaluationError, quoted, works
from podberth.cel.library.operators import no_overload
from podberth.cel.values import Address, Prefix, Value

_MOST_DIGITS = 3
"""Of the length of a prefix."""


def _address(text: str) -> Address:
    try:
        ip = ip_address(text)
    except ValueError as error:
        message = f"IP Address {quoted(text)} parse error during conversion from string: {error}"
        raise EvaluationError(message) from None
    if "%" in text:
        raise EvaluationError(f"IP address {quoted(text)} with zone value is not allowed")
    if _mapped(ip):
        raise EvaluationError(f"IPv4-mapped IPv6 address {quoted(text)} is not allowed")
    return Address(ip)


def _prefix(text: str) -> Prefix:
    where = "network address parse error during conversion from string: "
    address, _, length = text.rpartition("/")
    try:
        ip = ip_address(address)
    except ValueError:
        raise EvaluationError(f"{where}{quoted(text)} is no prefix") from None
    plain = length.isascii() and length.isdigit() and len(length) <= _MOST_DIGITS and length == str(int(length))
    if "%" in text or not plain or int(length) > ip.max_prefixlen:
        raise EvaluationError(f"{where}{quoted(text)} is no prefix")
    if _mapped(ip):
        raise EvaluationError(f"{where}IPv4-mapped IPv6 address {quoted(text)} is not allowed")
    return Prefix(ip, int(length))


def _mapped(ip: IPv4Address | IPv6Address) -> bool:
    return isinstance(ip, IPv6Address) and ip.ipv4_mapped is not None


def _canonical(text: str) -> bool:
    return address_text(_address(text).ip) == text


def address_text(ip: IPv4Address | IPv6Address) -> str:
    """Return the canonical text of an address."""
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
