"""Some rows looked at as if they were all: every public column and method says what the whole says of those rows."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podberth.cache.cluster import Cluster
from podberth.cache.column import Column
from podberth.cache.nodes import Nodes
from podberth.cache.rebuild import WithoutPods
from podberth.cache.view import ViewError, row_with, some_rows
from podberth.model import wire
from podberth.model.kinds import Decoder
from podberth.model.pod import Pod
from tests.builders import node, pod

KEYS = ("kubernetes.io/hostname", "disk", "nobody-has-it")
PORTS = (("0.0.0.0", "TCP", 80),)
NODE = st.fixed_dictionaries(
    {
        "labels": st.dictionaries(st.sampled_from(KEYS[:2]), st.sampled_from(["a", "b", "c"])),
        "taints": st.sampled_from([(), ("gpu:NoSchedule",), ("spot=a:NoExecute",)]),
        "cordoned": st.booleans(),
        "cpu": st.sampled_from(["1", "4"]),
        "images": st.sampled_from([None, {"a:1": 5}, {"a:1": 5, "b:1": 6}]),
        "others": st.sampled_from([{}, {"example.com/gpu": "2"}]),
    }
)
POD = st.fixed_dictionaries(
    {
        "cpu": st.sampled_from([None, "100m"]),
        "ports": st.sampled_from([(), ("80",)]),
        "others": st.sampled_from([{}, {"example.com/gpu": "1"}, {"example.com/nobody": "1"}]),
    }
)

COLUMNS = ("alive", "unschedulable", "pods", "allowed_pods", "allocatable", "requested", "nonzero")
OF_ALL = (
    "count",
    "resources",
    "largest",
    "log",
    "object_log",
    "population_changes",
    "label_changes",
    "key_changes",
    "label_keys",
    "served",
)
LISTS = ("names", "objects")
ASKED = (
    "of_these",
    "row_of",
    "live_row",
    "named",
    "live",
    "label",
    "annotation",
    "topology",
    "image",
    "derived",
    "lacked",
    "taints",
    "rows",
)
PORTS_ASKED = ("port_conflicts", "port_conflicts_on", "port_users", "port_users_on")
CHANGES: dict[str, Callable[[Nodes], Any]] = {
    "ensure_row": lambda nodes: nodes.ensure_row("new"),
    "release_row": lambda nodes: nodes.release_row(0),
    "rename": lambda nodes: nodes.rename(Nodes()),
    "put": lambda nodes: nodes.put(0, None),
    "put_labels": lambda nodes: nodes.put_labels(0, None),
    "offer": lambda nodes: nodes.offer("example.com/disk"),
    "charge": lambda nodes: nodes.charge(0, a_pod("p").shape, 1),
    "suppose": lambda nodes: nodes.suppose(0, a_pod("p").shape, 1),
    "suppose_all": lambda nodes: nodes.suppose_all([(0, a_pod("p").shape)], 1),
    "sweep": lambda nodes: nodes.sweep(),
}
INSIDE = {"ports", "topology_changes", "columns", "annotation_columns", "images", "unoffered", "beyond", "any_beyond"}
"""What only the cluster asks of the whole."""
_decoder = Decoder()


def a_pod(name: str, **parts: Any) -> Pod:
    return _decoder.pod(wire.encode(pod(name, uid=name, **parts)))


def made(nodes: list[dict[str, Any]], pods: list[tuple[int, dict[str, Any]]]) -> Cluster:
    cluster = Cluster()
    for i, parts in enumerate(nodes):
        cluster.put_node(_decoder.node(wire.encode(node(f"n{i}", **parts))))
    for i, (on, parts) in enumerate(pods):
        cluster.put_pod(a_pod(f"p{i}", on=f"n{on}", **parts))
    return cluster


def test_every_public_name_is_looked_at_here() -> None:
    """A new column of the nodes is one of the view, too, or can't be changed there."""
    public = {name for name in {*dir(Nodes), *vars(Nodes())} if not name.startswith("_")}
    assert public == {*COLUMNS, *OF_ALL, *LISTS, *ASKED, *PORTS_ASKED, *CHANGES} | INSIDE


def test_whether_a_resource_is_lacked_follows_the_nodes() -> None:
    cluster = made([{"others": {"example.com/gpu": "2"}}], [])
    nodes = cluster.nodes
    gpu = nodes.resources["example.com/gpu"]
    assert not nodes.lacked(gpu)
    cluster.put_node(_decoder.node(wire.encode(node("other"))))
    assert nodes.lacked(gpu)
    cluster.put_node(_decoder.node(wire.encode(node("other", others={"example.com/gpu": "1"}))))
    assert not nodes.lacked(gpu)


