"""Devices on a real API server: a driver, a class, slices and claims of one test, and what was given to whom."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Collection
from typing import Any

from tests.controlplane.api import ApiError, Object
from tests.controlplane.cluster import Cluster
from tests.devices import claim, device_class, request, resource_slice
from tests.integration import checks
from tests.integration.objects import pod, pods_path

ROOT = "/apis/resource.k8s.io/v1"


class Devices:
    """The devices of one test: a driver and a class of its own."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster = cluster
        self.api = cluster.api
        self.namespace = namespace
        self.name = f"dra-{secrets.token_hex(4)}"
        self.driver = f"{self.name}.test"
        self._made: list[str] = []
        """Paths of what is in no namespace."""

    def make_class(self, **spec: Any) -> None:
        """Devices of the driver."""
        self.make("deviceclasses", device_class(self.name, f'device.driver == "{self.driver}"', **spec))

    def make_slice(self, node: str, *devices: Object) -> None:
        """A node's devices."""
        self.make("resourceslices", resource_slice(node, *devices, node=node, driver=self.driver))

    def take_slice(self, node: str) -> None:
        """Remove a node's devices."""
        path = f"{ROOT}/resourceslices/{node}"
        self.api.delete(path)
        self._made.remove(path)

    def make_claim(self, name: str, *selectors: str) -> None:
        """A claim for one device."""
        made = claim(name, request("r", self.name, *selectors), meta={"namespace": self.namespace})
        self.make("resourceclaims", made, self.namespace)

    def claims(self) -> list[Object]:
        """As they are now."""
        found: list[Object] = self.api.get(f"{ROOT}/namespaces/{self.namespace}/resourceclaims")["items"]
        return found

    def given(self, only: Collection[str] | None = None) -> Counter[tuple[str, str]]:
        """(pool, device) → how many claims have it, of all, or of those with these names."""
        claims = [one for one in self.claims() if only is None or one["metadata"]["name"] in only]
        allocations = [claim.get("status", {}).get("allocation") for claim in claims]
        results = [result for one in allocations if one for result in one["devices"]["results"]]
        return Counter((result["pool"], result["device"]) for result in results)

    def make(self, plural: str, document: Object, namespace: str = "") -> None:
        """Create an object."""
        document.pop("status", None)
        document["metadata"].pop("uid")
        path = f"{ROOT}/namespaces/{namespace}/{plural}" if namespace else f"{ROOT}/{plural}"
        self.api.create(path, {"apiVersion": "resource.k8s.io/v1", **document})
        if not namespace:
            self._made.append(f"{path}/{document['metadata']['name']}")

    def add(self, name: str, scheduler: str, **how: Any) -> None:
        """Create a pod."""
        self.api.create(pods_path(self.namespace), pod(name, scheduler, **how))

    def free(self, name: str) -> None:
        """A pod goes, and the claim of the same name after it: the work of the kubelet and of the claim controller."""
        self.api.delete(f"{pods_path(self.namespace)}/{name}")
        path = f"{ROOT}/namespaces/{self.namespace}/resourceclaims/{name}"
        self.api.patch(f"{path}/status", {"status": {"allocation": None, "reservedFor": None}})
        self.api.patch(path, {"metadata": {"finalizers": None}})
        try:
            self.api.delete(path)
        except ApiError as error:
            if error.status != 404:
                raise

    def close(self) -> None:
        """Remove the class and the slices, and the claims, which nobody else would let go."""
        for one in self.claims():
            path = f"{ROOT}/namespaces/{self.namespace}/resourceclaims/{one['metadata']['name']}"
            self.api.patch(path, {"metadata": {"finalizers": None}})
        for path in self._made:
            self.api.delete(path)

    def misplaced(self, only: Collection[str] | None = None) -> list[str]:
        """What must not be: a device that two claims have, a claim whose pod is not where its devices are.

        `only`: names of the claims that count for the first.
        """
        found = [f"{name} was given {count} times" for name, count in self.given(only).items() if count > 1]
        pods = {one["metadata"]["uid"]: one for one in self.api.list(pods_path(self.namespace))}
        claims = {one["metadata"]["name"]: one.get("status", {}) for one in self.claims()}
        for one in pods.values():
            for name in [asked["resourceClaimName"] for asked in one["spec"].get("resourceClaims", [])]:
                status = claims.get(name, {})
                where, user = checks.node_of(one), one["metadata"]["uid"]
                results = status.get("allocation", {}).get("devices", {}).get("results", [])
                users = [consumer["uid"] for consumer in status.get("reservedFor", [])]
                if where and ({result["pool"] for result in results} != {where} or user not in users):
                    found.append(f"{one['metadata']['name']} is on {where}, with {results} for {users}")
        return found


def claiming(name: str) -> list[Object]:
    """`spec.resourceClaims` of a pod with this claim."""
    return [{"name": "device", "resourceClaimName": name}]
