"""What is in the frames of a recording: lists of entries, each an array of MessagePack that begins with its tag.

Pods are most of it. What pods of one template share is written once in a segment (`Template`), and the rest of a pod
each time that it is put. Other objects are written in their wire form when they change in more than their
resourceVersion. Names stand as they are: zstd sees those that come again.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import msgspec
from msgspec import Struct, field

from podberth.lab.recording.log import MOST


class Entry(Struct, array_like=True, gc=False):
    """`at`: seconds of the engine's clock."""

    at: float


class Head(Entry, tag=0, kw_only=True):
    """The first entry of a segment.

    `of`: the scheduler that a shadow follows, empty for Berth's own; `began`: the calendar's time in seconds at `at`;
    `fresh`: a process began with it, else what was known then follows up to `Known`; `configuration`: as JSON has it;
    `seed`, `salt`, `verify`, `let_go_beside`: as the engine got them.
    """

    berth: str = ""
    of: str = ""
    began: float = 0.0
    fresh: bool = False
    masked: bool = False
    configuration: dict[str, Any] = field(default_factory=dict)
    seed: int = 0
    salt: str = ""
    verify: int = 0
    let_go_beside: int = 0


class Known(Entry, tag=1):
    """What was known when the segment began is before this."""


class Form(Struct):
    """What pods of one template share, read from its JSON."""

    metadata: dict[str, Any] = {}
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}


class Template(Entry, tag=2):
    """A Pod's JSON without what `PutPod` says, by its number."""

    number: int
    json: str


class Shown(Entry):
    """An object as the engine was given it. `added`: it was not there; `listed`: a list, not a watch, has shown it."""

    added: bool
    listed: bool


class PutPod(Shown, tag=3):
    """A pod, named as in `podberth.model.pod.Pod`. `template`: the number of its template; `form` is that template
    once the entry was read, and is not in the file. `owner`: kind, name, UID.
    """

    kind: ClassVar[str] = "Pod"
    template: int
    uid: str
    namespace: str
    name: str
    created: str
    labels: Mapping[str, str]
    owner: tuple[str, str, str] | None
    resource_version: str
    node_name: str
    terminating: bool
    preempted: bool
    finished: bool
    ready: bool
    phase: str
    generation: int
    started: str | None
    nominated_node_name: str
    condition: tuple[str, str, str, str] | None
    made_claims: tuple[tuple[str, str | None], ...]
    form: Form | None = None

    @property
    def key(self) -> tuple[str, str, str]:
        """Return kind, namespace and name."""
        return self.kind, self.namespace, self.name


class PutObject(Shown, tag=4):
    """Any other object. `json`: without its resourceVersion; in the file it is None if nothing else has changed."""

    kind: str
    namespace: str
    name: str
    resource_version: str
    json: str | None

    @property
    def key(self) -> tuple[str, str, str]:
        """Return kind, namespace and name."""
        return self.kind, self.namespace, self.name


class Gone(Entry, tag=5):
    """An object was deleted."""

    kind: str
    namespace: str
    name: str
    uid: str


class Told(Entry, tag=6):
    """Another stimulus, by the name of its class, and what is in it; or Epoch (seconds between both clocks), Leads
    (seconds, as `Engine.takes_over` gets them), Configured (the configuration as JSON), Synced (of a shadow).
    """

    name: str
    what: list[Any]


class Placed(Entry, tag=7):
    """A pod got a node. This and the next two are what came of the entry before them."""

    uid: str
    node: str


class Failed(Entry, tag=8):
    """No node was found."""

    uid: str
    reason: str
    message: str


class Preempts(Entry, tag=9):
    """`victims` (UIDs) have to leave the node for a pod."""

    uid: str
    node: str
    victims: list[str]


Decision = Placed | Failed | Preempts
AnyEntry = Head | Known | Template | PutPod | PutObject | Gone | Told | Placed | Failed | Preempts
encoder = msgspec.msgpack.Encoder()
decoder: msgspec.msgpack.Decoder[list[AnyEntry]] = msgspec.msgpack.Decoder(list[AnyEntry])


def packed(entries: Sequence[Entry]) -> Iterator[bytes]:
    """Yield the contents of the frames that hold the entries: one, or several so that none is too large to be read."""
    content = encoder.encode(entries)
    if len(content) <= MOST or len(entries) < 2:
        yield content
        return
    half = len(entries) // 2
    yield from packed(entries[:half])
    yield from packed(entries[half:])
