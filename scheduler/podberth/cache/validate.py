"""Recomputes every column, count and index from the objects, by the plainest Python, and names each difference.

The mirror of kube-scheduler `backend/cache/debugger/comparer.go`. Run at the end of every engine test.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any

from podberth.cache.cluster import Cluster
from podberth.cache.column import ABSENT, Column
from podberth.cache.devices import Devices, held
from podberth.cache.existing_terms import HARD_WEIGHT, NONE, REPELS_WEIGHT, ExistingTermSums, TermSet
from podberth.cache.groups import GroupState
from podberth.cache.nodes import CPU, EPHEMERAL, MEMORY, capped
from podberth.cache.row_counts import ByTopology, RowCounts
from podberth.cache.volumes import NOT_INSTALLED, UNLIMITED, of_translated
from podberth.model.devices import Allocation, DeviceID
from podberth.model.node import Node
from podberth.model.pod import Pod
from podberth.model.resources import IMPLICIT_PREFIX
from podberth.model.shape import HostPort
from podberth.model.terms import AffinityTerm


def validate(cluster: Cluster) -> list[str]:
    """Return one line for each thing that differs from what the objects say: where, what it has, what it should be."""
    return [
        *_rows(cluster),
        *_placements(cluster),
        *_nodes(cluster),
        *_charges(cluster),
        *_columns(cluster),
        *_images(cluster),
        *_ports(cluster),
        *_terms(cluster),
        *_storage(cluster),
        *validate_devices(cluster),
        *_groups(cluster),
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
    yield from _differ("placed pods", "numbers by priority", +cluster.priorities, of_priority)
    for uid, placement in cluster._placed.items():
        where = f"pod {placement.pod.key}"
        yield from _differ(where, "uid it is placed under", uid, placement.pod.uid)
        if not 0 <= placement.row < cluster.nodes.rows or cluster.nodes.names[placement.row] is None:
            yield f"{where}: row {placement.row} is not in use"
        elif not placement.assumed:
            name = cluster.nodes.names[placement.row]
            yield from _differ(where, "row's node name", name, placement.pod.node_name)
        by_row.setdefault(placement.row, {})[uid] = placement
    for row in sorted({*by_row, *cluster.on_row}):
        has = {uid: id(one) for uid, one in cluster.on_row.get(row, {}).items()}
        should = {uid: id(one) for uid, one in by_row.get(row, {}).items()}
        yield from _differ(_at(cluster, row), "placements", has, should)
        if row in cluster.on_row and not has:
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
    beyond: dict[tuple[bool, int, int], int] = {}
    for row in range(nodes._capacity):
        where = f"row {row} (unused)" if row >= nodes.rows else _at(cluster, row)
        pods = placed.get(row, [])
        yield from _differ(where, "pods", int(nodes.pods[row]), len(pods))
        asked: Counter[str] = Counter()
        for pod in pods:
            asked.update(pod.shape.requests)
        for name, index in nodes.resources.items():
            yield from _differ(where, f"requested {name}", int(nodes.requested[index, row]), capped(asked[name]))
            if asked[name] != capped(asked[name]):
                beyond[False, index, row] = asked[name]
        unoffered = {name: amount for name, amount in asked.items() if amount and name not in nodes.resources}
        has = {name: rows[row] for name, rows in nodes.unoffered.items() if row in rows}
        yield from _differ(where, "requested of what no node offers", has, unoffered)
        for index, name in enumerate(("cpu", "memory")):
            should = sum(pod.shape.nonzero[index] for pod in pods)
            yield from _differ(where, f"nonzero {name}", int(nodes.nonzero[index, row]), capped(should))
            if should != capped(should):
                beyond[True, index, row] = should
    too_large = {key: exact for key, exact in nodes._beyond.items() if exact != capped(exact)}
    yield from _differ("rows", "sums that columns can't hold", too_large, beyond)


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


PodKey = tuple[str, Hashable, bool]


def _terms(cluster: Cluster) -> Iterator[str]:
    """Yield one line for each thing that differs from what the objects say."""
    placed = [(placement.pod, placement.row) for placement in cluster.placements()]
    yield from _classes(cluster, placed)
    yield from _matching(cluster)
    yield from _selected(cluster, placed)
    yield from _on_rows(cluster, placed)
    yield from _term_sets(cluster, placed)
    yield from _towards(cluster, placed)


def _counted(what: str, counts: RowCounts, should: Mapping[tuple[int, int], int]) -> Iterator[str]:
    """Compare the journal of each thing, and those of all together."""
    listed = {(number, row): count for number in range(len(counts._journals)) for row, count in counts.rows_of(number)}
    yield from _differ(what, "counts", listed, dict(should))
    together: Counter[tuple[int, int]] = Counter()
    for number, row, count in zip(*(one.tolist() for one in counts.everywhere()), strict=True):
        together[number, row] += count
    yield from _differ(what, "counts of all", {pair: count for pair, count in together.items() if count}, dict(should))
    yield from _differ(what, "count", len(counts), sum(should.values()))


def _classes(cluster: Cluster, placed: list[tuple[Pod, int]]) -> Iterator[str]:
    pods = cluster.affinity.pods
    should: dict[PodKey, Counter[int]] = {}
    for pod, row in placed:
        should.setdefault((pod.namespace, frozenset(pod.labels.items()), pod.terminating), Counter())[row] += 1
    numbers = {}
    for one in pods.all():
        where = f"class {one.namespace}{dict(one.labels)}"
        numbers[one.number] = one
        yield from _differ(where, "key", one.key, (one.namespace, frozenset(one.labels.items()), one.terminating))
        yield from _differ(where, "class by number", pods.get(one.number) is one, True)
        yield from _differ(where, "pods", one.pods, sum(should.get(one.key, Counter()).values()))
        yield from _differ(where, "idle", one.number in pods._idle, not one.pods)
    yield from _differ("classes", "with pods", {one.key for one in pods.all() if one.pods}, set(should))
    by_number = {(number, row): n for number, one in numbers.items() for row, n in should.get(one.key, {}).items()}
    yield from _counted("classes", pods.placed, by_number)
    yield from _differ("classes", "in the index", pods._index.alive, len(numbers))
    names = {name: cluster.namespaces[name] for name in pods._number_of}
    yield from _differ("namespaces", "in the index", names, dict(cluster.namespaces))


def _matching(cluster: Cluster) -> Iterator[str]:
    """Compare what the indexes find with what a look at each class finds."""
    pods = cluster.affinity.pods
    for terms, _, _ in cluster.affinity.sums:
        for term in terms:
            found = pods.matching(term)
            numbers = sorted(found) if isinstance(found, list) else found.nonzero()[0].tolist()
            should = sorted(one.number for one in pods.all() if _means(cluster, term, one.namespace, one.labels))
            yield from _differ(f"term {term}", "classes", numbers, should)


def _means(cluster: Cluster, term: AffinityTerm, namespace: str, of_pod: Mapping[str, str]) -> bool:
    """Return whether an incoming pod's term selects a pod with these labels there. A namespace must exist for its
    selector to select it, but for `{}`, which selects all.
    """
    labels = cluster.namespaces.get(namespace)
    everywhere = not term.namespace_selector.nothing and not term.namespace_selector.requirements
    inside = namespace in term.namespaces or everywhere
    return (inside or (labels is not None and term.namespace_selector.matches(labels))) and term.selector.matches(
        of_pod
    )


def _carried_means(cluster: Cluster, term: AffinityTerm, namespace: str, of_pod: Mapping[str, str]) -> bool:
    """Return whether a placed pod's term selects a pod with these labels there. An unknown namespace has no labels."""
    labels = cluster.namespaces.get(namespace, {})
    inside = namespace in term.namespaces or term.namespace_selector.matches(labels)
    return inside and term.selector.matches(of_pod)


