"""Generated claims for devices: what they ask for, and what they have been given."""

from __future__ import annotations

import uuid
from typing import Any

from tests.differential.generate.devices import (
    API,
    CONDITIONS,
    FAILURES,
    GPU,
    MATCHED,
    NIC,
    Pools,
    config,
    metadata,
    selectors,
    toleration,
)
from tests.differential.generate.dice import Dice, Object, node_term

CLASSES = ("gpu", "gpu", "gpu", "gpu", "gpu", "any", "any", "nic", "large")
AMOUNTS = ("1Gi", "1Gi", "2Gi", "4Gi", "5Gi", "500Mi", "0", "10Gi", "1500m", "2", "3")

RATES = ("1", "2", "750m", "1100m", "100u", "9223372036854775807", "9223372036854775808", "1e19", "9E", "0")


def asks(dice: Dice, *, sharing: bool = False, of: str = "") -> Object:
    """What a request, or an alternative of it, asks for."""
    made: Object = {"deviceClassName": of or dice.one(*CLASSES)}
    if dice.maybe(0.12):
        made["allocationMode"] = "All"
    else:
        made |= {"allocationMode": "ExactCount", "count": dice.one(1, 1, 1, 1, 2, 2, 3)}
        if dice.rarely(0.03):
            made["count"] = 33
    if chosen := selectors(dice):
        made["selectors"] = chosen
    if dice.maybe(0.25):
        made["tolerations"] = [toleration(dice) for _ in range(dice.one(1, 1, 2))]
    if sharing and dice.maybe(0.7):
        names = dice.some(("memory", "memory", "lanes", "missing" if dice.rarely(0.1) else "lanes"), 1, 2)
        made["capacity"] = {"requests": {name: dice.one(*AMOUNTS) for name in names}}
        if dice.maybe(0.1):
            made["capacity"]["requests"]["net.test/rate"] = dice.one(*RATES)
    return made


def request(dice: Dice, name: str, *, alternatives: float = 0.25, sharing: bool = False) -> Object:
    """One request, or one with several alternatives."""
    if dice.maybe(alternatives):
        several = [{"name": f"s{i}", **asks(dice, sharing=sharing)} for i in range(dice.one(1, 2, 2, 3))]
        return {"name": name, "firstAvailable": several}
    exactly = asks(dice, sharing=sharing)
    if dice.maybe(0.06):
        exactly["adminAccess"] = True
    return {"name": name, "exactly": exactly}


