"""Pod groups, where the gate GenericWorkload is on: defaults, admission, rules, conditions, and pods that name one."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from podberth.apiserver import ApiServer
from tests.contract.client import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, Api, JsonObject
from tests.controlplane.cluster import POD_GROUPS, ControlPlane

ROOT = "/apis/scheduling.k8s.io/v1beta1"
GANG = {"schedulingPolicy": {"gang": {"minCount": 3}}}
MOMENT = "2026-01-01T00:00:00Z"


@pytest.fixture(scope="module")
def gated(control_plane_binaries: Path) -> Iterator[ControlPlane]:
    """A real API server with the gate."""
    with ControlPlane(apiserver_args=POD_GROUPS) as cluster:
        yield cluster


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.real)])
async def grouped(request: pytest.FixtureRequest) -> AsyncIterator[Api]:
    """One of the API servers, with the gate."""
    if request.param == "embedded":
        async with ApiServer(gates=["GenericWorkload"]) as server:
            client = Api(server.url, embedded=server)
            yield client
            await client.close()
        return
    cluster = request.getfixturevalue("gated")
    client = Api(cluster.url, cluster.admin_token, str(cluster.ca))
    yield client
    await client.close()


@pytest.fixture
async def groups(grouped: Api) -> str:
    """The path of the test's groups; its namespace goes with the server."""
    name = f"contract-{uuid.uuid4().hex[:8]}"
    (await grouped.post("/api/v1/namespaces", {"metadata": {"name": name}})).ok()
    return f"{ROOT}/namespaces/{name}/podgroups"


def named(name: str, **spec: object) -> JsonObject:
    return {"metadata": {"name": name}, "spec": spec}


async def test_a_new_group(grouped: Api, groups: str) -> None:
    """Defaults, the priority of its class, the finalizer, no status of its maker's, and no generation."""
    made = (await grouped.post(groups, {**named("a", **GANG), "status": {"conditions": []}})).ok()
    assert made["spec"] == {**GANG, "disruptionMode": {"single": {}}, "priority": 0}
    assert made["status"] == {}
    assert made["metadata"]["finalizers"] == ["scheduling.k8s.io/podgroup-protection"]
    assert "generation" not in made["metadata"]
    reference = {"workloadName": "w", "templateName": "t"}
    whole = named("b", schedulingPolicy={"basic": {}}, disruptionMode={"all": {}}, workloadRef=reference)
    assert (await grouped.post(groups, whole)).ok()["spec"] == {**whole["spec"], "priority": 0}


