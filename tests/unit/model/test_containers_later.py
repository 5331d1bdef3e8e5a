"""Large waiting pods: containers and volumes are read by whoever schedules them, in parts, and come to the same."""

from typing import Any

import msgspec
import pytest

from scheduler.model import containers
from scheduler.model.containers import FIELDS
from scheduler.model.kinds import Decoder
from scheduler.model.pod import Pod
from scheduler.model.wire import encode
from tests.builders import pod
from tests.unit.work import lines

MANY = 2_000
PART = 700
"""Steps that no part goes beyond. What is done for all containers together is one part for each thing."""


def _container(i: int, **more: Any) -> dict[str, Any]:
    requests = {"cpu": f"{1 + i}m", "memory": "1Mi", f"example.com/r{i % 7}": "1"}
    return {"name": f"c{i}", "image": f"registry.example/image-{i}", "resources": {"requests": requests}, **more}


ASKS: dict[str, dict[str, Any]] = {
    "containers": {"containers": [_container(i) for i in range(MANY)]},
    "sidecars and ports": {
        "initContainers": [
            _container(i, restartPolicy="Always", ports=[{"hostPort": 1 + i, "containerPort": 1}]) for i in range(MANY)
        ],
        "overhead": {"cpu": "250m"},
        "resources": {"requests": {"cpu": "3"}},
    },
    "what nodes declare": {
        "containers": [
            _container(i, restartPolicyRules=[{"action": "RestartAllContainers"}] if i == 5 else [])
            for i in range(MANY)
        ],
        "hostNetwork": True,
        "hostUsers": False,
    },
    "volumes": {
        "volumes": [
            *({"name": f"v{i}", "csi": {"driver": f"d{i}.example"}} for i in range(MANY)),
            {"name": "claimed", "persistentVolumeClaim": {"claimName": "c"}},
            {"name": "image", "image": {"reference": "registry.example/data"}},
            {"name": "disk", "gcePersistentDisk": {"pdName": "d"}},
        ]
    },
    "what is no quantity": {
        "containers": [_container(0, resources={"requests": {"cpu": "much"}}), *map(_container, range(MANY))]
    },
    "what a kubelet reports": {
        "initContainers": [_container(i, restartPolicy="Always") for i in range(MANY, MANY + 9)],
        "containers": [_container(i) for i in range(MANY)],
    },
    "nothing": {"containers": [], "volumes": None, "nodeSelector": {f"k{i}": "v" for i in range(MANY)}},
}


def _report(i: int) -> dict[str, Any]:
    """Of one container more than it asks for, of another less, of a third one nothing."""
    given = {"cpu": f"{3 * i}m", "memory": f"{i % 5}Mi"}
    said: list[dict[str, Any]] = [{"resources": {"requests": given}}, {"allocatedResources": given}, {}]
    return {"name": f"c{i}", **said[i % 3]}


REPORTED: dict[str, dict[str, Any]] = {
    "what a kubelet reports": {
        "containerStatuses": [_report(i) for i in range(MANY)],
        "initContainerStatuses": [_report(i) for i in range(MANY, MANY + 9)],
        "conditions": [{"type": "Ready"}, {"type": "PodResizePending", "reason": "Infeasible"}],
    }
}
"""The status of a pod."""


def _decoded(name: str, **more: Any) -> Pod:
    made = pod("p", uid="p")
    made["spec"] |= ASKS[name] | more
    made["status"] = REPORTED.get(name, {})
    return Decoder().beside().pod(encode(made))


@pytest.mark.parametrize("name", ASKS)
def test_they_come_to_the_same_whenever_they_are_read(name: str) -> None:
    """In parts, none of which is long; because somebody asks for one field; again; and at once, for a pod on a node."""
    later, asked, placed = _decoded(name), _decoded(name), _decoded(name, nodeName="n1")
    assert placed.shape.complete
    assert not later.shape.complete
    parts: list[int] = []
    later.shape.read(parts.append)
    assert max(parts) <= max(PART, 2 * MANY)
    assert asked.shape.requests == placed.shape.requests
    assert asked.shape.complete
    for again in range(2):
        for field in (*FIELDS, "problem", "claims", "node_selector"):
            assert getattr(later.shape, field) == getattr(placed.shape, field), (again, field)
        later.shape.forget()
        assert not later.shape.complete
    assert (later.shape.problem is not None) == (name == "what is no quantity")


def test_decoding_does_nothing_for_each_container() -> None:
    """Others' pods wait behind it on the watch meanwhile. Whoever schedules it pays for each."""
    few, _ = lines(lambda: _decoded("nothing"))
    for name in ("containers", "sidecars and ports", "volumes"):
        made = pod("p", uid="p")
        made["spec"] |= ASKS[name]
        raw, decoder = encode(made), Decoder().beside()
        taken, found = lines(lambda raw=raw, decoder=decoder: decoder.pod(raw))  # type: ignore[misc]
        assert taken < few + MANY // 2
        parts: list[int] = []
        found.shape.read(parts.append)
        assert sum(parts) > 4 * MANY
        assert len(parts) > MANY // 100


