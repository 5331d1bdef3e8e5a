"""Decisions that are taken again on a cluster made anew: what differs is found, told, and made good."""

from typing import Any

import msgspec
import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from podberth.cache.validate import validate
from podberth.engine.instructions import Bind, Failed, Instruction, Misbehaved, PreBindWrite, Preempt, Verified
from podberth.engine.stimuli import Bound
from podberth.framework.interface import NODE, OWN_STATE, PODS_HERE, Plugin
from podberth.framework.status import Unschedulable
from podberth.framework.verify import COLUMNS, Difference
from tests.builders import configuration, label, namespace, node, pod, profile
from tests.devices import device, device_class, resource_slice
from tests.storage import claim, storage_class, using, volume

from .conftest import Harness

Object = dict[str, Any]
UNSCORED: Object = {"score": {"disabled": [{"name": "*"}]}}


class Single(Plugin):
    """One pod a node; asked for one row, it lies."""

    name = "Single"
    depends_on = PODS_HERE
    crowded = Unschedulable("node(s) had a pod")

    def filter(self, pod: Any, cluster: Any) -> Any:
        return [(self.crowded, cluster.nodes.pods[: cluster.nodes.rows] > 0)]

    def filter_one(self, pod: Any, nodes: Any, row: int) -> bool:
        return True


class Forgetful(Plugin):
    """Keeps all pods but the first three off a node, and says that it goes by the node alone."""

    name = "Forgetful"
    depends_on = NODE
    late = Unschedulable("too late")

    def filter(self, pod: Any, cluster: Any) -> Any:
        rows = cluster.nodes.rows
        return [(self.late, np.full(rows, sum(1 for _ in cluster.placements()) >= 3))]


class Whimsical(Plugin):
    """Fails each second time that it is asked."""

    name = "Whimsical"
    depends_on = OWN_STATE

    def __init__(self, args: Any) -> None:
        self.asked = 0

    def filter(self, pod: Any, cluster: Any) -> Any:
        self.asked += 1
        if self.asked % 2 == 0:
            raise RuntimeError("not again")
        return ()


def with_plugin(name: str) -> Object:
    return configuration(profile(plugins={**UNSCORED, "multiPoint": {"enabled": [{"name": name}]}}))


def a_pod(name: str, **more: Any) -> Object:
    made = pod(name, "100m", uid=name, **more)
    made["spec"]["schedulerName"] = "berth"
    return made


def found(done: list[Instruction]) -> list[Difference]:
    return [i.difference for i in done if isinstance(i, Verified) and i.difference is not None]


def test_a_plugin_that_lies_about_single_rows_is_found_out() -> None:
    """Its full nodes come up again; the pod goes by the plain answer, so that each node gets one pod."""
    harness = Harness(with_plugin("Single"), Single, verify=1)
    harness.put(*(node(f"n{i}") for i in range(9)), *(a_pod(f"p{i}") for i in range(10)))
    done = harness.cycles()
    assert sorted(i.node for i in done if isinstance(i, Bind)) == [f"n{i}" for i in range(9)]
    (failed,) = (i for i in done if isinstance(i, Failed))
    assert "9 node(s) had a pod" in failed.message
    assert len([i for i in done if isinstance(i, Verified)]) == 10
    told = found(done)
    assert told
    assert {difference.blame for difference in told} == {"plugin Single"}
    last = told[-1]
    assert last.what[0] == "best nodes"
    assert last.numbers == ()
    assert set(last.nodes) >= set(last.kept.best) - set(last.rebuilt.best)
    assert {text for one in last.dump["nodes"] for text in one.get("rejected", ())} == {"Single: node(s) had a pod"}


