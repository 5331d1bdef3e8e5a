"""GPUs of which pods share single devices: a plugin that knows each device, and how fragmented devices are.

A pod asks for thousandths of a device in one extended resource. Up to 1,000 of them are a share of one device; more
are spread evenly over as few devices as can be, so 2,000 are two whole ones. kube-scheduler's own plugins see the sum
of a node only, and would give a pod parts of two devices.

Dynamic Resource Allocation can share devices, too, but it takes the first device that does, in the order of their
names: no plugin chooses among the devices of a node. To choose is the point here, hence a plugin.

The measure of fragmentation, and the score that follows it, are those of Weng et al., "Beware of Fragmentation:
Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent" (USENIX ATC'23).
"""

from collections import ChainMap, Counter
from collections.abc import Hashable, Iterable, Mapping, MutableMapping, Sequence
from operator import is_
from typing import Any, Literal, NamedTuple, cast

import numpy as np
from msgspec import Struct

from podberth.cache.column import Numbers
from podberth.kit import (
    MAX_SCORE,
    NODE,
    PODS_HERE,
    AssumedPod,
    Cluster,
    ClusterEvent,
    Ints,
    Nodes,
    Plugin,
    Pod,
    PodShape,
    Reject,
    Rejections,
    Rows,
    Unschedulable,
)
from podberth.plugins.registry import registry

WHOLE = 1000
"""The parts of one device."""
SHARED_GPU = "alibabacloud.com/gpu-milli"
_TYPICAL = 0.95
"""The most frequent tasks count as typical until they are this part of all."""
_FREE_NODE, _FREE_DEVICE = MAX_SCORE // 3, MAX_SCORE // 2
_STEPS, _SLOPE, _BETWEEN = 14, 500, 7
"""The scores of FragmentationGradient: a sigmoid of the growth, as in the paper, in coarse steps. Between two steps,
nodes that are nearly as good are told apart by how full their GPUs are.
"""
_MOST_GIVEN = 4096
"""The number of pods from which on those that are gone are looked for."""


class Task(Struct, rename="camel", forbid_unknown_fields=True, frozen=True):
    """A kind of pod that the cluster is there for."""

    cpu: int
    """Milli-CPU."""
    gpu: int
    """Thousandths of devices."""
    share: float
    """The part of all pods that are of this kind, 0 to 1."""


class GPUShareArgs(Struct, rename="camel", forbid_unknown_fields=True, frozen=True):
    """The arguments of GPUShare."""

    resource: str = SHARED_GPU
    """The extended resource of which a device has 1,000."""
    strategy: Literal["None", "Packed", "FragmentationGradient"] = "None"
    """What its score prefers: nothing, devices and nodes that are in use, or what fragments devices the least."""
    tasks: list[Task] = []
    """The typical pods, for FragmentationGradient."""


class Parts(NamedTuple):
    """What a pod asks for: `share` thousandths of each of so many devices."""

    devices: int
    share: int


