"""The verdict, point by point of the semantics; the patch is applied by the embedded API server's own code."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podberth.apiserver.rules.patch import json_patch
from podberth.policy import options
from podberth.policy.evaluate import Effect, Operation, Patch, Verdict, admitted, evaluate, pointer
from tests.unit.policy.build import NAME, QOS, Object, config_map, has, needs, pod, policies, policy, rule

EVERYONE = policy("all", rule(set_labels={"seen": "yes"}))
NOBODY = policy("none", rule(reject=True, message="no more objects"))
GUARANTEED = {"limits": {"cpu": "1", "memory": "1Gi"}}


REFERENCE = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u", "controller": True}
VALIDATE: dict[str, Any] = {"pass": "validate"}


def verdict(
    *documents: Object,
    obj: Object,
    old: Object | None = None,
    operation: Operation = "CREATE",
    **given: Any,
) -> Verdict:
    """The verdict; checks on the way that nothing given was changed, and that the patch makes `object` of it."""
    before = copy.deepcopy(obj)
    found = evaluate(policies(*documents), operation, obj, old, options.parse(given))
    assert obj == before
    assert json_patch(copy.deepcopy(obj), copy.deepcopy(found.patch)) == found.object
    assert all(len(warning) <= 120 for warning in found.warnings)
    return found


def of(found: Verdict) -> Object:
    """The object after the patch."""
    assert found.object is not None
    return found.object


def labels(found: Verdict) -> dict[str, str]:
    """The labels after the patch."""
    held: dict[str, str] = of(found)["metadata"].get("labels", {})
    return held


def test_reject_wins_over_writes() -> None:
    """Any matching reject rejects the object, all reasons are named, and nothing is written, not even the stamp."""
    other = policy("other", rule(reject=True, name="bare"))
    found = verdict(EVERYONE, NOBODY, other, obj=pod())
    assert (found.allowed, found.code, found.patch, found.object) == (False, 403, [], pod())
    assert found.message == (
        'MetadataPolicy "none" rules[0]: no more objects; MetadataPolicy "other" rule "bare": rejects every object'
    )
    assert found.audit["rejected-by"] == "none/rules[0],other/bare"


def test_writes_are_merged() -> None:
    """All writes of all matching rules make one patch; maps that are absent are added whole."""
    documents = [
        policy("a", rule(set_labels={"x/y": "1"})),
        policy("b", rule(set_labels={"z": "2"}, set_annotations={"n.m": "3"})),
    ]
    found = verdict(*documents, obj=config_map(annotations={"old": "here"}))
    assert found.patch == [
        {"op": "add", "path": "/metadata/labels", "value": {"x/y": "1", "z": "2"}},
        {"op": "add", "path": "/metadata/annotations/n.m", "value": "3"},
    ]
    again = verdict(*documents, obj=config_map({"x/y": "0", "z": "2"}, {"n.m": "0"}))
    assert [(op["op"], op["path"]) for op in again.patch] == [
        ("replace", "/metadata/labels/x~1y"),
        ("replace", "/metadata/annotations/n.m"),
    ]


@pytest.mark.parametrize(
    "metadata", [None, {}, {"labels": None}, {"labels": {}}], ids=["null", "empty", "null labels", "no labels"]
)
def test_absent_maps(metadata: Object | None) -> None:
    """Null and absent maps are added whole, and the patch applies."""
    found = verdict(EVERYONE, obj={"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    assert labels(found) == {"seen": "yes"}


def test_no_change_no_patch() -> None:
    """An object that has all that is written already gets an empty patch."""
    found = verdict(EVERYONE, obj=config_map({"seen": "yes"}))
    assert (found.patch, found.effects[0].mutated) == ([], False)


def test_one_snapshot() -> None:
    """A rule does not see what another one writes in the same pass."""
    found = verdict(
        policy("a", rule(set_labels={"x": "1"})),
        policy("b", rule(has(x="1"), set_labels={"y": "1"}), rule(has(x="1"), reject=True)),
        obj=config_map(),
    )
    assert labels(found) == {"x": "1"}


@pytest.mark.parametrize(
    ("predicate", "matches"),
    [
        ({}, True),
        ({"labelSelector": {}}, True),
        ({"labelSelector": None, "annotationSelector": {}}, True),
        ({"labelSelector": has(a="1")}, True),
        ({"labelSelector": has(a="2")}, False),
        ({"labelSelector": has(a="1", b="1")}, False),
        ({"labelSelector": needs("b", "NotIn", "1")}, True),
        ({"labelSelector": needs("a", "NotIn", "1")}, False),
        ({"labelSelector": needs("a", "In", "0", "1")}, True),
        ({"labelSelector": needs("b", "In", "1")}, False),
        ({"labelSelector": needs("a", "Exists")}, True),
        ({"labelSelector": needs("b", "Exists")}, False),
        ({"labelSelector": needs("b", "DoesNotExist")}, True),
        ({"labelSelector": needs("a", "DoesNotExist")}, False),
        ({"annotationSelector": has(n='{"any": [1, 2]} text')}, True),
        ({"annotationSelector": has(n="other")}, False),
        ({"labelSelector": has(a="1"), "annotationSelector": has(n="other")}, False),
        ({"labelSelector": has(a="1"), "annotationSelector": needs("n", "Exists")}, True),
    ],
)
def test_predicates(predicate: Object, matches: bool) -> None:
    """Criteria are ANDed, an absent one is none, and operators mean what they mean in label selectors."""
    one = {"policyPredicate": predicate, "policyAction": {"updatedLabels": {"seen": "yes"}}}
    found = verdict(policy("p", one), obj=config_map({"a": "1"}, {"n": '{"any": [1, 2]} text'}))
    assert bool(found.patch) == matches


def test_conflict() -> None:
    """Of two that differ the last by policy name and rule index wins; a warning says so; equal values are none."""
    documents = [
        policy("b", rule(set_labels={"team": "y"}), rule(set_labels={"team": "z"}, name="last")),
        policy("a", rule(set_labels={"team": "x"}), rule(set_labels={"tier": "1"})),
        policy("c", rule(set_labels={"tier": "1"})),
    ]
    found = verdict(*documents, obj=config_map())
    assert labels(found) == {"team": "z", "tier": "1"}
    assert found.warnings == ['label team: a/rules[0] writes "x", b/last writes "z" and wins']
    assert found.conflicts == ("a", "b")


@pytest.mark.parametrize(
    ("resources", "stamp"),
    [(None, "BestEffort"), ({"requests": {"cpu": "1"}}, "Burstable"), (GUARANTEED, "Guaranteed")],
)
def test_stamp(resources: Object | None, stamp: str) -> None:
    """A pod gets its class, whatever it says of itself, and predicates see the stamp."""
    one = policy("p", rule(annotations={"matchLabels": {QOS: stamp}}, set_labels={"seen": "yes"}))
    spoofed = pod(annotations={QOS: "Guaranteed" if stamp != "Guaranteed" else "BestEffort"}, resources=resources)
    spoofed["status"] = {"qosClass": "Burstable"}
    found = verdict(one, obj=spoofed)
    assert of(found)["metadata"]["annotations"][QOS] == stamp
    assert labels(found) == {"seen": "yes"}


class TestWithoutStamp:
    """Where pods do not get their class as an annotation."""

    def test_rules_know_the_class(self) -> None:
        one = policy("p", rule(annotations={"matchLabels": {QOS: "BestEffort"}}, set_labels={"seen": "yes"}))
        found = verdict(one, obj=pod(), stamp=False)
        assert labels(found) == {"seen": "yes"}
        assert "annotations" not in of(found)["metadata"]

    def test_a_pod_that_brings_it_along_has_the_right_one(self) -> None:
        assert of(verdict(obj=pod(annotations={QOS: "Guaranteed"}), stamp=False))["metadata"]["annotations"] == {
            QOS: "BestEffort"
        }
        assert not verdict(obj=pod(annotations={QOS: "Guaranteed"}), stamp=False, **VALIDATE).allowed

    def test_nobody_misses_it(self) -> None:
        assert verdict(obj=pod(), stamp=False).patch == []
        assert verdict(obj=pod(), stamp=False, **VALIDATE).warnings == []
        assert verdict(obj=pod(), **VALIDATE).warnings != []


def test_stamp_is_no_policys() -> None:
    """A rule can't write a pod's stamp; on other objects the key is one like any."""
    one = policy("p", rule(set_annotations={QOS: "Guaranteed"}))
    found = verdict(one, obj=pod())
    assert of(found)["metadata"]["annotations"][QOS] == "BestEffort"
    assert found.warnings == [f"annotation {QOS} not written for p/rules[0]: the QoS stamp is no policy's to write"]
    assert of(verdict(one, obj=config_map()))["metadata"]["annotations"] == {QOS: "Guaranteed"}


def test_stamp_of_a_stored_pod() -> None:
    """On an update the class that the API server stored counts: it never computes it again."""
    old = {**pod(), "status": {"qosClass": "Burstable"}}
    found = verdict(obj=pod({"new": "label"}), old=old, operation="UPDATE")
    assert of(found)["metadata"]["annotations"] == {QOS: "Burstable"}


def test_unreadable_amount() -> None:
    """An amount that is no quantity is the API server's to refuse; we warn and go on."""
    found = verdict(obj=pod(resources={"limits": {"cpu": "much"}}))
    assert of(found)["metadata"]["annotations"] == {QOS: "Burstable"}
    assert found.warnings[0].startswith('QoS class Burstable assumed: "much" is not a quantity')


