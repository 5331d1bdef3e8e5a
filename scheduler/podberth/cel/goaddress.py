"""URLs as Go's net/url parses them, with its messages."""

import re

from podberth.cel.goquote import quoted
from podberth.cel.network import AddressError, parse_address
from podberth.cel.values import Url

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
    """A URL as it may be in a request: absolute, or an absolute path. Raises UrlError."""
    return _shown(text, request=True)


def parse(text: str) -> Url:
    """A URL, the fragment of which is cut off. Raises UrlError."""
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
    """Percent escapes replaced. Raises UrlError; `mode` is host, zone, query or empty."""
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
    """The escaped path: as it was given when that is valid."""
    plain = unescaped(path, "")
    if all(character in _IN_PATH for character in path):
        return path
    if plain == "*":
        return "*"
    data = plain.encode("utf-8", "surrogateescape")
    return "".join(chr(byte) if chr(byte) in _PATH else f"%{byte:02X}" for byte in data)


def host_and_port(host: str) -> tuple[str, str]:
    """The two parts, without brackets."""
    name, colon, port = host.rpartition(":")
    if not colon or not re.fullmatch(r"[0-9]*", port, re.ASCII):
        name, port = host, ""
    if name.startswith("[") and name.endswith("]"):
        name = name[1:-1]
    return name, port


def query_of(text: str) -> dict[str, list[str]]:
    """The values of each parameter; what can't be read is left out."""
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