def test_a_plugin_that_declares_too_little_is_found_out() -> None:
    """What is kept for it is wrong, and it is named."""
    harness = Harness(with_plugin("Forgetful"), Forgetful, verify=1)
    harness.put(node("n0"), *(a_pod(f"p{i}") for i in range(5)))
    done = harness.cycles()
    assert sum(isinstance(i, Bind) for i in done) == 3
    assert {difference.blame for difference in found(done)} == {"plugin Forgetful"}


def test_columns_that_drifted_are_found_told_and_made_anew() -> None:
    """What is wrong with a node is named; afterwards all columns are what the objects say."""
    harness = Harness(verify=1)
    harness.put(node("n0", "4"), node("n1", "4"), a_pod("p0"))
    (bind,) = (i for i in harness.cycles() if isinstance(i, Bind))
    harness.handle(Bound("p0"))
    cluster = harness.engine.cluster
    other = "n1" if bind.node == "n0" else "n0"
    row = cluster.nodes.row_of(other) or 0
    cluster.nodes.requested[0, row] += 3950
    cluster.nodes.nonzero[0, row] += 3950
    cluster.nodes.log.touch(row)
    harness.put(a_pod("p1"))
    done = harness.cycles()
    (difference,) = found(done)
    assert difference.blame == COLUMNS
    assert f"node {other}: requested cpu kept as 3950, should be 0" in difference.numbers
    assert [i.node for i in done if isinstance(i, Bind)] == [other]
    assert validate(cluster) == []
    harness.put(a_pod("p2"))
    assert not found(harness.cycles())


def test_a_dump_has_what_a_report_needs_and_no_environment() -> None:
    """Plain data; of a container, only what a decision reads."""
    harness = Harness(with_plugin("Single"), Single, verify=1)
    told: list[Difference] = []
    harness.put(*(node(f"n{i}", taints=["gpu:NoSchedule"]) for i in range(9)))
    for i in range(4):
        secret = a_pod(f"p{i}", tolerate=["gpu"])
        secret["spec"]["containers"][0]["env"] = [{"name": "PASSWORD", "value": "hunter2"}]
        secret["spec"]["containers"][0]["args"] = ["--token=hunter2"]
        secret["metadata"]["annotations"] = {"note": "hunter2"}
        harness.put(secret)
        told += found(harness.cycles())
    text = msgspec.json.encode(told[-1].dump).decode()
    assert "hunter2" not in text
    assert '"tolerations"' in text
    assert '"taints":[{"key":"gpu"' in text


def test_only_every_nth_decision_is_verified() -> None:
    """Of ten decisions and N = 4, two."""
    harness = Harness(verify=4)
    harness.put(node("n0"), *(a_pod(f"p{i}") for i in range(10)))
    done = harness.cycles()
    assert [i.pod.name for i in done if isinstance(i, Verified)] == ["p3", "p7"]
    assert not found(done)


def test_a_plugin_that_fails_the_second_time_costs_the_pod_nothing() -> None:
    """It is named, and the first decision stands."""
    harness = Harness(with_plugin("Whimsical"), Whimsical, verify=1)
    harness.put(node("n0"), node("n1"), a_pod("p0"))
    done = harness.cycles()
    assert [type(i) for i in done] == [Misbehaved, Bind]


def test_a_reload_is_followed() -> None:
    """Decisions of a profile that was not there at the start are verified too."""
    harness = Harness(configuration(profile("berth")), verify=1)
    other = Harness(configuration(profile("other")), verify=1).engine.queue.frameworks
    harness.engine.reconfigure(other, 1.0, 10.0, harness.now)
    named = a_pod("p0")
    named["spec"]["schedulerName"] = "other"
    harness.put(node("n0"), named)
    assert [type(i) for i in harness.cycles()] == [Verified, Bind]


SPREAD = {"scoringStrategy": {"type": "LeastAllocated", "resources": [{"name": "ex.test/gpu", "weight": 1}]}}


