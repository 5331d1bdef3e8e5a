"""Reserve and PreBind in virtual time: what is promised, written, awaited, and given back."""

from collections.abc import Sequence
from typing import Any

import pytest

from podberth.engine.instructions import (
    Bind,
    Failed,
    Instruction,
    Nominate,
    PatchCondition,
    PreBindWrite,
    RecordFailure,
)
from podberth.engine.queue.queued import Place
from podberth.engine.stimuli import PreBindWriteFailed, PreBindWritten
from podberth.framework.binding import ObjectKey
from tests.builders import Object, node, pod
from tests.storage import SELECTED, claim, storage_class, using, volume

from .api import DATA, Api
from .conftest import Harness

WAIT = storage_class()
MAKES = storage_class(provisioner="csi.test")
DISK: ObjectKey = ("PersistentVolume", "", "v")


def only(instructions: Sequence[Instruction], kind: type[Any]) -> Any:
    """The one instruction of a kind."""
    (found,) = [instruction for instruction in instructions if isinstance(instruction, kind)]
    return found


def kinds(instructions: Sequence[Instruction]) -> list[str]:
    return [type(instruction).__name__ for instruction in instructions]


def place_of(harness: Harness, uid: str = "default/p") -> Place | None:
    queued = harness.engine.queue.get(uid)
    return None if queued is None else queued.place


def asking(name: str = "p", *claims: str) -> Object:
    return using(pod(name), *(claims or ("data",)))


@pytest.fixture
def static(harness: Harness) -> Api:
    """A node, and a claim that waits for its pod beside the volume that will serve it."""
    return Api(harness, node("n"), WAIT, claim("data"), volume("v", on=["host in n"]))


@pytest.fixture
def dynamic(harness: Harness) -> Api:
    """A node, and a claim of a class that makes volumes for pods."""
    return Api(harness, node("n"), MAKES, claim("data"))


def test_a_pod_with_bound_claims_is_bound_at_once(harness: Harness) -> None:
    """Nothing to write, nothing to wait for."""
    api = Api(harness, node("n"), node("m"), claim("data", to="v"), volume("v", on=["host in m"]))
    api.put(asking())
    assert harness.binds() == {"p": "m"}


def test_a_static_volume(harness: Harness, static: Api) -> None:
    """Its claimRef is written, the claim is awaited, then the pod is bound."""
    static.put(asking())
    said = harness.cycles()
    assert kinds(said) == ["Nominate", "PreBindWrite"]
    prepare = only(said, PreBindWrite)
    assert (prepare.node, prepare.plugin) == ("n", "VolumeBinding")
    assert harness.handle(static.write(prepare)) == []
    ref = static.get(DISK)["spec"]["claimRef"]
    assert (ref["namespace"], ref["name"], ref["uid"]) == ("default", "data", "claim/default/data")
    assert static.get(DISK)["metadata"]["annotations"] == {"pv.kubernetes.io/bound-by-controller": "yes"}
    assert harness.engine.in_flight == 0
    assert static.show(DISK) == []
    bind = only(static.bind(), Bind)
    assert (bind.pod.name, bind.node) == ("p", "n")
    harness.bound("default/p")
    assert harness.engine.next_tick() is None


def test_a_volume_that_is_meant_for_the_claim(harness: Harness) -> None:
    """Its claimRef gets the claim's UID. Whoever made the reference keeps it: it is not marked as the controller's."""
    api = Api(harness, node("n"), WAIT, claim("data"), volume("v", claimed="data"))
    api.put(asking())
    harness.handle(api.write(only(harness.cycles(), PreBindWrite)))
    assert api.get(DISK)["spec"]["claimRef"]["uid"] == "claim/default/data"
    assert "annotations" not in api.get(DISK)["metadata"]
    assert api.show(DISK) == []
    assert kinds(api.bind()) == ["Bind"]


def test_a_volume_to_be_made(harness: Harness, dynamic: Api) -> None:
    """The claim gets its node, and is awaited together with the volume that comes."""
    dynamic.put(asking())
    prepare = only(harness.cycles(), PreBindWrite)
    harness.handle(dynamic.write(prepare))
    assert dynamic.get(DATA)["metadata"]["annotations"] == {SELECTED: "n"}
    dynamic.show(DATA)
    assert dynamic.bind() == []
    assert kinds(dynamic.put(volume("v", claimed="data", uid="claim/default/data", phase="Bound"))) == ["Bind"]


