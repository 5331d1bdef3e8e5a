"""Reviews in, answers out: the protocol, the policies' word, and what others got wrong (their CVEs)."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import pytest
import structlog

from podberth.model.promise import ANNOTATION
from podberth.policy.admission.reviewer import Reviewer, ReviewReply
from podberth.policy.keys import VERDICT
from podberth.policy.options import Options, Pass
from tests.unit.policy.admission.builders import (
    UID,
    Fixed,
    Object,
    applied,
    config_map,
    encoded,
    pod,
    policy,
    review,
    rule,
    without,
)

QOS = "scheduler.alpha.kubernetes.io/qos"
NAME = "scheduler.alpha.kubernetes.io/name"
NEEDS_OWNER = policy("owner", rule(without("owner"), reject=True, message="say who owns it"))
DEFAULT_TEAM = policy("team", rule(without("team"), labels={"team": "none"}))
ROUTE = policy("route", rule(annotated={"matchLabels": {QOS: "BestEffort"}}, annotations={NAME: "berth"}))


def reviewer(*policies: Object, refused: tuple[str, ...] = ()) -> Reviewer:
    """A reviewer of fixed policies."""
    cache: Any = Fixed(*policies, refused=refused)
    exempt = frozenset({"kube-system", "kube-node-lease", "berth"})
    return Reviewer(cache, Options(own_namespace="berth"), exempt)


async def asked(by: Reviewer, document: Any, pass_: Pass = "mutate") -> Object:
    """The response to a review, checked for its form."""
    answer = await by.answer(document if isinstance(document, bytes) else encoded(document), pass_)
    return response_of(answer, pass_)


def response_of(answer: ReviewReply, pass_: Pass = "mutate") -> Object:
    """The response in an answer that must hold one."""
    assert answer.status == 200, answer.body
    said = json.loads(answer.body)
    assert (said["apiVersion"], said["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    response: Object = said["response"]
    assert ("patch" in response) == ("patchType" in response)
    assert "patch" not in response or (response["allowed"] and pass_ == "mutate")
    assert all(len(warning) <= 120 and warning.isprintable() for warning in response.get("warnings", []))
    assert response["allowed"] or 400 <= response["status"]["code"] < 500
    return response


def patch_of(response: Object) -> list[Object]:
    """The decoded patch."""
    assert response["patchType"] == "JSONPatch"
    found: list[Object] = json.loads(base64.b64decode(response["patch"], validate=True))
    return found


async def test_mutation() -> None:
    """A matching write becomes a base64 RFC 6902 patch; the uid is echoed and the policy named for the audit log."""
    obj = config_map()
    response = await asked(reviewer(DEFAULT_TEAM), review(obj))
    assert (response["uid"], response["allowed"]) == (UID, True)
    assert applied(obj, patch_of(response))["metadata"]["labels"] == {"team": "none"}
    assert response["auditAnnotations"]["applied"] == "team"


async def test_denial() -> None:
    """A matching reject is a 403 with the rule's words, by either webhook, and nothing is mutated."""
    for pass_ in ("mutate", "validate"):
        response = await asked(reviewer(NEEDS_OWNER, DEFAULT_TEAM), review(config_map()), pass_)
        assert response["allowed"] is False
        assert response["status"]["code"] == 403
        assert response["status"]["reason"] == "Forbidden"
        assert "say who owns it" in response["status"]["message"]
        assert "owner" in response["auditAnnotations"]["rejected-by"]


async def test_validating_checks_the_final_state() -> None:
    """What another webhook did after ours is judged too; a QoS stamp that does not tell the truth is refused."""
    forbidden = policy("no-bad", rule({"matchLabels": {"bad": "yes"}}, reject=True))
    late = pod(labels={"bad": "yes"}, annotations={QOS: "BestEffort"})
    assert (await asked(reviewer(forbidden), review(late), "validate"))["allowed"] is False
    forged = pod(annotations={QOS: "Guaranteed"})
    forged["status"] = {"qosClass": "BestEffort"}
    response = await asked(reviewer(forbidden), review(forged), "validate")
    assert response["status"]["code"] == 403
    honest = pod(annotations={QOS: "BestEffort"})
    honest["status"] = {"qosClass": "BestEffort"}
    assert (await asked(reviewer(forbidden), review(honest), "validate"))["allowed"] is True


