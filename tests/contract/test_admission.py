"""Admission call-outs: which requests a webhook is asked about, and what its answers do."""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
import ssl
import subprocess
import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.contract.client import MERGE_PATCH, PATIENCE, Api, pod

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1"
Answer = Callable[[dict[str, Any]], dict[str, Any]]


def patch(*operations: dict[str, Any]) -> dict[str, Any]:
    """An answer that changes the object."""
    encoded = base64.b64encode(json.dumps(operations).encode()).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": encoded}


class Webhook:
    """A webhook server; `answers` by path, `asked` in order."""

    def __init__(self, url: str, bundle: str) -> None:
        self.url = url
        self.bundle = bundle
        self.asked: list[dict[str, Any]] = []
        self.answers: dict[str, Answer] = {}

    async def handle(self, request: web.BaseRequest) -> web.Response:
        """Answer a review."""
        review = await request.json()
        self.asked.append({**review["request"], "path": request.path})
        response = self.answers[request.path](review["request"])
        if "broken" in response:
            return web.Response(status=500, text="broken")
        answer = {"uid": review["request"]["uid"], **response}
        return web.json_response({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": answer})


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for the loopback address with its key in one file."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("webhooks need a certificate, and there is no openssl to make one")
    folder = tmp_path_factory.mktemp("webhook")
    command = [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    command += ["-subj", "/CN=webhook", "-addext", "subjectAltName=IP:127.0.0.1"]
    command += ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    subprocess.run(command, check=True, capture_output=True)
    both = folder / "both.pem"
    both.write_bytes((folder / "cert.pem").read_bytes() + (folder / "key.pem").read_bytes())
    return both


@pytest.fixture
async def webhook(certificate: Path) -> AsyncIterator[Webhook]:
    """A webhook server on loopback."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    bundle = base64.b64encode((certificate.parent / "cert.pem").read_bytes()).decode()
    hook = Webhook("", bundle)
    runner = web.ServerRunner(web.Server(hook.handle, access_log=None), shutdown_timeout=0.5)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    hook.url = f"https://127.0.0.1:{runner.addresses[0][1]}"
    yield hook
    await runner.cleanup()


class Registration:
    """Registers webhooks for the namespace of one test and waits until they are asked."""

    def __init__(self, api: Api, namespace: str, webhook: Webhook) -> None:
        self._api = api
        self._namespace = namespace
        self._webhook = webhook
        self._made: list[str] = []

    async def add(self, plural: str, *hooks: dict[str, Any]) -> None:
        """Register hooks, given by `path` and what differs from the usual; wait until the server knows them."""
        name = f"contract-{uuid.uuid4().hex[:8]}"
        probe = f"/probe-{name}"
        self._webhook.answers[probe] = lambda _: {"allowed": True}
        listed = [self._hook(hook, index) for index, hook in enumerate(hooks)]
        # The server takes notice of a configuration in its own time: a hook for other objects tells when it has.
        watcher = self._hook({"path": probe, "resources": ["secrets"]}, len(hooks))
        body = {"metadata": {"name": name}, "webhooks": [*listed, watcher]}
        (await self._api.post(f"{CONFIGURATIONS}/{plural}", body)).ok()
        self._made.append(f"{CONFIGURATIONS}/{plural}/{name}")
        secret = {"metadata": {"name": "probe"}}
        async with asyncio.timeout(PATIENCE):
            while not any(asked["path"] == probe for asked in self._webhook.asked):
                await self._api.post(f"/api/v1/namespaces/{self._namespace}/secrets", secret, dryRun="All")
        self._webhook.asked.clear()

    def _hook(self, hook: dict[str, Any], index: int) -> dict[str, Any]:
        changed = dict(hook)
        path = changed.pop("path")
        rule = {
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "resources": changed.pop("resources", ["pods"]),
            "operations": changed.pop("operations", ["CREATE"]),
            "scope": "Namespaced",
        }
        return {
            "name": f"h{index}.contract.example.com",
            "clientConfig": {"url": self._webhook.url + path, "caBundle": self._webhook.bundle},
            "rules": [rule],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": self._namespace}},
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "timeoutSeconds": 5,
            **changed,
        }

    async def remove(self) -> None:
        """Take all registrations back."""
        for path in self._made:
            await self._api.delete(path)


@pytest.fixture
async def registration(api: Api, namespace: str, webhook: Webhook) -> AsyncIterator[Registration]:
    """Registers webhooks for one test."""
    made = Registration(api, namespace, webhook)
    yield made
    await made.remove()


async def test_a_mutation(api: Api, namespace: str, pods: str, webhook: Webhook, registration: Registration) -> None:
    """A JSON patch changes the object before it is validated and stored; warnings reach the client."""
    webhook.answers["/m"] = lambda _: {
        **patch({"op": "add", "path": "/metadata/labels", "value": {"set": "yes"}}),
        "warnings": ["mind the gap"],
    }
    await registration.add("mutatingwebhookconfigurations", {"path": "/m"})
    reply = await api.post(pods, pod("a"))
    assert reply.ok()["metadata"]["labels"] == {"set": "yes"}
    assert reply.headers["Warning"] == '299 - "mind the gap"'
    [asked] = webhook.asked
    assert (asked["operation"], asked["namespace"], asked["name"]) == ("CREATE", namespace, "a")
    assert asked["kind"] == {"group": "", "version": "v1", "kind": "Pod"}
    assert asked["resource"] == {"group": "", "version": "v1", "resource": "pods"}
    assert asked["object"]["kind"] == "Pod"
    assert asked["object"]["spec"]["schedulerName"] == "default-scheduler"
    assert "uid" not in asked["object"]["metadata"]
    assert asked["oldObject"] is None
    assert asked["dryRun"] is False
    assert asked["options"]["kind"] == "CreateOptions"
    assert "system:masters" in asked["userInfo"]["groups"]


async def test_a_generated_name_comes_later(api: Api, pods: str, webhook: Webhook, registration: Registration) -> None:
    """While a pod with generateName is mutated it has no name yet; when it is validated it has."""
    webhook.answers["/m"] = webhook.answers["/v"] = lambda _: {"allowed": True}
    await registration.add("mutatingwebhookconfigurations", {"path": "/m"})
    await registration.add("validatingwebhookconfigurations", {"path": "/v"})
    body = pod("x")
    body["metadata"] = {"generateName": "web-"}
    name = (await api.post(pods, body)).ok()["metadata"]["name"]
    before, after = webhook.asked
    assert "name" not in before["object"]["metadata"]
    assert "name" not in before
    assert after["object"]["metadata"]["name"] == name
    assert after["object"]["metadata"]["uid"]


@pytest.mark.parametrize(
    ("status", "code", "reason", "message"),
    [
        ({"message": "no", "code": 403, "reason": "Forbidden"}, 403, "Forbidden", " denied the request: no"),
        ({"message": "no"}, 400, "", " denied the request: no"),
        ({}, 400, "", " denied the request without explanation"),
    ],
)
async def test_a_refusal(
    api: Api,
    pods: str,
    webhook: Webhook,
    registration: Registration,
    status: dict[str, Any],
    code: int,
    reason: str,
    message: str,
) -> None:
    """A refusal is told in the webhook's name, with its code."""
    webhook.answers["/v"] = lambda _: {"allowed": False, "status": dict(status)}
    await registration.add("validatingwebhookconfigurations", {"path": "/v"})
    reply = await api.post(pods, pod("a"))
    assert reply.refused(code, reason) == f'admission webhook "h0.contract.example.com"{message}'
    (await api.get(f"{pods}/a")).refused(404, "NotFound")


async def test_updates_and_deletes(api: Api, pods: str, webhook: Webhook, registration: Registration) -> None:
    """An update brings both states, a delete the old one, a status write its subresource."""
    webhook.answers["/v"] = lambda _: {"allowed": True}
    await registration.add(
        "validatingwebhookconfigurations",
        {"path": "/v", "operations": ["UPDATE", "DELETE"], "resources": ["pods", "pods/status"]},
    )
    (await api.post(pods, pod("a"))).ok()
    (await api.patch(f"{pods}/a", {"metadata": {"labels": {"x": "1"}}}, MERGE_PATCH)).ok()
    (await api.patch(f"{pods}/a/status", {"status": {"phase": "Running"}}, MERGE_PATCH)).ok()
    (await api.delete(f"{pods}/a")).ok()
    # A graceful delete is asked about once for each of its steps on the real server.
    update, status, delete, *again = webhook.asked
    assert update["object"]["metadata"]["labels"] == {"x": "1"}
    assert "labels" not in update["oldObject"]["metadata"]
    assert (status["subResource"], status["object"]["status"]["phase"]) == ("status", "Running")
    assert (delete["operation"], delete["object"]) == ("DELETE", None)
    assert delete["oldObject"]["metadata"]["name"] == "a"
    assert {asked["operation"] for asked in again} <= {"DELETE"}


async def test_selectors(api: Api, pods: str, webhook: Webhook, registration: Registration) -> None:
    """A webhook is asked only about objects that its objectSelector selects."""
    webhook.answers["/v"] = lambda _: {"allowed": True}
    selector = {"matchExpressions": [{"key": "watched", "operator": "Exists"}]}
    await registration.add("validatingwebhookconfigurations", {"path": "/v", "objectSelector": selector})
    (await api.post(pods, pod("a"))).ok()
    (await api.post(pods, pod("b", labels={"watched": ""}))).ok()
    assert [asked["name"] for asked in webhook.asked] == ["b"]


async def test_broken_webhooks(api: Api, pods: str, webhook: Webhook, registration: Registration) -> None:
    """A webhook that fails refuses by policy Fail and is passed over by Ignore."""
    webhook.answers["/broken"] = lambda _: {"broken": True}
    label = {"matchLabels": {"strict": "yes"}}
    await registration.add(
        "validatingwebhookconfigurations",
        {"path": "/broken", "failurePolicy": "Ignore"},
        {"path": "/broken", "failurePolicy": "Fail", "objectSelector": label},
    )
    (await api.post(pods, pod("a"))).ok()
    message = (await api.post(pods, pod("b", labels={"strict": "yes"}))).refused(500, "InternalError")
    assert message.startswith('Internal error occurred: failed calling webhook "h1.contract.example.com": ')


async def test_a_patch_that_does_not_apply(api: Api, pods: str, webhook: Webhook, registration: Registration) -> None:
    """A patch that can't be applied is a 500 even where failures are to be ignored."""
    webhook.answers["/m"] = lambda _: patch({"op": "remove", "path": "/metadata/labels/none"})
    await registration.add("mutatingwebhookconfigurations", {"path": "/m", "failurePolicy": "Ignore"})
    (await api.post(pods, pod("a"))).refused(500, "InternalError")


async def test_reinvocation(api: Api, pods: str, webhook: Webhook, registration: Registration) -> None:
    """A webhook with IfNeeded is asked again when a later one has changed the object."""
    webhook.answers["/first"] = lambda _: {"allowed": True}
    webhook.answers["/second"] = lambda request: (
        {"allowed": True}
        if "labels" in request["object"]["metadata"]
        else patch({"op": "add", "path": "/metadata/labels", "value": {"late": "yes"}})
    )
    await registration.add(
        "mutatingwebhookconfigurations",
        {"path": "/first", "reinvocationPolicy": "IfNeeded"},
        {"path": "/second"},
    )
    (await api.post(pods, pod("a"))).ok()
    assert [asked["path"] for asked in webhook.asked] == ["/first", "/second", "/first"]
    assert webhook.asked[-1]["object"]["metadata"]["labels"] == {"late": "yes"}


async def test_dry_run(api: Api, pods: str, webhook: Webhook, registration: Registration) -> None:
    """Webhooks know a dry run; one that has side effects makes it fail."""
    webhook.answers["/v"] = lambda _: {"allowed": True}
    label = {"matchLabels": {"touchy": "yes"}}
    await registration.add(
        "validatingwebhookconfigurations",
        {"path": "/v"},
        {"path": "/v", "sideEffects": "NoneOnDryRun", "objectSelector": label},
    )
    (await api.post(pods, pod("a"), dryRun="All")).ok()
    assert [asked["dryRun"] for asked in webhook.asked] == [True]
