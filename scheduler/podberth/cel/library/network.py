"""IP addresses, prefixes and URLs, parsed as Go's net/netip and net/url do, with their messages; named formats."""

import re
from collections.abc import Callable
from datetime import date
from ipaddress import IPv4Address, IPv6Address

from podberth.cel.errors import EvaluationError, quoted, works
from podberth.cel.library.operators import no_overload
from podberth.cel.values import NONE, Address, Format, Map, Optional, Prefix, Url, Value

_HEXADECIMAL = re.compile(r"[0-9a-fA-F]*", re.ASCII)
_DIGITS = re.compile(r"[0-9]+", re.ASCII)


class AddressError(ValueError):
    """A text that is no address or prefix; the message is Go's."""


def _wrong(text: str, message: str, at: str = "") -> AddressError:
    return AddressError(f"ParseAddr({quoted(text)}): {message}" + (f" (at {quoted(at)})" if at else ""))


def parse_address(text: str) -> tuple[IPv4Address | IPv6Address, str]:
    """Return an address and its zone. Raises AddressError."""
    for character in text:
        if character == ".":
            return IPv4Address(bytes(_fields(text, text))), ""
        if character == ":":
            return _parse_six(text)
        if character == "%":
            raise _wrong(text, "missing IPv6 address")
    raise _wrong(text, "unable to parse IP")


def _fields(whole: str, text: str) -> list[int]:
    """Return the four numbers of an IPv4 address."""
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
    """Return an address and a length. Raises AddressError."""
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


