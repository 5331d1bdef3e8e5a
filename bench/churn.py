"""A cluster in which everything changes all the time, by one seed: what `bench.soak` loads the schedulers with."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

from tests.controlplane.api import Api, ApiError, Object
from tests.devices import claim, device, device_class, request, resource_slice
from tests.integration import evictor
from tests.integration.objects import HOSTNAME, NODES, ZONE, apart, near, node, on, pod, pods_path, rather_apart

RESOURCES = "/apis/resource.k8s.io/v1"
CLAIMS_OF = f"{RESOURCES}/namespaces/{{}}/resourceclaims"
BUDGETS = "/apis/policy/v1/namespaces/{}/poddisruptionbudgets"
OTHERS = "another-scheduler"
ZONES = 4
APPS = 12
CPU = ("50m", "100m", "200m")
CLAIMS = 60
"""So many kinds of pods, and names of claims, come again and again: caches that keep a parsed form of each are full
within minutes, and what grows afterwards grows for another reason."""
DRIVER = "soak.test"
_GONE = (404, 409, 422)
"""Refusals that are no surprise: the scheduler preempts, the evictor evicts, and what one changes may be gone."""
_UNREACHABLE = (OSError,)


class Churn:
    """Acts on one namespace and on nodes of its own. `pods`: how many there are at most."""

    def __init__(self, api: Api, namespace: str, scheduler: str, rng: random.Random, nodes: int, pods: int) -> None:
        self.restarts = 0
        self.done: Counter[str] = Counter()
        """What was done, by kind."""
        self._api = api
        self._namespace = namespace
        self._scheduler = scheduler
        self._rng = rng
        self._nodes = [f"soak-{i}" for i in range(nodes)]
        self._most = pods
        self._pods: list[str] = []
        self._claims: dict[str, str] = {}
        """Pod → the claim that was made for it."""
        self._number = 0
        self._acts: dict[Callable[[], None], int] = {
            self._create: 40,
            self._delete: 30,
            self._finish: 10,
            self._cordon: 6,
            self._relabel: 5,
            self._resize: 4,
            self._replace_node: 2,
            self._budget: 3,
        }

    def set_up(self) -> None:
        """The nodes, their devices, and a class of devices."""
        self._api.create_many(NODES, [self._node(name) for name in self._nodes])
        self._make("deviceclasses", device_class(DRIVER, f'device.driver == "{DRIVER}"'))
        for name in self._nodes[::2]:
            self._make("resourceslices", resource_slice(name, device("d0"), device("d1"), node=name, driver=DRIVER))

    def act(self) -> None:
        """Do one thing."""
        (act,) = self._rng.choices(list(self._acts), list(self._acts.values()))
        if len(self._pods) >= self._most:
            act = self._delete
        try:
            act()
        except ApiError as error:
            if error.status not in _GONE and error.status < 500:
                raise
            self.done[f"refused {error.status}"] += 1
        except _UNREACHABLE:
            self.done["unreachable"] += 1
        else:
            self.done[act.__name__.lstrip("_")] += 1

    def clear(self) -> None:
        """Delete all pods, and put the nodes back as they were."""
        self._api.delete(self._path())
        self._api.delete(BUDGETS.format(self._namespace))
        self._pods.clear()
        there = {one["metadata"]["name"] for one in self._api.list(NODES)}
        self._api.create_many(NODES, [self._node(name) for name in self._nodes if name not in there])
        for name in self._nodes:
            self._api.patch(f"{NODES}/{name}", {"spec": {"unschedulable": False}})

    def release_claims(self) -> None:
        """Release all claims that are there: one may have been allocated just after it was released, and stays then."""
        self._claims.clear()
        for one in self._api.list(CLAIMS_OF.format(self._namespace)):
            self._release(one["metadata"]["name"])

    def summary(self) -> str:
        """What was done, in one line."""
        done = ", ".join(f"{what} {count}" for what, count in sorted(self.done.items()))
        return f"{sum(self.done.values())} acts ({done}), {self.restarts} restarts of the API server"

    # -- what is done ----------------------------------------------------------------------------------------------

    def _create(self) -> None:
        """A few pods of one kind."""
        kinds: tuple[Callable[[str, str], Object], ...] = (
            self._plain,
            self._apart,
            self._near,
            self._spread,
            self._rather_apart,
            self._zonal,
            self._too_big,
            self._urgent,
            self._promising,
            self._claiming,
            self._others,
        )
        kind = self._rng.choice(kinds)
        app = f"app-{self._rng.randrange(APPS)}"
        for _ in range(self._rng.randint(1, 6)):
            self._number += 1
            name = f"p-{self._number}"
            self._api.create(self._path(), kind(name, app))
            self._pods.append(name)

    def _delete(self) -> None:
        for _ in range(min(self._rng.randint(1, 5), len(self._pods))):
            name = self._pods.pop(self._rng.randrange(len(self._pods)))
            if name in self._claims:
                self._free(name)
            self._api.delete(f"{self._path()}/{name}")

    def _finish(self) -> None:
        """Kubelets say that a pod has ended, or that they do not admit it."""
        if not self._pods:
            return
        name = self._pods.pop(self._rng.randrange(len(self._pods)))
        status: Object = self._rng.choice(({"phase": "Succeeded"}, {"phase": "Failed", "reason": "OutOfcpu"}))
        self._api.patch(f"{self._path()}/{name}/status", {"status": status})
        if name in self._claims:
            self._free(name)
        self._api.delete(f"{self._path()}/{name}")

    def _cordon(self) -> None:
        self._api.patch(self._some_node(), {"spec": {"unschedulable": self._rng.random() < 0.4}})

    def _relabel(self) -> None:
        labels = {"disk": self._rng.choice(("ssd", "hdd")), ZONE: f"zone-{self._rng.randrange(ZONES)}"}
        self._api.patch(self._some_node(), {"metadata": {"labels": labels}})

    def _resize(self) -> None:
        room = {"cpu": str(self._rng.randint(2, 16)), "memory": "32Gi", "pods": "110"}
        self._api.patch(f"{self._some_node()}/status", {"status": {"allocatable": room, "capacity": room}})

    def _replace_node(self) -> None:
        """A node goes with its pods, as a node lifecycle controller has them go, and comes back."""
        name = self._rng.choice(self._nodes)
        self._api.delete(f"{NODES}/{name}")
        for one in self._api.list(self._path(), fieldSelector=f"spec.nodeName={name}"):
            self._api.delete(f"{self._path()}/{one['metadata']['name']}")
        self._api.create(NODES, self._node(name))

    def _budget(self) -> None:
        name = f"app-{self._rng.randrange(APPS)}"
        path = BUDGETS.format(self._namespace)
        spec = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": name}}}
        try:
            self._api.create(path, {"metadata": {"name": name}, "spec": spec})
        except ApiError as error:
            if error.status != 409:
                raise
            self._api.delete(f"{path}/{name}")

    # -- kinds of pods ---------------------------------------------------------------------------------------------

    def _pod(self, name: str, app: str, **how: Any) -> Object:
        return pod(name, self._scheduler, labels={"app": app}, cpu=self._rng.choice(CPU), **how)

    def _plain(self, name: str, app: str) -> Object:
        return self._pod(name, app)

    def _apart(self, name: str, app: str) -> Object:
        return self._pod(name, app, affinity=apart({"app": app}, self._rng.choice((HOSTNAME, ZONE))))

    def _near(self, name: str, app: str) -> Object:
        return self._pod(name, app, affinity=near({"app": app}, ZONE))

    def _rather_apart(self, name: str, app: str) -> Object:
        return self._pod(name, app, affinity=rather_apart({"app": app}, HOSTNAME))

    def _zonal(self, name: str, app: str) -> Object:
        return self._pod(name, app, affinity=on(ZONE, [f"zone-{self._rng.randrange(ZONES)}"]))

    def _spread(self, name: str, app: str) -> Object:
        selector = {"matchLabels": {"app": app}}
        constraint = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
        return self._pod(name, app, topologySpreadConstraints=[{**constraint, "labelSelector": selector}])

    def _too_big(self, name: str, app: str) -> Object:
        made = self._pod(name, app)
        made["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "64"
        return made

    def _urgent(self, name: str, app: str) -> Object:
        made = self._pod(name, app)
        made["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "6"
        return made

    def _promising(self, name: str, app: str) -> Object:
        return evictor.pod(name, None, self._scheduler, owner=app)

    def _claiming(self, name: str, app: str) -> Object:
        free = [of for i in range(CLAIMS) if (of := f"claim-{i}") not in self._claims.values()]
        if not free:
            return self._plain(name, app)
        chosen = self._rng.choice(free)
        made = claim(chosen, request("r", DRIVER), meta={"namespace": self._namespace})
        try:
            self._make("resourceclaims", made, self._namespace)
        except ApiError as error:
            if error.reason == "AlreadyExists":
                self._release(chosen)  # the API server was away when it was to be released
            raise
        self._claims[name] = chosen
        return self._pod(name, app, resourceClaims=[{"name": "device", "resourceClaimName": chosen}])

    def _others(self, name: str, app: str) -> Object:
        """A pod that another scheduler has placed."""
        made = self._pod(name, app, affinity=apart({"app": app}, ZONE))
        made["spec"] |= {"schedulerName": OTHERS, "nodeName": self._rng.choice(self._nodes)}
        return made

    # -- words -----------------------------------------------------------------------------------------------------

    def _path(self) -> str:
        return pods_path(self._namespace)

    def _some_node(self) -> str:
        return f"{NODES}/{self._rng.choice(self._nodes)}"

    def _node(self, name: str) -> Object:
        number = int(name.rpartition("-")[2])
        return node(name, f"zone-{number % ZONES}", labels={"disk": "ssd" if number % 3 else "hdd"}, cpu="8")

    def _free(self, name: str) -> None:
        """A claim goes: the work of the kubelet and of the claim controller."""
        self._release(self._claims.pop(name))

    def _release(self, name: str) -> None:
        """Released, then deleted, and only then without finalizer: a scheduler may set one until it is deleted."""
        path = f"{CLAIMS_OF.format(self._namespace)}/{name}"
        try:
            self._api.patch(f"{path}/status", {"status": {"allocation": None, "reservedFor": None}})
            self._api.delete(path)
            self._api.patch(path, {"metadata": {"finalizers": None}})
        except ApiError as error:
            if error.status != 404:
                raise

    def _make(self, plural: str, document: Object, namespace: str = "") -> None:
        document.pop("status", None)
        document["metadata"].pop("uid")
        path = f"{RESOURCES}/namespaces/{namespace}/{plural}" if namespace else f"{RESOURCES}/{plural}"
        self._api.create(path, {"apiVersion": "resource.k8s.io/v1", **document})
