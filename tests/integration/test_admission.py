"""The admission server on the real API server: what policies do there, and what happens when something breaks."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial

import pytest

from tests.controlplane import namespaces
from tests.controlplane.api import ApiError, Object
from tests.controlplane.wait import wait_for
from tests.integration import checks
from tests.integration.admission import (
    MUTATING,
    NAMESPACE,
    POLICIES,
    VALIDATING,
    Policed,
    Service,
    deployment,
    load,
    one_ca,
    paths,
    pod,
    policy,
    rules,
    served,
)
from tests.integration.berth import START, Harbour
from tests.integration.objects import node

QOS, NAME = "scheduler.alpha.kubernetes.io/qos", "scheduler.alpha.kubernetes.io/name"
REJECT_ALL = policy(
    "reject-all", *rules("[{policyPredicate: {}, policyAction: {reject: true, message: nothing today}}]")
)
DEFAULT_TEAM = policy(
    "default-team",
    *rules(
        """
        - name: default-team
          policyPredicate: {labelSelector: {matchExpressions: [{key: team, operator: DoesNotExist}]}}
          policyAction: {updatedLabels: {team: none}}
        """
    ),
)
REQUIRE_OWNER = policy(
    "require-owner",
    *rules(
        """
        - name: require-owner
          policyPredicate: {labelSelector: {matchExpressions: [{key: owner, operator: DoesNotExist}]}}
          policyAction: {reject: true, message: say who owns it}
        """
    ),
)
"""The issue's own promise; a deadline here, not a measurement."""


@pytest.fixture
def team(prepared: Policed) -> Iterator[str]:
    """A namespace for one test."""
    name = namespaces.create(prepared.api, "team")
    yield name
    for path in (MUTATING, VALIDATING):
        try:
            prepared.api.delete(path)
        except ApiError as error:
            assert error.status == 404
    namespaces.remove(prepared.api, name, by_hand=True)


@pytest.fixture
def widgets(prepared: Policed) -> Iterator[str]:
    """A custom resource without any schema; its group."""
    group = f"g{secrets.token_hex(4)}.example.com"
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    prepared.api.create(
        crds,
        {
            "metadata": {"name": f"widgets.{group}"},
            "spec": {
                "group": group,
                "scope": "Namespaced",
                "names": {"plural": "widgets", "kind": "Widget"},
                "versions": [
                    {"name": "v1", "served": True, "storage": True, "schema": schema},
                    {"name": "v2", "served": True, "storage": False, "schema": schema},
                ],
            },
        },
    )
    for version in ("v1", "v2"):
        wait_for("the widgets", partial(served, prepared.api, f"/apis/{group}/{version}/widgets"))
    yield group
    prepared.api.delete(f"{crds}/widgets.{group}")


def test_every_kind_is_policed(policed: Policed, team: str, widgets: str) -> None:
    """Pods, Deployments, ConfigMaps and custom resources of any version are refused, mutated, and audited."""
    policed.start()
    policed.wait_registered()
    policed.enforce(team, REQUIRE_OWNER, DEFAULT_TEAM)
    api = policed.api
    for kind, (path, body) in paths(team, widgets).items():
        with pytest.raises(ApiError, match="say who owns it") as refused:
            api.create(path, body)
        assert (refused.value.status, refused.value.reason) == (403, "Forbidden"), kind
        body["metadata"]["labels"] = {"owner": "ann"}
        made = api.create(path, body)
        assert made["metadata"]["labels"] == {"owner": "ann", "team": "none"}, kind
        one = f"{path}/{body['metadata']['name']}"
        with pytest.raises(ApiError, match="say who owns it"):
            api.patch(one, {"metadata": {"labels": {"owner": None}}})
        updated = api.patch(one, {"metadata": {"labels": {"team": None}}})
        assert updated["metadata"]["labels"]["team"] == "none", kind
        api.delete(one)
    named = "mutate.metadatapolicy.podberth.dev/applied"
    wait_for(
        "the audit",
        lambda: any(e.get("annotations", {}).get(named) == "default-team" for e in policed.cluster.audit_events()),  # type: ignore[attr-defined]
    )


