"""Profiles that no pod reaches, and profiles that leave out what pods rely on."""

from collections.abc import Iterator, Sequence

from podberth.explain.judging.schema import shown
from podberth.explain.lint.finding import Checked, Finding
from podberth.model.selectors import is_qualified_name

KUBE_SCHEDULER = "default-scheduler"
_CONSEQUENCES = {
    "NodeName": "pods may go to another node than the one they name",
    "NodeUnschedulable": "pods go to nodes that are cordoned",
    "TaintToleration": "pods go to nodes whose taints they do not tolerate, and NoExecute taints evict them again",
    "NodeAffinity": "nodeSelector and node affinity are not looked at, and the kubelet refuses the pod (NodeAffinity)",
    "NodePorts": "two pods get one host port, and the kubelet refuses the second (NodePorts)",
    "NodeResourcesFit": "nodes are filled beyond what they have, and the kubelet refuses pods (OutOfcpu, OutOfmemory)",
    "VolumeRestrictions": "a ReadWriteOncePod claim is used twice",
    "NodeVolumeLimits": "more volumes are attached to a node than it can take",
    "VolumeBinding": "claims that wait for their first consumer are never bound, and the pod never starts",
    "VolumeZone": "pods go to zones where their volumes are not",
    "PodTopologySpread": "constraints that say DoNotSchedule are passed over",
    "InterPodAffinity": "required affinity and anti-affinity between pods are passed over",
}


def reach(profiles: Sequence[Checked]) -> Iterator[Finding]:
    """Names that another scheduler has, that events can't carry, or that look like each other."""
    seen: dict[str, str] = {}
    for checked in profiles:
        name, path = checked.profile.name, f"{checked.path}.schedulerName"
        if name == KUBE_SCHEDULER:
            yield Finding(
                "profile-of-kube-scheduler",
                path,
                "the profile has the name that kube-scheduler answers to",
                "Both bind the same pods: they race for every pod that names no scheduler, and overfill nodes.",
                "Give the profile a name of its own, and let pods name it in spec.schedulerName.",
            )
        if not is_qualified_name(name):
            yield Finding(
                "profile-name-unusable",
                path,
                f"{shown(name)} is not a name that an Event can have as reportingController",
                "The API server refuses every event of this profile, so a pending pod has no event that says why.",
                "Use letters, digits, '-', '_' and '.', at most 63.",
            )
        alike = "".join(letter for letter in name.lower() if letter.isalnum())
        if alike in seen:
            yield Finding(
                "profile-names-alike",
                path,
                f"{shown(name)} and {shown(seen[alike])} differ in case or punctuation only",
                "A pod that spells it the other way is scheduled by the other profile, and no error says so.",
                "Choose names that can't be taken for each other.",
            )
        seen.setdefault(alike, name)


def missing(checked: Checked) -> Iterator[Finding]:
    """Default plugins that the profile does without, and what that means."""
    path = f"{checked.path}.plugins"
    if not checked.runs("SchedulingGates", "pre_enqueue"):
        yield Finding(
            "gates-missing",
            f"{path}.preEnqueue",
            "SchedulingGates does not run",
            "Pods with scheduling gates are tried all the same, and the API server refuses every binding of theirs.",
            "Enable SchedulingGates.",
        )
    absent = [name for name in _CONSEQUENCES if not checked.runs(name, "filter")]
    if absent:
        yield Finding(
            "filters-missing",
            f"{path}.filter",
            f"{', '.join(absent)} {'does' if len(absent) == 1 else 'do'} not filter nodes",
            f"{'; '.join(f'without {name} {_CONSEQUENCES[name]}' for name in absent)}.",
            "Enable them at filter or multiPoint.",
        )
    if not checked.profile.plugins("score"):
        yield Finding(
            "scores-missing",
            f"{path}.score",
            "no plugin scores nodes",
            "Every node that fits is as good as any other: the choice is by lot.",
            "Enable at least NodeResourcesFit at score.",
        )


def no_preemption(checked: Checked) -> Iterator[Finding]:
    """A profile whose pods make no room for each other."""
    if not checked.profile.plugins("post_filter"):
        yield Finding(
            "preemption-missing",
            f"{checked.path}.plugins.postFilter",
            "no plugin makes room for pods (DefaultPreemption does not run)",
            "A pod of high priority comes first in the queue, and then waits until a node has room.",
            "Enable DefaultPreemption, or give all pods of this profile preemptionPolicy: Never so that it is plain.",
        )
