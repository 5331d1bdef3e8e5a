"""Who is measured: kube-scheduler, Berth, and a binder that does not think. Each is started anew for each run."""

from __future__ import annotations

import compileall
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import ClassVar

from bench.binder import READY
from podberth.testing.workloads.workload import Mode, Workload
from tests.controlplane.api import Api, Object
from tests.controlplane.cluster import Cluster
from tests.controlplane.process import Process
from tests.controlplane.wait import wait_for
from tests.integration.berth import Berth, configuration
from tests.integration.component import environment

NOTHING = Workload(name="nothing", about="", steps=[])
"""A workload without steps."""
START = 120.0
"""Seconds that a start may take on a busy machine."""
_ROOT = Path(__file__).parents[1]
_BUCKET = re.compile(r'scheduler_scheduling_algorithm_duration_seconds_bucket\{.*?le="([^"]+)".*?\} (\S+)')


TOPOLOGY = "TopologyAwareWorkloadScheduling"
"""A gate that kube-scheduler has, and Berth's profiles have plugins for."""


GROUP_CLAIMS = "DRAWorkloadResourceClaims"
"""A gate that kube-scheduler has, and Berth's plugin DynamicResources."""


def profile_for(workload: Workload) -> Object:
    """What a profile of Berth has beside its name: the workload's, and what does as kube-scheduler's gates do."""
    found, gates = _plugin_config(workload), workload.gates
    if TOPOLOGY in gates:
        enabled = [{"name": name} for name in ("TopologyPlacementGenerator", "PodGroupPodsCount")]
        found["plugins"] = {"multiPoint": {"enabled": enabled}}
    if GROUP_CLAIMS in gates:
        args = {"featureGates": {GROUP_CLAIMS: True}}
        found.setdefault("pluginConfig", []).append({"name": "DynamicResources", "args": args})
    return found


def _plugin_config(workload: Workload) -> Object:
    made = [{"name": one.name, "args": one.args} for one in workload.plugin_config]
    return {"pluginConfig": made} if made else {}


class Contender(ABC):
    """One kind of scheduler on one cluster. `key` is what history and goals call it."""

    key: ClassVar[str]
    title: ClassVar[str]
    modes: ClassVar[tuple[Mode, ...]] = tuple(Mode)

    def __init__(self, cluster: Cluster, home: Path) -> None:
        self.cluster = cluster
        self.home = home
        self.workload = NOTHING
        """What it is started for."""
        self._started = 0

    @property
    def scheduler_name(self) -> str:
        """What its pods ask for."""
        return f"bench-{self.key}"

    @abstractmethod
    def start(self) -> Process:
        """Start one and wait until it schedules."""

    @abstractmethod
    def decisions(self, process: Process) -> Mapping[float, float]:
        """Quantile → milliseconds of a decision alone; ends the process if it tells only then. Empty: not known."""

    def held(self, process: Process) -> Mapping[str, float]:
        """Of an ended process, how long it held its event loop at one go, in milliseconds; empty: not known."""
        return {}

    def measures(self, workload: Workload) -> bool:
        """Whether a run of it says something about this workload."""
        return True

    def place(self, name: str) -> Path:
        """A file of this start's own."""
        self._started += 1
        return self.home / f"{self.key}-{self._started}-{name}"


class BerthContender(Contender):
    """`berth run`, with kube-scheduler's own rights."""

    key, title = "berth", "Berth"

    def start(self) -> Berth:
        started = self.spawn()
        started.wait_synced()
        return started

    def spawn(self) -> Berth:
        """Start one, and wait for nothing."""
        compile_once()
        place = self.place("home")
        place.mkdir()
        kubeconfig = self.cluster.kubeconfig(place / "kubeconfig", self.cluster.scheduler_token())
        profile = {"schedulerName": self.scheduler_name, **profile_for(self.workload)}
        started = Berth(place, self.scheduler_name, kubeconfig, configuration(self.scheduler_name, profiles=[profile]))
        started.argv += self.options(place)
        started.start()
        return started

    def options(self, place: Path) -> list[str]:
        """More of its command line."""
        return []

    def decisions(self, process: Process) -> Mapping[float, float]:
        assert isinstance(process, Berth)
        said = process.end()
        return {
            part: said[name] for part, name in ((0.5, "decision_p50_ms"), (0.99, "decision_p99_ms")) if name in said
        }

    def held(self, process: Process) -> Mapping[str, float]:
        assert isinstance(process, Berth)
        said = process.lines("stopped")[-1]
        return {name: said[f"held_{name}_ms"] for name in ("p99", "longest", "longest_wall")}