POD_LEVEL_RESOURCES = 34
"""From this minor version on. An older API server drops a pod's own resources, after the webhook has seen them."""


def test_qos_stamp(policed: Policed, team: str) -> None:
    """Every pod carries the class that the API server itself computes; what users write there does not count."""
    policed.start()
    policed.wait_registered()
    some, more = {"cpu": "1", "memory": "1Gi"}, {"cpu": "2", "memory": "1Gi"}
    level = pod("level")
    level["spec"]["resources"] = {"requests": some, "limits": some}
    sidecar = pod("sidecar", requests=some, limits=some)
    sidecar["spec"]["initContainers"] = [{"name": "s", "image": "i", "restartPolicy": "Always"}]
    forged = pod("forged")
    forged["metadata"]["annotations"] = {QOS: "Guaranteed"}
    wanted = {
        "none": (pod("none"), "BestEffort"),
        "some": (pod("some", requests=some), "Burstable"),
        "limits": (pod("limits", limits=some), "Guaranteed"),
        "more": (pod("more", requests=some, limits=more), "Burstable"),
        "level": (level, "Guaranteed"),
        "sidecar": (sidecar, "Burstable"),
        "forged": (forged, "BestEffort"),
    }
    path = f"/api/v1/namespaces/{team}/pods"
    if int(policed.api.get("/version")["minor"]) < POD_LEVEL_RESOURCES:
        body, _ = wanted.pop("level")
        with pytest.raises(ApiError, match="the class of this pod is BestEffort"):
            policed.api.create(path, body)
    for name, (body, want) in wanted.items():
        made = policed.api.create(path, body)
        assert (made["metadata"]["annotations"][QOS], made["status"]["qosClass"]) == (want, want), name
    forged = policed.api.patch(f"{path}/some", {"metadata": {"annotations": {QOS: "BestEffort"}}})
    assert forged["metadata"]["annotations"][QOS] == "Burstable"


def test_routed_and_bound(policed: Policed, team: str, harbour: Harbour) -> None:
    """Both halves: a policy routes BestEffort pods to Berth by the QoS stamp, and `berth run` binds them."""
    policed.start()
    policed.wait_registered()
    name = f"berth-{secrets.token_hex(4)}"
    policed.enforce(
        team,
        policy(
            "route-best-effort",
            *rules(
                f"""
                - name: best-effort-to-berth
                  policyPredicate: {{annotationSelector: {{matchLabels: {{{QOS}: BestEffort}}}}}}
                  policyAction: {{updatedAnnotations: {{{NAME}: {name}}}}}
                """
            ),
        ),
    )
    api, path = policed.api, f"/api/v1/namespaces/{team}/pods"
    api.create("/api/v1/nodes", node("quay"))
    scheduler = harbour.berth(policed.cluster, name)
    some = {"cpu": "100m", "memory": "64Mi"}
    routed = api.create(path, pod("routed"))
    assert (routed["spec"]["schedulerName"], routed["metadata"]["annotations"][NAME]) == (name, name)
    asked = pod("asked", limits=some)
    asked["metadata"]["annotations"] = {NAME: name}
    assert api.create(path, asked)["spec"]["schedulerName"] == name
    elsewhere = api.create(path, pod("elsewhere", limits=some))
    assert elsewhere["spec"]["schedulerName"] == "default-scheduler"
    bound = {one["metadata"]["name"]: checks.node_of(one) for one in checks.wait_bound(api, team, 2)}
    assert bound == {"routed": "quay", "asked": "quay", "elsewhere": ""}
    scheduler.end()
    api.delete("/api/v1/nodes/quay")


def test_labels_are_written_whoever_owns_the_object(policed: Policed, team: str) -> None:
    """Also one by which a ReplicaSet finds its pod: the operator's audit says so, and no request waits for it."""
    policed.start()
    policed.wait_registered()
    relabel = policy(
        "relabel", *rules("[{policyPredicate: {}, policyAction: {updatedLabels: {app: other, tier: other}}}]")
    )
    owner = {**deployment("owner"), "metadata": {"name": "owner"}}
    made = policed.api.create(f"/apis/apps/v1/namespaces/{team}/replicasets", owner)
    policed.enforce(team, relabel)
    body = pod("owned")
    body["metadata"]["labels"] = {"app": "owner", "tier": "mine"}
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "owner", "uid": made["metadata"]["uid"]}
    body["metadata"]["ownerReferences"] = [{**reference, "controller": True}]
    owned = policed.api.create(f"/api/v1/namespaces/{team}/pods", body)
    assert owned["metadata"]["labels"] == {"app": "other", "tier": "other"}


