"""Pods with volumes on a real API server, where `volumes.Disks` plays the PV controller and the provisioner."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.controlplane.api import Object
from tests.controlplane.cluster import Cluster
from tests.controlplane.wait import wait_for
from tests.integration import checks
from tests.integration.berth import Berth, Harbour
from tests.integration.objects import ZONE, node, pod, pods_path
from tests.integration.volumes import SELECTED, VOLUMES, Disks

AddNodes = Callable[..., None]


@pytest.fixture
def disks(control_plane: Cluster, real_namespace: str) -> Iterator[Disks]:
    """The storage of this test."""
    made = Disks(control_plane, real_namespace)
    yield made
    made.close()


@pytest.fixture
def two(disks: Disks, add_nodes: AddNodes) -> tuple[str, str]:
    """Two nodes in two zones."""
    names = f"{disks.name}-a", f"{disks.name}-b"
    add_nodes(disks.cluster, [node(names[0], "zone-0"), node(names[1], "zone-1")])
    return names


def hasty(harbour: Harbour, disks: Disks) -> Berth:
    """A scheduler that gives volumes a second to be bound."""
    name = f"berth-{secrets.token_hex(4)}"
    args = [{"name": "VolumeBinding", "args": {"bindTimeoutSeconds": 1}}]
    return harbour.berth(disks.cluster, name, profiles=[{"schedulerName": name, "pluginConfig": args}])


def create(disks: Disks, name: str, scheduler: str, *claims: str, **how: Any) -> None:
    """Create a pod with these claims."""
    volumes = [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]
    disks.api.create(pods_path(disks.namespace), pod(name, scheduler, volumes=volumes, **how))


def get(disks: Disks, name: str) -> Object:
    """A pod as it is now."""
    return disks.api.get(f"{pods_path(disks.namespace)}/{name}")


def until_bound(disks: Disks, name: str) -> Object:
    """Let the controllers work until a pod is bound; the pod."""
    return disks.until(f"{name} to be bound", lambda: found if checks.node_of(found := get(disks, name)) else None)


def until_said(disks: Disks, text: str) -> list[str]:
    """Let the controllers work until a FailedScheduling event says so; the notes of all."""

    def said() -> list[str] | None:
        notes = [event["note"] for event in checks.events(disks.api, disks.namespace, "FailedScheduling")]
        return notes if any(text in note for note in notes) else None

    return disks.until(f"an event that says {text!r}", said)


def test_a_bound_volume(disks: Disks, two: tuple[str, str], harbour: Harbour) -> None:
    """The pod goes where its volume is, and its Binding waits for nothing."""
    disks.make_class(volumeBindingMode="Immediate")
    claim = disks.make_claim("data")
    ref = {"kind": "PersistentVolumeClaim", "namespace": disks.namespace, "name": "data"}
    disks.make_volume("v", two[1], claimRef=ref | {"uid": claim["metadata"]["uid"]})
    disks.until("the claim to be bound", lambda: disks.claim("data")["status"].get("phase") == "Bound")
    berth = harbour.berth(disks.cluster)
    create(disks, "web", berth.scheduler_name, "data")
    (found,) = checks.wait_bound(disks.api, disks.namespace, 1)
    assert checks.node_of(found) == two[1]
    assert "nominatedNodeName" not in found["status"]
    berth.end()


def test_a_static_volume(disks: Disks, two: tuple[str, str], harbour: Harbour) -> None:
    """The scheduler reserves the volume for the claim; the pod is bound once the claim is."""
    disks.make_class()
    disks.make_claim("data")
    disks.make_volume("large", two[0], "9Gi")
    small = disks.make_volume("small", two[1])
    berth = harbour.berth(disks.cluster)
    disks.step()
    # The emptier a volume is left, the better; but there is room on one node only.
    create(disks, "web", berth.scheduler_name, "data", nodeSelector={ZONE: "zone-1"})
    found = until_bound(disks, "web")
    assert checks.node_of(found) == two[1]
    volume = disks.api.get(f"{VOLUMES}/{small}")
    assert volume["spec"]["claimRef"]["uid"] == disks.claim("data")["metadata"]["uid"]
    assert volume["metadata"]["annotations"]["pv.kubernetes.io/bound-by-controller"] == "yes"
    checks.scheduled_once_each(disks.api, disks.namespace, [found], berth.scheduler_name)
    # Volumes and pods come by two watches, in no promised order: the pod may have been looked at before its volume was.
    early = [event["note"] for event in checks.events(disks.api, disks.namespace, "FailedScheduling")]
    assert all("didn't find available persistent volumes to bind" in note for note in early), early
    berth.end()


def test_a_volume_that_is_made(disks: Disks, two: tuple[str, str], harbour: Harbour) -> None:
    """The scheduler selects a node in a zone that the class allows; the provisioner makes the volume there."""
    allowed = [{"matchLabelExpressions": [{"key": ZONE, "values": ["zone-1"]}]}]
    disks.make_class("example.com/disks", allowedTopologies=allowed)
    disks.make_claim("data")
    berth = harbour.berth(disks.cluster)
    create(disks, "web", berth.scheduler_name, "data")
    found = until_bound(disks, "web")
    assert checks.node_of(found) == two[1]
    assert disks.claim("data")["metadata"]["annotations"][SELECTED] == two[1]
    checks.scheduled_once_each(disks.api, disks.namespace, [found], berth.scheduler_name)
    berth.end()


def test_an_ephemeral_volume(disks: Disks, two: tuple[str, str], harbour: Harbour) -> None:
    """The pod waits for the claim that is made for it, and only for its own."""
    disks.make_class("example.com/disks")
    berth = harbour.berth(disks.cluster)
    template: Object = {"spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": disks.name}}
    template["spec"]["resources"] = {"requests": {"storage": "1Gi"}}
    volumes = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}]
    made = disks.api.create(pods_path(disks.namespace), pod("web", berth.scheduler_name, volumes=volumes))
    waiting = 'waiting for ephemeral volume controller to create the persistentvolumeclaim "web-scratch"'
    checks.wait_condition(disks.api, disks.namespace, "web", waiting)
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": made["metadata"]["uid"], "controller": True}
    disks.make_claim("web-scratch", owner=owner)
    assert checks.node_of(until_bound(disks, "web")) in two
    berth.end()


def test_nobody_binds(disks: Disks, two: tuple[str, str], harbour: Harbour) -> None:
    """After bindTimeoutSeconds the pod is reverted and says so; when the controller is there, it gets its volume."""
    disks.make_class()
    disks.make_claim("data")
    disks.make_volume("v", two[0])
    disks.step()
    disks.binds = False
    berth = hasty(harbour, disks)
    create(disks, "web", berth.scheduler_name, "data")
    text = 'running PreBind plugin "VolumeBinding": binding volumes: context deadline exceeded'
    assert until_said(disks, text)[0] == text
    assert checks.wait_condition(disks.api, disks.namespace, "web", text)
    disks.binds = True
    assert checks.node_of(until_bound(disks, "web")) == two[0]
    berth.end()


def test_the_provisioner_gives_up_once(disks: Disks, two: tuple[str, str], harbour: Harbour) -> None:
    """It takes the selected node away; the pod is decided anew and its volume made after all."""
    disks.make_class("example.com/disks")
    disks.make_claim("data")
    disks.refuses = 1
    berth = harbour.berth(disks.cluster)
    create(disks, "web", berth.scheduler_name, "data")
    said = until_said(disks, "binding volumes")[0]
    assert said.startswith('running PreBind plugin "VolumeBinding": binding volumes: ')
    assert said.endswith(('selectedNode annotation reset for PVC "data"', 'provisioning failed for PVC "data"'))
    assert checks.node_of(until_bound(disks, "web")) in two
    berth.end()


def test_two_pods_and_one_volume(disks: Disks, two: tuple[str, str], harbour: Harbour) -> None:
    """Decided one after the other, they are not promised the same; the second gets the next volume that comes."""
    disks.make_class()
    for name in ("a", "b"):
        disks.make_claim(name)
    disks.make_volume("one", two[0])
    disks.step()
    berth = harbour.berth(disks.cluster)
    for name in ("a", "b"):
        create(disks, f"web-{name}", berth.scheduler_name, name)
    disks.until("one pod to be bound", lambda: len(_bound(disks)) == 1)
    (left,) = {"web-a", "web-b"} - _bound(disks)
    text = "node(s) didn't find available persistent volumes to bind"
    checks.wait_condition(disks.api, disks.namespace, left, text)
    disks.make_volume("two", two[1])
    assert checks.node_of(until_bound(disks, left)) == two[1]
    berth.end()


def _bound(disks: Disks) -> set[str]:
    pods = disks.api.list(pods_path(disks.namespace), fieldSelector="spec.nodeName!=")
    return {found["metadata"]["name"] for found in pods}


def test_a_restart_while_a_volume_is_made(disks: Disks, two: tuple[str, str], harbour: Harbour) -> None:
    """The next scheduler goes on with the node that was selected."""
    disks.make_class("example.com/disks")
    disks.make_claim("data")
    disks.binds = False
    berth = harbour.berth(disks.cluster)
    create(disks, "web", berth.scheduler_name, "data")

    def node_of_claim() -> str:
        name: str = disks.claim("data")["metadata"].get("annotations", {}).get(SELECTED, "")
        return name

    selected = wait_for("a selected node", node_of_claim, checks.BOUND)
    expected = wait_for("the node to be announced", lambda: get(disks, "web")["status"].get("nominatedNodeName"))
    assert expected == selected
    berth.end()
    disks.binds = True
    disks.until("the claim to be bound", lambda: disks.claim("data")["status"].get("phase") == "Bound")
    again = harbour.berth(disks.cluster, berth.scheduler_name)
    (found,) = checks.wait_bound(disks.api, disks.namespace, 1)
    assert checks.node_of(found) == selected
    again.end()


PENDING: dict[str, dict[str, Any]] = {
    "claim-missing": {"claims": ["nothing"]},
    "immediate": {"claims": ["immediate"]},
    "no-volume": {"claims": ["unserved"]},
    "too-large": {"claims": ["large"]},
    "elsewhere": {"claims": ["bound"], "nodeSelector": {ZONE: "zone-0"}},
}


@pytest.mark.newest
def test_what_is_said_of_pods_that_wait(disks: Disks, two: tuple[str, str], harbour: Harbour) -> None:
    """Condition and event of Berth and kube-scheduler are the same for each kind of missing volume."""
    disks.make_class()
    bound = disks.make_claim("bound", "2Gi")
    ref = {"kind": "PersistentVolumeClaim", "namespace": disks.namespace, "name": "bound"}
    disks.make_volume("v", two[1], "2Gi", claimRef=ref | {"uid": bound["metadata"]["uid"]})
    disks.make_volume("small", two[0])
    disks.make_claim("large", "5Gi")
    disks.make_claim("unserved", selector={"matchLabels": {"no": "such"}})
    disks.make_claim("immediate", storageClassName="no-such-class")
    disks.until("the claim to be bound", lambda: disks.claim("bound")["status"].get("phase") == "Bound")
    berth = harbour.berth(disks.cluster)
    _, kube = harbour.kube_scheduler(disks.cluster)
    said: dict[str, dict[str, str]] = {}
    for scheduler in (berth.scheduler_name, kube):
        for name, how in PENDING.items():
            more = {key: value for key, value in how.items() if key != "claims"}
            create(disks, f"{name}-{scheduler}", scheduler, *how["claims"], **more)
        for name in PENDING:
            found = checks.wait_condition(disks.api, disks.namespace, f"{name}-{scheduler}")
            said.setdefault(name, {})[scheduler] = checks.condition(found)["message"]
    for name, messages in said.items():
        ours, theirs = messages[berth.scheduler_name], messages[kube]
        if theirs.endswith(". not found"):
            # PostFilter itself fails there when PreFilter rejected the pod as a whole; ours says what preemption found.
            ours, theirs = ours.split(" preemption:")[0], theirs.removesuffix(" not found")
        assert ours == theirs, name
    berth.end()
