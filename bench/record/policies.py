"""docs/evidence/recorded-policies.md: the policies of examples/ on a real API server, commands and output as they were.

Admission server, operator and scheduler are processes of their own with the rights of their manifests.
"""

from __future__ import annotations

import shutil

from bench.record.transcript import ROOT, Recording, Transcript
from tests.controlplane.api import Object
from tests.controlplane.cluster import free_port
from tests.integration.objects import node

MANIFESTS = ("crd-metadatapolicies.yaml", "admission-rbac.yaml", "operator-rbac.yaml", "scheduler-rbac.yaml")
QOS, NAME = "scheduler\\.alpha\\.kubernetes\\.io/qos", "scheduler\\.alpha\\.kubernetes\\.io/name"
COLUMNS = (
    f"NAME:.metadata.name,QOS:.metadata.annotations.{QOS},"
    "SCHEDULER:.spec.schedulerName,NODE:.spec.nodeName,LABELS:.metadata.labels"
)

PACKING = {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]}
CONFIG: Object = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "leaderElection": {"leaderElect": False},
    "clientConnection": {"kubeconfig": "scheduler.kubeconfig"},
    "profiles": [
        {"schedulerName": "berth"},
        {
            "schedulerName": "packed",
            "pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": PACKING}}],
        },
    ],
}
WIDGETS: Object = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"size": {"type": "integer"}}}},
            }
        ],
    },
}


def pod(name: str, resources: Object | None = None, **labels: str) -> Object:
    """A pod that names no scheduler."""
    container: Object = {"name": "main", "image": "registry.example/app"}
    if resources:
        container["resources"] = resources
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": {"containers": [container]},
    }


