"""What PodTopologySpread says of a node that it rejects: the skew that the pod would make there."""

from collections.abc import Iterator, Sequence

import numpy as np

from scheduler.framework.explaining import Detail, Inquiry, domain
from scheduler.model.spread import SpreadConstraint
from scheduler.plugins.pod_topology_spread.domains import Domains, Spread


def uneven(
    inquiry: Inquiry, row: int, constraints: Sequence[SpreadConstraint], spread: Spread | None
) -> Iterator[tuple[str, Detail]]:
    """The constraints that a node would not keep: their topology keys, with the numbers that the filter goes by."""
    labels = inquiry.node(row).labels
    for i, constraint in enumerate(constraints if spread is not None else ()):
        key, most = constraint.topology_key, constraint.max_skew
        value = labels.get(key)
        if value is None:
            yield key, (f"node has no label {key}", {"topologyKey": key, "domain": None, "maxSkew": most})
        elif spread is not None:
            domains = spread.domains[i]
            counts = domains.counts(inquiry.pod, inquiry.cluster)
            here, lowest = int(counts[domains.codes[row]]), domains.lowest(counts)
            skew = here + int(constraint.selector.matches(inquiry.pod.labels)) - lowest
            if skew > most:
                least = _least(inquiry, domains)
                text = f"{domain(key, value)} has {here} of its pods, {least}: skew {skew}, at most {most}"
                numbers = {"pods": here, "fewest": lowest, "skew": skew, "maxSkew": most}
                yield key, (text, {"topologyKey": key, "domain": value, **numbers})


def _least(inquiry: Inquiry, domains: Domains) -> str:
    """The emptiest domain, or why the least counts as 0."""
    key, wanted = domains.constraint.topology_key, domains.constraint.min_domains

    def find() -> str:
        counts, codes = domains.counts(inquiry.pod, inquiry.cluster), np.flatnonzero(domains.inhabited)
        lowest = counts[codes].min(initial=np.iinfo(np.int64).max)
        if domains.number < wanted and lowest:
            return f"with fewer than {wanted} domains the least counts as 0"
        values = inquiry.cluster.nodes.label(key).values
        return f"{domain(key, min(values[code] or '' for code in codes if counts[code] == lowest))} has {lowest}"

    return inquiry.once(("PodTopologySpread", domains.constraint), find)