def _selected(cluster: Cluster, placed: list[tuple[Pod, int]]) -> Iterator[str]:
    affinity = cluster.affinity
    for (terms, amounts, key), kept in list(affinity.sums.items()):
        where = f"pods that {' and '.join(map(str, terms))} mean"

        def weight(pod: Pod, terms: Any = terms, amounts: Any = amounts) -> int:
            means = [_means(cluster, term, pod.namespace, pod.labels) for term in terms]
            if amounts is None:
                return int(all(means))
            return sum(amount for amount, met in zip(amounts, means, strict=True) if met)

        kept.follow(affinity.pods, cluster.nodes)
        yield from _by_topology(cluster, where, kept, key, placed, weight)


def _by_topology(
    cluster: Cluster,
    where: str,
    kept: ByTopology | None,
    key: str,
    placed: list[tuple[Pod, int]],
    weight: Callable[[Pod], int],
) -> Iterator[str]:
    """Return the numbers per value of the topology key, from the pods that count; None: there is no sum, so none may
    count.
    """
    objects = cluster.nodes.objects
    should: Counter[str] = Counter()
    total = 0
    for pod, row in placed:
        node, counts = objects[row], weight(pod)
        if node is not None and key in node.labels and counts:
            should[node.labels[key]] += counts
            total += 1
    if kept is None:
        yield from _differ(where, f"counts per {key}", {}, dict(should))
        return
    column = kept.column
    if column is None:
        has_key = any(node is not None and key in node.labels for node in objects)
        yield from _differ(where, f"nodes with {key}", has_key, False)
        return
    yield from _differ(where, f"column of {key}", column is cluster.nodes.columns.get(key), True)
    has = {value: number for value, number in zip(column.values, kept.by_code().tolist(), strict=False) if number}
    yield from _differ(where, f"counts per {key}", has, {value: number for value, number in should.items() if number})
    yield from _differ(where, "the last count", kept.by_code().tolist()[-1], 0)
    by_row = [should.get(node.labels.get(key, ""), 0) if node and key in node.labels else 0 for node in objects]
    yield from _differ(where, f"counts by row per {key}", kept.by_row(cluster.nodes.rows).tolist(), by_row)
    yield from _differ(where, "total", bool(kept.total), bool(total))


