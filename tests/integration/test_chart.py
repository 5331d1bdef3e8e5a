"""The chart on a real API server: two releases, Pod Security, and components with its rights and no others."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

import podberth
from tests.certificates import Authority
from tests.chart.rendering import Chart, documents
from tests.chart.test_values import EVERYTHING
from tests.chart.versions import foreign_crds
from tests.controlplane.api import Api, ApiError, Object
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.once import UnreachableError
from tests.controlplane.process import Process
from tests.controlplane.wait import wait_for
from tests.integration import checks
from tests.integration.admission import POLICIES
from tests.integration.component import BERTH
from tests.integration.installed import Installed, Replica, Right
from tests.integration.objects import HOSTNAME, NODES, node, pod, pods_path
from tests.integration.volumes import Disks

COMPONENTS = ("scheduler", "operator", "admission", "evictor")
CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/metadatapolicies.podberth.dev"
HOOKS = "/apis/admissionregistration.k8s.io/v1"
RBAC = "rbac.authorization.k8s.io"
AUTHORITIES = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
TEAM = "team"
LEFT = (("secrets", "/api/v1"), ("leases", "/apis/coordination.k8s.io/v1"))
VALUES: Object = {
    "evictor": {"enabled": True},
    "networkPolicy": {"enabled": True, "apiServer": ["127.0.0.1/32"], "restrictEgress": True},
    "metrics": {"readers": [{"name": "prometheus", "namespace": "berth"}], "dashboard": {"enabled": True}},
    # Short terms, so that the standby need not be waited for.
    "scheduler": {"config": {"leaderElection": {"leaseDuration": "3s", "renewDeadline": "2s", "retryPeriod": "500ms"}}},
}
ROUTED = {"updatedAnnotations": {"scheduler.alpha.kubernetes.io/name": "berth"}}

ALL_OF_THE_ROLE = {
    "of the Role extension-apiserver-authentication-reader, which is the cluster's": {
        ("get", "configmaps", "extension-apiserver-authentication")
    }
}
BOTH = "berth.metadatapolicies.podberth.dev"
NATIVE = [
    (f"admissionregistration.k8s.io/{kind}admission{what}", name)
    for kind, names in (
        ("mutating", (BOTH,)),
        ("validating", (BOTH, f"berth.tells.{BOTH[6:]}", "berth.sets.podberth.dev")),
    )
    for what in ("policies", "policybindings")
    for name in names
] + [("limitranges", "in-force.podberth.dev")]
"""What the operator writes by an apply."""
# Granted, and not used by what happens below: why each is needed all the same, and which test uses it.
UNUSED: dict[str, dict[str, set[Right]]] = {
    "berth-scheduler": {
        **ALL_OF_THE_ROLE,
        "an unanswered Binding is looked up (test_restart)": {("get", "pods", "")},
        "the Lease that shows a live scheduler without an election (test_rights)": {
            (verb, "coordination.k8s.io/leases", "berth-heartbeat") for verb in ("get", "update")
        },
        "a volume is to be made for a claim (test_volumes)": {("patch", "persistentvolumeclaims", "")},
        "devices are given, and claims made for extended resources (test_devices)": {
            *((verb, "resource.k8s.io/resourceclaims", "") for verb in ("get", "create", "patch", "delete")),
            *(("patch", f"resource.k8s.io/resourceclaims/{part}", "") for part in ("status", "binding")),
        },
        "pod groups are off by default, and get conditions (test_gangs)": {
            (verb, f"{group}/{kind}", "")
            for group in ("scheduling.k8s.io", "scheduling.x-k8s.io")
            for verb, kind in (("list", "podgroups"), ("watch", "podgroups"), ("patch", "podgroups/status"))
        },
        "a group whose claim is to be reserved, after no answer (unit: app/test_objects)": {
            ("get", "scheduling.k8s.io/podgroups", "")
        },
    },
    "berth-operator": {
        **ALL_OF_THE_ROLE,
        "a policy's conditions change (test_operator)": {("create", "events.k8s.io/events", "")},
        "an apply makes what is not there (test_native_operator)": {
            *(("create", *one) for one in NATIVE),
            ("create", "configmaps", "in-force.podberth.dev"),
        },
        "what the API server enforces goes, or is repaired (test_native_operator)": {
            (verb, *one) for one in NATIVE for verb in ("delete", "update")
        },
        "asked by the API server itself of whoever writes an admission policy that reads them": {
            ("get", "limitranges", "")
        },
        "kopf follows namespaces where --watch-namespace names some (test_operator)": {
            (verb, "namespaces", "") for verb in ("list", "watch")
        },
        "a large policy is read when its namespace is looked at (test_operator)": {
            ("get", "podberth.dev/metadatapolicies", "")
        },
        "a policy moves to the webhook (test_native_moves)": {
            ("get", f"admissionregistration.k8s.io/{kind}webhookconfigurations", "zz-berth-admission")
            for kind in ("mutating", "validating")
        },
        "owners that may lose what they make, where labels are written (unit: policy/operator/test_audit)": {
            ("list", "apps/replicasets", ""),
            ("list", "replicationcontrollers", ""),
        },
    },
    "berth-admission": {
        **ALL_OF_THE_ROLE,
        "configurations are edited, certificates age (test_admission)": {
            ("update", f"admissionregistration.k8s.io/{kind}webhookconfigurations", "zz-berth-admission")
            for kind in ("mutating", "validating")
        }
        | {("patch", "secrets", "berth-admission-tls")},
        "a long policy that was left out applies again (unit: policy/admission/test_bounded)": {
            ("get", "podberth.dev/metadatapolicies", ""),
        },
        "asked by the API server itself, before an owner may be named": {
            ("delete", f"admissionregistration.k8s.io/{kind}webhookconfigurations", "zz-berth-admission")
            for kind in ("mutating", "validating")
        },
    },
    "berth-evictor": {
        **ALL_OF_THE_ROLE,
        "a broken promise is looked at again, then its pod evicted (test_evictor)": {
            ("get", "pods", ""),
            ("get", "nodes", ""),
            ("create", "pods/eviction", ""),
            ("create", "events.k8s.io/events", ""),
        },
    },
}


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Who signs the certificates of the cluster's clients."""
    return Authority(tmp_path_factory.mktemp("clients"))


