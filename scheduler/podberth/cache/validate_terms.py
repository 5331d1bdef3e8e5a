"""Recompute the classes, terms and sums of `podberth.cache.affinity_counts` from the objects, the slow way.

Part of `podberth.cache.validate`. Sums are kept as they were when somebody last asked; each is asked here once more.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any

from podberth.cache.cluster import Cluster
from podberth.cache.existing_terms import HARD, REPELS, TermSet
from podberth.cache.row_counts import ByTopology, RowCounts
from podberth.model.affinity import AffinityTerm
from podberth.model.pod import Pod

PodKey = tuple[str, Hashable, bool]


def validate_terms(cluster: Cluster) -> Iterator[str]:
    """One line for each thing that differs from what the objects say."""
    placed = [(placement.pod, placement.row) for placement in cluster.placements()]
    yield from _classes(cluster, placed)
    yield from _matching(cluster)
    yield from _selected(cluster, placed)
    yield from _on_rows(cluster, placed)
    yield from _terms(cluster, placed)
    yield from _towards(cluster, placed)


def _differ(where: str, what: str, has: Any, should: Any) -> Iterator[str]:
    if has != should:
        yield f"{where}: {what} is {has}, should be {should}"


def _counted(what: str, counts: RowCounts, should: Mapping[tuple[int, int], int]) -> Iterator[str]:
    """Both forms of the counts, and the rows that changed lately."""
    listed = {(number, row): count for number in counts._slots for row, count in counts.rows_of(number)}
    yield from _differ(what, "counts", listed, dict(should))
    numbers, rows, amounts = counts.everywhere()
    arrays = {
        (number, row): count
        for number, row, count in zip(numbers.tolist(), rows.tolist(), amounts.tolist(), strict=True)
        if count
    }
    yield from _differ(what, "counts in arrays", arrays, dict(should))
    yield from _differ(what, "places in use", len(counts), len(should))


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
    """Yield what the indexes find is what a look at each class finds."""
    pods = cluster.affinity.pods
    for terms, _, _ in cluster.affinity.sums:
        for term in terms:
            found = pods.matching(term)
            numbers = sorted(found) if isinstance(found, list) else found.nonzero()[0].tolist()
            should = sorted(one.number for one in pods.all() if _means(cluster, term, one.namespace, one.labels))
            yield from _differ(f"term {term}", "classes", numbers, should)


def _means(cluster: Cluster, term: AffinityTerm, namespace: str, of_pod: Mapping[str, str]) -> bool:
    """An incoming pod's term: namespaces that its selector means must exist, but for `{}`, which means all."""
    labels = cluster.namespaces.get(namespace)
    everywhere = not term.namespace_selector.nothing and not term.namespace_selector.requirements
    inside = namespace in term.namespaces or everywhere
    return (inside or (labels is not None and term.namespace_selector.matches(labels))) and term.selector.matches(
        of_pod
    )


def _carried_means(cluster: Cluster, term: AffinityTerm, namespace: str, of_pod: Mapping[str, str]) -> bool:
    """A placed pod's term towards a pod: an unknown namespace has no labels."""
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
    """Numbers per value of the topology key, from the pods that count; None: there is no sum, so nothing may count."""
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
    terms = [(term, REPELS) for term in shape.anti_affinity_terms]
    terms += [(term, HARD) for term in shape.affinity_terms]
    return terms + [(preferred.term, preferred.weight) for preferred in shape.preferred_pod_terms]


def _pairs(of: TermSet) -> tuple[tuple[AffinityTerm, int], ...]:
    return tuple((carried.term, carried.weight) for carried in of.carried)


def _terms(cluster: Cluster, placed: list[tuple[Pod, int]]) -> Iterator[str]:
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
    for asked in list(affinity.terms._asked.values()):
        pod = _like(asked.namespace, asked.labels, placed)
        if pod is None:
            continue
        existing = affinity.existing_terms(pod)
        where = f"terms that mean {asked.namespace}{dict(asked.labels)}"
        kinds: tuple[tuple[dict[str, ByTopology], Callable[[int], int]], ...] = (
            (existing.repelled, lambda weight: int(weight == REPELS)),
            (existing.hard, lambda weight: int(weight == HARD)),
            (existing.attracted, lambda weight: 0 if weight in (REPELS, HARD) else max(weight, 0)),
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
    """Some placed pod with these very labels: what was asked about pods that are gone can't be asked again."""
    return next((pod for pod, _ in placed if pod.labels is labels and pod.namespace == namespace), None)
