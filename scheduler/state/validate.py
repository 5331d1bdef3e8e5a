"""Recompute every column, count and index from the objects, by the plainest Python, and name each difference.

The mirror of kube-scheduler `backend/cache/debugger/comparer.go`. Run at the end of every engine test.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from scheduler.model.affinity import AffinityTerm
from scheduler.model.node import Node
from scheduler.model.pod import Pod
from scheduler.model.shape import HostPort
from scheduler.state.cluster import Cluster
from scheduler.state.column import ABSENT, Column
from scheduler.state.incidence import HARD, REPELS, ByTopology, Carried, OnRows, PodClass, Selected
from scheduler.state.nodes import CPU, EPHEMERAL, MEMORY
from scheduler.state.validate_storage import validate_storage


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
        *_classes(cluster),
        *_selected(cluster),
        *_on_rows(cluster),
        *_carried(cluster),
        *validate_storage(cluster),
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
    for key, column in nodes._labels.items():
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
    for question, memo in column._memos.items():
        if memo.epoch == column._epoch and memo.known > len(column.values):
            yield f"{what}: answers to {_show(question)} are known for {memo.known} of {len(column.values)} codes"


def _images(cluster: Cluster) -> Iterator[str]:
    nodes = cluster.nodes
    should: dict[str, dict[int, int]] = {}
    for row, node in _alive(cluster).items():
        for names, size in node.images:
            for name in names:
                should.setdefault(name, {})[row] = size
    yield from _by_key("image", nodes._images, should)
    for name, (rows, sizes) in nodes._image_arrays.items():
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


def _classes(cluster: Cluster) -> Iterator[str]:
    incidence = cluster.incidence
    rows: dict[Any, Counter[int]] = {}
    for row, found in _placed(cluster).items():
        for pod in found:
            rows.setdefault((pod.namespace, frozenset(pod.labels.items()), pod.terminating), Counter())[row] += 1
    for key in rows.keys() - incidence._classes.keys():
        yield f"class {_show(key)}: is missing"
    idle = 0
    for key, pods in incidence._classes.items():
        where = _class(pods)
        yield from _differ(where, "key", key, (pods.namespace, frozenset(pods.labels.items()), pods.terminating))
        yield from _differ(where, "rows", pods.rows, dict(rows.get(key, {})))
        idle += not pods.rows
        wanted = [s for s in incidence._selected.values() if all(_means(cluster, t, pods) for t in s.terms)]
        yield from _differ(where, "selected by", _names(pods.selected), _names(wanted))
        by_row = [c for c in incidence._on_rows.values() if _on_rows_means(c, pods)]
        yield from _differ(where, "counted by row", sorted(map(id, pods.on_rows)), sorted(map(id, by_row)))
        seen = incidence._carried_log[: pods.carried_seen]
        towards = [c for c in seen if _carried_means(cluster, c.term, pods)]
        repelled = [c for c in towards if c.weight == REPELS]
        preferred = [c for c in towards if c.weight != REPELS]
        yield from _differ(where, "repelled by", _names(pods.repelled_by), _names(repelled))
        yield from _differ(where, "preferred by", _names(pods.preferred_by), _names(preferred))
        if pods.carried_seen > len(incidence._carried_log):
            yield f"{where}: has seen {pods.carried_seen} of {len(incidence._carried_log)} carried terms"
    yield from _differ("classes", "idle", incidence._idle, idle)


def _means(cluster: Cluster, term: AffinityTerm, pods: PodClass) -> bool:
    """An incoming pod's term: namespaces that its selector means must exist, but for `{}`, which means all."""
    labels = cluster.namespaces.get(pods.namespace)
    everywhere = not term.namespace_selector.nothing and not term.namespace_selector.requirements
    inside = pods.namespace in term.namespaces or everywhere
    return (inside or (labels is not None and term.namespace_selector.matches(labels))) and term.selector.matches(
        pods.labels
    )


def _carried_means(cluster: Cluster, term: AffinityTerm, pods: PodClass) -> bool:
    """A placed pod's term towards a pod: an unknown namespace has no labels."""
    labels = cluster.namespaces.get(pods.namespace, {})
    inside = pods.namespace in term.namespaces or term.namespace_selector.matches(labels)
    return inside and term.selector.matches(pods.labels)


def _on_rows_means(count: OnRows, pods: PodClass | Pod) -> bool:
    """Pods of one namespace, those on their way out only where asked for."""
    there = count.leaving or not pods.terminating
    return pods.namespace == count.namespace and there and count.selector.matches(pods.labels)


