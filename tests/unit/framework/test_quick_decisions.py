"""What is kept from pod to pod says what the plain pipeline says of the same cluster made anew."""

import random
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from podberth.cache.cluster import Cluster
from podberth.framework.config import decode, default_configuration
from podberth.framework.decision import Decision
from podberth.framework.profiles import build
from podberth.model.kinds import Decoder
from podberth.model.namespaced import SelectingObject
from podberth.model.selectors import LabelSelector, Requirement
from tests.builders import configuration, profile
from tests.registered import registry

KINDS = 10
ZONES = ("a", "b", "c", "")
CONFIGS = (
    default_configuration(),
    decode(
        configuration(
            profile(
                "berth",
                {"multiPoint": {"enabled": [{"name": "ServiceAffinity"}]}},
                ServiceAffinity={
                    "affinityLabels": ["zone"],
                    "antiAffinityLabelsPreference": ["kubernetes.io/hostname", "zone"],
                },
            )
        )
    ),
)
SERVICE = SelectingObject("Service", "d", "s", "s", "", LabelSelector((Requirement("app", "In", frozenset(("a1",))),)))


def _node(i: int, cpu: int, zone: str, taint: int, cordoned: bool) -> dict[str, Any]:
    taints = [{}, {"key": "gpu", "effect": "NoSchedule"}, {"key": "spot", "effect": "PreferNoSchedule"}][taint]
    amounts = {"cpu": str(cpu), "memory": f"{cpu}Gi", "pods": str(3 + cpu)}
    labels = {"zone": zone, "kubernetes.io/hostname": f"n{i}"} if zone else {"kubernetes.io/hostname": f"n{i}"}
    return {
        "metadata": {"name": f"n{i}", "uid": f"n{i}", "labels": labels},
        "spec": {"unschedulable": cordoned, "taints": [taints] if taints else []},
        "status": {"allocatable": amounts},
    }


def _pod(uid: str, kind: int, node: str = "") -> dict[str, Any]:
    spec: dict[str, Any] = {
        "containers": [{"image": "web", "resources": {"requests": {"cpu": f"{100 + 400 * (kind % 3)}m"}}}],
    }
    term = {"labelSelector": {"matchLabels": {"app": f"a{kind % 3}"}}, "topologyKey": "zone"}
    if kind == 3:
        spec["affinity"] = {
            "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 5,
                        "preference": {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]},
                    }
                ]
            }
        }
        spec["nodeSelector"] = {"zone": "b"}
    if kind == 4:
        spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    if kind == 5:
        spec["affinity"] = {
            "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 7, "podAffinityTerm": term}]}
        }
        spec["tolerations"] = [{"key": "gpu", "operator": "Exists"}]
    if kind == 6:
        spec["containers"][0]["ports"] = [{"hostPort": 80}]
        spec["topologySpreadConstraints"] = [
            {
                "maxSkew": 1,
                "topologyKey": "zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "a0"}},
            }
        ]
    if kind in (7, 8):
        when = "ScheduleAnyway" if kind == 7 else "DoNotSchedule"
        spec["topologySpreadConstraints"] = [
            {
                "maxSkew": 1 + (key == "zone"),
                "topologyKey": key,
                "whenUnsatisfiable": when,
                "labelSelector": {"matchLabels": {"app": "a1"}},
                "nodeTaintsPolicy": "Honor",
            }
            for key in ("zone", "kubernetes.io/hostname")
        ]
    if kind == 9:
        spec["topologySpreadConstraints"] = [
            {
                "maxSkew": 1,
                "topologyKey": "zone",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {},
                "matchLabelKeys": ["app"],
            }
        ]
    if node:
        spec["nodeName"] = node
    return {"metadata": {"name": uid, "namespace": "d", "uid": uid, "labels": {"app": f"a{kind % 3}"}}, "spec": spec}


def _anew(cluster: Cluster) -> Cluster:
    """The same nodes, pods and namespaces in columns that nothing was ever changed in."""
    fresh = Cluster()
    for _, node in cluster.nodes.live():
        fresh.put_node(node)
    for placement in cluster.placements():
        name = cluster.nodes.names[placement.row]
        fresh.put_pod(msgspec.structs.replace(placement.pod, node_name=name))
    fresh.put_selecting(SERVICE)
    fresh.nominations = cluster.nominations
    return fresh


def _best(decision: Decision, cluster: Cluster) -> set[str | None]:
    return {cluster.nodes.names[row] for row in decision.best()}