@settings(deadline=None)
@given(st.lists(NODE, min_size=1, max_size=5), st.lists(st.tuples(st.integers(0, 5), POD), max_size=6), st.data())
def test_some_rows(nodes: list[dict[str, Any]], pods: list[tuple[int, dict[str, Any]]], data: st.DataObject) -> None:
    """In any order; rows whose node is unknown among them."""
    cluster = made(nodes, pods)
    whole = cluster.nodes
    rows = data.draw(st.permutations(range(whole.rows)))[: data.draw(st.integers(1, whole.rows))]
    viewed = some_rows(cluster, np.array(rows, dtype=np.intp))
    assert [viewed.pods_on(i) for i in range(len(rows))] == [cluster.pods_on(each) for each in rows]
    view = viewed.nodes
    assert view.rows == len(rows)
    for name in COLUMNS:
        assert getattr(view, name).tolist() == getattr(whole, name)[..., rows].tolist()
    for name in OF_ALL:
        assert getattr(view, name) == getattr(whole, name)
    for name in LISTS:
        assert getattr(view, name) == [getattr(whole, name)[row] for row in rows]
    for index in whole.resources.values():
        assert view.lacked(index) == (0 in whole.allocatable[index, rows])
        assert whole.lacked(index) == (0 in whole.allocatable[index, : whole.rows])
    for name in ("row_of", "live_row"):
        for known in (*whole.names, "unknown"):
            row = getattr(whole, name)(known)
            assert getattr(view, name)(known) == (rows.index(row) if row in rows else None)
    some = [name for name in whole.names[::2] if name] + ["unknown"]
    assert view.named(some).tolist() == whole.named(some)[rows].tolist()
    assert list(view.live()) == [(i, whole.objects[row]) for i, row in enumerate(rows) if whole.objects[row]]
    for name in ("a:1", "b:1", "nobody"):
        found, of_whole = view.image(name), whole.image(name)
        assert (found is None) == (of_whole is None)
        if found is not None and of_whole is not None:
            sizes = dict(zip(of_whole[0].tolist(), of_whole[1].tolist(), strict=True))
            wanted = {rows.index(row): size for row, size in sizes.items() if row in rows}
            assert dict(zip(found[0].tolist(), found[1].tolist(), strict=True)) == wanted
    pods_of = view.derived("pods", lambda of: of.pods[: of.rows].copy(), lambda of, row: float(of.pods[row]))
    assert pods_of.tolist() == whole.pods[rows].tolist()
    assert view.port_conflicts(PORTS).tolist() == whole.port_conflicts(PORTS)[rows].tolist()
    assert view.port_users(PORTS).tolist() == whole.port_users(PORTS)[rows].tolist()
    for i, row in enumerate(rows):
        assert view.port_conflicts_on(PORTS, i) == whole.port_conflicts_on(PORTS, row)
        assert view.port_users_on(PORTS, i) == whole.port_users_on(PORTS, row)
    same_column(view.taints, whole.taints, rows, ("taints", len(whole.taints.values)))
    for key in KEYS:
        same_column(view.label(key), whole.label(key), rows, (key, len(whole.label(key).values)))
        assert (view.topology(key) is None) == (whole.topology(key) is None)


def same_column(view: Column[Any], whole: Column[Any], rows: list[int], question: object) -> None:
    """Whatever is asked of a column."""
    count, of_all = len(rows), len(whole.codes)
    assert view.codes.tolist() == whole.codes[rows].tolist()
    assert view.values == whole.values
    assert view.blank == whole.blank
    assert [view.get(i) for i in range(count)] == [whole.get(row) for row in rows]
    by_code = np.arange(len(whole.values) + 1)
    assert view.gather(by_code, count).tolist() == whole.gather(by_code, of_all)[rows].tolist()
    for value in (*filter(None, whole.values), "unknown"):
        assert view.code_of(value) == whole.code_of(value)
        assert view.holds(count, value).tolist() == whole.holds(of_all, value)[rows].tolist()
        asked = (question, value)
        accepted = view.where(count, asked, lambda has, value=value: has == value)  # type: ignore[misc]
        assert accepted.tolist() == whole.where(of_all, asked, lambda has, value=value: has == value)[rows].tolist()  # type: ignore[misc]
    numbers = view.map(count, ("length", question), lambda has: len(str(has)))
    assert numbers.tolist() == whole.map(of_all, ("length", question), lambda has: len(str(has)))[rows].tolist()