@pytest.mark.parametrize("spec", [{}, {"schedulerName": "default-scheduler"}], ids=["absent", "set"])
def test_scheduler_by_policy(spec: Object) -> None:
    """The annotation that a policy writes on a pod being created becomes spec.schedulerName."""
    one = policy("route", rule(annotations={"matchLabels": {QOS: "BestEffort"}}, set_annotations={NAME: "berth"}))
    found = verdict(one, obj=pod(**spec))
    assert of(found)["spec"]["schedulerName"] == "berth"
    assert found.patch[-1] == {"op": "replace" if spec else "add", "path": "/spec/schedulerName", "value": "berth"}


def test_scheduler_by_user() -> None:
    """The annotation counts when a user wrote it too, without any policy; a policy's word is the last."""
    assert of(verdict(obj=pod(annotations={NAME: "mine"})))["spec"]["schedulerName"] == "mine"
    one = policy("p", rule(set_annotations={NAME: "theirs"}))
    assert of(verdict(one, obj=pod(annotations={NAME: "mine"})))["spec"]["schedulerName"] == "theirs"


def test_scheduler_on_update() -> None:
    """After creation only the annotation changes; other kinds have no scheduler."""
    one = policy("p", rule(set_annotations={NAME: "berth"}))
    found = verdict(one, obj=pod({"a": "b"}, schedulerName="old"), old=pod(), operation="UPDATE")
    assert of(found)["spec"]["schedulerName"] == "old"
    assert of(found)["metadata"]["annotations"][NAME] == "berth"
    assert "spec" not in of(verdict(one, obj=config_map()))