def of_limits(dice: Dice, *, large: bool) -> Object:
    """Requests for nearly as many devices as a claim may have, or for more; if not `large`, for few.

    Where 40 devices are free, none of them fails for want of devices after others have taken many: kube-scheduler
    would try all combinations of those.
    """
    counts = (1, 1, 1, 2, 2, 15, 16, 17, 30, 31, 32, 33) if large else (1, 1, 2, 3)

    def one(number: int) -> Object:
        if large and number == 0 and dice.maybe(0.25):
            return {"deviceClassName": "gpu", "allocationMode": "All"}
        return {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": dice.one(*counts)}

    requests: list[Object] = []
    for number in range(dice.one(1, 2, 2)):
        alternatives = [{"name": f"s{i}", **one(number)} for i in range(dice.one(2, 2, 3))]
        how = {"firstAvailable": alternatives} if dice.maybe(0.85) else {"exactly": one(number)}
        requests.append({"name": f"r{number}", **how})
    return {"devices": {"requests": requests}}


def constraint(dice: Dice, requests: list[Object]) -> Object:
    """Devices of some requests or alternatives, or of all, that match or differ."""
    names = [one["name"] for one in requests]
    names += [f"{one['name']}/{sub['name']}" for one in requests for sub in one.get("firstAvailable", ())]
    made: Object = {dice.one("matchAttribute", "distinctAttribute"): dice.one(*MATCHED)}
    if dice.maybe(0.4):
        made["requests"] = dice.some(names, 1)
    return made


def spec(
    dice: Dice, *, most: int = 3, constraints: float = 0.3, alternatives: float = 0.25, sharing: bool = False
) -> Object:
    """What a claim asks for."""
    count = min(most, dice.one(1, 1, 1, 2, 2, 3))
    requests = [request(dice, f"r{i}", alternatives=alternatives, sharing=sharing) for i in range(count)]
    found: Object = {"requests": requests}
    if dice.maybe(constraints):
        found["constraints"] = [constraint(dice, requests) for _ in range(dice.one(1, 1, 2))]
    if dice.maybe(0.2):
        found["config"] = [config(dice, dice.one(GPU, NIC), "claim")]
        if dice.maybe(0.5):
            found["config"][0]["requests"] = [dice.one(*requests)["name"]]
    return {"devices": found}


def claim(dice: Dice, name: str, namespace: str, **how: Any) -> Object:
    """A claim that has nothing yet."""
    made = {"apiVersion": API, "kind": "ResourceClaim", "metadata": metadata(name, "claim", namespace)}
    return made | {"spec": spec(dice, **how)}


def give(dice: Dice, claim: Object, pools: Pools, reserved: list[Object], *, shares: bool = False) -> None:
    """Write something into the status that the claim's first request might have been given."""
    asked = claim["spec"]["devices"]["requests"][0]
    name = asked["name"] + (f"/{dice.one(*asked['firstAvailable'])['name']}" if "firstAvailable" in asked else "")
    results, places = [], set()
    for driver, pool, device, node in dice.some(pools.offered, 1, 2):
        result: Object = {"request": name, "driver": driver, "pool": pool, "device": device["name"]}
        if dice.maybe(0.05):
            result["adminAccess"] = True
        if device.get("allowMultipleAllocations") or (shares and dice.maybe(0.05)):
            result["shareID"] = str(uuid.UUID(int=dice.getrandbits(128), version=4))
            result["consumedCapacity"] = {key: dice.one("1Gi", "4Gi", "10Gi") for key in device.get("capacity", {})}
        for key in ("bindingConditions", "bindingFailureConditions"):
            if key in device:
                result[key] = device[key]
        places.add(node)
        results.append(result)
    allocation: Object = {"devices": {"results": results}}
    local = sorted(place for place in places if place)
    if local:
        only = {"key": "metadata.name", "operator": "In", "values": local[:1]}
        allocation["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": [only]}]}
    elif dice.maybe(0.5):
        allocation["nodeSelector"] = {
            "nodeSelectorTerms": [node_term(dice, pools.nodes) for _ in range(dice.one(1, 1, 2))]
        }
    if any("bindingConditions" in one for one in results):
        # All of those that are late were so long ago, and all others have centuries.
        allocation["allocationTimestamp"] = dice.one("2020-01-01T00:00:00Z", "2926-01-01T00:00:00Z")
    claim["status"] = {"allocation": allocation, "reservedFor": reserved}
    told = {
        (one["driver"], one["pool"], one["device"]): _told(dice, one)
        for one in results
        if "bindingConditions" in one and dice.maybe(0.7)
    }
    if told:
        claim["status"]["devices"] = list(told.values())


def _told(dice: Dice, result: Object) -> Object:
    """What a driver says of a device that it gets ready."""
    conditions = [
        {"type": kind, "status": dice.one("True", "True", "False"), "reason": "Said", "message": "so it is"}
        | {"lastTransitionTime": "2026-01-01T00:00:00Z"}
        for kind in (*CONDITIONS, *(FAILURES if dice.maybe(0.4) else ()))
        if dice.maybe(0.8)
    ]
    keys = ("driver", "pool", "device", "shareID")
    return {key: result[key] for key in keys if key in result} | {"conditions": conditions}


def consumer(name: str, uid: str = "") -> Object:
    """A pod for which a claim is reserved."""
    return {"resource": "pods", "name": name, "uid": uid or f"uid-{name}"}
