"""Durations and timestamps: parsed and written as Go's time package does, and taken apart by time zone.

Time zones are read by name, and as offsets such as `-07:30`, as cel-go and Go's time package read them.
"""

import os
import re
import zoneinfo
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, tzinfo
from errno import ENOENT
from functools import lru_cache, partial

from podberth.cel.errors import METER, EvaluationError, quoted
from podberth.cel.values import INT_MAX, INT_MIN, Duration, Timestamp, Value

_MINUTE = 60 * 10**9
_NUMBER = re.compile(r"[+-]?[0-9]+")
_PLAIN = re.compile(r"[A-Za-z0-9_+\-]+(?:/[A-Za-z0-9_+\-]+)*")
_LONGEST = 64
"""The largest length of a zone's name."""
_LOOK_UP, _READ = 400, 60
"""Steps of the meter for a name that is not known yet, and for opening one file."""


def zone(name: str) -> tzinfo | int:
    """Return the zone of a name, or the seconds east of UTC of an offset. Raises EvaluationError."""
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
    """Return the seconds of hours and minutes, which upstream reads as any two numbers and counts in 64 bits."""
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
    """Return the number wrapped to int64."""
    return (number - INT_MIN) % (1 << 64) + INT_MIN


@lru_cache(maxsize=256)
def _named(name: str) -> tzinfo | str:
    """Return the zone, or the reason for which there is none."""
    METER.spend(_LOOK_UP)
    if _PLAIN.fullmatch(name):
        try:
            return zoneinfo.ZoneInfo(name)
        except (ValueError, OSError, KeyError):
            pass
    return _read(name)


def _read(name: str) -> tzinfo | str:
    """Return the result of opening a file of that name, as Go does: it may be a directory, or no zone's file."""
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


SECOND = 10**9
_UNITS = {"ns": 1, "us": 1000, "µs": 1000, "μs": 1000, "ms": 10**6, "s": SECOND, "m": 60 * SECOND, "h": 3600 * SECOND}
_PART = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|µs|μs|ms|s|m|h)")
_RFC3339 = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{1,2}):([0-9]{2}):([0-9]{2})(?:[.,]([0-9]+))?"
    r"(?:(Z)|([+-])([0-9]{2}):([0-9]{2}))"
)
_FIRST, _LAST = -62135596800, 253402300799
_DAYS = 146_097
"""The days of 400 years, after which the calendar repeats itself, days of the week included."""


def parse_duration(text: str) -> Duration | None:
    """Return the duration in a text such as `1h30m`; None: it is none."""
    sign, rest = 1, text
    if rest[:1] in ("+", "-"):
        sign, rest = (-1 if rest[0] == "-" else 1), rest[1:]
    if rest == "0":
        return Duration(0)
    if not rest or len(rest) > 256:
        return None
    nanos = at = 0
    while at < len(rest):
        found = _PART.match(rest, at)
        if found is None:
            return None
        whole, fraction, unit = found.groups()
        if not whole and not fraction:
            return None
        scale = _UNITS[unit]
        nanos += int(whole or "0") * scale
        if fraction:
            nanos += _part_of(fraction, scale)
        at = found.end()
    nanos *= sign
    return Duration(nanos) if INT_MIN <= nanos <= INT_MAX else None


def _part_of(fraction: str, unit: int) -> int:
    """Return nanoseconds from digits after the point of a unit: as in Go a float, of the digits that fit in 63 bits."""
    number, scale = 0, 1.0
    for digit in fraction:
        more = number * 10 + int(digit)
        if number > INT_MAX // 10 or more > INT_MAX + 1:
            break
        number, scale = more, scale * 10
    return int(float(number) * (unit / scale))


def parse_timestamp(text: str) -> Timestamp | None:
    """Return the timestamp in RFC 3339; None: it is none. Raises EvaluationError when it is out of range."""
    found = _RFC3339.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second, fraction, zulu, sign, hours, minutes = found.groups()
    try:
        later = 0 if int(year) else 400  # `date` knows no year 0, which the offset may make a moment of year 1
        days = date(int(year) + later, int(month), int(day)).toordinal() - 719163 - later // 400 * _DAYS
    except ValueError:
        return None
    if int(hour) > 23 or int(minute) > 59 or int(second) > 59:
        return None
    offset = 0
    if not zulu:
        if int(hours) > 24 or int(minutes) > 60:
            return None
        offset = (int(hours) * 60 + int(minutes)) * 60 * (-1 if sign == "-" else 1)
    seconds = days * 86400 + int(hour) * 3600 + int(minute) * 60 + int(second) - offset
    return from_unix(seconds, int(f"{(fraction or '')[:9]:0<9}"), offset)


