"""docs/evidence/recorded-install.md: the chart on a real API server, its components with its accounts, a leader killed.

Components are started as their Deployments say, since no kubelet is here to do it.
"""

from __future__ import annotations

import time

from bench.record.transcript import Recording, Transcript
from tests.chart import build
from tests.chart.rendering import CHART, Chart
from tests.controlplane.wait import wait_for
from tests.integration.installed import Installed, Replica
from tests.integration.objects import NODES, nodes, pod

PATIENCE = 60.0
POLICY = """\
apiVersion: podberth.dev/v1alpha1
kind: MetadataPolicy
metadata:
  name: to-berth
spec:
  rules:
    - policyPredicate: {}
      policyAction:
        updatedAnnotations: {scheduler.alpha.kubernetes.io/name: berth}
"""
PLACED = "custom-columns=NAME:.metadata.name,SCHEDULER:.spec.schedulerName,NODE:.spec.nodeName"
HOLDER = "kubectl -n berth get lease berth -o jsonpath='{.spec.holderIdentity}{\"\\n\"}'"


def files(page: Transcript) -> None:
    """What the run applies."""
    (page.home / "policy.yaml").write_text(POLICY)
    for name in ("first", "next"):
        page.write(name, {"apiVersion": "v1", "kind": "Pod", **pod(name, "default-scheduler")})


def started(page: Transcript, there: Installed, component: str) -> Replica:
    """Start one replica, and say as what."""
    (container,) = there.deployment("berth", component)["spec"]["template"]["spec"]["containers"]
    replica = there.start("berth", component)
    page.say(f"- `berth {' '.join(container['args'])}`")
    return replica


def record(page: Transcript) -> None:
    """The run."""
    files(page)
    (page.home / "chart").symlink_to(CHART)
    there = Installed(page.cluster, Chart(build.HELM.command(), page.home), page.home)
    try:
        install(page, there)
    finally:
        there.close()


def install(page: Transcript, there: Installed) -> None:
    """From the chart to a takeover."""
    page.say(
        "# A recorded installation",
        "",
        f"{page.recorded()}: etcd, kube-apiserver, kubectl and Helm as `make controlplane` builds them. No "
        "kubelet is here, so the recorder starts each component as its Deployment says, with a token of its service "
        "account; ports are moved, and the webhook is registered by address. Commands and output are as they were.",
    )
    page.run("helm version --short")
    page.say("## Installed, where Pod Security enforces its level restricted")
    page.run("kubectl create namespace berth")
    page.run("kubectl label namespace berth pod-security.kubernetes.io/enforce=restricted")
    page.run("helm install berth chart -n berth")
    page.run("kubectl -n berth get deployments,poddisruptionbudgets,services,serviceaccounts,roles -o name")
    page.run("kubectl get clusterroles,crds -o name | grep -e berth -e podberth")
    page.say("## Started, with these accounts and no other rights")
    there.api.create_many(NODES, nodes(3, "node"))
    schedulers = [started(page, there, "scheduler")]
    wait_for("a leader", lambda: there.leader("berth", "berth"), PATIENCE)
    schedulers.append(started(page, there, "scheduler"))
    for component in ("operator", "admission"):
        started(page, there, component)
    page.run("kubectl -n berth get leases")
    page.say("## A policy sends a pod to Berth, and Berth binds it")
    page.run("cat policy.yaml")
    page.run("kubectl create namespace team && kubectl -n team apply -f policy.yaml")
    page.run("kubectl -n team wait metadatapolicy to-berth --for=condition=SchedulerAvailable --timeout=60s")
    page.run(
        "until kubectl -n team create -f first.yaml --dry-run=server -o yaml | grep 'schedulerName: berth'; do :; done"
    )
    page.run("grep schedulerName first.yaml; kubectl -n team create -f first.yaml")
    page.run("kubectl -n team wait pod first --for=condition=PodScheduled --timeout=60s")
    page.run(f"kubectl -n team get pods -o {PLACED}")
    page.say("## The leader is killed (-9), and the standby binds the next")
    page.run(HOLDER)
    schedulers[0].kill()
    began = time.monotonic()
    page.run("kubectl -n team create -f next.yaml")
    page.run("kubectl -n team wait pod next --for=condition=PodScheduled --timeout=60s")
    took = time.monotonic() - began
    page.say(f"That was {took:.1f} s after the kill; the Lease lasts 15 s, and the goal is 17.")
    page.run(HOLDER)
    page.run(f"kubectl -n team get pods -o {PLACED}")
    used, denied = there.used("berth")
    page.say("## What the audit log says", "", f"Requests of these accounts that were denied: {len(denied)}.", "")
    page.say(*(f"- {one['user']['username']}: {one['verb']} {one['requestURI']}" for one in denied))
    granted = there.granted("berth")
    page.say("| account | rights | used in this run |", "| --- | --- | --- |")
    for account in sorted(granted):
        page.say(f"| {account} | {len(granted[account])} | {len(granted[account] & used[account])} |")
    page.say("Which rights are for what else, and which test uses them, is in `tests/integration/test_chart.py`.")


RECORDING = Recording("recorded-install.md", record, audit=True, tools={"helm": build.HELM.command})
