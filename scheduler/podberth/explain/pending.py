"""Explains all waiting pods by cause and owner, with the few changes that free most.

Pods that are alike (`explain.alike`) are explained once, and so are the pods of a pod group.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, field

from podberth.explain.alike import likeness
from podberth.explain.changes import Change, OnPod
from podberth.explain.doubts import seen_by, undecided, unheld
from podberth.explain.explain import explain
from podberth.explain.explanation import FITS, UNCLAIMED, UNSCHEDULABLE, Answer, Explanation, Remedy, Shown
from podberth.explain.gangs.answer import GOOD, GroupExplanation, GroupRemedy
from podberth.explain.gangs.explain import WORK, explain_group
from podberth.explain.gangs.gang import gang_of
from podberth.explain.objects.world import World
from podberth.explain.report.wording import most_first
from podberth.explain.written import of_cluster
from podberth.framework.runtime import Framework
from podberth.model.pod import Pod
from podberth.model.pod_group import GroupKey

MOST = 100
"""The largest number of kinds of pods that are explained; the rest is only counted."""
_REASONS = 3
_SHOWN = 8
_TERMINATING = "is being deleted"
_NOT_OURS = "waits for a scheduler that nobody seems to run"
_READY = "fits: its scheduler has not placed it yet"


class Cause(Shown, frozen=True):
    """Why pods wait: kube-scheduler's message, shortened to its most frequent reasons; who they are, by owner."""

    cause: str
    outcome: str
    pods: int
    owners: dict[str, int]
    example: str
    """One of the pods."""
    remedies: list[Remedy]
    """The changes that would free each of them; they were tried for the example."""
    group_remedies: list[GroupRemedy] = field(default_factory=list)
    """The changes that would start the pod group of the example."""
    detail: str = ""
    """More about the cause, with the names of what the example asks for; empty where nothing more is known."""


class SharedChange(Shown, frozen=True):
    """A change of the cluster, and the number of pods for which it opens a node; not all of them may fit together."""

    text: str
    change: list[Change]
    pods: int


class Pending(Answer, kw_only=True, frozen=True):
    """The answer about all waiting pods."""

    kind: str = "PendingPods"
    pods: int
    causes: list[Cause]
    changes: list[SharedChange]
    not_explained: int
    notes: list[str]


def pending(
    waiting: Iterable[Pod],
    world: World,
    frameworks: Mapping[str, Framework],
    ran: Mapping[str, int],
    *,
    notes: Sequence[str] = (),
) -> Pending:
    """Return the causes for which these pods wait. `ran`: schedulers besides the profiles → pods that they placed."""
    groups: dict[Hashable, list[Pod]] = {}
    gangs: dict[GroupKey, list[Pod]] = {}
    for pod in waiting:
        of = world.cluster.pod_groups.of(pod)
        if of is not None and world.cluster.pod_groups.get(of) is not None:
            gangs.setdefault(of, []).append(pod)
            continue
        groups.setdefault(_key(pod, world, frameworks, ran), []).append(pod)
    largest = sorted(groups.values(), key=lambda group: (-len(group), group[0].key))
    told: dict[tuple[str, str], list[_Alike]] = {}
    for group in largest[:MOST]:
        answer = _explained(group[0], world, frameworks, ran)
        _put(told.setdefault((_cause(answer, group[0]), answer.outcome), []), group, answer)
    causes = [_told(cause, outcome, alike) for (cause, outcome), several in told.items() for alike in several]
    ordered = sorted(gangs.items(), key=lambda gang: (-len(gang[1]), gang[0]))
    causes += _of_gangs(ordered[:MOST], world, frameworks, ran)
    causes.sort(key=lambda each: (-each.pods, each.cause))
    every = [pair for several in told.values() for alike in several for pair in alike.found]
    return Pending(
        pods=sum(map(len, largest)) + sum(map(len, gangs.values())),
        causes=causes,
        changes=_changes(every),
        not_explained=sum(map(len, largest[MOST:])) + sum(len(pods) for _, pods in ordered[MOST:]),
        notes=list(notes),
    )


def owner_of(pod: Pod) -> str:
    """Return `ReplicaSet ns/web`; the pod itself where nobody owns it."""
    return f"{pod.owner[0]} {pod.namespace}/{pod.owner[1]}" if pod.owner is not None else f"Pod {pod.key}"


def _key(pod: Pod, world: World, frameworks: Mapping[str, Framework], ran: Mapping[str, int]) -> Hashable:
    """Return a key that pods share of which one is explained for all."""
    framework, _ = seen_by(pod, frameworks, ran)
    return (
        likeness(pod, framework, world.cluster),
        pod.priority,
        pod.preempts,
        pod.scheduler_name,
        pod.gates,
        pod.terminating,
        pod.scheduling_group,
        pod.nominated_node_name,
    )


