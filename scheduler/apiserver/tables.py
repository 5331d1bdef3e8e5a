"""Tables: the columns that `kubectl get` prints, made by the server as a real one does.

Upstream: pkg/printers/internalversion/printers.go.
"""

from __future__ import annotations

import calendar
import time
from collections.abc import Callable
from typing import Any

from scheduler.apiserver.resources import Resource
from scheduler.apiserver.storage import Stored

JsonObject = dict[str, Any]
Cells = list[Any]


def _age(obj: JsonObject) -> str:
    created = obj["metadata"].get("creationTimestamp")
    if not created:
        return "<unknown>"
    return _duration(time.time() - calendar.timegm(time.strptime(created, "%Y-%m-%dT%H:%M:%SZ")))


def _duration(seconds: float) -> str:
    """A span as people read it (duration.HumanDuration), in its coarse form."""
    whole = max(0, int(seconds))
    if whole < 120:
        return f"{whole}s"
    minutes = whole // 60
    if minutes < 180:
        return f"{minutes}m"
    hours = minutes // 60
    return f"{hours}h" if hours < 48 else f"{hours // 24}d"


def _pod(obj: JsonObject) -> Cells:
    spec, status = obj["spec"], obj.get("status") or {}
    containers = len(spec.get("containers") or [])
    states = status.get("containerStatuses") or []
    ready = sum(1 for state in states if state.get("ready"))
    phase = "Terminating" if obj["metadata"].get("deletionTimestamp") else status.get("reason") or status.get("phase")
    for condition in status.get("conditions") or []:
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            phase = "SchedulingGated"
    restarts = sum(state.get("restartCount", 0) for state in states)
    return [
        f"{ready}/{containers}",
        phase or "",
        str(restarts),
        _age(obj),
        status.get("podIP") or "<none>",
        spec.get("nodeName") or "<none>",
        status.get("nominatedNodeName") or "<none>",
    ]


def _node(obj: JsonObject) -> Cells:
    status = obj.get("status") or {}
    ready = next((item for item in status.get("conditions") or [] if item.get("type") == "Ready"), None)
    text = "Unknown" if ready is None else ("Ready" if ready.get("status") == "True" else "NotReady")
    if (obj.get("spec") or {}).get("unschedulable"):
        text += ",SchedulingDisabled"
    labels = obj["metadata"].get("labels") or {}
    prefix = "node-role.kubernetes.io/"
    roles = ",".join(sorted(key.removeprefix(prefix) for key in labels if key.startswith(prefix)))
    return [text, roles or "<none>", _age(obj), (status.get("nodeInfo") or {}).get("kubeletVersion", "")]


def _event(obj: JsonObject) -> Cells:
    involved = obj.get("involvedObject") or {}
    about = f"{str(involved.get('kind', '')).lower()}/{involved.get('name', '')}"
    return [_age(obj), obj.get("type", ""), obj.get("reason", ""), about, str(obj.get("message", "")).strip()]


def _namespace(obj: JsonObject) -> Cells:
    return [(obj.get("status") or {}).get("phase", ""), _age(obj)]


_Columns = tuple[tuple[str, int], ...]
# Columns after NAME with their priority (1: only with -o wide), and how to fill them.
_TABLES: dict[str, tuple[_Columns, Callable[[JsonObject], Cells]]] = {
    "Pod": (
        (
            ("Ready", 0),
            ("Status", 0),
            ("Restarts", 0),
            ("Age", 0),
            ("IP", 1),
            ("Node", 1),
            ("Nominated Node", 1),
        ),
        _pod,
    ),
    "Node": ((("Status", 0), ("Roles", 0), ("Age", 0), ("Version", 0)), _node),
    "Namespace": ((("Status", 0), ("Age", 0)), _namespace),
}
_EVENT_COLUMNS: _Columns = (("Last Seen", 0), ("Type", 0), ("Reason", 0), ("Object", 0), ("Message", 0))


def _cells(resource: Resource, obj: JsonObject) -> Cells:
    name = obj["metadata"]["name"]
    if resource.kind == "Event":
        return _event(obj)
    if not resource.custom and resource.kind in _TABLES:
        return [name, *_TABLES[resource.kind][1](obj)]
    return [name, _age(obj)]


def _columns(resource: Resource) -> _Columns:
    if resource.kind == "Event":
        return _EVENT_COLUMNS
    if not resource.custom and resource.kind in _TABLES:
        return (("Name", 0), *_TABLES[resource.kind][0])
    return (("Name", 0), ("Age", 0))


def table_of(resource: Resource, objects: list[Stored], metadata: JsonObject) -> JsonObject:
    """Objects as a meta.k8s.io/v1 Table."""
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": [
            {
                "name": name,
                "type": "string",
                "format": "name" if name == "Name" else "",
                "description": "",
                "priority": priority,
            }
            for name, priority in _columns(resource)
        ],
        "rows": [
            {
                "cells": _cells(resource, stored.obj),
                "object": {
                    "kind": "PartialObjectMetadata",
                    "apiVersion": "meta.k8s.io/v1",
                    "metadata": stored.obj["metadata"],
                },
            }
            for stored in objects
        ],
    }
