"""What differs from the expectation of a case, line by line, and what policies would do to objects that exist."""

from __future__ import annotations

from typing import Any

import pytest

from podberth.policy.cases import CaseError
from podberth.policy.expect import check
from podberth.policy.impact import Effects, Kind, Loss, Rejection, impact
from podberth.policy.options import NO_OPTIONS
from podberth.policy.owners import read
from tests.unit.policy.build import NAME, Object, config_map, has, pod, policies, policy, rule

LABELS = policy("labels", rule(set_labels={"seen": "yes"}))
WARNS = policy("warns", rule(set_labels={"more": "yes"}), mode="warn")
REJECTS = policy("rejects", rule(has(app="bad"), reject=True, message="no bad ones"))
SENDS = policy("sends", rule(set_annotations={NAME: "berth"}))
WARNING = 'warns/rules[0] would write label more="yes"'


def differing(expect: Object, obj: Object) -> list[str]:
    """Of a case about an object that is created."""
    return check(policies(LABELS, WARNS, REJECTS), {"object": obj, "expect": expect}, "cases[0]")


@pytest.mark.parametrize(
    ("expect", "differs"),
    [
        ({}, []),
        ({"allowed": True, "code": 200, "changed": True}, []),
        ({"allowed": False}, ["allowed: want false, got true"]),
        ({"code": 403}, ["code: want 403, got 200"]),
        ({"changed": False}, ["changed: want false, got true"]),
        ({"message": ""}, []),
        ({"message": "bad"}, ['message: want a text with "bad", got ""']),
        ({"labels": {"seen": "yes"}, "annotations": {}}, []),
        ({"labels": {"seen": "no"}}, ['labels[seen]: want "no", got "yes"']),
        ({"labels": {"app": "web"}}, ['labels[app]: want "web", got none']),
        ({"labels": {"seen": None}}, ['labels[seen]: want none, got "yes"']),
        ({"annotations": {"a": "b"}}, ['annotations[a]: want "b", got none']),
        ({"schedulerName": None}, []),
        ({"schedulerName": "berth"}, ['schedulerName: want "berth", got none']),
        ({"warnings": ["would write"]}, []),
        ({"warnings": []}, [f'warnings: "{WARNING}" was not expected'.replace('more="yes"', 'more=\\"yes\\"')]),
        (
            {"warnings": ["would write", "else"]},
            [f'warnings: want one with "else", got ["{WARNING}"]'.replace('more="yes"', 'more=\\"yes\\"')],
        ),
    ],
    ids=str,
)
def test_what_differs(expect: Object, differs: list[str]) -> None:
    """Only what is expected is compared."""
    assert differing(expect, config_map()) == differs


def test_a_refusal_says_why() -> None:
    """Beside what differs for that reason; and a part of the message is enough."""
    refused = config_map({"app": "bad"})
    assert differing({"allowed": False, "code": 403, "message": "no bad", "changed": False}, refused) == []
    said = 'MetadataPolicy "rejects" rules[0]: no bad ones'
    assert differing({"allowed": True}, refused) == [f"allowed: want true, got false ({said})"]
    assert differing({"changed": True}, refused) == ["changed: want true, got false"]


@pytest.mark.parametrize("warnings", ["would write", ["would write", 1], [1]])
def test_warnings_are_texts(warnings: Any) -> None:
    """All of them."""
    with pytest.raises(CaseError, match=r"cases\[0\]\.expect\.warnings: want a list of texts"):
        differing({"warnings": warnings}, config_map())


def test_impact() -> None:
    """Each object is counted in all and in its kind, and each policy as if it were in mode enforce; two are exempt."""
    mirror = pod(annotations={"kubernetes.io/config.mirror": "hash"})
    event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}}
    objects = [pod(), pod({"app": "bad"}), config_map(), config_map({"seen": "yes", "more": "yes"}), event, mirror]
    found = impact(policies(LABELS, WARNS, REJECTS, SENDS), objects, NO_OPTIONS)
    assert found.total == Kind(objects=6, exempt=2, rejected=1, relabelled=3)
    assert found.kinds == {
        "Pod": Kind(objects=3, exempt=1, rejected=1, relabelled=1),
        "ConfigMap": Kind(objects=2, exempt=0, rejected=0, relabelled=2),
        "Event": Kind(objects=1, exempt=1, rejected=0, relabelled=0),
    }
    assert found.policies["rejects"] == Effects(rejected=1, relabelled=0)
    assert found.schedulers == {"default-scheduler": {"berth": 1}}
    assert found.rejections == [Rejection("Pod", "team-a", "web", 'MetadataPolicy "rejects" rules[0]: no bad ones')]


@pytest.mark.parametrize(
    ("kind", "template", "lost"),
    [
        ("Deployment", {"labels": {"app": "web"}}, True),
        ("StatefulSet", {"labels": {"app": "web"}}, True),
        ("Deployment", {"labels": {"app": "other"}}, False),
        ("Widget", {"labels": {"app": "web"}}, False),
        ("Deployment", {"labels": "none"}, False),
    ],
)
def test_impact_names_owners_that_lose_what_they_make(kind: str, template: dict[str, Any], lost: bool) -> None:
    """It is the pod of the template that counts, and no label of the owner itself."""
    spec = {"selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": template, "spec": {"containers": []}}}
    meta = {"name": "web", "namespace": "team-a", "labels": {"app": "own"}}
    obj = {"apiVersion": "apps/v1", "kind": kind, "metadata": meta, "spec": spec}
    label = policy("label", rule(has(app="web"), set_labels={"app": "api"}))
    found = impact(policies(label), [], NO_OPTIONS, filter(None, [read(obj)]))
    assert found.losses == ([Loss(kind, "team-a", "web", "label", "app", "api")] if lost else [])


def test_impact_counts_what_the_second_pass_rejects() -> None:
    """What the policies write may be what one of them rejects: a create is refused then, and nothing is written."""
    tag = policy("tag", rule(set_labels={"tier": "front"}))
    ban = policy("ban", rule(has(tier="front"), reject=True))
    found = impact(policies(tag, ban), [config_map(), config_map({"tier": "front"})], NO_OPTIONS)
    assert found.total == Kind(objects=2, exempt=0, rejected=2, relabelled=0)
    assert found.policies == {"tag": Effects(), "ban": Effects(rejected=2)}


def test_a_case_is_judged_in_both_passes() -> None:
    bans = policy("bans", rule(has(seen="yes"), reject=True))
    case: Object = {"object": config_map(), "expect": {"allowed": False, "labels": {"seen": None}}}
    assert check(policies(LABELS, bans), case, "cases[0]") == []
    assert check(policies(LABELS, bans), {**case, "options": {"pass": "mutate"}}, "cases[0]") != []