def test_reject_all_deadlocks_nothing(policed: Policed, team: str) -> None:
    """Under a reject-all: events, leases, slices, policies and finalizers pass, deletes pass, and it can be removed.

    So can a namespace that has one, with all that is in it.
    """
    api = policed.api
    maps = f"/api/v1/namespaces/{team}/configmaps"
    api.create(maps, {"metadata": {"name": "kept", "finalizers": ["example.com/wait"]}})
    replica = policed.start("--failure-policy=Fail")
    policed.wait_registered()
    policed.enforce(team, REJECT_ALL)
    with pytest.raises(ApiError, match="nothing today"):
        api.create(maps, {"metadata": {"name": "new"}})
    before = sum(value for name, value in replica.metrics().items() if name.startswith("berth_admission_reviews_total"))
    event = {"metadata": {"name": "e"}, "involvedObject": {"namespace": team, "name": "x", "kind": "Pod"}}
    api.create(f"/api/v1/namespaces/{team}/events", event)
    api.create(f"/apis/coordination.k8s.io/v1/namespaces/{team}/leases", {"metadata": {"name": "l"}})
    slices = f"/apis/discovery.k8s.io/v1/namespaces/{team}/endpointslices"
    api.create(slices, {"metadata": {"name": "s"}, "addressType": "IPv4", "endpoints": []})
    api.create(
        POLICIES.format(team), policy("another", *rules("[{policyPredicate: {}, policyAction: {reject: true}}]"))
    )
    sar = {"spec": {"resourceAttributes": {"namespace": team, "verb": "get", "resource": "pods"}, "user": "x"}}
    api.create(f"/apis/authorization.k8s.io/v1/namespaces/{team}/localsubjectaccessreviews", sar)
    after = sum(value for name, value in replica.metrics().items() if name.startswith("berth_admission_reviews_total"))
    assert after == before  # the API server did not even ask
    for namespace in ("kube-system", "kube-node-lease", NAMESPACE):
        api.create(f"/api/v1/namespaces/{namespace}/configmaps?dryRun=All", {"metadata": {"name": "free"}})

    api.delete(f"{maps}/kept")  # waits for its finalizer
    with pytest.raises(ApiError, match="nothing today"):  # being deleted is no way around policies
        api.patch(f"{maps}/kept", {"metadata": {"labels": {"a": "b"}}})
    api.patch(f"{maps}/kept", {"metadata": {"finalizers": None}})
    with pytest.raises(ApiError, match="not found"):
        api.get(f"{maps}/kept")
    api.delete(f"/apis/coordination.k8s.io/v1/namespaces/{team}/leases/l")

    leaves = namespaces.create(api, "leaves")
    api.create(f"/api/v1/namespaces/{leaves}/configmaps", {"metadata": {"name": "inside"}})
    policed.enforce(leaves, REJECT_ALL)
    with pytest.raises(ApiError, match="nothing today"):
        api.create(f"/api/v1/namespaces/{leaves}/configmaps", {"metadata": {"name": "new"}})
    namespaces.remove(api, leaves, by_hand=True)
    with pytest.raises(ApiError, match="not found"):
        api.get(f"/api/v1/namespaces/{leaves}")
    policed.wait_known()

    for name in ("reject-all", "another"):
        api.delete(f"{POLICIES.format(team)}/{name}")
    policed.wait_known()
    api.create(maps, {"metadata": {"name": "new"}})


