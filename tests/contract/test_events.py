"""Events: one storage, two groups, with their own fields and rules."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.client import Api, names

NOW = "2026-01-02T03:04:05.000000Z"


@pytest.fixture
def core(namespace: str) -> str:
    """The path of core events."""
    return f"/api/v1/namespaces/{namespace}/events"


@pytest.fixture
def events(namespace: str) -> str:
    """The path of events.k8s.io events."""
    return f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"


def scheduled(name: str, namespace: str, **more: Any) -> dict[str, Any]:
    """An event as kube-scheduler writes it."""
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name},
        "eventTime": NOW,
        "reportingController": "berth",
        "reportingInstance": "berth-0",
        "action": "Binding",
        "reason": "Scheduled",
        "type": "Normal",
        "note": f"Successfully assigned {namespace}/a to n1",
        "regarding": {"kind": "Pod", "namespace": namespace, "name": "a", "uid": "u1"},
        **more,
    }


async def test_written_new_read_old(api: Api, namespace: str, core: str, events: str) -> None:
    """An events.k8s.io event is seen by kubectl describe in the core form."""
    created = (await api.post(events, scheduled("e", namespace))).ok()
    assert created["note"] == f"Successfully assigned {namespace}/a to n1"
    old = (await api.get(f"{core}/e")).ok()
    assert (old["kind"], old["apiVersion"]) == ("Event", "v1")
    assert old["message"] == created["note"]
    assert old["involvedObject"] == created["regarding"]
    assert (old["reportingComponent"], old["source"], old["firstTimestamp"]) == ("berth", {}, None)
    assert old["metadata"]["uid"] == created["metadata"]["uid"]
    query = {"fieldSelector": "involvedObject.uid=u1,involvedObject.kind=Pod,reason=Scheduled,type=Normal"}
    assert names((await api.get(core, **query)).ok()) == ["e"]
    assert names((await api.get(events, fieldSelector="regarding.name=a,reportingController=berth")).ok()) == ["e"]
    assert names((await api.get(events, fieldSelector="regarding.name=b")).ok()) == []


async def test_written_old_read_new(api: Api, namespace: str, core: str, events: str) -> None:
    """A core event is seen through events.k8s.io with its old fields as deprecated ones."""
    body = {
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "namespace": namespace, "name": "a"},
        "reason": "Pulled",
        "message": "m",
        "type": "Normal",
        "source": {"component": "kubelet", "host": "n1"},
        "firstTimestamp": "2026-01-02T03:04:05Z",
        "lastTimestamp": "2026-01-02T03:04:05Z",
        "count": 3,
    }
    (await api.post(core, body)).ok()
    new = (await api.get(f"{events}/e")).ok()
    assert (new["kind"], new["apiVersion"]) == ("Event", "events.k8s.io/v1")
    assert new["regarding"]["name"] == "a"
    assert new["note"] == "m"
    assert new["deprecatedSource"] == {"component": "kubelet", "host": "n1"}
    assert new["deprecatedCount"] == 3
    assert new["eventTime"] is None
    assert names((await api.get(core, fieldSelector="source=kubelet")).ok()) == ["e"]


async def test_a_watch_in_each_group(api: Api, namespace: str, core: str, events: str) -> None:
    """Both groups watch the same events, each in its form."""
    since = (await api.get(core)).ok()["metadata"]["resourceVersion"]
    query = {"resourceVersion": since, "timeoutSeconds": 30}
    async with api.watch(core, **query) as old, api.watch(events, **query) as new:
        (await api.post(events, scheduled("e", namespace))).ok()
        assert (await old.next())[1]["message"] == (await new.next())[1]["note"]


async def test_a_series(api: Api, namespace: str, core: str, events: str) -> None:
    """Repetitions are counted by patching the series."""
    (await api.post(events, scheduled("e", namespace))).ok()
    patch = {"series": {"count": 2, "lastObservedTime": NOW}}
    patched = (await api.patch(f"{events}/e", patch)).ok()
    assert patched["series"] == {"count": 2, "lastObservedTime": NOW}
    assert (await api.get(f"{core}/e")).ok()["series"]["count"] == 2


@pytest.mark.parametrize(
    ("change", "want"),
    [
        ({"eventTime": None}, "eventTime: Required value"),
        ({"type": "Odd"}, 'type: Invalid value: "": has invalid value: Odd'),
        ({"action": ""}, "action: Required value"),
        ({"reportingController": ""}, "reportingController: Required value"),
        ({"reportingInstance": ""}, "reportingInstance: Required value"),
        ({"note": "x" * 1025}, 'message: Invalid value: "": can have at most 1024 characters'),
        ({"reason": "x" * 129}, 'reason: Invalid value: "": can have at most 128 characters'),
        ({"series": {"count": 1, "lastObservedTime": NOW}}, 'series.count: Invalid value: "": should be at least 2'),
        ({"deprecatedCount": 1}, 'count: Invalid value: "": needs to be unset'),
    ],
)
async def test_strict_rules(api: Api, namespace: str, events: str, change: dict[str, Any], want: str) -> None:
    """events.k8s.io refuses what the core group would let pass."""
    message = (await api.post(events, scheduled("e", namespace, **change))).refused(422, "Invalid")
    assert message.startswith('Event "e" is invalid: ')
    assert want in message


async def test_an_event_belongs_to_its_objects_namespace(api: Api, core: str) -> None:
    """A core event about an object elsewhere is refused."""
    body = {"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "namespace": "elsewhere", "name": "a"}}
    message = (await api.post(core, body)).refused(422, "Invalid")
    assert 'involvedObject.namespace: Invalid value: "elsewhere": does not match event.namespace' in message


async def test_each_group_has_its_labels(api: Api, core: str, events: str) -> None:
    """The field labels of one group are unknown to the other."""
    message = (await api.get(events, fieldSelector="involvedObject.name=a")).refused(400, "BadRequest")
    assert message == "field label not supported: involvedObject.name"
    (await api.get(core, fieldSelector="regarding.name=a")).refused(400, "BadRequest")
    assert (await api.get(f"{events}/none")).refused(404, "NotFound") == 'events.events.k8s.io "none" not found'