def deployment(**labels: str) -> Object:
    """A Deployment."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "labels": labels},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web", **labels}}, "spec": pod("web")["spec"]},
        },
    }


def files(page: Transcript) -> None:
    """What the run applies."""
    amounts = {"cpu": "500m", "memory": "256Mi"}
    documents: dict[str, list[Object]] = {
        "nodes": [{"apiVersion": "v1", "kind": "Node", **node(f"node-{i}")} for i in range(3)],
        "berth": [CONFIG],
        "nobodys": [pod("batch")],
        "pods": [
            pod("batch", owner="ann"),
            pod("db", {"limits": amounts}, owner="ann"),
            pod("web", {"requests": amounts}, owner="ann"),
        ],
        "nobodys-deployment": [deployment()],
        "deployment": [deployment(owner="ann")],
        "settings": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"a": "b"}}],
        "crd-widgets": [WIDGETS],
        "widget": [{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "size": 3}],
    }
    for name, found in documents.items():
        page.write(name, *found)
    page.copy(*MANIFESTS)
    shutil.copytree(ROOT / "examples" / "policies", page.home / "policies")


def record(page: Transcript) -> None:
    """The run."""
    files(page)
    page.say(
        "# A recorded run with policies",
        "",
        f"{page.recorded()}: etcd, kube-apiserver and kubectl as `make controlplane` builds them; "
        "`berth admission`, `berth operator` and `berth run` as processes of their own with the rights of their "
        "manifests. No kubelet and no controller runs, so bound pods stay Pending and Deployments roll nothing out. "
        "Commands and output are as they were; addresses and paths of the machine are replaced.",
    )
    page.run("kubectl version && berth version")
    page.say("## The CRD, the rights, the servers")
    page.run("kubectl create namespace berth && kubectl create namespace shop")
    page.run(f"kubectl apply {' '.join(f'-f {name}' for name in MANIFESTS)} | grep -v rbac.authorization")
    page.run("kubectl wait crd metadatapolicies.podberth.dev --for=condition=Established --timeout=60s")
    page.run("until kubectl get mdp -A 2> /dev/null && kubectl explain mdp > /dev/null 2>&1; do sleep 0.2; done")
    page.run("kubectl explain mdp.spec.rules.policyAction | sed -n '/FIELDS/,$p'")
    for name in ("admission", "operator", "scheduler"):
        page.account(name)
    page.run("kubectl create -f nodes.yaml")
    port, probes = free_port(), free_port()
    own = f"--host=127.0.0.1 --port={port} --url=https://127.0.0.1:{port}"
    admission = page.background(f"berth admission --kubeconfig=admission.kubeconfig -n berth {own} 2> admission.log")
    operator = page.background(
        "berth operator --kubeconfig=operator.kubeconfig -n berth --profile=berth --profile=packed "
        f"--host=127.0.0.1 --port={probes} --audit-interval=5 2> operator.log"
    )
    scheduler = page.background("berth run --config=berth.yaml 2> berth.log")
    page.say("The admission server registers its webhooks once it can answer:")
    configurations = "mutatingwebhookconfiguration,validatingwebhookconfiguration"
    page.run(
        f"until kubectl get {configurations} zz-berth-admission > registered 2>&1; do sleep 0.5; done; cat registered"
    )
    page.say("## The three policies of `examples/policies`, proved, then applied")
    page.run("berth policy lint policies/*/policy.yaml")
    page.run("for file in policies/*/policy.yaml; do kubectl apply -n shop -f $file; done")
    page.run("kubectl wait mdp --all -n shop --for=condition=Accepted --timeout=60s")
    page.run("until grep -q 'accepted.: 3' admission.log; do sleep 0.2; done; grep -o 'accepted.: 3.*' admission.log")
    page.say("## Refused: what nobody owns")
    page.run("kubectl create -n shop -f nobodys.yaml || echo exit code $?")
    page.run("kubectl create -n shop -f nobodys-deployment.yaml || echo exit code $?")
    page.say(
        "## Routed by QoS class, and bound",
        "",
        "`batch` asks for nothing (BestEffort), `db` has limits for all (Guaranteed), `web` requests only (Burstable). "
        "None names a scheduler. The warning: this `berth run` takes part in no election, so it holds no Lease.",
    )
    page.run("kubectl create -n shop -f pods.yaml")
    page.run(
        "until [ $(kubectl get pods -n shop --field-selector spec.nodeName!= -o name | wc -l) = 2 ]; do sleep 0.2; done"
    )
    page.run(f"kubectl get pods -n shop -o custom-columns='{COLUMNS}'")
    page.run("kubectl get pod batch -n shop -o jsonpath='{.metadata.annotations}'")
    page.say("## Defaulted: the team label, on objects of every kind")
    page.run("cat settings.yaml; kubectl create -n shop -f settings.yaml || echo exit code $?")
    page.run("kubectl label --local -f settings.yaml owner=ann -o yaml | kubectl create -n shop -f -")
    page.run("kubectl get configmap settings -n shop --show-labels")
    page.run("kubectl create -n shop -f deployment.yaml && kubectl get deployment web -n shop --show-labels")
    page.run("kubectl create -f crd-widgets.yaml && kubectl wait crd widgets.example.com --for=condition=Established")
    page.run("until kubectl get widgets -n shop 2> /dev/null; do sleep 0.2; done")
    page.run("kubectl create -n shop -f widget.yaml || echo exit code $?")
    page.run("kubectl label --local -f widget.yaml owner=ann -o yaml | kubectl create -n shop -f -")
    page.run("kubectl get widget w -n shop --show-labels")
    page.say("Updates are asked about, too; deletes are not:")
    page.run("kubectl label configmap settings -n shop owner- || echo exit code $?")
    page.run("kubectl delete configmap settings -n shop")
    page.say("## What the policies have to say of themselves")
    page.run("kubectl get mdp -n shop -o wide")
    page.run("kubectl describe mdp route-by-qos -n shop | sed -n '/^Status/,$p'")
    page.say("A policy that contradicts another is found when it is stored, with an object that shows it:")
    page.run("kubectl apply -n shop -f policies/broken.yaml")
    page.run("kubectl wait mdp tag -n shop --for=condition=SelfConsistent=False --timeout=60s")
    said = '{.status.conditions[?(@.type=="SelfConsistent")].message}'
    page.run(f"kubectl get mdp tag -n shop -o jsonpath='{said}'")
    page.run("kubectl delete -n shop -f policies/broken.yaml")
    page.say("What would these policies do to the objects that are there?")
    page.run("kubectl get mdp -n shop -o json > own.json")
    page.run(
        "kubectl get pods,deployments,configmaps -n shop -o json | "
        "berth policy impact --policies own.json --cluster - -n shop"
    )
    page.say("## The end")
    codes = [page.end(pid) for pid in (scheduler, operator, admission)]
    page.say(f"After SIGTERM they end with exit codes {', '.join(map(str, codes))}.")
    page.run("grep -h '\"denied\"' admission.log | cut -c -330 | head -3; tail -1 admission.log")


RECORDING = Recording("recorded-policies.md", record)
