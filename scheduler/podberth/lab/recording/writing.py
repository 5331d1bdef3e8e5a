"""Makes entries of what happens, and hands them to the log: what a scheduler's and a shadow's recording share.

All methods are for one thread, that of the event loop: an entry costs it a microsecond. Packing and writing are the
log's thread's.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from podberth.lab.recording.entries import (
    ADDED,
    FINISHED,
    PHASES,
    POD,
    POD_AGAIN,
    POD_GONE,
    PREEMPTED,
    READY,
    TERMINATING,
    Head,
    Kind,
    Reducer,
)
from podberth.lab.recording.entries import encoder as packer
from podberth.lab.recording.log import Log, To
from podberth.model.kinds import Modelled
from podberth.model.namespaced import SelectingObject
from podberth.model.pod import Pod
from podberth.model.pod_group import PodGroup

Entry = tuple[Any, ...]
Key = tuple[Any, ...]
"""What pods of one template share."""
FLUSH_SECONDS = 1.0
"""Seconds for which an entry may wait until it is written."""
_FLUSH_ENTRIES = 500
_STATE_AT_ONCE = 200
"""Objects of a segment's state that are written with each frame."""
_STATE_SECONDS = 0.05
_MOST_NAMED = 200_000
"""Texts that have numbers in a segment."""
_PHASES = {phase: number for number, phase in enumerate(PHASES)}


def kind_of(thing: Modelled) -> str:
    """Return the kind of an object, as watches call it."""
    return thing.kind if isinstance(thing, (SelectingObject, PodGroup)) else type(thing).__name__


class _Tables:
    """The entries of one file, and what they refer to by numbers."""

    def __init__(self, at: float) -> None:
        self.entries: list[Entry] = []
        self.numbers: dict[str, int] = {}
        """UID of a pod → its number."""
        self.templates: dict[Key, int] = {}
        self._named: dict[str, int] = {}
        self._said: dict[str, int] = {}
        self._labels: dict[int, tuple[int, Mapping[str, str]]] = {}
        """The id of labels → their number, and they themselves, so that no others get that id."""
        self._pods = 0
        self.now = at
        self._ns = int(at * 1e9 + 0.5)
        self._version = 0

    def since(self, now: float) -> int:
        """Return the nanoseconds since the last entry."""
        if now == self.now:
            return 0
        ns = int(now * 1e9 + 0.5)
        self.now, before, self._ns = now, self._ns, ns
        if ns / 1e9 != now:
            self.entries.append((Kind.AT, now))
            return 0
        return ns - before

    def name(self, text: str) -> int | str:
        """Return the number of a name, or itself where there are too many."""
        found = self._named.get(text)
        if found is None:
            if len(self._named) >= _MOST_NAMED:
                return text
            found = self._named[text] = len(self._named)
            self.entries.append((Kind.TEXT, text))
        return found

    def message(self, text: str) -> int | str:
        """Return the number of a message, or itself where there are too many."""
        found = self._said.get(text)
        if found is None:
            if len(self._said) >= _MOST_NAMED:
                return text
            found = self._said[text] = len(self._said)
            self.entries.append((Kind.MESSAGE, text))
        return found

    def pod(self, pod: Pod, template: int, how: int, now: float) -> None:
        """Add a pod that is new to this file."""
        since, labels = self.since(now), self._number_of(pod.labels)
        owner = None if pod.owner is None else [self.name(part) for part in pod.owner]
        state = self._state(pod)
        self.numbers[pod.uid] = self._pods
        self._pods += 1
        self.entries.append((POD, since, how, template, labels, owner, pod.name, pod.uid, pod.created, *state))

    def pod_again(self, pod: Pod, number: int, how: int, now: float) -> None:
        """Add what may have changed of a pod."""
        since, state = self.since(now), self._state(pod)
        self.entries.append((POD_AGAIN, since, how, number, *state))

    def _state(self, pod: Pod) -> Entry:
        text = pod.resource_version
        version: int | str = text
        if text.isdecimal() and text[:1] != "0":
            number = int(text)
            version, self._version = number - self._version, number
        bits = TERMINATING * pod.terminating + PREEMPTED * pod.preempted + FINISHED * pod.finished + READY * pod.ready
        node = self.name(pod.node_name) if pod.node_name else None
        condition = pod.condition
        if condition is None and not pod.nominated_node_name and pod.started is None and not pod.made_claims:
            return version, node, bits, _PHASES[pod.phase], pod.generation
        said = None if condition is None else (condition[0], condition[1], self.message(condition[2]), condition[3])
        more = (pod.started, pod.nominated_node_name, said, pod.made_claims)
        return version, node, bits, _PHASES[pod.phase], pod.generation, *more

    def _number_of(self, labels: Mapping[str, str]) -> int:
        found = self._labels.get(id(labels))
        if found is None:
            found = self._labels[id(labels)] = (len(self._labels), labels)
            self.entries.append((Kind.LABELS, dict(labels)))
        return found[0]

    def taken(self) -> bytes:
        """Return what has gathered, as the content of a frame."""
        found, self.entries = self.entries, []
        return packer.encode(found)