_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*(?=:)", re.ASCII)
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~")
_PATH = _UNRESERVED | frozenset("$&+,/:;=@")
_IN_PATH = _PATH | frozenset("!'()*[]%")
_HOST = _UNRESERVED | frozenset("!$&'()*+,;=:[]<>\"")
_HEX = re.compile(r"[0-9a-fA-F]{2}", re.ASCII)
_USER = re.compile(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*", re.ASCII)


class UrlError(ValueError):
    """A text that is no URL; the message is Go's."""


def parse_request(text: str) -> Url:
    """Return the URL in a request: absolute, or an absolute path. Raises UrlError."""
    return _shown(text, request=True)


def parse(text: str) -> Url:
    """Return a URL without its fragment. Raises UrlError."""
    return _shown(text.partition("#")[0], request=False)


def _shown(text: str, request: bool) -> Url:
    try:
        return _parse(text, request)
    except UrlError as error:
        raise UrlError(f"parse {quoted(text)}: {error}") from None


def _parse(text: str, request: bool) -> Url:
    if any(character < " " or character == "\x7f" for character in text):
        raise UrlError("net/url: invalid control character in URL")
    if not text and request:
        raise UrlError("empty url")
    if text == "*":
        return Url(text, "", "", "*", "")
    scheme, rest = _scheme(text)
    rest, _, query = rest.partition("?")
    if not rest.startswith("/"):
        if scheme:
            return Url(text, scheme, "", "", query)
        if request:
            raise UrlError("invalid URI for request")
        if ":" in rest.partition("/")[0]:
            raise UrlError("first path segment in URL cannot contain colon")
    host = ""
    if rest.startswith("//") and (scheme or (not request and not rest.startswith("///"))):
        authority, slash, path = rest[2:].partition("/")
        rest = slash + path
        host = _authority(scheme, authority)
    return Url(text, scheme, host, _path(rest), query)


def _scheme(text: str) -> tuple[str, str]:
    if text.startswith(":"):
        raise UrlError("missing protocol scheme")
    found = _SCHEME.match(text)
    if found is None:
        return "", text
    return found.group().lower(), text[found.end() + 1 :]


def _authority(scheme: str, authority: str) -> str:
    user, at, host = authority.rpartition("@")
    host = _host(scheme, host)
    if at:
        if _USER.fullmatch(user) is None:
            raise UrlError("net/url: invalid userinfo")
        unescaped(user, "")
    return host


def _host(scheme: str, host: str) -> str:
    opening = host.rfind("[")
    if opening > 0:
        raise UrlError("invalid IP-literal")
    if opening == 0:
        return _literal(host)
    first = host.find(":")
    if first >= 0:
        last = host.rfind(":")
        port = host[first if scheme in ("http", "https") else last :]
        _check_port(port)
    return unescaped(host, "host")


def _literal(host: str) -> str:
    closing = host.rfind("]")
    if closing < 0:
        raise UrlError("missing ']' in host")
    port = host[closing + 1 :]
    _check_port(port)
    name = host[1:closing]
    zone = name.find("%25")
    plain, scoped = (name, "") if zone < 0 else (name[:zone], name[zone:])
    name = unescaped(plain, "host") + unescaped(scoped, "zone")
    try:
        ip, _ = parse_address(name)
    except AddressError as error:
        raise UrlError(f"invalid host: {error}") from None
    if ip.version == 4:
        raise UrlError("invalid IP-literal")
    return f"[{name}]{unescaped(port, 'host')}"


def _check_port(port: str) -> None:
    if port and (port[0] != ":" or not re.fullmatch(r"[0-9]*", port[1:], re.ASCII)):
        raise UrlError(f"invalid port {quoted(port)} after host")


def unescaped(text: str, mode: str) -> str:
    """Return the text with percent escapes replaced. Raises UrlError; `mode` is host, zone, query or empty."""
    out = bytearray()
    at = 0
    while at < len(text):
        character = text[at]
        if character == "%":
            digits = text[at + 1 : at + 3]
            if _HEX.fullmatch(digits) is None:
                raise UrlError(f"invalid URL escape {quoted(text[at : at + 3])}")
            code = int(digits, 16)
            if mode == "host" and code < 0x80 and digits != "25":
                raise UrlError(f"invalid URL escape {quoted(text[at : at + 3])}")
            if mode == "zone" and digits != "25" and code != 32 and chr(code) not in _HOST:
                raise UrlError(f"invalid URL escape {quoted(text[at : at + 3])}")
            out.append(code)
            at += 3
            continue
        if mode in ("host", "zone") and character < "\x80" and character not in _HOST:
            raise UrlError(f"invalid character {quoted(character)} in host name")
        out += (" " if character == "+" and mode == "query" else character).encode()
        at += 1
    return out.decode("utf-8", "surrogateescape")


def _path(path: str) -> str:
    """Return the escaped path, as it was given when that is valid."""
    plain = unescaped(path, "")
    if all(character in _IN_PATH for character in path):
        return path
    if plain == "*":
        return "*"
    data = plain.encode("utf-8", "surrogateescape")
    return "".join(chr(byte) if chr(byte) in _PATH else f"%{byte:02X}" for byte in data)


def host_and_port(host: str) -> tuple[str, str]:
    """Return the two parts, without brackets."""
    name, colon, port = host.rpartition(":")
    if not colon or not re.fullmatch(r"[0-9]*", port, re.ASCII):
        name, port = host, ""
    if name.startswith("[") and name.endswith("]"):
        name = name[1:-1]
    return name, port


def query_of(text: str) -> dict[str, list[str]]:
    """Return parameter → values; those that can't be read are left out."""
    values: dict[str, list[str]] = {}
    for part in text.split("&"):
        if not part or ";" in part:
            continue
        key, _, value = part.partition("=")
        try:
            values.setdefault(unescaped(key, "query"), []).append(unescaped(value, "query"))
        except UrlError:
            continue
    return {key: found for key, found in values.items() if found}


_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_NAME = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = f"({_NAME})?"
_ALNUM = "alphanumeric character"
_BOTH_ENDS = f"must start and end with an {_ALNUM}"
_LABEL_TEXT = f"a lowercase RFC 1123 label must consist of lower case {_ALNUM}s or '-', and {_BOTH_ENDS}"
_SUBDOMAIN_TEXT = f"a lowercase RFC 1123 subdomain must consist of lower case {_ALNUM}s, '-' or '.', and {_BOTH_ENDS}"
_1035_TEXT = (
    f"a DNS-1035 label must consist of lower case {_ALNUM}s or '-', start with an alphabetic character, and end with "
    f"an {_ALNUM}"
)
_NAME_TEXT = f"must consist of {_ALNUM}s, '-', '_' or '.', and {_BOTH_ENDS}"
_VALUE_TEXT = f"a valid label must be an empty string or consist of {_ALNUM}s, '-', '_' or '.', and {_BOTH_ENDS}"
_UUID = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.IGNORECASE)
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})")
_TIME = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))")


def _regex_error(text: str, regex: str, *examples: str) -> str:
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{text} (e.g. {shown}regex used for validation is '{regex}')"


def _too_long(text: str, most: int, unit: str = "characters") -> list[str]:
    """Return an error if the text is too long in bytes. Newer functions of upstream name bytes as the unit, older ones
    characters.
    """
    return [f"must be no more than {most} {unit}"] if len(text.encode()) > most else []


def _format_prefix(text: str) -> str:
    """Return a valid name in place of a prefix: its trailing dash becomes a letter."""
    return text[:-2] + "a" if len(text) > 1 and text.endswith("-") else text


def _label(text: str) -> list[str]:
    errors = _too_long(text, 63)
    if re.fullmatch(_LABEL, text, re.ASCII):
        return errors
    if re.fullmatch(_SUBDOMAIN, text, re.ASCII):
        return [*errors, "must not contain dots"]
    return [*errors, _regex_error(_LABEL_TEXT, _LABEL, "my-name", "123-abc")]


def _subdomain(text: str, unit: str = "characters") -> list[str]:
    errors = _too_long(text, 253, unit)
    if re.fullmatch(_SUBDOMAIN, text, re.ASCII):
        return errors
    return [*errors, _regex_error(_SUBDOMAIN_TEXT, _SUBDOMAIN, "example.com")]


