"""How often two schedulers get in each other's way on a nearly full cluster: `python -m bench.beside`.

On a real etcd and kube-apiserver, for each pair: kube-scheduler beside another kube-scheduler, kube-scheduler beside
Berth, Berth beside another Berth. Both get pods at the same time. A small kubelet of ours admits pods in the order of
their Bindings, or refuses them (OutOfcpu), as kubelets do. Two loads:

full    Each node has room for one pod more. As many pods come as nine tenths of that room: one half for each scheduler.
        A conflict is a pod that a kubelet refuses.
apart   There is room everywhere. Apps of two pods come, one for each scheduler, that must not be in one zone.
        A conflict is an app both of whose pods are in one zone.

The pairs take turns, so that others' load on the machine meets all of them. `--record` writes a file in bench/history.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from bench import history
from tests.controlplane import namespaces
from tests.controlplane.api import Api, ApiError, Object
from tests.controlplane.cluster import Cluster, ControlPlane
from tests.controlplane.process import Process
from tests.controlplane.wait import wait_for
from tests.integration import checks
from tests.integration.berth import Berth, configuration
from tests.integration.objects import NODES, ZONE, apart, node, pod, pods_path

KUBE, BERTH = "kube-scheduler", "Berth"
PAIRS = ((KUBE, KUBE), (KUBE, BERTH), (BERTH, BERTH))
FULL, APART = "full", "apart"
ZONES = 6
_CPU, _SLOTS = 250, 4
"""What each pod asks for, in thousandths of a core, and how many such pods a node takes."""
_PATIENCE = 120.0


class Figures(msgspec.Struct, rename="camel"):
    """One pair under one load. `withdrawn`: Bindings that Berth took back before they were sent; `noticed`: pods of
    whose broken requirements Berth told."""

    pair: tuple[str, str]
    load: str
    pods: int = 0
    conflicts: int = 0
    refused: dict[str, int] = {}
    """By the scheduler that had bound the pod."""
    withdrawn: int = 0
    noticed: int = 0

    @property
    def rate(self) -> float:
        """Conflicts among the pods (full) or apps (apart) that came."""
        return self.conflicts / (self.pods if self.load == FULL else self.pods // 2) if self.pods else 0.0


class Kubelets:
    """Admits what fits by the order of the Bindings, on all nodes, in a thread. As a context it works."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.refused: dict[str, str] = {}
        """UID → schedulerName of pods that were refused."""
        self._api = cluster.api_as(cluster.admin["token"])
        self._path = pods_path(namespace)
        self._admitted: dict[str, str] = {}
        self._taken: Counter[str] = Counter()
        self._stopping = False
        self._thread = threading.Thread(target=self._work, daemon=True)

    def __enter__(self) -> Kubelets:
        self._since = self._api.get(self._path, limit=1)["metadata"]["resourceVersion"]
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join(_PATIENCE)

    def stop(self) -> None:
        """End with the next event: the pods are about to be deleted."""
        self._stopping = True

    def _work(self) -> None:
        for event in self._api.watch(self._path, resourceVersion=self._since, idle=600):
            one, uid = event["object"], event["object"]["metadata"]["uid"]
            if event["type"] == "DELETED":
                where = self._admitted.pop(uid, None)
                if where is not None:
                    self._taken[where] -= 1
            elif (where := checks.node_of(one)) and uid not in self._admitted and uid not in self.refused:
                self._admit(one, uid, where)
            if self._stopping:
                return

    def _admit(self, one: Object, uid: str, where: str) -> None:
        if self._taken[where] < _SLOTS:
            self._admitted[uid] = where
            self._taken[where] += 1
            return
        self.refused[uid] = one["spec"]["schedulerName"]
        status = {"phase": "Failed", "reason": "OutOfcpu", "message": "Node didn't have enough resource: cpu"}
        try:
            self._api.patch(f"{self._path}/{one['metadata']['name']}/status", {"status": status})
        except ApiError as error:
            if error.status not in (404, 409):
                raise


