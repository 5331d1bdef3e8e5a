"""Whole replicas on an embedded API server that calls them: registered, enforced, healed, handed over."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from podberth.kube import listwatch
from podberth.policy.admission.replica import Replica
from podberth.policy.admission.settings import Settings
from tests.builders import definition
from tests.controlplane.cluster import free_port
from tests.unit.policy.admission.builders import policy, rule, without
from tests.unit.policy.admission.conftest import CRD, CRDS, NAMESPACE, POLICIES, Api, until
from tests.unit.policy.admission.test_server import material

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/{}webhookconfigurations"
MUTATING, VALIDATING = CONFIGURATIONS.format("mutating"), CONFIGURATIONS.format("validating")
MAPS = "/api/v1/namespaces/team/configmaps"

Start = Callable[..., Awaitable[Replica]]


@pytest.fixture
async def start(api: Api) -> AsyncIterator[Start]:
    """`await start(**settings)`: a replica on a port of its own, ended after the test."""
    running: list[tuple[Replica, asyncio.Task[None]]] = []
    async with AsyncExitStack() as clients:

        async def one(*, ready: bool = True, **more: Any) -> Replica:
            port = more.pop("port", None) or free_port()
            url = more.pop("url", f"https://127.0.0.1:{port}")
            settings = Settings(namespace=NAMESPACE, host="127.0.0.1", port=port, url=url, drain_seconds=0.0, **more)
            replica = Replica(await clients.enter_async_context(api.client()), settings)
            task = asyncio.create_task(replica.run())
            running.append((replica, task))
            if ready:
                await until(lambda: replica.cache.unready is None and replica.server.port > 0)
            return replica

        yield one
        for replica, _ in running:
            replica.end()
        async with asyncio.timeout(30):
            await asyncio.gather(*(task for _, task in running))


async def registered(api: Api) -> None:
    """Both configurations are there."""

    async def there() -> bool:
        found = [await api.get(path) for path in (MUTATING, VALIDATING)]
        return all(len(one["items"]) == 1 for one in found)

    await until(there)


async def put_policy(api: Api, replica: Replica, body: dict[str, Any]) -> None:
    """Create a policy and wait until the replica knows it."""
    before = sum(replica.cache.counts())
    made = await api.create(POLICIES.format("team"), body)
    assert made.status == 201, made.body
    await until(lambda: sum(replica.cache.counts()) > before)


async def test_enforced(api: Api, start: Start) -> None:
    """Once registered, the API server's creates are mutated and refused as the policies say."""
    replica = await start()
    await registered(api)
    await put_policy(api, replica, policy("team", rule(without("team"), labels={"team": "none"})))
    await put_policy(api, replica, policy("bad", rule({"matchLabels": {"bad": "yes"}}, reject=True, message="no")))
    made = await api.create(MAPS, {"metadata": {"name": "one"}})
    assert made.body["metadata"]["labels"] == {"team": "none"}
    refused = await api.create(MAPS, {"metadata": {"name": "two", "labels": {"bad": "yes"}}})
    assert refused.status == 403 and "no" in refused.body["message"]
    dry = await api.create(f"{MAPS}?dryRun=All", {"metadata": {"name": "three"}})
    assert dry.body["metadata"]["labels"] == {"team": "none"}


