"""API objects about devices: slices, classes, claims, taint rules, and pods that claim."""

from collections.abc import Mapping, Sequence
from typing import Any

Object = dict[str, Any]


def attribute(value: str | int | bool) -> Object:
    """Of the kind of the value; texts that begin with v and a digit are versions."""
    if isinstance(value, bool):
        return {"bool": value}
    if isinstance(value, int):
        return {"int": value}
    return {"version": value[1:]} if value[:1] == "v" and value[1:2].isdigit() else {"string": value}


def device(name: str, capacity: Mapping[str, str] | None = None, /, **attributes: Any) -> Object:
    """A device; attributes whose names begin with _ are fields of the device itself."""
    found: Object = {"name": name, **{key[1:]: value for key, value in attributes.items() if key.startswith("_")}}
    plain = {key: attribute(value) for key, value in attributes.items() if not key.startswith("_")}
    if plain:
        found["attributes"] = plain
    if capacity:
        found["capacity"] = {key: {"value": value} for key, value in capacity.items()}
    return found


def resource_slice(
    name: str, *devices: Object, node: str = "", driver: str = "gpu.test", pool: str = "", **spec: Any
) -> Object:
    """A slice of a node's pool, or of one that `spec` says who reaches."""
    found = {"driver": driver, "pool": _pool(pool or node or name, spec), "devices": list(devices), **spec}
    if node:
        found["nodeName"] = node
    return {"kind": "ResourceSlice", "metadata": {"name": name, "uid": f"slice/{name}"}, "spec": found}


def _pool(name: str, spec: Object) -> Object:
    return {
        "name": name,
        "generation": spec.pop("generation", 1),
        "resourceSliceCount": spec.pop("count", 1),
    }


def device_class(name: str = "gpu", *selectors: str, **spec: Any) -> Object:
    """A class of devices that meet CEL expressions."""
    found = {"selectors": [cel(one) for one in selectors], **spec}
    return {"kind": "DeviceClass", "metadata": {"name": name, "uid": f"class/{name}"}, "spec": found}


def cel(expression: str) -> Object:
    return {"cel": {"expression": expression}}


def request(name: str = "r", of: str = "gpu", *selectors: str, count: int = 1, **fields: Any) -> Object:
    """A request for exactly so many devices of a class."""
    return {"name": name, "exactly": asks(of, *selectors, count=count, **fields)}


def asks(of: str = "gpu", *selectors: str, count: int = 1, **fields: Any) -> Object:
    found: Object = {"deviceClassName": of, "allocationMode": "ExactCount", "count": count, **fields}
    if found["allocationMode"] == "All":
        del found["count"]
    if selectors:
        found["selectors"] = [cel(one) for one in selectors]
    return found


def first_of(name: str, **alternatives: Object) -> Object:
    """A request for the first of several that is available."""
    return {"name": name, "firstAvailable": [{"name": key, **one} for key, one in alternatives.items()]}


def claim(
    name: str = "c", *requests: Object, status: Object | None = None, meta: Object | None = None, **devices: Any
) -> Object:
    """A claim for one device of class gpu, unless requests say otherwise."""
    spec = {"devices": {"requests": list(requests) or [request()], **devices}}
    metadata = {"name": name, "namespace": "default", "uid": f"claim/{name}", **(meta or {})}
    return {"kind": "ResourceClaim", "metadata": metadata, "spec": spec, "status": status or {}}


def claim_template(name: str = "t", *requests: Object, **devices: Any) -> Object:
    """A template of claims for one device of class gpu, unless requests say otherwise."""
    spec = {"devices": {"requests": list(requests) or [request()], **devices}}
    return {
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"metadata": {"labels": {"made": "yes"}}, "spec": spec},
    }


def templated(pod: Object, *templates: str) -> Object:
    """The pod with a claim from each of these templates."""
    pod["spec"]["resourceClaims"] = [{"name": name, "resourceClaimTemplateName": name} for name in templates]
    return pod


def result(name: str, pool: str, *, request: str = "r", driver: str = "gpu.test", **fields: Any) -> Object:
    return {"request": request, "driver": driver, "pool": pool, "device": name, **fields}


def allocated(*results: Object, node: str = "", reserved: Sequence[str] = ()) -> Object:
    """The status of a claim that holds devices, on one node or everywhere, for pods of these UIDs."""
    allocation: Object = {"devices": {"results": list(results)}}
    if node:
        only = {"key": "metadata.name", "operator": "In", "values": [node]}
        allocation["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": [only]}]}
    return {
        "allocation": allocation,
        "reservedFor": [{"resource": "pods", "name": uid, "uid": uid} for uid in reserved],
    }


def taint_rule(name: str, taint: Object, **selector: str) -> Object:
    spec: Object = {"taint": taint}
    if selector:
        spec["deviceSelector"] = selector
    return {"kind": "DeviceTaintRule", "metadata": {"name": name, "uid": f"rule/{name}"}, "spec": spec}


def claiming(pod: Object, *claims: str) -> Object:
    """The pod with claims by name."""
    pod["spec"]["resourceClaims"] = [{"name": name, "resourceClaimName": name} for name in claims]
    return pod