def _on_rows(cluster: Cluster, placed: list[tuple[Pod, int]]) -> Iterator[str]:
    affinity = cluster.affinity
    for (namespace, selector, leaving), kept in list(affinity._on_rows.items()):
        kept.follow(affinity.pods)
        should = Counter(
            row
            for pod, row in placed
            if (leaving or not pod.terminating) and namespace in (None, pod.namespace) and selector.matches(pod.labels)
        )
        has = {row: number for row, number in enumerate(kept.counts.tolist()) if number}
        yield from _differ(
            f"pods of {namespace or 'all namespaces'} with {selector}", "counts by row", has, dict(should)
        )


def _carried_by(pod: Pod) -> list[tuple[AffinityTerm, int]]:
    shape = pod.shape
    terms = [(term, REPELS_WEIGHT) for term in shape.anti_affinity_terms]
    terms += [(term, HARD_WEIGHT) for term in shape.affinity_terms]
    return terms + [(preferred.term, preferred.weight) for preferred in shape.preferred_pod_terms]


def _pairs(of: TermSet) -> tuple[tuple[AffinityTerm, int], ...]:
    return tuple((carried.term, carried.weight) for carried in of.carried)


def _term_sets(cluster: Cluster, placed: list[tuple[Pod, int]]) -> Iterator[str]:
    kept = cluster.affinity.terms.sets
    should: dict[tuple[tuple[AffinityTerm, int], ...], Counter[int]] = {}
    for pod, row in placed:
        terms = tuple(_carried_by(pod))
        if terms:
            should.setdefault(terms, Counter())[row] += 1
    by_number: dict[tuple[int, int], int] = {}
    in_sets: Counter[tuple[int, int]] = Counter()
    for one in kept.all():
        where = f"set of terms {one.number}"
        rows = should.get(_pairs(one), Counter())
        by_number |= {(one.number, row): number for row, number in rows.items()}
        yield from _differ(where, "pods that carry it", one.pods, sum(rows.values()))
        yield from _differ(where, "idle", one in kept._idle, not one.pods)
        yield from _differ(where, "set by number", kept._sets[one.number] is one, True)
        yield from _differ(where, "gone", one.gone, False)
        in_sets.update((kept._by_term[carried.term, carried.weight].number, one.number) for carried in one.carried)
    yield from _differ("sets of terms", "known", {_pairs(one) for one in kept.all() if one.pods}, set(should))
    yield from _counted("sets of terms", kept.placed, by_number)
    yield from _counted("terms in sets", kept.in_sets, in_sets)
    for term in kept.terms():
        yield from _differ(
            f"term {term.term}", "sets", term.sets, sum(n for (t, _), n in in_sets.items() if t == term.number)
        )
        yield from _differ(f"term {term.term}", "term by number", kept.term(term.number) is term, True)
        yield from _differ(f"term {term.term}", "counting", bool(kept.counting[term.number]), True)
    yield from _differ("existing terms", "in the index", kept.index.alive, len(kept.terms()))


