"""Generated devices: classes, slices of pools, taint rules, and what claims ask for."""

from __future__ import annotations

from collections.abc import Sequence

from tests.differential.generate.dice import NODE_LABELS, Dice, Object, requirement
from tests.differential.generate.nodes import EXTENDED

API = "resource.k8s.io/v1"
GPU, NIC = "gpu.test", "nic.test"
DRIVERS = (GPU, GPU, NIC)
MODELS = ("a100", "h100", "l4")
VERSIONS = ("1.10.3", "1.2.0", "2.0.0-rc.1")
MATCHED = (
    *("gpu.test/model", "gpu.test/model", "gpu.test/model", "gpu.test/index", "numa.test/node", "numa.test/node"),
    *("gpu.test/healthy", "gpu.test/version", "nic.test/index", "gpu.test/uuid"),
)
TAINTS = ("sick", "busy", "maintenance")
EFFECTS = ("NoSchedule", "NoSchedule", "NoExecute", "None")
CONDITIONS = ("attached.test/ready", "prepared.test/ready")
FAILURES = ("attached.test/failed",)
SELECTORS = (
    'device.attributes["gpu.test"].?model.orValue("") == "a100"',
    'device.attributes["gpu.test"].?model.orValue("") in ["a100", "h100"]',
    'device.attributes["numa.test"].?node.orValue(7) == 0',
    'device.capacity["gpu.test"].?memory.orValue(quantity("0")).compareTo(quantity("40Gi")) >= 0',
    'device.attributes["gpu.test"].?version.orValue(semver("0.0.1")).isGreaterThan(semver("1.9.0"))',
    "device.allowMultipleAllocations",
    f'device.driver == "{NIC}"',
    'device.attributes["gpu.test"].?uuid.orValue("0") < "8"',
    'cel.bind(mine, device.attributes["gpu.test"], mine.?model.orValue("") != "l4")',
    'device.attributes["gpu.test"].exists(name, name == "uuid")',
)
FAILING = (
    'device.attributes["gpu.test"].model == "a100"',
    'device.attributes["other.test"].missing == 1',
    'device.capacity["gpu.test"].memory.isGreaterThan(quantity("20Gi"))',
)
"""Those that fail on a device which has no such attribute."""


def metadata(name: str, kind: str, namespace: str = "", **more: object) -> Object:
    """Of an object whose UID follows from its name."""
    made: Object = {"name": name, "uid": f"uid-{kind}-{namespace}-{name}", **more}
    if namespace:
        made["namespace"] = namespace
    return made


def cel(expression: str) -> Object:
    """A selector."""
    return {"cel": {"expression": expression}}


def selectors(dice: Dice) -> list[Object]:
    """A few expressions; one that may fail now and then."""
    chosen = dice.some(SELECTORS, 1, dice.one(1, 1, 2)) if dice.maybe(0.35) else []
    if dice.rarely(0.06):
        chosen.insert(dice.randint(0, len(chosen)), dice.one(*FAILING))
    return [cel(one) for one in chosen]


def config(dice: Dice, driver: str, name: str) -> Object:
    """Parameters for a driver."""
    return {"opaque": {"driver": driver, "parameters": {"kind": name, "level": dice.randint(0, 2)}}}


def classes(dice: Dice) -> list[Object]:
    """A class of each driver, one of all devices, one of large ones; one may not be there."""
    found = {
        "gpu": [cel(f'device.driver == "{GPU}"')],
        "nic": [cel(f'device.driver == "{NIC}"')],
        "any": [],
        "large": [cel(f'device.driver == "{GPU}"'), cel(SELECTORS[3])],
    }
    made = []
    for name, chosen in found.items():
        if dice.rarely(0.08):
            continue
        spec: Object = {"selectors": chosen} if chosen else {}
        if dice.maybe(0.2):
            spec["config"] = [config(dice, dice.one(GPU, NIC), name)]
        made.append({"apiVersion": API, "kind": "DeviceClass", "metadata": metadata(name, "class"), "spec": spec})
    return made


