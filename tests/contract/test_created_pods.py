"""What becomes of a pod that is created: `created`, which simulations use, makes what the servers store.

Both servers get the same LimitRange, RuntimeClass and PriorityClasses, and the same pods; each field is compared.
"""

from __future__ import annotations

import asyncio
import copy
import uuid
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import pytest

from podberth.apiserver import StatusError
from podberth.apiserver.rules import defaults, plugins
from podberth.apiserver.rules.plugins import Surroundings, created
from tests.contract.client import PATIENCE, Api, JsonObject

TERM: JsonObject = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}
CPU: JsonObject = {"cpu": "500m"}
BOTH: JsonObject = {"cpu": "500m", "memory": "0.5Gi"}
LIMITS = [
    {
        "type": "Container",
        "default": {"cpu": "2", "memory": "1024Mi"},
        "defaultRequest": {"cpu": "0.25"},
        "max": {"cpu": "4"},
        "min": {"ephemeral-storage": "1Mi"},
        "maxLimitRequestRatio": {"cpu": "9"},
    },
    {"type": "Pod", "max": {"memory": "6Gi", "cpu": "64"}},
]


def containers(*resources: JsonObject, field: str = "containers", **more: Any) -> JsonObject:
    """Containers that ask for this."""
    name = field[0]
    return {
        field: [{"name": f"{name}{i}", "image": "i:1", "resources": each, **more} for i, each in enumerate(resources)]
    }


PODS: dict[str, JsonObject] = {
    "nothing": containers({}),
    "limits": containers({"limits": BOTH}, {"requests": CPU}),
    "init containers": containers({"requests": CPU}) | containers({}, field="initContainers"),
    "a sidecar": containers({"requests": CPU}) | containers({}, field="initContainers", restartPolicy="Always"),
    "the host's network": containers({}, ports=[{"containerPort": 80}]) | {"hostNetwork": True},
    "a pod's limits": containers({}) | {"resources": {"limits": {"cpu": "3", "memory": "2Gi"}}},
    "a pod's requests": containers({"limits": BOTH}, {"limits": BOTH}) | {"resources": {"requests": {"cpu": "3"}}},
    "a pod's memory": containers({"limits": CPU}) | {"resources": {"limits": {"memory": "2048Mi"}}},
    "huge pages": containers({"limits": BOTH | {"hugepages-2Mi": "4Mi"}}) | {"resources": {"requests": {"cpu": "3"}}},
    "a pod's huge pages": containers({}) | {"resources": {"limits": {"cpu": "2", "hugepages-2Mi": "4Mi"}}},
    "nothing of the pod": containers({}) | {"resources": {}},
    "label keys": containers({})
    | {
        "affinity": {
            "podAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    TERM | {"matchLabelKeys": ["rev", "gone"], "mismatchLabelKeys": ["tenant"]}
                ]
            },
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 1, "podAffinityTerm": TERM | {"matchLabelKeys": ["tenant"]}}
                ]
            },
        },
        "topologySpreadConstraints": [
            TERM | {"maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway", "matchLabelKeys": ["rev", "gone"]}
        ],
    },
    "a class": containers({}) | {"priorityClassName": "CLASS"},
    "a class of the system": containers({}) | {"priorityClassName": "system-cluster-critical"},
    "gates": containers({}) | {"schedulingGates": [{"name": "wait.example.com"}]},
    "a runtime": containers({}) | {"runtimeClassName": "CLASS"},
    "a runtime and a place": containers({}) | {"runtimeClassName": "CLASS", "nodeSelector": {"own": "yes"}},
    "a runtime and what it tolerates": containers({})
    | {
        "runtimeClassName": "CLASS",
        "tolerations": [
            {"key": "kata", "operator": "Exists"},
            {"key": "other", "operator": "Equal", "value": "x", "effect": "NoSchedule"},
        ],
    },
    "what it tolerates": containers({}) | {"tolerations": [{"operator": "Exists"}]},
}
REFUSED: dict[str, JsonObject] = {
    "too large": containers({"limits": {"cpu": "5"}}),
    "two bounds": containers({"limits": {"cpu": "5"}}, {"requests": {"cpu": "100m"}, "limits": {"cpu": "1"}}),
    "too large together": containers({"limits": {"memory": "4Gi"}}, {"limits": {"memory": "4Gi"}}),
    "the default limit is too low": containers({"requests": {"cpu": "3"}}),
    "less than its containers": containers({"requests": CPU}, {"requests": CPU}) | {"resources": {"requests": CPU}},
    "less than a container's limit": containers({}) | {"resources": {"limits": {"cpu": "1", "memory": "4Gi"}}},
    "another place": containers({}) | {"runtimeClassName": "CLASS", "nodeSelector": {"kata": "no"}},
    "no such runtime": containers({}) | {"runtimeClassName": "gone"},
    "a priority of its own": containers({}) | {"priorityClassName": "CLASS", "priority": 3},
}