nodes = st.tuples(st.integers(0, 30), st.integers(1, 8), st.sampled_from(ZONES), st.integers(0, 2), st.booleans())
kept = st.tuples(st.integers(0, 30), st.integers(0, KINDS - 1), st.integers(-1, 1), st.integers(1, 8))
events = st.one_of(
    st.tuples(st.just("node"), nodes),
    st.tuples(st.just("drop"), st.integers(0, 30)),
    st.tuples(st.just("place"), st.integers(0, KINDS - 1)),
    st.tuples(st.just("remove"), st.integers(0, 40)),
    st.tuples(st.just("ask"), st.integers(0, KINDS - 1)),
    st.tuples(st.just("nominate"), kept),
    st.tuples(st.just("keep"), st.integers(0, 30)),
    st.tuples(st.just("forget"), st.integers(0, 20)),
)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(CONFIGS),
    st.lists(nodes, min_size=5, max_size=25),
    st.lists(events, max_size=60),
    st.integers(0, 2),
)
def test_what_is_kept_agrees_with_a_cluster_made_anew(
    config: Any, start: list[Any], happenings: list[Any], large: int
) -> None:
    """After any sequence of events, decisions with and without memos have the best nodes that a new cluster gives.

    Decisions by a memo also say how many nodes fit.
    """
    decoder, cluster = Decoder(), Cluster()
    framework = build(config, registry())["berth"]
    cluster.put_selecting(SERVICE)
    for n in start:
        cluster.put_node(decoder.node(msgspec.json.encode(_node(*n))))
    placed = nominated = 0
    # Most nodes that are kept are kept for pods that leave no room beside them.
    happenings = [*happenings, *(("nominate", (n[0], 0, 0, 8)) for n in start[:large])]
    happenings += [("keep", start[-1][0])] * (large == 1)
    for what, detail in [*happenings, *(("ask", kind) for kind in range(KINDS))]:
        if what == "node":
            cluster.put_node(decoder.node(msgspec.json.encode(_node(*detail))))
        elif what == "drop":
            cluster.drop_node(f"n{detail}")
        elif what == "remove":
            cluster.drop_pod(f"p{detail}")
        elif what == "nominate":
            i, kind, priority, cpu = detail
            waiting = _pod(f"w{nominated}", kind)
            waiting["spec"]["priority"] = priority
            waiting["spec"]["containers"][0]["resources"]["requests"]["cpu"] = f"{cpu}"
            cluster.nominations.put(decoder.pod(msgspec.json.encode(waiting)), f"n{i}")
            nominated += 1
        elif what == "keep":
            # For the pod that is asked about next.
            cluster.nominations.put(decoder.pod(msgspec.json.encode(_pod(f"p{placed}", 0))), f"n{detail}")
        elif what == "forget":
            cluster.nominations.drop(f"w{detail}")
        else:
            pod = decoder.pod(msgspec.json.encode(_pod(f"p{placed}", detail)))
            anew = _anew(cluster)
            plain = build(config, registry())["berth"].decide(pod, anew)
            wanted = _best(plain, anew)
            assert _best(framework.decide(pod, cluster), cluster) == wanted
            quick = framework.decide_quickly(pod, cluster)
            assert (_best(quick, cluster), quick.fitting) == (wanted, len(plain.feasible))
            if what == "place" and wanted:
                cluster.assume(pod, cluster.nodes.row_of(min(filter(None, wanted))) or 0)
                cluster.nominations.drop(pod.uid)
                placed += 1


def test_the_best_rows_follow_each_change() -> None:
    """Among equal nodes many rows are the best; each pod that comes or goes moves one of them out, back, or ahead."""
    decoder, cluster, at_random = Decoder(), Cluster(), random.Random(1)
    framework = build(default_configuration(), registry())["berth"]
    for i in range(40):
        cluster.put_node(decoder.node(msgspec.json.encode(_node(i, 2, "a", 0, False))))
    asks = decoder.pod(msgspec.json.encode(_pod("asks", 0)))
    for step in range(300):
        if len(cluster) < 40 and at_random.random() < 0.6:
            placed = decoder.pod(msgspec.json.encode(_pod(f"p{step}", 0)))
            cluster.assume(placed, at_random.randrange(40))
        elif len(cluster):
            cluster.forget(at_random.choice([*cluster.placements()]).pod.uid)
        quick = framework.decide_quickly(asks, cluster)
        assert quick.best().tolist() == framework.decide(asks, cluster).best().tolist()
    assert framework.computed == 2, "a class is kept from its second use on; all else was repaired row by row"