@pytest.fixture(scope="module")
def installed(
    control_plane_binaries: Path, chart: Chart, clients: Authority, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installed]:
    """A control plane with the release `berth`, in a namespace that enforces Pod Security's level restricted."""
    # Where owners are limited, as OpenShift has it: naming one takes the right to delete.
    limited = "--enable-admission-plugins=OwnerReferencesPermissionEnforcement"
    with ControlPlane(audit=True, apiserver_args=[limited, f"--client-ca-file={clients.file}"]) as cluster:
        made = Installed(cluster, chart, tmp_path_factory.mktemp("installed"))
        for name in ("berth", "green", "blue", TEAM):
            labels = {} if name == TEAM else {"pod-security.kubernetes.io/enforce": "restricted"}
            made.api.create("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
        made.api.create("/api/v1/namespaces/berth/serviceaccounts", {"metadata": {"name": "prometheus"}})
        made.helm("install", "berth", VALUES)
        yield made
        made.close()


def test_pod_security(installed: Installed) -> None:
    """Each Deployment's pod is admitted where the level restricted is enforced; a pod that says nothing is not."""
    path = f"{pods_path('berth')}?dryRun=All"
    for component in COMPONENTS:
        template = installed.deployment("berth", component)["spec"]["template"]
        template["metadata"]["name"] = component
        installed.api.create(path, template)
    with pytest.raises(ApiError, match='violates PodSecurity "restricted'):
        installed.api.create(path, pod("careless", "default-scheduler"))


def test_strictly_valid(installed: Installed) -> None:
    """The API server takes every object without an unknown or doubled field."""
    text = installed.chart.text(VALUES)
    installed.cluster.kubectl("apply", "--dry-run=server", "--validate=strict", "-f-", stdin=text)


def test_other_projects_kinds(installed: Installed) -> None:
    """Certificate, Issuer, ServiceMonitor and PrometheusRule, too, where their CRDs are."""
    try:
        files = foreign_crds()
    except UnreachableError as error:
        pytest.skip(f"the CRDs are out of reach: {error}")
    # Not applied: what kubectl would note of them is longer than an annotation may be.
    kubectl = installed.cluster.kubectl
    kubectl("create", *(f"-f{file}" for file in files))
    crds = [crd["spec"] for file in files for crd in documents(file.read_text())]
    # A kind that is Established is not yet in what kubectl asks for kinds.
    wait_for("their kinds", lambda: all(_served(installed.api, crd) for crd in crds), checks.BOUND)
    dry_run = ("apply", "--dry-run=server", "--validate=strict", "-f-")
    text = installed.chart.text(EVERYTHING)
    kubectl(*dry_run, stdin=text)
    refused = kubectl(*dry_run, stdin=text.replace("selfSigned:", "selfsigned:"), check=False)
    assert refused.returncode != 0
    assert 'unknown field "spec.selfsigned"' in refused.stderr


def _served(api: Api, crd: Object) -> bool:
    """Whether discovery names each version of a kind."""
    try:
        found = [api.get(f"/apis/{crd['group']}/{version['name']}")["resources"] for version in crd["versions"]]
    except ApiError:
        return False
    return all(any(one["name"] == crd["names"]["plural"] for one in resources) for resources in found)


def test_another_release(installed: Installed) -> None:
    """A second release beside the first; the CRD stays the first's, which upgrades it, and outlives who goes."""
    notes = installed.helm("install", "green")
    for said in ("schedulerName: green", "get lease green", "zz-green-admission", "metrics.readers"):
        assert said in notes
    owner = "meta.helm.sh/release-name"
    assert installed.api.get(CRD)["metadata"]["annotations"][owner] == "berth"
    # What an older version would have had.
    installed.api.patch(CRD, [{"op": "remove", "path": "/spec/versions/0/additionalPrinterColumns"}], "json")
    installed.helm("upgrade", "green")
    assert "additionalPrinterColumns" not in installed.api.get(CRD)["spec"]["versions"][0]
    installed.helm("upgrade", "berth", VALUES)
    assert installed.api.get(CRD)["spec"]["versions"][0]["additionalPrinterColumns"]
    installed.helm("uninstall", "green")
    assert installed.api.get(CRD)["metadata"]["annotations"][owner] == "berth"
    assert set(installed.granted("berth")) == {f"berth-{name}" for name in COMPONENTS} | {"prometheus"}
    assert installed.granted("green") == {}


def test_uninstall_takes_the_webhooks(installed: Installed, garbage_collector: Path) -> None:
    """They go with the ClusterRole, and a replica that still runs does not bring them back."""
    api = installed.api
    installed.helm("install", "blue", {"scheduler": {"enabled": False}, "operator": {"enabled": False}})
    replica = installed.start("blue", "admission")
    wait_for("the webhooks", lambda: len(_webhooks(api)) == 2, checks.BOUND)
    role = api.get("/apis/rbac.authorization.k8s.io/v1/clusterroles/blue-admission")
    # As an older version made them: where owners are limited, to name one later takes the right to delete.
    for one in _webhooks(api):
        path = f"{HOOKS}/{one['kind'].lower()}s/zz-blue-admission"
        api.patch(path, [{"op": "remove", "path": "/metadata/ownerReferences"}], "json")
    wait_for("both to be owned", lambda: _owners(api) == [role["metadata"]["uid"]] * 2, checks.BOUND)
    _, denied = installed.used("blue")
    assert [(one["verb"], one["requestURI"]) for one in denied] == []
    command: list[str | Path] = [garbage_collector, f"--kubeconfig={installed.admin}"]
    collector = Process("gc", command, installed.home / "gc.log")
    collector.start()
    try:
        installed.helm("uninstall", "blue")
        wait_for("the webhooks to go", lambda: not _webhooks(api), checks.BOUND)
        wait_for("the replica to try", lambda: replica.lines("could not write it, trying again"), checks.BOUND)
        assert _webhooks(api) == []
        # What is left in the namespace, as docs/install.md says.
        left = {
            kind: [one["metadata"]["name"] for one in api.list(f"{group}/namespaces/blue/{kind}")]
            for kind, group in LEFT
        }
        assert left == {"secrets": ["blue-admission-tls"], "leases": ["blue-admission"]}
    finally:
        collector.kill()
        installed.end(replica)


def _webhooks(api: Api) -> list[Object]:
    found = []
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        found += [one | {"kind": kind} for one in api.list(f"{HOOKS}/{kind.lower()}s")]
    return [one for one in found if one["metadata"]["name"] == "zz-blue-admission"]


def _owners(api: Api) -> list[str]:
    return [owner["uid"] for one in _webhooks(api) for owner in one["metadata"].get("ownerReferences", [])]


def test_helm_test(installed: Installed) -> None:
    """`helm test` succeeds when Berth has given its pod a node, and the pod's command, run by us, has succeeded."""
    api, path = installed.api, f"{pods_path('berth')}/berth-test-0"
    api.create(NODES, node("tested"))
    replica = installed.start("berth", "scheduler")
    command: list[str | Path] = [installed.chart.helm, "test", "berth", "--namespace=berth", "--timeout=120s"]
    tester = Process("helm-test", [*command, f"--kubeconfig={installed.admin}"], installed.home / "helm-test.log")
    tester.start()
    try:
        wait_for("the pod to be bound", lambda: _there(api, path) and checks.node_of(api.get(path)), checks.BOUND)
        (container,) = api.get(path)["spec"]["containers"]
        ran = subprocess.run([BERTH, *container["args"]], capture_output=True, text=True, check=True)
        assert ran.stdout == f"berth {podberth.__version__}\n"
        api.patch(f"{path}/status", {"status": {"phase": "Succeeded"}})
        wait_for("helm to end", lambda: not tester.running, checks.BOUND)
        assert tester.returncode == 0, tester.tail(15)
        assert not _there(api, path)
    finally:
        tester.kill()
        installed.end(replica)
        api.delete(f"{NODES}/tested")


def _there(api: Api, path: str) -> bool:
    try:
        api.get(path)
    except ApiError:
        return False
    return True


def test_rights(installed: Installed, clients: Authority) -> None:
    """From policy to takeover with the chart's accounts: nothing is denied, and nothing granted without a use."""
    api = installed.api
    for name in ("one", "two"):
        api.create(NODES, node(name))
    first, second = (installed.start("berth", "scheduler") for _ in range(2))
    for component in ("admission", "operator", "evictor"):
        installed.start("berth", component)
    for component in COMPONENTS:
        lease = "berth" if component == "scheduler" else f"berth-{component}"
        wait_for(f"somebody to hold {lease}", partial(installed.leader, "berth", lease), checks.BOUND)

    _policy_routes(installed)
    _volume_is_bound(installed)
    _victim_makes_way(installed)
    _metrics_are_read(installed)
    _certificates_count(installed, clients)

    leader = first if first.lines("leads") else second
    leader.kill()
    api.create(pods_path(TEAM), pod("next", "default-scheduler"))
    _wait_bound(api, "next")

    granted = installed.granted("berth")
    # What runs by the clock (an audit, a count) may come a little later.
    with contextlib.suppress(AssertionError):
        wait_for("every right to be used", lambda: not _without_use(installed, granted), checks.BOUND, 0.5)
    assert _without_use(installed, granted) == set()
    used, denied = installed.used("berth")
    assert [(one["user"]["username"], one["verb"], one["requestURI"]) for one in denied] == []
    for account in UNUSED:
        unused = granted[account] - used[account]
        print(f"{account}: {len(granted[account])} rights, {len(unused)} not used here")
        for right in sorted(unused):
            print("   ", *right)


def _without_use(installed: Installed, granted: dict[str, set[Right]]) -> set[Right]:
    """Rights that were not used, and that no other test is named for."""
    used, _ = installed.used("berth")
    return {
        right
        for account, reasons in UNUSED.items()
        for right in granted[account] - used.get(account, set()) - set().union(*reasons.values())
    }


def _policy_routes(installed: Installed) -> None:
    """A policy sends pods to Berth, which binds them; its status says that Berth is there."""
    policy = {"metadata": {"name": "to-berth"}, "spec": {"rules": [{"policyPredicate": {}, "policyAction": ROUTED}]}}
    head = {"apiVersion": "podberth.dev/v1alpha1", "kind": "MetadataPolicy"}
    installed.api.create(POLICIES.format(TEAM), head | policy)
    wait_for("pods to be routed", lambda: _routed(installed), checks.BOUND)
    wait_for("the policy's status", lambda: _conditions(installed).get("SchedulerAvailable") == "True", checks.BOUND)
    installed.api.create(pods_path(TEAM), pod("web", "default-scheduler"))
    _wait_bound(installed.api, "web")


def _volume_is_bound(installed: Installed) -> None:
    """A claim that waits for its first pod."""
    disks = Disks(installed.cluster, TEAM)
    disks.make_class()
    disks.make_volume("disk", "one")
    disks.make_claim("data")
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    installed.api.create(pods_path(TEAM), pod("stateful", "berth", volumes=[claim]))
    disks.until("the claim's pod to be bound", lambda: _node(installed.api, "stateful"))


def _victim_makes_way(installed: Installed) -> None:
    """Preemption on a node that is full."""
    there: Object = {"nodeSelector": {HOSTNAME: "two"}}
    installed.api.create(pods_path(TEAM), pod("low", "berth", cpu="3", **there))
    _wait_bound(installed.api, "low")
    urgent = pod("urgent", "berth", cpu="3", priorityClassName="system-cluster-critical", **there)
    installed.api.create(pods_path(TEAM), urgent)
    _wait_bound(installed.api, "urgent")


def _metrics_are_read(installed: Installed) -> None:
    """By whom the chart names, and by nobody else."""
    reader = installed.cluster.service_account_token("berth", "prometheus")
    other = installed.cluster.service_account_token("berth", "berth-evictor")
    for replica in installed.started:
        if "metrics" in replica.ports:
            wait_for(f"{replica.name} to be read", partial(_answers, replica, reader, 200), checks.BOUND, 0.5)
            assert _answers(replica, other, 403), replica.name


def _answers(replica: Replica, token: str, status: int) -> bool:
    return replica.get("/metrics", "metrics", token)[0] == status


def _certificates_count(installed: Installed, known: Authority) -> None:
    """Of clients whom the cluster's CAs name; which they are may change while the components run."""
    api, new = installed.api, Authority(installed.home, "new")
    user = {"kind": "User", "name": "dashboard", "apiGroup": RBAC}
    role = {"kind": "ClusterRole", "name": "berth-metrics", "apiGroup": RBAC}
    binding = {"metadata": {"name": "dashboard"}, "roleRef": role, "subjects": [user]}
    api.create(f"/apis/{RBAC}/v1/clusterrolebindings", binding)
    shown = {
        "allowed": known.user("dashboard"),
        "not allowed": known.user("somebody", "readers"),
        "administrator": known.user("root", "system:masters"),
        "of another CA": new.user("dashboard"),
        "nobody": None,
    }
    want = {"allowed": 200, "not allowed": 403, "administrator": 200, "of another CA": 0, "nobody": 401}

    def wait_answers(replica: Replica) -> None:
        def answered() -> bool:
            statuses = {who: replica.get("/metrics", "metrics", certificate=file)[0] for who, file in shown.items()}
            return statuses == want

        # Roles take a moment to reach the authorizer, and a refusal is remembered for ten seconds.
        wait_for(f"{replica.name} to answer {want}", answered, checks.BOUND, 0.5)

    replicas = [replica for replica in installed.started if "metrics" in replica.ports]
    for replica in replicas:
        wait_answers(replica)
    bundle = "\n".join(one.pem.decode() for one in (known, new))
    api.patch(AUTHORITIES, {"data": {"client-ca-file": bundle}})
    want["of another CA"] = 200
    for replica in replicas:
        wait_answers(replica)
    api.patch(AUTHORITIES, {"data": {"client-ca-file": known.pem.decode()}})
    want["of another CA"] = 0
    for replica in replicas:
        wait_answers(replica)


def _node(api: Api, name: str) -> str:
    return checks.node_of(api.get(f"{pods_path(TEAM)}/{name}"))


def _wait_bound(api: Api, name: str) -> None:
    wait_for(f"{name} to be bound", lambda: _node(api, name), checks.BOUND)


def _routed(installed: Installed) -> bool:
    seen = installed.api.create(f"{pods_path(TEAM)}?dryRun=All", pod("canary", "default-scheduler"))
    return bool(seen["spec"]["schedulerName"] == "berth")


def _conditions(installed: Installed) -> dict[str, str]:
    status = installed.api.get(f"{POLICIES.format(TEAM)}/to-berth").get("status", {})
    return {one["type"]: one["status"] for one in status.get("conditions", [])}
