"""Follows a cluster change by change, and decides each pod again that another scheduler binds.

A Binding is seen some time after the decision. The state that the other scheduler saw lies between the moment in which
the pod began to wait and its Binding, and pods that it decided before may be seen later, since Bindings overtake each
other. So a pod is compared in the state in which its Binding was seen, without itself. If that does not agree, it is
tried in older states, without the last placements, and in newer ones, with the next: the answer says so.
"""

from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from msgspec import Raw, Struct
from msgspec.structs import replace

from podberth.engine.schedule_one import Choice
from podberth.explain.objects.documents import ObjectError
from podberth.explain.objects.world import World
from podberth.explain.rejections import Asking, first_against, given_away, place_of
from podberth.explain.report.wording import most_first
from podberth.explain.shadow import answer as said
from podberth.explain.shadow.answer import Compared, PluginPoints, Summary, Tally, Waiting
from podberth.framework.decision import Decision, fit_error
from podberth.framework.explaining import Inquiry
from podberth.framework.profiles import annotated
from podberth.framework.runtime import Framework
from podberth.framework.status import PluginError, Reason
from podberth.model.kinds import KINDS, Decoder, Modelled
from podberth.model.limits import Limits
from podberth.model.pod import Pod
from podberth.plugins.dynamic_resources.claims import ClaimError, keys_of

EARLIER, LATER = 16, 8
"""The number of placements that are left out, or waited for, until a different answer is final."""
SETTLE_SECONDS = 2.0
"""The time for which an answer that differs waits for Bindings that were overtaken."""
_LOOKED = 100
"""The number of waiting pods that are tried at the end."""


_NOTHING = Raw()


class Change(Struct, kw_only=True):
    """A change of a cluster. `at`: seconds since the first one. One of `object`, `gone` (namespace, name, uid) and
    `synced`, the moment from which on everything is known, is set.

    `listed`: it comes from a list, not from a watch, so that what happened in between was not seen.
    """

    at: float = 0.0
    kind: str = ""
    object: Raw = _NOTHING
    gone: tuple[str, str, str] | None = None
    synced: bool = False
    listed: bool = False


class _Wait(NamedTuple):
    """Since when a pod waits. `since`: how many placements there were; `given`: its claims that name a place."""

    since: int
    given: int


class _Open:
    """A different answer that is not final until later placements have been tried."""

    def __init__(self, pod: Pod, found: Compared, number: int) -> None:
        self.pod = pod
        self.found = found
        self.number = number
        """The number of placements when its Binding was seen."""
        self.tried = 0


def decoder_for(framework: Framework, frameworks: Mapping[str, Framework], of: str, limits: Limits) -> Decoder:
    """Return what reads the pods of the scheduler `of` as one of these profiles reads its own."""
    read = annotated(frameworks)
    modes, own = read.affinity, framework.profile.name
    return Decoder(replace(read, affinity={**modes, of: modes[own]}) if own in modes else read, limits=limits)


