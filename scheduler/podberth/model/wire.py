"""The API's JSON, decoded straight into the fields that a decision reads (msgspec Structs).

Parts that repeat from pod to pod of one template (affinity, tolerations, resources …) stay raw
bytes here: equal bytes are parsed once and the result is shared, see `podberth.model.pod`.
"""

from typing import Any

import msgspec
from msgspec import Raw, Struct, field


class Object(Struct, rename="camel", omit_defaults=True, gc=False):
    """Common settings: camelCase on the wire, nothing that says the default, no cycles for the collector to track."""


class OwnerReference(Object, gc=False):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class ObjectMeta(Object, gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: Raw = Raw()
    annotations: Raw = Raw()
    owner_references: list[OwnerReference] | None = None


class Requirement(Object, gc=False):
    key: str = ""
    """The label or field."""
    operator: str = ""
    """In, NotIn, Exists or DoesNotExist; for node labels also Gt and Lt."""
    values: list[str] | None = None
    """One or more for In and NotIn, one whole number for Gt and Lt, none for the others."""


class LabelSelector(Object, gc=False):
    match_labels: dict[str, str] | None = None
    """Labels and the values that they must have."""
    match_expressions: list[Requirement] | None = None
    """Further requirements, all of which have to be met."""


class NodeSelectorTerm(Object, gc=False):
    match_expressions: list[Requirement] | None = None
    """Requirements on labels of the node, all of which have to be met."""
    match_fields: list[Requirement] | None = None
    """Requirements on fields of the node, such as metadata.name."""


class NodeSelector(Object, gc=False):
    node_selector_terms: list[NodeSelectorTerm | None] | None = None
    """A node is selected that meets any of these terms."""


class PreferredSchedulingTerm(Object, gc=False):
    weight: int = 0
    """The term adds this to a node that meets it; 1 to 100."""
    preference: NodeSelectorTerm = field(default_factory=NodeSelectorTerm)
    """The requirements."""


class NodeAffinity(Object, gc=False):
    required: NodeSelector | None = field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")
    """Terms of which a node has to meet one."""
    preferred: list[PreferredSchedulingTerm] | None = field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )
    """Terms that add to the score of nodes that meet them."""


class PodAffinityTerm(Object, gc=False):
    label_selector: LabelSelector | None = None
    namespaces: list[str] | None = None
    namespace_selector: LabelSelector | None = None
    topology_key: str = ""


class WeightedPodAffinityTerm(Object, gc=False):
    weight: int = 0
    pod_affinity_term: PodAffinityTerm = field(default_factory=PodAffinityTerm)


class PodAffinity(Object, gc=False):
    required: list[PodAffinityTerm] | None = field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: list[WeightedPodAffinityTerm] | None = field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(Object, gc=False):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(Object, gc=False):
    max_skew: int = 1
    """A domain may have so many more pods than the domain with the fewest."""
    topology_key: str = ""
    """The node label whose values are the domains."""
    when_unsatisfiable: str = "DoNotSchedule"
    """DoNotSchedule, or ScheduleAnyway: then it is a preference."""
    label_selector: LabelSelector | None = None
    """The pods that are counted."""
    min_domains: int | None = None
    """With fewer domains, the least number of pods counts as 0."""
    node_affinity_policy: str | None = None
    """Honor (the default) leaves out nodes that the pod's node affinity excludes, Ignore counts them."""
    node_taints_policy: str | None = None
    """Honor leaves out nodes whose taints the pod does not tolerate, Ignore (the default) counts them."""
    match_label_keys: list[str] | None = None
    """Labels of the pod whose values the counted pods must share."""


class Toleration(Object, gc=False):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


Amount = str | int | float
"""A quantity."""
Amounts = dict[str, Amount]


class ResourceRequirements(Object, gc=False):
    requests: Amounts | None = None
    limits: Amounts | None = None


class ContainerPort(Object, gc=False):
    host_port: int = 0
    host_ip: str = field(default="", name="hostIP")
    protocol: str = ""


class Container(Object, gc=False):
    name: str = ""
    image: str = ""
    resources: Raw = Raw()
    ports: Raw = Raw()
    restart_policy: str | None = None
    restart_policy_rules: Raw = Raw()
    volume_mounts: Raw = Raw()


class ImageVolume(Object, gc=False):
    reference: str = ""


class ClaimVolume(Object, gc=False):
    claim_name: str = ""


class GCEDisk(Object, gc=False):
    pd_name: str = ""
    read_only: bool = False


class VolumeID(Object, gc=False):
    """The sources that name their volume by `volumeID`: AWS EBS, Cinder, Portworx."""

    volume_id: str = field(default="", name="volumeID")


class AzureDisk(Object, gc=False):
    uri: str = field(default="", name="diskURI")
    kind: str | None = None


class ISCSI(Object, gc=False):
    iqn: str = ""
    read_only: bool = False