@pytest.mark.parametrize("path", [MUTATING, VALIDATING], ids=["mutating", "validating"])
def test_configuration_heals(policed: Policed, path: str) -> None:
    """A webhook configuration that is deleted or edited by hand is made again as it was; labels of others stay."""
    policed.start()
    policed.wait_registered()
    wait_for("both", lambda: all(served(policed.api, one) for one in (MUTATING, VALIDATING)))
    api = policed.api
    before = api.get(path)["webhooks"]

    def healed() -> bool:
        try:
            return bool(api.get(path).get("webhooks") == before)
        except ApiError as error:
            assert error.status == 404
            return False

    api.delete(path)
    wait_for("the configuration to be back", healed, START)
    edited = [{**before[0], "rules": [], "failurePolicy": "Fail", "objectSelector": {"matchLabels": {"a": "b"}}}]
    api.patch(path, {"webhooks": edited})
    wait_for("the edit to be undone", healed, START)
    api.patch(path, {"webhooks": None})
    wait_for("the webhooks to be back", healed, START)
    # What is merged by name, an apply would leave: a condition that nothing meets switches the webhook off.
    never = {"name": "never", "expression": "false"}
    odd = [
        {**before[0], "matchConditions": [*before[0]["matchConditions"], never]},
        {**before[0], "name": "x.example.com"},
    ]
    api.patch(path, {"metadata": {"labels": {"team": "web"}, "annotations": {"note": "here"}}, "webhooks": odd})
    wait_for("the additions to go", healed, START)
    meta = api.get(path)["metadata"]
    assert (meta["labels"]["team"], meta["annotations"]) == ("web", {"note": "here"})


BINDINGS = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings"


@pytest.mark.newest
def test_gives_way_to_the_api_server(policed: Policed, team: str) -> None:
    """A dry run shows that the webhook is in force. It is not registered while the release's binding says that the API
    server enforces, and is again when the binding is gone; with the rights of the manifest.
    """
    api = policed.api
    replica = policed.start("--enforcement=auto")
    policed.wait_registered()
    policed.enforce(team, REJECT_ALL)
    seen = f"/api/v1/namespaces/{team}/configmaps?dryRun=All"
    with pytest.raises(ApiError, match=r'validate\.metadatapolicy\.podberth\.dev" denied the request: webhook webhook'):
        api.create(seen, {"metadata": {"name": "in-force.podberth.dev"}})
    name = "berth.metadatapolicies.podberth.dev"
    meta = {"name": name, "annotations": {"podberth.dev/in-force": "true"}}
    api.create(BINDINGS, {"metadata": meta, "spec": {"policyName": "none.podberth.dev"}})
    try:
        wait_for("the replica to give way", lambda: replica.metrics()["berth_admission_native"] == 1.0, START)
        for path in (MUTATING, VALIDATING):
            api.delete(path)
        looks = replica.metrics()["berth_admission_registration_repairs"]
        time.sleep(6.0)  # one look and more: nothing is to happen, so nothing can be waited for
        assert not any(served(api, path) for path in (MUTATING, VALIDATING))
        assert replica.metrics()["berth_admission_registration_repairs"] == looks
    finally:
        api.delete(f"{BINDINGS}/{name}")
    wait_for("the webhook to be back", lambda: all(served(api, path) for path in (MUTATING, VALIDATING)), START)


def test_dead_replicas_ignored(policed: Policed, team: str) -> None:
    """With nobody left and failurePolicy Ignore, creates succeed, and the audit log says that they failed open."""
    replica = policed.start()
    policed.wait_registered()
    policed.enforce(team, DEFAULT_TEAM, REQUIRE_OWNER)
    replica.kill()
    made = policed.api.create(f"/api/v1/namespaces/{team}/configmaps", {"metadata": {"name": "open"}})
    assert "labels" not in made["metadata"]

    def failed_open() -> bool:
        return any(
            "failed-open.mutation.webhook.admission.k8s.io" in key
            for entry in policed.cluster.audit_events()  # type: ignore[attr-defined]
            if entry.get("objectRef", {}).get("namespace") == team
            for key in entry.get("annotations", {})
        )

    wait_for("the audit", failed_open)


