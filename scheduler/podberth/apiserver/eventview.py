"""Events are stored once and served by two groups; this translates between the core and events.k8s.io forms.

Upstream: pkg/apis/events/v1/conversion.go.
"""

from __future__ import annotations

import msgspec

from podberth.apiserver.status import JsonObject

# events.k8s.io name → core name; what is absent here has one name in both.
_TO_CORE = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_FROM_CORE = {core: name for name, core in _TO_CORE.items()}


def to_core(event: JsonObject) -> JsonObject:
    """An events.k8s.io event in its stored form."""
    return {_TO_CORE.get(name, name): value for name, value in event.items()}


def from_core(event: JsonObject) -> JsonObject:
    """A stored event as events.k8s.io shows it."""
    return {
        _FROM_CORE.get(name, name): value
        for name, value in event.items()
        if value or name not in {"reportingComponent", "reportingInstance"}
    }


def rest_for_view(event: JsonObject) -> bytes:
    """The bytes of an events.k8s.io event after kind and apiVersion."""
    return msgspec.json.encode(from_core(event))[1:]


def set_defaults(event: JsonObject) -> None:
    """Fields that the core form always shows, also when empty."""
    event.setdefault("involvedObject", {})
    event.setdefault("source", {})
    event.setdefault("firstTimestamp", None)
    event.setdefault("lastTimestamp", None)
    event.setdefault("eventTime", None)
    event.setdefault("reportingComponent", "")
    event.setdefault("reportingInstance", "")