def test_one_long_container_is_read_at_once() -> None:
    """It can't be read in parts: that is done where large objects are decoded, beside the loop."""
    requests = {f"example.com/resource-{i}": "1" for i in range(MANY)}
    long = _decoded("nothing", containers=[_container(0, resources={"requests": requests})])
    assert len(encode(requests)) < containers.LARGE
    assert not long.shape.complete
    requests |= {f"example.com/another-resource-{i}": "1" for i in range(MANY)}
    assert _decoded("nothing", containers=[_container(0, resources={"requests": requests})]).shape.complete


def test_what_counts_at_once_is_read_at_once() -> None:
    """A pod on a node, and one that a node is kept for."""
    made = pod("p", uid="p")
    made["spec"] |= ASKS["containers"]
    decoder = Decoder().beside()
    assert decoder.pod(encode(made | {"status": {"nominatedNodeName": "n1"}})).shape.complete
    one, other = (decoder.pod(encode(made)) for _ in range(2))
    assert not one.shape.complete
    assert one.shape is other.shape
    assert one.shape.digest


def test_what_a_kubelet_reports_is_read_with_the_containers() -> None:
    """By whoever reads these, and the next report is read anew."""
    made = pod("p", uid="p")
    made["spec"] |= ASKS["containers"] | {"nodeName": "n1"}
    decoder = Decoder(placed_too=True).beside(placed_too=True)
    requests = []
    for cpu in ("7", "8"):
        reported = [{"name": "c0", "allocatedResources": {"cpu": cpu}, "resources": {"requests": {"cpu": cpu}}}]
        found = decoder.pod(encode(made | {"status": {"containerStatuses": reported}}))
        assert not found.shape.complete
        found.shape.read(lambda _: None)
        requests.append(found.shape.requests["cpu"])
    assert requests[1] - requests[0] == 1_000


def test_what_a_pod_asks_for_is_not_read_again_when_it_is_bound() -> None:
    """Its attempt has read it: the echo of its Binding finds that, and it stays."""
    made = pod("p", uid="p")
    made["spec"] |= ASKS["containers"]
    decoder = Decoder().beside()
    waiting = decoder.pod(encode(made))
    waiting.shape.read(lambda _: None)
    raw = encode(made | {"spec": made["spec"] | {"nodeName": "n1"}})
    taken, bound = lines(lambda: decoder.pod(raw))
    assert taken < 2 * MANY
    assert bound.shape is waiting.shape
    bound.shape.forget()
    assert bound.shape.complete


def test_what_can_not_be_read_refuses_the_pod() -> None:
    """The API server takes no such thing; where something else did, the pod's own attempt says what is wrong."""
    found = _decoded("nothing", containers=[{"name": 7}])
    assert "containers and volumes can't be read: name: expected text" in (found.shape.problem or "")
    assert (found.shape.requests, found.shape.images) == ({}, ())
    with pytest.raises(msgspec.ValidationError):
        _decoded("nothing", containers=[{"name": 7}], nodeName="n1")


SMALLER: dict[str, tuple[bool, dict[str, Any]]] = {
    "many containers": (True, {"containers": [{"name": f"c{i}", "image": f"{i}"} for i in range(1_000)]}),
    "many init containers": (True, {"initContainers": [{"name": f"c{i}", "image": f"{i}"} for i in range(1_000)]}),
    "many volumes": (True, {"volumes": [{"name": f"v{i}", "emptyDir": {}} for i in range(1_000)]}),
    "many resources": (
        True,
        {"containers": [_container(0, resources={"requests": {f"example.com/{i}": "1" for i in range(1_000)}})]},
    ),
    "long environments": (False, {"containers": [_container(0, env=[{"name": "A", "value": "v" * 40_000}])]}),
    "few containers": (False, {"containers": [{"name": f"c{i}", "image": f"{i}"} for i in range(100)]}),
}


@pytest.mark.parametrize("name", SMALLER)
def test_a_smaller_pod_with_much_to_read_is_read_by_its_own_attempt(name: str) -> None:
    """One that is decoded on the loop: where that would take longer than for others, its namespace pays for it."""
    later, more = SMALLER[name]
    made = pod("p", uid="p")
    made["spec"] |= more
    raw, loops = encode(made), Decoder(placed_too=True)
    assert len(raw) < containers.LARGE
    taken, found = lines(lambda: loops.pod(raw))
    at_once, expected = lines(lambda: Decoder().pod(raw))
    assert found.shape.complete != later
    if later:
        assert taken * 10 < at_once
    parts: list[int] = []
    found.shape.read(parts.append)
    assert (sum(parts) > 500) == later
    for field in (*FIELDS, "problem"):
        assert getattr(found.shape, field) == getattr(expected.shape, field), field


def test_pods_with_other_environments_share_a_shape() -> None:
    """However long these are: they decide nothing."""
    loops, found = Decoder(placed_too=True), set()
    for i in range(2):
        made = pod("p", uid="p")
        made["spec"]["containers"] = [_container(0, env=[{"name": "A", "value": f"{i}" * 20_000}])]
        found.add(loops.pod(encode(made)).shape)
    assert len(found) == 1