def from_unix(seconds: int, nanos: int = 0, offset: int = 0) -> Timestamp:
    """Return a timestamp within years 1 to 9999; raises EvaluationError beyond."""
    if not _FIRST <= seconds <= _LAST:
        raise EvaluationError("timestamp overflow")
    return Timestamp(seconds * SECOND + nanos, offset)


def shifted(start: Timestamp, nanos: int) -> Timestamp:
    """Return the timestamp moved by a duration."""
    seconds, rest = divmod(start.nanos + nanos, SECOND)
    return from_unix(seconds, rest, start.offset)


def rfc3339(when: Timestamp) -> str:
    """Return the text with as many digits as it needs, in the offset in which the timestamp was written."""
    local = when.nanos + when.offset * SECOND
    seconds, nanos = divmod(local, SECOND)
    moment, years = _on_the_calendar(seconds)
    fraction = f".{nanos:09d}".rstrip("0") if nanos else ""
    if when.offset:
        minutes = abs(when.offset) // 60
        zone = f"{'-' if when.offset < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"
    else:
        zone = "Z"
    return f"{moment.year - years:04d}{moment.strftime('-%m-%dT%H:%M:%S')}{fraction}{zone}"


def _on_the_calendar(seconds: int) -> tuple[datetime, int]:
    """Return date and time of day, and the number of years by which they were moved into the range of `datetime`."""
    cycles = 0 if _FIRST <= seconds <= _LAST else 1 if seconds < _FIRST else -1
    return datetime(1970, 1, 1) + timedelta(days=cycles * _DAYS, seconds=seconds), 400 * cycles


def _local(seconds: int, zone_name: str) -> tuple[datetime, int]:
    """Return the local time in the zone, and the number of years by which it was moved. Raises EvaluationError."""
    there = zone(zone_name)
    if isinstance(there, int):
        return _on_the_calendar(seconds + there)
    utc = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    try:
        return utc.astimezone(there), 0
    except OverflowError:  # it is year 0 or 10000 there
        years = 400 if seconds < 0 else -400
        return utc.replace(year=utc.year + years).astimezone(there), years


def part(when: Timestamp, zone_name: str = "UTC", *, function: str) -> int:
    """Return the result of `getFullYear` and the like in a time zone. Raises EvaluationError."""
    seconds, nanos = divmod(when.nanos, SECOND)
    moment, years = _local(seconds, zone_name)
    if function == "getMilliseconds":
        return nanos // 10**6
    match function:
        case "getFullYear":
            return moment.year - years
        case "getMonth":
            return moment.month - 1
        case "getDayOfYear":
            return moment.timetuple().tm_yday - 1
        case "getDayOfMonth":
            return moment.day - 1
        case "getDate":
            return moment.day
        case "getDayOfWeek":
            return moment.isoweekday() % 7
        case "getHours":
            return moment.hour
        case "getMinutes":
            return moment.minute
        case _:
            return moment.second


def span_part(span: Duration, function: str) -> int:
    """Return the result of `getHours` and the like for a duration; fractions are cut."""
    if function == "getMilliseconds":
        return _cut(span.nanos, 10**6)
    return _cut(span.nanos, {"getHours": 3600, "getMinutes": 60}.get(function, 1) * SECOND)


def _cut(value: int, size: int) -> int:
    return -(-value // size) if value < 0 else value // size


_PARTS = {
    "getFullYear": "year",
    "getMonth": "month",
    "getDayOfYear": "day_of_year",
    "getDayOfMonth": "day_of_month",
    "getDate": "day_of_month_1_based",
    "getDayOfWeek": "day_of_week",
    "getHours": "hours",
    "getMinutes": "minutes",
    "getSeconds": "seconds",
    "getMilliseconds": "milliseconds",
}


OVERLOADS: dict[str, Callable[..., Value]] = {}
for _function, _name in _PARTS.items():
    OVERLOADS[f"timestamp_to_{_name}"] = partial(part, function=_function)
    OVERLOADS[f"timestamp_to_{_name}_with_tz"] = OVERLOADS[f"timestamp_to_{_name}"]
    OVERLOADS[f"duration_to_{_name}"] = partial(span_part, function=_function)
OVERLOADS["timestamp_to_seconds_tz"] = OVERLOADS["timestamp_to_seconds_with_tz"]