def _class(pods: PodClass) -> str:
    return f"class {pods.namespace}{dict(sorted(pods.labels.items()))}{' terminating' if pods.terminating else ''}"


def _names(counts: Iterable[Selected | Carried]) -> list[str]:
    """Sorted, for the order of these lists has no meaning; by identity, for equal terms share one count."""
    return sorted(f"{_what(count)} at {id(count):x}" for count in counts)


def _what(count: Selected | Carried) -> str:
    if isinstance(count, Carried):
        kind = {REPELS: "required anti-affinity", HARD: "required affinity"}.get(count.weight, f"weight {count.weight}")
        return f"{count.term} ({kind})"
    return " and ".join(map(str, count.terms))


def _selected(cluster: Cluster) -> Iterator[str]:
    for (terms, topology_key), count in cluster.incidence._selected.items():
        where = f"selected {_what(count)} per {topology_key}"
        yield from _differ(where, "terms", count.terms, terms)
        pods = [
            (row, pod)
            for row, found in _placed(cluster).items()
            for pod in found
            if all(_means(cluster, term, PodClass(pod.namespace, pod.labels)) for term in terms)
        ]
        yield from _counts(cluster, where, count, topology_key, [row for row, _ in pods])


def _on_rows(cluster: Cluster) -> Iterator[str]:
    for question, count in cluster.incidence._on_rows.items():
        where = f"pods of {count.namespace} with {count.selector}"
        yield from _differ(where, "question", (count.namespace, count.selector, count.leaving), question)
        should = {
            row: number
            for row, pods in _placed(cluster).items()
            if (number := sum(_on_rows_means(count, pod) for pod in pods))
        }
        has = {row: number for row, number in enumerate(count.counts.tolist()) if number}
        yield from _differ(where, "counts by row", has, should)


def _carried(cluster: Cluster) -> Iterator[str]:
    incidence = cluster.incidence
    should: dict[tuple[AffinityTerm, int], list[int]] = {}
    for row, pods in _placed(cluster).items():
        for pod in pods:
            shape = pod.shape
            for term in shape.anti_affinity_terms:
                should.setdefault((term, REPELS), []).append(row)
            for term in shape.affinity_terms:
                should.setdefault((term, HARD), []).append(row)
            for preferred in shape.preferred_pod_terms:
                should.setdefault((preferred.term, preferred.weight), []).append(row)
    for key in should.keys() - incidence._carried.keys():
        yield f"carried {key[0]} (weight {key[1]}): is missing"
    for key, carried in incidence._carried.items():
        where = f"carried {_what(carried)}"
        yield from _differ(where, "term and weight", (carried.term, carried.weight), key)
        yield from _differ(where, "carriers", carried.carriers, len(should.get(key, [])))
        yield from _counts(cluster, where, carried, carried.term.topology_key, should.get(key, []))
    log, kept = _names(incidence._carried_log), _names(incidence._carried.values())
    yield from _differ("carried terms", "log", log, kept)
    for shape, found in incidence._carried_by_shape.items():
        for carried in found:
            if incidence._carried.get((carried.term, carried.weight)) is not carried:
                yield f"carried {_what(carried)}: the shape {id(shape):x} holds one that is no longer counted"


def _counts(cluster: Cluster, where: str, count: ByTopology, topology_key: str, rows: Iterable[int]) -> Iterator[str]:
    """Counts per value of the topology key, from the rows of the pods that count."""
    if count.column is not cluster.nodes._labels.get(topology_key):
        yield f"{where}: counts on another column than that of {topology_key}"
        return
    alive = _alive(cluster)
    should: Counter[Any] = Counter()
    for row in rows:
        if row in alive and topology_key in alive[row].labels:
            should[alive[row].labels[topology_key]] += 1
    yield from _differ(where, "total", count.total, sum(should.values()))
    has = {}
    for code, number in enumerate(count.counts.tolist()):
        if number:
            has[count.column.values[code] if code < len(count.column.values) else f"code {code}"] = number
    yield from _differ(where, "counts", has, dict(should))
    by_row = count.by_row(cluster.nodes.rows).tolist()
    for row, number in enumerate(by_row):
        value = alive[row].labels.get(topology_key) if row in alive else None
        yield from _differ(_at(cluster, row), where, number, should.get(value, 0))