class Shadow:
    """The state of a cluster, and what one profile would have done. Not for two threads.

    `of`: the schedulerName whose decisions are compared; `began`: when the first change came, in seconds since the
    epoch; `exact`: each change that binds a pod comes when the pod was decided, so that no other state is looked at.
    """

    def __init__(
        self,
        framework: Framework,
        of: str,
        *,
        decoder: Decoder | None = None,
        began: float = 0.0,
        exact: bool = False,
    ) -> None:
        self._exact = exact
        self.world = World(decoder)
        self.tally = Tally()
        self.unreadable = 0
        """Objects, or versions of them, that could not be read."""
        self.synced = False
        """True once everything was listed."""
        self._framework = framework
        self._of = of
        self._began = began
        self._at = 0.0
        self._choice = Choice(0)
        self._placed = 0
        self._lately: deque[tuple[int, str]] = deque(maxlen=EARLIER)
        """(number, uid) of the last placements."""
        self._waits: dict[str, _Wait] = {}
        """Pods of the other scheduler that wait."""
        self._open: list[_Open] = []

    @property
    def profile(self) -> str:
        """Return the profile that is tried."""
        return self._framework.profile.name

    @property
    def compared(self) -> int:
        """Return pods that were compared, those included whose answer is not given yet."""
        return self.tally.pods + len(self._open)

    def follow(self, framework: Framework) -> None:
        """Decide by another framework of this profile from now on."""
        self._framework = framework

    def see(self, change: Change) -> list[Compared]:
        """Take in a change; return the answers that it leads to."""
        self._at = change.at
        self.world.cluster.devices.wall = self._began + change.at
        found = self._settled(change.at)
        if change.synced:
            self.synced = True
            for pod in self.world.waiting.values():
                if self._is_theirs(pod):
                    self._waits[pod.uid] = _Wait(self._placed, self._given(pod))
        elif change.gone is not None:
            self._waits.pop(change.gone[2], None)
            self.world.gone(change.kind, *change.gone)
        elif change.kind in KINDS:
            try:
                thing = self.world.decode_raw(change.kind, change.object)
            except ObjectError:
                self.unreadable += 1
                return self._told(found)
            found += self._put(thing, listed=change.listed)
            self.world.problems.clear()  # each version of an object would add to them
        return self._told(found)

    def tick(self, at: float) -> list[Compared]:
        """Advance the time to `at` without a change; return the answers that need not wait any longer."""
        return self._told(self._settled(at))

    def finish(self) -> list[Compared]:
        """Return the answers that still wait."""
        left, self._open = [each.found for each in self._open], []
        return self._told(left)

    def summary(self) -> Summary:
        """Return the summary of all answers."""
        tally = self.tally
        return Summary(
            of=self._of,
            profile=self.profile,
            seconds=round(self._at, 3),
            pods=tally.pods,
            other_state=tally.other_state,
            points=tally.points,
            most=tally.most,
            plugins=dict(sorted(tally.plugins.items(), key=lambda each: (-abs(each[1]), each[0]))),
            refusals=most_first(tally.refusals),
            skipped=dict(sorted(tally.skipped.items())),
            waiting=self._waiting(),
            unreadable=self.unreadable,
            same=tally.counts[said.SAME],
            tie=tally.counts[said.TIE],
            better=tally.counts[said.BETTER],
            refused=tally.counts[said.REFUSED],
            nowhere=tally.counts[said.NOWHERE],
        )

    # -- what changes --------------------------------------------------------------------------------------------

    def _put(self, thing: Modelled, *, listed: bool) -> list[Compared]:
        if not isinstance(thing, Pod):
            self.world.add(thing)
            return []
        before = self.world.waiting.get(thing.key)
        if before is not None and before.uid != thing.uid:
            self._waits.pop(before.uid, None)
            before = None
        if not thing.node_name or thing.finished:
            self.world.add(thing)
            self._keep_waiting(before, thing)
            return []
        known = self.world.cluster.placement(thing.uid) is not None
        opened = self._bound(before, thing, listed=listed) if self.synced and not known else None
        self.world.add(thing)
        if known:
            return []
        wait = self._waits.pop(thing.uid, None)
        self._placed += 1
        self._lately.append((self._placed, thing.uid))
        found = self._overtaken(wait) if self.synced else []
        waits = bool(self._waits) and not self._exact
        if opened is not None and opened.verdict in said.DIFFER and before is not None and waits:
            self._open.append(_Open(before, opened, self._placed))
        elif opened is not None:
            found.append(opened)
        return found

    def _keep_waiting(self, before: Pod | None, pod: Pod) -> None:
        if pod.finished or not self._is_theirs(pod):
            self._waits.pop(pod.uid, None)
        elif self.synced and (before is None or (before.gates and not pod.gates)):
            self._waits[pod.uid] = _Wait(self._placed, self._given(pod))  # a pod with gates was not decided

    def _is_theirs(self, pod: Pod) -> bool:
        return pod.scheduler_name == self._of

    def _given(self, pod: Pod) -> int:
        """Return how many of a pod's claims have a place: a volume, the node that it is made for, or devices."""
        storage, devices = self.world.cluster.storage, self.world.cluster.devices
        found = 0
        for volume in pod.shape.volumes.claims:
            claim = storage.claims.get((pod.namespace, volume.claim(pod.name)))
            found += claim is not None and bool(claim.volume_name or claim.selected_node)
        with suppress(ClaimError):  # its claims are not made yet
            for key, _ in keys_of(pod):
                device = devices.claims.get(key)
                found += device is not None and device.allocation is not None
        return found

    # -- what would have been done -------------------------------------------------------------------------------

    def _bound(self, before: Pod | None, pod: Pod, *, listed: bool) -> Compared | None:
        """Return the answer about a pod that got a node; None if another scheduler than the compared one bound it."""
        if not self._is_theirs(pod) or pod.mirror:
            return None
        wait = self._waits.get(pod.uid)
        why = None
        if before is None or wait is None:
            why = said.UNSEEN
        elif listed:
            why = said.GAP
        elif before.scheduling_group is not None:
            why = said.GROUP
        elif self.world.cluster.nodes.live_row(pod.node_name) is None:
            why = said.NO_NODE
        elif self._given(before) > wait.given:
            why = said.CLAIMS
        base = Compared(pod=pod.key, node=pod.node_name, at=round(self._at, 3), verdict=said.SKIPPED, reason=why)
        if why is not None or before is None or wait is None:
            return base
        base = replace(base, newer=self._placed - wait.since)
        found = self._decided(before, base)
        if found.verdict not in said.DIFFER or self._exact:
            return found
        return self._earlier(before, found, wait.since)

    def _decided(self, pod: Pod, base: Compared) -> Compared:
        """Return the answer in the state as it is."""
        cluster, node = self.world.cluster, base.node
        row = cluster.nodes.live_row(node)
        try:
            held = self._framework.held_by(pod, cluster)
            if held is not None:
                return replace(base, verdict=said.NOWHERE, plugin=held[0], reason=held[1].text)
            decision = self._framework.decide(pod, cluster)
            best = None if not len(decision.feasible) else cluster.nodes.names[self._choice.row(decision)]
            base = replace(base, best=best, feasible=len(decision.feasible))
            lead = given_away(decision, row)
            if lead is not None:
                return _scored(base, decision, row, lead, cluster.nodes.row_of(best or ""))
            plugin, text = self._against(decision, row)
        except PluginError as error:
            return replace(base, verdict=said.SKIPPED, plugin=error.plugin, reason=str(error))
        if best is None:
            return replace(base, verdict=said.NOWHERE, plugin=plugin, reason=text, message=fit_error(decision))
        return replace(base, verdict=said.REFUSED, plugin=plugin, reason=text)

    def _against(self, decision: Decision, row: int | None) -> tuple[str, str]:
        """Return the plugin that rejects a row, and its reason with numbers."""
        asking = Asking(Inquiry(decision.pod, self.world.cluster), self._framework)
        if decision.verdict is not None:
            return decision.verdict[0], asking.detail_of_pod(*decision.verdict)[0]
        plugin, reason = first_against(decision, row) or ("", Reason("it is no longer there"))
        return plugin, asking.detail(row, plugin, reason)[0] if row is not None else reason.text

    def _agrees(self, pod: Pod, node: str) -> str | None:
        """Return SAME or TIE if the profile agrees in the state as it is."""
        cluster = self.world.cluster
        try:
            if self._framework.held_by(pod, cluster) is not None:
                return None
            decision = self._framework.decide_quickly(pod, cluster)
            best = {cluster.nodes.names[row] for row in decision.best()}
            if node not in best:
                return None
            return said.SAME if cluster.nodes.names[self._choice.row(decision)] == node else said.TIE
        except PluginError:
            return None

    def _earlier(self, pod: Pod, found: Compared, since: int) -> Compared:
        """Return the answer in an older state, without the last placements, that agrees; None: none does."""
        cluster = self.world.cluster
        left_out: list[Pod] = []
        verdict = None
        try:
            for number, uid in reversed(self._lately):
                if number <= since:
                    break
                placement = cluster.drop_pod(uid)
                if placement is None:
                    continue  # it is gone, and the room that it had is not known any more
                left_out.append(placement.pod)
                verdict = self._agrees(pod, found.node)
                if verdict is not None:
                    break
        finally:
            for one in reversed(left_out):
                cluster.put_pod(one)
        return found if verdict is None else _agreeing(found, verdict, said.OLDER, len(left_out))

    def _overtaken(self, wait: _Wait | None) -> list[Compared]:
        """Return the answers that a newer state settles.

        `wait`: of the pod that was just placed; None: the other scheduler did not place it, or it came with its node.
        """
        done: list[Compared] = []
        left: list[_Open] = []
        for each in self._open:
            if wait is not None and wait.since >= each.number:
                # It began to wait after that pod was bound, so no state with it was what the other scheduler saw.
                done.append(each.found)
                continue
            each.tried += 1
            verdict = None if wait is None else self._without(each)  # only its own Bindings overtake each other
            if verdict is not None:
                done.append(_agreeing(each.found, verdict, said.NEWER, each.tried))
            elif each.tried >= LATER:
                done.append(each.found)
            else:
                left.append(each)
        self._open = left
        return done

    def _without(self, each: _Open) -> str | None:
        cluster = self.world.cluster
        placement = cluster.drop_pod(each.pod.uid)
        if placement is None:
            return None
        try:
            return self._agrees(each.pod, each.found.node)
        finally:
            cluster.put_pod(placement.pod)

    def _settled(self, at: float) -> list[Compared]:
        """Return answers that have waited long enough."""
        if not self._open:
            return []
        late = [each for each in self._open if at - each.found.at > SETTLE_SECONDS or not self._waits]
        self._open = [each for each in self._open if each not in late]
        return [each.found for each in late]

    def _told(self, found: list[Compared]) -> list[Compared]:
        for each in found:
            self.tally.add(each)
        return found

    def _waiting(self) -> Waiting:
        """Return pods that the other scheduler has refused and still wait, and those of them that would get a node
        now.
        """
        refused = [pod for pod in self.world.waiting.values() if self._is_theirs(pod) and _is_refused(pod)]
        fit = {pod.key: node for pod in refused[:_LOOKED] if (node := self._node_for(pod)) is not None}
        return Waiting(len(refused), min(len(refused), _LOOKED), fit)

    def _node_for(self, pod: Pod) -> str | None:
        """Return the node that a waiting pod would get now; None: none."""
        cluster = self.world.cluster
        try:
            if self._framework.held_by(pod, cluster) is not None:
                return None
            decision = self._framework.decide_quickly(pod, cluster)
        except PluginError:
            return None
        return cluster.nodes.names[self._choice.row(decision)] if len(decision.feasible) else None