def serve(dice: Dice, made: list[Object]) -> None:
    """Have some classes serve extended resources, and two of them the same now and then."""
    for number, one in enumerate(made):
        if dice.maybe(0.6):
            one["spec"]["extendedResourceName"] = dice.one(EXTENDED, EXTENDED, "example.com/nic")
        one["metadata"]["creationTimestamp"] = f"2026-01-01T00:00:0{dice.randint(0, number)}Z"


def device(dice: Dice, number: int, driver: str, *, plain: float = 0.75) -> Object:
    """One device with attributes and a capacity, and perhaps taints or binding conditions."""
    attributes: Object = {}
    if dice.maybe(0.85):
        attributes["model"] = {"string": dice.one(*MODELS)}
    if dice.maybe(0.9):
        attributes["index"] = {"int": number}
    if dice.maybe(0.6):
        attributes["numa.test/node"] = {"int": dice.randint(0, 1)}
    if dice.maybe(0.4):
        attributes[dice.one("healthy", f"{driver}/healthy")] = {"bool": dice.maybe(0.7)}
    if dice.maybe(0.5):
        attributes["version"] = {"version": dice.one(*VERSIONS)}
    if dice.maybe(0.5):
        attributes["uuid"] = {"string": f"{dice.randint(0, 1 << 40):010x}"}
    made: Object = {"name": f"dev-{number}", "attributes": attributes}
    if dice.maybe(0.8):
        made["capacity"] = {"memory": {"value": dice.one("16Gi", "40Gi", "80Gi")}}
    if not dice.maybe(plain):
        if dice.maybe(0.6):
            made["taints"] = [taint(dice) for _ in range(dice.one(1, 1, 2))]
        if dice.maybe(0.3):
            made["bindingConditions"] = dice.some(CONDITIONS, 1)
            made["bindingFailureConditions"] = list(FAILURES)
        if dice.maybe(0.2):
            made["bindsToNode"] = True
    return made


def taint(dice: Dice) -> Object:
    """Keeps claims off a device, or with the effect None does not."""
    made: Object = {"key": dice.one(*TAINTS), "effect": dice.one(*EFFECTS)}
    if dice.maybe(0.5):
        made["value"] = dice.one("a", "b")
    return made


def toleration(dice: Dice) -> Object:
    """Of one of the taints, or of all."""
    made: Object = {"operator": dice.one("Equal", "Exists")}
    if made["operator"] == "Equal" or dice.maybe(0.8):
        made["key"] = dice.one(*TAINTS)
    if made["operator"] == "Equal":
        made["value"] = dice.one("", "a", "b")
    if dice.maybe(0.5):
        made["effect"] = dice.one("NoSchedule", "NoExecute")
    return made


def taint_rules(dice: Dice, nodes: int) -> list[Object]:
    """Administrators' taints."""
    made = []
    for number in range(dice.one(0, 0, 0, 1, 2)):
        spec: Object = {"taint": taint(dice)}
        chosen: Object = {}
        if dice.maybe(0.4):
            chosen["driver"] = dice.one(GPU, NIC)
        if dice.maybe(0.4):
            chosen["pool"] = f"node-{dice.randint(0, nodes - 1)}"
        if dice.maybe(0.4):
            chosen["device"] = f"dev-{dice.randint(0, 3)}"
        if chosen or dice.maybe(0.5):
            spec["deviceSelector"] = chosen
        meta = metadata(f"rule-{number}", "rule")
        made.append({"apiVersion": API, "kind": "DeviceTaintRule", "metadata": meta, "spec": spec})
    return made


def node_selector(dice: Dice, nodes: int) -> Object:
    """Of one term, as slices may have."""
    term: Object = {"matchExpressions": [requirement(dice, NODE_LABELS) for _ in range(dice.randint(1, 2))]}
    if dice.maybe(0.2):
        names = [f"node-{dice.randint(0, nodes - 1)}" for _ in range(2)]
        term["matchFields"] = [{"key": "metadata.name", "operator": "In", "values": names[:1]}]
    return {"nodeSelectorTerms": [term]}


