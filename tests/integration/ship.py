"""`berth operator` as processes of their own, with the rights of their manifest, and what they are given to judge."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import yaml

from tests.controlplane import namespaces
from tests.controlplane.api import Api, ApiError, Object
from tests.controlplane.cluster import Cluster, free_port
from tests.controlplane.wait import wait_for
from tests.integration.berth import START
from tests.integration.component import Component
from tests.integration.rights import wait_granted

MANIFESTS = Path(__file__).parents[2] / "manifests"
CRD = "crd-metadatapolicies.yaml"
EVERYWHERE = "/apis/podberth.dev/v1alpha1/metadatapolicies"
POLICIES = "/apis/podberth.dev/v1alpha1/namespaces/{}/metadatapolicies"
SETS = "/api/v1/namespaces/{}/limitranges"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/{}/leases"
SCHEDULER = "scheduler.alpha.kubernetes.io/name"
PATIENCE = 120.0


class Replica(Component):
    """One operator."""

    def __init__(self, home: Path, kubeconfig: Path, *options: str) -> None:
        name = f"operator-{secrets.token_hex(3)}"
        self.port = free_port()
        own = ["--host=127.0.0.1", f"--port={self.port}"]
        super().__init__(name, home, "operator", f"--kubeconfig={kubeconfig}", *own, *options)

    def probe(self, path: str) -> tuple[int, str]:
        """What a kubelet is told; (0, "") when nobody answers."""
        return self.ask(self.port, path)


class Ship:
    """A cluster with our rights, and namespaces of ours and a team's; starts operators."""

    def __init__(self, cluster: Cluster, home: Path) -> None:
        self.cluster = cluster
        self.api: Api = cluster.api
        self.home = home
        self.berth = namespaces.create(self.api, "berth")
        self.team = namespaces.create(self.api, "team")
        self.release = f"r{secrets.token_hex(4)}"
        self._name = f"berth-operator-{secrets.token_hex(4)}"
        text = (
            (MANIFESTS / "operator-rbac.yaml").read_text().replace("namespace: berth\n", f"namespace: {self.berth}\n")
        )
        for old in ("name: berth-operator-audit\n", "name: berth-operator\n"):
            text = text.replace(old, old.replace("berth-operator", self._name))
        limited = "resources: [clusterroles]\n    resourceNames: [berth-operator]"
        text = text.replace(limited, limited.replace("berth-operator", self._name))
        text = text.replace("      - berth.", f"      - {self.release}.")
        self._rights = text
        self.role = self._name
        cluster.kubectl("apply", "-f", "-", stdin=text)
        token = cluster.service_account_token(self.berth, self._name)
        wait_granted(cluster, token, yaml.safe_load_all(text))
        self.kubeconfig = cluster.kubeconfig(home / "operator", token)
        self.started: list[Replica] = []

    def start(
        self, *options: str, ready: bool = True, everywhere: bool = False, modules: Path | None = None
    ) -> Replica:
        """An operator that looks at the team's namespace only, and is ready, unless told otherwise.

        `modules`: a directory where its Python looks first.
        """
        replica = Replica(
            self.home,
            self.kubeconfig,
            f"--namespace={self.berth}",
            f"--release={self.release}",
            "--audit-interval=2",
            *([] if everywhere else [f"--watch-namespace={self.team}"]),
            *options,
        )
        self.started.append(replica)
        if modules is not None:
            replica.import_first_from(modules)
        replica.start()
        if ready:
            wait_for(f"{replica.name} to be ready", lambda: self._alive(replica).probe("/readyz")[0] == 200, START)
        return replica

    @staticmethod
    def _alive(replica: Replica) -> Replica:
        replica.check()
        return replica

    def put(self, name: str, *rules: Object, mode: str = "enforce", namespace: str = "") -> None:
        """Create a policy."""
        head = {"apiVersion": "podberth.dev/v1alpha1", "kind": "MetadataPolicy"}
        body = {**head, "metadata": {"name": name}, "spec": {"mode": mode, "rules": list(rules)}}
        self.api.create(POLICIES.format(namespace or self.team), body)

    def get(self, name: str) -> Object:
        """A policy as it is."""
        return self.api.get(f"{POLICIES.format(self.team)}/{name}")

    def wait_conditions(self, name: str, **wanted: str) -> dict[str, Object]:
        """Wait until the named conditions have these statuses; all conditions."""

        def there() -> dict[str, Object] | None:
            found: dict[str, Object] = {
                one["type"]: one for one in self.get(name).get("status", {}).get("conditions", [])
            }
            return found if {kind: found.get(kind, {}).get("status") for kind in wanted} == wanted else None

        return wait_for(f"{name} to be {wanted}", there, PATIENCE)

    def wait_status(self, name: str, claim: Callable[[Object], bool]) -> Object:
        """Wait until the claim holds for a status."""

        def there() -> Object | None:
            found: Object = self.get(name).get("status", {})
            return found if found and claim(found) else None

        return wait_for(f"the status of {name}", there, PATIENCE)

    def events(self, name: str) -> list[Object]:
        """The Events about a policy."""
        found = self.api.list(f"/apis/events.k8s.io/v1/namespaces/{self.team}/events")
        return [one for one in found if one["regarding"]["name"] == name]

    def end(self) -> None:
        """End what was started."""
        for replica in self.started:
            replica.kill()

    def close(self) -> None:
        """End everything, and take the rights back."""
        self.end()
        self.cluster.kubectl("delete", "--ignore-not-found", "-f", "-", stdin=self._rights)
        for name in (self.berth, self.team):
            namespaces.remove(self.api, name, by_hand=self.cluster.owned)


def wait_served(cluster: Cluster) -> None:
    """Apply the CRD and wait until it is served."""
    cluster.kubectl("apply", "-f", str(MANIFESTS / CRD))

    def served() -> bool:
        with contextlib.suppress(ApiError):
            return bool(cluster.api.get(EVERYWHERE))
        return False

    wait_for("MetadataPolicies to be served", served, PATIENCE)


def writes(**labels: str) -> Object:
    """A rule that labels everything."""
    return {"policyPredicate": {}, "policyAction": {"updatedLabels": labels}}


def rejects(key: str, operator: str, *values: str) -> Object:
    """A rule that rejects by one label."""
    criterion: Object = {"key": key, "operator": operator, **({"values": list(values)} if values else {})}
    return {
        "policyPredicate": {"labelSelector": {"matchExpressions": [criterion]}},
        "policyAction": {"reject": True},
    }


def sends_to(name: str) -> Object:
    """A rule that sends pods to a scheduler."""
    return {"policyPredicate": {}, "policyAction": {"updatedAnnotations": {SCHEDULER: name}}}


def lease(name: str, holder: str, schedulers: str = "") -> Object:
    """A Lease that was just renewed and lasts for a while."""
    return {
        "metadata": {"name": name, "annotations": {"podberth.dev/schedulers": schedulers} if schedulers else {}},
        "spec": {
            "holderIdentity": holder,
            "leaseDurationSeconds": 3600,
            "renewTime": datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z"),
        },
    }