def _is_refused(pod: Pod) -> bool:
    return not pod.gates and pod.condition is not None and pod.condition[:2] == ("False", "Unschedulable")


def _agreeing(found: Compared, verdict: str, state: str, apart: int) -> Compared:
    """Return the answer in another state."""
    return Compared(
        pod=found.pod,
        node=found.node,
        at=found.at,
        verdict=verdict,
        best=found.node if verdict == said.SAME else None,
        feasible=found.feasible,
        state=state,
        apart=apart,
        newer=found.newer,
    )


def _scored(base: Compared, decision: Decision, row: int | None, lead: int, best: int | None) -> Compared:
    """Return the answer where both nodes are feasible."""
    theirs, ours = place_of(decision, row), place_of(decision, best)
    assert theirs is not None and ours is not None  # both are among the feasible rows
    points = None if decision.totals is None else int(decision.totals[theirs])
    if not lead:
        return replace(base, verdict=said.SAME if base.best == base.node else said.TIE, points=points)
    pairs = [(each.plugin, int(each.weighted[theirs]), int(each.weighted[ours])) for each in decision.scores]
    scores = sorted((PluginPoints(*each) for each in pairs if each[1] != each[2]), key=_most_first)
    return replace(base, verdict=said.BETTER, points=points, lead=lead, scores=scores)


def _most_first(each: PluginPoints) -> tuple[int, str]:
    return -abs(each.ours - each.theirs), each.plugin