@settings(deadline=None)
@given(st.lists(NODE, min_size=1, max_size=3), st.lists(POD, max_size=3), st.lists(POD, max_size=2), st.data())
def test_one_row_with_other_pods(
    nodes: list[dict[str, Any]], there: list[dict[str, Any]], come: list[dict[str, Any]], data: st.DataObject
) -> None:
    """As the whole would be after the pods had moved: what is derived from the row, too."""
    row = data.draw(st.integers(0, len(nodes) - 1))
    cluster = made(nodes, [(row, parts) for parts in there])
    gone = [one for one in cluster.pods_on(row) if data.draw(st.booleans())]
    coming = [a_pod(f"c{i}", **parts) for i, parts in enumerate(come)]
    viewed = row_with(cluster, row, gone, coming)
    view, on_row = viewed.nodes, {one.uid for one in viewed.pods_on(0)}
    conflicts, users = view.port_conflicts(PORTS).tolist(), view.port_users(PORTS).tolist()
    for one in gone:
        cluster.drop_pod(one.uid)
    for one in coming:
        cluster.assume(one, row)
    assert on_row == {one.uid for one in cluster.pods_on(row)}
    whole = cluster.nodes
    for name in COLUMNS:
        assert getattr(view, name)[..., 0].tolist() == getattr(whole, name)[..., row].tolist()
    derived = view.derived("pods", lambda of: of.pods[: of.rows].copy(), lambda of, row: float(of.pods[row]))
    assert derived.tolist() == [whole.pods[row]]
    assert conflicts == [whole.port_conflicts(PORTS)[row]]
    assert users == [whole.port_users(PORTS)[row]] == [whole.port_users_on(PORTS, row)]
    assert view.names == [whole.names[row]]
    assert view.objects == [whole.objects[row]]


def test_other_pods_of_the_row_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node has thousands of pods, and each that is about to be bound there has its last look: none lists them."""
    many = tuple(str(port) for port in range(1_000, 1_100))
    cluster = made([{}], [(0, {"ports": ("80",)}), (0, {"ports": many}), (0, {})])
    held, listed, plain = cluster.pods_on(0)
    monkeypatch.setattr(cluster, "pods_on", lambda _row: pytest.fail("all pods of the row were listed"))
    wanted = (*PORTS, ("0.0.0.0", "TCP", 1_001), ("127.0.0.1", "TCP", 1_002))
    for gone, users in (((), 3), ((plain,), 3), ((held,), 2), ((listed,), 1), ((held, listed), 0)):
        view = row_with(cluster, 0, gone, ()).nodes
        assert view.port_users(wanted).tolist() == [users]
        assert view.port_conflicts(wanted).tolist() == [users > 0]
        assert view.pods.tolist() == [3 - len(gone)]
    assert row_with(cluster, 0, (held, listed), (held,)).nodes.port_users(wanted).tolist() == [1]


@pytest.mark.parametrize("name", CHANGES)
def test_a_view_can_not_be_changed(name: str) -> None:
    """A plugin that writes to it is told so, and the whole stays as it is."""
    cluster = made([{}, {}], [])
    view = some_rows(cluster, np.array([1], dtype=np.intp)).nodes
    with pytest.raises(ViewError, match="can't be changed"):
        CHANGES[name](view)
    with pytest.raises(ViewError, match="can't be changed"):
        view.label("disk").set(0, "x")


def test_pods_are_counted_on_the_rows_of_a_view() -> None:
    """`count_pods` says of some rows what it says of them in the whole, and of one row also who goes and comes."""
    cluster, decoder = Cluster(), Decoder()
    for i in range(4):
        cluster.put_node(decoder.node(wire.encode(node(f"n{i}"))))
    web = {"app": "web"}
    for i, row in enumerate((0, 0, 0, 2)):
        cluster.put_pod(decoder.pod(wire.encode(pod(f"p{i}", labels=web, on=f"n{row}"))))
    one, other = (decoder.pod(wire.encode(pod(name, labels=labels))) for name, labels in (("a", web), ("b", {})))
    assert cluster.count_pods("default", web).tolist() == [3, 0, 1, 0]
    assert some_rows(cluster, np.array([2, 3])).count_pods("default", web).tolist() == [1, 0]
    assert row_with(cluster, 3, (), [one, other]).count_pods("default", web).tolist() == [1]
    assert row_with(cluster, 0, [one], ()).count_pods(None, web).tolist() == [2]
    assert row_with(cluster, 0, [one], ()).count_pods("another", web).tolist() == [0]


def test_a_copy_knows_who_is_on_its_nodes() -> None:
    """Also where some of its rows are looked at, or one with other pods: a filter may list the pods of a node."""
    cluster, decoder = Cluster(), Decoder()
    for i in range(2):
        cluster.put_node(decoder.node(wire.encode(node(f"n{i}"))))
    for i in range(4):
        cluster.put_pod(decoder.pod(wire.encode(pod(f"p{i}", on=f"n{i % 2}"))))
    new, come = (decoder.pod(wire.encode(pod(name))) for name in ("new", "come"))
    copied = WithoutPods(cluster, lambda found: found.name == "p1")
    assert copied.go_on(4)
    made = copied.cluster()
    made.assume(new, 1)

    def there(where: Cluster, row: int) -> set[str]:
        return {found.name for found in where.pods_on(row)}

    assert (there(made, 0), there(made, 1)) == ({"p0", "p2"}, {"p3", "new"})
    assert there(some_rows(made, np.array([1])), 0) == {"p3", "new"}
    assert there(row_with(made, 1, (), (come,)), 0) == {"p3", "new", "come"}
    assert there(cluster, 1) == {"p1", "p3"}