class RBD(Object, gc=False):
    monitors: list[str] | None = None
    pool: str = ""
    image: str = ""
    read_only: bool = False


class Volume(Object, gc=False):
    """Only the sources a scheduler reads; the rest (projected, configMap …) decode to nothing."""

    name: str = ""
    persistent_volume_claim: ClaimVolume | None = None
    ephemeral: Raw = Raw()
    image: ImageVolume | None = None
    gce_persistent_disk: GCEDisk | None = None
    aws_elastic_block_store: VolumeID | None = None
    iscsi: ISCSI | None = None
    rbd: RBD | None = None
    azure_disk: AzureDisk | None = None
    cinder: VolumeID | None = None
    portworx_volume: VolumeID | None = None


class SchedulingGroup(Object, gc=False):
    """The group that a pod is a member of."""

    pod_group_name: str | None = None


class SchedulingGate(Object, gc=False):
    name: str = ""


class PodClaim(Object, gc=False):
    """A claim for devices that a pod names, or that is made for it from a template."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodClaimStatus(Object, gc=False):
    """The claim that was made for a pod; without a name, none was needed."""

    name: str = ""
    resource_claim_name: str | None = None


class RestartRule(Object, gc=False):
    action: str = ""


class VolumeMount(Object, gc=False):
    bind_mount_options: list[str] | None = None


class PodSpec(Object, gc=False):
    node_name: str = ""
    scheduler_name: str = ""
    priority: int | None = None
    preemption_policy: str | None = None
    restart_policy: str | None = None
    active_deadline_seconds: int | None = None
    containers: list[Container] = []
    init_containers: list[Container] | None = None
    node_selector: Raw = Raw()
    affinity: Raw = Raw()
    tolerations: Raw = Raw()
    topology_spread_constraints: Raw = Raw()
    overhead: Raw = Raw()
    resources: Raw = Raw()
    resource_claims: Raw = Raw()
    scheduling_group: Raw = Raw()
    scheduling_gates: list[SchedulingGate] | None = None
    host_network: bool | None = None
    host_users: bool | None = None
    volumes: list[Volume] | None = None


class Condition(Object, gc=False):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    observed_generation: int = 0
    last_transition_time: str | None = None


class ContainerStatus(Object, gc=False):
    name: str = ""
    allocated_resources: Raw = Raw()
    resources: Raw = Raw()


class PodStatus(Object, gc=False):
    phase: str = ""
    nominated_node_name: str = ""
    start_time: str | None = None
    conditions: list[Condition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    allocated_resources: Raw = Raw()
    resources: Raw = Raw()
    resource_claim_statuses: list[PodClaimStatus] | None = None


class Pod(Object, gc=False):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: PodSpec = field(default_factory=PodSpec)
    status: PodStatus = field(default_factory=PodStatus)


class NodeSpec(Object, gc=False):
    unschedulable: bool = False
    taints: Raw = Raw()


class ContainerImage(Object, gc=False):
    names: list[str] | None = None
    size_bytes: int = 0


class NodeStatus(Object, gc=False):
    allocatable: Raw = Raw()
    images: Raw = Raw()
    declared_features: list[str] | None = None


class Node(Object, gc=False):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: NodeSpec = field(default_factory=NodeSpec)
    status: NodeStatus = field(default_factory=NodeStatus)


class SelectorSpec(Object, gc=False):
    """The spec of everything that selects pods: Service, ReplicaSet, StatefulSet, PodDisruptionBudget …"""

    selector: Raw = Raw()
    unhealthy_pod_eviction_policy: str | None = None


class BudgetStatus(Object, gc=False):
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    observed_generation: int = 0
    disrupted_pods: dict[str, Any] | None = None


class PodSelecting(Object, gc=False):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: SelectorSpec = field(default_factory=SelectorSpec)
    status: Raw = Raw()


class Namespace(Object, gc=False):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)


class Taint(Object, gc=False):
    key: str = ""
    value: str | None = None
    effect: str = ""


texts_decoder: msgspec.json.Decoder[dict[str, str]] = msgspec.json.Decoder(dict[str, str])
"""The type of labels and of annotations."""


def present(raw: Raw) -> bytes:
    """Return the bytes of a raw field, empty when it is absent or null."""
    text = bytes(raw)
    return b"" if text == b"null" else text


def mentions(text: bytes, token: bytes) -> bool:
    """Return whether a token is among these bytes.

    For `token in text` Python first tries the token as a number, and raises and drops an exception: that takes ten
    times as long, and every line of a watch asks six times.
    """
    return text.find(token) >= 0


def annotation(annotations: bytes, name: str, token: bytes) -> str | None:
    """The value of an annotation, None where there is none. Nothing is decoded unless `token`, the end of its name, is
    among the bytes.
    """
    return texts_decoder.decode(annotations).get(name) if mentions(annotations, token) else None


def encode(document: Any) -> bytes:
    """Bytes of an API dict from YAML or a test, for the decoders above."""
    return msgspec.json.encode(document)
