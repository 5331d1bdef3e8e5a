"""Families of cases at the ends of what claims may say: eight alternatives, and amounts of any size and fineness."""

from __future__ import annotations

from fractions import Fraction

from tests.differential.generate import claims
from tests.differential.generate.configs import gated
from tests.differential.generate.devices import API, GPU, Pools, cel, metadata
from tests.differential.generate.dice import Dice, Object
from tests.differential.generate.scene import Scene

_NAMESPACE = "default"
_MOST_ALTERNATIVES = 8
_UNITS = {
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    "k": Fraction(1000),
    "Ki": Fraction(1024),
} | {
    "Gi": Fraction(1 << 30),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    "Ei": Fraction(1 << 60),
}
_LARGE = ("P", "E", "Ei")
_NO_RANGE = ("u",)
"""Ranges are in thousandths at least."""


def preferences(dice: Dice) -> Scene:
    """Each node has devices of its own drivers; claims name many classes, and nodes are scored by which they give."""
    scene = Scene(dice, 2, 8, room="ample", taints=0)
    many = len(scene.nodes)
    pools = Pools(dice, many)
    for number in range(many):
        spec = {"selectors": [cel(f'device.driver == "d{number}.test"')]}
        scene.objects.append(
            {"apiVersion": API, "kind": "DeviceClass", "metadata": metadata(f"c{number}", "class"), "spec": spec}
        )
        for driver in {number, dice.randint(0, many - 1)}:
            devices = [{"name": f"dev-{i}"} for i in range(dice.one(1, 2, 2, 4))]
            pools.add_local(f"d{driver}.test", f"node-{number}", devices)
    scene.objects += pools.slices
    made = []
    for number in range(dice.one(1, 1, 2, 3)):
        claim = claims.claim(dice, f"claim-{number}", _NAMESPACE)
        claim["spec"] = {"devices": {"requests": [_preferring(dice, f"r{i}", many) for i in range(dice.one(1, 1, 2))]}}
        if dice.maybe(0.15):
            claims.give(dice, claim, pools, [])
        made.append(claim)
    return _with_claims(scene, made)


def amounts(dice: Dice) -> Scene:
    """Capacities with policies, and requests, in any notation: from millionths to what 64 bits do not hold."""
    scene = Scene(dice, 1, 3, room="ample", taints=0)
    spec: Object = {"selectors": [cel(f'device.driver == "{GPU}"')]}
    scene.objects.append({"apiVersion": API, "kind": "DeviceClass", "metadata": metadata("gpu", "class"), "spec": spec})
    pools = Pools(dice, len(scene.nodes))
    units = dice.some([*_UNITS], 1, 2)
    if thousandths := dice.maybe(0.5):
        scene.config = gated("DRAFractionalCapacityRange", "DynamicResources")
    for number in range(len(scene.nodes)):
        devices = [_measured(dice, i, units, thousandths=thousandths) for i in range(dice.randint(1, 3))]
        pools.add_local(GPU, f"node-{number}", devices)
    scene.objects += pools.slices
    made = []
    for number in range(dice.one(1, 1, 2)):
        claim = claims.claim(dice, f"claim-{number}", _NAMESPACE)
        requests = [_measuring(dice, f"r{i}", units) for i in range(dice.one(1, 2, 3))]
        claim["spec"] = {"devices": {"requests": requests}}
        made.append(claim)
    return _with_claims(scene, made)


def _with_claims(scene: Scene, made: list[Object]) -> Scene:
    pod = scene.comes()
    pod["metadata"].update(namespace=_NAMESPACE, uid="uid-default-p")
    names = [one["metadata"]["name"] for one in made]
    pod["spec"]["resourceClaims"] = [{"name": f"c{i}", "resourceClaimName": name} for i, name in enumerate(names)]
    scene.objects += made
    return scene


def _preferring(dice: Dice, name: str, many: int) -> Object:
    order = dice.sample(range(many), dice.randint(1, min(many, _MOST_ALTERNATIVES)))
    alternatives = [
        {
            "name": f"s{i}",
            "deviceClassName": f"c{number}",
            "allocationMode": "ExactCount",
            "count": dice.one(1, 1, 1, 2),
        }
        for i, number in enumerate(order)
    ]
    return {"name": name, "firstAvailable": alternatives}


def _measured(dice: Dice, number: int, units: list[str], *, thousandths: bool) -> Object:
    """A device that may be shared, or may not, with a capacity in one of the units.

    Without `thousandths`, the API server takes two amounts for the same that are the same in whole numbers.
    """
    unit = dice.one(*units)
    least, step, most = dice.randint(0, 3), dice.randint(1, 3), dice.randint(1, 6)
    if unit in ("E", "Ei"):  # ranges have to be within 64 bits, and more than seven Ei are cut down to that
        least, step, most = least % 2, 1, most % 3 + 1
    value = least + step * most + (0 if unit == "Ei" else dice.randint(0, 4))
    made: Object = {"value": f"{value}{unit}"}
    if unit not in _NO_RANGE and dice.maybe(0.7):
        usual: int = least + step * dice.randint(0, most)
        span: Object = {"min": f"{least}{unit}"}
        if dice.maybe(0.7):
            span["step"] = f"{step}{unit}"
        if dice.maybe(0.6):
            span["max"] = f"{least + step * most}{unit}"
        made["requestPolicy"] = {"default": f"{usual}{unit}", "validRange": span}
    elif dice.maybe(0.5):
        most_values = 1 if _UNITS[unit] < 1 and not thousandths else 3
        valid = sorted(set(dice.sample(range(1, value + 1), min(value, most_values))))
        usual = dice.one(*valid)
        made["requestPolicy"] = {"default": f"{usual}{unit}", "validValues": [f"{one}{unit}" for one in valid]}
    device: Object = {"name": f"dev-{number}", "capacity": {"memory": made}}
    if "requestPolicy" in made or dice.maybe(0.7):
        device["allowMultipleAllocations"] = True
    return device


def _measuring(dice: Dice, name: str, units: list[str]) -> Object:
    asked: Object = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": dice.one(1, 1, 2)}
    if dice.maybe(0.85):
        asked["capacity"] = {"requests": {"memory": _amount(dice, dice.one(*units))}}
    return {"name": name, "exactly": asked}


def _amount(dice: Dice, unit: str) -> str:
    """Some of a unit, a little more or less, or written another way."""
    number = dice.randint(0, 12)
    kind = dice.randint(0, 5)
    if kind == 0:
        return f"{number}.5{unit}"
    if kind == 1 and dice.maybe(0.3):
        return dice.one("9223372036854775807", "9223372036854775808", "18446744073709551616", "9223372036854775807m")
    if kind == 2 and unit not in _LARGE:
        thousandths = number * _UNITS[unit] * 1000
        return f"{int(thousandths) + dice.one(0, 1)}m"
    if kind == 3:
        return f"{number}e{dice.one(0, 0, 0, 3, 3, 18)}"
    return f"{number}{unit}"