def test_scheduler_names() -> None:
    """What is no name is not translated (the API server would not check it); one without a live Lease is warned of."""
    for wrong in ("", "Not a name", "x" * 254):
        found = verdict(obj=pod(annotations={NAME: wrong}))
        assert "schedulerName" not in of(found)["spec"]
        assert found.warnings == [f'annotation {NAME} ignored: "{wrong[:30]}" is not a scheduler\'s name']
    for name, warned in (("berth", False), ("default-scheduler", False), ("gone", True)):
        found = verdict(obj=pod(annotations={NAME: name}), liveSchedulers=["berth"])
        assert bool(found.warnings) == warned


@pytest.mark.parametrize(
    "selector",
    [{"matchLabels": {"app": "web"}}, {"app": "web"}, [{"matchLabels": {"app": "web"}}]],
    ids=["selector", "plain map", "list"],
)
def test_what_an_owner_loses_is_said(selector: Any) -> None:
    """A label is written whoever finds the object by it, and a warning says who does not find it any more."""
    one = policy("p", rule(set_labels={"app": "api", "tier": "1", "pod-template-hash": "zzz"}))
    found = verdict(one, obj=pod({"app": "web", "pod-template-hash": "abc"}), ownerSelector=selector)
    assert labels(found) == {"app": "api", "pod-template-hash": "abc", "tier": "1"}
    assert found.warnings == [
        "label pod-template-hash not written for p/rules[0]: the key is reserved (a controller's own label)",
        'label app: p/rules[0] writes "api", and the object\'s owner does not find it any more',
    ]
    assert [write.key for write in found.lost] == ["app"]


