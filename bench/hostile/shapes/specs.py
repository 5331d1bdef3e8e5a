"""Single pods with as much of everything else as fits: tolerations, ports, resources, volumes, labels …"""

from __future__ import annotations

from bench.crowd import HOST
from bench.hostile.scenario import Scenario, one
from bench.hostile.shapes.terms import needs, spec_of
from bench.hostile.town import PREFERRED, REQUIRED, TENANT, Object, pod


def containers(count: int, more: Object | None = None, image: str = "registry.example/a:{}") -> list[Object]:
    """So many containers, `more` in each."""
    return [{"name": f"c{i}", "image": image.format(i), **(more or {})} for i in range(count)]


def node_terms(terms: list[Object]) -> Object:
    """A pod with required node affinity."""
    return spec_of({"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}})


def node_preferred(terms: list[Object]) -> Object:
    """A pod with preferred node affinity."""
    weighted = [{"weight": 1 + i % 100, "preference": found} for i, found in enumerate(terms)]
    return spec_of({"affinity": {"nodeAffinity": {PREFERRED: weighted}}})


def _resources(count: int) -> Object:
    amounts = {f"example.com/r{i}": "1" for i in range(count)}
    return spec_of({"containers": [{"name": "c", "image": "a", "resources": {"requests": amounts, "limits": amounts}}]})


def _ports(count: int) -> Object:
    ports = [
        {"containerPort": 1, "hostPort": 1 + i % 65_000, "hostIP": f"10.0.{i // 65_000}.1", "protocol": "TCP"}
        for i in range(count)
    ]
    return spec_of({"containers": [{"name": "c", "image": "a", "ports": ports}]})


def _volumes(count: int, source: Object) -> Object:
    return spec_of(
        {
            "volumes": [
                {
                    "name": f"v{i}",
                    **{k: {n: str(w).replace("#", str(i)) for n, w in v.items()} for k, v in source.items()},
                }
                for i in range(count)
            ]
        }
    )


def _ephemeral(count: int) -> Object:
    template = {
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "wait",
            "resources": {"requests": {"storage": "1Gi"}},
        }
    }
    return spec_of(
        {"volumes": [{"name": f"v{i}", "ephemeral": {"volumeClaimTemplate": template}} for i in range(count)]}
    )


def _owners() -> Object:
    made = spec_of({})
    made["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"r{i}", "uid": f"u{i}", "controller": i == 0}
        for i in range(12_000)
    ]
    return made


def _annotations() -> Object:
    made = spec_of({})
    made["metadata"]["annotations"] = {f"example.com/a{i}": "x" * 200 for i in range(1_100)}
    return made


_NAMES = [f"node-{i}" for i in range(100_000, 120_000)]

SCENARIOS = [
    Scenario(
        "tolerations-25000",
        "Pod",
        "25,000 tolerations, none of use",
        one(
            lambda: spec_of(
                {"tolerations": [{"key": f"k{i}", "operator": "Exists", "effect": "NoSchedule"} for i in range(25_000)]}
            )
        ),
    ),
    Scenario(
        "node-affinity-2000x20",
        "Pod",
        "2,000 node selector terms of 20 host names, none of which is a node's",
        one(
            lambda: node_terms(
                [
                    {"matchExpressions": [needs("In", _NAMES[20 * (i % 900) + i // 900 :][:20], HOST)]}
                    for i in range(2_000)
                ]
            )
        ),
    ),
    Scenario(
        "node-affinity-notin-8000",
        "Pod",
        "one node selector term of 8,000 requirements `hostname NotIn`, all met by all nodes",
        one(
            lambda: node_terms([{"matchExpressions": [needs("NotIn", [f"x{i}"], HOST) for i in range(8_000)]}]),
        ),
    ),
    Scenario(
        "node-affinity-keys-10000",
        "Pod",
        "one node selector term of 10,000 requirements, each of another label that no node has",
        one(lambda: node_terms([{"matchExpressions": [needs("DoesNotExist", key=f"k{i}") for i in range(10_000)]}])),
    ),
    Scenario(
        "node-affinity-gt-8000",
        "Pod",
        "8,000 node selector terms of `Gt`, each of the host's name",
        one(lambda: node_terms([{"matchExpressions": [needs("Gt", [str(i)], HOST)]} for i in range(8_000)])),
    ),
    Scenario(
        "node-affinity-fields-10000",
        "Pod",
        "10,000 terms of matchFields, each with one node's name, some of which exist",
        one(
            lambda: node_terms([{"matchFields": [needs("In", [f"node-{i}"], "metadata.name")]} for i in range(10_000)])
        ),
    ),
    Scenario(
        "node-preferred-5000",
        "Pod",
        "5,000 preferred node terms, `hostname NotIn` one each",
        one(lambda: node_preferred([{"matchExpressions": [needs("NotIn", [f"x{i}"], HOST)]} for i in range(5_000)])),
    ),
    Scenario(
        "node-selector-12000",
        "Pod",
        "a nodeSelector of 12,000 labels",
        one(lambda: spec_of({"nodeSelector": {f"example.com/k{i}": "v" for i in range(12_000)}})),
    ),
    Scenario("resources-15000", "Pod", "15,000 names of extended resources", one(lambda: _resources(15_000))),
    Scenario("host-ports-20000", "Pod", "20,000 host ports", one(lambda: _ports(20_000))),
    Scenario(
        "containers-15000",
        "Pod",
        "15,000 containers, an image each",
        one(lambda: spec_of({"containers": containers(15_000)})),
    ),
    Scenario(
        "images-of-nodes-15000",
        "Pod",
        "15,000 containers with images that nodes have",
        one(
            lambda: spec_of(
                {
                    "containers": [
                        {"name": f"c{i}", "image": f"registry.example/app-{i % 2000}:1"} for i in range(15_000)
                    ]
                }
            )
        ),
    ),
    Scenario(
        "init-containers-6000",
        "Pod",
        "6,000 sidecars with requests and a host port each",
        one(
            lambda: spec_of(
                {
                    "initContainers": [
                        {
                            "name": f"i{i}",
                            "image": "a",
                            "restartPolicy": "Always",
                            "resources": {"requests": {"cpu": f"{i % 7}m", "memory": f"{i}"}},
                            "ports": [{"containerPort": 1, "hostPort": 1 + i}],
                        }
                        for i in range(6_000)
                    ]
                }
            )
        ),
    ),
    Scenario(
        "claims-missing-10000",
        "Pod",
        "10,000 claims that are not there",
        one(lambda: _volumes(10_000, {"persistentVolumeClaim": {"claimName": "c#"}})),
    ),
    Scenario("claims-ephemeral-4000", "Pod", "4,000 ephemeral claims", one(lambda: _ephemeral(4_000))),
    Scenario(
        "inline-csi-12000",
        "Pod",
        "12,000 inline CSI volumes of as many drivers",
        one(lambda: _volumes(12_000, {"csi": {"driver": "csi-#.example"}})),
    ),
    Scenario(
        "inline-disks-10000",
        "Pod",
        "10,000 disks named in the pod",
        one(lambda: _volumes(10_000, {"gcePersistentDisk": {"pdName": "d#"}})),
    ),
    Scenario(
        "gates-20000",
        "Pod",
        "20,000 scheduling gates",
        one(lambda: spec_of({"schedulingGates": [{"name": f"example.com/g{i}"} for i in range(20_000)]})),
    ),
    Scenario(
        "labels-12000",
        "Pod",
        "12,000 labels, 1.3 MB",
        one(lambda: pod("worst", TENANT, {f"{'k' * 40}{i}": "v" * 60 for i in range(12_000)})),
    ),
    Scenario("owners-12000", "Pod", "12,000 owner references", one(_owners)),
    Scenario("annotations-256k", "Pod", "256 KB of annotations", one(_annotations)),
    Scenario(
        "quantities-of-digits",
        "Pod",
        "requests written with 100,000 digits",
        one(
            lambda: spec_of(
                {
                    "containers": [
                        {
                            "name": "c",
                            "image": "a",
                            "resources": {"requests": {"cpu": f"0.{'0' * 100_000}1", "memory": "9E"}},
                        }
                    ]
                }
            )
        ),
    ),
]
