"""Upstream: plugins/dynamicresources (dynamicresources.go, extendeddynamicresources.go)."""

from collections.abc import Collection, Iterator, Sequence
from typing import Annotated, Any, Self

import numpy as np
from msgspec import Meta, Struct
from msgspec.structs import replace

from podberth.cache.cluster import Cluster
from podberth.cache.column import Bools, Ints
from podberth.cache.devices import held
from podberth.framework.binding import AssumedPod, Wait, Write
from podberth.framework.config import FeatureGates, gate_errors, gate_is_on, parse_duration
from podberth.framework.decision import Decision
from podberth.framework.events import ClusterEvent
from podberth.framework.interface import (
    DEVICES,
    MAXIMUM,
    NO_POINTS,
    NODE,
    SKIPPABLE,
    FailedGroup,
    Filters,
    GroupPostFilterResult,
    OtherObject,
    Plugin,
    PostFilterResult,
)
from podberth.framework.status import ErrorByNode, PluginError, Reason, Reject, Rejections, Unresolvable
from podberth.model.devices import AllocatedDevice, ClaimKey, ResourceClaim
from podberth.model.pod import Pod
from podberth.model.pod_group import PodGroup
from podberth.model.shape import PodShape
from podberth.plugins.dynamic_resources.allocation import EXTENDED_SUFFIX, allocated, score_of_allocated, unusable_rows
from podberth.plugins.dynamic_resources.claims import (
    ClaimError,
    RequestError,
    claims_of,
    device_resources,
    group_of,
    is_idle,
    keys_of,
    peers_of,
    problem_of,
    unreserved,
)
from podberth.plugins.dynamic_resources.requested import AllocationError
from podberth.plugins.dynamic_resources.reservation import (
    Reservation,
    ReservationError,
    freed,
    give_back,
    may_be_used,
    next_step,
    overtaken,
    removed,
    reserve,
)
from podberth.plugins.dynamic_resources.results import (
    GIVEN_UP_TEXT,
    NO_OTHER_TEXT,
    AllocationRequests,
    AllocationsByNode,
    Outcome,
    PodDevices,
    named,
)
from podberth.plugins.dynamic_resources.selecting import Programs

MOST_STEPS = 200_000
"""Steps that one search for devices may take, on all nodes together. The first look at each node does not count."""
_GIVEN_BACK = "deallocation and deletion of ResourceClaims completed"
_MAY_BE_USED = "ResourceClaim not freed yet: an earlier leader may have bound the pod"
_BINDING_SECONDS = 600.0
_MOST_FURTHER = 1_000_000
GROUP_CLAIMS = "DRAWorkloadResourceClaims"
"""spec.resourceClaims of PodGroups."""
THOUSANDTHS = "DRAFractionalCapacityRange"
"""Ranges of capacity in thousandths. In kube-scheduler 1.37, it is on with --min-compatibility-version=1.37."""


class DynamicResourcesArgs(Struct, forbid_unknown_fields=True, rename="camel", frozen=True):
    """Limits on the time of allocation and binding.

    `filterTimeout` has no effect: a search ends after so many steps, on all nodes together (`plugin.MOST_STEPS`).
    """

    filter_timeout: str | None = None
    """Accepted, and has no effect: a search for devices ends after so many steps."""
    binding_timeout: str | None = None
    """The devices of a claim may take so long to meet their binding conditions; at least 1s. Absent: 600s."""
    further_search_steps: Annotated[int | None, Meta(extra_json_schema={"minimum": 0, "maximum": 1000000})] = None
    """Berth's own: steps of looking further on each node where kube-scheduler's search finds nothing."""
    feature_gates: FeatureGates = None
    """The gates DRAWorkloadResourceClaims and DRAFractionalCapacityRange."""

    def defaulted(self) -> Self:
        """Return a copy with kube-scheduler's time-outs where there are none."""
        return replace(
            self, filter_timeout=self.filter_timeout or "10s", binding_timeout=self.binding_timeout or "10m0s"
        )

    @property
    def binding_seconds(self) -> float:
        """Seconds that the devices of a claim may take to get ready for binding."""
        found = None if self.binding_timeout is None else parse_duration(self.binding_timeout)
        return _BINDING_SECONDS if found is None else found

    @property
    def group_claims(self) -> bool:
        """Return whether claims of pod groups are heeded."""
        return gate_is_on(self.feature_gates, GROUP_CLAIMS)

    @property
    def thousandths(self) -> bool:
        """Return whether ranges of capacity are counted in thousandths."""
        return gate_is_on(self.feature_gates, THOUSANDTHS)


