"""Durations as Go writes them (`time.ParseDuration`): 15s, 1m30s, 500ms."""

import re

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_WHOLE = re.compile(rf"(?P<sign>[+-]?)(?P<parts>0|(?:{_PART.pattern})+)")


def seconds(text: str) -> float | None:
    """The duration in seconds, None when the text is not one."""
    match = _WHOLE.fullmatch(text)
    if match is None:
        return None
    total = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(match["parts"]))
    return -total if match["sign"] == "-" else total


def text(duration: float) -> str:
    """Seconds as Go prints a duration: 500ms, 1m30s, 2h0m0s."""
    if duration == 0:
        return "0s"
    if duration < 1:
        return f"{_number(duration * 1000)}ms"
    minutes, rest = divmod(duration, 60)
    hours, minutes = divmod(int(minutes), 60)
    found = f"{_number(rest)}s"
    if hours or minutes:
        found = f"{minutes}m{found}"
    return f"{hours}h{found}" if hours else found


def _number(value: float) -> str:
    return f"{value:.9f}".rstrip("0").rstrip(".")