async def test_route_by_qos() -> None:
    """A pod gets its true QoS stamp, and by it the scheduler of the policy, in one patch."""
    obj = pod(annotations={QOS: "Guaranteed"})  # never trusted
    patched = applied(obj, patch_of(await asked(reviewer(ROUTE), review(obj))))
    assert patched["metadata"]["annotations"] == {QOS: "BestEffort", NAME: "berth"}
    assert patched["spec"]["schedulerName"] == "berth"


async def test_generated_name() -> None:
    """At mutating time a generated name and the uid are empty, and a pod without any metadata map is fine."""
    obj = pod()
    obj["metadata"] = {"generateName": "web-"}
    patched = applied(obj, patch_of(await asked(reviewer(ROUTE), review(obj, name=""))))
    assert patched["metadata"]["annotations"][QOS] == "BestEffort"


@pytest.mark.parametrize("operation", ["DELETE", "CONNECT"])
@pytest.mark.parametrize("pass_", ["mutate", "validate"])
async def test_delete_is_never_denied(operation: str, pass_: Pass) -> None:
    """Nothing that a policy says, nor any object, stands in the way of DELETE and CONNECT."""
    everything = policy("all", rule(reject=True))
    for obj in (None, config_map(labels=7)):
        response = await asked(reviewer(everything), review(obj, operation, old=config_map()), pass_)
        assert response["allowed"] is True
        assert "patch" not in response


async def test_unchanged_update_passes() -> None:
    """An update that leaves labels and annotations alone passes a reject-all: finalizers can go."""
    everything = policy("all", rule(reject=True))
    before = config_map(finalizers=["x"], labels={"a": "b"}, deletionTimestamp="2026-01-01T00:00:00Z")
    after = config_map(labels={"a": "b"}, deletionTimestamp="2026-01-01T00:00:00Z")
    for pass_ in ("mutate", "validate"):
        assert (await asked(reviewer(everything), review(after, "UPDATE", old=before), pass_))["allowed"]


async def test_object_being_deleted_is_policed() -> None:
    """CVE-2023-34091: an object with a deletionTimestamp (which a finalizer can keep for ever) is judged like any."""
    forbidden = policy("no-bad", rule({"matchLabels": {"bad": "yes"}}, reject=True))
    before = config_map(finalizers=["x"], deletionTimestamp="2026-01-01T00:00:00Z")
    after = config_map(finalizers=["x"], deletionTimestamp="2026-01-01T00:00:00Z", labels={"bad": "yes"})
    assert (await asked(reviewer(forbidden), review(after, "UPDATE", old=before)))["allowed"] is False


async def test_policies_stay_in_their_namespace() -> None:
    """CVE-2026-22039: a policy reaches objects of its own namespace only, whatever the object claims."""
    elsewhere = config_map()
    elsewhere["metadata"]["namespace"] = "team"  # a lie: the request is for another namespace
    response = await asked(reviewer(NEEDS_OWNER), review(elsewhere, namespace="other"))
    assert response["allowed"] is True
    here = config_map()
    here["metadata"]["namespace"] = "other"
    assert (await asked(reviewer(NEEDS_OWNER), review(here, namespace="team")))["allowed"] is False


