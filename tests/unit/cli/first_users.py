"""The clusters and files of docs/evidence/first-users.md: `python -m tests.unit.cli.first_users DIRECTORY` writes them.

A dump of 50 nodes and 400 pods, of which 22 wait, each for another cause; the files that first users tried on it; and
with `--large` a dump of 5,000 nodes and 20,000 pods, as JSON and as YAML.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml

from tests import storage
from tests.builders import Object, container, namespace, node, pod

HASH = "6c9f5d7b8"
ZONES = "abc"
HOST = "kubernetes.io/hostname"


def small() -> list[Object]:
    """50 nodes, 400 pods, 22 of them waiting."""
    waiting = list(pending())
    return [
        *(namespace(name) for name in ("default", "shop", "kube-system")),
        *nodes(),
        *_storage(),
        _class("urgent", 1000),
        _budget("db"),
        *placed(400 - len(waiting)),
        *waiting,
    ]


def large() -> list[Object]:
    """5,000 nodes in three zones, 20,000 placed pods."""
    rooms = [node(f"node-{i:04}", "32", "128Gi", zone=ZONES[i % 3], labels={"pool": "general"}) for i in range(5_000)]
    pods = [
        pod(f"web-{i:05}", "1", "2Gi", namespace="shop", labels={"app": f"web-{i % 50}"}, on=f"node-{i % 5_000:04}")
        for i in range(20_000)
    ]
    return [*(namespace(name) for name in ("default", "shop")), *rooms, *pods]


def nodes() -> Iterator[Object]:
    """Forty of the pool general, of which the last is cordoned; six with GPUs, and four of the pool batch, tainted."""
    for i in range(40):
        pods = "10" if i == 5 else "110"
        yield node(
            f"node-{i:02}",
            "8",
            "32Gi",
            zone=ZONES[i % 3],
            pods=pods,
            labels={"pool": "general"},
            cordoned=i == 39,
            others={"ephemeral-storage": "100Gi"},
        )
    for i in range(40, 46):
        yield node(
            f"node-{i:02}",
            "32",
            "128Gi",
            zone=ZONES[i % 3],
            labels={"pool": "gpu"},
            taints=["nvidia.com/gpu=present:NoSchedule"],
            others={"nvidia.com/gpu": "4", "ephemeral-storage": "100Gi"},
        )
    for i in range(46, 50):
        yield node(
            f"node-{i:02}",
            "16",
            "64Gi",
            zone=ZONES[i % 3],
            labels={"pool": "batch"},
            taints=["team=batch:NoSchedule"],
            others={"ephemeral-storage": "100Gi"},
        )


def placed(number: int) -> Iterator[Object]:
    """Nine a node of the pool general, the pods of a Deployment, a StatefulSet and some by themselves."""
    for i in range(40):
        yield _of("Deployment", "web", pod(f"web-{HASH}-{i:02}", "2", "4Gi", labels={"app": "web"}, **_on(i)))
    for i in range(3):
        made = pod(f"db-{i}", "1", "4Gi", labels={"app": "db"}, apart=["app=db per host"], **_on(i))
        yield storage.using(_of("StatefulSet", "db", made), f"data-db-{i}")
    yield pod("ingress", "100m", "128Mi", ports=["443"], labels={"app": "ingress"}, **_on(12))
    yield storage.using(pod("writer", "100m", "128Mi", labels={"app": "writer"}, **_on(3)), "ledger")
    for i in range(40, 46):
        gpus = {"nvidia.com/gpu": "4" if i < 44 else "2"}
        yield pod(
            f"trainer-{i}",
            "8",
            "16Gi",
            labels={"app": "trainer"},
            tolerate=["nvidia.com/gpu"],
            others=gpus,
            **_on(i),
        )
    for i in range(number - 51):
        yield pod(f"job-{i:03}", "500m", "1Gi", labels={"app": "job"}, **_on(i % 39))


def pending() -> Iterator[Object]:
    """Twenty-two kinds of pods that wait."""

    def waits(name: str, cpu: str = "100m", memory: str = "64Mi", **more: Any) -> Object:
        return pod(name, cpu, memory, namespace="shop", **{"labels": {"app": name}, **more})

    yield waits("cpu-free", "4")
    yield waits("cpu-whole", "40")
    yield waits("memory", "100m", "200Gi")
    yield _never(waits("urgent", "4", priority=1000))
    yield waits("taint", "12")
    yield waits("gpus", others={"nvidia.com/gpu": "4"}, tolerate=["nvidia.com/gpu"])
    yield waits("gpu-toleration", others={"nvidia.com/gpu": "1"})
    yield waits("label-value", select={"pool": "generl"})
    yield waits("label-key", select={"pol": "general"})
    yield waits("affinity", need=["pool in spot"])
    yield waits("pods-near", near=["app=wbe per zone"])
    yield waits("pods-apart", apart=["app=web per zone"])
    yield _spread(waits("spread", labels={"app": "ingress"}, select={"zone": "a"}))
    yield waits("port", ports=["443"], need=["@name in node-12"])
    yield waits("pinned", need=["@name in node-7"])
    yield waits("cordoned", need=["@name in node-39"])
    yield storage.using(waits("claim"), "lost")
    yield storage.using(waits("class"), "fast")
    yield storage.using(waits("zone", select={"zone": "b"}), "zoned")
    yield storage.using(waits("holder"), "ledger")
    yield waits("gated", gates=["review"])
    yield waits("nobody", scheduler="bert")


def _on(i: int) -> dict[str, Any]:
    return {"on": f"node-{i:02}", "namespace": "shop"}


def _of(kind: str, owner: str, made: Object) -> Object:
    """The pod with its owner; on a node, it runs and is ready."""
    metadata = made["metadata"]
    if made["spec"].get("nodeName"):
        made["status"] |= {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    name = f"{owner}-{HASH}" if kind == "Deployment" else owner
    of = "ReplicaSet" if kind == "Deployment" else kind
    if kind == "Deployment":
        metadata["labels"]["pod-template-hash"] = HASH
    metadata["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": of, "name": name, "uid": f"{of}/{name}", "controller": True}
    ]
    return made


def _spread(made: Object) -> Object:
    """One pod that it counts is in the only zone where it may be."""
    constraint = {
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "nodeAffinityPolicy": "Ignore",
        "labelSelector": {"matchLabels": {"app": "ingress"}},
    }
    made["spec"]["topologySpreadConstraints"] = [constraint]
    return made


def _never(made: Object) -> Object:
    made["spec"] |= {"priorityClassName": "urgent", "preemptionPolicy": "Never"}
    return made


def _storage() -> Iterator[Object]:
    yield storage.storage_class("standard", "csi.test")
    for i in range(3):
        yield storage.claim(f"data-db-{i}", storage_class="standard", namespace="shop", to=f"pv-db-{i}")
        yield storage.volume(f"pv-db-{i}", storage_class="standard", claimed=f"shop/data-db-{i}")
    yield storage.claim("fast", storage_class="fast-ssd", namespace="shop")
    yield storage.claim("zoned", storage_class="standard", namespace="shop", to="pv-zoned")
    yield storage.volume("pv-zoned", storage_class="standard", claimed="shop/zoned", on=["zone in a"])
    yield storage.claim("ledger", storage_class="standard", modes="RWOP", namespace="shop", to="pv-ledger")
    yield storage.volume("pv-ledger", storage_class="standard", modes="RWOP", claimed="shop/ledger")


def _budget(name: str) -> Object:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "shop", "uid": f"pdb/{name}"},
        "spec": {"minAvailable": 3, "selector": {"matchLabels": {"app": name}}},
        "status": {"disruptionsAllowed": 0, "currentHealthy": 3, "desiredHealthy": 3, "expectedPods": 3},
    }


def _class(name: str, value: int) -> Object:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name, "uid": f"class/{name}"},
        "value": value,
        "preemptionPolicy": "Never",
    }


def workload(name: str, replicas: object, cpu: str = "500m", kind: str = "Deployment", **spec: Any) -> Object:
    """An object that makes pods."""
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container(cpu, "256Mi")]}}
    fields = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template, **spec}
    version = "argoproj.io/v1alpha1" if kind == "Rollout" else "apps/v1"
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": "shop"}, "spec": fields}


def files() -> dict[str, list[Object]]:
    """The files that were tried on the dump, by name."""
    own = storage.claim("data", storage_class="nowhere")
    claims = [{"metadata": {"name": "data"}, "spec": own["spec"]}]
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "shop"}}
    agent = workload("agent", 1, "100m", "DaemonSet")
    del agent["spec"]["replicas"]
    refused = pod("refused", "-1", namespace="shop", labels={"bad key!": "x"}, priority=99_999_999_999_999)
    refused["spec"] |= {
        "nodeSelectors": {"pool": "general"},
        "topologySpreadConstraints": [
            {"maxSkew": 0, "topologyKey": "zone", "whenUnsatisfiable": "Maybe", "labelSelector": {}}
        ],
    }
    refused["spec"]["containers"][0]["resource"] = {}
    return {
        "dump.json": [{"kind": "List", "apiVersion": "v1", "items": small()}],
        "statefulset.yaml": [
            workload("orders", 3, kind="StatefulSet", serviceName="orders", volumeClaimTemplates=claims)
        ],
        "billion.yaml": [workload("billion", 1_000_000_000)],
        "million.yaml": [workload("million", 1_000_000, "100m")],
        "hundred-thousand.yaml": [workload("many", 100_000, "500m")],
        "sixty.yaml": [workload("sixty", 60, "1500m")],
        "web.yaml": [workload("front", 6)],
        "rollout.yaml": [workload("front", 6, kind="Rollout")],
        "settings.yaml": [settings],
        "agent.yaml": [agent, workload("front", 6)],
        "node.yaml": [node("bad", "-4", "16Gi", pods="abc")],
        "refused.yaml": [refused],
        "replicas.yaml": [workload("front", "three")],
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Write all files into a directory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--large", action="store_true", help="the large dump, too, as JSON and as YAML")
    given = parser.parse_args(arguments)
    given.directory.mkdir(parents=True, exist_ok=True)
    write(given.directory)
    if given.large:
        dump = {"kind": "List", "apiVersion": "v1", "items": large()}
        (given.directory / "large.json").write_text(json.dumps(dump), encoding="utf-8")
        with (given.directory / "large.yaml").open("w", encoding="utf-8") as file:
            yaml.dump(dump, file, getattr(yaml, "CSafeDumper", yaml.SafeDumper), sort_keys=False)


def write(directory: Path) -> None:
    """Each file in its form."""
    for name, documents in files().items():
        if name.endswith(".json"):
            text = json.dumps(documents[0])
        else:
            text = yaml.safe_dump_all(deepcopy(documents), sort_keys=False)
        (directory / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