def _towards(cluster: Cluster, placed: list[tuple[Pod, int]]) -> Iterator[str]:
    affinity = cluster.affinity
    for asked in list(affinity.terms.asked.values()):
        pod = _like(asked.namespace, asked.labels, placed)
        if pod is None:
            continue
        existing = affinity.existing_terms(pod) or ExistingTermSums(NONE)
        where = f"terms that mean {asked.namespace}{dict(asked.labels)}"
        kinds: tuple[tuple[dict[str, ByTopology], Callable[[int], int]], ...] = (
            (existing.repelled, lambda weight: int(weight == REPELS_WEIGHT)),
            (existing.hard, lambda weight: int(weight == HARD_WEIGHT)),
            (existing.attracted, lambda weight: 0 if weight in (REPELS_WEIGHT, HARD_WEIGHT) else max(weight, 0)),
            (existing.avoided, lambda weight: min(weight, 0)),
        )
        for sums, wanted in kinds:
            keys = {term.topology_key for other, _ in placed for term, weight in _carried_by(other) if wanted(weight)}
            for key in keys | set(sums):

                def weight(other: Pod, key: str = key, wanted: Any = wanted, pod: Pod = pod) -> int:
                    return sum(
                        wanted(weight)
                        for term, weight in _carried_by(other)
                        if term.topology_key == key and _carried_means(cluster, term, pod.namespace, pod.labels)
                    )

                yield from _by_topology(cluster, where, sums.get(key), key, placed, weight)


def _like(namespace: str, labels: Mapping[str, str], placed: list[tuple[Pod, int]]) -> Pod | None:
    """Return a placed pod with exactly these labels: what was asked about pods that are gone can't be asked again."""
    return next((pod for pod, _ in placed if pod.labels is labels and pod.namespace == namespace), None)


def _storage(cluster: Cluster) -> Iterator[str]:
    """Yield one line for each thing that differs from what the objects say."""
    yield from _users(cluster)
    yield from _storage_classes(cluster)
    yield from _csi_nodes(cluster)
    yield from _attached(cluster)


def _users(cluster: Cluster) -> Iterator[str]:
    storage = cluster.storage
    references: Counter[tuple[str, str]] = Counter()
    disks: Counter[tuple[tuple[str, ...], int, bool]] = Counter()
    for placement in cluster.placements():
        pod = placement.pod
        references.update((pod.namespace, used.name) for used in pod.shape.volumes.claims if not used.ephemeral)
        disks.update((disk.key, placement.row, disk.exclusive) for disk in pod.shape.volumes.disks)
    yield from _differ("storage", "references to claims", dict(storage.references), dict(references))
    has = {
        (key, row, exclusive): count
        for key, rows in storage._disks.items()
        for row, users in rows.items()
        for exclusive, count in ((True, users.exclusive), (False, users.shared))
        if count
    }
    yield from _differ("storage", "users of disks", has, dict(disks))
    yield from _differ("storage", "suppositions outside a dry run", dict(storage._supposed), {})


def _storage_classes(cluster: Cluster) -> Iterator[str]:
    storage = cluster.storage
    by_class: dict[str, set[str]] = {}
    for volume in storage.volumes:
        by_class.setdefault(volume.storage_class, set()).add(volume.name)
    yield from _differ(
        "storage", "volumes by class", {name: set(found) for name, found in storage._by_class.items()}, by_class
    )
    for name, capacities in storage._capacities.items():
        for key, capacity in capacities.items():
            yield from _differ("storage", f"class of capacity {key}", capacity.storage_class, name)
            yield from _differ("storage", f"indexed class of capacity {key}", storage._class_of_capacity.get(key), name)
    for name, volume in storage.volumes.assumed.items():
        yield from _version(f"volume {name}", volume.resource_version, storage.volumes.stored(name))
    for key, claim in storage.claims.assumed.items():
        yield from _version(f"claim {key}", claim.resource_version, storage.claims.stored(key))


def _version(what: str, assumed: str, stored: Any) -> Iterator[str]:
    yield from _differ(
        "storage", f"version of assumed {what}", assumed, None if stored is None else stored.resource_version
    )


