"""Allocations: what is remembered and written of what the allocator chose (upstream: Allocate, createNodeSelector).

And which nodes can use what claims were given before, and what that counts in scores.
"""

import hashlib
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np

from podberth.cache.cluster import Cluster
from podberth.cache.column import Bools
from podberth.model import wire
from podberth.model.devices import MOST_ALTERNATIVES, AllocatedDevice, Allocation, ResourceClaim
from podberth.model.selectors import parse_node_selector
from podberth.plugins.dynamic_resources.claims import late_at, readiness
from podberth.plugins.dynamic_resources.requested import AllocationError, Alternative, RequestedClaim
from podberth.plugins.dynamic_resources.search import Chosen
from podberth.plugins.node_affinity import matches

EXTENDED_SUFFIX = "-extended-resources-"
_SKIPPING = "DRAOptionalNodeOperations"
"""The feature that a node declares whose kubelet may skip a driver."""


def allocated(chosen: Sequence[Chosen], seed: str) -> Iterator[AllocatedDevice]:
    """The devices of one claim. `seed`: what tells this allocation from all others, for the ids of shares."""
    for i, one in enumerate(chosen):
        device = one.entry.device
        yield AllocatedDevice(
            request=one.alternative.name,
            id=one.entry.id,
            admin_access=one.alternative.asked.admin_access,
            share=_share_id(seed, i) if one.is_shared else None,
            consumed=one.consumed or None,
            binding_conditions=device.binding_conditions,
            binding_failure_conditions=device.binding_failure_conditions,
        )


def _share_id(seed: str, number: int) -> str:
    digest = hashlib.blake2b(f"{seed}/{number}".encode(), digest_size=16).digest()
    return str(uuid.UUID(bytes=digest, version=4))


def selector_of(claim: str, chosen: Sequence[Chosen], node: str) -> dict[str, Any] | None:
    """The nodes that reach all of the devices, as it is written; None: all nodes do.

    Raises AllocationError.
    """
    fields: list[dict[str, Any]] = []
    labels: list[dict[str, Any]] = []
    for one in chosen:
        access = one.entry.device.access if one.entry.slice.per_device_nodes else one.entry.slice.access
        if access.node_name or one.entry.device.binds_to_node:
            only = {"key": "metadata.name", "operator": "In", "values": [node]}
            return {"nodeSelectorTerms": [{"matchFields": [only]}]}
        terms = (access.raw_selector or {}).get("nodeSelectorTerms") or []
        if len(terms) > 1:
            text = f"unsupported ResourceSlice.NodeSelector with {len(terms)} terms"
            raise AllocationError(f"create NodeSelector for claim {claim}: {text}")
        for term in terms:
            _add(fields, term.get("matchFields") or ())
            _add(labels, term.get("matchExpressions") or ())
    term = {key: those for key, those in (("matchExpressions", labels), ("matchFields", fields)) if those}
    return {"nodeSelectorTerms": [term]} if term else None


def _add(to: list[dict[str, Any]], requirements: Sequence[dict[str, Any]]) -> None:
    for one in requirements:
        same = (one["key"], one["operator"], set(one.get("values") or ()))
        if all((each["key"], each["operator"], set(each.get("values") or ())) != same for each in to):
            to.append({key: value for key, value in one.items() if value is not None})


def allocation_of(
    claim: str, wanted: RequestedClaim, chosen: Sequence[Chosen], node: str, seed: str
) -> tuple[Allocation, dict[str, Any]]:
    """Return what the claim of this name is to hold, and that as it is written to its status. Raises AllocationError.

    `seed`: as for `allocated`.
    """
    raw = selector_of(claim, chosen, node)
    selector = None
    if raw is not None:
        selector = parse_node_selector(msgspec.convert(raw, wire.NodeSelector), "status.allocation.nodeSelector")
    devices = tuple(allocated(chosen, seed))
    document: dict[str, Any] = {"devices": _devices(wanted, chosen, devices)}
    if raw is not None:
        document["nodeSelector"] = raw
    return Allocation(devices, selector), document


def _devices(wanted: RequestedClaim, chosen: Sequence[Chosen], devices: Sequence[AllocatedDevice]) -> dict[str, Any]:
    results = []
    for one, device in zip(chosen, devices, strict=True):
        driver, pool, name = device.id
        result: dict[str, Any] = {"request": device.request, "driver": driver, "pool": pool, "device": name}
        if device.admin_access:
            result["adminAccess"] = True
        if one.alternative.asked.raw_tolerations:
            result["tolerations"] = [msgspec.json.decode(raw) for raw in one.alternative.asked.raw_tolerations]
        if device.binding_conditions:
            result["bindingConditions"] = list(device.binding_conditions)
        if device.binding_failure_conditions:
            result["bindingFailureConditions"] = list(device.binding_failure_conditions)
        if device.share is not None:
            result["shareID"] = device.share
        if device.consumed:
            result["consumedCapacity"] = {key: str(amount) for key, amount in device.consumed.items()}
        results.append(result)
    config = _config(wanted, chosen)
    return {"results": results, "config": config} if config else {"results": results}


def _config(wanted: RequestedClaim, chosen: Sequence[Chosen]) -> list[dict[str, Any]]:
    """Return what drivers are told: the configurations of the classes, then those of the claim."""
    used = {one.alternative.base: one.alternative for one in chosen}
    picked = [used[alternatives[0].base] for alternatives in wanted.requests if alternatives[0].base in used]
    found: list[dict[str, Any]] = []
    of_class: dict[str, list[Alternative]] = {}
    for one in picked:
        of_class.setdefault(one.of.name, []).append(one)
    for those in of_class.values():
        requests, configs = [one.name for one in those], those[0].of.config
        found += [{"source": "FromClass", "requests": list(requests), **msgspec.json.decode(raw)} for raw in configs]
    for raw in wanted.spec.config:
        config = msgspec.json.decode(raw)
        about = config.pop("requests", None) or []
        if not about or any(one.base in about or one.name in about for one in picked):
            found.append({"source": "FromClaim", "requests": about, **config})
    names = [(one.base, one.name) for one in picked]
    for config in found:
        about = set(config["requests"])
        if not about or all(base in about or name in about for base, name in names):
            del config["requests"]  # it is about all of them, which goes without saying
    return found


def unusable_rows(claim: ResourceClaim, cluster: Cluster, seconds: float) -> Bools | None:
    """bool[rows] of the nodes that can't use what the claim was given; None: all can.

    `seconds`: so long devices may take to get ready.
    """
    if claim.allocation is None:
        return None
    nodes, selector = cluster.nodes, claim.allocation.selector
    where = np.zeros(nodes.rows, dtype=np.bool_) if selector is None else ~matches(selector, nodes)
    state = readiness(claim)
    late = None if state.ready else late_at(claim, seconds)
    if state.failed or (late is not None and late < cluster.devices.wall):
        where[:] = True
    elif any(device.skips_node for device in claim.allocation.devices):
        ready = [node is not None and _SKIPPING in node.features for node in nodes.objects[: nodes.rows]]
        where |= ~np.array(ready, dtype=np.bool_)
    return where if where.any() else None


def score_of_allocated(claims: Iterable[ResourceClaim]) -> int:
    """Return what the alternatives of `firstAvailable` that were allocated count: earlier ones count more
    (computeScore).
    """
    score = 0
    for claim in claims:
        if claim.allocation is None:
            continue
        chosen = {device.request for device in claim.allocation.devices}
        for request in claim.spec.requests:
            for i, one in enumerate(request.first_available):
                if f"{request.name}/{one.name}" in chosen:
                    score += MOST_ALTERNATIVES - i
    return score
