"""The chart on a real API server: installed by Helm, its components started as their Deployments say."""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path

from tests.certificates import showing
from tests.chart.rendering import CHART, Chart
from tests.controlplane.api import Object
from tests.controlplane.cluster import ControlPlane, free_port
from tests.controlplane.wait import wait_for
from tests.integration.berth import START
from tests.integration.component import Component
from tests.integration.rights import wait_granted

CONFIG = "--config=/etc/berth/config.yaml"
DEPLOYMENTS = "/apis/apps/v1/namespaces/{}/deployments"

Right = tuple[str, str, str]
"""Verb, group/resource, and the object's name where the right is limited to one."""


class Replica(Component):
    """One pod of a Deployment, as a kubelet would start and probe it; ports are moved to free ones on loopback."""

    def __init__(
        self, component: str, container: Object, home: Path, kubeconfig: Path, config: str, url: str = ""
    ) -> None:
        """`url`: where the API server is to call webhooks, as no kube-proxy makes the Service's address."""
        name = kubeconfig.stem
        self.component = component
        self.credential = ""
        """How the audit log tells its requests from those of others with the same account."""
        self.probes = {kind: container[kind]["httpGet"] for kind in PROBES if kind in container}
        self.ports = {port["name"]: free_port() for port in container.get("ports", ())}
        numbers = {port["containerPort"]: self.ports[port["name"]] for port in container.get("ports", ())}
        args = []
        for arg in container["args"]:
            option, _, value = arg.partition("=")
            if arg == CONFIG:
                mounted = home / f"{name}.yaml"
                mounted.write_text(config)
                arg = f"{option}={mounted}"
            elif option.endswith("port") and value.isdigit():
                arg = f"{option}={numbers[int(value)]}"
                args.append("--bind-address=127.0.0.1" if option == "--secure-port" else "--host=127.0.0.1")
            args.append(arg)
        if component == "admission":
            own = f"https://127.0.0.1:{self.ports['https']}"
            args.append(f"--url={url or own}")
        super().__init__(name, home, *args, f"--kubeconfig={kubeconfig}")

    def get(
        self, path: str, port: str, token: str = "", scheme: str = "HTTPS", certificate: Path | None = None
    ) -> tuple[int, str]:
        """Status and body; (0, "") when nobody answers, or not to whom this certificate names."""
        context = showing(certificate) if scheme == "HTTPS" else None
        return self.ask(self.ports[port], path, context, {"Authorization": f"Bearer {token}"} if token else None)

    def probe(self, kind: str) -> bool:
        """What a kubelet would think."""
        asked = self.probes[kind]
        return self.get(asked["path"], asked["port"], scheme=asked.get("scheme", "HTTP"))[0] == 200


PROBES = ("startupProbe", "readinessProbe", "livenessProbe")