def test_scores_of_a_node_that_loses_its_devices_are_renewed() -> None:
    """Also where the rest of the pool is another node's: three on a are gone, so it has less to spare than b."""
    harness = Harness(configuration(profile(NodeResourcesFit=SPREAD)), verify=1)
    harness.put(device_class("gpu", extendedResourceName="ex.test/gpu"), node("a"), node("b"))
    for name, own, shared in (("a", 1, 3), ("b", 3, 17)):
        harness.put(resource_slice(f"{name}-own", *[device(f"d{i}") for i in range(own)], node=name))
        there = [device(f"{name}{i}") for i in range(shared)]
        harness.put(resource_slice(name, *there, node=name, pool="shared", count=2))
    done: list[Instruction] = []
    for number in range(3):
        if number == 2:
            harness.lose("ResourceSlice", "", "a")
            harness.put(resource_slice("b", device("b0"), node="b", pool="shared"))
        harness.put(a_pod(f"p{number}", others={"ex.test/gpu": "1"}))
        done += harness.cycles()
    assert found(done) == []
    assert [each.node for each in done if isinstance(each, PreBindWrite)] == ["b", "b", "b"]


# -- whatever happens ------------------------------------------------------------------------------------------------

PACKED = {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}}
SHAPED = {
    "scoringStrategy": {
        "type": "RequestedToCapacityRatio",
        "resources": [{"name": "cpu", "weight": 3}, {"name": "memory", "weight": 1}],
        "requestedToCapacityRatio": {"shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]},
    }
}
PROFILES = configuration(
    profile("berth"),
    profile("packed", NodeResourcesFit=PACKED),
    profile("shaped", NodeResourcesFit=SHAPED),
    {**profile("sampled"), "percentageOfNodesToScore": 40},
)
TERMS = ["app=a per zone", "app=b per host", "app in a,b per zone"]
FAR = {
    "topologyKey": label("zone"),
    "labelSelector": {"matchLabels": {"app": "a"}},
    "namespaceSelector": {"matchLabels": {"owner": "x"}},
}
HARD = {"maxSkew": 1, "topologyKey": label("zone"), "whenUnsatisfiable": "DoNotSchedule"}
SOFT = {"maxSkew": 1, "topologyKey": label("host"), "whenUnsatisfiable": "ScheduleAnyway", "nodeTaintsPolicy": "Honor"}
TEMPLATES: list[tuple[Object, list[Object], str | None]] = [
    ({}, [], None),
    ({"labels": {"app": "b"}}, [], None),
    ({"near": [TERMS[0]]}, [], None),
    ({"apart": [TERMS[1]]}, [], None),
    ({"apart": [FAR]}, [], None),
    ({"rather_near": [(5, TERMS[0]), (3, FAR)]}, [SOFT], None),
    ({"rather_apart": [(7, TERMS[2])]}, [HARD], None),
    ({"prefer": [(10, "zone in a"), (5, "disk")], "tolerate": ["gpu"]}, [], None),
    ({"need": ["zone in a,b"]}, [HARD, SOFT], None),
    ({"ports": ["80"]}, [], None),
    ({}, [], "data"),
    ({}, [HARD], "local"),
]
"""What `pod` is given, spread constraints, a claim."""
NODES = st.fixed_dictionaries(
    {
        "zone": st.sampled_from([None, "a", "b", "c"]),
        "labels": st.sampled_from([{}, {"disk": "ssd"}]),
        "taints": st.sampled_from([(), (), ("gpu:NoSchedule",), ("spot:PreferNoSchedule",)]),
        "cordoned": st.sampled_from([False, False, True]),
        "cpu": st.sampled_from(["1", "2", "4"]),
        "memory": st.sampled_from(["1Gi", "4Gi"]),
        "pods": st.sampled_from(["3", "110"]),
    }
)
EVENTS = st.one_of(
    st.tuples(st.just("node"), st.integers(0, 11), NODES),
    st.tuples(st.just("drop"), st.integers(0, 11)),
    st.tuples(st.just("gone"), st.integers(0, 30)),
    st.tuples(st.just("namespace"), st.sampled_from(["default", "team"]), st.sampled_from(["x", "y"])),
    st.tuples(st.just("confirm"), st.integers(0, 30)),
    *[
        st.tuples(
            st.just("pods"),
            st.integers(1, 4),
            st.sampled_from(range(len(TEMPLATES))),
            st.sampled_from(["berth", "berth", "packed", "shaped", "sampled"]),
            st.sampled_from([0, 0, 0, 10]),
            st.sampled_from(["default", "default", "team"]),
        )
    ]
    * 3,
)


class Story:
    """Feeds an engine; pods that were bound come back from the API, now and then."""

    def __init__(self) -> None:
        self.harness = Harness(PROFILES, verify=1)
        self.pods: dict[str, Object] = {}
        self.verified: list[Verified] = []
        self.harness.put(storage_class())
        self.harness.put(claim("data", to="v"), volume("v", claimed="default/data", on=["zone in a"]))
        self.harness.put(claim("local"), volume("w", on=["zone in b"]))

    def happen(self, what: str, *given: Any) -> None:
        match what, given:
            case "node", (number, parts):
                self.harness.put(node(f"n{number}", **parts))
            case "drop", (number,):
                self.harness.lose("Node", "", f"n{number}")
            case "gone", (number,):
                self.leave(f"p{number}")
            case "namespace", (name, owner):
                self.harness.put(namespace(name, owner=owner))
            case "confirm", (number,):
                self.confirm(f"p{number}")
            case "pods", (count, template, scheduler, priority, where):
                for _ in range(count):
                    self.arrive(template, scheduler, priority, where)
                self.schedule()

    def arrive(self, template: int, scheduler: str, priority: int, where: str) -> None:
        parts, spread, claimed = TEMPLATES[template]
        name, cpu = f"p{len(self.pods)}", ("100m", "700m", "1")[template % 3]
        made = pod(name, cpu, "200Mi", **{"uid": name, "namespace": where, "labels": {"app": "a"}, **parts})
        made["spec"] |= {"schedulerName": scheduler, "priority": priority}
        if spread:
            select = {"labelSelector": {"matchLabels": {"app": "a"}}}
            made["spec"]["topologySpreadConstraints"] = [{**one, **select} for one in spread]
        if claimed is not None and where == "default":
            using(made, claimed)
        self.pods[name] = made
        self.harness.put(made)

    def schedule(self) -> None:
        for _ in range(8):
            if not self.harness.engine.has_work:
                return
            for instruction in self.harness.cycle():
                match instruction:
                    case Verified():
                        self.verified.append(instruction)
                    case Bind(pod=bound, node=where):
                        self.harness.bound(bound.uid)
                        self.pods[bound.uid]["spec"]["nodeName"] = where
                    case Preempt(victims=victims):
                        for victim in victims:
                            self.leave(victim.uid)

    def leave(self, uid: str) -> None:
        if uid in self.pods:
            made = self.pods[uid]
            self.harness.lose("Pod", made["metadata"]["namespace"], uid, uid)

    def confirm(self, uid: str) -> None:
        made = self.pods.get(uid)
        if made is not None and "nodeName" in made["spec"]:
            self.harness.tell(made)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(NODES, min_size=9, max_size=11), st.lists(EVENTS, min_size=25, max_size=50))
def test_decisions_on_what_is_kept_and_on_a_cluster_made_anew_agree(start: list[Any], happenings: list[Any]) -> None:
    """Whatever happens to nodes, pods, namespaces and volumes, under whatever profile, with nominations or without."""
    story = Story()
    for i, parts in enumerate(start):
        story.happen("node", i, parts)
    for happening in happenings:
        story.happen(*happening)
    assert [one.difference for one in story.verified if one.difference is not None] == []
    assert validate(story.harness.engine.cluster) == []