class Beside:
    """One control plane; a pair of schedulers is started for each turn."""

    def __init__(self, cluster: ControlPlane, home: Path, nodes: int) -> None:
        self._cluster = cluster
        self._api: Api = cluster.api
        self._home = home
        self._nodes = [f"beside-{i}" for i in range(nodes)]
        self._turns = 0

    def set_up(self) -> None:
        """Nodes in zones."""
        cpu = f"{_CPU * _SLOTS}m"
        self._api.create_many(
            NODES, [node(name, f"zone-{i % ZONES}", cpu=cpu, pods="110") for i, name in enumerate(self._nodes)]
        )

    def turn(self, pair: tuple[str, str], load: str, found: Figures, pods: int) -> None:
        """Start both, let the pods come at once, count, and clear everything away."""
        self._turns += 1
        namespace = namespaces.create(self._api, "beside")
        names = [f"side-{side}-{self._turns}" for side in "ab"]
        filled = []
        with Kubelets(self._cluster, namespace) as kubelets:
            if load == FULL:
                filled = self._fill(namespace)
            processes = [self._start(kind, name) for kind, name in zip(pair, names, strict=True)]
            try:
                bodies = self._bodies(load, names, pods)
                with ThreadPoolExecutor(2) as threads:
                    list(threads.map(lambda some: self._api.create_many(pods_path(namespace), some, 4), bodies))
                self._wait(namespace, len(filled) + pods, kubelets, processes)
                self._count(load, namespace, found, pods, kubelets, dict(zip(names, pair, strict=True)))
                for process in processes:
                    if isinstance(process, Berth):
                        found.withdrawn += len(process.lines("binding withdrawn before anything was done"))
                        found.noticed += len(process.lines("placement conflict"))
            finally:
                for process in processes:
                    process.kill()
                kubelets.stop()
                namespaces.remove(self._api, namespace, by_hand=True)

    def _fill(self, namespace: str) -> list[str]:
        """All of each node but room for one pod."""
        names = [f"filler-{i}" for i in range((_SLOTS - 1) * len(self._nodes))]
        made = [pod(name, "nobody", cpu=f"{_CPU}m", memory="1Mi") for name in names]
        for i, one in enumerate(made):
            one["spec"]["nodeName"] = self._nodes[i % len(self._nodes)]
        self._api.create_many(pods_path(namespace), made)
        return names

    def _bodies(self, load: str, names: Sequence[str], pods: int) -> list[list[Object]]:
        """The pods of each side."""
        made: list[list[Object]] = []
        for side, name in enumerate(names):
            if load == FULL:
                made.append([pod(f"{side}-{i}", name, cpu=f"{_CPU}m", memory="1Mi") for i in range(pods // 2)])
                continue
            labels = [{"app": f"app-{i}"} for i in range(pods // 2)]
            made.append(
                [
                    pod(f"{side}-{i}", name, cpu="1m", memory="1Mi", labels=of, affinity=apart(of, ZONE))
                    for i, of in enumerate(labels)
                ]
            )
        return made

    def _wait(self, namespace: str, count: int, kubelets: Kubelets, processes: Sequence[Process]) -> None:
        """Until each pod was bound, and the kubelets have seen all of them."""

        def done() -> bool:
            for process in processes:
                process.check()
            there = self._api.list(pods_path(namespace), fieldSelector="spec.nodeName!=")
            failed = sum(one["status"].get("phase") == "Failed" for one in there)
            return len(there) == count and failed == len(kubelets.refused)

        wait_for("all pods to be bound", done, _PATIENCE, 0.2)
        time.sleep(1.0)  # of Bindings that were made at the last moment kubelets still have to hear

    def _count(
        self, load: str, namespace: str, found: Figures, pods: int, kubelets: Kubelets, kinds: dict[str, str]
    ) -> None:
        found.pods += pods
        if load == FULL:
            found.conflicts += len(kubelets.refused)
            for name in kubelets.refused.values():
                found.refused[kinds[name]] = found.refused.get(kinds[name], 0) + 1
            return
        zones = {one["metadata"]["name"]: one["metadata"]["labels"][ZONE] for one in self._api.list(NODES)}
        where: dict[str, list[str]] = {}
        for one in self._api.list(pods_path(namespace)):
            where.setdefault(one["metadata"]["labels"]["app"], []).append(zones[checks.node_of(one)])
        found.conflicts += sum(len(set(of_app)) < len(of_app) for of_app in where.values())

    def _start(self, kind: str, name: str) -> Process:
        if kind == KUBE:
            return self._cluster.start_kube_scheduler(scheduler_name=name)
        place = self._home / name
        place.mkdir()
        kubeconfig = self._cluster.kubeconfig(place / "kubeconfig", self._cluster.scheduler_token())
        started = Berth(place, name, kubeconfig, configuration(name))
        started.start()
        started.wait_synced()
        return started


def table(rows: Sequence[Figures]) -> str:
    """Each pair's conflicts, and how they compare with a pair of kube-schedulers."""
    lines = [
        "| load | pair | pods | conflicts | of 1,000 | kube pair = 1 | refused | withdrawn in time | noticed |",
        "| --- | --- | ---: | ---: | ---: | ---: | --- | ---: | ---: |",
    ]
    for row in rows:
        base = next(one for one in rows if one.load == row.load and one.pair == (KUBE, KUBE)).rate
        ratio = f"{row.rate / base:.2f}" if base else ""
        refused = ", ".join(f"{count} of {who}" for who, count in sorted(row.refused.items()))
        berth = BERTH in row.pair
        lines.append(
            f"| {row.load} | {' + '.join(row.pair)} | {row.pods} | {row.conflicts} | {1000 * row.rate:.1f} | {ratio} | "
            f"{refused} | {row.withdrawn if berth else ''} | {row.noticed if berth and row.load == APART else ''} |"
        )
    return "\n".join(lines)


def record(rows: Sequence[Figures], began: history.Began, nodes: int, turns: int) -> Path:
    """Write a file in bench/history."""
    made = {
        "date": began.at.strftime("%Y-%m-%d %H:%M UTC"),
        "commit": began.commit,
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "nodes": nodes,
        "turns": turns,
        "rows": rows,
    }
    place = history.DIRECTORY / "beside"
    place.mkdir(exist_ok=True)
    file = place / f"{began.at:%Y-%m-%d-%H%M}-{began.commit.partition(' ')[0]}.json"
    file.write_bytes(msgspec.json.format(msgspec.json.encode(made)) + b"\n")
    return file


def main() -> int:
    """Take turns, and print the table."""
    options = argparse.ArgumentParser(prog="python -m bench.beside", description=(__doc__ or "").partition("\n\n")[0])
    options.add_argument("--nodes", type=int, default=200, help="how many nodes there are (default: 200)")
    options.add_argument("--turns", type=int, default=5, help="how often each pair takes its turn (default: 5)")
    options.add_argument("--loads", default=f"{FULL},{APART}", help="which loads, separated by commas (default: both)")
    options.add_argument("--seed", type=int, default=1, help="in which order the pairs take turns (default: 1)")
    options.add_argument("--record", action="store_true", help="write a file in bench/history/beside")
    chosen = options.parse_args()
    loads = chosen.loads.split(",")
    if unknown := set(loads) - {FULL, APART}:
        options.error(f"--loads: {', '.join(sorted(unknown))}: want {FULL} or {APART}")
    began, rng = history.begin(), random.Random(chosen.seed)
    rows = [Figures(pair, load) for load in loads for pair in PAIRS]
    pods = 2 * (9 * chosen.nodes // 20)
    with tempfile.TemporaryDirectory(prefix="berth-beside-") as directory, ControlPlane() as cluster:
        beside = Beside(cluster, Path(directory), chosen.nodes)
        beside.set_up()
        for number in range(chosen.turns):
            for row in rng.sample(rows, len(rows)):
                beside.turn(row.pair, row.load, row, pods)
                print(f"turn {number + 1}: {row.load}, {' + '.join(row.pair)}: {row.conflicts} so far", file=sys.stderr)
    print(table(rows))
    if chosen.record:
        print(record(rows, began, chosen.nodes, chosen.turns))
    return 0


if __name__ == "__main__":
    sys.exit(main())
