"""Whether the API server takes what the rows are made of: each kind of object of each scenario, created for once."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

import msgspec

from bench.hostile.scenario import Scenario
from bench.hostile.town import TENANT, Object
from tests.controlplane.api import Api, ApiError

LOOKED_AT = 40
"""Writes of a scenario among which the largest of each kind is tried."""
PATHS = {
    "Pod": f"/api/v1/namespaces/{TENANT}/pods",
    "Service": f"/api/v1/namespaces/{TENANT}/services",
    "PersistentVolumeClaim": f"/api/v1/namespaces/{TENANT}/persistentvolumeclaims",
    "ResourceClaim": f"/apis/resource.k8s.io/v1/namespaces/{TENANT}/resourceclaims",
    "ResourceSlice": "/apis/resource.k8s.io/v1/resourceslices",
    "CSINode": "/apis/storage.k8s.io/v1/csinodes",
    "CSIStorageCapacity": f"/apis/storage.k8s.io/v1/namespaces/{TENANT}/csistoragecapacities",
    "DeviceClass": "/apis/resource.k8s.io/v1/deviceclasses",
    "ReplicaSet": f"/apis/apps/v1/namespaces/{TENANT}/replicasets",
    "StatefulSet": f"/apis/apps/v1/namespaces/{TENANT}/statefulsets",
    "PodDisruptionBudget": f"/apis/policy/v1/namespaces/{TENANT}/poddisruptionbudgets",
    "PodGroup": f"/apis/scheduling.k8s.io/v1beta1/namespaces/{TENANT}/podgroups",
    "Node": "/api/v1/nodes",
    "Namespace": "/api/v1/namespaces",
}


def refusals(api: Api, scenarios: Iterable[Scenario]) -> Iterator[tuple[str, str]]:
    """(scenario, what the API server said) of each that it does not take."""
    for scenario in scenarios:
        largest: dict[str, bytes] = {}
        for write in itertools.islice(scenario.writes(100), LOOKED_AT):
            if len(write.raw) > len(largest.get(write.kind, b"")):
                largest[write.kind] = write.raw
        for kind, raw in largest.items():
            document = _new(msgspec.json.decode(raw), f"{scenario.name}-{kind.lower()}")
            later = document["spec"].pop("ephemeralContainers", None) if kind == "Pod" else None
            try:
                api.create(PATHS[kind], document)
                if later:
                    containers = {"spec": {"ephemeralContainers": later}}
                    api.patch(f"{PATHS[kind]}/{document['metadata']['name']}/ephemeralcontainers", containers)
                if status := document.pop("status", None):
                    api.patch(f"{PATHS[kind]}/{document['metadata']['name']}/status", {"status": status})
                api.delete(f"{PATHS[kind]}/{document['metadata']['name']}")
            except ApiError as error:
                yield scenario.name, str(error)[:300]


def _new(document: Object, name: str) -> Object:
    """Under a name of its own, without what only the API server gives."""
    for given in ("uid", "creationTimestamp"):
        document["metadata"].pop(given, None)
    document["metadata"]["name"] = name
    if "namespace" in document["metadata"]:
        document["metadata"]["namespace"] = TENANT  # whichever of its namespaces it is in
    if document["kind"] == "Namespace":
        del document["metadata"]["labels"]["kubernetes.io/metadata.name"]
    if document["kind"] in ("Pod", "PodGroup"):
        for given in ("priority", "preemptionPolicy"):  # by a class, which the server looks up
            document["spec"].pop(given, None)
    return document
