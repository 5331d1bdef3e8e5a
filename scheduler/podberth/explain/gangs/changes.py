"""Changes of a pod group itself, beside those of its pods and of the cluster, and the commands that make them."""

import json
from shlex import quote

from msgspec.structs import replace

from podberth.framework.small_change import SmallChange
from podberth.model.pod_group import COSCHEDULING, NATIVE, PodGroup


class LowerMinCount(SmallChange, frozen=True):
    """Have fewer pods start together."""

    cost = 1.0
    count: int
    instead_of: int

    def __str__(self) -> str:
        return f"start with {self.count:,} pods together instead of {self.instead_of:,}"

    def changed(self, group: PodGroup) -> PodGroup:
        """The group with it."""
        return replace(group, min_count=self.count)

    def command(self, group: PodGroup) -> str:
        """Return what makes the change when it is run."""
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
