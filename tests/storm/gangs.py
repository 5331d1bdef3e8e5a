"""Gangs in the storm: both kinds of pod groups, and what goes wrong between the first Binding of a gang and the last.

What must hold of them is in `judge_gangs`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec

from podberth.apiserver.rules import podgroups
from podberth.model.pod_group import COSCHEDULING, LABEL, NATIVE, PREFERRED_TOPOLOGY, GroupKey
from tests import builders
from tests.storm.actors import GRACE_SECONDS, MERGE, RIVAL, Wanted, cpu_of, ended, node_of, periodically, room_of
from tests.storm.asked import Asked, Effect, Entry
from tests.storm.happenings import act, delete_node

if TYPE_CHECKING:
    from tests.storm.world import World

JsonObject = dict[str, Any]
GROUPS = replace(podgroups.POD_GROUPS, dropped=())
"""As with the gates TopologyAwareWorkloadScheduling and DRAWorkloadResourceClaims."""
PLACES = {NATIVE: f"{NATIVE}/v1beta1/podgroups", COSCHEDULING: f"{COSCHEDULING}/v1alpha1/podgroups"}
"""API group, version and plural of each kind of group."""
SWEEP_SECONDS = 3.0
ARMED_SECONDS = 20.0
"""A gang whose pods are deleted begins anew within so long, or not for this happening: the calm is to be calm."""


def gang_of(pod: JsonObject) -> GroupKey | None:
    """The group that a pod names."""
    meta = pod["metadata"]
    if name := pod["spec"].get("schedulingGroup", {}).get("podGroupName"):
        return GroupKey(meta["namespace"], name, NATIVE)
    if name := meta.get("labels", {}).get(LABEL):
        return GroupKey(meta["namespace"], name, COSCHEDULING)
    return None


class Gangs:
    """Makes the groups that controllers' pods name, and lets groups go whose pods are gone."""

    def __init__(self, world: World) -> None:
        self.armed: dict[GroupKey, Callable[[Entry], None]] = {}
        """Gang → what happens as soon as the first of its pods is bound."""
        self._world = world
        self._server = world.server
        self._server.serve_more(GROUPS)
        definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        self._server.call("user", "POST", definitions, builders.COSCHEDULING_CRD)
        periodically(world.loop, SWEEP_SECONDS, self._sweep)

    def join(self, wanted: Wanted, pod: JsonObject) -> bool:
        """A pod is made that is to be in a gang: it names its group. Whether that is there, and not on its way out."""
        key = GroupKey(wanted.namespace, wanted.name, wanted.groups)
        if key.api == NATIVE:
            pod["spec"]["schedulingGroup"] = {"podGroupName": key.name}
            spec = _group(wanted, pod)
        else:
            pod["metadata"]["labels"][LABEL] = key.name
            spec = {"minMember": wanted.gang}
            if wanted.gives_up:
                spec["scheduleTimeoutSeconds"] = wanted.gives_up
        prefers = {PREFERRED_TOPOLOGY: builders.label(wanted.prefers)} if wanted.prefers else {}
        return self._have(key, spec, prefers)

    def _have(self, key: GroupKey, spec: JsonObject, annotations: dict[str, str] | None = None) -> bool:
        """There is to be this group. Whether it is there, and not on its way out."""
        group = self.group(key)
        if group is None:
            meta = {"name": key.name, "annotations": annotations or {}}
            version = PLACES[key.api].rpartition("/")[0]
            body = {"apiVersion": version, "kind": "PodGroup", "metadata": meta, "spec": spec}
            self._server.call("controller", "POST", path_of(key._replace(name="")), body)
        elif group["metadata"].get("deletionTimestamp"):
            return False
        elif needed(group) != needed({"spec": spec}):
            self._server.call("controller", "PATCH", path_of(key), {"spec": spec}, MERGE)
        return True

    def group(self, key: GroupKey) -> JsonObject | None:
        """The object of a group."""
        resource = self._server.registry.find(*PLACES[key.api].split("/"))
        assert resource is not None
        found = self._server.store.get(resource, f"{key.namespace}/{key.name}")
        return None if found is None else found.obj

    def topology(self, key: GroupKey) -> str:
        """The label of whose values all its pods have the same; empty: there is none."""
        group = self.group(key)
        constraints = {} if group is None else group["spec"].get("schedulingConstraints", {})
        return str(constraints["topology"][0]["key"]) if constraints else ""

    def uids(self) -> set[str]:
        """UIDs of the groups for which claims may be reserved."""
        return {group["metadata"]["uid"] for group in self._server.store.objects(GROUPS.collection)}

    def _sweep(self) -> None:
        """What the controller of protection does: a group that is being deleted goes after its last pod."""
        groups = [group["metadata"] for group in self._server.store.objects(GROUPS.collection)]
        going = [meta for meta in groups if meta.get("deletionTimestamp") and meta.get("finalizers")]
        named = {gang_of(pod) for pod in self._server.objects("pods")} if going else set()
        for meta in going:
            key = GroupKey(meta["namespace"], meta["name"], NATIVE)
            if key not in named:
                self._server.call("controller", "PATCH", path_of(key), {"metadata": {"finalizers": None}}, MERGE)

    def entered(self, entry: Entry) -> None:
        """The API server has accepted a Binding of ours."""
        pod = self._server.stored("pods", f"{entry.namespace}/{entry.name}")
        key = None if pod is None else gang_of(pod)
        if key is not None and (do := self.armed.pop(key, None)) is not None:
            do(entry)

    # -- between the first Binding and the last --------------------------------------------------------------------

    def waiting(self, key: GroupKey) -> list[JsonObject]:
        """Its pods that are not bound."""
        return [pod for pod in self._server.objects("pods") if gang_of(pod) == key and not node_of(pod)]

    def lose_bindings(self, user: str, seconds: float, effect: Effect) -> None:
        """No more Bindings of this process are answered."""

        def meddle(asked: Asked) -> Effect | None:
            return effect if asked.user == user and asked.what == "create pods/binding" else None

        world = self._world
        world.server.trouble.requests.append(meddle)
        world.after(seconds, lambda: world.server.trouble.requests.remove(meddle))
        world.trouble_ends = world.delay_ends = max(world.trouble_ends, world.now + seconds)

    def take_room(self, namespace: str, seconds: float) -> None:
        """Another scheduler's pods take what is free on all nodes, for a while."""
        used: dict[str, int] = {}
        for pod in self._server.objects("pods"):
            used[node_of(pod)] = used.get(node_of(pod), 0) + (0 if ended(pod) else cpu_of(pod))
        for node in self._server.objects("nodes"):
            name = node["metadata"]["name"]
            self._take(namespace, name, room_of(node)[0] - used.get(name, 0), seconds)

    def _take(self, namespace: str, node: str, cpu: int, seconds: float) -> None:
        name, path = f"taken-{node}", f"/api/v1/namespaces/{namespace}/pods"
        resources = {"requests": {"cpu": f"{max(cpu, 0)}m"}}
        spec = {"schedulerName": RIVAL, "terminationGracePeriodSeconds": GRACE_SECONDS}
        spec["containers"] = [{"name": "c", "image": "i", "resources": resources}]
        code, answer = self._server.call(RIVAL, "POST", path, {"metadata": {"name": name}, "spec": spec})
        if code != 201:
            return  # its namespace is away, or it is there still
        meta = {"namespace": namespace, "name": name, "uid": msgspec.json.decode(answer)["metadata"]["uid"]}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": {"kind": "Node", "name": node}}
        self._server.call(RIVAL, "POST", f"{path}/{name}/binding", body)

        def go() -> None:
            code, _ = self._server.call("user", "DELETE", f"{path}/{name}")
            if code == 0:
                self._world.after(2.0, go)

        self._world.after(seconds, go)


