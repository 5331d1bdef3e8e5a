"""Well-formed objects of every kind that commands read, and each of them with another value in each of its places.

`python -m tests.unit.cli.malformed` gives all of them to all commands, which takes minutes; tests give them some.
"""

from __future__ import annotations

import io
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

from podberth.cli.main import run
from tests.builders import Object, container, namespace, node, pod
from tests.devices import (
    allocated,
    claim,
    claim_template,
    claiming,
    device,
    device_class,
    request,
    resource_slice,
    result,
    taint_rule,
    templated,
)
from tests.storage import attachment, capacity, csi_driver, csi_node, storage_class, using, volume
from tests.storage import claim as volume_claim
from tests.unit.cli.fuzzed import LEAKS

OTHER: tuple[Any, ...] = (0, 5, "x", True, None, [], {}, ["x"], [None], {"a": 5}, {"a": None})
"""Values of every form, one of which is right in few places."""


class Mutant(NamedTuple):
    """An object with another value in one of its places."""

    kind: str
    path: str
    value: Any
    made: Object

    def __str__(self) -> str:
        return f"{self.kind}: {self.path} = {json.dumps(self.value)}"


def mutants(document: Object) -> Iterator[Mutant]:
    """Yield the object with each of the other values in each of its places."""
    for steps in _places(document):
        path = ".".join(map(str, steps))
        for value in OTHER:
            yield Mutant(str(document["kind"]), path, value, _with(document, steps, value))


