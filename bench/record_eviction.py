"""Writes docs/recorded-eviction.md: one eviction, from the changed label to the new Binding, on a real control plane.

`python -m bench.record_eviction` (or with `--print`, to standard output). Commands are run as shown; see `transcript`.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import yaml

from bench.record_run import CONFIG
from bench.transcript import ROOT, Transcript, recorded, write
from tests.controlplane.cluster import ControlPlane
from tests.integration import evictor

PAGE = ROOT / "docs" / "recorded-eviction.md"
COLUMNS = "TYPE:.type,REASON:.reason,ABOUT:.regarding.kind,NAME:.regarding.name,BY:.reportingController,NOTE:.note"
EVENTS = f"kubectl get events.events.k8s.io -n default --sort-by=.eventTime -o custom-columns={COLUMNS}"
GONE = "kubectl wait pod web-1 --for=delete --timeout=120s"
BACK = "until [ \"$(kubectl get pods -o jsonpath='{.items[*].spec.nodeName}')\" = node-b ]; do sleep 0.2; done"


def files(home: Path) -> None:
    """The manifests that the run applies."""
    nodes = [evictor.node("node-a"), evictor.node("node-b"), evictor.node("node-c", "hdd")]
    pod = evictor.pod("web-1", None, "berth")
    (home / "nodes.yaml").write_text(
        yaml.safe_dump_all([{"apiVersion": "v1", "kind": "Node", **node} for node in nodes], sort_keys=False)
    )
    (home / "web.yaml").write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Pod", **pod}, sort_keys=False))
    (home / "berth.yaml").write_text(
        yaml.safe_dump({**CONFIG, "clientConnection": {"kubeconfig": "scheduler.kubeconfig"}}, sort_keys=False)
    )
    for name in ("scheduler-rbac.yaml", "evictor-rbac.yaml"):
        shutil.copy(ROOT / "manifests" / name, home)


def record(page: Transcript, home: Path, cluster: ControlPlane) -> None:
    """The run."""
    files(home)
    page.say(
        "# One eviction, recorded",
        "",
        f"{recorded('record_eviction')}: etcd, kube-apiserver and kubectl as `make controlplane` builds them, `berth "
        "run` and `berth evictor` as processes of their own with the rights of `manifests/scheduler-rbac.yaml` and "
        "`manifests/evictor-rbac.yaml`. No kubelet and no controller manager runs: the recording itself makes a new "
        "pod where one is gone, as a ReplicaSet would. The grace is shortened to 20 s.",
    )
    page.run("kubectl create -f nodes.yaml")
    page.run("kubectl create namespace berth")
    page.run("kubectl apply -f scheduler-rbac.yaml -f evictor-rbac.yaml | wc -l")
    for name in ("scheduler", "evictor"):
        token = cluster.service_account_token("berth", f"berth-{name}")
        cluster.kubeconfig(home / f"{name}.kubeconfig", token)
    page.background("berth run --config berth.yaml 2> scheduler.log")
    page.say("A pod that asks for an SSD for as long as it runs; node-c has none. (node-b is cordoned for a moment.)")
    page.run("sed -n '/annotations/,/ownerReferences/p' web.yaml")
    page.run("kubectl cordon node-b && kubectl create -f web.yaml")
    page.run("until [ \"$(kubectl get pod web-1 -o jsonpath='{.spec.nodeName}')\" ]; do sleep 0.2; done")
    page.run("kubectl uncordon node-b && kubectl get pods -o wide")
    page.run("berth explain web-1 | head -5")
    page.background(
        "berth evictor --kubeconfig evictor.kubeconfig -n berth --grace 20 --max-changed 0.5 2> evictor.log"
    )
    page.run("until grep -q synced evictor.log; do sleep 0.2; done")
    page.say("## The label changes")
    with evictor.replicas(cluster.api, "default"):
        page.run("date -u +%T && kubectl label node node-a disk=hdd --overwrite")
        page.run("berth evictor --dry-run; echo exit code $?")
        page.run("berth explain web-1 | sed -n '4,5p'")
        page.run(GONE)
        page.run(BACK)
    page.run("date -u +%T && kubectl get pods -o wide")
    page.say("## What was told")
    page.run(f"until {EVENTS} | grep -q Evicted; do sleep 0.2; done")
    page.run(EVENTS)
    page.say("The evictor's own log, less what is the same on every line:")
    page.run("grep -E 'evicting|answered' evictor.log | cut -c -420")
    page.run("berth evictor --dry-run")


if __name__ == "__main__":
    write(PAGE, record)
