"""Preemption on many nodes at a time: the same as on one node after the other, for filters that look elsewhere."""

from collections.abc import Iterable
from itertools import chain
from typing import Any

import msgspec
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from podberth.cache.cluster import Cluster
from podberth.framework.filters import FilterPlugins
from podberth.framework.interface import RemovedPods
from podberth.framework.runtime import Framework
from podberth.model.pod import Pod
from tests.builders import REQUIRED, node, pod
from tests.unit.plugins.preempting import a_framework, answer, decoder

ZONES = ("", "a", "a", "b", "c")
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
APPS = ("a", "b", "c")

_app = st.sampled_from(APPS)
_key = st.sampled_from((HOST, ZONE, "example.com/none"))
_selector = st.one_of(
    st.builds(lambda app: {"matchLabels": {"app": app}}, _app),
    st.builds(lambda app: {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": [app]}]}, _app),
    st.just({}),
)
_terms = st.lists(
    st.builds(lambda selector, key: {"labelSelector": selector, "topologyKey": key}, _selector, _key), max_size=2
)
_constraints = st.lists(
    st.builds(
        lambda selector, key, skew, least: {
            "labelSelector": selector,
            "topologyKey": key,
            "maxSkew": skew,
            "whenUnsatisfiable": "DoNotSchedule",
            **({"minDomains": least} if least else {}),
        },
        _selector,
        st.sampled_from((HOST, ZONE)),
        st.integers(1, 2),
        st.sampled_from((0, 0, 2, 9)),
    ),
    max_size=2,
)
_wants = st.fixed_dictionaries({"app": _app, "near": _terms, "apart": _terms, "spread": _constraints})
_placed = st.lists(
    st.tuples(st.integers(0, len(ZONES) - 1), st.integers(0, 1), _app, _terms, st.booleans()), max_size=12
)


def _pod(name: str, priority: int, app: str, near: Any = (), apart: Any = (), spread: Any = (), **more: Any) -> Pod:
    made = pod(name, cpu=more.pop("cpu", "1"))
    made["metadata"]["labels"] = {"app": app}
    affinity = {"podAffinity": {REQUIRED: list(near)}, "podAntiAffinity": {REQUIRED: list(apart)}}
    made["spec"] |= {"priority": priority, "affinity": affinity, "topologySpreadConstraints": list(spread), **more}
    return decoder.pod(msgspec.json.encode(made))


def _cluster(placed: Iterable[tuple[int, int, str, Any, bool]]) -> Cluster:
    cluster = Cluster()
    for i, zone in enumerate(ZONES):
        made = node(f"n{i}", cpu="4", pods="9")
        made["metadata"]["labels"] = {HOST: f"n{i}", **({ZONE: zone} if zone else {})}
        cluster.put_node(decoder.node(msgspec.json.encode(made)))
    for i, (row, priority, app, apart, leaving) in enumerate(placed):
        there = _pod(f"p{i}", priority, app, apart=apart)
        cluster.put_pod(msgspec.structs.replace(there, node_name=f"n{row}", terminating=leaving))
    return cluster


def _all_but(cluster: Cluster, kept: set[str]) -> RemovedPods:
    """All pods are gone from their nodes but these."""
    rows = np.arange(len(ZONES))
    there = [[*cluster.on_row.get(row, {}).values()] for row in rows.tolist()]
    removed = RemovedPods(rows, list(chain.from_iterable(there)), np.repeat(rows, [len(some) for some in there]))
    removed.gone[:] = [placement.pod.uid not in kept for some in there for placement in some]
    return removed


@settings(max_examples=150, deadline=None)
@given(_placed, _wants, st.sets(st.integers(0, 11).map("default/p{}".format)))
def test_each_row_is_judged_as_if_its_pods_alone_were_gone(placed: Any, wants: Any, kept: set[str]) -> None:
    """By taking them out of all counts, one row after the other."""
    cluster, framework = _cluster(placed), a_framework()
    preemptor, removed = _pod("q", 5, **wants), _all_but(cluster, kept)
    for name in ("InterPodAffinity", "PodTopologySpread"):
        plugin: Any = framework.plugin(name)
        found = [(reason.text, mask) for reason, mask in plugin.filter_removed(preemptor, cluster, removed)]
        for row in range(len(ZONES)):
            leaving = [one for one in cluster.on_row.get(row, {}).values() if one.pod.uid not in kept]
            for one in leaving:
                cluster.leave_out(one)
            expected = {reason.text for reason, mask in plugin.filter(preemptor, cluster) if mask[row]}
            for one in leaving:
                cluster.put_back(one)
            assert {text for text, mask in found if mask[row]} == expected, (name, row)


def _one_by_one() -> Framework:
    """A framework whose filters can't tell what the removal of pods changes."""
    framework = a_framework()
    looks_elsewhere = framework.filters.looks_elsewhere

    def always(pod: Pod, cluster: Cluster, others: Iterable[Pod], *, removed: bool = False) -> bool:
        return looks_elsewhere(pod, cluster, others)

    framework.filters.looks_elsewhere = always  # type: ignore[method-assign]
    return framework


@settings(max_examples=100, deadline=None)
@given(_placed, _wants, st.sampled_from(("1", "3")), st.booleans())
def test_many_nodes_at_a_time_give_the_same_victims(placed: Any, wants: Any, cpu: str, with_disk: bool) -> None:
    """And the same message. With a disk filters are asked at each step, without one only those that look elsewhere."""
    cluster = _cluster(placed)
    for row in range(len(ZONES)):
        filling = _pod(f"full{row}", row % 3, "none", cpu="3")
        cluster.put_pod(msgspec.structs.replace(filling, node_name=f"n{row}"))
    disks = [{"name": "v", "gcePersistentDisk": {"pdName": "d"}}] if with_disk else []
    preemptor = _pod("q", 5, **wants, cpu=cpu, volumes=disks)
    assert answer(a_framework(), preemptor, cluster) == answer(_one_by_one(), preemptor, cluster)


def test_filters_are_asked_as_often_as_a_node_has_victims(monkeypatch: Any) -> None:
    """However many nodes there are, also where no node is helped."""
    asked = []
    passing = FilterPlugins.passing_removed

    def counted(*args: Any) -> Any:
        asked.append(args)
        return passing(*args)

    monkeypatch.setattr(FilterPlugins, "passing_removed", counted)
    cluster = _cluster([(row, 0, "a", (), False) for row in range(len(ZONES)) for _ in range(3)])
    apart = {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": HOST}
    assert answer(a_framework(), _pod("q", 5, "q", apart=[apart]), cluster)[1] == {f"default/p{i}" for i in (0, 1, 2)}
    assert len(asked) == 4
    asked.clear()
    near = {"labelSelector": {"matchLabels": {"app": "nobody"}}, "topologyKey": HOST}
    assert not answer(a_framework(), _pod("q", 5, "q", near=[near], apart=[apart]), cluster)[1]
    assert len(asked) <= 1
