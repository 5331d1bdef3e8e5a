"""`berth operator` with the rights of its manifest on the real API server: statuses, Leases, audits, no CRD."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from bench.hostile_policies import rejects as split_rejects
from bench.hostile_policies import sorts
from podberth.policy.spec import MAX_RULES
from tests.controlplane import namespaces
from tests.controlplane.api import Api, ApiError
from tests.controlplane.cluster import Cluster, ControlPlane
from tests.controlplane.wait import wait_for
from tests.integration.berth import START
from tests.integration.ship import (
    CRD,
    EVERYWHERE,
    LEASES,
    MANIFESTS,
    PATIENCE,
    POLICIES,
    Ship,
    lease,
    rejects,
    sends_to,
    wait_served,
    writes,
)


@pytest.fixture(scope="module")
def policed(control_plane: Cluster) -> Iterator[Cluster]:
    """The control plane that all tests share, with the CRD; left as it was found."""
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    had = any(found["metadata"]["name"] == "metadatapolicies.podberth.dev" for found in control_plane.api.list(crds))
    wait_served(control_plane)
    yield control_plane
    if not had:
        control_plane.kubectl("delete", "-f", str(MANIFESTS / CRD))


@pytest.fixture
def ship(policed: Cluster, tmp_path: Path) -> Iterator[Ship]:
    """Our rights and namespaces there."""
    opened = Ship(policed, tmp_path)
    yield opened
    opened.close()


def test_conditions(ship: Ship) -> None:
    """Good, conflicting and poisonous policies get the conditions that say so, an Event each, and nothing else."""
    ship.put("good", {**rejects("owner", "DoesNotExist")})
    ship.put("left", writes(team="a"))
    ship.put("right", writes(team="b"))
    ship.put("poison", writes(tier="gold"), rejects("tier", "In", "gold"))
    replica = ship.start()
    good = ship.wait_conditions(
        "good", Accepted="True", Conflict="False", SelfConsistent="True", SchedulerAvailable="True"
    )
    assert good["Accepted"]["observedGeneration"] == 1
    left = ship.wait_conditions("left", Accepted="True", Conflict="True")
    assert '"a"' in left["Conflict"]["message"] and "right" in left["Conflict"]["message"]
    ship.wait_conditions("right", Conflict="True")
    poison = ship.wait_conditions("poison", Accepted="True", SelfConsistent="False")
    assert poison["SelfConsistent"]["reason"] == "SelfPoison"
    assert wait_for("the Event", lambda: [e for e in ship.events("poison") if e["reason"] == "SelfPoison"])
    metadata = ship.get("poison")["metadata"]
    assert "finalizers" not in metadata and "annotations" not in metadata
    assert ship.get("poison")["status"]["observedGeneration"] == 1
    assert ship.get("poison")["status"]["rules"] == 2
    assert {one["reason"] for one in ship.events("good")} == {"NoWebhook"}  # the only thing wrong with it here
    assert not replica.lines("the watch ended and is started again")
    assert replica.stop(START) == 0
    assert "Traceback" not in replica.log.read_text()


def test_stays_unwritten(ship: Ship) -> None:
    """Neither time, nor a change elsewhere, nor a new operator rewrites a status that is true already."""
    ship.put("quiet", writes(team="a"))
    first = ship.start()
    ship.wait_status("quiet", lambda status: "audit" in status)
    before = ship.get("quiet")["metadata"]["resourceVersion"]
    ship.put("other", rejects("never", "Exists"))
    ship.wait_status("other", lambda status: "audit" in status)
    assert first.stop(START) == 0
    second = ship.start()
    wait_for("an audit by the second", lambda: len(second.lines("audited")) > 1, PATIENCE)
    assert ship.get("quiet")["metadata"]["resourceVersion"] == before
    assert not second.lines("status written")


def test_heals_and_keeps(ship: Ship) -> None:
    """A status that somebody edits is made true again; times of unchanged conditions and others' conditions stay."""
    ship.put("mine", writes(team="a"))
    ship.start()
    ship.wait_status("mine", lambda status: "audit" in status)
    written = ship.get("mine")
    foreign = {
        "type": "Blessed",
        "status": "True",
        "reason": "R",
        "message": "",
        "lastTransitionTime": "2020-01-01T00:00:00Z",
    }
    forged = [dict(one) for one in written["status"]["conditions"]]
    forged[0] |= {"message": "forged", "lastTransitionTime": "2020-01-01T00:00:00Z"}
    path = f"{POLICIES.format(ship.team)}/mine/status"
    ship.api.patch(path, {"status": {"conditions": [*forged, foreign]}})
    ship.wait_conditions("mine", Accepted="True", Blessed="True")
    healed = ship.wait_status("mine", lambda status: status["conditions"][0]["message"] != "forged")
    assert healed["conditions"][0]["lastTransitionTime"] == "2020-01-01T00:00:00Z"
    assert healed["conditions"][1:] == [*written["status"]["conditions"][1:], foreign]


