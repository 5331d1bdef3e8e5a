"""The webhook configurations as they should be, what counts as different, and the settings they come from."""

from __future__ import annotations

import base64
import copy
import json
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from podberth.kube.errors import ApiError
from podberth.policy.admission.registration import IN_FORCE, MUTATING, VALIDATING, Registration, desired, repaired
from podberth.policy.admission.settings import Settings
from podberth.policy.settings import SettingsError

BUNDLE = b"-----BEGIN CERTIFICATE-----\n"


def test_mutating() -> None:
    """The mutating webhook never blocks, is asked again after others, and leaves nothing to defaults."""
    found = desired(Settings(namespace="berth", failure_policy="Fail"), MUTATING, BUNDLE)
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
    (hook,) = desired(settings, VALIDATING, BUNDLE)["webhooks"]
    assert hook["failurePolicy"] == "Fail"
    assert "reinvocationPolicy" not in hook
    assert hook["clientConfig"]["url"] == "https://127.0.0.1:9443/validate"
    assert settings.names[0] == "127.0.0.1"


def test_exemptions() -> None:
    """Namespaces are exempt by the label that only the API server writes; the kinds by name and group."""
    settings = Settings(namespace="berth", exempt_namespaces=("monitoring", "berth"))
    (hook,) = desired(settings, MUTATING, None)["webhooks"]
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


def stored(resource: Any = MUTATING, bundle: bytes | None = BUNDLE) -> dict[str, Any]:
    """The configuration as the API server would give it back."""
    found = copy.deepcopy(desired(Settings(namespace="berth"), resource, bundle))
    found["metadata"] |= {"uid": "u", "resourceVersion": "7", "managedFields": []}
    return found


def edited(path: str, value: Any) -> dict[str, Any]:
    """A configuration that somebody changed."""
    found = stored()
    *above, last = path.split(".")
    holder: Any = found
    for part in above:
        holder = holder[int(part) if part.isdecimal() else part]
    holder[int(last) if last.isdecimal() else last] = value
    return found


@pytest.mark.parametrize(
    "found",
    [
        edited("webhooks", []),
        edited("webhooks.0.failurePolicy", "Fail"),
        edited("webhooks.0.clientConfig.caBundle", "AAAA"),
        edited("webhooks.0.namespaceSelector", {}),
        edited("webhooks.0.objectSelector", {"matchLabels": {"policed": "yes"}}),
        edited("webhooks.0.rules.0.operations", ["CREATE"]),
        edited("webhooks.0.matchConditions", []),
        edited("metadata.labels", {}),
    ],
    ids=range(8),
)
def test_edits_are_repaired(found: dict[str, Any]) -> None:
    """Whatever of ours was edited is written back, over the version that was seen."""
    wanted = desired(Settings(namespace="berth"), MUTATING, BUNDLE)
    due = repaired(found, wanted)
    assert due is not None
    assert due["webhooks"] == wanted["webhooks"]
    assert due["metadata"]["resourceVersion"] == "7"
    assert due["metadata"]["labels"].items() >= wanted["metadata"]["labels"].items()


def test_what_is_not_ours_stays() -> None:
    """Foreign labels and annotations, and fields that a newer API server defaults, are no reason to write."""
    found = stored()
    found["metadata"]["annotations"] = {"cert-manager.io/inject-ca-from": "x/y"}
    found["metadata"]["labels"] = {**found["metadata"]["labels"], "team": "platform"}
    found["webhooks"][0]["aFieldOf2030"] = {"x": 1}
    wanted = desired(Settings(namespace="berth"), MUTATING, BUNDLE)
    assert repaired(found, wanted) is None
    found["webhooks"][0]["timeoutSeconds"] = 30
    due = repaired(found, wanted)
    assert due is not None
    assert due["metadata"]["annotations"] == {"cert-manager.io/inject-ca-from": "x/y"}
    assert due["metadata"]["labels"]["team"] == "platform"


ROLE = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": "berth-admission", "uid": "1"}
BEFORE = ROLE | {"uid": "0"}
FOREIGN = {"apiVersion": "v1", "kind": "Namespace", "name": "platform", "uid": "9"}


@pytest.mark.parametrize(
    ("found", "due"),
    [
        pytest.param(None, [ROLE], id="none"),
        pytest.param([ROLE], None, id="ours"),
        pytest.param([BEFORE], [ROLE], id="the role was made anew"),
        pytest.param([FOREIGN, BEFORE], [FOREIGN, ROLE], id="another's stays"),
        pytest.param([FOREIGN, ROLE], None, id="beside another's"),
    ],
)
def test_owner(found: list[dict[str, str]] | None, due: list[dict[str, str]] | None) -> None:
    """The role that is there now owns the configuration; without the setting nobody does."""
    settings = Settings(namespace="berth", owner="berth-admission")
    there = stored()
    if found is not None:
        there["metadata"]["ownerReferences"] = found
    written = repaired(there, desired(settings, MUTATING, BUNDLE, "1"))
    assert (written and written["metadata"]["ownerReferences"]) == due
    assert repaired(there, desired(Settings(namespace="berth"), MUTATING, BUNDLE)) is None


def test_injected_bundle_stays() -> None:
    """Without a CA of our own, what cert-manager's injector wrote is kept, also through a repair."""
    wanted = desired(Settings(namespace="berth"), MUTATING, None)
    assert repaired(stored(), wanted) is None
    found = edited("webhooks.0.failurePolicy", "Fail")
    due = repaired(found, wanted)
    assert due is not None
    assert due["webhooks"][0]["clientConfig"]["caBundle"] == base64.b64encode(BUNDLE).decode()
    assert "caBundle" not in wanted["webhooks"][0]["clientConfig"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"cert_file": Path("a")}, "--cert-file and --key-file"),
        ({"ca_file": Path("a")}, "--ca-file"),
        ({"url": "http://x"}, "--url http://x: want https"),
        ({"url": "https://user@x"}, "--url"),
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

    async def get(self, path: str) -> bytes:
        if "bindings" not in path:
            resource = MUTATING if MUTATING.plural in path else VALIDATING
            return json.dumps(desired(self._settings, resource, BUNDLE)).encode()
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
