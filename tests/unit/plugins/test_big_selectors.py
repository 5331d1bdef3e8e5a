"""Node selectors: matched for all nodes at once as one by one, and without leaving anything behind."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podberth.cache.cluster import Cluster
from podberth.cache.view import some_rows
from podberth.model.selectors import FieldRequirement, NodeSelector, NodeSelectorTerm, Requirement
from podberth.plugins import node_affinity
from podberth.plugins.node_affinity import NodeAffinity, NodeAffinityArgs
from tests.builders import REQUIRED, Object, node, pod
from tests.unit.plugins.small import a_node, a_pod

VALUES = ("1", "7", "007", "x", "")
keys = st.sampled_from(("gen", "area", "nobody-has-it"))
values = st.sampled_from(VALUES)
sets = st.frozensets(values, min_size=1, max_size=3)
requirements = st.one_of(
    st.builds(Requirement, keys, st.sampled_from(("In", "NotIn")), sets),
    st.builds(Requirement, keys, st.sampled_from(("Exists", "DoesNotExist"))),
    st.builds(Requirement, keys, st.sampled_from(("Gt", "Lt")), st.just(frozenset()), st.integers(-1, 8)),
)
fields = st.builds(
    FieldRequirement,
    st.sampled_from(("metadata.name", "metadata.name", "metadata.namespace")),
    st.sampled_from(("In", "NotIn")),
    st.sampled_from(("n0", "n1", "n4", "gone", "")),
)
terms = st.builds(
    NodeSelectorTerm,
    st.lists(requirements, max_size=4).map(tuple),
    st.lists(fields, max_size=2).map(tuple),
)
selectors = st.lists(terms, min_size=1, max_size=12).map(lambda found: NodeSelector(tuple(found)))
labels = st.dictionaries(st.sampled_from(("gen", "area")), values)


def _matches(term: NodeSelectorTerm, name: str, has: dict[str, str]) -> bool:
    return all(r.accepts(has.get(r.key)) for r in term.labels) and all(f.accepts(name) for f in term.fields)


def _cluster(of: list[dict[str, str]]) -> Cluster:
    cluster = Cluster()
    for i, has in enumerate(of):
        cluster.put_node(a_node(node(f"n{i}", labels=has)))
    return cluster


@settings(max_examples=80, deadline=None)
@given(selectors, st.lists(labels, min_size=5, max_size=7), st.lists(labels, min_size=5, max_size=5))
def test_nodes_match_as_each_does_alone(
    of: NodeSelector, nodes: list[dict[str, str]], then: list[dict[str, str]]
) -> None:
    """Also after labels changed, for all rows and for some."""
    cluster = _cluster(nodes)
    for has in (nodes, then):
        for i, changed in enumerate(has):
            cluster.put_node(a_node(node(f"n{i}", labels=changed)))
        now = [*has, *nodes[len(has) :]]
        wanted = [any(_matches(term, f"n{i}", has) for term in of.terms) for i, has in enumerate(now)]
        assert node_affinity.matches(of, cluster.nodes).tolist() == wanted
        some = some_rows(cluster, np.array([1, 3]))
        assert node_affinity.matches(of, some.nodes).tolist() == [wanted[1], wanted[3]]


def _needing(terms: list[Object], preferred: list[Object] | None = None) -> Object:
    made = pod("p")
    affinity: Object = {REQUIRED: {"nodeSelectorTerms": terms}} if terms else {}
    if preferred:
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = preferred
    made["spec"]["affinity"] = {"nodeAffinity": affinity}
    return made


def _in(key: str, *values: str, operator: str = "In") -> Object:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def test_a_number_is_read_once_for_each_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred Gt terms on a label: a comparison of arrays each, and no scalar predicate for node after node."""
    cluster = _cluster([{"gen": str(i)} for i in range(50)])
    asked = []
    monkeypatch.setattr(Requirement, "accepts", lambda self, value: asked.append(value))
    made = a_pod(_needing([_in("gen", str(1000 + i), operator="Gt") for i in range(100)] + [_in("gen", "7")]))
    fits = ~NodeAffinity(NodeAffinityArgs()).filter(made, cluster)[0][1]
    assert [name for name, fit in zip(cluster.nodes.names, fits, strict=True) if fit] == ["n7"]
    assert asked == []


def test_big_selectors_leave_nothing_behind() -> None:
    """Keys that no node has make no column, and answers for values are not kept."""
    cluster, plugin = _cluster([{"gen": str(i)} for i in range(5)]), NodeAffinity(NodeAffinityArgs())
    columns, memos = len(cluster.nodes.columns), cluster.nodes.label("gen").kept().questions
    for i in range(30):
        keys = [_in(f"k{i}-{j}", "x") for j in range(100)]
        values = [_in("gen", f"{i}-{j}") for j in range(100)]
        preferred = [{"weight": 1, "preference": _in("gen", f"{i}-{j}", operator="NotIn")} for j in range(100)]
        made = a_pod(_needing(keys + values, preferred))
        assert plugin.filter(made, cluster)[0][1].all()
        scores = plugin.score(made, cluster, np.arange(5))
        assert scores is not None
        assert scores.tolist() == [100] * 5
        few = a_pod(_needing([_in(f"other-{i}", "x")]))
        assert plugin.filter(few, cluster)[0][1].all()
    assert len(cluster.nodes.columns) == columns + 1
    assert cluster.nodes.label("gen").kept().questions == memos


@pytest.mark.parametrize("size", [1, 200], ids=["small", "big"])
def test_names_are_passed_over_where_asked(size: int) -> None:
    """Not by name: what a term says of names does not count, however many terms there are."""
    cluster = _cluster([{"gen": "1"}, {"gen": "2"}])
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}], **_in("gen", "1")}
    made = a_pod(_needing([term] * size))
    required = made.shape.required_node_affinity
    assert required is not None
    assert node_affinity.matches(required, cluster.nodes).tolist() == [False, False]
    assert node_affinity.matches(required, cluster.nodes, by_name=False).tolist() == [True, False]


def test_names_of_all_terms_are_gathered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parsing unites the names of all terms at once, not each with all before it."""
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [f"n{i}"]}]} for i in range(120)]
    united = []

    class Counted(frozenset[str]):
        def __or__(self, other: Any) -> Any:
            united.append(len(self) + len(other))
            return frozenset(self) | other

    monkeypatch.setattr("podberth.model.selectors.frozenset", Counted, raising=False)
    required = a_pod(_needing(terms)).shape.required_node_affinity
    assert required is not None
    assert required.names == frozenset(f"n{i}" for i in range(120))
    assert sum(united) < 10 * 120
