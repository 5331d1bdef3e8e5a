"""Writes a recording in a thread of its own: what a scheduler's and a shadow's recording share.

The event loop hands over what happened and goes on. The thread makes entries of it, packs and writes them, and keeps
what is known, with which the next segment begins. Objects of the model are never changed once they are made, so the
thread may look at them later. There is a bound to what may wait: who can't write ends, and nobody waits for it.
"""

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import structlog
from msgspec import Raw, Struct
from msgspec.structs import replace

from podberth.lab.recording.entries import (
    Entry,
    Gone,
    Head,
    Known,
    NewObject,
    NewPod,
    PodState,
    SameObject,
    SamePod,
    Template,
    Told,
    encoder,
)
from podberth.lab.recording.log import MOST, SUFFIX, File, Limits, LogError, drop, repair, segments
from podberth.lab.recording.reduced import reduced
from podberth.model.kinds import Modelled
from podberth.model.namespaced import SelectingObject
from podberth.model.pod import Pod
from podberth.model.pod_group import PodGroup

log = structlog.get_logger("recording")

_SECONDS = 1.0
"""The time for which an entry may wait until it is written."""
_AT_ONCE = 2_000
"""Entries of a frame."""
_MOST_WAITING = 50_000
"""Entries that may wait for the thread."""
_PATIENCE = 60.0
Key = tuple[Any, ...]
"""What pods of one template share."""


class Seen(Struct, gc=False):
    """An object as the loop hands it over. `raw`: its bytes; None if they are not kept, as it is known already."""

    at: float
    thing: Modelled
    raw: bytes | Raw | None
    added: bool = False
    listed: bool = False


class _KnownPod(Struct, gc=False):
    """A pod as it was written last."""

    key: Key
    new: NewPod
    state: PodState