def test_absent_labels_that_an_owner_wants_absent() -> None:
    one = policy("p", rule(set_labels={"app": "web", "quarantine": "yes"}))
    found = verdict(one, obj=pod(), ownerSelector=needs("quarantine", "DoesNotExist"))
    assert labels(found) == {"app": "web", "quarantine": "yes"}
    assert [write.key for write in found.lost] == ["quarantine"]


@pytest.mark.parametrize("selector", [needs("app", "In", "web", "api"), needs("app", "In", "other"), {"tier": "1"}])
def test_what_an_owner_does_not_lose(selector: Any) -> None:
    """It still finds the object, or did not find it before."""
    found = verdict(policy("p", rule(set_labels={"app": "api"})), obj=pod({"app": "web"}), ownerSelector=selector)
    assert (labels(found), found.warnings, found.lost) == ({"app": "api"}, [], ())


def test_modes() -> None:
    """Warn tells what would happen, observe does not even that; neither rejects, writes or conflicts."""
    for mode in ("warn", "observe"):
        documents = [
            policy("no", rule(reject=True, message="why"), mode=mode),
            policy("set", rule(set_labels={"seen": "no"}), mode=mode),
            EVERYONE,
        ]
        found = verdict(*documents, obj=config_map())
        assert found.allowed
        assert labels(found) == {"seen": "yes"}
        told = [
            "would be rejected by no/rules[0]: why",
            'set/rules[0] would write label seen="no"',
        ]
        assert found.warnings == (told if mode == "warn" else [])
        assert found.audit[mode] == "no/rules[0]:reject,set/rules[0]:write"
        counted = {effect.policy: (effect.rejected, effect.mutated) for effect in found.effects}
        assert counted == {"no": (True, False), "set": (False, True), "all": (False, True)}


def test_one_of_two_rules_writes() -> None:
    """A policy that only tells counts as one that would change the object if any of its rules would."""
    rules = rule(set_labels={"seen": "yes"}), rule(set_labels={"more": "yes"})
    found = verdict(policy("set", *rules, mode="observe"), obj=config_map({"seen": "yes"}))
    assert [(effect.policy, effect.rejected, effect.mutated) for effect in found.effects] == [("set", False, True)]
    nothing = verdict(policy("set", rules[0], mode="observe"), obj=config_map({"seen": "yes"}))
    assert [effect.mutated for effect in nothing.effects] == [False]


def obj(api: str, kind: str, **metadata: Any) -> Object:
    """An object of some kind."""
    return {"apiVersion": api, "kind": kind, "metadata": {"name": "x", "namespace": "team-a", **metadata}}


MIRROR = {"kubernetes.io/config.mirror": "hash"}


@pytest.mark.parametrize(
    ("exempt", "given"),
    [
        (obj("podberth.dev/v1alpha1", "MetadataPolicy"), {}),
        (obj("v1", "Event"), {}),
        (obj("events.k8s.io/v1", "Event"), {}),
        (obj("coordination.k8s.io/v1", "Lease"), {}),
        (obj("discovery.k8s.io/v1", "EndpointSlice"), {}),
        (obj("authorization.k8s.io/v1", "LocalSubjectAccessReview"), {}),
        (obj("v1", "ConfigMap", namespace="kube-system"), {}),
        (obj("v1", "ConfigMap", namespace="kube-node-lease"), {}),
        (obj("v1", "ConfigMap", namespace="berth"), {"ownNamespace": "berth"}),
        (obj("v1", "ConfigMap"), {"namespace": "kube-system"}),
        (obj("v1", "Namespace", namespace=None), {}),
        (obj("v1", "Pod", annotations=MIRROR), {}),
        (
            obj("v1", "Pod", annotations=MIRROR),
            {"userInfo": {"username": "system:node:n1", "groups": ["system:nodes"]}},
        ),
        (obj("v1", "Pod"), {"subResource": "binding"}),
    ],
)
def test_exempt(exempt: Object, given: Object) -> None:
    """What policies must never touch is allowed as it is."""
    found = verdict(NOBODY, EVERYONE, obj=exempt, **given)
    assert (found.allowed, found.code, found.patch, found.warnings) == (True, 200, [], [])
    assert found.exempt