class KubeScheduler(Contender):
    """kube-scheduler as it comes: it looks at a share of the nodes only."""

    key, title = "kube", "kube-scheduler"
    config: ClassVar[Object] = {}

    def start(self) -> Process:
        profile = {"schedulerName": self.scheduler_name, **_plugin_config(self.workload)}
        config = {**self.config, "profiles": [profile]}
        return self.cluster.start_kube_scheduler(config=config, gates=self.workload.gates)

    def decisions(self, process: Process) -> Mapping[float, float]:
        certificate = next(Path(word.removeprefix("--cert-dir=")) for word in process.argv if "--cert-dir=" in word)
        api = Api(process.url, ca=certificate / "kube-scheduler.crt")
        buckets = {float(le.replace("+Inf", "inf")): float(n) for le, n in _BUCKET.findall(api.text("/metrics"))}
        api.close()
        return {part: 1000 * found for part in (0.5, 0.99) if (found := _interpolated(buckets, part)) is not None}


class KubeSchedulerAllNodes(KubeScheduler):
    """kube-scheduler when it scores every node, as Berth does."""

    key, title = "kube-all", "kube-scheduler, all nodes"
    modes = (Mode.BACKLOG,)
    config: ClassVar[Object] = {"percentageOfNodesToScore": 100}


class Binder(Contender):
    """The bare binder, where it makes all the writes that a pod needs."""

    key, title = "binder", "bare binder"
    module = "bench.binder"

    def start(self) -> Process:
        kubeconfig = self.cluster.kubeconfig(self.place("kubeconfig"), self.cluster.scheduler_token())
        argv = [sys.executable, "-m", self.module, str(kubeconfig), self.scheduler_name]
        started = Process(self.title, argv, self.place("log"), {**environment(), "PYTHONPATH": str(_ROOT)})
        started.start()

        def ready() -> bool:
            started.check()
            return READY in started.log.read_text()

        wait_for(f"the {self.title} to be ready", ready, START)
        return started

    def decisions(self, process: Process) -> Mapping[float, float]:
        return {}

    def measures(self, workload: Workload) -> bool:
        return workload.ceiling and not workload.has_devices


class ClaimBinder(Binder):
    """The bare binder that writes claims too."""

    key, title = "claim-binder", "bare binder of claims"
    module = "bench.claim_binder"

    def measures(self, workload: Workload) -> bool:
        return workload.ceiling and workload.has_devices


CONTENDERS: tuple[type[Contender], ...] = (KubeScheduler, KubeSchedulerAllNodes, BerthContender, Binder, ClaimBinder)


@cache
def compile_once() -> None:
    """Compile Berth's modules to byte code, as its image has them: what a start compiles itself is 0.2 s of CPU.

    Where PYTHONDONTWRITEBYTECODE is set, each start would compile anew what has changed since the last installation.
    """
    if not compileall.compile_dir(_ROOT / "scheduler/podberth", quiet=1):
        raise RuntimeError("Berth's modules can't be compiled")


def _interpolated(buckets: Mapping[float, float], part: float) -> float | None:
    """A quantile of a cumulative histogram, by linear interpolation within its bucket as Prometheus does it."""
    total = max(buckets.values(), default=0.0)
    if not total:
        return None
    below, seen = 0.0, 0.0
    for bound, count in sorted(buckets.items()):
        if count >= part * total:
            if bound == float("inf"):
                return below
            return below + (bound - below) * (part * total - seen) / (count - seen)
        below, seen = bound, count
    return below