def test_the_answer_may_come_after_the_watch(harness: Harness, static: Api) -> None:
    """What matters is what is there, not in which order we hear of it."""
    static.put(asking())
    prepared = static.write(only(harness.cycles(), PreBindWrite))
    assert static.show(DISK) == []
    assert static.bind() == []
    assert kinds(harness.handle(prepared)) == ["Bind"]


def test_the_watch_must_have_caught_up_with_our_write(harness: Harness, static: Api) -> None:
    """An object older than what we wrote says nothing, whatever it says."""
    static.put(asking())
    harness.handle(static.write(only(harness.cycles(), PreBindWrite)))
    assert static.bind() == []
    assert kinds(static.show(DISK)) == ["Bind"]


def test_what_was_promised_is_taken(harness: Harness, static: Api) -> None:
    """The next pod does not get the same volume, however long the first one's binding takes."""
    static.put(claim("more"))
    static.put(asking())
    static.put(asking("q", "more"))
    said = harness.cycles()
    assert only(said, PreBindWrite).pod.name == "p"
    failed = only(said, Failed)
    assert failed.message.startswith("0/1 nodes are available: 1 node(s) didn't find available persistent volumes")
    assert harness.engine.cluster.assumed() == 1


def test_several_claims_on_one_node(harness: Harness) -> None:
    """Static and dynamic together; the pod is bound when the last claim is."""
    api = Api(harness, node("n"), WAIT, storage_class("makes", "csi.test"), volume("v"))
    api.put(claim("data"))
    api.put(claim("new", storage_class="makes"))
    api.put(asking("p", "data", "new"))
    prepare = only(harness.cycles(), PreBindWrite)
    assert [patch.key[2] for patch in prepare.writes] == ["v", "new"]
    harness.handle(api.write(prepare))
    new = ("PersistentVolumeClaim", "default", "new")
    api.show(DISK, new)
    api.put(volume("made", claimed="new", uid="claim/default/new", storage_class="makes", phase="Bound"))
    assert api.bind(new, "made") == []
    assert kinds(api.bind()) == ["Bind"]


def test_the_api_refuses_a_write(harness: Harness, static: Api) -> None:
    """The promise and the room are taken back; the pod is told why, and tried again after its backoff."""
    static.put(asking())
    harness.cycles()
    said = harness.handle(PreBindWriteFailed("default/p", 409, "the object has been modified", {}))
    assert kinds(said) == ["Failed", "PatchCondition", "RecordFailure"]
    assert only(said, Failed).message == 'running PreBind plugin "VolumeBinding": the object has been modified'
    assert only(said, PatchCondition).nominated == ""
    assert harness.engine.cluster.assumed() == 0
    assert not harness.engine.cluster.storage.volumes.assumed
    assert place_of(harness) is Place.BACKOFF
    harness.after(1.0)
    assert kinds(harness.cycles()) == ["Nominate", "PreBindWrite"]


def test_half_written(harness: Harness) -> None:
    """What was written stays taken until the watch shows it; the rest is given back."""
    api = Api(harness, node("n"), WAIT, storage_class("makes", "csi.test"), volume("v"))
    api.put(claim("data"))
    api.put(claim("new", storage_class="makes"))
    api.put(asking("p", "data", "new"))
    prepare = only(harness.cycles(), PreBindWrite)
    written = api.write(
        PreBindWrite(prepare.pod, prepare.node, prepare.plugin, prepare.writes[:1], prepare.since)
    ).written
    harness.handle(PreBindWriteFailed("default/p", 403, "forbidden", written))
    storage = harness.engine.cluster.storage
    assert list(storage.volumes.assumed) == ["v"]
    assert not storage.claims.assumed
    api.show(DISK)
    assert not storage.volumes.assumed
    harness.after(1.0)
    again = only(harness.cycles(), PreBindWrite)
    assert [patch.key[2] for patch in again.writes] == ["new"], "the volume has its claimRef already"


