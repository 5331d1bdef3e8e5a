"""What a pod asks for: claims without an allocation, and extended resources. Pods that ask for the same share results.

Next stage: `podberth.plugins.dynamic_resources.results` asks node by node.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from podberth.cache.cluster import Cluster
from podberth.cache.devices import Devices
from podberth.cache.kept_results import Bounded
from podberth.model.devices import ClaimSpec, DeviceClass, ResourceClaim
from podberth.model.node import Node
from podberth.model.pod import Pod
from podberth.model.pod_devices import DeviceContainer, may_be_devices
from podberth.plugins.dynamic_resources.claims import device_resources
from podberth.plugins.dynamic_resources.extended import ExtendedClaim, extended_claim
from podberth.plugins.dynamic_resources.pools import Pool
from podberth.plugins.dynamic_resources.pools_by_node import PoolsByNode
from podberth.plugins.dynamic_resources.requested import RequestedClaim, wanted
from podberth.plugins.dynamic_resources.results import AllocationsByNode
from podberth.plugins.dynamic_resources.search import Selects

_ROWS = 200_000
"""Rows whose results are kept, for all requests together."""
_FEWEST = 4
"""Requests that are kept even in the largest clusters."""


class PodDevices(Struct, eq=False):
    """What one pod asks for. `open`: its claims without an allocation."""

    claims: list[ResourceClaim]
    open: list[ResourceClaim]
    resources: Mapping[str, DeviceClass]
    """Extended resources that devices may serve."""
    results: AllocationsByNode | None
    """None: nothing has to be allocated."""
    request: "AllocationRequest | None"


class AllocationRequest:
    """What is asked for, whichever pod asks: specs of claims, and extended resources of containers."""

    def __init__(
        self,
        specs: Sequence[ClaimSpec],
        containers: Sequence[DeviceContainer],
        requests: Mapping[str, int],
        thousandths: bool,
    ) -> None:
        self._thousandths = thousandths
        self._specs = tuple(specs)
        self._containers = containers
        self._resources = [name for name, amount in requests.items() if amount and may_be_devices(name)]
        self._devices: Devices | None = None
        self._version = -1
        self._of_classes: dict[str, DeviceClass] = {}
        """The resources that a class serves now."""
        self._variants: dict[frozenset[str], tuple[RequestedClaim, ...]] = {}
        self._extended: dict[frozenset[str], ExtendedClaim] = {}

    def begin(self, devices: Devices) -> None:
        """Use the device classes as they are now."""
        if self._devices is not devices or self._version != devices.class_changes:
            self._devices, self._version = devices, devices.class_changes
            found = {name: devices.class_of(name) for name in self._resources}
            self._of_classes = {name: of for name, of in found.items() if of is not None}
            self._variants.clear()
            self._extended.clear()

    def of(self, node: Node) -> Sequence[RequestedClaim] | None:
        """The claims to allocate on a node; None: it offers one of the resources neither as devices nor otherwise.

        Raises AllocationError.
        """
        names = self._by_devices(node)
        if names is None:
            return None
        found = self._variants.get(names)
        if found is None:
            assert self._devices is not None
            classes = self._devices.classes
            specs = [*self._specs, *([self._claim_for(names).spec] if names else ())]
            claims = [wanted(whose(i), one, classes, thousandths=self._thousandths) for i, one in enumerate(specs)]
            found = self._variants[names] = tuple(claims)
        return found

    def extended(self, node: Node) -> ExtendedClaim | None:
        """The claim to make for resources that the node offers as devices; None: there are none."""
        names = self._by_devices(node)
        return self._claim_for(names) if names else None

    def _claim_for(self, names: frozenset[str]) -> ExtendedClaim:
        found = self._extended.get(names)
        if found is None:
            classes = {name: self._of_classes[name] for name in names}
            found = self._extended[names] = extended_claim(self._containers, classes)
        return found

    def _by_devices(self, node: Node) -> frozenset[str] | None:
        if not self._resources:
            return _NO_RESOURCES
        found = []
        for name in self._resources:
            if name in self._of_classes and not node.allocatable.get(name, 0):
                found.append(name)
            elif name not in node.allocatable:
                return None
        return frozenset(found)


_NO_RESOURCES: frozenset[str] = frozenset()


def whose(number: int) -> str:
    """A placeholder for the name of the claim with this number: errors are kept for all pods that ask for the same."""
    return f"\0{number}\0"


def named(text: str, wants: PodDevices, pod: Pod) -> str:
    """The text of an error, with the names of the pod's claims in place of the placeholders."""
    for number, claim in enumerate(wants.open):
        text = text.replace(whose(number), str(claim))
    return text.replace(whose(len(wants.open)), f"{pod.namespace}/<extended-resources>")


class AllocationRequests:
    """The requests of the last pods, with their results."""

    def __init__(self, selects: Selects, further: int = 0, *, thousandths: bool = False) -> None:
        """`further`: steps for looking further than kube-scheduler, on each node. `thousandths`: as for `wanted`."""
        self._selects = selects
        self._thousandths = thousandths
        self._further = further
        self._pools_by_node = PoolsByNode()
        self._kept: Bounded[Any, tuple[AllocationRequest, AllocationsByNode]] = Bounded(_FEWEST)

    def pools(self, row: int, node: Node, devices: Devices) -> list[Pool]:
        """The pools that a node reaches."""
        return self._pools_by_node.of(row, node, devices)

    def about(self, pod: Pod, claims: list[ResourceClaim], cluster: Cluster) -> PodDevices:
        """Return what a pod with these claims asks for. No node is asked yet."""
        resources = device_resources(pod, cluster.devices)
        opened = [claim for claim in claims if claim.allocation is None]
        if not opened and not resources:
            return PodDevices(claims, opened, resources, None, None)
        specs = tuple([claim.spec for claim in opened])
        key: Any = (specs, pod.shape if resources else None)
        found = self._kept.recall(key)
        if found is None:
            requests = pod.shape.requests if resources else {}
            request = AllocationRequest(specs, pod.shape.containers, requests, self._thousandths)
            found = request, AllocationsByNode(request.of, self._selects, self._pools_by_node, self._further)
            self._kept.most = max(_FEWEST, _ROWS // max(cluster.nodes.rows, 1))
            self._kept.keep(key, found)
        request, results = found
        request.begin(cluster.devices)
        return PodDevices(claims, opened, resources, results, request)