def _label_1035(text: str) -> list[str]:
    errors = _too_long(text, 63)
    if re.fullmatch(_LABEL_1035, text, re.ASCII):
        return errors
    return [*errors, _regex_error(_1035_TEXT, _LABEL_1035, "my-name", "abc-123")]


def _qualified(text: str) -> list[str]:
    errors: list[str] = []
    prefix, slash, name = text.partition("/")
    if not slash:
        name = text
    elif "/" in name:
        regex = _regex_error(f"a valid label key {_NAME_TEXT}", _NAME, "MyName", "my.name", "123-abc")
        return [f"{regex} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"]
    elif not prefix:
        errors.append("prefix part must be non-empty")
    else:
        errors += [f"prefix part {error}" for error in _subdomain(prefix, "bytes")]
    if not name:
        errors.append("name part must be non-empty")
    elif _too_long(name, 63):
        errors.append("name part must be no more than 63 bytes")
    if not re.fullmatch(_NAME, name, re.ASCII):
        errors.append(f"name part {_regex_error(_NAME_TEXT, _NAME, 'MyName', 'my.name', '123-abc')}")
    return errors


def _label_value(text: str) -> list[str]:
    errors = _too_long(text, 63, "bytes")
    if re.fullmatch(_VALUE, text, re.ASCII):
        return errors
    return [*errors, _regex_error(_VALUE_TEXT, _VALUE, "MyValue", "my_value", "12345")]


def _uri(text: str) -> list[str]:
    try:
        parse_request(text)
    except UrlError as error:
        return [str(error)]
    return []


def _is_date(text: str) -> bool:
    if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text, re.ASCII):
        return False
    try:
        date.fromisoformat(text if text[:4] != "0000" else f"2000{text[4:]}")
    except ValueError:
        return False
    return True


def _is_datetime(text: str) -> bool:
    day, t, time = text.lower().partition("t")
    found = _TIME.fullmatch(time.partition("t")[0])
    if not t or not _is_date(day) or found is None:
        return False
    return found[1] <= "23" and found[2] <= "59" and found[3] <= "59"


def _said(test: Callable[[str], bool], message: str) -> Callable[[str], list[str]]:
    return lambda text: [] if test(text) else [message]


_FORMATS: dict[str, tuple[Callable[[str], list[str]], int]] = {
    "dns1123Label": (_label, 30),
    "dns1123Subdomain": (_subdomain, 60),
    "dns1035Label": (_label_1035, 30),
    "qualifiedName": (_qualified, 60),
    "dns1123LabelPrefix": (lambda text: _label(_format_prefix(text)), 30),
    "dns1123SubdomainPrefix": (lambda text: _subdomain(_format_prefix(text)), 60),
    "dns1035LabelPrefix": (lambda text: _label_1035(_format_prefix(text)), 30),
    "labelValue": (_label_value, 40),
    "uri": (_uri, 1103),
    "uuid": (_said(lambda text: _UUID.fullmatch(text) is not None, "does not match the UUID format"), 70),
    "byte": (_said(lambda text: _BASE64.fullmatch(text) is not None, "invalid base64"), 84),
    "date": (_said(_is_date, "invalid date"), 71),
    "datetime": (_said(_is_datetime, "invalid datetime"), 71),
}


def regex_size(known: Format) -> int:
    """Return the length by which a check is priced."""
    return _FORMATS[known.name][1]


def _named(name: str) -> Optional:
    return Optional(Format(name)) if name in _FORMATS else NONE


def _validated(known: Format, text: str) -> Optional:
    errors = _FORMATS[known.name][0](text)
    return Optional(errors) if errors else NONE


def _constant(name: str) -> Callable[[], Format]:
    return lambda: Format(name)


FORMATS: dict[str, Callable[..., Value]] = {
    "format-named": _named,
    "format-validate": _validated,
    **{f"format.{name}": _constant(name) for name in _FORMATS},
}


def _url(text: str) -> Url:
    try:
        parse_request(text)
        return parse(text)
    except UrlError as error:
        raise EvaluationError(f"URL parse error during conversion from string: {error}") from None


def _is_url(text: str) -> bool:
    try:
        parse_request(text)
    except UrlError:
        return False
    return True


URLS: dict[str, Callable[..., Value]] = {
    "string_to_url": _url,
    "is_url_string": _is_url,
    "url_get_scheme": lambda url: url.scheme,
    "url_get_host": lambda url: url.host,
    "url_get_hostname": lambda url: host_and_port(url.host)[0],
    "url_get_port": lambda url: host_and_port(url.host)[1],
    "url_get_escaped_path": lambda url: url.path,
    "url_get_query": lambda url: Map(query_of(url.query)),
    **FORMATS,
}
