"""Devices in the storm: what drivers and the controller of claims do, and what must hold of claims.

D1: no device is given to two claims. D2: in the end the claim of each bound pod has a device of its node, and is
reserved for it; for an extended resource, that is the claim that the pod's status names. D3: in the end no claim is
reserved for a pod that is not there, and none has a device for nobody, but that of a pod which waits for something else
than devices, or went while nobody led (`left_alone`). Unreserve leaves the allocation, as kube-scheduler's does, and
PostFilter frees it once another node would take the pod.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from podberth.apiserver.storage import Change
from tests import devices
from tests.storm.actors import MERGE, RESOURCE, ended, node_of, periodically
from tests.storm.gangs import gang_of
from tests.storm.left_alone import LeftAlone

if TYPE_CHECKING:
    from tests.storm.world import World

JsonObject = dict[str, Any]
OF_A_NODE = 2
DRIVER, CLASS = "gpu.test", "gpu"
GROUP = "/apis/resource.k8s.io/v1"
SWEEP_SECONDS = 3.0
KNOWN_SECONDS = 152.0 + 15.0
"""After so long a new leader knows what became of earlier Bindings (decision 20), and has backed off once."""
FINALIZER = "resource.kubernetes.io/delete-protection"


class Devices:
    """The driver's slices, the controller that frees claims nobody uses any more, and the judge of both."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._server = world.server
        self._wrong: set[tuple[str, ...]] = set()
        self._alone = LeftAlone(world)
        self._leads_since: dict[str, float] = {}
        """Life → when it was first seen leading."""
        claims = self._server.registry.built_in("resourceclaims")
        self._server.store.collection(claims.collection).listeners[self] = None

    def begin(self) -> None:
        """The class, and a slice with two devices for each node; a node that comes back has the same."""
        self._create("deviceclasses", devices.device_class(CLASS, extendedResourceName=RESOURCE))
        for name, *_ in self._world.plan.nodes:
            made = [devices.device(f"d{i}") for i in range(OF_A_NODE)]
            self._create("resourceslices", devices.resource_slice(name, *made, node=name, driver=DRIVER))
        periodically(self._world.loop, SWEEP_SECONDS, self._sweep)

    def claim(self, namespace: str, name: str) -> None:
        """Have this claim, unless it is there."""
        if self._server.stored("resourceclaims", f"{namespace}/{name}") is None:
            made = devices.claim(name, devices.request("r", CLASS), meta={"namespace": namespace})
            made.pop("status", None)
            self._create(f"namespaces/{namespace}/resourceclaims", made)

    def _create(self, where: str, body: JsonObject) -> None:
        body["metadata"].pop("uid", None)
        self._server.call("user", "POST", f"{GROUP}/{where}", {"apiVersion": "resource.k8s.io/v1", **body})

    def _sweep(self) -> None:
        """What the claim controller does: reservations of pods that are gone end, and then the device is free.

        And the garbage collector: claims that were made for pods that are gone, or have ended, go with them.
        """
        self._alone.look()
        for leader in self._alone.leaders():
            self._leads_since.setdefault(leader, self._world.now)
        there = {pod["metadata"]["uid"] for pod in self._server.objects("pods") if not ended(pod)} | self._groups()
        for claim in self._server.objects("resourceclaims"):
            meta, status = claim["metadata"], claim.get("status") or {}
            path = f"{GROUP}/namespaces/{meta['namespace']}/resourceclaims/{meta['name']}"
            users = status.get("reservedFor") or []
            kept = [one for one in users if one["uid"] in there]
            if kept:
                self._alone.used((meta["namespace"], meta["name"]))
            if len(kept) < len(users):
                freed: JsonObject = {} if kept else {"allocation": None}
                self._server.call(
                    "controller", "PATCH", f"{path}/status", {"status": {"reservedFor": kept or None, **freed}}, MERGE
                )
            if not {one["uid"] for one in meta.get("ownerReferences", ())} <= there:
                body = {"preconditions": {"uid": meta["uid"]}}
                self._server.call("controller", "DELETE", path, body)
            if not kept and meta.get("finalizers") and (users or meta.get("deletionTimestamp")):
                self._server.call("controller", "PATCH", path, {"metadata": {"finalizers": None}}, MERGE)

    def _groups(self) -> set[str]:
        """UIDs of the pod groups that are there: claims may be reserved for these, too."""
        return set() if self._world.gangs is None else self._world.gangs.uids()

    def _users(self, pod: JsonObject) -> set[str]:
        """UIDs for which its claims may be reserved: its own, and that of its group."""
        gangs, key = self._world.gangs, gang_of(pod)
        group = None if gangs is None or key is None else gangs.group(key)
        return {one["metadata"]["uid"] for one in (pod, group) if one is not None}

    # -- what must hold ------------------------------------------------------------------------------------------

    def offer(self, change: Change) -> None:
        """A claim has changed: D1."""
        for device, owners in self._twice():
            key = (device, *owners)
            if key not in self._wrong and not self._world.judge.unsure():
                self._wrong.add(key)
                self._world.judge.say("D1", f"{device} was given to {' and '.join(owners)}")

    def _twice(self) -> Iterator[tuple[str, list[str]]]:
        owners: dict[str, list[str]] = {}
        for claim in self._server.objects("resourceclaims"):
            for device in given(claim):
                owners.setdefault("/".join(device), []).append(claim["metadata"]["name"])
        return ((device, names) for device, names in owners.items() if len(names) > 1)

    def fits(self, pod: JsonObject, node: str) -> bool:
        """Whether the node has the device that a pod's claim has, or a free one."""
        namespace, uid = pod["metadata"]["namespace"], pod["metadata"]["uid"]
        if asks(pod) and self.may_be_bound(pod):
            return False
        if asks(pod):
            others = (one for one in self._server.objects("resourceclaims") if not is_owned(one, uid))
            return Counter(pool for one in others for pool, _ in given(one))[node] < OF_A_NODE
        for name in claimed(pod):
            claim = self._server.stored("resourceclaims", f"{namespace}/{name}")
            if claim is None:
                return False
            own = given(claim)
            if own and own[0][0] != node:
                return False
            if not own:
                taken = Counter(pool for one in self._server.objects("resourceclaims") for pool, _ in given(one))
                if taken[node] >= OF_A_NODE:
                    return False
        return True

    def may_be_bound(self, pod: JsonObject) -> bool:
        """Whether a claim of its own has devices, and who leads may not know whether an earlier leader has bound it.

        Until that is known the claim keeps its devices, and the pod can go nowhere else.
        """
        now, meta = self._world.now, pod["metadata"]
        new = any(now - self._leads_since.get(leader, now) < KNOWN_SECONDS for leader in self._alone.leaders())

        def is_its(claim: JsonObject) -> bool:
            there = claim["metadata"]
            named = there["name"] == meta["name"] and there["name"] in claimed(pod)
            return is_owned(claim, meta["uid"]) or (named and there["namespace"] == meta["namespace"])

        return new and any(given(claim) and is_its(claim) for claim in self._server.objects("resourceclaims"))

    def finish(self) -> None:
        """D2 and D3, after the controller's next turn."""
        self._sweep()
        say, server = self._world.judge.say, self._server
        pods = {pod["metadata"]["uid"]: pod for pod in server.objects("pods") if not ended(pod)}
        for pod in pods.values():
            for name in (*claimed(pod), *served(pod)) if node_of(pod) else ():
                claim = server.stored("resourceclaims", f"{pod['metadata']['namespace']}/{name}") or {}
                users = [one["uid"] for one in (claim.get("status") or {}).get("reservedFor") or []]
                if [pool for pool, _ in given(claim)] != [node_of(pod)] or not self._users(pod) & set(users):
                    say(
                        "D2",
                        f"{pod['metadata']['name']} is on {node_of(pod)}, its claim has {given(claim)} for {users}",
                    )
        waiting = {
            (pod["metadata"]["namespace"], name)
            for pod in pods.values()
            if not node_of(pod) and not _waits_for_devices(pod)
            for name in claimed(pod)
        }
        for claim in server.objects("resourceclaims"):
            users = [one["uid"] for one in (claim.get("status") or {}).get("reservedFor") or []]
            name = claim["metadata"]["name"]
            if gone := set(users) - pods.keys() - self._groups():
                say("D3", f"{name} is reserved for users that are gone: {sorted(gone)}")
            key = (claim["metadata"]["namespace"], name)
            if given(claim) and not users and key not in waiting and key not in self._alone:
                say("D3", f"{name} has {given(claim)} for nobody")


