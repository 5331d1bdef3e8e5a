"""Functions of URLs."""

from collections.abc import Callable

from podberth.cel.errors import EvaluationError
from podberth.cel.formats import OVERLOADS as FORMATS
from podberth.cel.goaddress import UrlError, host_and_port, parse, parse_request, query_of
from podberth.cel.values import Map, Url, Value


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


OVERLOADS: dict[str, Callable[..., Value]] = {
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