@pytest.mark.parametrize("version", ["v1", "v1beta1", "v2alpha7"])
async def test_any_version_is_policed(version: str) -> None:
    """kyverno#17367: no version of a kind is overlooked, nor an object that calls itself something exempt."""
    obj = config_map()
    kind = {"group": "apps.example", "version": version, "kind": "Widget"}
    obj |= {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
    assert (await asked(reviewer(NEEDS_OWNER), review(obj, kind=kind)))["allowed"] is False


@pytest.mark.parametrize(
    ("group", "kind", "rejected"),
    [("apps", "Deployment", True), ("", "Pod", True), ("", "Deployment", False), ("example.com", "Pod", False)],
)
async def test_kinds_are_those_of_the_request(group: str, kind: str, rejected: bool) -> None:
    """The API server says which kind an object is of, in any version; what the object says of itself is not read."""
    by = reviewer(policy("p", {**rule(reject=True), "appliesTo": ["Pod", "Deployment.apps"]}))
    document = review({**config_map(), "apiVersion": "apps/v1", "kind": "Deployment"})
    document["request"]["kind"] = {"group": group, "version": "v7", "kind": kind}
    assert (await asked(by, document))["allowed"] is not rejected


async def test_refused_policy_is_said() -> None:
    """CVE-2025-46342: a policy that is not applied is not silently off: each answer of its namespace warns."""
    response = await asked(reviewer(DEFAULT_TEAM, refused=("broken",)), review(config_map()))
    assert response["warnings"] == ['MetadataPolicy "broken" is not accepted, and not applied']
    assert patch_of(response)


async def test_only_bounded_text_reaches_anybody() -> None:
    """CVE-2021-25746, CVE-2025-1097: annotation text of any kind comes back as data or not at all."""
    text = "x\n}\nload_module /tmp/evil.so;\r\n\x1b[31m" * 40
    obj = config_map(annotations={"nginx.ingress.kubernetes.io/server-snippet": text})
    route = policy("route", rule(annotations={NAME: "berth"}))
    patched = applied(obj, patch_of(await asked(reviewer(route), review(obj))))
    assert patched["metadata"]["annotations"]["nginx.ingress.kubernetes.io/server-snippet"] == text
    hostile = pod(annotations={NAME: text})
    response = await asked(reviewer(policy("none", rule({"matchLabels": {"no": "no"}}, reject=True))), review(hostile))
    assert applied(hostile, patch_of(response))["spec"]["schedulerName"] == "default-scheduler"
    assert response["warnings"]


async def test_no_secrets_in_the_log() -> None:
    """CVE-2020-8564: a denial's log line has no label, annotation or data of the object."""
    secret = config_map(annotations={"token": "hunter2-annotation"}, labels={"l": "hunter2-label"})
    secret["data"] = {"password": "hunter2-data"}
    with structlog.testing.capture_logs() as lines:
        await asked(reviewer(NEEDS_OWNER), review(secret))
    assert [line["event"] for line in lines] == ["denied"]
    assert "hunter2" not in repr(lines)


async def test_exempt_namespaces() -> None:
    """The control plane's namespaces and our own are never policed, even by a webhook edited to ask about them."""
    everything = policy("all", rule(reject=True), namespace="kube-system")
    for namespace in ("kube-system", "kube-node-lease", "berth"):
        obj = config_map()
        assert (await asked(reviewer(everything), review(obj, namespace=namespace)))["allowed"] is True


async def test_policy_objects_are_exempt() -> None:
    """A policy can be created, changed and deleted whatever policies say."""
    everything = policy("all", rule(reject=True))
    response = await asked(reviewer(everything), review(policy("other"), "CREATE"))
    assert response["allowed"] is True


async def test_mirror_pods_are_for_kubelets() -> None:
    """A mirror pod of a kubelet is exempt; a user's pod with that annotation is not."""
    everything = policy("all", rule(reject=True))
    mirror = pod(annotations={"kubernetes.io/config.mirror": "x"})
    kubelet = {"username": "system:node:n1", "groups": ["system:nodes"]}
    assert (await asked(reviewer(everything), review(mirror, userInfo=kubelet)))["allowed"] is True
    assert (await asked(reviewer(everything), review(mirror)))["allowed"] is False


async def test_hostile_keys_are_escaped() -> None:
    """Keys with / and ~ and whatever else an object may hold are patched around correctly."""
    key = "example.com/a"
    obj = config_map(labels={"~0~1/": "odd", key: "old"}, annotations={"": "", "a/b/c~d": "x", "ü\u0000": "y"})
    writes = policy("w", rule(labels={key: "new"}, annotations={"example.com/b": "z/~"}))
    patched = applied(obj, patch_of(await asked(reviewer(writes), review(obj))))
    assert patched["metadata"]["labels"] == {"~0~1/": "odd", key: "new"}
    assert patched["metadata"]["annotations"]["example.com/b"] == "z/~"


async def test_big_object() -> None:
    """Object and old object of 3 MiB each are handled like small ones."""
    old = config_map()
    old["data"] = {"blob": "x" * (3 << 20)}
    new = config_map(labels={"a": "b"}, annotations={"big": "y" * (1 << 18)})
    new["data"] = {"blob": "z" * (3 << 20)}
    patched = applied(new, patch_of(await asked(reviewer(DEFAULT_TEAM), review(new, "UPDATE", old=old))))
    assert patched["metadata"]["labels"] == {"a": "b", "team": "none"}


async def test_nobody_waits_behind_a_big_one() -> None:
    """A pod of 20,000 containers is judged beside the event loop: a small review that comes later is answered first."""
    by = reviewer(DEFAULT_TEAM)
    vast = pod()
    vast["spec"]["containers"] = [{"name": f"c{i}", "resources": {"requests": {"cpu": "1"}}} for i in range(20_000)]
    done: list[str] = []

    async def ask(name: str, body: bytes) -> None:
        assert (await by.answer(body, "mutate")).status == 200
        done.append(name)

    await asyncio.gather(ask("vast", encoded(review(vast))), ask("small", encoded(review(config_map()))))
    assert done == ["small", "vast"]


@pytest.mark.parametrize(
    ("noted", "said"), [({}, "webhook"), ({VERDICT: "v1 v2"}, "webhook v1 v2"), ({VERDICT: "x" * 9999}, "webhook xxx")]
)
async def test_seen_in_force(noted: dict[str, str], said: str) -> None:
    """A dry run shows both passes: the mutating one adds its word to the note of others, the validating one refuses."""
    everything = reviewer(policy("all", rule(reject=True)))
    obj = config_map("in-force.podberth.dev", annotations=noted)
    first = await asked(everything, review(obj, dryRun=True))
    patched = applied(obj, patch_of(first))
    assert patched["metadata"]["annotations"][VERDICT].startswith(said)
    second = await asked(everything, review(obj, dryRun=True), "validate")
    assert (second["allowed"], second["status"]["code"]) == (False, 403)
    assert second["status"]["message"].startswith(said) and len(second["status"]["message"]) <= 1024
    real = await asked(reviewer(), review(obj))
    assert real["allowed"] and "patch" not in real


async def test_dry_run_is_answered_like_any() -> None:
    """A dry run gets the same answer."""
    by = reviewer(DEFAULT_TEAM)
    answers = [await asked(by, review(config_map(), dryRun=dry)) for dry in (True, False, None)]
    assert answers[0] == answers[1] == answers[2]


GOOD, BAD = {ANNOTATION: "true"}, {ANNOTATION: "ssd"}


@pytest.mark.parametrize(
    ("new", "old", "pass_", "allowed"),
    [
        pytest.param(pod(annotations=GOOD), None, "validate", True, id="good"),
        pytest.param(pod(annotations=BAD), None, "validate", False, id="bad"),
        pytest.param(pod(annotations=BAD), None, "mutate", True, id="the mutating pass is no judge"),
        pytest.param(config_map(annotations=BAD), None, "validate", True, id="no pod"),
        pytest.param(pod(annotations=BAD, labels={"a": "b"}), pod(annotations=BAD), "validate", True, id="bad before"),
        pytest.param(pod(annotations=BAD), pod(annotations=GOOD), "validate", False, id="turns bad"),
        pytest.param(pod(), pod(annotations=BAD), "validate", True, id="taken away"),
    ],
)
async def test_a_promise_that_cant_be_read(new: Object, old: Object | None, pass_: Pass, allowed: bool) -> None:
    """A pod's author sees the mistake: the validating pass refuses it, and only what the request itself brings."""
    document = review(new, old=old, operation="UPDATE" if old else "CREATE")
    response = await asked(reviewer(), document, pass_)
    assert response["allowed"] is allowed
    if not allowed:
        assert response["status"]["code"] == 403
        assert response["status"]["message"].startswith(f"metadata.annotations: {ANNOTATION}: Invalid value: want")
