"""Topology spread constraints (kube-scheduler plugins/podtopologyspread/common.go)."""

from msgspec import Struct

from scheduler.model import wire
from scheduler.model.large_selectors import label_selector_in_parts
from scheduler.model.parts import Parts, some_of, whole
from scheduler.model.selectors import Labels, LabelSelector, Requirement, parse_label_selector

_FEW = 16
"""More keys than these make a selector that is worked out anew."""


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
        return whole(self.selector_in_parts(labels))

    def selector_in_parts(self, labels: Labels) -> Parts[LabelSelector]:
        """As `selector_for`: there may be 60,000 keys."""
        extra: list[Requirement] = []
        for keys in some_of(self.match_label_keys):
            extra += [Requirement(key, "In", frozenset((labels[key],))) for key in keys if key in labels]
            yield 3 + len(keys)
        if not extra or self.selector.nothing:
            return self.selector
        if len(extra) <= _FEW:
            yield self.selector.size // 16
            return self.selector.beside(tuple(extra))
        made = LabelSelector((*extra, *self.selector.requirements))
        yield from made.working_out()
        return made

    def counts(self, labels: Labels, other: Labels) -> bool:
        """Whether a pod with these labels has a pod with the other labels counted."""
        if any(other.get(key) != labels[key] for key in self.match_label_keys if key in labels):
            return False
        return self.selector.matches(other)


def parse_spread_constraint(constraint: wire.TopologySpreadConstraint, path: str) -> SpreadConstraint:
    """Parse one constraint with the API's defaults.

    Raises SelectorError naming the field path.
    """
    return _made(constraint, parse_label_selector(constraint.label_selector, f"{path}.labelSelector"))


def spread_constraint_in_parts(constraint: wire.TopologySpreadConstraint, path: str) -> Parts[SpreadConstraint]:
    """As `parse_spread_constraint`, of a large constraint."""
    return _made(constraint, (yield from label_selector_in_parts(constraint.label_selector, f"{path}.labelSelector")))


def _made(constraint: wire.TopologySpreadConstraint, selector: LabelSelector) -> SpreadConstraint:
    return SpreadConstraint(
        max_skew=constraint.max_skew,
        topology_key=constraint.topology_key,
        hard=constraint.when_unsatisfiable == "DoNotSchedule",
        selector=selector,
        min_domains=1 if constraint.min_domains is None else constraint.min_domains,
        honor_affinity=constraint.node_affinity_policy != "Ignore",
        honor_taints=constraint.node_taints_policy == "Honor",
        match_label_keys=tuple(constraint.match_label_keys or ()),
    )
