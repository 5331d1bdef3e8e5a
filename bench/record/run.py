"""docs/evidence/recorded-run.md: `berth run` on a real control plane, commands and output as they were."""

from __future__ import annotations

import os

from bench.record.transcript import Recording, Transcript
from tests.controlplane.api import Object
from tests.integration.objects import SHAPES, nodes, pod

SCHEDULER = "berth"
NODES, PODS = 300, 200

CONFIG: Object = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "leaderElection": {"leaderElect": False},
    "clientConnection": {"kubeconfig": "berth.kubeconfig", "qps": 5000, "burst": 5000},
    "profiles": [{"schedulerName": SCHEDULER}],
}
SHAPE_WORDS = {
    "plain": "nothing but 100m CPU and 500Mi",
    "affinity": "required pod affinity, topology zone",
    "antiaffinity": "required pod anti-affinity, topology hostname",
    "nodeaffinity": "required node affinity, zone In two of ten",
    "hetero": "each of another size, 97 apps, preferred anti-affinity by app",
}
COLUMNS = "POD:.regarding.name,BY:.reportingController,ACTION:.action,NOTE:.note"


def files(page: Transcript) -> None:
    """The manifests that the run applies."""
    everything: dict[str, list[Object]] = {"nodes": nodes(NODES, "node")}
    for shape, make in SHAPES.items():
        everything[shape] = make(PODS, SCHEDULER)
        for body in everything[shape]:
            body["metadata"]["labels"]["shape"] = shape
    everything["giant"] = [pod("giant", SCHEDULER, cpu="64", labels={"shape": "giant"})]
    for name, bodies in everything.items():
        kind = "Node" if name == "nodes" else "Pod"
        page.write(name, *({"apiVersion": "v1", "kind": kind, **body} for body in bodies))
    page.write("berth", CONFIG)
    page.copy("scheduler-rbac.yaml")


def record(page: Transcript) -> None:
    """The run."""
    files(page)
    page.say(
        "# A recorded run",
        "",
        f"{page.recorded()}: etcd, kube-apiserver and kubectl as `make controlplane` builds them, and "
        "`berth run` as a process of its own with the rights of `manifests/scheduler-rbac.yaml`. No kubelet and no "
        "controller runs, so bound pods stay Pending; nothing else is left out. Commands and output are as they were; "
        "addresses and paths of the machine are replaced. Nodes without a kubelet have the status Unknown.",
    )
    page.run("kubectl version")
    page.run("berth version")
    page.say(f"## {NODES} nodes in ten zones, {len(SHAPES)} × {PODS} pods")
    page.run("kubectl create -f nodes.yaml | tail -1")
    page.run("kubectl get nodes -L topology.kubernetes.io/zone | head -4")
    page.run(
        "kubectl get node node-0 -o "
        "custom-columns=CPU:.status.allocatable.cpu,MEMORY:.status.allocatable.memory,PODS:.status.allocatable.pods"
    )
    page.say(*(f"- `{shape}.yaml`: {words}" for shape, words in SHAPE_WORDS.items()), "- `giant.yaml`: a pod of 64 CPU")
    page.run("sed '/^---/,$d' antiaffinity.yaml")
    for shape in SHAPES:
        page.run(f"kubectl create -f {shape}.yaml | tail -1")
    page.run("kubectl create -f giant.yaml")
    page.run("kubectl get pods -o wide | head -3")
    page.say("## Berth")
    page.run("kubectl create namespace berth && kubectl apply -f scheduler-rbac.yaml")
    page.account("scheduler", "berth")
    page.run("cat berth.yaml")
    pid = page.background("berth run --config berth.yaml 2> berth.log")
    page.say("Until all but the giant are bound:")
    page.run("until [ $(kubectl get pods --field-selector spec.nodeName= -o name | wc -l) = 1 ]; do sleep 0.2; done")
    page.run("kubectl wait pod giant --for=condition=PodScheduled=False --timeout=60s")
    page.say("What it logged, without a line for each bound pod:")
    page.run("""grep -v '"event": "bound"' berth.log | cut -c -300""")
    page.say("## What is where")
    page.run("kubectl get pods --field-selector spec.nodeName!= --no-headers | wc -l")
    page.run("kubectl get pods --field-selector spec.nodeName=")
    for shape in SHAPES:
        page.run(f"kubectl get pods -l shape={shape} -o wide | head -4")
    page.say("The promises, counted by other means than Berth's. One zone for all that must be together:")
    on = "kubectl get pods -l shape={shape} -o jsonpath='{{range .items[*]}}{{.spec.nodeName}}{{\"\\n\"}}{{end}}'"
    zones = "kubectl get nodes -L topology.kubernetes.io/zone --no-headers | awk '{print $1, $NF}' | sort > zones"
    page.run(zones)
    page.run(on.format(shape="affinity") + " | sort | join - zones | awk '{print $2}' | sort | uniq -c")
    page.say("No node twice for those that must be apart:")
    page.run(on.format(shape="antiaffinity") + " | sort | uniq -d | wc -l")
    page.say("Two zones for those that name them:")
    page.run(on.format(shape="nodeaffinity") + " | sort | join - zones | awk '{print $2}' | sort | uniq -c")
    page.say("One Scheduled event each:")
    events = "kubectl get events.events.k8s.io --field-selector reason=Scheduled"
    page.run(
        events + " -o custom-columns=POD:.regarding.name --no-headers | sort | uniq -c | awk '{print $1}' | uniq -c"
    )
    page.run(events + f" --sort-by=.eventTime -o custom-columns={COLUMNS} | (head -3; echo ...; tail -1)")
    page.say("The first and the last of them:")
    page.run(events + " --sort-by=.eventTime -o custom-columns=T:.eventTime --no-headers | sed -n '1p;$p'")
    page.say("## A bound pod and one that can't be")
    page.run("kubectl describe pod anti-7")
    page.run("kubectl describe pod giant")
    page.run("kubectl get pod giant -o jsonpath='{.status.conditions}'")
    page.say("## A node for the giant, and the end")
    page.run("sed '/^---/,$d; s/node-0/big/; s/cpu: .4./cpu: \"96\"/' nodes.yaml | kubectl create -f -")
    page.run("kubectl wait pod giant --for=condition=PodScheduled --timeout=60s && kubectl get pod giant -o wide")
    os.kill(pid, 15)
    code = page.ended()
    page.say(f"After SIGTERM it ends with exit code {code}, and its last line is:")
    page.run("tail -1 berth.log")


RECORDING = Recording("recorded-run.md", record)