def _csi_nodes(cluster: Cluster) -> Iterator[str]:
    storage = cluster.storage
    attached = storage.attached
    drivers = {driver for csi_node in storage.csi_nodes.values() for driver in csi_node.drivers}
    plugins = {plugin for csi_node in storage.csi_nodes.values() for plugin in csi_node.migrated}
    for row, node in cluster.nodes.live():
        csi_node = storage.csi_nodes.get(node.name)
        yield from _differ(
            "storage", f"CSINode of {node.name}", bool(attached.with_csi_node()[row]), csi_node is not None
        )
        for driver in {*drivers, *attached._limits}:
            limit: int | None = NOT_INSTALLED
            if csi_node is not None and driver in csi_node.drivers:
                limit = csi_node.drivers[driver]
            should = UNLIMITED if limit is None else limit
            yield from _differ(
                "storage", f"limit of {driver} on {node.name}", int(attached.limits(driver)[row]), should
            )
        for plugin in {*plugins, *attached._migrated}:
            migrated = csi_node is not None and plugin in csi_node.migrated
            yield from _differ(
                "storage", f"migration of {plugin} on {node.name}", bool(attached.migrated(plugin)[row]), migrated
            )


def _attached(cluster: Cluster) -> Iterator[str]:
    attached = cluster.storage.attached
    holders: dict[str, set[int]] = {}
    known = set(attached._counts)
    for row, node in cluster.nodes.live():
        volumes: dict[str, str] = {}
        for pod in cluster.pods_on(row):
            volumes.update(_of_pod(cluster, pod, with_csi_node=node.name in cluster.storage.csi_nodes))
        for volume in volumes:
            holders.setdefault(volume, set()).add(row)
        drivers = Counter(volumes.values())
        others = {}
        for attachment in cluster.storage.attachments.values():
            found = cluster.storage.volumes.stored(attachment.volume)
            if attachment.node == node.name and attachment.attacher and found is not None and found.driver:
                others[f"{attachment.attacher}/{found.handle}"] = attachment.attacher
        drivers.update(driver for volume, driver in others.items() if volume not in volumes)
        for driver in {*known, *drivers}:
            count = int(attached.counts(driver)[row])
            yield from _differ("storage", f"volumes of {driver} on {node.name}", count, drivers[driver])
    for volume in {*holders, *attached._holders}:
        yield from _differ(
            "storage", f"rows that hold {volume!r}", attached.holders(volume), holders.get(volume, set())
        )


def _of_pod(cluster: Cluster, pod: Pod, *, with_csi_node: bool) -> dict[str, str]:
    found: dict[str, str] = {}
    for used in pod.shape.volumes.claims:
        claim = cluster.storage.claims.stored((pod.namespace, used.claim(pod.name)))
        if claim is None or (used.ephemeral and claim.owner != pod.uid):
            continue
        counted = cluster.storage.attached.of_claim(claim, with_csi_node=with_csi_node)
        if counted is not None:
            found[counted[0]] = counted[1]
    for _, disk in pod.shape.volumes.translated if with_csi_node else ():
        inline = of_translated(disk)
        if inline is not None:
            found[inline[0]] = inline[1]
    return found


def validate_devices(cluster: Cluster) -> Iterator[str]:
    """Yield one line for each thing that differs from what the objects say."""
    devices = cluster.devices
    yield from _indexes(devices)
    yield from _holders(devices)
    served = {f"{IMPLICIT_PREFIX}{name}" for name in devices.classes}
    served |= {one.extended_resource for one in devices.classes.values() if one.extended_resource is not None}
    yield from _differ("devices", "resources that classes serve", devices.served, served)
    yield from _differ("devices", "those that nodes know of", cluster.nodes.served, served)