def test_scheduler_available(ship: Ship) -> None:
    """A scheduler counts once a held Lease stands for it, by --profile or annotation, and no longer when released."""
    ship.put("plain", sends_to("packed"))
    ship.put("noted", sends_to("spread"))
    ship.put("default", sends_to("default-scheduler"))
    ship.start("--profile=berth", "--profile=packed")
    down = ship.wait_conditions("plain", SchedulerAvailable="False")
    assert down["SchedulerAvailable"]["reason"] == "NoLiveLease"
    ship.wait_conditions("noted", SchedulerAvailable="False")
    ship.wait_conditions("default", SchedulerAvailable="True")
    assert wait_for("the Event", lambda: [e for e in ship.events("plain") if e["reason"] == "NoLiveLease"])
    path = LEASES.format(ship.berth)
    ship.api.create(path, lease("berth", "somebody"))
    ship.wait_conditions("plain", SchedulerAvailable="True")
    ship.api.create(path, lease("third-party", "somebody", "spread, other"))
    ship.wait_conditions("noted", SchedulerAvailable="True")
    ship.api.patch(f"{path}/berth", {"spec": {"holderIdentity": ""}})
    ship.wait_conditions("plain", SchedulerAvailable="False")
    ship.wait_conditions("noted", SchedulerAvailable="True")


def test_audit(ship: Ship) -> None:
    """Objects that exist are counted in the status, whatever the mode, and are not touched."""
    maps = f"/api/v1/namespaces/{ship.team}/configmaps"
    for name, labels in (("a", {"team": "x"}), ("b", {"team": "y", "bad": "yes"}), ("c", {})):
        ship.api.create(maps, {"metadata": {"name": name, "labels": labels}})
    ship.put("forbid", rejects("bad", "Exists"), mode="observe")
    ship.put("label", writes(team="x"))
    ship.start("--audit-kind=configmaps", "--audit-kind=secrets")
    forbid = ship.wait_status("forbid", lambda status: "audit" in status)["audit"]
    assert (forbid["objects"], forbid["rejected"], forbid["mutated"]) == (3, 1, 0)
    ship.api.create(maps, {"metadata": {"name": "d", "labels": {"bad": "too"}}})
    later = ship.wait_status("forbid", lambda status: status["audit"]["rejected"] == 2)["audit"]
    assert later["examples"] == [f"ConfigMap {ship.team}/b", f"ConfigMap {ship.team}/d"]
    assert ship.api.get(f"{maps}/c")["metadata"].get("labels") is None


def test_one_leads(ship: Ship) -> None:
    """Of two replicas one writes; when it ends cleanly the other takes over without waiting for the Lease's end."""
    first = ship.start()
    wait_for("a leader", lambda: "leads" in first.probe("/readyz")[1])
    second = ship.start()
    wait_for("it to stand by", lambda: "stands by" in second.probe("/readyz")[1], START)
    ship.put("one", writes(team="a"))
    ship.wait_conditions("one", Accepted="True")
    assert not second.lines("status written")
    assert first.stop(START) == 0
    ship.put("two", writes(tier="b"))
    ship.wait_conditions("two", Accepted="True")
    wait_for("its line", lambda: second.lines("status written"))  # the log leaves a moment after the write


def test_killed_leader_is_replaced(ship: Ship) -> None:
    """When the leader is killed, the other takes over after the Lease's time, and goes on where it was."""
    first = ship.start()
    wait_for("a leader", lambda: "leads" in first.probe("/readyz")[1], PATIENCE)
    second = ship.start()
    ship.put("one", writes(team="a"))
    ship.wait_status("one", lambda status: "audit" in status)
    before = ship.get("one")["metadata"]["resourceVersion"]
    first.kill()
    ship.put("two", writes(tier="b"))
    ship.wait_conditions("two", Accepted="True")
    wait_for("its probe to say so", lambda: "leads" in second.probe("/readyz")[1], START)
    assert ship.get("one")["metadata"]["resourceVersion"] == before  # true already: not written again
    assert second.stop(START) == 0


def test_crd_comes_and_goes(control_plane_binaries: Path, tmp_path: Path) -> None:
    """Without the CRD it waits, alive but not ready, and says so once, and goes on when the CRD is there; when the CRD
    goes its process ends, and the next one waits again.
    """
    with ControlPlane() as cluster, contextlib.ExitStack() as after:
        ship = Ship(cluster, tmp_path)
        after.callback(ship.end)
        replica = ship.start(ready=False, everywhere=True)
        wait_for("it to wait", lambda: replica.log.exists() and replica.lines(WAITS), START)
        wait_for("it to be alive", lambda: replica.probe("/livez")[0] == 200, START)
        assert replica.probe("/readyz")[0] == 503
        wait_served(cluster)
        ship.put("early", writes(team="a"))
        ship.wait_conditions("early", Accepted="True")
        assert len(replica.lines(WAITS)) == 1
        cluster.kubectl("delete", "-f", str(MANIFESTS / CRD))
        wait_for("it to end", lambda: not replica.running, PATIENCE)
        assert replica.returncode == 1
        replica = ship.start(ready=False, everywhere=True)
        wait_for("it to wait again", lambda: replica.log.exists() and replica.lines(WAITS), PATIENCE)
        wait_served(cluster)
        ship.put("late", writes(team="b"))
        found = ship.wait_conditions("late", Accepted="True", Conflict="False")
        assert found["Conflict"]["reason"] == "NoConflict"
        assert replica.stop(START) == 0
        assert "Traceback" not in replica.log.read_text()


