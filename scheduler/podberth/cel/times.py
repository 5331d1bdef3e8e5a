"""Durations and timestamps: parsed and written as Go's time package does, and taken apart by time zone."""

import re
from datetime import UTC, date, datetime, timedelta

from podberth.cel import zones
from podberth.cel.errors import EvaluationError
from podberth.cel.values import INT_MAX, INT_MIN, Duration, Timestamp

SECOND = 10**9
_UNITS = {"ns": 1, "us": 1000, "µs": 1000, "μs": 1000, "ms": 10**6, "s": SECOND, "m": 60 * SECOND, "h": 3600 * SECOND}
_PART = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|µs|μs|ms|s|m|h)")
_RFC3339 = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{1,2}):([0-9]{2}):([0-9]{2})(?:[.,]([0-9]+))?"
    r"(?:(Z)|([+-])([0-9]{2}):([0-9]{2}))"
)
_FIRST, _LAST = -62135596800, 253402300799
_DAYS = 146_097
"""Of 400 years, after which the calendar repeats itself, days of the week included."""


def parse_duration(text: str) -> Duration | None:
    """`1h30m`, or None where it is no duration."""
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
    """Nanoseconds: digits after the point, of a unit. As in Go a float, of the digits that fit in 63 bits."""
    number, scale = 0, 1.0
    for digit in fraction:
        more = number * 10 + int(digit)
        if number > INT_MAX // 10 or more > INT_MAX + 1:
            break
        number, scale = more, scale * 10
    return int(float(number) * (unit / scale))


def parse_timestamp(text: str) -> Timestamp | None:
    """RFC 3339, or None where it is not; raises EvaluationError when the time is out of range."""
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
    """A timestamp within years 1 to 9999; raises EvaluationError beyond."""
    if not _FIRST <= seconds <= _LAST:
        raise EvaluationError("timestamp overflow")
    return Timestamp(seconds * SECOND + nanos, offset)


def shifted(start: Timestamp, nanos: int) -> Timestamp:
    """The timestamp so much later."""
    seconds, rest = divmod(start.nanos + nanos, SECOND)
    return from_unix(seconds, rest, start.offset)


def rfc3339(when: Timestamp) -> str:
    """The text with as many digits as it needs, in the offset in which the timestamp was written."""
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
    """Date and time of day, and by how many years they were moved to be between the years 1 and 9999 of `datetime`."""
    cycles = 0 if _FIRST <= seconds <= _LAST else 1 if seconds < _FIRST else -1
    return datetime(1970, 1, 1) + timedelta(days=cycles * _DAYS, seconds=seconds), 400 * cycles


def _local(seconds: int, zone_name: str) -> tuple[datetime, int]:
    """Return what clocks in the zone show, and by how many years it was moved. Raises EvaluationError."""
    there = zones.zone(zone_name)
    if isinstance(there, int):
        return _on_the_calendar(seconds + there)
    utc = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    try:
        return utc.astimezone(there), 0
    except OverflowError:  # it is year 0 or 10000 there
        years = 400 if seconds < 0 else -400
        return utc.replace(year=utc.year + years).astimezone(there), years


def part(when: Timestamp, zone_name: str = "UTC", *, function: str) -> int:
    """Return what `getFullYear` and its like give in a time zone. Raises EvaluationError."""
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
    """Return what `getHours` and its like give for a duration; fractions are cut."""
    if function == "getMilliseconds":
        return _cut(span.nanos, 10**6)
    return _cut(span.nanos, {"getHours": 3600, "getMinutes": 60}.get(function, 1) * SECOND)


def _cut(value: int, size: int) -> int:
    return -(-value // size) if value < 0 else value // size
