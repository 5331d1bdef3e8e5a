"""Explains PodTopologySpread's rejections: the skew that the pod would make there."""

from collections.abc import Iterator, Sequence

import numpy as np

from podberth.explain.changes import Fix, HonorPolicy, RaiseMaxSkew, SoftenSpread
from podberth.framework.explaining import Detail, Explainer, Inquiry, domain
from podberth.framework.status import Reason
from podberth.plugins.pod_topology_spread import Domains, PodTopologySpread


class PodTopologySpreadExplainer(Explainer):
    """Says of a node that PodTopologySpread rejects: the skew that the pod would make there."""

    plugin: PodTopologySpread

    def explain(self, inquiry: Inquiry, row: int, reason: Reason) -> Detail:
        """Return the matching pods in the node's domains, those in the emptiest, and the skew that is allowed."""
        found = [detail for _, detail in self._uneven(inquiry, row)]
        return "; ".join(text for text, _ in found), {"constraints": [numbers for _, numbers in found]}

    def fixes(self, inquiry: Inquiry, row: int, reasons: Sequence[Reason]) -> list[Fix]:
        """Count no nodes where the pod can't go, allow the skew that there would be, or make a preference of it."""
        if not inquiry.pod.shape.spread:
            return [()]  # the constraints are the profile's; what other plugins offer may be enough
        skews: dict[str, int | None] = {}
        for key, (_, numbers) in self._uneven(inquiry, row):
            skew = numbers.get("skew")  # without the label, a node has none by any constraint of the key
            skews[key] = None if skew is None else max(skews.get(key) or skew, skew)
        softened: Fix = tuple(map(SoftenSpread, skews))
        raised: Fix = tuple(RaiseMaxSkew(key, skew) for key, skew in skews.items() if skew is not None)
        loose = [c for c in inquiry.pod.shape.spread if c.hard and c.topology_key in skews]
        honored: list[Fix] = [
            tuple(HonorPolicy(key, policy) for key in dict.fromkeys(c.topology_key for c in without))
            for policy, without in (
                ("nodeTaintsPolicy", [c for c in loose if not c.honor_taints]),
                ("nodeAffinityPolicy", [c for c in loose if not c.honor_affinity]),
            )
            if without
        ]
        return [*honored, *([raised] if len(raised) == len(skews) else []), softened]

    def _uneven(self, inquiry: Inquiry, row: int) -> Iterator[tuple[str, Detail]]:
        """Yield (topology key, the numbers that the filter goes by) of constraints that the node would not keep."""
        constraints = self.plugin.constraints(inquiry.pod, inquiry.cluster, hard=True)
        spread = self.plugin.spread(inquiry.pod, inquiry.cluster, hard=True)
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
    """Return the emptiest domain, or why the least counts as 0."""
    key, wanted = domains.constraint.topology_key, domains.constraint.min_domains

    def find() -> str:
        counts, codes = domains.counts(inquiry.pod, inquiry.cluster), np.flatnonzero(domains.inhabited)
        lowest = counts[codes].min(initial=np.iinfo(np.int64).max)
        if domains.number < wanted and lowest:
            return f"with fewer than {wanted} domains the least counts as 0"
        values = inquiry.cluster.nodes.label(key).values
        return f"{domain(key, min(values[code] or '' for code in codes if counts[code] == lowest))} has {lowest}"

    return inquiry.once(("PodTopologySpread", domains.constraint), find)