def _explained(pod: Pod, world: World, frameworks: Mapping[str, Framework], ran: Mapping[str, int]) -> Explanation:
    framework, instead = seen_by(pod, frameworks, ran)
    written = of_cluster(pod, world)
    return explain(pod, framework, world.cluster, instead=instead, written=written, unheld=unheld(pod, world))


def _of_gangs(
    gangs: Sequence[tuple[GroupKey, list[Pod]]],
    world: World,
    frameworks: Mapping[str, Framework],
    ran: Mapping[str, int],
) -> Iterator[Cause]:
    """Yield one entry for all pods of a group; groups that wait for the same cause share one."""
    told: dict[tuple[str, str], list[tuple[GroupKey, list[Pod], GroupExplanation]]] = {}
    for key, pods in gangs:
        gang, first = gang_of(key, world.cluster), pods[0]
        assert gang is not None
        framework, instead = seen_by(first, frameworks, ran)
        work = max(WORK // len(gangs), len(gang.waiting) + 1)
        answer = explain_group(gang, framework, world.cluster, instead=instead, work=work)
        told.setdefault((_cause_of(answer, first), answer.outcome), []).append((key, pods, answer))
    for (cause, outcome), found in told.items():
        owners = {f"PodGroup {key}": len(pods) for key, pods, _ in found}
        _, pods, answer = found[0]
        yield Cause(cause, outcome, sum(owners.values()), owners, pods[0].key, [], answer.remedies)


def _cause_of(answer: GroupExplanation, first: Pod) -> str:
    """Return the cause for which a group waits, in one line."""
    if answer.outcome in GOOD:
        return _READY
    if answer.outcome == UNCLAIMED:
        return f"{_NOT_OURS}: {first.scheduler_name}"
    if answer.outcome != UNSCHEDULABLE or not answer.domains:
        return answer.cause
    where = f" in one {answer.group.topology_key}" if answer.domain else ""
    return f"{answer.fits:,} of the {answer.group.waiting:,} pods of the group fit{where}: {answer.cause}"


def _cause(answer: Explanation, pod: Pod) -> str:
    """Return the cause for which a pod waits, in one line."""
    if pod.terminating:
        return _TERMINATING
    if answer.outcome == FITS:
        return _READY
    if unknown := undecided(answer):
        return unknown
    if answer.outcome == UNCLAIMED:
        return f"{_NOT_OURS}: {pod.scheduler_name}"
    if answer.verdict is not None:
        return answer.verdict.reason
    if answer.cause is not None and answer.cause in answer.notes:
        return answer.cause  # what is perhaps misspelt
    if answer.summary:
        reasons = sorted({each.reason for each in answer.summary[:_REASONS]})
        return " · ".join(reasons)
    return answer.message or answer.outcome


class _Alike(Struct):
    """Pods that wait for one cause, and the changes that free each of them; none if none frees any."""

    found: list[tuple[list[Pod], Explanation]]
    remedies: list[Remedy]


def _put(several: list[_Alike], group: list[Pod], answer: Explanation) -> None:
    """Put pods to those that one of their changes frees, too; else they are apart."""
    texts = {remedy.text for remedy in answer.remedies}
    for alike in several:
        common = [remedy for remedy in alike.remedies if remedy.text in texts]
        if common or not (alike.remedies or texts):
            alike.found.append((group, answer))
            alike.remedies = common
            return
    several.append(_Alike([(group, answer)], answer.remedies))


def _told(cause: str, outcome: str, alike: _Alike) -> Cause:
    owners = Counter(owner_of(pod) for group, _ in alike.found for pod in group)
    first, answer = alike.found[0]
    detail = "" if answer.verdict is None or answer.verdict.detail == cause else answer.verdict.detail
    return Cause(cause, outcome, owners.total(), most_first(owners), first[0].key, alike.remedies, detail=detail)


def _changes(found: Sequence[tuple[Sequence[Pod], Explanation]]) -> list[SharedChange]:
    """Return the changes of the cluster that help pods of any kind, those that help most first."""
    known: dict[str, tuple[list[Change], int]] = {}
    for group, answer in found:
        of_cluster = [each for each in answer.remedies if not any(isinstance(c, OnPod) for c in each.changes)]
        fewest = min((len(each.changes) for each in of_cluster), default=0)
        for remedy in of_cluster:
            if len(remedy.changes) > fewest:
                continue
            change, pods = known.get(remedy.text, (remedy.changes, 0))
            known[remedy.text] = change, pods + len(group)
    ordered = sorted(known.items(), key=lambda item: (-item[1][1], len(item[1][0]), item[0]))
    return [SharedChange(text, change, pods) for text, (change, pods) in ordered[:_SHOWN]]