class Scene(NamedTuple):
    """What is on a server. `name`: of the classes."""

    api: Api
    namespace: str
    name: str
    around: Surroundings

    def pod(self, spec: JsonObject, name: str = "p") -> JsonObject:
        """A pod here, with the names of the classes that are here."""
        named = {key: self.name if value == "CLASS" else value for key, value in copy.deepcopy(spec).items()}
        metadata = {"name": name, "namespace": self.namespace, "labels": {"app": "web", "rev": "1", "tenant": "t"}}
        return {"metadata": metadata, "spec": named}

    async def post(self, pod: JsonObject) -> Any:
        """Create a pod, once the server knows the classes; a real one takes its time."""
        async with asyncio.timeout(PATIENCE):
            while True:
                reply = await self.api.post(f"/api/v1/namespaces/{self.namespace}/pods", pod)
                if reply.code < 300 or "no PriorityClass with name" not in str(reply.body.get("message")):
                    return reply


@pytest.fixture
async def scene(api: Api, namespace: str) -> AsyncIterator[Scene]:
    """A namespace with limits, and classes of one name."""
    name = f"contract-{uuid.uuid4().hex[:8]}"
    priorities, runtimes = "/apis/scheduling.k8s.io/v1/priorityclasses", "/apis/node.k8s.io/v1/runtimeclasses"
    limits = {"metadata": {"name": "l", "namespace": namespace}, "spec": {"limits": LIMITS}}
    limits = (await api.post(f"/api/v1/namespaces/{namespace}/limitranges", limits)).ok()
    priority = {"metadata": {"name": name}, "value": 7, "preemptionPolicy": "Never"}
    runtime = {
        "metadata": {"name": name},
        "handler": "kata",
        "overhead": {"podFixed": {"cpu": "0.25", "memory": "160Mi"}},
        "scheduling": {
            "nodeSelector": {"kata": "true"},
            "tolerations": [{"key": "kata", "operator": "Equal", "value": "true", "effect": "NoSchedule"}],
        },
    }
    classes = (await api.get(priorities)).ok()["items"]
    classes.append((await api.post(priorities, priority)).ok())
    runtime = (await api.post(runtimes, runtime)).ok()
    around = Surroundings({each["metadata"]["name"]: each for each in classes}, {name: runtime}, [limits], False)
    yield Scene(api, namespace, name, around)
    await api.delete(f"{priorities}/{name}")
    await api.delete(f"{runtimes}/{name}")


def plain(made: JsonObject) -> JsonObject:
    """A pod without what the server gives it out of nothing."""
    found = copy.deepcopy(made)
    for name in ("uid", "creationTimestamp", "resourceVersion", "managedFields"):
        found["metadata"].pop(name, None)
    for condition in found["status"].get("conditions", ()):
        condition.pop("lastTransitionTime")
    for name in ("kind", "apiVersion"):
        found.pop(name, None)
    return found