def parts(amount: int) -> Parts:
    """Return the devices of which a pod gets parts that asks for an amount in all."""
    devices = max(-(-amount // WHOLE), 1)
    return Parts(devices, -(-amount // devices))


class Fragmentation:
    """The expected idle GPU that a task drawn from the typical ones can't use (F in the paper)."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        kinds = sorted({parts(task.gpu) for task in tasks if task.gpu})
        cpus = sorted({task.cpu for task in tasks if task.gpu})
        weights = np.zeros((len(cpus) + 1, len(kinds)))
        for task in tasks:
            if task.gpu:
                weights[cpus.index(task.cpu) + 1 :, kinds.index(parts(task.gpu))] += task.share
        self._devices = np.array([kind.devices for kind in kinds], dtype=np.int64)
        self._shares = np.array([kind.share for kind in kinds], dtype=np.int64)
        self._cpus = np.array(cpus, dtype=np.int64)
        self._weights = weights
        """float[CPU amounts that are left, kinds]: the share of tasks that have enough CPU then."""

    def of(self, cpu: Ints, free: Ints) -> Numbers:
        """Return float[n]: thousandths of devices. `cpu`: int[n], milli-CPU left. `free`: int[n, devices], left of each
        device, 0 where a node has fewer.
        """
        usable = free[:, None, :] >= self._shares[:, None]
        fits = np.count_nonzero(usable, axis=2) >= self._devices
        enough = self._weights[np.searchsorted(self._cpus, cpu, side="right")]
        used: Numbers = np.einsum("nkd,nd,nk->n", usable, free, fits * enough)
        return free.sum(axis=1) - used


def typical(pods: Iterable[Pod], resource: str = SHARED_GPU) -> list[Task]:
    """Return the most frequent tasks: as many kinds as 95 % of the pods take, their shares of these."""
    counts = Counter((pod.shape.requests.get("cpu", 0), pod.shape.requests.get(resource, 0)) for pod in pods)
    wanted, found, seen = _TYPICAL * counts.total(), [], 0
    for (cpu, gpu), count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        if seen >= wanted:
            break
        found.append((cpu, gpu, count))
        seen += count
    return [Task(cpu, gpu, count / seen) for cpu, gpu, count in found]


class GPUShare(Plugin):
    """Gives each pod parts of single devices, and scores nodes by what is left of theirs.

    Which devices a pod has is known to this plugin alone, since it has chosen them: nothing is written. A pod that it
    has not placed counts on the fullest devices that could take it. It is for simulations.
    """

    name = "GPUShare"
    Args = GPUShareArgs
    depends_on = NODE | PODS_HERE
    events = ClusterEvent.NODE_ADDED | ClusterEvent.NODE_ALLOCATABLE | ClusterEvent.POD_GONE
    full = Unschedulable("node(s) had too little left of single GPUs")

    def __init__(self, args: GPUShareArgs) -> None:
        self.resource = args.resource
        self._strategy = args.strategy
        self._fragmentation = Fragmentation(args.tasks)
        self._given: dict[str, tuple[str, tuple[int, ...]]] = {}
        """UID → node, and its devices there."""
        self._seen: dict[str, tuple[list[Pod], list[int]]] = {}
        """Node → the pods that were there, and what was left of its devices."""
        self._last: tuple[Nodes, int, Ints] | None = None
        """The answer of `devices` for all rows of these nodes, at this version."""

    @staticmethod
    def check(args: GPUShareArgs, path: str) -> list[str]:
        """Return what is wrong with the arguments together."""
        if args.strategy == "FragmentationGradient" and not any(task.gpu for task in args.tasks):
            return [f"{path}.tasks: Required value: FragmentationGradient goes by the tasks that ask for GPUs"]
        return []

    def signature(self, shape: PodShape) -> Hashable:
        """Return what is asked for of devices and CPU."""
        return self._asked(shape), shape.requests.get("cpu", 0)

    def filter(self, pod: Pod, cluster: Cluster) -> Rejections:
        """Reject nodes that have too few devices with so much left."""
        amount = self._asked(pod.shape)
        if not amount:
            return ()
        wanted = parts(amount)
        return [(self.full, np.count_nonzero(self.devices(cluster) >= wanted.share, axis=1) < wanted.devices)]

    def score(self, pod: Pod, cluster: Cluster, feasible: Rows) -> Ints | None:
        """Return 0 to 100 by the strategy."""
        if self._strategy == "None":
            return None
        free, amount = self.devices(cluster)[feasible], self._asked(pod.shape)
        if self._strategy == "Packed":
            return _packed(parts(amount), free, self._counts(cluster.nodes)[feasible])
        cpu = cluster.nodes.resources["cpu"]
        left = cluster.nodes.allocatable[cpu, feasible] - cluster.nodes.requested[cpu, feasible]
        grown, _ = self._growth(amount, pod.shape.requests.get("cpu", 0), left, free)
        with np.errstate(over="ignore"):
            steps = np.floor(_STEPS / (1 + np.exp(grown / _SLOPE)))
        packed = 1 - free.sum(axis=1) / max(WHOLE * free.shape[1], 1)
        scores: Ints = (steps * _BETWEEN + np.minimum(packed * _BETWEEN, _BETWEEN - 1)).astype(np.int64)
        return scores

    def reserve(self, pod: Pod, cluster: Cluster, row: int) -> tuple[int, ...] | Reject | None:
        """Choose the pod's devices."""
        amount, nodes = self._asked(pod.shape), cluster.nodes
        if not amount:
            return None
        wanted, node = parts(amount), nodes.names[row] or ""
        left = self._left(
            [one for one in cluster.pods_on(row) if one.uid != pod.uid], node, self._counts(nodes).item(row)
        )
        devices = _tightest(left, wanted)
        if len(devices) < wanted.devices:
            return Reject(self.full)
        if self._strategy == "FragmentationGradient" and wanted.devices == 1:
            cpu = nodes.resources["cpu"]
            before = nodes.allocatable[cpu, row] - nodes.requested[cpu, row] + pod.shape.requests.get("cpu", 0)
            _, device = self._growth(
                amount, pod.shape.requests.get("cpu", 0), np.array([before]), np.array([left], dtype=np.int64)
            )
            devices = (device.item(),)
        if len(self._given) > _MOST_GIVEN and len(self._given) > 2 * len(cluster):
            self._given = {uid: given for uid, given in self._given.items() if cluster.placement(uid) is not None}
        self._given[pod.uid] = (node, devices)
        self._seen.pop(node, None)
        self._last = None
        return devices

    def unreserve(self, assumed: AssumedPod, cluster: Cluster) -> None:
        """Take the pod's devices back."""
        self._given.pop(assumed.pod.uid, None)
        self._seen.pop(assumed.node, None)
        self._last = None

    def fragmented(self, cluster: Cluster, fragmentation: Fragmentation) -> float:
        """Return the thousandths of devices that are idle and that a typical task is expected not to be able to use."""
        nodes = cluster.nodes
        cpu = nodes.resources["cpu"]
        idle = nodes.allocatable[cpu, : nodes.rows] - nodes.requested[cpu, : nodes.rows]
        return float(fragmentation.of(idle, self.devices(cluster)).sum())

    def devices(self, cluster: Cluster) -> Ints:
        """Return int[rows, devices]: the thousandths that are left of each device; 0 where a node has fewer."""
        nodes = cluster.nodes
        last = None if cluster.supposed else self._last
        if last is not None and last[0] is nodes and last[1] == nodes.log.version:
            return last[2]
        counts = self._counts(nodes).tolist()
        most = max(counts, default=0)
        none = [0] * most
        rows = [none] * len(counts)
        for row, count in enumerate(counts):
            if count:
                node, pods = nodes.names[row] or "", cluster.pods_on(row)
                seen = self._seen.get(node)
                if (
                    seen is None
                    or len(seen[1]) != count
                    or len(seen[0]) != len(pods)
                    or not all(map(is_, seen[0], pods))
                ):
                    self._seen[node] = seen = (pods, self._left(pods, node, count))
                rows[row] = seen[1] if count == most else seen[1] + none[count:]
        found = np.array(rows, dtype=np.int64).reshape(len(rows), most)
        if not cluster.supposed:  # the version does not tell of a dry run's pods
            self._last = (nodes, nodes.log.version, found)
        return found

    def _asked(self, shape: PodShape) -> int:
        return shape.requests.get(self.resource, 0)

    def _counts(self, nodes: Nodes) -> Ints:
        index = nodes.resources.get(self.resource)
        if index is None:
            return np.zeros(nodes.rows, dtype=np.int64)
        counts: Ints = nodes.allocatable[index, : nodes.rows] // WHOLE
        return counts

    def _left(self, pods: Iterable[Pod], node: str, count: int) -> list[int]:
        left, others = [WHOLE] * count, []
        for pod in pods:
            amount = self._asked(pod.shape)
            if amount:
                given = self._given.get(pod.uid)
                if given is not None and given[0] == node:
                    for device in given[1]:
                        if device < count:  # the node may have fewer by now
                            left[device] -= parts(amount).share
                else:
                    others.append((pod.uid, amount))
        for _, amount in sorted(others):
            wanted = parts(amount)
            for device in _tightest(left, wanted):
                left[device] -= wanted.share
        return left

    def _growth(self, amount: int, cpu: int, left: Ints, free: Ints) -> tuple[Numbers, Ints]:
        """Return how much fragmentation grows on each row by a pod, and the device on which it grows least.

        Infinite where the pod does not fit. Of pods that take whole devices, these are any that are free.
        """
        before, wanted = self._fragmentation.of(left, free), parts(amount)
        rows, devices = free.shape
        if not amount or not devices:
            return self._fragmentation.of(left - cpu, free) - before, np.zeros(rows, dtype=np.int64)
        if wanted.devices > 1 or wanted.share == WHOLE:
            chosen = np.argsort(-free, axis=1, kind="stable")[:, : wanted.devices]
            after = free.copy()
            np.put_along_axis(after, chosen, np.take_along_axis(free, chosen, axis=1) - wanted.share, axis=1)
            fits = np.count_nonzero(free >= wanted.share, axis=1) >= wanted.devices
            grown = np.where(fits, self._fragmentation.of(left - cpu, after) - before, np.inf)
            return grown, chosen[:, 0]
        tries = np.repeat(free[:, None, :], devices, axis=1)
        tries[:, np.arange(devices), np.arange(devices)] -= wanted.share
        grown = self._fragmentation.of(np.repeat(left - cpu, devices), tries.reshape(rows * devices, devices))
        each = np.where(free >= wanted.share, grown.reshape(rows, devices) - before[:, None], np.inf)
        return each.min(axis=1, initial=np.inf), each.argmin(axis=1)


def _packed(wanted: Parts, free: Ints, counts: Ints) -> Ints:
    """Return scores that are best for devices in use, then for free ones beside these, then for nodes without any in
    use: GpuPacking of the paper. Pods without devices go where these are the fullest.
    """
    untouched = np.count_nonzero(free == WHOLE, axis=1)
    fits = (free >= wanted.share) & (np.arange(free.shape[1]) < counts[:, None])
    left = np.sort(np.where(fits, free, 2 * WHOLE), axis=1)[:, : wanted.devices]
    whole = np.count_nonzero(left == WHOLE, axis=1)
    shared = np.maximum(MAX_SCORE - left.sum(axis=1) * 10 // WHOLE, _FREE_DEVICE)
    beside = np.maximum(_FREE_DEVICE - whole, _FREE_NODE)
    alone = np.maximum(_FREE_NODE - untouched, 0)
    scores: Ints = np.where(untouched == counts, alone, np.where(whole > 0, beside, shared))
    return scores


def _tightest(left: Sequence[int], wanted: Parts) -> tuple[int, ...]:
    """Return the devices with the least left that take the pod; fewer than it needs where it does not fit."""
    fitting = sorted((amount, device) for device, amount in enumerate(left) if amount >= wanted.share)
    return tuple(device for _, device in fitting[: wanted.devices])


def plugins() -> Mapping[str, Any]:
    """Return the plugins that a profile of an experiment may name: those of `berth run`, and GPUShare."""
    return ChainMap({GPUShare.name: GPUShare}, cast("MutableMapping[str, Any]", registry()))