def test_outlives_the_api_server(control_plane_binaries: Path, tmp_path: Path) -> None:
    """A restart of the API server is no death: the same process goes on, and nobody's status is rewritten for it."""
    with ControlPlane() as cluster, contextlib.ExitStack() as after:
        wait_served(cluster)
        ship = Ship(cluster, tmp_path)
        after.callback(ship.end)
        ship.api.create(LEASES.format(ship.berth), lease("berth", "somebody"))
        ship.put("before", sends_to("berth"))
        replica = ship.start(everywhere=True)
        ship.wait_conditions("before", SchedulerAvailable="True")
        ship.wait_status("before", lambda status: "audit" in status)
        was = ship.get("before")
        cluster.restart_apiserver()
        ship.put("after", writes(team="a"))
        ship.wait_conditions("after", Accepted="True")
        assert replica.probe("/livez")[0] == 200
        now = ship.get("before")
        assert now["status"] == was["status"]
        assert replica.stop(START) == 0


WAITS = "the CRD of MetadataPolicies is not there, waiting for it"


def test_older_schema(control_plane_binaries: Path, tmp_path: Path) -> None:
    """What an older, laxer CRD let in is marked Accepted=False with the field's path; the others are still judged."""
    with ControlPlane() as cluster, contextlib.ExitStack() as after:
        document = yaml.safe_load((MANIFESTS / CRD).read_text())
        schema = document["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        schema["properties"]["spec"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        document["spec"]["versions"][0].pop("selectableFields", None)
        cluster.api.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", document)
        wait_for("the CRD to be served", lambda: _there(cluster.api), PATIENCE)
        ship = Ship(cluster, tmp_path)
        after.callback(ship.end)
        ship.put("bad", {"policyPredicate": {}, "policyAction": {"updatedLabels": {"not a key": "x"}}})
        ship.put("fine", writes(team="a"))
        ship.start()
        bad = ship.wait_conditions("bad", Accepted="False", Conflict="Unknown")
        assert "spec.rules[0].policyAction.updatedLabels[not a key]" in bad["Accepted"]["message"]
        ship.wait_conditions("fine", Accepted="True", Conflict="False")
        assert wait_for("the Event", lambda: [e for e in ship.events("bad") if e["reason"] == "Invalid"])


def _there(api: Api) -> bool:
    with contextlib.suppress(ApiError):
        return bool(api.get(EVERYWHERE))
    return False


def test_an_expensive_namespace_waits_for_itself(ship: Ship) -> None:
    """Legal policies that cost much: their statuses say what is not known, others have theirs, memory stays flat."""
    large, long = (namespaces.create(ship.api, name) for name in ("large", "long"))
    try:
        replica = ship.start(f"--watch-namespace={large}", f"--watch-namespace={long}", "--audit-kind=configmaps")
        ship.put("first", writes(team="a"))
        ship.wait_conditions("first", Accepted="True")
        before = replica.peak_memory_mb()
        for number in range(6):
            (document,) = sorts(MAX_RULES)
            ship.put(f"large-{number}", *document["spec"]["rules"], namespace=large)
        for document in split_rejects(20 * MAX_RULES):
            ship.put(document["metadata"]["name"], *document["spec"]["rules"], namespace=long)
        ship.put("quiet", writes(tier="b"))
        ship.wait_conditions("quiet", Accepted="True", Conflict="False", SelfConsistent="True")
        # The first of them may be looked at before the others come.
        said = wait_for(
            "the large policies' status",
            lambda: said if (said := reasons(ship, large, "large-0")).get("Accepted") == "NotLookedAt" else None,
            PATIENCE,
        )
        assert said.pop("Enforced") == "NoWebhook"  # a webhook would judge by itself, but there is none
        assert said == {"Accepted": "NotLookedAt", "Conflict": "NotLookedAt", "SelfConsistent": "NotLookedAt"}
        wait_for(
            "the long analysis",
            lambda: reasons(ship, long, "p00000").get("SelfConsistent") in ("Undecided", "Consistent"),
            PATIENCE,
        )
        assert replica.probe("/livez")[0] == 200
        grew = replica.peak_memory_mb() - before
        assert grew < 60, grew
        assert not replica.lines("the watch ended and is started again")
        assert replica.stop(START) == 0
        assert "Traceback" not in replica.log.read_text()
    finally:
        for namespace in (large, long):
            namespaces.remove(ship.api, namespace, by_hand=ship.cluster.owned)


def reasons(ship: Ship, namespace: str, name: str) -> dict[str, str]:
    """Why the conditions are as they are, by type, but for the schedulers' one."""
    found = ship.api.get(f"{POLICIES.format(namespace)}/{name}").get("status", {}).get("conditions", [])
    return {one["type"]: one["reason"] for one in found if one["type"] != "SchedulerAvailable"}