@pytest.mark.parametrize(
    ("subject", "given"),
    [
        (obj("example.com/v1", "Lease"), {}),
        (obj("v1", "ConfigMap", namespace="kube-public"), {}),
        (obj("v1", "ConfigMap", annotations=MIRROR), {}),
        (
            obj("v1", "Pod", annotations=MIRROR),
            {"userInfo": {"username": "mallory", "groups": ["system:authenticated"]}},
        ),
        (obj("v1", "ConfigMap", deletionTimestamp="2025-01-01T00:00:00Z"), {}),
    ],
    ids=["another Lease", "another namespace", "mirrored what", "pretended mirror pod", "being deleted"],
)
def test_not_exempt(subject: Object, given: Object) -> None:
    """What only looks like an exemption is none (CVE-2023-34091: an object being deleted skipped policy)."""
    assert not verdict(NOBODY, obj=subject, **given).allowed


def test_unchanged_update() -> None:
    """An update that leaves labels and annotations alone is allowed, so finalizers can go; any other one is judged."""
    old = {**config_map({"a": "b"}), "data": {"x": "1"}}
    assert verdict(NOBODY, obj=config_map({"a": "b"}), old=old, operation="UPDATE").allowed
    assert verdict(NOBODY, obj=config_map(None, {}), old=config_map({}), operation="UPDATE").allowed
    assert not verdict(NOBODY, obj=config_map({"a": "c"}), old=old, operation="UPDATE").allowed
    assert not verdict(NOBODY, obj=config_map({"a": "b"}), operation="UPDATE").allowed


@pytest.mark.parametrize("operation", ["DELETE", "CONNECT"])
def test_never_denied(operation: Operation) -> None:
    """Deletes and connects are never a policy's business, with or without an object."""
    found = evaluate(policies(NOBODY), operation, None, config_map())
    assert (found.allowed, found.patch, found.object) == (True, [], None)
    assert evaluate(policies(NOBODY), operation, pod()).allowed


def test_namespaces() -> None:
    """A policy applies in its own namespace only; one without a namespace (in a file) applies to any."""
    foreign = policy("foreign", rule(reject=True), namespace="team-b")
    own = policy("own", rule(set_labels={"own": "1"}), namespace="team-a")
    assert labels(verdict(foreign, own, obj=config_map())) == {"own": "1"}
    assert not verdict(foreign, own, obj=config_map(), namespace="team-b").allowed


class TestValidatingPass:
    """The final object: rejects once more, and the stamp."""

    def test_final_state_is_rejected(self) -> None:
        """What a policy or another webhook made of the object may match a reject now."""
        one = policy("p", rule(has(bad="yes"), reject=True), rule(set_labels={"a": "b"}))
        found = verdict(one, obj=config_map({"bad": "yes"}), **VALIDATE)
        assert not found.allowed
        assert verdict(one, obj=config_map(), **VALIDATE).patch == []

    @pytest.mark.parametrize(
        ("stamp", "status", "allowed"),
        [
            ("BestEffort", "BestEffort", True),
            ("BestEffort", None, True),
            ("Guaranteed", "BestEffort", False),
            ("Guaranteed", None, False),
            ("BestEffort", "Burstable", True),
            (None, "BestEffort", True),
        ],
    )
    def test_stamp(self, stamp: str | None, status: str | None, allowed: bool) -> None:
        """A stamp that is not the pod's class is denied; a missing one means that the mutating webhook was away."""
        subject = pod(annotations={} if stamp is None else {QOS: stamp})
        subject["status"] = {} if status is None else {"qosClass": status}
        found = verdict(obj=subject, **VALIDATE)
        assert found.allowed == allowed
        if not allowed:
            assert found.message == (
                f'metadata.annotations[{QOS}]: Invalid value: "Guaranteed": the class of this pod is BestEffort'
            )

    def test_missing_stamp_still_counts(self) -> None:
        """Predicates see the class even where the stamp is missing."""
        one = policy("p", rule(annotations={"matchLabels": {QOS: "BestEffort"}}, reject=True))
        assert not verdict(one, obj=pod(), **VALIDATE).allowed