async def test_fields_of_other_gates_are_dropped(grouped: Api, groups: str) -> None:
    gated = {
        "schedulingConstraints": {"topology": [{"key": "rack"}]},
        "resourceClaims": [{"name": "x", "resourceClaimName": "c"}],
        "preemptionPolicy": "Never",
        "parentCompositePodGroupName": "p",
    }
    made = (await grouped.post(groups, named("a", **GANG, **gated))).ok()
    assert not gated.keys() & made["spec"].keys()
    changed = (await grouped.patch(f"{groups}/a", {"spec": gated}, MERGE_PATCH)).ok()
    assert changed["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


NEITHER = 'spec.schedulingPolicy: Invalid value: "": must specify one of: `basic`, `gang`'
REFUSED = [
    ("no spec", {}, NEITHER),
    ("no policy", {"schedulingPolicy": {}}, NEITHER),
    (
        "two policies",
        {"schedulingPolicy": {"basic": {}, "gang": {"minCount": 1}}},
        'spec.schedulingPolicy: Invalid value: "{basic, gang}": must specify exactly one of: `basic`, `gang`',
    ),
    (
        "no minimum",
        {"schedulingPolicy": {"gang": {}}},
        "spec.schedulingPolicy.gang.minCount: Required value",
    ),
    (
        "a minimum of 0",
        {"schedulingPolicy": {"gang": {"minCount": 0}}},
        "spec.schedulingPolicy.gang.minCount: Required value",
    ),
    (
        "a negative minimum",
        {"schedulingPolicy": {"gang": {"minCount": -1}}},
        "spec.schedulingPolicy.gang.minCount: Invalid value: -1: must be greater than or equal to 1",
    ),
    (
        "two modes",
        {**GANG, "disruptionMode": {"single": {}, "all": {}}},
        'spec.disruptionMode: Invalid value: "{single, all}": must specify exactly one of: `single`, `all`',
    ),
    (
        "no mode",
        {**GANG, "disruptionMode": {}},
        'spec.disruptionMode: Invalid value: "": must specify one of: `single`, `all`',
    ),
    (
        "a class of the system",
        {**GANG, "priorityClassName": "system-node-critical"},
        "spec.priority: Invalid value: 2000001000: must be less than or equal to 1000000000",
    ),
    (
        "no template",
        {**GANG, "workloadRef": {"workloadName": "w"}},
        "spec.workloadRef.templateName: Required value",
    ),
]


@pytest.mark.parametrize(("spec", "why"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
async def test_what_is_no_group(grouped: Api, groups: str, spec: JsonObject, why: str) -> None:
    error = (await grouped.post(groups, named("a", **spec))).refused(422, "Invalid")
    assert error == f'PodGroup.scheduling.k8s.io "a" is invalid: {why}'


async def test_the_priority_is_that_of_the_class(grouped: Api, groups: str) -> None:
    error = (await grouped.post(groups, named("a", **GANG, priority=5))).refused(403, "Forbidden")
    assert error.endswith(
        "priority set in the pod group (5) must match the priority computed (0) based on the priority class set in the "
        "spec"
    )
    error = (await grouped.post(groups, named("a", **GANG, priorityClassName="none"))).refused(403, "Forbidden")
    assert error.endswith("no PriorityClass with name none was found")


async def test_only_the_minimum_changes(grouped: Api, groups: str) -> None:
    (await grouped.post(groups, named("a", **GANG))).ok()
    change = {"spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}
    changed = (await grouped.patch(f"{groups}/a", change, MERGE_PATCH)).ok()
    assert changed["spec"]["schedulingPolicy"] == {"gang": {"minCount": 2}}
    policy = "spec.schedulingPolicy"
    for spec, why in (
        (
            {"schedulingPolicy": {"gang": None, "basic": {}}},
            f"[{policy}.basic: Invalid value: null: field is immutable, "
            f"{policy}.gang: Invalid value: null: field cannot be cleared once set]",
        ),
        (
            {"disruptionMode": {"single": None, "all": {}}},
            "spec.disruptionMode: Invalid value: null: field is immutable",
        ),
        ({"priority": 7}, "spec.priority: Invalid value: null: field is immutable"),
        ({"priorityClassName": "x"}, "spec.priorityClassName: Invalid value: null: field is immutable"),
    ):
        error = (await grouped.patch(f"{groups}/a", {"spec": spec}, MERGE_PATCH)).refused(422, "Invalid")
        assert error == f'PodGroup.scheduling.k8s.io "a" is invalid: {why}'
    basic: JsonObject = {"schedulingPolicy": {"basic": {}}}
    (await grouped.post(groups, named("b", **basic))).ok()
    become = {"spec": {"schedulingPolicy": {"basic": None, "gang": {"minCount": 1}}}}
    error = (await grouped.patch(f"{groups}/b", become, MERGE_PATCH)).refused(422, "Invalid")
    assert f"{policy}.gang: Invalid value: null: field cannot be set once created" in error


async def test_conditions_are_written_by_themselves(grouped: Api, groups: str) -> None:
    """Merged by type in a strategic merge; only the status changes; a version that is not the latest conflicts."""
    made = (await grouped.post(groups, named("a", **GANG))).ok()
    scheduled = {
        "type": "PodGroupInitiallyScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "m",
        "lastTransitionTime": MOMENT,
    }
    write = {"metadata": {"labels": {"x": "y"}}, "spec": {"priority": 9}, "status": {"conditions": [scheduled]}}
    written = (await grouped.patch(f"{groups}/a/status", write, STRATEGIC_PATCH)).ok()
    assert written["status"] == {"conditions": [scheduled]}
    assert "labels" not in written["metadata"]
    assert written["spec"] == made["spec"]
    target = {**scheduled, "type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    meta = {key: written["metadata"][key] for key in ("uid", "resourceVersion")}
    more = {"metadata": meta, "status": {"conditions": [target]}}
    both = (await grouped.patch(f"{groups}/a/status", more, STRATEGIC_PATCH)).ok()
    assert sorted(one["type"] for one in both["status"]["conditions"]) == ["DisruptionTarget", scheduled["type"]]
    (await grouped.patch(f"{groups}/a/status", more, STRATEGIC_PATCH)).refused(409, "Conflict")
    elsewhere = (await grouped.patch(f"{groups}/a", {"status": {"conditions": []}}, MERGE_PATCH)).ok()
    assert elsewhere["status"] == both["status"]


async def test_what_is_no_condition(grouped: Api, groups: str) -> None:
    (await grouped.post(groups, named("a", **GANG))).ok()
    status = {"conditions": [{"type": "X", "status": "Maybe", "reason": "", "message": "m"}]}
    error = (await grouped.patch(f"{groups}/a/status", {"status": status}, MERGE_PATCH)).refused(422, "Invalid")
    assert error == (
        'PodGroup.scheduling.k8s.io "a" is invalid: [status.conditions[0].status: Unsupported value: "Maybe": '
        'supported values: "False", "True", "Unknown", status.conditions[0].lastTransitionTime: Required value, '
        "status.conditions[0].reason: Required value]"
    )


async def test_a_group_stays_until_its_finalizer_goes(grouped: Api, groups: str) -> None:
    (await grouped.post(groups, named("a", **GANG))).ok()
    going = (await grouped.delete(f"{groups}/a")).ok()
    assert going["metadata"]["deletionTimestamp"]
    drop = [{"op": "remove", "path": "/metadata/finalizers"}]
    (await grouped.patch(f"{groups}/a", drop, JSON_PATCH)).ok()
    (await grouped.get(f"{groups}/a")).refused(404, "NotFound")


async def test_pods_name_their_group_once(grouped: Api, groups: str) -> None:
    pods = groups.replace(ROOT, "/api/v1").replace("podgroups", "pods")
    container = {"containers": [{"name": "c", "image": "i"}]}
    made = (await grouped.post(pods, named("p", **container, schedulingGroup={"podGroupName": "a"}))).ok()
    assert made["spec"]["schedulingGroup"] == {"podGroupName": "a"}
    for other in ({"podGroupName": "b"}, None):
        change = {"spec": {"schedulingGroup": other}}
        (await grouped.patch(f"{pods}/p", change, MERGE_PATCH)).refused(422, "Invalid")
    error = (await grouped.post(pods, named("q", **container, schedulingGroup={}))).refused(422, "Invalid")
    assert error == (
        'Pod "q" is invalid: spec.schedulingGroup.podGroupName: Invalid value: null: '
        "must specify one of: `podGroupName`"
    )
    error = (await grouped.post(pods, named("q", **container, schedulingGroup={"podGroupName": "A_b"}))).refused(
        422, "Invalid"
    )
    assert 'spec.schedulingGroup.podGroupName: Invalid value: "A_b"' in error


async def test_discovery_names_the_kind(grouped: Api) -> None:
    found = (await grouped.get(ROOT)).ok()["resources"]
    kinds = {one["name"]: (one["kind"], one["namespaced"]) for one in found}
    assert kinds["podgroups"] == kinds["podgroups/status"] == ("PodGroup", True)
    versions = (await grouped.get("/apis/scheduling.k8s.io")).ok()["versions"]
    assert [one["version"] for one in versions] == ["v1", "v1beta1"]


async def test_without_the_gate_nobody_names_a_group(api: Api, pods: str) -> None:
    """The kind is not there, and pods lose the field."""
    (await api.get(f"{ROOT}/podgroups")).refused(404, "NotFound")
    body = named("p", containers=[{"name": "c", "image": "i"}], schedulingGroup={"podGroupName": "a"})
    assert "schedulingGroup" not in (await api.post(pods, body)).ok()["spec"]


async def test_a_patch_that_changes_nothing_asks_who_it_is(grouped: Api, groups: str) -> None:
    """With the group's UID nothing is stored; with that of one before it, it is refused."""
    made = (await grouped.post(groups, named("a", **GANG))).ok()
    path, metadata = f"{groups}/a/status", made["metadata"]
    same = (await grouped.patch(path, {"metadata": {"uid": metadata["uid"]}}, MERGE_PATCH)).ok()
    assert same["metadata"]["resourceVersion"] == metadata["resourceVersion"]
    refused = await grouped.patch(path, {"metadata": {"uid": "an-older-one"}}, MERGE_PATCH)
    assert (refused.code, refused.body["reason"]) == (422, "Invalid"), "a UID can't be changed"
    assert (await grouped.patch(f"{groups}/b/status", {"metadata": {"uid": "x"}}, MERGE_PATCH)).code == 404
