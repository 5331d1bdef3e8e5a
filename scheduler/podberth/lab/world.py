"""A world: what is there, which pods come and how long they last, and what else happens.

It holds the JSON of API objects, so it can be pickled, sent to another machine and read by another version. What they
decode to is kept in the process that runs it: thousands of trials decode each pod once.
"""

from collections.abc import Sequence
from functools import cached_property
from math import inf
from typing import NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from podberth.explain.judging.schema import shown
from podberth.explain.objects.documents import ObjectError
from podberth.explain.objects.versions import called
from podberth.explain.objects.world import World as Dump
from podberth.explain.simulate.outcome import Mix
from podberth.model.annotated import AnnotationsRead
from podberth.model.devices import ResourceClaim
from podberth.model.kinds import KINDS, Decoder, Modelled
from podberth.model.node import Node
from podberth.model.pod import Pod

_ALWAYS = ("cpu", "memory")
"""Resources that are measured although nobody asks for them."""
Key = tuple[str, str, str]
"""kind, namespace, name"""


class Arrival(Struct, frozen=True):
    """A pod that comes."""

    at: float
    """Seconds since the world's begin."""
    pod: bytes
    """JSON of the Pod. Its schedulerName does not matter: the profile that is run schedules it."""
    lasts: float = inf
    """Seconds from its binding until it ends, so a pod that waits ends later."""


class Change(Struct, frozen=True):
    """Anything else that happens: an object comes or changes (`put`), or goes (`gone`)."""

    at: float
    """Seconds since the world's begin."""
    put: bytes | None = None
    """JSON of an API object."""
    gone: Key | None = None
    """Kind, namespace (empty for what has none) and name. Of a pod: one that was there, or that came."""


class Decoded(NamedTuple):
    """What a world's objects are to the scheduler. One process has it once, and no run changes it."""

    objects: tuple[Modelled, ...]
    arrivals: tuple[Pod, ...]
    """In the order of the world's own; each has a UID."""
    changes: tuple[Modelled | Key, ...]
    claims: dict[tuple[str, str], ResourceClaim]
    """Claims of devices as they first came, by namespace and name."""
    mix: Mix
    """The requests of all pods, for resources that nodes have."""


class World(Struct, frozen=True, dict=True):
    """What a run needs beside a configuration. Two equal worlds are one: nothing else is read."""

    name: str
    objects: tuple[bytes, ...]
    """What is there at 0: nodes, placed pods, claims, pod groups, … as JSON of API objects."""
    arrivals: tuple[Arrival, ...]
    """Sorted by `at`; pods of one moment come in this order."""
    changes: tuple[Change, ...] = ()
    """Sorted by `at`. At one moment pods end first, then changes happen, then pods come."""

    controllers: bool = True
    """Whether controllers make a pod again that is preempted or whose node goes. Where pods were recorded, those that
    were made again are among the arrivals.
    """

    @property
    def horizon(self) -> float:
        """The seconds until nothing comes or changes any more; pods that last until later do not count. Where all comes
        at 0: until the last one ends that is bound at once.
        """
        last = max((each[-1].at for each in (self.arrivals, self.changes) if each), default=0.0)
        return last or max((each.lasts for each in self.arrivals if each.lasts != inf), default=0.0)

    def decoded(self, annotated: AnnotationsRead) -> Decoded:
        """Return the objects as profiles read them which read these annotations.

        Raises ObjectError with a line that names the object and the field.
        """
        for known, found in self._decoded:
            if known == annotated:
                return found
        found = _decoded(self, annotated)
        self._decoded.append((annotated, found))
        return found

    @cached_property
    def _decoded(self) -> list[tuple[AnnotationsRead, Decoded]]:
        return []

    def between(self, begin: float, end: float) -> "World":
        """Return the world from `begin` (s) until before `end`, as a world of its own that begins at 0.

        Objects are as the changes before `begin` left them. Pods that came before and would still be there if they had
        been bound at once come at 0, for the rest of their time.
        """
        there = {_key_of(raw): raw for raw in self.objects}
        removed: dict[Key, float] = {}
        """When the last object of this name went."""
        for change in self.changes:
            if change.at >= begin:
                break
            if change.put is not None:
                there[_key_of(change.put)] = change.put
            elif change.gone is not None:
                there.pop(change.gone, None)
                removed[change.gone] = change.at
        arrivals = []
        for each in self.arrivals:
            if each.at >= end:
                break
            rest = each.lasts - max(0.0, begin - each.at)
            if rest > 0 and (each.at >= begin or not removed or each.at >= removed.get(_key_of(each.pod), 0.0)):
                arrivals.append(Arrival(max(0.0, each.at - begin), each.pod, rest))
        changes = (replace(each, at=each.at - begin) for each in self.changes if begin <= each.at < end)
        name = f"{self.name}, {begin:g} to {end:g} s"
        return World(name, tuple(there.values()), tuple(arrivals), tuple(changes), self.controllers)


