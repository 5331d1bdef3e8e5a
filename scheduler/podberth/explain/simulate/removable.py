"""Finds the nodes that could be removed: all their pods would land elsewhere, and nothing forbids that they go.

Each node is tried in a dry run by itself, those with the fewest pods first. Then they are taken away one after the
other as long as all pods land, which is a set that can go together, and not always the largest one.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import ExitStack

from podberth.cache.cluster import Cluster
from podberth.cache.column import Bools
from podberth.engine.schedule_one import Choice
from podberth.explain.explanation import Answer, Shown
from podberth.explain.objects.disruptions import UNGUARDED, Disruptions
from podberth.explain.objects.resource_claims import without
from podberth.explain.simulate.drain import again, goes_anyway
from podberth.explain.trial import Placing, placing
from podberth.framework.decision import fit_error
from podberth.framework.runtime import Framework
from podberth.model.node import Node
from podberth.model.pod import Pod

MOST = 60_000
"""The largest number of pods that are placed in a dry run, for all nodes together."""
_NAMED = 20
"""The largest number of pods of a node that are listed with where they would go."""
BARE = "no controller would create it again"
GROUPED = "pods of a pod group are decided together"


class Movable(Shown, frozen=True):
    """A node that could go by itself. `moves`: some of its pods → where they would go."""

    node: str
    pods: int
    moves: dict[str, str]


class Kept(Shown, frozen=True):
    """A node that can't go. `stops`: pod → reason why it can't leave, or does not land elsewhere."""

    node: str
    pods: int
    stops: dict[str, str]


class Removals(Answer, kw_only=True, frozen=True):
    """`together`: nodes that can go one after the other, in this order; `not_tried`: nodes left out to save time."""

    kind: str = "Removals"
    profile: str
    removable: list[Movable]
    together: list[str]
    together_pods: int
    kept: list[Kept]
    not_tried: list[str]
    notes: list[str]


def removals(
    cluster: Cluster,
    framework: Framework,
    chosen: Callable[[Node], bool],
    most: int = MOST,
    only_wait: Container[str] = (),
) -> Removals:
    """Look at the nodes that are chosen. The cluster is as before afterwards.

    `most`: pods that are placed in a dry run. `only_wait`: UIDs of pods that are on nodes in a dry run alone. They
    keep no node: if they land nowhere else, they wait, as they do now. Raises PluginError.
    """
    search = _Search(cluster, framework, most, only_wait)
    nodes = [(row, node) for row, node in cluster.nodes.live() if chosen(node)]
    ordered = sorted(nodes, key=lambda each: (len(search.leaving(each[0])), each[1].name))
    movable: list[tuple[int, Movable]] = []
    kept: list[Kept] = []
    not_tried: list[str] = []
    for row, node in ordered:
        pods = search.leaving(row)
        stops = dict(search.forbidden(pods))
        moves: dict[str, str] = {}
        if not stops and search.left < len(pods):
            not_tried.append(node.name)
            continue
        if not stops:
            with ExitStack() as undone:
                moves, stops = search.take(row, pods, undone)
        if stops:
            kept.append(Kept(node.name, len(search.running(pods)), stops))
        else:
            movable.append((row, Movable(node.name, len(search.running(pods)), dict(list(moves.items())[:_NAMED]))))
    search.left = max(search.left, most // 2)
    together, moved, all_tried = _together(search, movable, cluster)
    notes = [] if cluster.selecting.get("PodDisruptionBudget") else [UNGUARDED]
    if not all_tried:
        notes.append("more nodes may go together: not all were tried")
    return Removals(
        profile=framework.profile.name,
        removable=[each for _, each in movable],
        together=together,
        together_pods=moved,
        kept=kept,
        not_tried=not_tried,
        notes=notes,
    )


def _together(
    search: "_Search", movable: Sequence[tuple[int, Movable]], cluster: Cluster
) -> tuple[list[str], int, bool]:
    """Return (nodes that go one after the other, how many of their pods move, whether all were tried)."""
    found: list[str] = []
    uids: set[str] = set()
    with ExitStack() as undone:
        for row, each in movable:
            pods = search.leaving(row)
            if search.left < len(pods):
                return found, len(uids), False
            with ExitStack() as attempt:
                if not search.take(row, pods, attempt)[1]:
                    undone.push(attempt.pop_all())
                    search.gone.append(row)
                    found.append(each.node)
                    uids |= {pod.uid for pod in search.running(pods)}
    return found, len(uids), True


class _Search:
    def __init__(self, cluster: Cluster, framework: Framework, most: int, only_wait: Container[str]) -> None:
        self._cluster = cluster
        self._framework = framework
        self._choice = Choice(0)
        self._only_wait = only_wait
        self.left = most
        """The number of pods that may still be placed."""
        self.gone: list[int] = []
        """Rows of nodes that are taken away already."""

    def leaving(self, row: int) -> list[Pod]:
        """Return the pods of a node that have to land elsewhere."""
        return [pod for pod in self._cluster.pods_on(row) if not (pod.belongs_to_node or goes_anyway(pod))]

    def running(self, pods: Iterable[Pod]) -> list[Pod]:
        """Return those of these pods that really are on their node, and not only in a dry run."""
        return [pod for pod in pods if pod.uid not in self._only_wait]

    def forbidden(self, pods: Sequence[Pod]) -> Iterator[tuple[str, str]]:
        """Yield (pod, why it can't leave)."""
        disruptions = Disruptions(self._cluster)
        for pod in pods:
            waits = pod.uid in self._only_wait
            refusal = None if waits else disruptions.refused(pod)
            if pod.owner is None and not waits:
                yield pod.key, BARE
            elif refusal is not None:
                yield pod.key, refusal.text
            elif pod.scheduling_group is not None:
                yield pod.key, GROUPED

    def take(self, row: int, pods: Sequence[Pod], undone: ExitStack) -> tuple[dict[str, str], dict[str, str]]:
        """Take a node away; return where its pods go, and why one of them goes nowhere. `undone` puts everything back.

        The pods leave as in a drain: as many at a time as disruption budgets let go, and the next ones when these are
        placed again.
        """
        within = self._cluster.nodes.alive[: self._cluster.nodes.rows].copy()
        within[[*self.gone, row]] = False
        disruptions = Disruptions(self._cluster)
        moves: dict[str, str] = {}
        homeless: list[Pod] = []
        leave, left = self._wave(pods, disruptions)
        if left:
            undone.callback(self._put_again, pods)  # else they would be back in the order in which the waves are undone
        while leave:
            undone.enter_context(without(leave, self._cluster))
            place: Placing = undone.enter_context(placing(self._framework, self._cluster, self._choice))
            waiting, homeless = sorted([*homeless, *leave], key=lambda pod: -pod.priority), []
            for pod in waiting:
                self.left -= 1
                node = place.put(again(pod), within)
                waits = pod.uid in self._only_wait
                if node is None:
                    homeless.append(pod)
                    if not left and not waits:
                        break  # no other pod that leaves could help it
                elif not waits:
                    moves[pod.key] = node
                    disruptions.placed_again(pod)
            leave, left = self._wave(left, disruptions)
        return moves, {pod.key: self._why(pod, within) for pod in self.running(homeless)[:1]}

    def _wave(self, pods: Sequence[Pod], disruptions: Disruptions) -> tuple[list[Pod], list[Pod]]:
        """Return (those that leave now, those that budgets keep until later)."""
        leave: list[Pod] = []
        later: list[Pod] = []
        for pod in pods:
            if pod.uid in self._only_wait:
                leave.append(pod)
            elif disruptions.refused(pod) is not None:
                later.append(pod)
            else:
                disruptions.leaves(pod)
                leave.append(pod)
        return leave, later

    def _put_again(self, pods: Sequence[Pod]) -> None:
        for pod in pods:
            self._cluster.drop_pod(pod.uid)
            self._cluster.put_pod(pod)

    def _why(self, pod: Pod, within: Bools) -> str:
        return fit_error(self._framework.decide(again(pod), self._cluster, within=within))
