"""Limits on what one object may ask for. It is counted once, while the object is read.

So whatever an object says, an attempt that has to do with it takes milliseconds (`make hostile`). A pod that asks for
more is not tried. One that another scheduler has placed counts with all that it requests, and with those of its terms
that are within the limits: what is left out of it never keeps others from a node.

kube-scheduler has no such limits; docs/equal.md has them among the differences.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import fields

from podberth.model import wire


class Limits(Struct, forbid_unknown_fields=True, rename="camel", frozen=True, gc=False):
    """A pod may have so many of each. A configuration may raise the numbers (`limits`)."""

    affinity_terms: int = 128
    """Terms of inter-pod affinity and anti-affinity of a pod, required and preferred together."""
    node_terms: int = 128
    """Terms of its node affinity, required and preferred together."""
    spread_constraints: int = 32
    """Its topology spread constraints."""
    selector_requirements: int = 64
    """Requirements of one selector or of one term, and of `spec.nodeSelector`."""
    requirement_values: int = 256
    """Values of one requirement, and namespaces of one term."""
    values_in_all: int = 4096
    """Requirements and values of all its terms and constraints together."""
    tolerations: int = 128
    """Its tolerations."""
    containers: int = 128
    """Its containers and init containers together."""
    resources: int = 64
    """Resources that it requests, whichever containers do."""
    host_ports: int = 256
    """Its host ports."""
    volumes: int = 128
    """Its volumes."""
    resource_claims: int = 128
    """Its claims for devices, and claim templates. What one claim asks for is limited by the API server."""
    annotation_bytes: int = 65_536
    """Characters of the values of all its annotations that plugins read, together."""
    labels: int = 256
    """Its labels."""


LIMITS = Limits()
"""The largest pods that public charts show have fewer than 20 terms."""
NAMES = {one.name: one.encode_name for one in fields(Limits)}
"""Limits by their fields, as a configuration names them."""
TOO_LARGE = "Limits"
"""It stands where the plugin is named that holds a pod out of the queue."""


class Excess(Struct, frozen=True, gc=False):
    """A limit that an object is beyond."""

    limit: str
    """Its name in a configuration."""
    text: str

    def __str__(self) -> str:
        return self.text


class Count:
    """Counts what one pod asks for. `excess` says what was too much first."""

    __slots__ = ("_values", "excess", "limits")

    def __init__(self, limits: Limits = LIMITS) -> None:
        self.limits = limits
        self.excess: Excess | None = None
        self._values = 0

    def allows(self, number: int, limit: str, what: str) -> bool:
        """Return whether so many are within a limit, which is named by its field of `Limits`."""
        most: int = getattr(self.limits, limit)
        if number <= most:
            return True
        if self.excess is None:
            text = f"too large for this scheduler: {number:,} {what}, at most {most:,}"
            self.excess = Excess(NAMES[limit], text)
        return False

    def allows_requirements(self, requirements: Sequence[wire.Requirement], where: str, more: int = 0) -> bool:
        """Return whether the requirements of one selector are within the limits, and `more` that it has beside them."""
        number = len(requirements) + more
        if not self.allows(number, "selector_requirements", f"requirements in {where}"):
            return False
        for one in requirements:
            values = len(one.values or ())
            if not self.allows(values, "requirement_values", f"values of {one.key} in {where}"):
                return False
            number += values
        self._values += number
        return self.allows(self._values, "values_in_all", "requirements and values in all terms")

    def allows_selector(self, selector: wire.LabelSelector | None, where: str, more: int = 0) -> bool:
        """Do what `allows_requirements` does."""
        if selector is None:
            return self.allows_requirements((), where, more)
        labels: Mapping[str, str] = selector.match_labels or {}
        return self.allows_requirements(selector.match_expressions or (), where, len(labels) + more)

    def allows_pod_term(self, term: wire.PodAffinityTerm) -> bool:
        """Return whether one term of inter-pod affinity is within the limits."""
        namespaces = len(term.namespaces or ())
        return (
            self.allows(namespaces, "requirement_values", "namespaces in an affinity term")
            and self.allows_selector(term.label_selector, "an affinity term")
            and self.allows_selector(term.namespace_selector, "an affinity term's namespaceSelector", namespaces)
        )

    def allows_node_term(self, term: wire.NodeSelectorTerm | None) -> bool:
        """Return whether one term of node affinity is within the limits."""
        if term is None:
            return True
        return self.allows_requirements((*(term.match_expressions or ()), *(term.match_fields or ())), "a node term")

    def allows_constraint(self, constraint: wire.TopologySpreadConstraint) -> bool:
        """Return whether one topology spread constraint is within the limits."""
        keys = len(constraint.match_label_keys or ())
        return self.allows_selector(constraint.label_selector, "a topology spread constraint", keys)
