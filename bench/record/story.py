"""docs/evidence/recorded-story.md: `berth story` about a pod that was gated, found no room, and was woken by a node."""

from __future__ import annotations

from bench.record.transcript import Recording, Transcript
from tests.controlplane.api import Object
from tests.integration.objects import node, pod

SCHEDULER, NAMESPACE = "berth", "shop"
CONFIG: Object = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "leaderElection": {"leaderElect": False},
    "profiles": [{"schedulerName": SCHEDULER}],
}


def files(page: Transcript) -> None:
    """The manifests that the run applies."""
    gated = pod("web", SCHEDULER, cpu="2", schedulingGates=[{"name": "example.com/quota"}])
    made = {"node-a": node("node-a", cpu="4"), "node-b": node("node-b", cpu="4"), "web": gated}
    made["db"] = pod("db", SCHEDULER, cpu="3")
    for name, body in made.items():
        page.write(name, {"apiVersion": "v1", "kind": "Node" if name.startswith("node") else "Pod", **body})
    page.write("berth", CONFIG)


def record(page: Transcript) -> None:
    """The run: a gate, a node that is too full, and one that comes."""
    files(page)
    page.say(
        "# A recorded story",
        "",
        f"{page.recorded()}: what `berth story` prints of a pod that was gated, found no room, and was woken by a "
        "node. `berth run` listens on this machine, so no port-forward is needed.",
    )
    page.run(f"kubectl create namespace {NAMESPACE}")
    page.background("berth run --config berth.yaml --bind-address 127.0.0.1 2> berth.log")
    page.run(f"kubectl -n {NAMESPACE} create -f node-a.yaml -f db.yaml -f web.yaml")
    page.run(f"kubectl -n {NAMESPACE} wait pod db --for=condition=PodScheduled --timeout=60s")
    remove = '[{"op": "remove", "path": "/spec/schedulingGates"}]'
    page.run(f"kubectl -n {NAMESPACE} patch pod web --type json -p '{remove}'")
    page.run(f"kubectl -n {NAMESPACE} wait pod web --for=condition=PodScheduled=False --timeout=60s")
    page.run("sleep 5; kubectl create -f node-b.yaml")
    page.run(f"kubectl -n {NAMESPACE} wait pod web --for=condition=PodScheduled --timeout=60s; sleep 1")
    page.run(f"berth story web -n {NAMESPACE} --insecure-skip-tls-verify")
    page.say("How long each extension point took:")
    page.run(f"berth story web -n {NAMESPACE} --insecure-skip-tls-verify --points | tail -5")
    page.say("A pod that nobody has seen; the exit code is 1:")
    page.run(f"berth story nobody -n {NAMESPACE} --insecure-skip-tls-verify || echo $?")


RECORDING = Recording("recorded-story.md", record)
