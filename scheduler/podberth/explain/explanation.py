"""The answer of `berth explain -o json`: one decision with its numbers. Field names are stable; fields may be added.

Amounts in `numbers` are the scheduler's integers: milli-cores for cpu, bytes for memory, counts for the rest.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from podberth.explain.changes import Change
from podberth.explain.report.wording import most_first

API_VERSION = "podberth.dev/v1alpha1"

FITS, UNSCHEDULABLE, GATED, FAILED, UNCLAIMED = "fits", "unschedulable", "gated", "failed", "unclaimed"
TERMINATING = "terminating"


class Shown(Struct, rename="camel", kw_only=True, frozen=True):
    """camelCase; every field is always there."""


class Answer(Shown, frozen=True):
    """A whole answer: like an object of the API, it says what it is."""

    api_version: str = API_VERSION


class PodFacts(Shown, frozen=True):
    """The pod that was asked about. `node`: where it is now, null when it waits; it was taken off for the answer."""

    namespace: str
    name: str
    node: str | None
    scheduler_name: str
    priority: int
    requests: dict[str, str]


class Finding(Shown, frozen=True):
    """One reason against one node. `reason`: kube-scheduler's text; `detail`: the same with numbers."""

    plugin: str
    reason: str
    unresolvable: bool
    detail: str
    numbers: dict[str, Any]


class RejectedNode(Shown, frozen=True):
    """A node that can't take the pod. `findings`: of the plugin that rejected it; `also`: of those after it."""

    node: str
    plugin: str
    code: str
    findings: list[Finding]
    also: list[Finding]


class Score(Shown, frozen=True):
    """A plugin's score before normalisation, and after it times the weight."""

    raw: int
    weighted: int


class FeasibleNode(Shown, frozen=True):
    """A node that can take the pod; nodes of equal total share a rank. `scores` is empty when nothing was scored.

    `devices`: ResourceClaim → the devices that it would get there, of the first nodes.
    """

    node: str
    rank: int
    total: int
    scores: dict[str, Score]
    devices: dict[str, list[str]] = {}


class Scorer(Shown, frozen=True):
    """A plugin that scored, in the order of the profile."""

    plugin: str
    weight: int


class Difference(Shown, frozen=True):
    """The lead of the winner (negative: it trails) in the points of one plugin."""

    plugin: str
    difference: int


class Choice(Shown, frozen=True):
    """Why the winner won. `node` is null when several share the best total: then the seed decides among `best`."""

    best: list[str]
    node: str | None
    text: str
    runner_up: str | None
    lead: int
    differences: list[Difference]


class ReasonCount(Shown, frozen=True):
    """The number of nodes that one reason kept out."""

    plugin: str
    reason: str
    nodes: int


class Limit(Shown, frozen=True):
    """A reason that keeps the next of several equal pods out, and on how many nodes it does."""

    reason: str
    nodes: int


def limits(reasons: Iterable[str], most: int | None = None) -> list[Limit]:
    """Return each reason with how often it is there, the most frequent ones first. `most`: None is all of them."""
    return [Limit(reason, number) for reason, number in most_first(Counter(reasons)).items()][:most]


class EarlyRejection(Shown, frozen=True):
    """Why the pod was rejected before any node was looked at. `detail`: the reason with names and numbers."""

    plugin: str
    code: str
    reason: str
    detail: str = ""
    numbers: dict[str, Any] = {}


class SideEffects(Shown, frozen=True):
    """The other effects of a change, once the pod has its node; simulated, like the change itself.

    `lands`: some of the waiting pods that would get a node too, `landed` how many in all. `moved`: where pods would go
    that have to leave; null: nowhere. `loses`: waiting pods that could be placed now, and could not be any more.
    `refused`: pods that have to leave, and that the eviction API would not let go now → why.
    `unmade`: pods that have to leave and that nobody makes again. `relies`: pods of a node that ask for its label as it
    is: they go on running, and could not come back.
    """

    lands: list[str]
    landed: int
    moved: dict[str, str | None]
    loses: list[str]
    refused: dict[str, str] = {}
    unmade: list[str] = []
    relies: list[str] = []


class Remedy(Shown, frozen=True):
    """A change that was tried and would free the pod. `nodes`: those it could then go to.

    `instead`: other objects of which the same change was tried and would do as well. `commands`: what makes the change
    when it is run; empty where no one command does. `effects`: null where they are not known.
    """

    text: str
    changes: list[Change]
    nodes: list[str]
    instead: list[str]
    commands: list[str] = []
    effects: SideEffects | None = None


class Preemption(Shown, frozen=True):
    """The node where pods of lower priority could be removed to make room, and these pods."""

    node: str
    victims: list[str]


class NodeCounts(Shown, frozen=True):
    """The numbers of nodes that there are, and that can take the pod."""

    total: int
    feasible: int


class PromiseState(Shown, kw_only=True, frozen=True):
    """The promise that a pod asks of its node for as long as it runs, and how that stands.

    `state` is one of kept, broken, waiting (it is on no node) and unreadable; `source`: the annotation, or the profile.
    `not_before`: the time (RFC 3339) before which an evictor does not move it, null when it need not wait.
    """

    state: str
    requirement: str
    source: str
    node: str | None
    breach: str
    text: str
    not_before: str | None = None


class Explanation(Answer, kw_only=True, frozen=True):
    """One decision. `outcome` is one of fits, unschedulable, gated, failed (a plugin could not answer), unclaimed,
    terminating.

    Unclaimed: it would fit, and waits for a scheduler that nobody seems to run. Terminating: it is being deleted, and
    no scheduler places it.

    `unheld`: kinds that decide about the pod and of which the dump holds none. It is not known then what keeps the pod.

    `rejected` has the nodes closest to fitting first, `feasible` the best first. `cause`: why it is unschedulable, in a
    line.
    """

    kind: str = "Explanation"
    outcome: str
    pod: PodFacts
    profile: str
    nodes: NodeCounts
    message: str | None
    verdict: EarlyRejection | None
    choice: Choice | None
    scorers: list[Scorer]
    feasible: list[FeasibleNode]
    rejected: list[RejectedNode] = []
    summary: list[ReasonCount]
    preemption: Preemption | None = None
    remedies: list[Remedy] = []
    notes: list[str]
    promise: PromiseState | None = None
    cause: str | None = None
    unheld: list[str] = []