def _places(value: Any) -> Iterator[tuple[Any, ...]]:
    """Yield the way to each value in a document, but for the document itself."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, each in inner:
        yield (step,)
        yield from ((step, *rest) for rest in _places(each))


def _with(document: Any, steps: Sequence[Any], value: Any) -> Any:
    if not steps:
        return value
    made = document.copy()
    made[steps[0]] = _with(made[steps[0]], steps[1:], value)
    return made


# --- what is in a cluster ---------------------------------------------------------------------------------------------

APP = {"app": "web"}


def owned(made: Object, kind: str, name: str) -> Object:
    """The pod with a controller."""
    version = "apps/v1" if kind in ("ReplicaSet", "StatefulSet") else "v1"
    owner = {"apiVersion": version, "kind": kind, "name": name, "uid": f"{kind}/{name}", "controller": True}
    made["metadata"]["ownerReferences"] = [owner]
    return made


def _rich(name: str, **given: Any) -> Object:
    """A pod that asks for something of every plugin."""
    made = pod(
        name,
        labels={**APP, "pod-template-hash": "abc"},
        containers=[container("8", "1Gi", ports=["80"])],
        init=[container("1", "1Gi", name="side", sidecar=True)],
        level={"cpu": "9"},
        overhead={"cpu": "1"},
        select={"zone": "a"},
        need=["zone in a,b", "disk; @name in n1"],
        prefer=[(10, "disk")],
        near=["app=db per zone"],
        apart=["app=web per host"],
        rather_near=[(1, "app=db per zone")],
        rather_apart=[(1, "app=db per zone")],
        tolerate=["gpu=true:NoSchedule", "spot"],
        priority=10,
        **given,
    )
    made["metadata"]["annotations"] = {"podberth.dev/note": "x"}
    made["spec"] |= {
        "priorityClassName": "high",
        "preemptionPolicy": "Never",
        "runtimeClassName": "kata",
        "hostNetwork": True,
        "serviceAccountName": "default",
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": APP},
                "matchLabelKeys": ["pod-template-hash"],
            }
        ],
    }
    return made


WEB = owned(using(claiming(_rich("web-abc-1"), "c"), "own"), "ReplicaSet", "web-abc")
GATED = pod("gated", "1", gates=["example.com/hold"], status={"conditions": [{"type": "PodScheduled", "status": "x"}]})
DB = owned(pod("db-0", "1", labels={"app": "db"}, on="n1", ports=["5432"]), "StatefulSet", "db")
MEMBER = pod("member-0", "1")
MEMBER["spec"]["schedulingGroup"] = {"podGroupName": "train"}
TEMPLATE = {
    "metadata": {"labels": APP, "annotations": {"a": "b"}},
    "spec": using(templated(_rich("web"), "t"), "data", "+scratch")["spec"],
}
SMALL: Object = {"metadata": {"labels": APP}, "spec": {"containers": [container("1")], "schedulerName": "berth"}}


def made(version: str, kind: str, name: str, spec: Object | None = None, **fields: Any) -> Object:
    """An object in the namespace default."""
    metadata = {"name": name, "namespace": "default", "uid": f"{kind}/{name}", "labels": APP}
    found = {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}
    return found if spec is None else found | {"spec": spec}


SELECTOR = {"matchLabels": APP, "matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}
POLICY = {"gang": {"minCount": 2}}
PODS = {"selector": SELECTOR, "replicas": 2}
DEFAULT_CLASS = storage_class("fast", "csi.test", waits=False, allowed=["zone in a,b"])
DEFAULT_CLASS["metadata"]["annotations"] = {"storageclass.kubernetes.io/is-default-class": "true"}
NODE = node(
    "n1", "8", zone="a", labels={"disk": "ssd"}, taints=["spot:PreferNoSchedule"], images={"registry.test/app:1": 99}
)
NODE["status"] |= {"conditions": [{"type": "Ready", "status": "True"}], "capacity": {"cpu": "8"}}
THERE: list[Object] = [
    NODE,
    node("n2", "8", zone="b"),
    namespace("default", team="x"),
    WEB,
    GATED,
    DB,
    MEMBER,
    made("v1", "Service", "s", {"selector": APP, "ports": [{"port": 80}]}),
    made("v1", "ReplicationController", "rc", {"selector": APP, "replicas": 1, "template": SMALL}),
    made("apps/v1", "ReplicaSet", "web-abc", PODS),
    made("apps/v1", "StatefulSet", "db", {**PODS, "template": SMALL}),
    made("apps/v1", "Deployment", "web", {**PODS, "template": TEMPLATE}),
    made("apps/v1", "DaemonSet", "agent", {"selector": SELECTOR, "template": SMALL}),
    made("policy/v1", "PodDisruptionBudget", "b", {"selector": SELECTOR, "minAvailable": 1}, status={}),
    volume_claim("data", storage_class="fast"),
    volume_claim("own", to="v"),
    volume("v", on=["zone in a"]),
    DEFAULT_CLASS,
    csi_node("n1", csi_test=3),
    csi_driver(capacity=True),
    capacity("c", "1Gi", "zone=a", storage_class="fast", largest="1Gi"),
    attachment("a", "n1", "v"),
    device_class("gpu", "true"),
    resource_slice("n1", device("d", {"memory": "1Gi"}, model="x"), node="n1"),
    claim("c", request(), status=allocated(result("d", "n1"), node="n1", reserved=["default/db-0"])),
    claim_template("t", request()),
    taint_rule("r", {"key": "broken", "effect": "NoSchedule"}, driver="gpu.test", pool="n1"),
    made("scheduling.k8s.io/v1", "PriorityClass", "high", value=10, globalDefault=True, preemptionPolicy="Never"),
    made(
        "node.k8s.io/v1",
        "RuntimeClass",
        "kata",
        handler="kata",
        overhead={"podFixed": {"cpu": "1"}},
        scheduling={"nodeSelector": {"a": "b"}, "tolerations": []},
    ),
    made("v1", "LimitRange", "l", {"limits": [{"type": "Container", "default": {"cpu": "64"}, "max": {"cpu": "64"}}]}),
    made(
        "v1",
        "ResourceQuota",
        "q",
        {
            "hard": {"pods": "9", "requests.cpu": "64"},
            "scopes": ["NotBestEffort"],
            "scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "Exists"}]},
        },
        status={"hard": {"pods": "9"}, "used": {"pods": "1"}},
    ),
    made("scheduling.k8s.io/v1beta1", "PodGroup", "train", {"schedulingPolicy": POLICY}),
    made("scheduling.x-k8s.io/v1alpha1", "PodGroup", "other", {"minMember": 2}),
    made("v1", "Event", "e", involvedObject={"kind": "Pod", "name": "db-0"}, reason="x", source={"component": "berth"}),
    {"apiVersion": "podberth.dev/v1alpha1", "kind": "Dump", "kinds": ["Node", "Pod"]},
]
"""Objects of a dump: each kind that is read of one, and pods that look at all of them."""

# --- what is in files -------------------------------------------------------------------------------------------------

REPLICAS = {"replicas": 2, "template": SMALL}
CLAIM = {"metadata": {"name": "data"}, "spec": volume_claim("x", storage_class="fast")["spec"]}
ONCE = {"spec": {**SMALL["spec"], "restartPolicy": "Never"}}
JOB = {"parallelism": 2, "completions": 2, "completionMode": "Indexed", "template": ONCE}
ROLES = {"runPolicy": {"suspend": False}, "pytorchReplicaSpecs": {"Worker": REPLICAS}}
RAY = {
    "headGroupSpec": {"template": SMALL},
    "workerGroupSpecs": [{"groupName": "g", "replicas": 1, "minReplicas": 1, "maxReplicas": 2, "template": SMALL}],
}
MADE: list[Object] = [
    using(templated(_rich("asked"), "t"), "data", "+scratch"),
    made("v1", "PodTemplate", "t", template=SMALL),
    made("v1", "ReplicationController", "rc", {**REPLICAS, "selector": APP}),
    made("apps/v1", "ReplicaSet", "rs", {**REPLICAS, "selector": SELECTOR}),
    made("apps/v1", "Deployment", "web", {"replicas": 2, "selector": SELECTOR, "template": TEMPLATE, "paused": False}),
    made(
        "apps/v1",
        "StatefulSet",
        "db",
        {**REPLICAS, "selector": SELECTOR, "volumeClaimTemplates": [CLAIM], "ordinals": {"start": 1}},
    ),
    made("apps/v1", "DaemonSet", "agent", {"selector": SELECTOR, "template": TEMPLATE}),
    made("batch/v1", "Job", "train", JOB, status={"succeeded": 1}),
    made("batch/v1", "CronJob", "nightly", {"schedule": "* * * * *", "jobTemplate": {"spec": JOB}}),
    made(
        "leaderworkerset.x-k8s.io/v1",
        "LeaderWorkerSet",
        "lws",
        {"replicas": 2, "leaderWorkerTemplate": {"size": 2, "leaderTemplate": SMALL, "workerTemplate": SMALL}},
    ),
    made(
        "jobset.x-k8s.io/v1alpha2",
        "JobSet",
        "js",
        {"suspend": False, "replicatedJobs": [{"name": "a", "replicas": 2, "template": {"spec": JOB}}]},
    ),
    made("ray.io/v1", "RayCluster", "ray", RAY),
    made("ray.io/v1", "RayJob", "rj", {"rayClusterSpec": RAY, "submitterPodTemplate": SMALL}),
    made("ray.io/v1", "RayService", "rs", {"rayClusterConfig": RAY}),
    made("kubeflow.org/v1", "PyTorchJob", "pt", ROLES),
    made("batch.volcano.sh/v1alpha1", "Job", "vj", {"queue": "q", "tasks": [{"name": "a", **REPLICAS}]}),
    made("argoproj.io/v1alpha1", "Rollout", "r", {**REPLICAS, "selector": SELECTOR}),
    made("apps.kruise.io/v1alpha1", "CloneSet", "cs", {**REPLICAS, "selector": SELECTOR}),
    made(
        "serving.knative.dev/v1",
        "Service",
        "kn",
        {"template": {**SMALL, "metadata": {"annotations": {"autoscaling.knative.dev/min-scale": "2"}}}},
    ),
    made("example.com/v1", "Thing", "th", {"parts": [{"podTemplate": SMALL}]}),
    made(
        "scheduling.k8s.io/v1beta1",
        "Workload",
        "w",
        {
            "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": "train"},
            "podGroupTemplates": [{"name": "a", "schedulingPolicy": POLICY}],
        },
    ),
    made(
        "scheduling.k8s.io/v1beta1",
        "PodGroup",
        "new",
        {"schedulingPolicy": POLICY, "workloadRef": {"workloadName": "w", "templateName": "a"}},
    ),
]
"""Objects that make pods."""
BESIDE = [made("batch/v1", "Job", "train", JOB), MEMBER | {"metadata": {"name": "m-1", "namespace": "default"}}]
"""What stands in a file beside the one that is looked at, if that makes no pods itself."""

# --- commands ---------------------------------------------------------------------------------------------------------

ON_DUMPS = (
    "explain web-abc-1 --cluster {}",
    "explain --pending -A --cluster {} -o json",
    "dump --mask --cluster {}",
    "explain db-0 --cluster {}",
    "simulate -f many.json --cluster {}",
    "explain podgroup/train --cluster {}",
    "capacity -f pod.json --cluster {}",
    "explain web-abc-1 --cluster {} -o html",
    "simulate --drain n1 --cluster {}",
    "explain -f pod.json --cluster {}",
    "simulate --removable --cluster {}",
    "explain gated --cluster {}",
    "explain member-0 --cluster {}",
)
ON_FILES = tuple(f"{command} -f {{}} --cluster cluster.json" for command in ("simulate", "explain", "capacity"))


def ended(command: str, name: str) -> tuple[object, str]:
    """Run a command on a file; return (its exit code, what is wrong with how it ended, empty if it may end so)."""
    words = [word.format(name) for word in command.split()]
    out, err = io.TextIOWrapper(io.BytesIO()), io.StringIO()
    try:
        with redirect_stdout(out), redirect_stderr(err):
            code = run(words)
    except BaseException as error:  # noqa: BLE001 (whatever it is, it is what is looked for)
        return None, f"{command}: {type(error).__name__}: {error}"[:300]
    said = err.getvalue().splitlines()
    clear = all(line.startswith("berth: ") for line in said) and not LEAKS.search(err.getvalue())
    if code not in (0, 1, 2) or (code == 2 and not said) or not clear:
        return code, f"{command}: exit code {code}: {err.getvalue()[-300:]}"
    return code, ""


def write(name: str, *documents: Object) -> str:
    """Write a list of objects; return the file's name."""
    Path(name).write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": list(documents)}), encoding="utf-8")
    return name