def _waits_for_devices(pod: JsonObject) -> bool:
    """Whether some node lacks nothing but the devices that the pod's claims were given elsewhere, by its condition."""
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any("resourceclaim not available on the node" in condition.get("message", "") for condition in conditions)


def given(claim: JsonObject) -> list[tuple[str, str]]:
    """(pool, device) of a claim."""
    allocation = (claim.get("status") or {}).get("allocation") or {}
    return [(one["pool"], one["device"]) for one in allocation.get("devices", {}).get("results", ())]


def claimed(pod: JsonObject) -> list[str]:
    """Names of a pod's claims."""
    return [one["resourceClaimName"] for one in pod["spec"].get("resourceClaims", ())]


def asks(pod: JsonObject) -> bool:
    """Whether a pod asks for a resource that devices serve."""
    return any(RESOURCE in one.get("resources", {}).get("requests", {}) for one in pod["spec"]["containers"])


def served(pod: JsonObject) -> list[str]:
    """The name of the claim that was made for that, or none."""
    if not asks(pod):
        return []
    said = (pod.get("status") or {}).get("extendedResourceClaimStatus") or {}
    return [said.get("resourceClaimName", "")]


def is_owned(claim: JsonObject, uid: str) -> bool:
    """Whether a claim was made for the pod of this UID."""
    return any(one["uid"] == uid for one in claim["metadata"].get("ownerReferences", ()))
