"""Recompute every column, count and index from the objects, by the plainest Python, and name each difference.

The mirror of kube-scheduler `backend/cache/debugger/comparer.go`. Run at the end of every engine test.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from podberth.cache.cluster import Cluster
from podberth.cache.column import ABSENT, Column
from podberth.cache.nodes import CPU, EPHEMERAL, MEMORY
from podberth.cache.validate_devices import validate_devices
from podberth.cache.validate_groups import validate_groups
from podberth.cache.validate_storage import validate_storage
from podberth.cache.validate_terms import validate_terms
from podberth.model.node import Node
from podberth.model.pod import Pod
from podberth.model.shape import HostPort


def validate(cluster: Cluster) -> list[str]:
    """One line for each thing that differs from what the objects say: where, what it has, what it should be."""
    return [
        *_rows(cluster),
        *_placements(cluster),
        *_nodes(cluster),
        *_charges(cluster),
        *_columns(cluster),
        *_images(cluster),
        *_ports(cluster),
        *validate_terms(cluster),
        *validate_storage(cluster),
        *validate_devices(cluster),
        *validate_groups(cluster),
    ]


def _differ(where: str, what: str, has: Any, should: Any) -> Iterator[str]:
    if has != should:
        yield f"{where}: {what} is {_show(has)}, should be {_show(should)}"


def _show(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 200 else f"{text[:200]}…"


def _at(cluster: Cluster, row: int) -> str:
    return f"row {row} ({cluster.nodes.names[row] or 'free'})"


def _alive(cluster: Cluster) -> dict[int, Node]:
    return dict(cluster.nodes.live())


def _placed(cluster: Cluster) -> dict[int, list[Pod]]:
    found: dict[int, list[Pod]] = {row: [] for row in range(cluster.nodes.rows)}
    for placement in cluster.placements():
        found[placement.row].append(placement.pod)
    return found


def _rows(cluster: Cluster) -> Iterator[str]:
    nodes = cluster.nodes
    yield from _differ("rows", "length of names", len(nodes.names), nodes.rows)
    yield from _differ("rows", "length of objects", len(nodes.objects), nodes.rows)
    named = {name: row for row, name in enumerate(nodes.names) if name is not None}
    yield from _differ("rows", "index by name", nodes._row, named)
    free = [row for row, name in enumerate(nodes.names) if name is None]
    yield from _differ("rows", "free rows", sorted(nodes._free), free)
    placed = _placed(cluster)
    for row, name in enumerate(nodes.names):
        node = nodes.objects[row]
        if node is not None:
            yield from _differ(_at(cluster, row), "name of the node object", node.name, name)
        elif name is not None and not placed[row]:
            yield f"{_at(cluster, row)}: has neither node nor pods and is not free"
    arrays = ("alive", "unschedulable", "pods", "allowed_pods", "allocatable", "requested", "nonzero")
    for array in arrays:
        yield from _differ("rows", f"capacity of {array}", getattr(nodes, array).shape[-1], nodes._capacity)
    indices = sorted([*nodes.resources.values(), *nodes._free_indices])
    yield from _differ("rows", "indices of resources", indices, [*range(len(indices))])
    for array in ("allocatable", "requested"):
        values = getattr(nodes, array)
        if len(values) < len(indices):
            yield f"rows: {array} has {len(values)} resources, should have {len(indices)} at least"
        used = set(nodes.resources.values())
        others = [index for index in range(len(values)) if index not in used]
        yield from _differ("rows", f"{array} of nothing", bool(values[others].any()), False)
    first = {"cpu": CPU, "memory": MEMORY, "ephemeral-storage": EPHEMERAL}
    yield from _differ("rows", "first resources", {name: nodes.resources.get(name) for name in first}, first)


def _placements(cluster: Cluster) -> Iterator[str]:
    by_row: dict[int, dict[str, Any]] = {}
    of_priority = Counter(placement.pod.priority for placement in cluster._placed.values())
    yield from _differ("placed pods", "numbers by priority", cluster.priorities.pods, dict(of_priority))
    for uid, placement in cluster._placed.items():
        where = f"pod {placement.pod.key}"
        yield from _differ(where, "uid it is placed under", uid, placement.pod.uid)
        if not 0 <= placement.row < cluster.nodes.rows or cluster.nodes.names[placement.row] is None:
            yield f"{where}: row {placement.row} is not in use"
        elif not placement.assumed:
            name = cluster.nodes.names[placement.row]
            yield from _differ(where, "row's node name", name, placement.pod.node_name)
        by_row.setdefault(placement.row, {})[uid] = placement
    for row in sorted({*by_row, *cluster._on_row}):
        has = {uid: id(one) for uid, one in cluster._on_row.get(row, {}).items()}
        should = {uid: id(one) for uid, one in by_row.get(row, {}).items()}
        yield from _differ(_at(cluster, row), "placements", has, should)
        if row in cluster._on_row and not has:
            yield f"{_at(cluster, row)}: an empty list of placements is kept"


def _nodes(cluster: Cluster) -> Iterator[str]:
    nodes, alive = cluster.nodes, _alive(cluster)
    yield from _differ("nodes", "count", nodes.count, len(alive))
    for row in range(nodes._capacity):
        where = f"row {row} (unused)" if row >= nodes.rows else _at(cluster, row)
        node = alive.get(row)
        yield from _differ(where, "alive", bool(nodes.alive[row]), node is not None)
        yield from _differ(where, "unschedulable", bool(nodes.unschedulable[row]), bool(node and node.unschedulable))
        yield from _differ(where, "allowed pods", int(nodes.allowed_pods[row]), node.allowed_pods if node else 0)
        for name, index in nodes.resources.items():
            should = node.allocatable.get(name, 0) if node else 0
            yield from _differ(where, f"allocatable {name}", int(nodes.allocatable[index, row]), should)
    offered = {name for node in alive.values() for name in node.allocatable} | {"cpu", "memory", "ephemeral-storage"}
    yield from _differ("nodes", "resources with an index", set(nodes.resources), offered)


def _charges(cluster: Cluster) -> Iterator[str]:
    nodes, placed = cluster.nodes, _placed(cluster)
    for row in range(nodes._capacity):
        where = f"row {row} (unused)" if row >= nodes.rows else _at(cluster, row)
        pods = placed.get(row, [])
        yield from _differ(where, "pods", int(nodes.pods[row]), len(pods))
        asked: Counter[str] = Counter()
        for pod in pods:
            asked.update(pod.shape.requests)
        for name, index in nodes.resources.items():
            yield from _differ(where, f"requested {name}", int(nodes.requested[index, row]), asked[name])
        unoffered = {name: amount for name, amount in asked.items() if amount and name not in nodes.resources}
        has = {name: rows[row] for name, rows in nodes.unoffered.items() if row in rows}
        yield from _differ(where, "requested of what no node offers", has, unoffered)
        for index, name in enumerate(("cpu", "memory")):
            should = sum(pod.shape.nonzero[index] for pod in pods)
            yield from _differ(where, f"nonzero {name}", int(nodes.nonzero[index, row]), should)


def _columns(cluster: Cluster) -> Iterator[str]:
    nodes, alive = cluster.nodes, _alive(cluster)
    taints = {row: node.taints or None for row, node in alive.items()}
    yield from _column(cluster, "taints", nodes.taints, taints)
    for key, column in nodes.annotation_columns.items():
        should = {row: node.annotations[key] for row, node in alive.items() if key in node.annotations}
        yield from _column(cluster, f"annotation {key}", column, should)
    for key, column in nodes.columns.items():
        should = {row: node.labels[key] for row, node in alive.items() if key in node.labels}
        yield from _column(cluster, f"label {key}", column, should)


def _column(cluster: Cluster, what: str, column: Column[Any], should: Mapping[int, Any]) -> Iterator[str]:
    yield from _differ(what, "capacity", len(column.codes), cluster.nodes._capacity)
    users: Counter[int] = Counter()
    for row, code in enumerate(column.codes.tolist()):
        where = f"row {row} (unused)" if row >= cluster.nodes.rows else _at(cluster, row)
        users[code] += code != ABSENT
        yield from _differ(where, what, column.values[code] if code != ABSENT else None, should.get(row))
    for code, value in enumerate(column.values):
        where = f"{what}, code {code} ({value!r})"
        yield from _differ(where, "rows with it", column._rows_with[code], users[code])
        yield from _differ(where, "free", code in column._free, users[code] == 0)
        yield from _differ(where, "value kept", value is not None, users[code] > 0)
    codes = {value: code for code, value in enumerate(column.values) if value is not None}
    yield from _differ(what, "code by value", column._code, codes)
    yield from _differ(what, "free codes", len(column._free), len(set(column._free)))
    yield from _differ(what, "bytes of kept answers", column._kept_bytes, column.kept().size)
    for question, memo in column._memos.items():
        if memo.epoch == column._epoch and memo.known > len(column.values):
            yield f"{what}: answers to {_show(question)} are known for {memo.known} of {len(column.values)} codes"


def _images(cluster: Cluster) -> Iterator[str]:
    nodes = cluster.nodes
    should: dict[str, dict[int, int]] = {}
    for row, node in _alive(cluster).items():
        for name, size in node.images.items():
            should.setdefault(name, {})[row] = size
    yield from _by_key("image", nodes.images.by_name, should)
    for name, (rows, sizes) in nodes.images.arrays.items():
        has = dict(zip(rows.tolist(), sizes.tolist(), strict=True))
        yield from _differ(f"image {name}", "array of sizes", has, should.get(name))


def _ports(cluster: Cluster) -> Iterator[str]:
    should: dict[int, Counter[HostPort]] = {}
    for row, pods in _placed(cluster).items():
        for pod in pods:
            if pod.shape.host_ports:
                should.setdefault(row, Counter()).update(pod.shape.host_ports)
    yield from _by_key("host ports of row", cluster.nodes.ports.by_row(), should)
    for port, by_ip in cluster.nodes.ports._rows.items():
        if not by_ip or not all(by_ip.values()):
            yield f"host port {port}: an empty entry is kept"


def _by_key(what: str, has: Mapping[Any, Any], should: Mapping[Any, Any]) -> Iterator[str]:
    for key in [*has, *(key for key in should if key not in has)]:
        yield from _differ(f"{what} {key}", "entry", has.get(key), should.get(key))