def beside() -> None:
    """Write the files that commands read besides the one that is malformed."""
    write("cluster.json", *THERE)
    write("pod.json", pod("one", "1"))
    write("many.json", *(each for each in MADE if each["kind"] in ("Deployment", "StatefulSet", "Job")))
    Path("config.json").write_text(
        '{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}', encoding="utf-8"
    )


def dumps(kind: str) -> Iterator[tuple[Mutant, list[Object]]]:
    """Yield the objects of a dump with one of this kind malformed."""
    for i, document in enumerate(THERE):
        for mutant in mutants(document) if document["kind"] == kind else ():
            yield mutant, [*THERE[:i], mutant.made, *THERE[i + 1 :]]


def files(kind: str) -> Iterator[tuple[Mutant, list[Object]]]:
    """Yield the objects of a file with one of this kind malformed."""
    others = BESIDE if kind in ("Workload", "PodGroup") else []
    for document in MADE:
        for mutant in mutants(document) if document["kind"] == kind else ():
            yield mutant, [mutant.made, *others]


def main() -> int:
    """Give them to all commands, those of some kinds if these are named; say what went wrong."""
    wrong: set[str] = set()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        beside()
        plain = [f"{command}{more}" for more in ("", " --no-validate") for command in ON_FILES]
        for commands, of_kind, objects in ((ON_DUMPS, dumps, THERE), (plain, files, MADE)):
            for kind in sorted({each["kind"] for each in objects}):
                for mutant, documents in of_kind(kind) if kind in (sys.argv[1:] or kind) else ():
                    name = write("bad.json", *documents)
                    for command in commands:
                        fault = ended(command, name)[1]
                        if fault and fault not in wrong:
                            wrong.add(fault)
                            print(f"{mutant}: {fault}", flush=True)
        os.chdir("/")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
