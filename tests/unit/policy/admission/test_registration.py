"""The webhook configurations as they should be, what counts as different, and the settings they come from."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from podberth.kube.errors import ApiError
from podberth.kube.resources import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS
from podberth.policy.admission.registration import Registration, desired
from podberth.policy.admission.settings import Settings
from podberth.policy.native.admission_policies import IN_FORCE
from podberth.policy.settings import SettingsError

BUNDLE = b"-----BEGIN CERTIFICATE-----\n"


def test_mutating() -> None:
    """The mutating webhook never blocks, is asked again after others, and leaves nothing to defaults."""
    found = desired(Settings(namespace="berth", failure_policy="Fail"), MUTATING_WEBHOOKS, BUNDLE)
    (hook,) = found["webhooks"]
    assert found["metadata"]["name"] == "zz-berth-admission"
    assert hook["failurePolicy"] == "Ignore"
    assert hook["reinvocationPolicy"] == "IfNeeded"
    assert (hook["timeoutSeconds"], hook["sideEffects"], hook["admissionReviewVersions"]) == (3, "None", ["v1"])
    assert (hook["matchPolicy"], hook["objectSelector"]) == ("Equivalent", {})
    assert hook["clientConfig"] == {
        "service": {"namespace": "berth", "name": "berth-admission", "port": 443, "path": "/mutate"},
        "caBundle": base64.b64encode(BUNDLE).decode(),
    }
    (rule,) = hook["rules"]
    assert rule == {
        "operations": ["CREATE", "UPDATE"],
        "apiGroups": ["*"],
        "apiVersions": ["*"],
        "resources": ["*"],
        "scope": "Namespaced",
    }


def test_validating() -> None:
    """The validating webhook's failurePolicy is the user's choice, and its URL is what the API server can reach."""
    settings = Settings(namespace="berth", url="https://127.0.0.1:9443/", failure_policy="Fail")
    (hook,) = desired(settings, VALIDATING_WEBHOOKS, BUNDLE)["webhooks"]
    assert hook["failurePolicy"] == "Fail"
    assert "reinvocationPolicy" not in hook
    assert hook["clientConfig"]["url"] == "https://127.0.0.1:9443/validate"
    assert settings.names[0] == "127.0.0.1"


def test_exemptions() -> None:
    """Namespaces are exempt by the label that only the API server writes; the kinds by name and group."""
    settings = Settings(namespace="berth", exempt_namespaces=("monitoring", "berth"))
    (hook,) = desired(settings, MUTATING_WEBHOOKS, None)["webhooks"]
    (criterion,) = hook["namespaceSelector"]["matchExpressions"]
    assert criterion == {
        "key": "kubernetes.io/metadata.name",
        "operator": "NotIn",
        "values": ["kube-system", "kube-node-lease", "berth", "monitoring"],
    }
    expressions = " ".join(condition["expression"] for condition in hook["matchConditions"])
    for word in ("metadatapolicies", "events.k8s.io", "leases", "endpointslices", "authorization.k8s.io", "bindings"):
        assert word in expressions
    assert "caBundle" not in hook["clientConfig"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"cert_file": Path("a")}, "--cert-file and --key-file"),
        ({"ca_file": Path("a")}, "--ca-file"),
        ({"url": "http://x"}, "--url http://x: want https"),
        ({"url": "https://user@x"}, "--url"),
        ({"url": "https://[::1"}, "--url"),
        ({"url": "https://x:99999"}, "--url"),
        ({"url": "https://b\u00fccher.example"}, "--url"),
        ({"failure_policy": "Maybe"}, "--failure-policy Maybe: want one of Ignore, Fail"),
        ({"overlap_seconds": -1.0}, "--overlap -1"),
        ({"drain_seconds": float("nan")}, "--drain"),
        ({"enforcement": "both"}, "--enforcement both: want one of auto, native, webhook"),
        ({"port": 99999}, "--port 99999: want 0 to 65535"),
    ],
)
def test_settings_are_checked(given: dict[str, Any], said: str) -> None:
    """Settings that can't work are refused with option, value and what was expected."""
    with pytest.raises(SettingsError, match=said):
        Settings(namespace="berth", **given)


class Api:
    """An API server with the release's binding, or without it, where the configurations are as they should be."""

    def __init__(self, settings: Settings) -> None:
        self.in_force = True
        self._settings = settings

    async def request(self, _verb: str, path: str, **_: Any) -> bytes:
        """What applying a configuration changes: nothing."""
        resource = MUTATING_WEBHOOKS if MUTATING_WEBHOOKS.plural in path else VALIDATING_WEBHOOKS
        found = desired(self._settings, resource, BUNDLE)
        return json.dumps({**found, "metadata": {**found["metadata"], "resourceVersion": "1"}}).encode()

    async def get(self, path: str) -> bytes:
        if "bindings" not in path:
            return await self.request("GET", path)
        if not self.in_force:
            raise ApiError(404, "NotFound", "not found")
        return json.dumps({"metadata": {"name": "b", "annotations": {IN_FORCE: "true"}}}).encode()


class Certificates:
    bundle = BUNDLE

    async def advance(self, published: bool) -> None:
        """Nothing is due."""


async def test_an_operator_with_another_switch_is_told() -> None:
    """The webhook stays, as the settings say; that the operator enforces otherwise is told once."""
    settings = Settings(namespace="berth", enforcement="webhook")
    api: Any = Api(settings)
    registration = Registration(api, settings, Certificates(), lambda: True)
    with capture_logs() as logs:
        await registration.reconcile()
        await registration.reconcile()
    assert [one["log_level"] for one in logs] == ["error"]
    assert "the same --enforcement" in logs[0]["event"]
    assert (registration.native, registration.differs, registration.published) == (False, True, True)
    api.in_force = False
    await registration.reconcile()
    assert not registration.differs