class _Metadata(Struct):
    name: str = ""
    namespace: str = ""


class _Header(Struct):
    """The fields that identify an object."""

    kind: str = ""
    api_version: str = msgspec.field(default="", name="apiVersion")
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


_header = msgspec.json.Decoder(_Header)


def _key_of(raw: bytes) -> Key:
    found = _header.decode(raw)
    return called(found.kind, found.api_version), found.metadata.namespace, found.metadata.name


def _decoded(world: World, annotated: AnnotationsRead) -> Decoded:
    dump = Dump(Decoder(annotated))
    objects = tuple(_thing(dump, raw, f"objects[{i}]") for i, raw in enumerate(world.objects))
    if not any(isinstance(thing, Node) for thing in objects):
        raise ObjectError("objects: expected a Node at least")
    pods, uids = [], {thing.uid for thing in objects if isinstance(thing, Pod)}
    for i, arrival in enumerate(world.arrivals):
        place = f"arrivals[{i}].pod"
        pod = _thing(dump, arrival.pod, place)
        if not isinstance(pod, Pod):
            raise ObjectError(f"{place}: expected a Pod, got a {type(pod).__name__}")
        if pod.node_name:
            raise ObjectError(f"{place}: Pod {pod.key}: spec.nodeName: expected none, as it waits for a node")
        if pod.uid in uids:
            pod.uid = f"{pod.uid}#{i}"
        uids.add(pod.uid)
        pods.append(pod)
    changes: list[Modelled | Key] = []
    for i, change in enumerate(world.changes):
        if change.put is not None and change.gone is None:
            changes.append(_thing(dump, change.put, f"changes[{i}].put"))
        elif change.gone is not None and change.put is None:
            changes.append(change.gone)
        else:
            raise ObjectError(f"changes[{i}]: expected either put or gone")
    _refuse_unsorted("arrivals", [each.at for each in world.arrivals])
    _refuse_unsorted("changes", [each.at for each in world.changes])
    claims = {thing.key: thing for thing in (*changes, *objects) if isinstance(thing, ResourceClaim)}
    return Decoded(objects, tuple(pods), tuple(changes), claims, _mix((*objects, *pods)))


def _refuse_unsorted(what: str, times: Sequence[float]) -> None:
    before = 0.0
    for i, at in enumerate(times):
        if not before <= at < inf:
            raise ObjectError(f"{what}[{i}].at: {at:g}: expected at least {before:g}, as they are sorted")
        before = at


def _mix(things: Sequence[Modelled]) -> Mix:
    pods = [thing for thing in things if isinstance(thing, Pod)]
    asked = {name for pod in pods for name in pod.shape.requests}
    there = {name for thing in things if isinstance(thing, Node) for name in thing.allocatable}
    return Mix(pods, [*_ALWAYS, *sorted((asked & there) - {*_ALWAYS, "pods"})])


def _thing(dump: Dump, raw: bytes, place: str) -> Modelled:
    try:
        header = _header.decode(raw)
    except msgspec.MsgspecError as error:
        raise ObjectError(f"{place}: expected JSON of an API object: {error}") from None
    kind = called(header.kind, header.api_version)
    if kind not in KINDS:
        raise ObjectError(f"{place}: kind: {shown(header.kind)}: expected one of {', '.join(KINDS)}")
    thing = dump.as_shown(kind, raw, place)
    if isinstance(thing, Pod) and not thing.uid:
        thing.uid = thing.key
    return thing