class Pools:
    """The slices of all pools, and the devices that they offer."""

    def __init__(self, dice: Dice, nodes: int) -> None:
        self.dice = dice
        self.nodes = nodes
        self.slices: list[Object] = []
        self.offered: list[tuple[str, str, Object, str]] = []
        """(driver, pool, device, node or nothing)."""

    def add_local(self, driver: str, node: str, devices: list[Object], counters: Sequence[Object] = ()) -> None:
        """A node's pool of one driver."""
        self._add(driver, node, {"nodeName": node}, devices, counters, node)

    def add_shared(self, driver: str, name: str, devices: list[Object], counters: Sequence[Object] = ()) -> None:
        """A pool that several nodes reach: some by a selector, all, or each device some."""
        where = self._where(self.dice.one(*_SHARED), devices)
        self._add(driver, name, where, devices, counters, "")

    def add_scattered(self, driver: str, name: str, devices: list[Object], counters: Sequence[Object] = ()) -> None:
        """A pool each of whose slices is for nodes of its own."""
        self._add(driver, name, {}, devices, counters, "", scattered=True)

    def _where(self, kind: str, devices: list[Object]) -> Object:
        """Which nodes a slice with these devices is for."""
        dice = self.dice
        if kind == "nodeName":
            return {kind: f"node-{dice.randint(0, self.nodes - 1)}"}
        if kind == "nodeSelector":
            return {kind: node_selector(dice, self.nodes)}
        if kind == "perDeviceNodeSelection":
            for one in devices:
                one |= self._where(dice.one("nodeName", "nodeSelector", "allNodes"), [])
        return {kind: True}

    def _add(
        self,
        driver: str,
        pool: str,
        where: Object,
        devices: list[Object],
        counters: Sequence[Object],
        node: str,
        *,
        scattered: bool = False,
    ) -> None:
        """In one slice or more: one may be missing, of another generation, or have a device of another."""
        dice, generation = self.dice, self.dice.randint(1, 3)
        parts = self._cut(devices, 0.8 if scattered else 0.3)
        if len(parts) > 1 and dice.rarely(0.2):
            parts[1] = [*parts[1], dict(parts[0][0])]
        sets = [] if not counters or dice.rarely(0.05) else self._cut(list(counters), 0.3)
        if sets and dice.rarely(0.04):
            sets.append([counters[0]])
        made: list[Object] = []
        for number, part in enumerate((*parts, *sets)):
            there = where if not scattered else self._where(dice.one("nodeName", "nodeName", *_SHARED), part)
            spec = {"driver": driver, "pool": {"name": pool, "generation": generation}, **there}
            spec["devices" if number < len(parts) else "sharedCounters"] = part
            name = f"{pool}-{driver}-{number}"
            made.append({"apiVersion": API, "kind": "ResourceSlice", "metadata": metadata(name, "slice"), "spec": spec})
            if number < len(parts):
                self.offered += [(driver, pool, one, there.get("nodeName", node)) for one in part]
        count = len(made)
        if dice.rarely(0.1):
            count += 1
        elif len(made) > 1 and dice.rarely(0.1):
            made.pop(dice.randint(0, len(made) - 1))
        for one in made:
            one["spec"]["pool"]["resourceSliceCount"] = count
        if dice.maybe(0.05):  # what is left of a generation, or the first of the next
            other = {**made[0], "metadata": metadata(f"{pool}-{driver}-other", "slice")}
            change = dice.one(-1, -1, 1)
            other["spec"] = {**other["spec"], "pool": {**made[0]["spec"]["pool"], "generation": generation + change}}
            made.append(other)
        self.slices += made

    def _cut(self, whole: list[Object], chance: float) -> list[list[Object]]:
        """In one part or in two."""
        if len(whole) < 2 or not self.dice.maybe(chance):
            return [whole]
        cut = self.dice.randint(1, len(whole) - 1)
        return [whole[:cut], whole[cut:]]


_SHARED = ("allNodes", "nodeSelector", "perDeviceNodeSelection")
