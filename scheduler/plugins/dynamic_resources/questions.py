"""What a pod wants of devices, and the results that are kept for all pods that want the same.

Next stage: `scheduler.plugins.dynamic_resources.results` asks node by node.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from scheduler.model.devices import ClaimSpec, DeviceClass, ResourceClaim
from scheduler.model.node import Node
from scheduler.model.pod import Pod
from scheduler.model.pod_devices import DeviceContainer, may_be_devices
from scheduler.plugins.dynamic_resources.claims import device_resources
from scheduler.plugins.dynamic_resources.extended import ExtendedClaim, extended_claim
from scheduler.plugins.dynamic_resources.pools import Pool
from scheduler.plugins.dynamic_resources.reach import Reach
from scheduler.plugins.dynamic_resources.results import Results
from scheduler.plugins.dynamic_resources.search import Selects
from scheduler.plugins.dynamic_resources.wanted import WantedClaim, wanted
from scheduler.state.cluster import Cluster
from scheduler.state.devices import Devices
from scheduler.state.per_node import Bounded

_ROWS = 200_000
"""Rows whose results are kept, over all questions."""
_FEWEST = 4
"""Questions that are kept in the largest clusters."""


class Wants(Struct, eq=False):
    """One pod's claims. `open`: those that have nothing yet."""

    claims: list[ResourceClaim]
    open: list[ResourceClaim]
    resources: Mapping[str, DeviceClass]
    """Extended resources that devices may serve."""
    results: Results | None
    """None: nothing has to be allocated."""
    question: "Question | None"


class Question:
    """What is wanted, without whose it is: specs of claims, and extended resources of containers."""

    def __init__(
        self, specs: Sequence[ClaimSpec], containers: Sequence[DeviceContainer], requests: Mapping[str, int]
    ) -> None:
        self._specs = tuple(specs)
        self._containers = containers
        self._resources = [name for name, amount in requests.items() if amount and may_be_devices(name)]
        self._devices: Devices | None = None
        self._version = -1
        self._variants: dict[frozenset[str], tuple[WantedClaim, ...]] = {}
        self._extended: dict[frozenset[str], ExtendedClaim] = {}

    def begin(self, devices: Devices) -> None:
        """Ask about these devices; classes may have changed."""
        if self._devices is not devices or self._version != devices.class_changes:
            self._devices, self._version = devices, devices.class_changes
            self._variants.clear()
            self._extended.clear()

    def of(self, node: Node) -> Sequence[WantedClaim] | None:
        """What is wanted of a node; None: it has a resource neither as devices nor otherwise.

        Raises AllocationError.
        """
        names = self._by_devices(node)
        if names is None:
            return None
        found = self._variants.get(names)
        if found is None:
            assert self._devices is not None
            classes = self._devices.classes
            claims = [wanted(whose(i), spec, classes) for i, spec in enumerate(self._specs)]
            if names:
                claims.append(wanted(whose(len(claims)), self._claim_for(names).spec, classes))
            found = self._variants[names] = tuple(claims)
        return found

    def extended(self, node: Node) -> ExtendedClaim | None:
        """The claim to make for what a node has as devices; None: it has nothing so."""
        names = self._by_devices(node)
        return self._claim_for(names) if names else None

    def _claim_for(self, names: frozenset[str]) -> ExtendedClaim:
        found = self._extended.get(names)
        if found is None:
            classes = {name: of for name in names if (of := self._class_of(name)) is not None}
            found = self._extended[names] = extended_claim(self._containers, classes)
        return found

    def _by_devices(self, node: Node) -> frozenset[str] | None:
        found = []
        for name in self._resources:
            if self._class_of(name) is not None and not node.allocatable.get(name, 0):
                found.append(name)
            elif name not in node.allocatable:
                return None
        return frozenset(found)

    def _class_of(self, name: str) -> DeviceClass | None:
        return None if self._devices is None else self._devices.class_of(name)


def whose(number: int) -> str:
    """What the claim of this number is called in errors that are kept for all pods that want the same."""
    return f"\0{number}\0"


def named(text: str, wants: Wants, pod: Pod) -> str:
    """The text of an error with the names of a pod's own claims."""
    for number, claim in enumerate(wants.open):
        text = text.replace(whose(number), str(claim))
    return text.replace(whose(len(wants.open)), f"{pod.namespace}/<extended-resources>")


class Questions:
    """The questions that were asked lately, with their results."""

    def __init__(self, selects: Selects) -> None:
        self._selects = selects
        self._reach = Reach()
        self._kept: Bounded[Any, tuple[Question, Results]] = Bounded(_FEWEST)

    def pools(self, row: int, node: Node, devices: Devices) -> list[Pool]:
        """The pools that a node reaches."""
        return self._reach.of(row, node, devices)

    def about(self, pod: Pod, claims: list[ResourceClaim], cluster: Cluster) -> Wants:
        """What a pod with these claims wants, not yet asked of any node."""
        resources = device_resources(pod, cluster.devices)
        opened = [claim for claim in claims if claim.allocation is None]
        if not opened and not resources:
            return Wants(claims, opened, resources, None, None)
        specs = tuple([claim.spec for claim in opened])
        key: Any = (specs, pod.shape if resources else None)
        found = self._kept.recall(key)
        if found is None:
            question = Question(specs, pod.shape.containers, pod.shape.requests if resources else {})
            found = question, Results(question.of, self._selects, self._reach)
            self._kept.most = max(_FEWEST, _ROWS // max(cluster.nodes.rows, 1))
            self._kept.keep(key, found)
        question, results = found
        question.begin(cluster.devices)
        return Wants(claims, opened, resources, results, question)
