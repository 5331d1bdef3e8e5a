"""Which pods of a file's workloads are in the cluster already: only the others are new.

They are matched by their owner, or by the labels that an operator sets. A Deployment whose pods of before ask for
something else is rolled out: all pods of its new revision come, beside those of the old one. So does one whose pods
select by their own pod-template-hash, if their ReplicaSet is not in the dump. Where pods are replaced in their places
(StatefulSets, DaemonSets, kinds of operators), a roll-out is not simulated, and that is said.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from podberth.explain.arrivals import Batch
from podberth.explain.controllers import Owner
from podberth.explain.manifest import Workload
from podberth.explain.world import World
from podberth.model.pod import Pod

_HASHES = {"Deployment": "pod-template-hash", "Rollout": "rollouts-pod-template-hash"}
"""Kinds whose pods are owned by a ReplicaSet → the label that tells their revisions apart."""
_NUMBERS = {"StatefulSet": "apps.kubernetes.io/pod-index", "Job": "batch.kubernetes.io/job-completion-index"}
"""Kinds whose pods have numbers → the label that says which."""
_NEVER = ("Pod", "PodTemplate", "CronJob")
"""Kinds of which nothing is matched here: a run of a CronJob is new."""
_LASTING = ("ReplicaSet", "ReplicationController", "Job")
"""Kinds whose pods stay as they are when the template changes."""


def rolled_out(batch: Batch, world: World) -> str:
    """Say that pods of a workload are replaced in their places, which is not simulated; empty if none are."""
    kind = batch.workload.kind
    if kind in (*_NEVER, *_LASTING, *_HASHES):
        return ""
    there = list(_its(batch, world))
    changed = len(there) - len(_as_it_makes_them(there, batch, world))
    if not changed:
        return ""
    asks = "asks" if changed == 1 else "ask"
    return (
        f"{batch.owner}: {changed:,} of its pods {asks} for something else than its file; a roll-out replaces "
        "them where they are, and whether the new ones fit is not tried"
    )


def still_to_come(batch: Batch, world: World) -> tuple[list[Workload], list[str]]:
    """The workload of a batch as far as its pods are not there yet, and what to say of it."""
    workload = batch.workload
    # The nodes of a DaemonSet are looked at later.
    there = [] if workload.kind in (*_NEVER, "DaemonSet") else list(_its(batch, world))
    notes = []
    if workload.kind in _HASHES and there:
        same = _as_it_makes_them(there, batch, world)
        if len(same) < len(there):
            others = _pods(len(there) - len(same))
            notes.append(
                f"{batch.owner}: {others} of another revision counted beside the new ones; "
                "a new one without a node may only have to wait until an old one has ended"
            )
        there = same
    if there and workload.labels:
        workload = _like(workload, there[0])
    wanted = workload.wanted or 0
    if not there:
        return [workload._replace(wanted=0) if workload.paused else workload], notes
    if len(there) > wanted:
        surplus = _pods(len(there) - wanted)
        notes.append(
            f"{batch.owner}: it has {len(there):,} pods and wants {wanted:,}; {surplus} too many, counted still"
        )
    else:
        notes.append(f"{batch.owner}: {len(there):,} of its {wanted:,} pods are there already")
    number = _NUMBERS.get(workload.kind, "")
    if workload.numbered is not None and number:
        return _gaps(workload, wanted, {_number(pod, number) for pod in there}), notes
    left = max(0, wanted - len(there))
    return [workload._replace(start=workload.start + len(there), wanted=left)], notes


def _its(batch: Batch, world: World) -> Iterator[Pod]:
    """The pods of a workload that the cluster has, but for those that are being deleted."""
    namespace = batch.key(0).partition("/")[0]
    for pod in chain(world.placed.values(), world.waiting.values()):
        if pod.namespace == namespace and not pod.terminating and _is_its(pod, batch.workload):
            yield pod


def _is_its(pod: Pod, workload: Workload) -> bool:
    if workload.own is not None:
        return workload.own(pod.labels)
    if pod.owner is None:
        return False
    kind, name, _ = pod.owner
    label = _HASHES.get(workload.kind)
    if label is None:
        return (kind, name) == (workload.kind.partition(".")[0], workload.owner)
    by_hash = f"{workload.owner}-{pod.labels[label]}" if label in pod.labels else ""
    return kind == "ReplicaSet" and (name == by_hash or name.rpartition("-")[0] == workload.owner)


def _as_it_makes_them(pods: Iterable[Pod], batch: Batch, world: World) -> list[Pod]:
    """Those pods that ask for what a batch would, had its pods the same hashes and numbers.

    Of a revision whose ReplicaSet is not known, as a dump by hand may lack it, the hash is no longer that of the file.
    """
    numbered = batch.workload.numbered
    each_its_own = numbered(0, "") if numbered else {}
    firsts: dict[tuple[str, ...], Pod] = {}

    def first(pod: Pod, labels: Mapping[str, str]) -> Pod:
        own = {key: pod.labels.get(key, value) for key, value in labels.items()}
        key = tuple(own.values())
        if key not in firsts:
            firsts[key] = batch.relabelled(own).first
        return firsts[key]

    def known(pod: Pod) -> bool:
        if batch.kind not in _HASHES:
            return True
        sets = world.cluster.selecting.get("ReplicaSet", {}).get(pod.namespace, {})
        return pod.owner is not None and pod.owner[1] in sets

    shared = batch.workload.labels
    return [
        pod
        for pod in pods
        if _asks_the_same(pod, batch.first)
        or (shared and known(pod) and _asks_the_same(pod, first(pod, shared)))
        or (each_its_own and _asks_the_same(pod, first(pod, {**shared, **each_its_own})))
    ]


def _like(workload: Workload, pod: Pod) -> Workload:
    """A workload with the hashes and UIDs of one of its pods that is there, and with its ReplicaSet."""
    labels = {key: pod.labels.get(key, value) for key, value in workload.labels.items()}
    by = workload.controller
    if workload.kind in _HASHES and pod.owner is not None:
        by = Owner("apps/v1", *pod.owner[:2])
    return workload._replace(labels=labels, controller=by)


def _asks_the_same(pod: Pod, other: Pod) -> bool:
    """Return whether two pods ask for the same room and the same places; images and labels are not compared."""
    # A DaemonSet's controller gives each of its pods the name of its node.
    of_daemon = pod.owner is not None and pod.owner[0] == "DaemonSet"
    return _asked(pod, of_daemon) == _asked(other, of_daemon)


def _asked(pod: Pod, of_daemon: bool) -> tuple[object, ...]:
    shape = pod.shape
    return (
        pod.priority,
        shape.requests,
        shape.host_ports,
        frozenset(shape.node_selector),  # in any order: the API server gives it back by key
        None if of_daemon else shape.required_node_affinity,
        shape.affinity_terms,
        shape.anti_affinity_terms,
        shape.preferred_pod_terms,
        shape.spread,
    )


def _pods(number: int) -> str:
    return "1 pod" if number == 1 else f"{number:,} pods"


def _number(pod: Pod, label: str) -> int:
    """The number of a pod, by its label or its name; -1 where neither says it."""
    text = pod.labels.get(label) or pod.name.rpartition("-")[2]
    return int(text) if text.isdecimal() else -1


def _gaps(workload: Workload, wanted: int, there: set[int]) -> list[Workload]:
    """The workload for each run of numbers that no pod has."""
    found: list[Workload] = []
    begin = first = workload.start
    for number in [*sorted(each for each in there if first <= each < first + wanted), first + wanted]:
        if number > begin:
            found.append(workload._replace(start=begin, wanted=number - begin))
        begin = number + 1
    return found or [workload._replace(wanted=0)]
