"""Functions that take timestamps and durations apart."""

from collections.abc import Callable
from functools import partial

from podberth.cel import times
from podberth.cel.values import Value

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
    OVERLOADS[f"timestamp_to_{_name}"] = partial(times.part, function=_function)
    OVERLOADS[f"timestamp_to_{_name}_with_tz"] = OVERLOADS[f"timestamp_to_{_name}"]
    OVERLOADS[f"duration_to_{_name}"] = partial(times.span_part, function=_function)
OVERLOADS["timestamp_to_seconds_tz"] = OVERLOADS["timestamp_to_seconds_with_tz"]
