"""What a change would do besides freeing the pod: who else gets a node by it, who has to move, and who loses.

Each is simulated: the change is made, the pod is placed, those who have to leave are placed again, then those who wait.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from msgspec.structs import replace

from podberth.explain import explanation as shown
from podberth.explain.changes import Change, FreeDevices, Label, MovePod, OnPod
from podberth.explain.rejections import Asking
from podberth.explain.simulate.drain import Disruptions
from podberth.explain.trial import applied, best, edited, placing
from podberth.framework.status import PluginError
from podberth.model.pod import Pod
from podberth.plugins.node_affinity import pod_matches

_KINDS = 20
"""Kinds of equal pods that are looked at, the most frequent ones."""
_OF_A_KIND = 50
_NAMED = 4


class SideEffects:
    """Looks at the effects of several changes for the same pod. `others`: pods that wait."""

    def __init__(self, asking: Asking, others: Iterable[Pod]) -> None:
        self._asking = asking
        self._pod = asking.inquiry.pod
        self._cluster = asking.inquiry.cluster
        self._framework = asking.framework
        groups: dict[object, list[Pod]] = {}
        for pod in others:
            if pod.uid != self._pod.uid and not pod.gates and not pod.terminating:
                groups.setdefault((id(pod.shape), pod.namespace, id(pod.labels), pod.priority), []).append(pod)
        ordered = sorted(groups.values(), key=lambda group: (-len(group), group[0].key))[:_KINDS]
        self._groups = sorted(ordered, key=lambda group: (-group[0].priority, group[0].created, group[0].key))
        self._fit: list[bool] | None = None
        """Which of the groups fit as things are."""

    def of(self, changes: Sequence[Change]) -> shown.SideEffects | None:
        """Return what these changes do; None: a plugin failed, and a note says so. The cluster is
        as before afterwards.
        """
        try:
            return self._simulated(changes)
        except PluginError as error:
            self._asking.failed("what the changes would do to other pods is not known", error)
            return None

    def _simulated(self, changes: Sequence[Change]) -> shown.SideEffects:
        """Raises PluginError."""
        if self._fit is None:
            self._fit = [best(group[0], self._framework, self._cluster) is not None for group in self._groups]
        holders = [pod for change in changes if isinstance(change, FreeDevices) for pod in self._holders(change)]
        leaving = [pod for change in changes if isinstance(change, MovePod) for pod in self._there(change)] + holders
        disruptions, refused = Disruptions(self._cluster), dict[str, str]()
        for pod in leaving:
            if (refusal := disruptions.refused(pod)) is not None:
                refused[pod.key] = refusal.text
            disruptions.leaves(pod)
        lands: list[str] = []
        loses: list[str] = []
        moved: dict[str, str | None] = {}
        with (
            applied(self._cluster, changes),
            self._without(holders),
            placing(self._framework, self._cluster) as place,
        ):
            place.put(edited(self._pod, changes))
            for pod in leaving:
                moved[pod.key] = place.put(replace(pod, node_name="", nominated_node_name=""))
            only_the_pod = all(isinstance(change, OnPod) for change in changes)
            for group, fits in zip(self._groups, self._fit, strict=True):
                if fits:
                    if best(group[0], self._framework, self._cluster) is None:
                        loses.append(group[0].key)
                elif not only_the_pod:
                    for pod in group[:_OF_A_KIND]:
                        if place.put(pod) is None:
                            break
                        lands.append(pod.key)
        return shown.SideEffects(
            lands=lands[:_NAMED],
            landed=len(lands),
            moved=moved,
            loses=loses[:_NAMED],
            refused=refused,
            unmade=[pod.key for pod in leaving if pod.owner is None],
            relies=[pod.key for change in changes if isinstance(change, Label) for pod in self._relying(change)],
        )

    def _relying(self, change: Label) -> Iterator[Pod]:
        """The pods of a node that ask for a label as it is now."""
        nodes = self._cluster.nodes
        row = nodes.live_row(change.node)
        node = None if row is None else nodes.objects[row]
        if row is not None and node is not None:
            labelled = change.changed(node)
            for pod in self._cluster.pods_on(row):
                if pod_matches(pod, node) and not pod_matches(pod, labelled):
                    yield pod

    def _there(self, change: MovePod) -> Iterator[Pod]:
        row = self._cluster.nodes.live_row(change.node)
        pods = () if row is None else self._cluster.pods_on(row)
        return (pod for pod in pods if pod.key == change.pod)

    def _holders(self, change: FreeDevices) -> Iterator[Pod]:
        """The placed pods that use a claim."""
        namespace, _, name = change.claim.partition("/")
        claim = self._cluster.devices.claims.get((namespace, name))
        for uid in () if claim is None else claim.reserved_for:
            placement = self._cluster.placement(uid)
            if placement is not None and not placement.assumed:
                yield placement.pod

    @contextmanager
    def _without(self, pods: Sequence[Pod]) -> Iterator[None]:
        """The cluster without some placed pods, as long as the block lasts."""
        for pod in pods:
            self._cluster.drop_pod(pod.uid)
        try:
            yield
        finally:
            for pod in pods:
                self._cluster.put_pod(pod)
