"""docs/evidence/recorded-preemption-and-volumes.md: one preemption and one WaitForFirstConsumer binding, as they were.

The PV controller and the provisioner, which no control plane for tests has, are those of the integration tests.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from bench.record.run import COLUMNS, CONFIG, SCHEDULER
from bench.record.transcript import Recording, Transcript
from tests.controlplane.api import Object
from tests.controlplane.cluster import ControlPlane
from tests.integration.objects import node, pod
from tests.integration.volumes import Disks

LOOK = 0.3
"""Seconds between two looks of the PV controller."""


def files(page: Transcript) -> None:
    """The manifests that the run applies."""
    everything: dict[str, list[Object]] = {
        "nodes": [{"kind": "Node", **node(f"node-{zone}", zone, cpu="2")} for zone in ("a", "b")],
        "low": [
            {"kind": "Pod", **pod("low-guarded", SCHEDULER, cpu="1500m", labels={"app": "guarded"})},
            {"kind": "Pod", **pod("low-free", SCHEDULER, cpu="1500m", labels={"app": "free"})},
        ],
        "high": [{"kind": "Pod", **pod("high", SCHEDULER, cpu="1", priorityClassName="important")}],
        "claim": [
            {
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": "data"},
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "storageClassName": "fast",
                    "resources": {"requests": {"storage": "1Gi"}},
                },
            },
            {
                "kind": "Pod",
                **pod("db", SCHEDULER, volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]),
            },
        ],
    }
    everything["low"][1]["metadata"]["finalizers"] = ["example.com/last-words"]
    for name, bodies in everything.items():
        page.write(name, *({"apiVersion": "v1", **body} for body in bodies))
    guard: Object = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "guard"}}
    guard["spec"] = {"minAvailable": 1, "selector": {"matchLabels": {"app": "guarded"}}}
    important = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "important"}}
    page.write("important", guard, important | {"value": 1000})
    fast = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "fast"}}
    fast |= {"provisioner": "csi.example.com", "volumeBindingMode": "WaitForFirstConsumer"}
    page.write("class", fast)
    page.write("berth", CONFIG)
    page.copy("scheduler-rbac.yaml")


@contextlib.contextmanager
def pv_controller(cluster: ControlPlane) -> Iterator[None]:
    """The PV controller and the provisioner of the class `fast`, while the block runs."""
    disks, over = Disks(cluster, "default"), threading.Event()
    disks.name = "fast"

    def work() -> None:
        while not over.wait(LOOK):
            disks.step()

    with ThreadPoolExecutor(1) as threads:
        worker = threads.submit(work)
        try:
            yield
        finally:
            over.set()
        worker.result()


def record(page: Transcript) -> None:
    """The run."""
    files(page)
    page.say(
        "# Recorded: a preemption, and a volume that waits for its pod",
        "",
        f"{page.recorded()}: etcd, kube-apiserver and kubectl as `make controlplane` builds them, and "
        "`berth run` as a process of its own with the rights of `manifests/scheduler-rbac.yaml`. No kubelet and no "
        "controller manager runs; the PV controller's part is played by that of the integration tests, from where the "
        "page says so. Commands and output are as they were; addresses and paths of the machine are replaced.",
    )
    page.run("kubectl create -f nodes.yaml")
    page.run("kubectl create namespace berth && kubectl apply -f scheduler-rbac.yaml | wc -l")
    page.account("scheduler", "berth")
    pid = page.background("berth run --config berth.yaml 2> berth.log")
    page.say("## A preemption", "", "Two pods of low priority fill the two nodes; a budget guards one of them.")
    page.run("kubectl create -f important.yaml && cat important.yaml")
    page.run("kubectl create -f low.yaml")
    page.run("kubectl wait pod low-guarded low-free --for=condition=PodScheduled --timeout=60s")
    page.run("kubectl get pods -o wide")
    page.say("Then a pod comes that has priority 1000 and fits nowhere:")
    page.run("kubectl create -f high.yaml")
    page.run("kubectl wait pod high --for=jsonpath='{.status.nominatedNodeName}' --timeout=60s")
    page.run("kubectl get pods -o wide")
    page.say("What it was told, and what the victim has in its status, which a finalizer keeps from going at once:")
    page.run("kubectl get pod high -o jsonpath='{.status.conditions}'")
    page.run("kubectl get pod low-free -o jsonpath='{.status.conditions}'")
    page.say("The victim goes, and the pod takes the node that was kept for it:")
    page.run('kubectl patch pod low-free --type=merge -p \'{"metadata":{"finalizers":null}}\'')
    page.run("kubectl wait pod high --for=condition=PodScheduled --timeout=60s && kubectl get pods -o wide")
    page.say("All events, in order:")
    page.run(f"kubectl get events.events.k8s.io --sort-by=.eventTime -o custom-columns=REASON:.reason,{COLUMNS}")
    page.say("## A volume that waits for its pod")
    page.run("kubectl delete pods --all --grace-period=0 --force 2>/dev/null; kubectl create -f class.yaml")
    page.run("cat class.yaml claim.yaml")
    page.run("kubectl create -f claim.yaml")
    page.say("Berth picks a node and says so on the claim; the pod is not bound yet, for nobody has made the volume:")
    selected = "{.metadata.annotations.volume\\.kubernetes\\.io/selected-node}"
    page.run(f"kubectl wait pvc data --for=jsonpath='{selected}' --timeout=60s")
    page.run(f"kubectl get pvc data -o jsonpath='{selected}'")
    page.run("kubectl get pvc,pod")
    page.say("Now the PV controller and the provisioner begin to work:")
    with pv_controller(page.cluster):
        page.run("kubectl wait pvc data --for=jsonpath='{.status.phase}'=Bound --timeout=60s")
        page.run("kubectl wait pod db --for=condition=PodScheduled --timeout=60s")
    page.run("kubectl get pvc,pv && kubectl get pod db -o wide")
    page.run("kubectl get pv -o jsonpath='{.items[0].spec.nodeAffinity}'")
    events = "kubectl get events.events.k8s.io --field-selector regarding.name=db"
    page.run(f"{events} --sort-by=.eventTime -o custom-columns=REASON:.reason,{COLUMNS}")
    os.kill(pid, 15)
    page.say(f"After SIGTERM the scheduler ended with exit code {page.ended()}. Its last line is:")
    page.run("tail -1 berth.log | cut -c -300")


RECORDING = Recording("recorded-preemption-and-volumes.md", record)
