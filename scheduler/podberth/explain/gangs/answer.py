"""The answer of `berth explain podgroup/NAME -o json`. Field names are stable; fields may be added.

It has the changes of a pod group itself that may be offered, beside those of its pods and of the cluster.
"""

import json
from shlex import quote
from typing import Any

from msgspec import field
from msgspec.structs import replace

from podberth.explain.changes import Change
from podberth.explain.explanation import Answer, Limit, Shown
from podberth.framework.explaining import SmallChange
from podberth.model.pod_group import COSCHEDULING, NATIVE, PodGroup


class LowerMinCount(SmallChange, frozen=True):
    """Let fewer pods start together."""

    cost = 1.0
    count: int
    instead_of: int

    def __str__(self) -> str:
        return f"start with {self.count:,} pods together instead of {self.instead_of:,}"

    @property
    def effort(self) -> float:
        return self.cost + 1 - self.count / self.instead_of

    def changed(self, group: PodGroup) -> PodGroup:
        return replace(group, min_count=self.count)

    def command(self, group: PodGroup) -> str:
        spec = (
            {"minMember": self.count}
            if group.key.api == COSCHEDULING
            else {"schedulingPolicy": {"gang": {"minCount": self.count}}}
        )
        return _patch(group, spec)


class AddNodes(SmallChange, frozen=True):
    """Some nodes more like one that is there: same labels, taints and size, empty, and well."""

    cost = 3.0
    like: str
    count: int

    def __str__(self) -> str:
        return f"add {'a node' if self.count == 1 else f'{self.count:,} nodes'} like {self.like}"

    @property
    def effort(self) -> float:
        return self.cost + 0.5 * (self.count - 1)


class LeaveDomain(SmallChange, frozen=True):
    """Let the pods of the group be in more than one domain."""

    cost = 2.5
    topology_key: str

    def __str__(self) -> str:
        return f"create the group without its constraint to one {self.topology_key}"


GroupChange = LowerMinCount | AddNodes | LeaveDomain


def _patch(group: PodGroup, spec: object) -> str:
    patch = json.dumps({"spec": spec}, separators=(",", ":"))
    api = COSCHEDULING if group.key.api == COSCHEDULING else NATIVE
    where = f"-n {quote(group.namespace)}"
    return f"kubectl patch podgroups.{api} {quote(group.name)} {where} --type=merge -p {quote(patch)}"


STARTS, RUNS, UNSCHEDULABLE, HELD, FAILED, UNCLAIMED = (
    "starts",
    "runs",
    "unschedulable",
    "held",
    "failed",
    "unclaimed",
)
GOOD = (STARTS, RUNS)


class GroupFacts(Shown, frozen=True):
    """The group that was asked about. `minCount`: null for a group with the policy basic.

    `needed`: so many of its pods have to have a node for any to start. `condition`: what the group's status says now of
    why it does not start, empty when it says nothing.
    """

    api: str
    namespace: str
    name: str
    min_count: int | None
    needed: int
    waiting: int
    running: int
    priority: int
    topology_key: str | None
    condition: str


class DomainRoom(Shown, frozen=True):
    """The number of waiting pods that fit on the nodes of one domain, and by how many that is too few.

    `domain` is empty when the whole cluster is one. `fits` and `short` are null when that would have cost too much.
    """

    domain: str
    nodes: int
    fits: int | None
    short: int | None
    limits: list[Limit]


class Stop(Shown, frozen=True):
    """The pod with which it is clear that the group can't start, as too few are left.

    `message`: kube-scheduler's; `cause`: the same in a line for people. `alike`: how many pods find no node for the
    same reason. `closest`: the nodes that come closest to taking it, each with what is missing there.
    """

    pod: str
    message: str
    cause: str
    alike: int
    closest: list[dict[str, Any]]


class GroupRemedy(Shown, frozen=True):
    """A change that was tried and would start the group. `fits`: how many of its waiting pods then find a node."""

    text: str
    changes: list[Change | GroupChange]
    fits: int
    commands: list[str]


class GroupExplanation(Answer, kw_only=True, frozen=True):
    """Why a pod group starts, or does not.

    `outcome` is one of starts, runs (enough of its pods have nodes, and none waits), unschedulable, held (pods or the
    group are still missing, or have scheduling gates), failed (its pods do not agree, or a plugin failed), unclaimed
    (nobody seems to run its scheduler). `domain`: where the largest part fits, of which `placed` lists some pods.
    """

    kind: str = "PodGroupExplanation"
    outcome: str
    group: GroupFacts
    profile: str
    nodes: int
    fits: int = 0
    domain: str = ""
    placed: dict[str, str] = field(default_factory=dict)
    cause: str = ""
    message: str = ""
    stopped: Stop | None = None
    domains: list[DomainRoom] = field(default_factory=list)
    remedies: list[GroupRemedy] = field(default_factory=list)
    notes: list[str]