async def test_what_is_stored(scene: Scene) -> None:
    """Each field of each pod, and of a node."""
    for number, (what, spec) in enumerate(PODS.items()):
        asked = scene.pod(spec, f"p{number}")
        stored = plain((await scene.post(asked)).ok())
        assert stored == plain(created(asked, scene.around)), what
    capacity = {"cpu": "4000m", "memory": "8192Mi", "pods": 110}
    node: JsonObject = {"metadata": {"name": scene.name}, "status": {"capacity": capacity}}
    stored = (await scene.api.post("/api/v1/nodes", node)).ok()
    defaults.apply("Node", node)
    assert stored["status"]["allocatable"] == node["status"]["allocatable"]
    await scene.api.delete(f"/api/v1/nodes/{scene.name}")


async def test_what_is_refused(scene: Scene) -> None:
    """In the server's words."""
    for what, spec in REFUSED.items():
        asked = scene.pod(spec)
        with pytest.raises(StatusError) as refusal:
            created(asked, scene.around)
        reply = await scene.post(asked)
        assert reply.code == refusal.value.code, what
        assert sorted(reply.body["message"]) == sorted(refusal.value.message), what  # bounds come in any order


QUOTAS: dict[str, tuple[JsonObject, JsonObject]] = {
    "pods": ({"hard": {"pods": "2"}}, {"pods": "1"}),
    "requests": ({"hard": {"requests.cpu": "1", "pods": "9"}}, {"requests.cpu": "200m", "pods": "1"}),
    "what is not said": ({"hard": {"limits.ephemeral-storage": "1Gi", "limits.memory": "9Gi"}}, {}),
    "another scope": ({"hard": {"pods": "0"}, "scopes": ["BestEffort"]}, {"pods": "0"}),
    "a class": (
        {
            "hard": {"pods": "0"},
            "scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["x"]}]},
        },
        {"pods": "0"},
    ),
}


async def test_quotas(api: Api, namespace: str) -> None:
    """So many pods are let in as `allowed` says, and the next one is refused in its words."""
    path = f"/api/v1/namespaces/{namespace}"
    asked = {"metadata": {"name": "p", "namespace": namespace}, "spec": containers({"requests": {"cpu": "300m"}})}
    for what, (spec, used) in QUOTAS.items():
        quota = (await api.post(f"{path}/resourcequotas", {"metadata": {"name": "q"}, "spec": spec})).ok()
        quota["status"] = {"hard": spec["hard"], "used": {name: used.get(name, "0") for name in spec["hard"]}}
        quota = (await api.put(f"{path}/resourcequotas/q/status", quota)).ok()
        verdict = plugins.allowed(created(asked, Surroundings()), 4, [quota])
        pods = [{**asked, "metadata": {**asked["metadata"], "name": f"p{number}"}} for number in range(4)]
        replies = [await _first(api, path, pods[0], counts=verdict is not None)]
        replies += [await api.post(f"{path}/pods", pod) for pod in pods[1:]]
        let = [reply for reply in replies if reply.code < 300]
        assert len(let) == (4 if verdict is None else verdict.allowed), (what, replies)
        if verdict is not None:
            refusal = replies[len(let)].refused(403, "Forbidden")
            assert refusal == f'pods "p{len(let)}" is forbidden: {verdict.why}', what
        for number in range(len(let)):
            await api.delete(f"{path}/pods/p{number}", {"gracePeriodSeconds": 0})
        await api.delete(f"{path}/resourcequotas/q")


async def _first(api: Api, path: str, pod: JsonObject, *, counts: bool) -> Any:
    """Create a pod. `counts`: until the server has taken notice of the quota, which it does in its own time."""
    async with asyncio.timeout(PATIENCE):
        while True:
            before = (await api.get(f"{path}/resourcequotas/q")).ok()["status"]
            reply = await api.post(f"{path}/pods", pod)
            if not counts or reply.code >= 300 or (await api.get(f"{path}/resourcequotas/q")).ok()["status"] != before:
                return reply
            await api.delete(f"{path}/pods/{pod['metadata']['name']}", {"gracePeriodSeconds": 0})