def test_dead_replicas_fail_in_scope_only(policed: Policed, team: str) -> None:
    """With nobody left and failurePolicy Fail, creates fail in scope, and the exempt namespaces and kinds work on."""
    replica = policed.start("--failure-policy=Fail")
    policed.wait_registered()
    replica.kill()
    api = policed.api
    with pytest.raises(ApiError, match="failed calling webhook"):
        api.create(f"/api/v1/namespaces/{team}/configmaps", {"metadata": {"name": "shut"}})
    for namespace in ("kube-system", NAMESPACE):
        made = api.create(f"/api/v1/namespaces/{namespace}/configmaps", {"metadata": {"name": f"free-{team}"}})
        api.delete(f"/api/v1/namespaces/{namespace}/configmaps/{made['metadata']['name']}")
    api.create(f"/apis/coordination.k8s.io/v1/namespaces/{team}/leases", {"metadata": {"name": "l"}})
    api.create("/api/v1/namespaces?dryRun=All", {"metadata": {"name": "new"}})


def test_big_object(policed: Policed, team: str, widgets: str) -> None:
    """Objects as big as the API server takes them are policed: what then refuses 2.9 MiB is etcd, not we."""
    replica = policed.start("--failure-policy=Fail")
    policed.wait_registered()
    policed.enforce(team, DEFAULT_TEAM)
    path, body = paths(team, widgets)["widgets"]
    made = policed.api.create(path, {**body, "blob": "x" * (1400 << 10)})
    assert made["metadata"]["labels"] == {"team": "none"}
    updated = policed.api.patch(f"{path}/w", {"blob": "y" * (1400 << 10), "metadata": {"labels": {"team": None}}})
    assert updated["metadata"]["labels"] == {"team": "none"}
    counter = 'berth_admission_reviews_total{endpoint="validate",operation="CREATE",outcome="allowed"}'
    before = replica.metrics()[counter]
    with pytest.raises(ApiError, match="larger than max") as refused:
        policed.api.create(path, {**body, "metadata": {"name": "vast"}, "blob": "x" * (2900 << 10)})
    assert "webhook" not in refused.value.message
    assert replica.metrics()[counter] > before  # the API server tries once more, without managedFields


def test_certificate_swap_and_rolling_restart(policed: Policed, team: str) -> None:
    """Under load, a full rotation and a rolling restart of two replicas fail no call and leave nothing unpoliced."""
    service = Service()
    options = ("--overlap=2", "--drain=5")  # so long the endpoints have to hear of it, also on a busy machine
    first, second = (policed.start(*options, url=service.url) for _ in range(2))
    service.backends = [first.port, second.port]
    policed.wait_registered()
    policed.enforce(team, DEFAULT_TEAM)
    api, secret = policed.api, f"/api/v1/namespaces/{NAMESPACE}/secrets/berth-admission-tls"
    old = api.get(secret)["data"]

    def labelled(made: Object) -> bool:
        return bool(made["metadata"].get("labels") == {"team": "none"})

    with load(policed, team, labelled) as count:
        wait_for("load", lambda: count[0] > 20)
        now = datetime.now(UTC).isoformat()
        api.patch(secret, {"metadata": {"annotations": {"podberth.dev/rotate-before": now}}})

        def rotated() -> bool:
            data = api.get(secret)["data"]
            return bool(data["tls.crt"] != old["tls.crt"] and old["ca.crt"] not in data["ca.crt"] and one_ca(data))

        wait_for("the rotation to be complete", rotated, START)
        done = count[0]
        wait_for("more load", lambda: count[0] > done + 50)
        for leaving in (first, second):
            fresh = policed.start(*options, url=service.url)
            service.backends = [*service.backends, fresh.port]
            # What a readiness probe does to the endpoints, a moment after it fails.
            stopping = threading.Thread(target=leaving.stop, args=(START,))
            stopping.start()
            wait_for("it not to be ready", lambda: not leaving.ready)  # noqa: B023 - called in this turn
            service.backends = [port for port in service.backends if port != leaving.port]
            stopping.join(START)
            assert leaving.returncode == 0, leaving.tail()
            done = count[0]
            wait_for("more load", lambda: count[0] > done + 50)  # noqa: B023 - called in this turn
    service.close()
    opened = [
        entry["requestURI"]
        for entry in policed.cluster.audit_events()  # type: ignore[attr-defined]
        if entry.get("objectRef", {}).get("namespace") == team
        and any("failed-open" in key for key in entry.get("annotations", {}))
    ]
    assert opened == []