def _indexes(devices: Devices) -> Iterator[str]:
    pools: dict[Any, set[str]] = {}
    on_node: dict[str, set[str]] = {}
    shared = set()
    for one in devices.slices.values():
        pools.setdefault(one.pool_id, set()).add(one.name)
        if one.access.node_name:
            on_node.setdefault(one.access.node_name, set()).add(one.name)
        else:
            shared.add(one.name)
    yield from _differ("devices", "slices by pool", {pool: set(found) for pool, found in devices._pools.items()}, pools)
    yield from _differ(
        "devices", "slices by node", {node: set(found) for node, found in devices._on_node.items()}, on_node
    )
    yield from _differ("devices", "slices of no node", set(devices._shared), shared)
    made: dict[Any, set[Any]] = {}
    for claim in devices.claims.values():
        if claim.owner is not None:
            made.setdefault(claim.owner, set()).add(claim.key)
    yield from _differ(
        "devices", "claims made for pods", {owner: set(keys) for owner, keys in devices._made.items()}, made
    )
    serving: dict[str, set[str]] = {}
    for kind in devices.classes.values():
        if kind.extended_resource is not None:
            serving.setdefault(kind.extended_resource, set()).add(kind.name)
    by_resource = {resource: set(found) for resource, found in devices._by_resource.items()}
    yield from _differ("devices", "classes by resource", by_resource, serving)
    coming = {flight.key: uid for uid, flight in devices.in_flight.items() if flight.key and uid.startswith("\0")}
    yield from _differ("devices", "claims that are being made", devices._to_be_made, coming)


def _holders(devices: Devices) -> Iterator[str]:
    should: dict[str, Allocation] = {
        claim.uid: claim.allocation for claim in devices.claims.values() if claim.allocation is not None
    }
    should |= {uid: flight.allocation for uid, flight in devices.in_flight.items()}
    has = devices.allocated.claims
    yield from _differ("devices", "who holds devices", set(has), set(should))
    counted, real = ({uid: one.devices for uid, one in those.items()} for those in (has, should))
    yield from _differ("devices", "what they hold", counted, real)
    exclusive: set[tuple[DeviceID, str]] = set()
    used: dict[DeviceID, dict[str, int]] = {}
    shares: dict[DeviceID, dict[str, int]] = {}
    for uid, allocation in should.items():
        for device in held(allocation.devices):
            if device.share is None:
                exclusive.add((device.id, uid))
            else:
                number = shares.setdefault(device.id, {})
                number[uid] = number.get(uid, 0) + 1
                amounts = used.setdefault(device.id, {})
                for name, amount in (device.consumed or {}).items():
                    amounts[name] = amounts.get(name, 0) + amount.nano
    taken = {(device, uid) for device, uids in devices.allocated._exclusive.items() for uid in uids}
    yield from _differ("devices", "devices that are taken", taken, exclusive)
    yield from _differ("devices", "shares of devices", devices.allocated._shares, shares)
    sums = {device: {name: amount for name, amount in amounts.items() if amount} for device, amounts in used.items()}
    sums = {device: amounts for device, amounts in sums.items() if amounts}
    yield from _differ("devices", "what is used of shared devices", devices.allocated._used, sums)


def _groups(cluster: Cluster) -> Iterator[str]:
    """Yield one line for each thing that differs."""
    groups = cluster.pod_groups
    members = {uid: str(state.key) for state in groups for uid in state.pods}
    yield from _differ("members", "by UID", {uid: str(key) for uid, key in groups.members.items()}, members)
    for key, state in groups._groups.items():
        where = f"pod group {key}"
        yield from _differ(where, "key", state.key, key)
        if state.object is not None:
            yield from _differ(where, "key of its object", state.object.key, key)
        if state.empty:
            yield f"{where}: has neither object nor pods and is kept"
        yield from _parts(cluster, where, state)
    for placement in cluster.placements():
        pod = placement.pod
        if pod.scheduling_group is not None and groups.members.get(pod.uid) != pod.scheduling_group:
            yield f"pod {pod.key}: is on a node and not known as a member of {pod.scheduling_group}"


def _parts(cluster: Cluster, where: str, state: GroupState) -> Iterator[str]:
    parts = (*state.unscheduled, *state.assumed, *state.assigned)
    yield from _differ(where, "pods in its parts", sorted(parts), sorted(state.pods))
    should: dict[str, set[str]] = {"unscheduled": set(), "assumed": set(), "assigned": set()}
    for uid, pod in state.pods.items():
        yield from _differ(where, f"group of pod {pod.key}", pod.scheduling_group, state.key)
        placement = cluster.placement(uid)
        if placement is None:
            should["unscheduled"].add(uid)
        else:
            should["assumed" if placement.assumed else "assigned"].add(uid)
    for part, uids in should.items():
        yield from _differ(where, f"{part} pods", set(getattr(state, part)), uids)
