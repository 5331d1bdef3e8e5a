"""As many more gangs fit as are placed one after the other."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from podberth.explain.gangs.capacity import GangCapacity, gang_capacity
from podberth.explain.objects import manifest
from podberth.explain.objects.documents import read
from podberth.explain.simulate.arrivals import Batch
from podberth.framework.runtime import Framework
from podberth.model.pod_group import PodGroup
from tests.builders import Object, node, pod
from tests.devices import claim_template, device, device_class, request, resource_slice, templated
from tests.storage import storage_class
from tests.unit.cli.conftest import Berth
from tests.unit.cli.test_simulate_groups import job
from tests.unit.explain.gangs.dumps import by_topology, group, labelled_group, member, members
from tests.unit.explain.story import framework, world

RACK: dict[str, Any] = {"schedulingConstraints": {"topology": [{"key": "rack"}]}}
SIX = [node(f"n{i}", "8", labels={"rack": "ab"[i % 2]}) for i in range(6)]


def write(name: str, *objects: Object) -> None:
    Path(name).write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}), encoding="utf-8")


def asked(berth: Berth, *objects: Object, cluster: list[Object], code: int = 0) -> dict[str, Any]:
    write("cluster.json", *cluster)
    write("file.json", *objects)
    found = berth("capacity", "-f", "file.json", "--cluster", "cluster.json", "-o", "json")
    assert (found.code, found.err) == (code, "")
    answer: dict[str, Any] = json.loads(found.out)
    return answer


def test_gangs_of_four(berth: Berth) -> None:
    """Twelve pods fit on six nodes: three gangs."""
    answer = asked(berth, group(4), *members(4), cluster=SIX)
    assert (answer["kind"], answer["gangs"], answer["pods"], answer["needed"]) == ("GangCapacity", 3, 4, 4)
    assert answer["requests"] == {"cpu": "4"}
    assert {more["adds"] for more in answer["oneMore"]} == {0}
    assert asked(berth, group(7), *members(7), cluster=SIX)["oneMore"][0]["adds"] == 1


def test_a_gang_that_may_start_without_all() -> None:
    """The last one starts with those that are needed."""
    assert _gangs(SIX, group(4), 5) == 2
    assert _gangs(SIX, group(3), 5) == 2
    assert _gangs(SIX, group(2), 5) == 3


@pytest.mark.parametrize("needed", [0, -1])
def test_a_gang_that_starts_with_no_pod_is_counted_while_some_find_a_node(berth: Berth, needed: int) -> None:
    """As a dump, and --no-validate, may have it."""
    write("cluster.json", *SIX)
    write("file.json", group(needed), *members(4))
    found = berth("capacity", "-f", "file.json", "--cluster", "cluster.json", "--no-validate", "-o", "json")
    assert (found.code, found.err, json.loads(found.out)["gangs"]) == (0, "", 3)


def test_a_topology_that_is_not_heeded_is_told(berth: Berth) -> None:
    answer = asked(berth, group(4, **RACK), *members(4), cluster=SIX)
    assert [note for note in answer["notes"] if "nodes with one value of rack" in note and "does not heed" in note]


def test_pods_that_differ(berth: Berth) -> None:
    answer = asked(berth, group(3), *members(2), member("launcher", "2"), cluster=SIX)
    assert (answer["gangs"], answer["equal"], answer["requests"]) == (4, False, {"cpu": "10"})


def test_groups_of_scheduler_plugins_and_jobs(berth: Berth) -> None:
    labels = {"scheduling.x-k8s.io/pod-group": "train"}
    several = [pod(f"train-{i}", "4", labels=labels) for i in range(4)]
    assert asked(berth, labelled_group(4), *several, cluster=SIX)["gangs"] == 3
    assert asked(berth, group(4), job(4), cluster=SIX)["gangs"] == 3


def test_groups_of_one_name_are_told_apart_by_their_api(berth: Berth) -> None:
    """As berth explain does."""
    write("cluster.json", *SIX)
    write("file.json", labelled_group(4), group(4), *members(4))
    words = ("capacity", "-f", "file.json", "--cluster", "cluster.json")
    assert "berth: file.json: holds default/train (scheduling.k8s.io), " in berth(*words).err
    found = berth(*words, "podgroup.scheduling.k8s.io/train", "-o", "json")
    assert json.loads(found.out)["gangs"] == 3


def test_what_keeps_the_next_pod_out_is_said_of_the_next(berth: Berth) -> None:
    """Not of one that was placed, whose claim has its device on one node."""
    there = [device_class(), claim_template()]
    for name in "ab":
        there += [node(name, "8"), resource_slice(name, *(device(f"d{i}") for i in range(2)), node=name)]
    answer = asked(berth, group(2), *(templated(each, "t") for each in members(2, "1")), cluster=there)
    assert answer["gangs"] == 2
    assert answer["limits"] == [{"reason": "cannot allocate all claims", "nodes": 2}]


def test_text_and_page(berth: Berth) -> None:
    write("cluster.json", *SIX)
    write("file.json", group(4), *members(4))
    found = berth("capacity", "-f", "file.json", "--cluster", "cluster.json")
    assert "3 more gangs like default/train fit, of 4 pods each" in found.out
    assert "each pod asks for 4 cpu; 4 start together (profile berth)" in found.out
    assert berth("capacity", "-f", "file.json", "--cluster", "cluster.json", "--at-least", "4").code == 1
    page = berth("capacity", "-f", "file.json", "--cluster", "cluster.json", "-o", "html").out
    assert "<h1>3 more gangs like default/train fit, of 4 pods each</h1>" in page


def test_wrong_files(berth: Berth) -> None:
    write("cluster.json", *SIX)
    for said, objects in {
        "holds no pod of the pod group default/train": [group(4), pod("alone")],
        "holds default/other (scheduling.k8s.io), default/train (scheduling.k8s.io): name one": [
            group(4),
            group(4, "other"),
            *members(4),
        ],
    }.items():
        write("file.json", *objects)
        found = berth("capacity", "-f", "file.json", "--cluster", "cluster.json")
        assert (found.code, f"file.json: {said}" in found.err) == (2, True), found.err


def test_gangs_with_devices(berth: Berth) -> None:
    """Nodes with eight devices each, and gangs of two pods with eight: one gang for two nodes."""
    cluster = [*SIX, device_class("gpu")]
    cluster += [resource_slice(f"n{i}", *(device(f"gpu-{d}") for d in range(8)), node=f"n{i}") for i in range(5)]
    template = {"apiVersion": "resource.k8s.io/v1", **claim_template("eight", request(count=8))}
    several = [templated(each, "eight") for each in members(2, "1")]
    answer = asked(berth, template, group(2), *several, cluster=cluster)
    assert (answer["gangs"], answer["claims"]) == (2, {"eight": "8 of class gpu"})


def test_gangs_whose_volumes_are_to_be_made() -> None:
    """Their pods have their nodes, and wait for the volumes there."""
    volume: Object = {"storageClassName": "fast", "accessModes": ["ReadWriteOnce"]}
    volume["resources"] = {"requests": {"storage": "1Gi"}}
    for count, gangs, more in ((4, 3, 0), (7, 1, 1)):
        coming = job(count, cpu="4")
        data = {"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": volume}}}
        coming["spec"]["template"]["spec"]["volumes"] = [data]
        answer = _capacity([*SIX, storage_class("fast", "csi.test"), group(count)], coming)
        assert (answer.gangs, {each.adds for each in answer.one_more}) == (gangs, {more})


def _gangs(cluster: list[Object], of: Object, count: int, cpu: str = "4", *, topology: bool = False) -> int:
    return _capacity([*cluster, of], job(count, cpu=cpu), by_topology() if topology else framework()).gangs


def _capacity(cluster: list[Object], coming: Object, made: Framework | None = None) -> GangCapacity:
    there, made = world(cluster), made or framework()
    [workload] = manifest.workloads(read(json.dumps(coming).encode()))
    batch = Batch(workload, there, None, "default", "berth")
    key = batch.pod(0).scheduling_group
    assert key is not None
    found = there.cluster.pod_groups.get(key)
    assert isinstance(found, PodGroup)
    return gang_capacity(there.cluster, made, found, [batch])


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    sizes=st.lists(st.sampled_from(["2", "4", "7", "12"]), min_size=1, max_size=6),
    racks=st.integers(1, 3),
    cordoned=st.sets(st.integers(0, 5), max_size=2),
    placed=st.lists(st.integers(0, 5), max_size=4),
    count=st.integers(1, 6),
    short=st.integers(0, 4),
    cpu=st.sampled_from(["1", "2", "3"]),
    topology=st.booleans(),
)
def test_it_is_the_sum_over_domains(
    sizes: list[str],
    racks: int,
    cordoned: set[int],
    placed: list[int],
    count: int,
    short: int,
    cpu: str,
    topology: bool,
) -> None:
    cluster: list[Object] = [
        node(f"n{i}", size, labels={"rack": f"r{i % racks}"}, cordoned=i in cordoned) for i, size in enumerate(sizes)
    ]
    cluster += [pod(f"x{i}", "1", on=f"n{where % len(sizes)}") for i, where in enumerate(placed)]
    of = group(max(count - short, 1), **RACK if topology else {})
    rooms: dict[str, int] = {}
    for i, size in enumerate(sizes):
        free = 0 if i in cordoned else int(size) - sum(where % len(sizes) == i for where in placed)
        domain = f"r{i % racks}" if topology else ""
        rooms[domain] = rooms.get(domain, 0) + max(free, 0) // int(cpu)
    needed = of["spec"]["schedulingPolicy"]["gang"]["minCount"]
    assert _gangs(cluster, of, count, cpu, topology=topology) == sum(
        room // count + (room % count >= needed) for room in rooms.values()
    )
