"""Pod groups: pods that start together, or not at all. The fields that a decision reads.

They are made from bytes in `podberth.model.pod_group_parse`. Upstream: `k8s.io/api/scheduling/v1beta1` (PodGroup), and
scheduler-plugins' `apis/scheduling/v1alpha1` on clusters that have its custom resource.
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple

from msgspec import Struct

from podberth.model.shape import PodClaim

NATIVE = "scheduling.k8s.io"
"""The API group of Kubernetes' own PodGroup."""
COSCHEDULING = "scheduling.x-k8s.io"
"""The API group of scheduler-plugins' PodGroup."""
LABEL = "scheduling.x-k8s.io/pod-group"
"""The label that names a pod's group of scheduler-plugins."""
REQUIRED_TOPOLOGY = "podberth.dev/required-topology"
PREFERRED_TOPOLOGY = "podberth.dev/preferred-topology"
"""Annotations of a group. They count only if the profile names the levels of the topology."""
NATIVE_KIND = "PodGroup"
COSCHEDULING_KIND = "PodGroup.scheduling.x-k8s.io"
POD_GROUP_KINDS = (NATIVE_KIND, COSCHEDULING_KIND)
"""The kinds that pods are members of."""
INITIALLY_SCHEDULED = "PodGroupInitiallyScheduled"
DISRUPTION_TARGET = "DisruptionTarget"
CONDITIONS = (INITIALLY_SCHEDULED, DISRUPTION_TARGET)
"""The conditions that a scheduler writes."""


class GroupKey(NamedTuple):
    """The identity of a pod group. `api`: NATIVE or COSCHEDULING."""

    namespace: str
    name: str
    api: str = NATIVE

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class GroupCondition(NamedTuple):
    """A condition of a group's status."""

    type: str
    status: str
    reason: str
    message: str
    observed_generation: int
    last_transition: str
    """RFC 3339; empty: not said."""


class PodGroup(Struct, gc=False, frozen=True, eq=False):
    """A group of pods."""

    key: GroupKey
    uid: str
    resource_version: str
    generation: int
    min_count: int | None
    """Its number of pods that start together, or none; None: its pods are scheduled one by one (policy basic)."""
    topology_key: str | None = None
    """All its pods have to be on nodes with the same value of this label."""
    disruption_mode: Literal["single", "all"] = "single"
    """Its pods may be disrupted one by one (`single`), or only all together (`all`)."""
    priority: int | None = None
    """None: not said, as in groups of scheduler-plugins."""
    preempts: bool | None = None
    """None: not said, and its pods say it."""
    resource_claims: tuple[PodClaim, ...] = ()
    """Claims for devices that its pods may share."""
    made_claims: tuple[tuple[str, str | None], ...] = ()
    """(name in the spec, name of the claim that was made of the template; None: none was needed)."""
    workload: tuple[str, str] | None = None
    """(Workload, name of its template)."""
    conditions: tuple[GroupCondition, ...] = ()
    """The conditions of its status that are named in `CONDITIONS`."""
    min_resources: Mapping[str, int] | None = None
    """The room that all its pods need together, in the units of a pod's requests (scheduler-plugins only)."""
    timeout: int | None = None
    """Seconds for which its pods wait on Permit (scheduler-plugins only)."""
    phase: str = ""
    """The phase of its status (scheduler-plugins only)."""
    required_topology: str | None = None
    """By annotation: as `topology_key`."""
    preferred_topology: str | None = None
    """By annotation: its pods had better be on nodes with the same value of this label."""
    problems: tuple[str, ...] = ()
    """Parts of it that can't be read, and are left out."""
    too_large: str | None = None
    """The limit that it is beyond (`podberth/model/limits.py`), so that no pod of it is tried; None: none."""

    @property
    def namespace(self) -> str:
        """The namespace of the group and of its pods."""
        return self.key.namespace

    @property
    def name(self) -> str:
        """The name, unique among the groups of one API in a namespace."""
        return self.key.name

    @property
    def kind(self) -> str:
        """One of `POD_GROUP_KINDS`."""
        return NATIVE_KIND if self.key.api == NATIVE else COSCHEDULING_KIND

    @property
    def gang(self) -> bool:
        """Return whether some number of its pods has to start together."""
        return self.min_count is not None

    @property
    def needed(self) -> int:
        """Return how many of its pods have to find a node for any to start (upstream getMinCount)."""
        return 1 if self.min_count is None else self.min_count

    @property
    def asks(self) -> tuple[object, ...]:
        """Return the fields that decide whether it fits."""
        needed = None if self.min_resources is None else tuple(sorted(self.min_resources.items()))
        topology = self.topology_key, self.required_topology, self.preferred_topology
        return self.min_count, topology, self.priority, self.preempts, needed

    def condition(self, kind: str) -> GroupCondition | None:
        """The condition of this type."""
        return next((one for one in self.conditions if one.type == kind), None)


def api_of_kind(kind: str) -> str:
    """Return what stands for a kind in the keys of its groups."""
    return NATIVE if kind == NATIVE_KIND else COSCHEDULING