async def test_waits_for_the_crd(api: Api, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the CRD a replica is not ready and registers nothing; it goes on by itself when the CRD comes."""
    monkeypatch.setattr(listwatch, "REFUSED_PAUSE", 0.1)
    await api.call("DELETE", f"{CRDS}/{CRD['metadata']['name']}")
    replica = await start(ready=False)
    await until(lambda: replica.cache.reflector.refused is not None)
    assert replica.cache.unready is not None and "404" in replica.cache.unready
    assert (await api.get(MUTATING))["items"] == []
    assert (await api.create(CRDS, CRD)).status == 201
    await until(lambda: replica.cache.unready is None, seconds=40)
    await registered(api)


async def test_a_crd_that_is_deleted_takes_the_policies_along(api: Api, start: Start) -> None:
    """The API server deletes the policies with it: what they refused is allowed."""
    replica = await start()
    await registered(api)
    await put_policy(api, replica, policy("all", rule(reject=True)))
    assert (await api.create(MAPS, {"metadata": {"name": "one"}})).status == 403
    await api.call("DELETE", f"{CRDS}/{CRD['metadata']['name']}")
    await until(lambda: replica.cache.counts() == (0, 0))
    assert (await api.create(MAPS, {"metadata": {"name": "one"}})).status == 201


async def test_malformed_policy_is_left_out_and_said(api: Api, start: Start) -> None:
    """A stored policy that can't be accepted is not applied, the others are, and clients are warned."""
    replica = await start()
    await registered(api)
    broken = policy("broken", rule(labels={"team": "x"}))
    broken["spec"]["rules"][0]["policyAction"]["updatedLabels"]["not a key!"] = "x"
    await put_policy(api, replica, broken)
    await put_policy(api, replica, policy("good", rule(labels={"good": "yes"})))
    assert replica.cache.counts() == (1, 1)
    made = await api.create(MAPS, {"metadata": {"name": "one"}})
    assert made.body["metadata"]["labels"] == {"good": "yes"}
    assert any("broken" in warning for warning in made.warnings)
    spec = policy("broken", rule(labels={"team": "x"}))["spec"]
    path = f"{POLICIES.format('team')}/broken"
    assert (await api.call("PATCH", path, {"spec": spec}, "application/merge-patch+json")).status == 200
    await until(lambda: replica.cache.counts() == (2, 0))


async def test_deleted_policy_applies_no_longer(api: Api, start: Start) -> None:
    """A policy that is deleted applies no longer."""
    replica = await start()
    await registered(api)
    await put_policy(api, replica, policy("all", rule(reject=True)))
    assert (await api.create(MAPS, {"metadata": {"name": "one"}})).status == 403
    assert (await api.call("DELETE", f"{POLICIES.format('team')}/all")).status == 200
    await until(lambda: replica.cache.counts() == (0, 0))
    assert (await api.create(MAPS, {"metadata": {"name": "one"}})).status == 201


@pytest.mark.parametrize("path", [MUTATING, VALIDATING])
async def test_configuration_is_healed(api: Api, start: Start, path: str) -> None:
    """A configuration that is edited or deleted is as it was a moment later, without a second leader's help."""
    replica = await start()
    await registered(api)
    one = f"{path}/zz-berth-admission"
    before = (await api.get(one))["webhooks"]
    edits: list[Any] = [None, {"webhooks": []}, {"webhooks": [{**before[0], "namespaceSelector": {}}]}]
    for edit in edits:
        verb = "DELETE" if edit is None else "PATCH"
        assert (await api.call(verb, one, edit, "application/merge-patch+json")).status == 200

        async def healed() -> bool:
            found = await api.call("GET", one)
            return found.status == 200 and found.body.get("webhooks") == before

        await until(healed)
    assert replica.registration.repairs >= 2


IN_FORCE = {"podberth.dev/in-force": "true"}


def binding(**more: Any) -> dict[str, Any]:
    """The binding of the release."""
    head = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicyBinding"}
    return {**head, "metadata": {"name": "berth.metadatapolicies.podberth.dev", **more}}


async def serve_bindings(api: Api) -> None:
    """The API server has the kind of the binding; here it is kept, and enforces nothing."""
    names = "mutatingadmissionpolicybindings", "admissionregistration.k8s.io", "v1", "MutatingAdmissionPolicyBinding"
    kind = definition(*names, annotations={"api-approved.kubernetes.io": "unapproved"})
    kind["spec"]["scope"] = "Cluster"
    made = await api.create(CRDS, kind)
    assert made.status == 201, made.body


async def test_configurations_go_while_the_api_server_enforces(api: Api, start: Start) -> None:
    """They are kept until the binding says so and from when it is gone, and are not written meanwhile."""
    await serve_bindings(api)
    bindings = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings"
    one = f"{bindings}/berth.metadatapolicies.podberth.dev"
    assert (await api.create(bindings, binding())).status == 201
    replica = await start(enforcement="auto")
    await registered(api)
    marked = {"metadata": {"annotations": IN_FORCE}}
    assert (await api.call("PATCH", one, marked, "application/merge-patch+json")).status == 200
    for path in (MUTATING, VALIDATING):
        await api.call("DELETE", f"{path}/zz-berth-admission")
    await until(lambda: replica.registration.native)
    await replica.registration.reconcile()
    for path in (MUTATING, VALIDATING):
        assert (await api.get(path))["items"] == []
    assert (await api.call("DELETE", one)).status == 200
    await registered(api)
    assert not replica.registration.native


async def test_the_switch_says_webhook(api: Api, start: Start) -> None:
    """Whatever a binding says: it may be that of an operator that was configured otherwise."""
    await serve_bindings(api)
    bindings = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings"
    assert (await api.create(bindings, binding(annotations=IN_FORCE))).status == 201
    await start()
    await registered(api)


async def test_certificates_rotate_while_serving(api: Api, start: Start) -> None:
    """A rotation that is asked for runs through, and the API server's calls succeed all the while."""
    replica = await start(overlap_seconds=0.5)
    await registered(api)
    await put_policy(api, replica, policy("team", rule(labels={"team": "x"})))
    first = replica.certificates.bundle
    assert first is not None
    now = datetime.now(UTC).isoformat()
    secret = f"/api/v1/namespaces/{NAMESPACE}/secrets/berth-admission-tls"
    marked = {"metadata": {"annotations": {"podberth.dev/rotate-before": now}}}
    await api.call("PATCH", secret, marked, "application/merge-patch+json")
    count = 0

    async def create_until_rotated() -> bool:
        nonlocal count
        count += 1
        replica.registration.wake()
        made = await api.create(MAPS, {"metadata": {"name": f"map-{count}"}})
        assert made.body["metadata"]["labels"] == {"team": "x"}
        return first not in (replica.certificates.bundle or first)

    await until(create_until_rotated, seconds=30)


async def test_second_replica_takes_over(api: Api, start: Start) -> None:
    """Both serve with one certificate; when the leader goes, the other keeps the configurations."""
    first = await start()
    await registered(api)
    second = await start(port=free_port())
    assert first.certificates.bundle == second.certificates.bundle
    assert first.elector.leading and not second.elector.leading
    first.end()
    await until(lambda: second.elector.leading, seconds=30)
    await api.call("DELETE", f"{MUTATING}/zz-berth-admission")
    await registered(api)


async def test_mounted_certificates(api: Api, start: Start, tmp_path: Path) -> None:
    """Files replace the Secret, are re-read when they change, and old CAs stay in the bundle for a while."""
    files = {name: tmp_path / name for name in ("tls.crt", "tls.key", "ca.crt")}

    def write(of: Any) -> None:
        for name, pem in (("tls.crt", of.serving), ("tls.key", of.serving_key), ("ca.crt", of.trusted[0])):
            files[name].write_bytes(pem)

    one = material()
    write(one)
    replica = await start(cert_file=files["tls.crt"], key_file=files["tls.key"], ca_file=files["ca.crt"])
    await registered(api)
    await put_policy(api, replica, policy("team", rule(labels={"team": "x"})))
    assert (await api.create(MAPS, {"metadata": {"name": "a"}})).body["metadata"]["labels"] == {"team": "x"}
    files["tls.key"].write_text("half writ")
    two = material(one)
    write(two)
    await until(lambda: two.trusted[0] in (replica.certificates.bundle or b""))
    assert one.bundle in (replica.certificates.bundle or b"")

    async def published() -> bool:
        hooks = (await api.get(f"{MUTATING}/zz-berth-admission"))["webhooks"]
        return base64.b64decode(hooks[0]["clientConfig"]["caBundle"]).count(b"BEGIN") == 2

    await until(published)
    assert (await api.create(MAPS, {"metadata": {"name": "b"}})).body["metadata"]["labels"] == {"team": "x"}
    assert (await api.call("GET", f"/api/v1/namespaces/{NAMESPACE}/secrets/berth-admission-tls")).status == 404


async def test_warns_of_schedulers_that_do_not_run(api: Api, start: Start) -> None:
    """A pod that is routed to a scheduler without a live Lease gets a warning; with one, none."""
    replica = await start()
    await registered(api)
    routed = rule(annotations={"scheduler.alpha.kubernetes.io/name": "packed"})
    await put_policy(api, replica, policy("route", routed))
    pods = "/api/v1/namespaces/team/pods"
    pod = {"spec": {"containers": [{"name": "main", "image": "i"}]}}
    await until(lambda: replica.schedulers.live is not None)
    made = await api.create(pods, {"metadata": {"name": "early"}, **pod})
    assert made.body["spec"]["schedulerName"] == "packed"
    assert any("no live scheduler" in warning and "packed" in warning for warning in made.warnings)
    now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    lease = {
        "metadata": {"name": "berth", "annotations": {"podberth.dev/schedulers": "berth, packed"}},
        "spec": {"holderIdentity": "somebody", "leaseDurationSeconds": 3600, "renewTime": now},
    }
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
    assert (await api.create(leases, lease)).status == 201
    await until(lambda: "packed" in (replica.schedulers.live or ()))
    made = await api.create(pods, {"metadata": {"name": "late"}, **pod})
    assert made.warnings == []
