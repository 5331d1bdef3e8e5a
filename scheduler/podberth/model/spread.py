"""Topology spread constraints (kube-scheduler plugins/podtopologyspread/common.go)."""

from msgspec import Struct

from podberth.model import wire
from podberth.model.selectors import Labels, LabelSelector, Requirement, parse_label_selector


class SpreadConstraint(Struct, frozen=True):
    """At most `max_skew` more matching pods in a domain than in the emptiest; domains are values of `topology_key`."""

    max_skew: int
    topology_key: str
    hard: bool
    selector: LabelSelector
    min_domains: int = 1
    honor_affinity: bool = True
    honor_taints: bool = False
    match_label_keys: tuple[str, ...] = ()

    def selector_for(self, labels: Labels) -> LabelSelector:
        """The selector with the pod's own values of `matchLabelKeys` added."""
        extra = [Requirement(key, "In", frozenset((labels[key],))) for key in self.match_label_keys if key in labels]
        if not extra or self.selector.nothing:
            return self.selector
        return LabelSelector((*extra, *self.selector.requirements))

    def counts(self, labels: Labels, other: Labels) -> bool:
        """Return whether a pod with these labels has a pod with the other labels counted."""
        if any(other.get(key) != labels[key] for key in self.match_label_keys if key in labels):
            return False
        return self.selector.matches(other)


def parse_spread_constraint(constraint: wire.TopologySpreadConstraint, path: str) -> SpreadConstraint:
    """Parse one constraint with the API's defaults.

    Raises SelectorError naming the field path.
    """
    return SpreadConstraint(
        max_skew=constraint.max_skew,
        topology_key=constraint.topology_key,
        hard=constraint.when_unsatisfiable == "DoNotSchedule",
        selector=parse_label_selector(constraint.label_selector, f"{path}.labelSelector"),
        min_domains=1 if constraint.min_domains is None else constraint.min_domains,
        honor_affinity=constraint.node_affinity_policy != "Ignore",
        honor_taints=constraint.node_taints_policy == "Honor",
        match_label_keys=tuple(constraint.match_label_keys or ()),
    )
