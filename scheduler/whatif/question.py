"""What is asked about: a pod, a cluster, and what was already found out about them."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

from scheduler.model.node import Node
from scheduler.model.pod import Pod
from scheduler.model.selectors import LabelSelector, Requirement
from scheduler.state.cluster import Cluster

Detail = tuple[str, dict[str, Any]]
"""A reason with its numbers: for people, and as data."""


@dataclass
class Question:
    """A pod, a cluster, and what was already found out about them."""

    pod: Pod
    cluster: Cluster
    memo: dict[Hashable, Any] = field(default_factory=dict)

    def node(self, row: int) -> Node:
        """The node of a row that is alive."""
        node = self.cluster.nodes.objects[row]
        assert node is not None
        return node

    def once(self, key: Hashable, find: Callable[[], Any]) -> Any:
        """What `find` gives, asked once."""
        if key not in self.memo:
            self.memo[key] = find()
        return self.memo[key]


def said(requirement: Requirement) -> str:
    """A requirement in the shortest words."""
    if requirement.operator == "In" and len(requirement.values) == 1:
        return f"{requirement.key}={next(iter(requirement.values))}"
    return str(requirement)


def pods_with(selector: LabelSelector) -> str:
    """The pods that a selector means."""
    if selector.nothing:
        return "no pods (the term has no labelSelector)"
    return f"pods with {', '.join(map(said, selector.requirements))}" if selector.requirements else "pods of any label"


def domain(key: str, value: str) -> str:
    """A topology domain, well-known keys by their last word: `zone a`."""
    known = key.startswith(("topology.kubernetes.io/", "kubernetes.io/"))
    return f"{key.rpartition('/')[2]} {value}" if known else f"{key}={value}"