class Writer:
    """Appends to a recording. `start`, `add`, `flush` and `close` are for one thread.

    `error` says why it has ended, None while it goes on; `written` counts bytes.
    """

    def __init__(
        self,
        directory: Path,
        limits: Limits,
        head: Head,
        read: frozenset[str] = frozenset(),
        *,
        ended: Callable[[str], None],
        patient: bool = False,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """`head`: of the first segment; `read`: keys of annotations that plugins read; `ended` is told once, by the
        thread, why nothing is written any more; `patient`: who adds waits for the thread when it is behind.

        Raises OSError.
        """
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        last = 0
        with contextlib.suppress(LogError):
            path = segments(directory)[-1]
            last = int(path.stem)
            repair(path)
        self.error: str | None = None
        self.written = 0
        self._directory, self._limits, self._head, self._read = directory, limits, head, read
        self._tell, self._patient, self._wall = ended, patient, wall
        self._given: deque[Any] = deque()
        """Entries, `Seen`, and an Event to set once all before it is written."""
        self._due, self._room = threading.Event(), threading.Event()
        self._closing = False
        self._pods: dict[str, _KnownPod] = {}
        """By UID."""
        self._forms: dict[Key, tuple[Any, str]] = {}
        """The shape of a template, so that no other shape gets the id that is in the key; and its JSON."""
        self._objects: dict[tuple[str, str, str], tuple[str, str]] = {}
        """(kind, namespace, name) → resourceVersion and JSON."""
        self._templates: dict[Key, int] = {}
        """The numbers that templates have in this segment."""
        self._entries: list[Entry] = []
        self._size = 0
        """Bytes of what is large in these entries."""
        self._number = last + 1
        self._file = File(directory / f"{self._number:08}{SUFFIX}")
        self._began = head.at
        self._entries.append(head)
        self._thread = threading.Thread(target=self._run, name="recording", daemon=True)

    # -- for the other thread ----------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to write; from now on the head stays as it is."""
        self._thread.start()

    def add(self, one: Entry | Seen) -> None:
        """Have something written, if it has not ended."""
        if self.error is not None:
            return
        given = self._given
        given.append(one)
        if not len(given) % _AT_ONCE:
            self._due.set()
            if len(given) > _MOST_WAITING:
                self._behind()

    def _behind(self) -> None:
        if self._patient:
            self._room.clear()
            if len(self._given) > _MOST_WAITING:
                self._room.wait(_PATIENCE)
        else:
            self._end("the disk is too slow")

    def fail(self, error: Exception) -> None:
        """End, since an entry can't be made."""
        log.error("an entry could not be recorded, this is a bug of Berth", exc_info=error)
        self._end("of a bug of Berth")

    def flush(self) -> None:
        """Return once all that was added is in the file."""
        done = threading.Event()
        self._given.append(done)
        self._due.set()
        while not done.wait(_SECONDS) and self._thread.is_alive():
            pass

    def close(self, seconds: float = 5.0) -> None:
        """Write what waits, for so long at most."""
        self._closing = True
        self._due.set()
        if self._thread.is_alive():
            self._thread.join(seconds)
        self.error = self.error or "closed"

    # -- the thread --------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            closing = False
            while not closing and self.error is None:
                self._due.wait(_SECONDS)
                self._due.clear()
                closing = self._closing
                self._take()
        except OSError as error:
            self._end((error.strerror or type(error).__name__).lower())
        except Exception as error:  # noqa: BLE001 (whatever it is, the scheduler goes on)
            self.fail(error)
        finally:
            with contextlib.suppress(OSError):
                self._file.close()
            self._given.clear()
            self._pods, self._forms, self._objects = {}, {}, {}

    def _end(self, why: str) -> None:
        if self.error is None:
            self.error = why
            self._tell(why)

    def _take(self) -> None:
        given = self._given
        while given and self.error is None:
            one = given.popleft()
            kind = type(one)
            if kind is Seen:
                self._put(one)
            elif kind is threading.Event:
                self._write()
                one.set()
            else:
                self._entries.append(one)
                if kind is Gone:
                    self._forget(one)
                elif kind is Told and one.name == "Configured":
                    self._head = replace(self._head, configuration=one.what[0])
            if len(self._entries) >= _AT_ONCE or self._size >= MOST:
                self._write()
                self._room.set()
        self._write()
        self._room.set()

    def _write(self) -> None:
        """Write a frame, and begin the next segment if this one is long enough."""
        if not self._entries:
            return
        at = self._entries[-1].at
        self._frame()
        if self._file.size >= self._limits.segment or at - self._began > self._limits.seconds:
            self._file.close()
            self._next(at)

    def _frame(self) -> None:
        before = self._file.size
        self._file.write(encoder.encode(self._entries))
        self.written += self._file.size - before
        self._entries, self._size = [], 0

    def _next(self, at: float) -> None:
        self._number += 1
        self._file = File(self._directory / f"{self._number:08}{SUFFIX}")
        first, self._began = self._head, at
        self._entries.append(replace(first, at=at, began=first.began + at - first.at, fresh=False))
        for (kind, _, _), (version, json) in self._objects.items():
            self._add_known(NewObject(at, True, True, kind, version, json), len(json))
        used = {known.key for known in self._pods.values()}
        self._forms = {key: form for key, form in self._forms.items() if key in used}
        self._templates = {}
        for known in self._pods.values():
            number = self._templates.get(known.key)
            if number is None:
                number = self._number_of(known.key, at)
            known.new = replace(known.new, at=at, added=True, listed=True, template=number, state=known.state)
            self._add_known(known.new, 0)
        self._add_known(Known(at), 0)
        self._frame()
        drop(self._directory, self._limits, self._file.path, self._wall())

    def _add_known(self, entry: Entry, size: int) -> None:
        self._entries.append(entry)
        self._size += size
        if len(self._entries) >= _AT_ONCE or self._size >= MOST:
            self._frame()

    # -- entries -----------------------------------------------------------------------------------------------------

    def _put(self, seen: Seen) -> None:
        if isinstance(seen.thing, Pod):
            self._put_pod(seen, seen.thing)
            return
        thing, raw = seen.thing, seen.raw
        kind = thing.kind if isinstance(thing, (SelectingObject, PodGroup)) else type(thing).__name__
        at = (kind, thing.namespace, thing.name)
        known = self._objects.get(at)
        if raw is not None:
            json = reduced(kind, raw, self._read)
        else:
            assert known is not None, f"the bytes of a {kind} are not kept"
            json = known[1]
        self._objects[at] = (thing.resource_version, json)
        if known is not None and known[1] == json:
            self._entries.append(SameObject(seen.at, seen.added, seen.listed, *at, thing.resource_version))
        else:
            self._entries.append(NewObject(seen.at, seen.added, seen.listed, kind, thing.resource_version, json))
            self._size += len(json)

    def _put_pod(self, seen: Seen, pod: Pod) -> None:
        key = (
            id(pod.shape),
            pod.namespace,
            pod.scheduler_name,
            pod.priority,
            pod.preempts,
            pod.gates,
            pod.scheduling_group,
            pod.lasts,
            pod.mirror,
            pod.too_large,
        )
        state = PodState(
            pod.resource_version,
            pod.node_name,
            pod.terminating,
            pod.preempted,
            pod.finished,
            pod.ready,
            pod.phase,
            pod.generation,
            pod.started,
            pod.nominated_node_name,
            pod.condition,
            pod.made_claims,
        )
        known = self._pods.get(pod.uid)
        if known is not None and known.key == key:
            new = known.new
            if (new.labels is pod.labels or new.labels == pod.labels) and new.owner == pod.owner:
                known.state = state
                self._entries.append(SamePod(seen.at, seen.added, seen.listed, pod.uid, state))
                return
        number = self._templates.get(key)
        if number is None:
            if key not in self._forms:
                assert seen.raw is not None, "the bytes of a pod are not kept"
                json = reduced("Pod", seen.raw, self._read, labels=pod.too_large is not None)
                self._forms[key] = (pod.shape, json)
            number = self._number_of(key, seen.at)
        new = NewPod(
            seen.at,
            seen.added,
            seen.listed,
            number,
            pod.labels,
            pod.owner,
            pod.name,
            pod.uid,
            pod.created,
            state,
        )
        self._pods[pod.uid] = _KnownPod(key, new, state)
        self._entries.append(new)

    def _number_of(self, key: Key, at: float) -> int:
        """Write a template that is new to this segment, and return its number."""
        number = self._templates[key] = len(self._templates)
        json = self._forms[key][1]
        self._entries.append(Template(at, json))
        self._size += len(json)
        return number

    def _forget(self, gone: Gone) -> None:
        if gone.kind == "Pod":
            self._pods.pop(gone.uid, None)
        else:
            self._objects.pop((gone.kind, gone.namespace, gone.name), None)
