"""Worlds made of other worlds: a fuller one, and one in which pods only come."""

import random

import msgspec
import numpy as np
from msgspec.structs import replace

from podberth.explain.simulate.outcome import Floats
from podberth.lab.world import Arrival, World
from podberth.model.annotated import NOTHING_READ
from podberth.model.node import Node
from podberth.model.pod_group import LABEL as POD_GROUP_LABEL

_LONGEST = 1e6
"""The largest factor by which lifetimes are stretched."""


def filled(world: World, share: float) -> World:
    """Return the world with each pod's time multiplied, until at some moment they ask for `share` of what there is.

    What there is: of the resource that is short first. A published trace may be a sample of the pods beside all of the
    nodes, and leave these all but empty. Nothing is shortened.
    """
    asks, there = _demand(world)
    asks, there = asks[:, there > 0], there[there > 0]
    at = np.array([each.at for each in world.arrivals])
    lasts = np.array([each.lasts for each in world.arrivals])

    def highest(factor: float) -> float:
        flow = np.concatenate((asks, -asks))[np.argsort(np.concatenate((at, at + factor * lasts)), kind="stable")]
        return float((flow.cumsum(axis=0).max(axis=0) / there).max())

    low, high = 1.0, 1.0
    if asks.size:
        while highest(high) < share and high < _LONGEST:
            low, high = high, 2 * high
        for _ in range(20):
            middle = (low + high) / 2
            low, high = (low, middle) if highest(middle) >= share else (middle, high)
    return replace(world, arrivals=tuple(replace(each, lasts=high * each.lasts) for each in world.arrivals))


def measure(world: World) -> str:
    """Return the resource by which a load is measured: GPUs if nodes have and pods ask for them, else CPU, else memory;
    empty where pods ask for nothing that nodes have.
    """
    asks, there = _demand(world)
    names = world.decoded(NOTHING_READ).mix.resources
    asked = [name for name, some in zip(names, asks.any(axis=0) & (there > 0), strict=True) if some]
    gpus = [name for name in asked if "gpu" in name]
    return next(iter((*gpus, *asked)), "")


def inflated(world: World, load: float, seed: int) -> World:
    """Return a world whose pods come one second apart and stay, until they have asked for `load` times all there is of
    `measure`.

    As Weng et al. inflate a trace: on the nodes that have the resource; each pod comes once, in a random order, then
    pods that are drawn with replacement. Nothing else happens, so pods of gangs come without their groups.
    """
    resource, found = measure(world), world.decoded(NOTHING_READ)
    asks, there = (each[..., found.mix.resources.index(resource)].tolist() for each in _demand(world))
    dice = random.Random(seed)
    order = list(range(len(asks)))
    dice.shuffle(order)
    asked = sum(asks)
    while asked + asks[drawn := dice.randrange(len(asks))] <= load * there:
        asked += asks[drawn]
        order.append(drawn)
    objects = tuple(
        raw
        for raw, thing in zip(world.objects, found.objects, strict=True)
        if not isinstance(thing, Node) or thing.allocatable.get(resource)
    )
    arrivals = (
        Arrival(float(number), _alone(world.arrivals[which].pod, number if number >= len(asks) else None))
        for number, which in enumerate(order)
    )
    return World(f"{world.name}, inflated", objects, tuple(arrivals))


def _alone(pod: bytes, number: int | None) -> bytes:
    """Return a pod that is in no group; one that was drawn again has its number in its name."""
    document = msgspec.json.decode(pod)
    grouped = document["spec"].pop("schedulingGroup", None)
    grouped = (document["metadata"].get("labels") or {}).pop(POD_GROUP_LABEL, grouped)
    if number is None and grouped is None:
        return pod
    if number is not None:
        name = f"{document['metadata']['name']}-{number}"
        document["metadata"] |= {"name": name, "uid": f"{document['metadata'].get('namespace')}/{name}"}
    return msgspec.json.encode(document)


def _demand(world: World) -> tuple[Floats, Floats]:
    """Return (what each arrival asks for, float[arrivals, resources]; what all nodes have)."""
    found = world.decoded(NOTHING_READ)
    names = found.mix.resources
    asks = [[pod.shape.requests.get(name, 0) for name in names] for pod in found.arrivals]
    nodes = [thing for thing in found.objects if isinstance(thing, Node)]
    there = [sum(node.allocatable.get(name, 0) for node in nodes) for name in names]
    return np.array(asks, dtype=np.float64).reshape(-1, len(names)), np.array(there, dtype=np.float64)