def _group(wanted: Wanted, pod: JsonObject) -> JsonObject:
    """The spec of a pod group of Kubernetes' own."""
    spec: JsonObject = {"schedulingPolicy": {"gang": {"minCount": wanted.gang}}}
    if wanted.priority:
        spec["priorityClassName"] = wanted.priority
    if wanted.claims == "group":
        spec["resourceClaims"] = pod["spec"]["resourceClaims"]
    return spec | _constraints(wanted)


def _constraints(wanted: Wanted) -> JsonObject:
    key = builders.label(wanted.topology)
    return {"schedulingConstraints": {"topology": [{"key": key}]}} if key else {}


def needed(group: JsonObject) -> int:
    """How many of its pods start together, or none."""
    spec = group["spec"]
    gang = spec.get("schedulingPolicy", {}).get("gang", {})
    return int(spec.get("minMember") or gang.get("minCount") or 1)


def path_of(key: GroupKey) -> str:
    """Where the group is, or with an empty name all of its kind."""
    api, version, plural = PLACES[key.api].split("/")
    path = f"/apis/{api}/{version}/namespaces/{key.namespace}/{plural}"
    return f"{path}/{key.name}" if key.name else path


@act
def half_way(world: World, rng: Random, namespace: str, name: str, groups: str, what: str, seconds: float) -> None:
    """A gang begins anew; as soon as the first of its pods is bound, something happens to the rest of it."""
    gangs = world.gangs
    assert gangs is not None
    key = GroupKey(namespace, name, groups)

    def first_bound(entry: Entry) -> None:
        world.hit({"half-way": what})
        if what in ("kill", "unanswered"):
            acted = what == "unanswered" and rng.random() < 0.5
            gangs.lose_bindings(entry.user, seconds, Effect(code=0 if what == "unanswered" else -1, acted=acted))
        if what != "unanswered":
            world.after(0.0, lambda: rest(entry))

    def rest(entry: Entry) -> None:
        nodes = [node["metadata"]["name"] for node in world.server.objects("nodes")]
        others = [node for node in nodes if node != entry.node]
        if what == "kill":
            world.process(entry.user.partition(".")[0]).kill(min(seconds, 20.0))
        elif what == "room-taken":
            gangs.take_room(namespace, seconds)
        elif what == "node-gone" and others:
            delete_node(world, rng, rng.choice(others), seconds, 1.0)
        elif what == "member-gone" and (waiting := gangs.waiting(key)):
            pod = rng.choice(waiting)["metadata"]
            world.server.call("user", "DELETE", f"/api/v1/namespaces/{namespace}/pods/{pod['name']}")

    def disarm() -> None:
        if gangs.armed.get(key) is first_bound:
            del gangs.armed[key]

    gangs.armed[key] = first_bound
    world.after(ARMED_SECONDS, disarm)
    for pod in world.server.objects("pods"):
        if gang_of(pod) == key:
            world.server.call("user", "DELETE", f"/api/v1/namespaces/{namespace}/pods/{pod['metadata']['name']}")
