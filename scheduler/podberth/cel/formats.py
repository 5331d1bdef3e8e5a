"""Named formats that text can be checked against."""

import re
from collections.abc import Callable
from datetime import date

from podberth.cel.goaddress import UrlError, parse_request
from podberth.cel.values import NONE, Format, Optional, Value

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
    """Bytes are counted in any case; the newer ones of upstream's functions say so."""
    return [f"must be no more than {most} {unit}"] if len(text.encode()) > most else []


def _prefix(text: str) -> str:
    """Return what stands for a name of which only the beginning is known."""
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
    "dns1123LabelPrefix": (lambda text: _label(_prefix(text)), 30),
    "dns1123SubdomainPrefix": (lambda text: _subdomain(_prefix(text)), 60),
    "dns1035LabelPrefix": (lambda text: _label_1035(_prefix(text)), 30),
    "labelValue": (_label_value, 40),
    "uri": (_uri, 1103),
    "uuid": (_said(lambda text: _UUID.fullmatch(text) is not None, "does not match the UUID format"), 70),
    "byte": (_said(lambda text: _BASE64.fullmatch(text) is not None, "invalid base64"), 84),
    "date": (_said(_is_date, "invalid date"), 71),
    "datetime": (_said(_is_datetime, "invalid datetime"), 71),
}


def regex_size(known: Format) -> int:
    """The length by which a check is priced."""
    return _FORMATS[known.name][1]


def _named(name: str) -> Optional:
    return Optional(Format(name)) if name in _FORMATS else NONE


def _validated(known: Format, text: str) -> Optional:
    errors = _FORMATS[known.name][0](text)
    return Optional(errors) if errors else NONE


def _constant(name: str) -> Callable[[], Format]:
    return lambda: Format(name)


OVERLOADS: dict[str, Callable[..., Value]] = {
    "format-named": _named,
    "format-validate": _validated,
    **{f"format.{name}": _constant(name) for name in _FORMATS},
}
