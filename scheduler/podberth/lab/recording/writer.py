"""Writes a recording in a thread of its own.

The event loop hands over what happened and goes on: the same code costs several times as much where it runs now and
then, between other things, as in the thread, which does a second's at once. Objects of the model are never changed once
they are made, so the thread may look at them later. There is a bound to what may wait: who can't write ends, and nobody
waits for it.
"""

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import structlog
from msgspec import Raw, Struct
from msgspec.structs import replace

from podberth.lab.recording.entries import Entry, Gone, Head, Known, PutObject, PutPod, Template, Told, packed
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
_MANY = 5_000
"""When as much waits, the thread is woken earlier."""
_MOST_WAITING = 50_000
"""As much may wait for the thread."""
_PATIENCE = 60.0
Key = tuple[Any, ...]
"""What pods of one template share."""


class Read(Struct, gc=False):
    """An object was read from these bytes."""

    kind: str
    thing: Modelled
    raw: bytes | Raw


class Seen(Struct, gc=False):
    """The engine is given an object that was read, or was given before."""

    at: float
    thing: Modelled
    added: bool = False
    listed: bool = False


class Annotations(Struct, gc=False):
    """Plugins read the annotations with these keys of the objects that are read from now on."""

    keys: frozenset[str]


Given = Entry | Seen | Read | Annotations


class _Form(NamedTuple):
    """A template. `shape`: kept so that no other shape gets the id that is in the key."""

    number: int
    shape: Any
    json: str


class _Said(NamedTuple):
    """What an object's bytes say: of a pod the number of its template, of others their JSON.

    `version`: its resourceVersion, since another object may have the id of one that is gone.
    """

    version: str
    what: int | str


def _itself(given: Any) -> Iterable[Given]:
    return (given,)


