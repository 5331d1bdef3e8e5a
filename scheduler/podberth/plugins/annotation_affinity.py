"""Affinity by annotation, as the seed era's pods asked for it (upstream until 1.5: api.AffinityAnnotationKey).

A profile that has this plugin reads `scheduler.alpha.kubernetes.io/affinity` of its pods before anything is decided:
the pod's shape is made with it (`podberth.model.annotated`), so that NodeAffinity, InterPodAffinity and everybody who
looks at placed pods' terms see one affinity. What is left for the plugin to do is to refuse what can't be honoured.
"""

from collections.abc import Collection
from typing import Annotated

from msgspec import Meta, Struct

from podberth.cache.cluster import Cluster
from podberth.framework.events import ClusterEvent
from podberth.framework.interface import NO_POINTS, SKIPPABLE, Plugin
from podberth.framework.status import Reject, Unresolvable
from podberth.model.annotated import MODES
from podberth.model.pod import Pod
from podberth.model.shape import PodShape


class AnnotationAffinityArgs(Struct, forbid_unknown_fields=True, rename="camel", frozen=True):
    """`mode`, replace or add: what the annotation does to spec.affinity unless the pod's own annotation says so."""

    mode: Annotated[str, Meta(extra_json_schema={"enum": ["replace", "add"]})] = "replace"
    """The annotation replaces spec.affinity, or adds to it, unless the pod's own annotation says which."""


class AnnotationAffinity(Plugin):
    """Honour affinity by annotation, and keep a pod pending whose annotation can't be read."""

    name = "AnnotationAffinity"
    Args = AnnotationAffinityArgs
    events = ClusterEvent.OWN_AFFINITY

    def __init__(self, args: AnnotationAffinityArgs) -> None:
        self.annotated_affinity = "add" if args.mode == "add" else "replace"

    @staticmethod
    def check(args: AnnotationAffinityArgs, path: str) -> list[str]:
        """Errors of the arguments."""
        if args.mode in MODES:
            return []
        supported = ", ".join(f'"{mode}"' for mode in MODES)
        return [f'{path}.mode: Unsupported value: "{args.mode}": supported values: {supported}']

    def skips(self, shape: PodShape) -> Collection[str]:
        """Skip everything for pods whose annotation can be honoured."""
        return SKIPPABLE if shape.annotation_problem is None else NO_POINTS

    def pre_filter(self, pod: Pod, cluster: Cluster) -> Reject | None:
        """Reject a pod whose annotation can't be honoured: better pending than misplaced."""
        problem = pod.shape.annotation_problem
        return None if problem is None else Reject(Unresolvable(problem))
