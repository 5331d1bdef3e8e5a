"""Time zones by name, and offsets such as `-07:30`, as cel-go and Go's time package read them.

Upstream: cel-go `common/stdlib/standard.go` (inTimeZone), Go `time` (LoadLocation).
"""

import os
import re
import zoneinfo
from datetime import UTC, tzinfo
from errno import ENOENT
from functools import lru_cache

from podberth.cel.effort import METER
from podberth.cel.errors import EvaluationError
from podberth.cel.goquote import quoted
from podberth.cel.values import INT_MAX, INT_MIN

_MINUTE = 60 * 10**9
_NUMBER = re.compile(r"[+-]?[0-9]+")
_PLAIN = re.compile(r"[A-Za-z0-9_+\-]+(?:/[A-Za-z0-9_+\-]+)*")
_LONGEST = 64
"""No zone has a longer name."""
_LOOK_UP, _READ = 400, 60
"""Steps of the meter for a name that is not known yet, and for opening one file."""


def zone(name: str) -> tzinfo | int:
    """The zone of a name, or of an offset the seconds east of UTC, however many. Raises EvaluationError."""
    if ":" in name:
        return _offset(name)
    if name in ("", "UTC", "Local"):
        return UTC
    if ".." in name or name[0] in "/\\":
        raise EvaluationError("time: invalid location name")
    if "\0" in name:
        raise EvaluationError("invalid argument")
    found = _named(name) if len(name) <= _LONGEST else _read(name)
    if isinstance(found, str):
        raise EvaluationError(found)
    return found


def _offset(name: str) -> int:
    """Hours and minutes, which upstream reads as any two numbers and counts in 64 bits."""
    hours, _, minutes = name.partition(":")
    one, two = _number(hours), _number(minutes)
    nanos = _wrapped(_wrapped(one * 60 - two if name[0] == "-" else one * 60 + two) * _MINUTE)
    seconds, rest = divmod(abs(nanos), 10**9)
    east = int(seconds + rest / 1e9)
    return -east if nanos < 0 else east


def _number(text: str) -> int:
    if _NUMBER.fullmatch(text) is None:
        raise EvaluationError(f"strconv.Atoi: parsing {quoted(text)}: invalid syntax")
    digits = text.lstrip("+-").lstrip("0")
    number = int(digits[:20] or "0") * (-1 if text[0] == "-" else 1)
    if not INT_MIN <= number <= INT_MAX:
        raise EvaluationError(f"strconv.Atoi: parsing {quoted(text)}: value out of range")
    return number


def _wrapped(number: int) -> int:
    """As int64 has it."""
    return (number - INT_MIN) % (1 << 64) + INT_MIN


@lru_cache(maxsize=256)
def _named(name: str) -> tzinfo | str:
    """The zone, or why there is none."""
    METER.spend(_LOOK_UP)
    if _PLAIN.fullmatch(name):
        try:
            return zoneinfo.ZoneInfo(name)
        except (ValueError, OSError, KeyError):
            pass
    return _read(name)


def _read(name: str) -> tzinfo | str:
    """Return what comes of opening a file of that name, as Go does: it may be a directory, or no zone's."""
    METER.spend(_READ)
    why = ""
    for root in zoneinfo.TZPATH:
        try:
            with open(f"{root}/{name}", "rb") as file:  # noqa: PTH123 (Path reads "UTC/" as "UTC")
                return zoneinfo.ZoneInfo.from_file(file)
        except OSError as error:
            if error.errno != ENOENT:
                why = why or os.strerror(error.errno or 0).lower()
        except ValueError:
            why = why or "malformed time zone information"
    return why or f"unknown time zone {name}"