class DynamicResources(Plugin):
    """Keep a pod where the devices that it claims are, and give them to it."""

    name = "DynamicResources"
    depends_on = NODE | DEVICES
    normalize = MAXIMUM
    Args = DynamicResourcesArgs
    events = (
        ClusterEvent.NODE_ADDED
        | ClusterEvent.NODE_LABELS
        | ClusterEvent.NODE_ALLOCATABLE
        | ClusterEvent.DEVICE_CLAIM
        | ClusterEvent.DEVICE_SLICE
        | ClusterEvent.DEVICE_CLASS
        | ClusterEvent.OWN_CLAIMS
    )
    only_preempts = True  # what it frees are claims, whose changes wake pods themselves
    refused = Unresolvable("cannot fit resource")
    stale = Unresolvable("cannot schedule extended resource claim")
    unallocatable = Unresolvable("cannot allocate all claims")
    invalid = Unresolvable("invalid resource pools were encountered")
    no_other = Unresolvable(NO_OTHER_TEXT)
    given_up = Unresolvable(GIVEN_UP_TEXT)
    unavailable = Unresolvable("resourceclaim not available on the node")

    def __init__(self, args: DynamicResourcesArgs) -> None:
        self._timeout = args.binding_seconds
        self._group_claims = args.group_claims
        self.programs = Programs()
        further = args.further_search_steps or 0
        self.requests = AllocationRequests(self.programs.selects, further, thousandths=args.thousandths)

    @staticmethod
    def check(args: DynamicResourcesArgs, path: str) -> list[str]:
        """Errors of the arguments (ValidateDynamicResourcesArgs)."""
        errors = gate_errors(args.feature_gates, path, GROUP_CLAIMS, THOUSANDTHS)
        if args.further_search_steps is not None and not 0 <= args.further_search_steps <= _MOST_FURTHER:
            wanted = f"must be between 0 and {_MOST_FURTHER:,}"
            errors.append(f"{path}.furtherSearchSteps: Invalid value: {args.further_search_steps}: {wanted}")
        for name, text, least, wanted in (
            ("filterTimeout", args.filter_timeout, 0.0, "must be zero or positive"),
            ("bindingTimeout", args.binding_timeout, 1.0, "must be at least 1 second"),
        ):
            if text is None:
                continue
            found = parse_duration(text)
            if found is None:
                errors.append(f'{path}.{name}: Invalid value: "{text}": want a duration such as 10s or 1m30s')
            elif found < least:
                errors.append(f'{path}.{name}: Invalid value: "{text}": {wanted}')
        return errors

    def skips(self, shape: PodShape) -> Collection[str]:
        """Skip everything for pods that claim no devices and ask for no resource that devices may serve."""
        return NO_POINTS if shape.claims or shape.containers else SKIPPABLE

    def pre_enqueue(self, pod: Pod, cluster: Cluster) -> Reason | None:
        """Keep a pod out of the queue until its claims are there."""
        try:
            claims_of(pod, cluster.devices, self._claiming(pod, cluster))
        except ClaimError as error:
            return Unresolvable(str(error))
        return None

    def pre_filter(self, pod: Pod, cluster: Cluster) -> Reject | None:
        """Reject a pod whose claims are not there, not its own, on their way out, or being allocated."""
        devices, group = cluster.devices, self._claiming(pod, cluster)
        try:
            problem = problem_of(pod, claims_of(pod, devices, group), devices, group)
        except ClaimError as error:
            problem = str(error)
        except RequestError as error:
            raise PluginError(self.name, str(error), "PreFilter") from None
        return None if problem is None else Reject(Unresolvable(problem))

    def filter(self, pod: Pod, cluster: Cluster) -> Rejections:
        """Reject nodes where a claim can't be allocated, and those that can't use what was allocated before."""
        wants = self.wants(pod, cluster)
        if wants is None:
            return ()
        rows = cluster.nodes.rows
        if wants.resources and cluster.devices.made_for(pod.name, pod.uid) is not None:
            return [(self.stale, np.ones(rows, dtype=np.bool_))]
        found: list[tuple[Reason, Bools]] = []
        if wants.results is not None:
            outcomes = wants.results.outcomes
            found += [
                (reason, outcomes == outcome)
                for reason, outcome in (
                    (self.refused, Outcome.REFUSED),
                    (self.unallocatable, Outcome.NO_SOLUTION),
                    (self.invalid, Outcome.INVALID),
                    (self.no_other, Outcome.NO_OTHER),
                    (self.given_up, Outcome.GIVEN_UP),
                )
            ]
            if (outcomes == Outcome.FAILED).any():
                found.append(self._broken(pod, wants, wants.results))
        unusable = (self.unusable(claim, cluster) for claim in wants.claims)
        failed = [where for where in unusable if where is not None]
        if failed:
            unavailable = np.any(np.stack(failed), axis=0)
            for _, where in found:
                unavailable &= ~where
            found.append((self.unavailable, unavailable))
        return found

    def score(self, pod: Pod, cluster: Cluster, feasible: Any) -> Ints | int | None:
        """Score a node by how early the alternatives that it would give are in their requests' lists."""
        wants = self.wants(pod, cluster)
        if wants is None or wants.results is None:
            return None if wants is None else 0
        scores: Ints = wants.results.scores[feasible]
        return scores + score_of_allocated(wants.claims)

    def post_filter(self, pod: Pod, cluster: Cluster, decision: Decision, filters: Filters) -> PostFilterResult:
        """Free a claim that keeps the pod from nodes and that nobody else uses."""
        devices = cluster.devices
        over = tuple(overtaken(self._claims(pod, cluster), devices)) if pod.shape.claims else ()
        if decision.verdict is not None or not (pod.shape.claims or pod.shape.containers):
            return PostFilterResult("", writes=over)
        mine = [rejected for rejected in decision.rejected if rejected.plugin == self.name]
        reasons = {reason for rejected in mine for reason, _ in rejected.reasons}
        if self.unavailable in reasons:
            where = np.any(
                [where for rejected in mine for reason, where in rejected.reasons if reason == self.unavailable], axis=0
            )
            for claim in claims_of(pod, devices, self._claiming(pod, cluster)):
                unusable = self.unusable(claim, cluster)
                if unusable is not None and (unusable & where).any() and not set(claim.reserved_for) - {pod.uid}:
                    if may_be_used(claim, pod, devices):
                        return PostFilterResult(_MAY_BE_USED, writes=over)
                    devices.users.moved_on.discard(claim.uid)
                    return PostFilterResult("deallocation of ResourceClaim completed", writes=(*over, freed(claim)))
        made = devices.made_for(pod.name, pod.uid) if device_resources(pod, devices) else None
        if made is not None and may_be_used(made, pod, devices):
            return PostFilterResult(_MAY_BE_USED, writes=over)
        if made is not None:
            return PostFilterResult("deletion of ResourceClaim completed", writes=(*over, *removed(made)))
        return PostFilterResult("", writes=over)

    def post_filter_group(self, failed: FailedGroup, cluster: Cluster) -> GroupPostFilterResult:
        """Free claims that keep the group from nodes and that nobody else uses: one for each pod, as in PostFilter.

        The text says so even if there are none, as in kube-scheduler. It leaves groups with a topology alone:
        what an earlier attempt has given them in one domain keeps them from all others there.
        """
        told = not failed.by_topology
        return GroupPostFilterResult(_GIVEN_BACK if told else "", list(self._freed_for(failed.pods, cluster)))

    def _freed_for(self, pods: Sequence[Pod], cluster: Cluster) -> Iterator[tuple[Pod, Write]]:
        done: set[ClaimKey] = set()
        claiming = [pod for pod in pods if pod.shape.claims]
        for pod in claiming:
            claim = self._to_free(pod, cluster)
            if claim is not None and claim.key not in done and not may_be_used(claim, pod, cluster.devices):
                done.add(claim.key)
                cluster.devices.users.moved_on.discard(claim.uid)
                yield pod, freed(claim)
            for write in overtaken(self._claims(pod, cluster), cluster.devices):
                yield pod, write
        group = self._claiming(claiming[0], cluster) if claiming and not done else None
        if group is not None and is_idle(group, cluster):
            out = unreserved(group, cluster.devices)
            if out is not None and not may_be_used(cluster.devices.claims[out.key[1:]], claiming[0], cluster.devices):
                cluster.devices.users.moved_on.discard(out.uid)
                yield claiming[0], out

    def _claims(self, pod: Pod, cluster: Cluster) -> list[ResourceClaim]:
        """Its claims; none if PreFilter has rejected it for them."""
        try:
            return claims_of(pod, cluster.devices, self._claiming(pod, cluster))
        except ClaimError:
            return []

    def _to_free(self, pod: Pod, cluster: Cluster) -> ResourceClaim | None:
        """A claim that some node can't use, and that is reserved for nobody else."""
        devices, group = cluster.devices, self._claiming(pod, cluster)
        own = {pod.uid} if group is None or not is_idle(group, cluster) else {pod.uid, group.uid}
        for claim in self._claims(pod, cluster):
            if set(claim.reserved_for) - own or devices.is_unseen(claim.uid):
                continue
            unusable = self.unusable(claim, cluster)
            if unusable is not None and (unusable & cluster.nodes.alive[: cluster.nodes.rows]).any():
                return claim
        return None

    def reserve(self, pod: Pod, cluster: Cluster, row: int) -> Reservation | None:
        """Take the devices before the next pod is decided."""
        wants, node = self.wants(pod, cluster), cluster.nodes.objects[row]
        if wants is None or node is None:
            return None
        if wants.results is not None and wants.results.of(row).outcome is not Outcome.FITS:
            raise PluginError(self.name, "claim allocation not found for node", "Reserve")
        try:
            group = cluster.pod_groups.of(pod)
            return reserve(pod, node, wants, row, cluster.devices, group, self._claiming(pod, cluster))
        except AllocationError as error:
            raise PluginError(self.name, named(str(error), wants, pod), "Reserve") from None

    def unreserve(self, assumed: AssumedPod, cluster: Cluster) -> tuple[Write, ...] | None:
        """Give back what was not written, and take the pod out of its claims."""
        return None if assumed.reserved is None else give_back(assumed.reserved, assumed, cluster.devices)

    def pre_bind(self, assumed: AssumedPod, cluster: Cluster) -> Wait | None:
        """Write what the claims are given, and for whom they are reserved; then wait until the devices are ready."""
        if assumed.reserved is None:
            return None
        try:
            peers = peers_of(assumed.pod, self._claiming(assumed.pod, cluster), cluster)
            return next_step(assumed.reserved, assumed, cluster.devices, self._timeout, peers)
        except ReservationError as error:
            raise PluginError(self.name, str(error), "PreBind") from None

    def object_hint(self, pod: Pod, event: ClusterEvent, old: OtherObject, new: OtherObject) -> bool:
        """Any slice or class, a claim that lets go of its devices, and whatever happens to a claim of the pod.

        A claim that was made for a pod keeps it from all nodes as long as it is there, so its end helps; equal pods of
        a namespace are asked together, and others are not to pay for who makes such claims. No claim helps a pod whose
        status does not name all of its own yet: its own change does.
        """
        if not event & ClusterEvent.DEVICE_CLAIM:
            return True
        try:
            own = [key for key, _ in keys_of(pod)]
        except ClaimError:
            return False
        if not isinstance(new, ResourceClaim):  # it went, or an assumption did
            if not isinstance(old, ResourceClaim) or old.allocation is not None:
                return True
            return old.owner is not None and old.namespace == pod.namespace
        before = old if isinstance(old, ResourceClaim) else None
        if before is not None and before.allocation is not None:
            given = new.allocation
            if given is None or list(held(before.allocation.devices)) != list(held(given.devices)):
                return True
        return new.key in own and (before is None or before.raw_status != new.raw_status or before.uid != new.uid)

    def wants(self, pod: Pod, cluster: Cluster) -> PodDevices | None:
        """Return what the pod wants, with answers for all nodes; None: nothing. Raises SearchCapError."""
        try:
            claims = claims_of(pod, cluster.devices, self._claiming(pod, cluster))
        except ClaimError as error:  # PreFilter has rejected the pod then
            raise PluginError(self.name, str(error)) from None
        wants = self.requests.about(pod, claims, cluster)
        if not claims and not wants.resources:
            return None
        if wants.results is not None:
            programs, steps = self.programs, cluster.search_steps.capped("devices", MOST_STEPS)
            programs.owner, programs.search = pod.namespace, steps
            try:
                wants.results.follow(cluster, steps)
            finally:
                programs.search = None
        return wants

    def given(self, pod: Pod, cluster: Cluster, row: int) -> dict[str, list[AllocatedDevice]] | None:
        """Claim → the devices that it would have if the pod went to a node that passes; None: it claims none.

        The claim that would be made for extended resources goes by the beginning of its name, in parentheses.
        """
        wants, node = self.wants(pod, cluster), cluster.nodes.objects[row]
        if wants is None or node is None:
            return None
        found = {claim.name: list(claim.allocation.devices) for claim in wants.claims if claim.allocation is not None}
        if wants.results is not None:
            names = [claim.name for claim in wants.unallocated]
            if wants.results.request.extended_claim_on(node) is not None:
                names.append(f"({pod.name}{EXTENDED_SUFFIX})")
            for name, chosen in zip(names, wants.results.of(row).chosen, strict=True):
                found[name] = list(allocated(chosen, name))
        return found

    def looked_further(self, pod: Pod, cluster: Cluster, row: int) -> bool:
        """Return whether kube-scheduler's search finds no devices on a node that passes, and looking further did."""
        wants = self.wants(pod, cluster)
        return wants is not None and wants.results is not None and wants.results.of(row).further

    def _claiming(self, pod: Pod, cluster: Cluster) -> PodGroup | None:
        """The pod's group, if it has claims of its own and these are heeded."""
        return group_of(pod, cluster) if self._group_claims and pod.scheduling_group is not None else None

    def unusable(self, claim: ResourceClaim, cluster: Cluster) -> Bools | None:
        """bool[rows] of the nodes that can't use what a claim was given; None: all can."""
        return unusable_rows(claim, cluster, self._timeout)

    def _broken(self, pod: Pod, wants: PodDevices, results: AllocationsByNode) -> tuple[Reason, Bools]:
        """One reason for all nodes: each of thousands may have an error of its own, which names its devices."""
        failed = results.outcomes == Outcome.FAILED

        def said(row: int) -> str:
            return named(results.of(row).error, wants, pod)

        return ErrorByNode(said(int(failed.argmax())), True, True, said), failed