class Writing:
    """Writes entries, and keeps what is known, so that each segment can begin with it.

    `head`: of the first segment. `later(seconds, do)`: calls a function in so many seconds, on this thread. `ended` is
    told once why nothing is written any more.
    """

    def __init__(
        self,
        log: Log,
        head: Head,
        read: frozenset[str],
        *,
        later: Callable[[float, Callable[[], None]], object],
        wall: Callable[[], float],
        ended: Callable[[str], None],
    ) -> None:
        self.log = log
        self.head = head
        self.ended: str | None = None
        self.written = 0
        """Entries."""
        self._reducer = Reducer(read)
        self._later, self._wall, self._tell = later, wall, ended
        self._pods: dict[str, tuple[Pod, Key]] = {}
        """UID → the pod, and the key of its template."""
        self._forms: dict[Key, tuple[Any, bytes]] = {}
        """The shape of a template, so that no other shape gets the id that is in the key; and its JSON."""
        self._objects: dict[tuple[str, str, str], tuple[Modelled, bytes]] = {}
        self._known: Iterator[None] | None = None
        """Writes the state of the segment, some of it each time."""
        self._due = False
        self._tables = _Tables(head.at)
        self._tables.entries.append((Kind.HEAD, msgspec.to_builtins(head)))

    # -- entries -------------------------------------------------------------------------------------------------

    def add(self, entry: Entry) -> None:
        """Add an entry as it is."""
        self._tables.entries.append(entry)

    def event(self, kind: int, now: float, *what: Any) -> None:
        """Add an entry with its time, before all facts of what comes of it."""
        if not self._due or len(self._tables.entries) >= _FLUSH_ENTRIES:
            self._begin()
        tables = self._tables
        tables.entries.append((kind, tables.since(now), *what))

    def _begin(self) -> None:
        """Hand over what has gathered, or have it handed over in time."""
        if not self._due:
            self._due = True
            self._later(FLUSH_SECONDS, self._in_time)
        else:
            self.flush()

    def pod(self, uid: str) -> int | str:
        """Return the number of a pod; its UID, where it has none in this segment."""
        return self._tables.numbers.get(uid, uid)

    def name(self, text: str) -> int | str:
        """Return the number of a name."""
        return self._tables.name(text)

    def message(self, text: str) -> int | str:
        """Return the number of a message."""
        return self._tables.message(text)

    def put(self, thing: Modelled, raw: bytes | Raw | None, how: int, now: float) -> None:
        """Add an object. `raw`: its bytes; None if they are not kept, and its template or form should be known."""
        if not self._due or len(self._tables.entries) >= _FLUSH_ENTRIES:
            self._begin()
        if type(thing) is Pod:
            self._put_pod(thing, raw, how, now)
        else:
            self._put_object(thing, raw, how, now)

    def _put_pod(self, pod: Pod, raw: bytes | Raw | None, how: int, now: float) -> None:
        tables, known = self._tables, self._pods.get(pod.uid)
        number = tables.numbers.get(pod.uid)
        if known is not None:
            before, key = known
            if (
                before.shape is pod.shape
                and (before.labels is pod.labels or before.labels == pod.labels)
                and before.gates == pod.gates
                and before.owner == pod.owner
                and before.priority == pod.priority
                and before.name == pod.name
                and key[7] == pod.lasts
                and key[6] == pod.scheduling_group
            ):
                self._pods[pod.uid] = (pod, key)
                if number is not None:
                    tables.pod_again(pod, number, how, now)
                else:
                    tables.pod(pod, self._template(tables, key, pod.shape, None), how, now)
                return
        key = _key_of(pod)
        template = self._template(tables, key, pod.shape, raw)
        self._pods[pod.uid] = (pod, key)
        tables.pod(pod, template, how, now)

    def _template(self, tables: _Tables, key: Key, shape: Any, raw: bytes | Raw | None) -> int:
        found = tables.templates.get(key)
        if found is None:
            form = self._forms.get(key)
            if form is None:
                assert raw is not None
                form = self._forms[key] = (shape, self._reducer.reduced("Pod", raw))
            found = tables.templates[key] = len(tables.templates)
            tables.entries.append((Kind.TEMPLATE, form[1]))
        return found

    def _put_object(self, thing: Modelled, raw: bytes | Raw | None, how: int, now: float) -> None:
        kind = kind_of(thing)
        at = (kind, thing.namespace, thing.name)
        known = self._objects.get(at)
        if raw is not None:
            json = self._reducer.reduced(kind, raw)
        else:
            assert known is not None
            json = known[1]
        self._objects[at] = (thing, json)
        self._add_object(self._tables, at, thing, json, how, now, known=known is not None and known[1] == json)

    def _add_object(
        self,
        tables: _Tables,
        at: tuple[str, str, str],
        thing: Modelled,
        json: bytes,
        how: int,
        now: float,
        *,
        known: bool,
    ) -> None:
        since = tables.since(now)
        if known:
            tables.entries.append((Kind.OBJECT_AGAIN, since, how, *at, thing.resource_version))
        else:
            tables.entries.append((Kind.OBJECT, since, how, at[0], thing.resource_version, json))

    def gone(self, kind: str, namespace: str, name: str, uid: str, now: float) -> None:
        """Add that an object is gone."""
        if kind == "Pod":
            number = self.pod(uid)
            self._pods.pop(uid, None)
            self.event(POD_GONE, now, number)
            self._tables.numbers.pop(uid, None)
        else:
            self._objects.pop((kind, namespace, name), None)
            self.event(Kind.OBJECT_GONE, now, kind, namespace, name, uid)

    # -- frames and segments -------------------------------------------------------------------------------------

    def _in_time(self) -> None:
        self._due = False
        self.flush()

    def flush(self) -> None:
        """Hand over what has gathered; begin the next segment, if this one is long enough."""
        if self.ended is not None:
            return
        log, tables = self.log, self._tables
        self.written += len(tables.entries)
        if tables.entries:
            log.put(To.LOG, tables.taken())
        if self._known is not None:
            if next(self._known, self) is self:
                self._known = None
        elif log.due:
            self._next_segment()
        if log.error is not None:
            self.end(log.error)
        elif self._known is not None and not self._due:
            self._due = True
            self._later(_STATE_SECONDS, self._in_time)

    def end(self, why: str) -> None:
        """Write nothing any more, and say why."""
        if self.ended is None:
            self.ended = why
            if self._tables.entries:
                self.log.put(To.LOG, self._tables.taken())
            self._pods, self._objects, self._forms, self._known = {}, {}, {}, None
            self._tables = _Tables(self._tables.now)
            self._tell(why)

    def close(self) -> None:
        """Write what waits, and end."""
        if self.ended is None:
            self._known = None  # the segment before it is kept instead
            self.flush()
        self.log.close()
        if self.ended is None and self.log.error is not None:
            self.end(self.log.error)
        self.ended = self.ended or "closed"

    def _next_segment(self) -> None:
        log, now = self.log, self._tables.now
        log.put(To.NEXT_SEGMENT)
        log.due = False
        self.head = replace(self.head, began=self._wall(), at=now, fresh=False)
        head = (Kind.HEAD, msgspec.to_builtins(self.head))
        used = {key for _, key in self._pods.values()}
        self._forms = {key: form for key, form in self._forms.items() if key in used}
        self._tables = _Tables(now)
        self._tables.entries.append(head)
        self._known = self._write_known(now, head, list(self._pods.values()), list(self._objects.items()))

    def _write_known(
        self,
        now: float,
        head: Entry,
        pods: list[tuple[Pod, Key]],
        objects: list[tuple[tuple[str, str, str], tuple[Modelled, bytes]]],
    ) -> Iterator[None]:
        """Write the state with which a segment begins, a part of it each time."""
        tables = _Tables(now)
        tables.entries.append(head)
        for at, (thing, json) in objects:
            self._add_object(tables, at, thing, json, ADDED, now, known=False)
            if len(tables.entries) >= _STATE_AT_ONCE:
                self.log.put(To.STATE, tables.taken())
                yield
        for pod, key in pods:
            tables.pod(pod, self._template(tables, key, pod.shape, None), ADDED, now)
            if len(tables.entries) >= _STATE_AT_ONCE:
                self.log.put(To.STATE, tables.taken())
                yield
        self.log.put(To.STATE, tables.taken())
        self.log.put(To.STATE_ENDS)


def _key_of(pod: Pod) -> Key:
    """Return what pods of one template share, besides their shape; `_put_pod` knows the order."""
    return (
        id(pod.shape),
        pod.namespace,
        pod.scheduler_name,
        pod.priority,
        pod.preempts,
        pod.gates,
        pod.scheduling_group,
        pod.lasts,
        pod.mirror,
    )