def test_time_is_over(harness: Harness, static: Api) -> None:
    """After bindTimeoutSeconds the pod goes back to the queue, with upstream's words."""
    static.put(asking())
    harness.handle(static.write(only(harness.cycles(), PreBindWrite)))
    assert harness.engine.next_tick() == harness.now + 600
    static.show(DISK)
    assert harness.tick(599.0) == []
    said = harness.tick(1.0)
    assert kinds(said) == ["Failed", "PatchCondition", "RecordFailure"]
    text = 'running PreBind plugin "VolumeBinding": binding volumes: context deadline exceeded'
    assert only(said, RecordFailure).message == text
    assert harness.engine.cluster.assumed() == 0
    harness.after(1.0)
    assert kinds(harness.cycles()) == ["Nominate"], "the volume has its claimRef: nothing is written again"
    assert kinds(static.bind()) == ["Bind"]


@pytest.mark.parametrize(
    ("id", "change", "text"),
    [
        ("other annotations left", {"annotations": {SELECTED: None, "x": "y"}}, 'provisioning failed for PVC "data"'),
        ("none left", {"annotations": None}, 'selectedNode annotation reset for PVC "data"'),
        ("another node", {"annotations": {SELECTED: "m"}}, 'provisioning failed for PVC "data"'),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_provisioner_gives_up(harness: Harness, dynamic: Api, id: str, change: Object, text: str) -> None:
    """It takes the selected node away; the pod is decided anew after its backoff."""
    dynamic.put(asking())
    harness.handle(dynamic.write(only(harness.cycles(), PreBindWrite)))
    dynamic.show(DATA)
    said = dynamic.edit(DATA, metadata=change)
    assert only(said, Failed).message == f'running PreBind plugin "VolumeBinding": binding volumes: {text}'
    assert place_of(harness) is Place.BACKOFF


@pytest.mark.parametrize(
    ("id", "gone", "text"),
    [
        ("the claim", DATA, 'persistentvolumeclaims "default/data" not found'),
        ("the volume", DISK, 'persistentvolumes "v" not found'),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_something_goes_away(harness: Harness, static: Api, id: str, gone: ObjectKey, text: str) -> None:
    """Without it the pod can't be bound there: it is reverted at once."""
    static.put(asking())
    harness.handle(static.write(only(harness.cycles(), PreBindWrite)))
    static.show(DISK)
    said = harness.lose(*gone)
    problem = f"failed to check binding: {text}"
    assert only(said, Failed).message == f'running PreBind plugin "VolumeBinding": binding volumes: {problem}'
    assert harness.engine.cluster.assumed() == 0


def test_the_node_goes_away(harness: Harness, static: Api) -> None:
    """Its pods are looked at before plugins are asked about it: they are reverted at once, and nothing is written."""
    static.put(asking())
    harness.handle(static.write(only(harness.cycles(), PreBindWrite)))
    said = harness.lose("Node", "", "n")
    assert kinds(said) == ["Failed"]
    assert only(said, Failed).message == "node n is gone"
    assert harness.engine.cluster.assumed() == 0


def test_a_claimref_is_reset(harness: Harness, static: Api) -> None:
    """The PV controller refused the pair: the pod is reverted."""
    static.put(asking())
    harness.handle(static.write(only(harness.cycles(), PreBindWrite)))
    static.show(DISK)
    said = static.edit(DISK, spec={"claimRef": None})
    assert only(said, Failed).message.endswith('binding volumes: ClaimRef got reset for pv "v"')


def test_the_node_loses_the_label_that_the_volume_needs(harness: Harness, static: Api) -> None:
    """The volume is no longer reached from there: the pod is reverted."""
    static.put(asking())
    harness.handle(static.write(only(harness.cycles(), PreBindWrite)))
    static.show(DISK)
    said = static.put(node("n", labels={"kubernetes.io/hostname": "renamed"}))
    text = 'pv "v" node affinity doesn\'t match node "n": no matching NodeSelectorTerms'
    assert only(said, Failed).message.endswith(text)


def test_the_pod_is_deleted_meanwhile(harness: Harness, static: Api) -> None:
    """Its volume is free once it is known whether it was written for it, and a pod that waited for it gets it."""
    static.put(claim("more"))
    static.put(asking())
    static.put(asking("q", "more"))
    prepare = only(harness.cycles(), PreBindWrite)
    assert place_of(harness, "default/q") is Place.UNSCHEDULABLE
    harness.after(10.0)
    assert harness.lose("Pod", "default", "p", "default/p") == []
    assert harness.cycles() == [], "the write for it may still take place"
    assert harness.handle(PreBindWritten(prepare.pod.uid, {})) == []
    assert only(harness.cycles(), PreBindWrite).pod.name == "q"
    assert harness.handle(PreBindWritten(prepare.pod.uid, {})) == [], "an answer for a pod that is gone"


def test_a_pod_kept_by_finalizers_is_reverted(harness: Harness, static: Api) -> None:
    """A terminating pod is not bound any more."""
    static.put(asking())
    harness.handle(static.write(only(harness.cycles(), PreBindWrite)))
    leaving = asking()
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert static.put(leaving) == []
    assert harness.engine.cluster.assumed() == 0
    assert place_of(harness) is None


def test_somebody_else_binds_the_pod(harness: Harness, static: Api) -> None:
    """The promise ends once the write is answered; the pod is where the API says."""
    static.put(node("m"))
    static.put(asking())
    prepare = only(harness.cycles(), PreBindWrite)
    placed = asking()
    placed["spec"]["nodeName"] = "m"
    static.put(placed)
    assert harness.handle(static.write(prepare)) == []
    static.show(DISK)
    assert not harness.engine.cluster.storage.volumes.assumed
    assert harness.engine.in_flight == 0


def test_a_refused_binding(harness: Harness, static: Api) -> None:
    """The volumes are bound already; the next attempt goes to the same node without asking for anything."""
    static.put(asking())
    harness.handle(static.write(only(harness.cycles(), PreBindWrite)))
    static.show(DISK)
    static.bind()
    assert kinds(harness.bind_failed("default/p")) == ["Failed", "PatchCondition", "RecordFailure"]
    harness.after(1.0)
    assert harness.binds() == {"p": "n"}


def test_pods_that_wait_hold_nobody_up(harness: Harness, dynamic: Api) -> None:
    """However many wait for a provisioner, other pods are decided: only writes count as under way."""
    for i in range(5):
        dynamic.put(claim(f"c{i}"))
        dynamic.put(asking(f"p{i}", f"c{i}"))
    for prepare in [i for i in harness.cycles() if isinstance(i, PreBindWrite)]:
        harness.handle(dynamic.write(prepare))
    assert harness.engine.in_flight == 0
    dynamic.put(pod("plain"))
    assert harness.binds() == {"plain": "n"}


def test_the_expected_node_is_announced_once(harness: Harness, dynamic: Api) -> None:
    """status.nominatedNodeName says where the pod will be; a pod that has it already is not written to."""
    waiting = asking()
    waiting["status"]["nominatedNodeName"] = "n"
    dynamic.put(waiting)
    said = harness.cycles()
    assert kinds(said) == ["PreBindWrite"]
    dynamic.put(claim("more"))
    dynamic.put(asking("q", "more"))
    announce = only(harness.cycles(), Nominate)
    assert (announce.pod.name, announce.node) == ("q", "n")


def test_ephemeral_volumes_wake_their_own_pods(harness: Harness, dynamic: Api) -> None:
    """Pods of one template wait for claims of their own names, and are woken one by one."""
    for name in ("a", "b"):
        dynamic.put(using(pod(name), "+scratch"))
    said = harness.cycles()
    assert {i.message.split('"')[1] for i in said if isinstance(i, RecordFailure)} == {"a-scratch", "b-scratch"}
    harness.after(10.0)
    dynamic.put(claim("b-scratch", owner="default/b"))
    assert only(harness.cycles(), PreBindWrite).pod.name == "b"
    assert place_of(harness, "default/a") is Place.UNSCHEDULABLE


def test_a_restart_goes_on_where_it_was(harness: Harness, dynamic: Api) -> None:
    """A claim that has its node takes the pod there, and nothing is written again."""
    dynamic.put(node("m"))
    dynamic.put(claim("data", selected="m"))
    dynamic.put(asking())
    assert kinds(harness.cycles()) == ["Nominate"]
    dynamic.put(volume("v", claimed="data", uid="claim/default/data"))
    assert only(dynamic.bind(), Bind).node == "m"