def test_texts_are_bounded() -> None:
    """Warnings are short, printable and not too many; long denials are cut; audit annotations too."""
    long = policy("p" * 200, *(rule(set_labels={f"k{i}": "x"}, name=f"r{i}") for i in range(60)), mode="warn")
    told = verdict(long, obj=config_map()).warnings
    assert len(told) == 30
    assert told[-1] == "and 31 more warnings about metadata policies"
    loud = policy("loud", rule(reject=True, message="red\u202e\nnext"), mode="warn")
    assert verdict(loud, obj=config_map()).warnings[0].endswith("red??next")
    many = [policy(f"p{i}", *(rule(reject=True, message="m" * 1024) for _ in range(20))) for i in range(4)]
    found = verdict(*many, obj=config_map())
    assert len(found.message) < 40_000
    assert found.message.endswith("and 48 more rules")
    assert all(len(text) <= 1024 for text in found.audit.values())


@pytest.mark.parametrize(
    ("api_version", "kind", "rejected"),
    [
        ("v1", "Pod", True),
        ("apps/v1", "Deployment", True),
        ("apps/v1beta2", "Deployment", True),
        ("v1", "ConfigMap", False),
        ("v1", "Deployment", False),
        ("example.com/v1", "Pod", False),
        ("apps.example.com/v1", "Deployment", False),
    ],
)
def test_a_rule_is_about_the_kinds_that_it_names(api_version: str, kind: str, rejected: bool) -> None:
    """The group has to be the same one; the version does not count."""
    rules = policy("p", rule(reject=True, kinds=["Pod", "Deployment.apps"]), rule(set_labels={"seen": "yes"}))
    found = verdict(rules, obj={**config_map(), "apiVersion": api_version, "kind": kind})
    assert found.allowed is not rejected
    if rejected:
        assert found.message == 'MetadataPolicy "p" rules[0]: rejects every Pod or Deployment.apps'
    else:
        assert labels(found) == {"seen": "yes"}


def test_kinds_and_predicate_both_count() -> None:
    rules = policy("p", rule(has(a="1"), set_labels={"b": "2"}, kinds=["Pod"]))
    assert labels(verdict(rules, obj=pod({"a": "1"}))) == {"a": "1", "b": "2"}
    assert labels(verdict(rules, obj=pod({"a": "2"}))) == {"a": "2"}
    assert verdict(rules, obj=config_map({"a": "1"})).patch == []


texts = st.text(alphabet="ab/~.", min_size=1, max_size=6)
maps = st.dictionaries(texts, texts, max_size=4)


def test_pointer() -> None:
    """A tilde is escaped before a slash (RFC 6901)."""
    assert pointer("metadata", "labels", "a/b~1~c") == "/metadata/labels/a~1b~01~0c"


@given(
    st.one_of(st.none(), st.fixed_dictionaries({}, optional={"labels": st.one_of(st.none(), maps)})),
    maps,
    st.booleans(),
)
def test_patch_applies(metadata: dict[str, Any] | None, writes: dict[str, str], absent: bool) -> None:
    """Whatever the object holds, the operations make `object` of it, and leave what they don't name."""
    obj: dict[str, Any] = {"kind": "X"} if absent else {"kind": "X", "metadata": metadata}
    before = copy.deepcopy(obj)
    patch = Patch(obj)
    patch.merge("metadata", "labels", writes)
    patch.set("spec", "schedulerName", "berth")
    assert obj == before
    assert json_patch(copy.deepcopy(obj), copy.deepcopy(patch.operations)) == patch.object
    held = ((obj.get("metadata") or {}).get("labels")) or {}
    assert ((patch.object.get("metadata") or {}).get("labels") or {}) == {**held, **writes}


def test_effects_of_a_policy_of_several_rules() -> None:
    """It rejects if one of its rules does, and then it does not write what others of them would."""
    both = policy("both", rule(set_labels={"a": "1"}), rule(has(b="1"), reject=True), mode="observe")
    effects = [verdict(both, obj=config_map(held)).effects for held in ({}, {"b": "1"})]
    assert effects == [(Effect("both", False, True),), (Effect("both", True, False),)]


def test_writes_that_make_a_later_pass_reject_are_not_made() -> None:
    """The effects are those of the policies that reject, and of the others, which changed nothing then."""
    tag = policy("tag", rule(has(app="web"), set_labels={"tier": "front"}))
    ban = policy("ban", rule(has(tier="front"), reject=True), rule(set_labels={"seen": "yes"}))
    found = admitted(policies(tag, ban), "CREATE", web := config_map({"app": "web"}))
    assert (found.allowed, found.object) == (False, web)
    assert [(one.policy, one.mutated, one.rejected) for one in found.effects] == [
        ("ban", False, True),
        ("tag", False, False),
    ]
