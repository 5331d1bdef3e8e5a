"""What a plugin gets to explain its rejections (`Plugin.explain`, `Plugin.fixes`), and phrases for its texts."""

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from msgspec import Struct, field

from scheduler.model.node import Node
from scheduler.model.pod import Pod
from scheduler.model.selectors import LabelSelector, Requirement
from scheduler.state.cluster import Cluster

Detail = tuple[str, dict[str, Any]]
"""A reason with its numbers: for people, and as data that JSON can hold."""
Found = TypeVar("Found")


class Inquiry(Struct, frozen=True):
    """The pod and the cluster that a question is about, and what was already found out about them."""

    pod: Pod
    cluster: Cluster
    _found: dict[Hashable, Any] = field(default_factory=dict)

    def node(self, row: int) -> Node:
        """The node of a row that was rejected."""
        node = self.cluster.nodes.objects[row]
        assert node is not None
        return node

    def once(self, key: Hashable, find: Callable[[], Found]) -> Found:
        """What `find` returns. It is called once for each key, however many nodes are asked about."""
        if key not in self._found:
            self._found[key] = find()
        found: Found = self._found[key]
        return found


def said(requirement: Requirement) -> str:
    """A requirement as a short text: `zone=a`."""
    if requirement.operator == "In" and len(requirement.values) == 1:
        return f"{requirement.key}={next(iter(requirement.values))}"
    return str(requirement)


def pods_with(selector: LabelSelector) -> str:
    """The pods that a selector selects, as a text."""
    if selector.nothing:
        return "no pods (the term has no labelSelector)"
    return f"pods with {', '.join(map(said, selector.requirements))}" if selector.requirements else "pods of any label"


def domain(key: str, value: str) -> str:
    """A topology domain, well-known keys by their last word: `zone a`."""
    known = key.startswith(("topology.kubernetes.io/", "kubernetes.io/"))
    return f"{key.rpartition('/')[2]} {value}" if known else f"{key}={value}"
