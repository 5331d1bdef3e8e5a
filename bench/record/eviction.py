"""docs/evidence/recorded-eviction.md: one eviction on a real control plane, from changed label to new Binding."""

from __future__ import annotations

from bench.record.run import CONFIG
from bench.record.transcript import Recording, Transcript
from tests.integration import evictor

COLUMNS = "TYPE:.type,REASON:.reason,ABOUT:.regarding.kind,NAME:.regarding.name,BY:.reportingController,NOTE:.note"
EVENTS = f"kubectl get events.events.k8s.io -n default --sort-by=.eventTime -o custom-columns={COLUMNS}"
GONE = "kubectl wait pod web-1 --for=delete --timeout=120s"
BACK = "until [ \"$(kubectl get pods -o jsonpath='{.items[*].spec.nodeName}')\" = node-b ]; do sleep 0.2; done"


def files(page: Transcript) -> None:
    """The manifests that the run applies."""
    nodes = [evictor.node("node-a"), evictor.node("node-b"), evictor.node("node-c", "hdd")]
    pod = evictor.pod("web-1", None, "berth")
    page.write("nodes", *({"apiVersion": "v1", "kind": "Node", **node} for node in nodes))
    page.write("web", {"apiVersion": "v1", "kind": "Pod", **pod})
    page.write("berth", {**CONFIG, "clientConnection": {"kubeconfig": "scheduler.kubeconfig"}})
    page.copy("scheduler-rbac.yaml", "evictor-rbac.yaml")


def record(page: Transcript) -> None:
    """The run."""
    files(page)
    page.say(
        "# One eviction, recorded",
        "",
        f"{page.recorded()}: etcd, kube-apiserver and kubectl as `make controlplane` builds them, `berth "
        "run` and `berth evictor` as processes of their own with the rights of `manifests/scheduler-rbac.yaml` and "
        "`manifests/evictor-rbac.yaml`. No kubelet and no controller manager runs: the recording itself makes a new "
        "pod where one is gone, as a ReplicaSet would. The grace is shortened to 20 s.",
    )
    page.run("kubectl create -f nodes.yaml")
    page.run("kubectl create namespace berth")
    page.run("kubectl apply -f scheduler-rbac.yaml -f evictor-rbac.yaml | wc -l")
    for name in ("scheduler", "evictor"):
        page.account(name)
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
    with evictor.replicas(page.cluster.api, "default"):
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


RECORDING = Recording("recorded-eviction.md", record)
