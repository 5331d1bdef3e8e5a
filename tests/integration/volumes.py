"""Storage objects on a real API server, and who works with them: a PV controller and a provisioner for one test."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

from tests.controlplane.api import Object
from tests.controlplane.cluster import Cluster
from tests.controlplane.wait import Found, wait_for
from tests.integration import checks
from tests.integration.objects import HOSTNAME

VOLUMES = "/api/v1/persistentvolumes"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
BOUND = "pv.kubernetes.io/bind-completed"
SELECTED = "volume.kubernetes.io/selected-node"


def claims_path(namespace: str) -> str:
    """The collection."""
    return f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"


class Disks:
    """The storage of one test: a class of its own, its volumes and claims, and the controllers that bind them.

    The controllers work while somebody waits: `until` lets them look once before each look of its own.
    """

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster = cluster
        self.api = cluster.api
        self.namespace = namespace
        self.name = f"disks-{secrets.token_hex(4)}"
        self.binds = True
        """The PV controller is there."""
        self.refuses = 0
        """How many times the provisioner gives up before it makes a volume."""

    def make_class(self, provisioner: str = "kubernetes.io/no-provisioner", **more: Any) -> None:
        """Create the class."""
        mode = {"volumeBindingMode": "WaitForFirstConsumer"}
        self.api.create(CLASSES, {"metadata": {"name": self.name}, "provisioner": provisioner, **mode, **more})

    def make_volume(self, name: str, node: str, size: str = "1Gi", **spec: Any) -> str:
        """Create a volume on one node; its name."""
        full = f"{self.name}-{name}"
        self.api.create(VOLUMES, self._volume(full, node, size, **spec))
        return full

    def make_claim(self, name: str, size: str = "1Gi", *, owner: Object | None = None, **spec: Any) -> Object:
        """Create a claim of the class."""
        body = {
            "metadata": {"name": name} | ({"ownerReferences": [owner]} if owner else {}),
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": self.name,
                "resources": {"requests": {"storage": size}},
                **spec,
            },
        }
        return self.api.create(claims_path(self.namespace), body)

    def claim(self, name: str) -> Object:
        """A claim as it is now."""
        return self.api.get(f"{claims_path(self.namespace)}/{name}")

    def volumes(self) -> list[Object]:
        """The test's volumes."""
        return self.api.list(VOLUMES, labelSelector=f"disks={self.name}")

    def until(self, what: str, probe: Callable[[], Found | None], timeout: float = checks.BOUND) -> Found:
        """Let the controllers work until the probe gives something true."""

        def look() -> Found | None:
            self.step()
            return probe()

        return wait_for(what, look, timeout, 0.1)

    def step(self) -> None:
        """One look of the PV controller and the provisioner at everything."""
        claims = {claim["metadata"]["uid"]: claim for claim in self.api.list(claims_path(self.namespace))}
        for volume in self.volumes():
            claim = claims.get(volume["spec"].get("claimRef", {}).get("uid", ""))
            if claim is not None and self.binds:
                self._bind(volume, claim)
            elif claim is None and volume["status"]["phase"] == "Pending":
                self._phase(f"{VOLUMES}/{volume['metadata']['name']}", "Available")
        for claim in claims.values():
            node = claim["metadata"].get("annotations", {}).get(SELECTED)
            if node and "volumeName" not in claim["spec"] and self.binds:
                self._provision(claim, node)

    def close(self) -> None:
        """Remove everything; nobody else takes the finalizers off."""
        self.api.delete(f"{CLASSES}/{self.name}")
        for path, found in ((VOLUMES, self.volumes()), *((claims_path(self.namespace), [c]) for c in self._claims())):
            for thing in found:
                one = f"{path}/{thing['metadata']['name']}"
                self.api.patch(one, {"metadata": {"finalizers": None}})
                self.api.delete(one)

    def _claims(self) -> list[Object]:
        return self.api.list(claims_path(self.namespace))

    def _bind(self, volume: Object, claim: Object) -> None:
        """Complete a pair whose volume names the claim."""
        if claim["status"].get("phase") == "Bound":
            return
        name = volume["metadata"]["name"]
        path = f"{claims_path(self.namespace)}/{claim['metadata']['name']}"
        self.api.patch(path, {"metadata": {"annotations": {BOUND: "yes"}}, "spec": {"volumeName": name}})
        self._phase(path, "Bound")
        self._phase(f"{VOLUMES}/{name}", "Bound")

    def _provision(self, claim: Object, node: str) -> None:
        """Make a volume on the node that was selected, or give up."""
        meta = claim["metadata"]
        if self.refuses:
            self.refuses -= 1
            path = f"{claims_path(self.namespace)}/{meta['name']}"
            self.api.patch(path, {"metadata": {"annotations": {SELECTED: None}}})
            return
        name = f"{self.name}-for-{meta['name']}"
        if any(volume["metadata"]["name"] == name for volume in self.volumes()):
            return
        ref = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": self.namespace}
        ref |= {"name": meta["name"], "uid": meta["uid"]}
        size = claim["spec"]["resources"]["requests"]["storage"]
        self.api.create(VOLUMES, self._volume(name, node, size, claimRef=ref))

    def _phase(self, path: str, phase: str) -> None:
        self.api.patch(f"{path}/status", {"status": {"phase": phase}})

    def _volume(self, name: str, node: str, size: str, **spec: Any) -> Object:
        term = {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [node]}]}
        return {
            "metadata": {"name": name, "labels": {"disks": self.name}},
            "spec": {
                "capacity": {"storage": size},
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": self.name,
                "persistentVolumeReclaimPolicy": "Retain",
                "csi": {"driver": "csi.example.com", "volumeHandle": name},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
                **spec,
            },
        }
