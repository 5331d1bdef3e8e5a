"""An `Explainer` says why a plugin rejected a node or a pod, and which small changes would help.

With it: what it is asked, and phrases for its texts. The changes themselves are in `podberth.explain.changes`.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from msgspec import Struct, field

from podberth.cache.cluster import Cluster
from podberth.framework.status import Reason
from podberth.model.node import Node
from podberth.model.pod import Pod
from podberth.model.selectors import LabelSelector, Requirement

Detail = tuple[str, dict[str, Any]]
"""A reason with its numbers: for people, and as data that JSON can hold."""
Found = TypeVar("Found")


def _tag(name: str) -> str:
    return name[0].lower() + name[1:]


class SmallChange(Struct, frozen=True, rename="camel", tag_field="kind", tag=_tag):
    """A change that people may make. `cost`: how much work one of its kind is for them."""

    cost: ClassVar[float]

    @property
    def effort(self) -> float:
        """Return how much work this very change is for people."""
        return self.cost

    def __hash__(self) -> int:
        return hash(str(self))


Fix = tuple[SmallChange, ...]
"""Small changes that help together."""


class Inquiry(Struct, frozen=True):
    """The pod and the cluster that a question is about, and what was already found out about them."""

    pod: Pod
    cluster: Cluster
    _found: dict[Hashable, Any] = field(default_factory=dict)

    def node(self, row: int) -> Node:
        """Return the node of a row that was rejected."""
        node = self.cluster.nodes.objects[row]
        assert node is not None
        return node

    def movable(self, row: int) -> list[Pod]:
        """Return the pods that may be asked to leave a node, those first that this pod misses least.

        Static pods and those of DaemonSets come back to their node. Last come those that the pod wants to be near;
        before them, the less a pod matters and asks for, the sooner it is the one, and first who goes anyway.
        """
        selects, near = self.cluster.affinity.selects, self.pod.shape.affinity_terms

        def order(pod: Pod) -> tuple[bool, bool, int, int, int, str]:
            asked = pod.shape.requests
            wanted = any(selects(term, pod) for term in near)
            return (
                wanted, not pod.terminating, pod.priority, asked.get("cpu", 0), asked.get("memory", 0), pod.key
            )  # fmt: skip

        return sorted((pod for pod in self.cluster.pods_on(row) if not pod.belongs_to_node), key=order)

    def once(self, key: Hashable, find: Callable[[], Found]) -> Found:
        """Return what `find` returns. It is called once for each key, however many nodes are asked about."""
        if key not in self._found:
            self._found[key] = find()
        found: Found = self._found[key]
        return found


class Explainer:
    """Says for `berth explain` why a plugin rejected a node or a pod, and what would help. Override what you know.

    A plugin from outside names its explainer's class as `explainer`. An explainer is made anew for each question.
    """

    plugin: Any

    def __init__(self, plugin: Any) -> None:
        """`plugin`: the profile's own instance, with its arguments and what it has found."""
        self.plugin = plugin

    def explain(self, inquiry: Inquiry, row: int, reason: Reason) -> Detail:
        """Return the numbers behind one of its reasons against a row: a text for people, and the same as data for JSON.

        Numbers named `needed` and `free` also say how much the node lacks: the node that lacks least is shown first.
        """
        return reason.text, {}

    def fixes(self, inquiry: Inquiry, row: int, reasons: Sequence[Reason]) -> Sequence[Fix]:
        """Small changes after which it should accept one row, given all its reasons against that row.

        Each is an alternative. It is tried with all plugins before it is shown.
        """
        return ()

    def explain_pod(self, inquiry: Inquiry, reason: Reason) -> Detail:
        """Answer as `explain` does, for a pod that `pre_filter` rejected: no node was looked at."""
        return reason.text, {}


def said(requirement: Requirement) -> str:
    """Return a requirement as a short text: `zone=a`."""
    if requirement.operator == "In" and len(requirement.values) == 1:
        return f"{requirement.key}={next(iter(requirement.values))}"
    return str(requirement)


def pods_with(selector: LabelSelector) -> str:
    """Return the pods that a selector selects, as a text."""
    if selector.nothing:
        return "no pods (the term has no labelSelector)"
    return f"pods with {', '.join(map(said, selector.requirements))}" if selector.requirements else "pods of any label"


def domain(key: str, value: str) -> str:
    """Return a topology domain, well-known keys by their last word: `zone a`."""
    known = key.startswith(("topology.kubernetes.io/", "kubernetes.io/"))
    return f"{key.rpartition('/')[2]} {value}" if known else f"{key}={value}"


def has_instead(labels: Mapping[str, str], key: str) -> str:
    """What a node has where another value of a label is asked for, as a text."""
    value = labels.get(key)
    return f"node has {'no such label' if value is None else value or 'an empty value'}"