class Installed:
    """A control plane with releases of the chart."""

    def __init__(self, cluster: ControlPlane, chart: Chart, home: Path) -> None:
        self.cluster = cluster
        self.api = cluster.api
        self.chart = chart
        self.home = home
        self.admin = cluster.kubeconfig(home / "helm.kubeconfig")
        self.started: list[Replica] = []

    def helm(self, command: str, release: str, values: Object | None = None) -> str:
        """`helm install`, `upgrade` or `uninstall` of a release in the namespace of its name; what it printed."""
        chart = [] if command == "uninstall" else [CHART]
        done = self.chart.run(
            command, release, *chart, f"--namespace={release}", f"--kubeconfig={self.admin}", values=values
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def deployment(self, release: str, component: str) -> Object:
        """As the API server has it."""
        return self.api.get(f"{DEPLOYMENTS.format(release)}/{release}-{component}")

    def start(self, release: str, component: str, url: str = "") -> Replica:
        """One replica with exactly the chart's account, and a token of its own, ready as far as a probe can tell."""
        pod = self.deployment(release, component)["spec"]["template"]["spec"]
        token = self.cluster.service_account_token(release, pod["serviceAccountName"])
        roles = [role for account, role in self._roles(release) if account == pod["serviceAccountName"]]
        wait_granted(self.cluster, token, roles)
        kubeconfig = self.home / f"{component}-{secrets.token_hex(3)}.kubeconfig"
        self.cluster.kubeconfig(kubeconfig, token)
        maps = [volume["configMap"]["name"] for volume in pod["volumes"] if "configMap" in volume]
        path = f"/api/v1/namespaces/{release}/configmaps/"
        config = self.api.get(path + maps[0])["data"]["config.yaml"] if maps else ""
        (container,) = pod["containers"]
        replica = Replica(component, container, self.home, kubeconfig, config, url)
        replica.credential = f"JTI={_claims(token)['jti']}"
        self.started.append(replica)
        replica.start()
        for kind in replica.probes:

            def probed(kind: str = kind) -> bool:
                replica.check()
                return replica.probe(kind)

            wait_for(f"the {kind} of {replica.name}", probed, START)
        return replica

    def end(self, replica: Replica) -> None:
        """End one for good."""
        replica.kill()
        self.started.remove(replica)

    def leader(self, release: str, lease: str) -> str:
        """Who holds a Lease; nobody is empty."""
        leases = self.api.list(f"/apis/coordination.k8s.io/v1/namespaces/{release}/leases")
        held = [one["spec"].get("holderIdentity") or "" for one in leases if one["metadata"]["name"] == lease]
        return held[0] if held else ""

    def granted(self, release: str) -> dict[str, set[Right]]:
        """What RBAC gives to each component, from the roles that are bound to its account."""
        found: dict[str, set[Right]] = {}
        for account, role in self._roles(release):
            rights = found.setdefault(account, set())
            rights |= {right for rule in role["rules"] or [] for right in _rights(rule)}
        return found

    def _roles(self, release: str) -> Iterator[tuple[str, Object]]:
        """(account, a role that is bound to it), each with the namespace in which it counts."""
        for where in ("", f"namespaces/{release}/", "namespaces/kube-system/"):
            root, kind = f"/apis/rbac.authorization.k8s.io/v1/{where}", "role" if where else "clusterrole"
            roles = {one["metadata"]["name"]: one for one in self.api.list(f"{root}{kind}s")}
            for binding in self.api.list(f"{root}{kind}bindings"):
                for subject in binding.get("subjects") or []:
                    if subject["kind"] == "ServiceAccount" and subject["namespace"] == release:
                        role = roles[binding["roleRef"]["name"]]
                        yield subject["name"], {"rules": None, **role, "kind": "Role" if where else "ClusterRole"}

    def used(self, release: str) -> tuple[dict[str, set[Right]], list[Object]]:
        """What each account did (with and without the object's name), and the requests that RBAC denied."""
        prefix = f"system:serviceaccount:{release}:"
        found: dict[str, set[Right]] = {}
        denied = []
        for event in self.cluster.audit_events():
            user = event["user"]["username"]
            if not user.startswith(prefix) or "objectRef" not in event:
                continue
            if event.get("annotations", {}).get("authorization.k8s.io/decision") == "forbid":
                denied.append(event)
            asked = event["objectRef"]
            resource = "/".join(filter(None, (asked.get("apiGroup", ""), asked["resource"], asked.get("subresource"))))
            rights = found.setdefault(user.removeprefix(prefix), set())
            verbs = {event["verb"]}
            if event["verb"] == "patch" and event.get("responseStatus", {}).get("code") == HTTPStatus.CREATED:
                verbs.add("create")  # an apply made it, which takes both rights
            rights |= {(verb, resource, name) for verb in verbs for name in {"", asked.get("name", "")}}
        return found, denied

    def close(self) -> None:
        """End what was started."""
        for replica in self.started:
            replica.kill()

    def logs(self) -> Iterator[tuple[str, str]]:
        """(title, end of the log) of each replica."""
        for replica in self.started:
            yield f"end of the log of {replica.name}", replica.tail(15)


def _rights(rule: Object) -> Iterator[Right]:
    for group in rule.get("apiGroups", ()):
        for resource in rule["resources"]:
            for verb in rule["verbs"]:
                for name in rule.get("resourceNames", [""]):
                    yield verb, "/".join(filter(None, (group, resource))), name


def _claims(token: str) -> Object:
    """What a token says of itself."""
    payload = token.split(".")[1]
    read: Object = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    return read