class Writer:
    """Appends to a recording. `start`, `hand`, `fail`, `flush` and `close` are for other threads.

    `error` says why it has ended, None while it goes on; `written` counts bytes.
    """

    def __init__(
        self,
        directory: Path,
        limits: Limits,
        head: Head,
        annotations: frozenset[str],
        *,
        ended: Callable[[str], None],
        made: Callable[[Any], Iterable[Given]] = _itself,
        patient: bool = False,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """`head`: of the first segment; `annotations`: keys of those that plugins read; `ended` is told once, maybe by
        the thread, why nothing is written any more; `made`: returns, in the thread, what is to be written of something
        that was handed over; `patient`: who hands over waits for the thread when it is behind.

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
        self._directory, self._limits, self._head, self._annotations = directory, limits, head, annotations
        self._tell, self._made, self._patient, self._wall = ended, made, patient, wall
        self._given: deque[Any] = deque()
        """What was handed over, and an Event to set once all before it is written."""
        self._due, self._room = threading.Event(), threading.Event()
        self._closing = False
        self._forms: dict[Key, _Form] = {}
        self._numbered = 0
        self._read: dict[int, _Said] = {}
        """The id of an object that was read, and is not put yet."""
        self._read_before: dict[int, _Said] = {}
        """Those that were read before this segment. Some are never put, as they are known already."""
        self._pods: dict[str, tuple[int, Pod]] = {}
        """By UID, with the number of the template."""
        self._objects: dict[tuple[str, str, str], tuple[str, str]] = {}
        """(kind, namespace, name) → resourceVersion and JSON."""
        self._entries: list[Entry] = [head]
        self._size = 0
        """Bytes of what is large in these entries."""
        self._at = self._began = head.at
        """When the last entry was, and the first one of the segment."""
        self._number = last + 1
        self._file = File(directory / f"{self._number:08}{SUFFIX}")
        self._thread = threading.Thread(target=self._run, name="recording", daemon=True)

    # -- for other threads -------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to write; from now on the head stays as it is."""
        self._thread.start()

    def hand(self, given: Any) -> None:
        """Have something written, if it has not ended: an entry, or what `made` makes entries of."""
        if self.error is None:
            self._given.append(given)
            if len(self._given) > _MANY:
                self._hurry()

    def _hurry(self) -> None:
        waiting = len(self._given)
        if not waiting % _MANY:
            self._due.set()
        if waiting <= _MOST_WAITING:
            return
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

    def _end(self, why: str) -> None:
        if self.error is None:
            self.error = why
            self._tell(why)

    def _take(self) -> None:
        given, made = self._given, self._made
        while given and self.error is None:
            one = given.popleft()
            if type(one) is threading.Event:
                self._write()
                one.set()
                continue
            for each in made(one):
                if isinstance(each, Seen):
                    self._put(each)
                elif isinstance(each, Read):
                    self._note(each)
                elif isinstance(each, Annotations):
                    self._annotations = each.keys
                else:
                    self._add(each)
            if self._size >= MOST or len(self._entries) >= _AT_ONCE:
                self._write()
                self._room.set()
        self._write()
        self._room.set()

    def _note(self, read: Read) -> None:
        """Note what the bytes of an object say."""
        thing = read.thing
        if not isinstance(thing, Pod):
            json = reduced(read.kind, read.raw, self._annotations)
            self._read[id(thing)] = _Said(thing.resource_version, json)
            return
        key = _key(thing)
        form = self._forms.get(key)
        if form is None:
            json = reduced(read.kind, read.raw, self._annotations, labels=thing.too_large is not None)
            form = self._forms[key] = _Form(self._numbered, thing.shape, json)
            self._numbered += 1
            self._add(Template(self._at, form.number, json), len(json))
        self._read[id(thing)] = _Said(thing.resource_version, form.number)

    def _put(self, seen: Seen) -> None:
        thing = seen.thing
        before, said = self._read_before.pop(id(thing), None), self._read.pop(id(thing), None)
        said = said or before
        read = said.what if said is not None and said.version == thing.resource_version else None
        if isinstance(thing, Pod):
            number = self._forms[_key(thing)].number if read is None else read
            assert isinstance(number, int)
            self._pods[thing.uid] = number, thing
            self._add(_entry(seen.at, thing, number, seen.added, seen.listed))
            return
        kind = thing.kind if isinstance(thing, (SelectingObject, PodGroup)) else type(thing).__name__
        key = kind, thing.namespace, thing.name
        known = self._objects.get(key)
        json = known[1] if read is None and known is not None else read
        assert isinstance(json, str)
        self._objects[key] = thing.resource_version, json
        same = known is not None and known[1] == json
        put = PutObject(seen.at, seen.added, seen.listed, *key, thing.resource_version, None if same else json)
        self._add(put, 0 if same else len(json))

    def _add(self, entry: Entry, size: int = 0) -> None:
        self._entries.append(entry)
        self._at = entry.at
        self._size += size
        if type(entry) is Gone:
            if entry.kind == "Pod":
                self._pods.pop(entry.uid, None)
            else:
                self._objects.pop((entry.kind, entry.namespace, entry.name), None)
        elif type(entry) is Told and entry.name == "Configured":
            self._head = replace(self._head, configuration=entry.what[0])

    def _write(self) -> None:
        """Write a frame, and begin the next segment if this one is long enough."""
        if self._entries:
            self._frame()
            if self._file.size >= self._limits.segment or self._at - self._began > self._limits.seconds:
                self._next()

    def _frame(self) -> None:
        """Write what there is: what `_size` does not count may be large, too."""
        before = self._file.size
        for content in packed(self._entries):
            self._file.write(content)
        self.written += self._file.size - before
        self._entries, self._size = [], 0

    def _next(self) -> None:
        """Begin the next segment with what is known."""
        self._file.close()
        self._number += 1
        self._file = File(self._directory / f"{self._number:08}{SUFFIX}")
        self._read_before, self._read = self._read, {}
        used = {number for number, _ in self._pods.values()} | {said.what for said in self._read_before.values()}
        self._forms = {key: form for key, form in self._forms.items() if form.number in used}
        at, first = self._at, self._head
        self._began = at
        self._entries.append(replace(first, at=at, began=first.began + at - first.at, fresh=False))
        for entry, size in self._known(at):
            self._entries.append(entry)
            self._size += size
            if len(self._entries) >= _AT_ONCE or self._size >= MOST:
                self._frame()
        self._frame()
        drop(self._directory, self._limits, self._file.path, self._wall())

    def _known(self, at: float) -> Iterator[tuple[Entry, int]]:
        """Yield what is known as entries, and the bytes of what is large in them."""
        for form in self._forms.values():
            yield Template(at, form.number, form.json), len(form.json)
        for key, (version, json) in self._objects.items():
            yield PutObject(at, True, True, *key, version, json), len(json)
        for number, pod in self._pods.values():
            yield _entry(at, pod, number, added=True, listed=True), 0
        yield Known(at), 0


def _key(pod: Pod) -> Key:
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
        pod.too_large,
    )


_of_pod = attrgetter(*(name for name in PutPod.__struct_fields__ if name in Pod.__struct_fields__))


def _entry(at: float, pod: Pod, number: int, added: bool, listed: bool) -> PutPod:
    return PutPod(at, added, listed, number, *_of_pod(pod))
