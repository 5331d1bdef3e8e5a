"""What is in the frames of a recording: lists of entries, each an array of MessagePack that begins with its tag.

Pods are most of it. What pods of one template share is written once in a segment (`Template`), what never changes of a
pod when it is new to the segment (`NewPod`), and then its state (`SamePod`). Other objects are written in their wire
form when they change in more than their resourceVersion. Names stand as they are: zstd sees those that come again.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct, field

VERSION = 2


class Entry(Struct, array_like=True, gc=False):
    """`at`: seconds of the engine's clock."""

    at: float


class Head(Entry, tag=0, kw_only=True):
    """The first entry of a segment.

    `of`: the scheduler that a shadow follows, empty for Berth's own; `began`: the calendar's time in seconds at `at`;
    `fresh`: a process began with it, else what was known then follows up to `Known`; `configuration`: as JSON has it;
    `seed`, `salt`, `verify`, `let_go_beside`: as the engine got them.
    """

    version: int = VERSION
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


class Template(Entry, tag=2):
    """The next of the segment's templates, which get numbers from 0: a Pod's JSON without what `NewPod` says."""

    json: str


class PodState(Struct, array_like=True, gc=False):
    """What may change of a pod, named as in `podberth.model.pod.Pod`."""

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


class Shown(Entry):
    """An object as the engine was given it. `added`: it was not there; `listed`: a list, not a watch, has shown it."""

    added: bool
    listed: bool


class NewPod(Shown, tag=3):
    """A pod that is new to the segment, or has other labels, another owner or template. `owner`: kind, name, UID."""

    template: int
    labels: Mapping[str, str]
    owner: tuple[str, str, str] | None
    name: str
    uid: str
    created: str
    state: PodState


class SamePod(Shown, tag=4):
    """A pod in another state."""

    uid: str
    state: PodState


class NewObject(Shown, tag=5):
    """Any other object; its JSON has no resourceVersion."""

    kind: str
    resource_version: str
    json: str


class SameObject(Shown, tag=6):
    """Nothing else has changed."""

    kind: str
    namespace: str
    name: str
    resource_version: str


class Gone(Entry, tag=7):
    """An object was deleted."""

    kind: str
    namespace: str
    name: str
    uid: str


class Told(Entry, tag=8):
    """Another stimulus, by the name of its class, and what is in it; or Epoch (seconds between both clocks), Leads
    (seconds, as `Engine.takes_over` gets them), Configured (the configuration as JSON), Synced (of a shadow).
    """

    name: str
    what: list[Any]


class Placed(Entry, tag=9):
    """A pod got a node. This and the next two are what came of the entry before them."""

    uid: str
    node: str


class Failed(Entry, tag=10):
    """No node was found."""

    uid: str
    reason: str
    message: str


class Preempts(Entry, tag=11):
    """`victims` (UIDs) have to leave the node for a pod."""

    uid: str
    node: str
    victims: list[str]


Decision = Placed | Failed | Preempts
AnyEntry = (
    Head | Known | Template | NewPod | SamePod | NewObject | SameObject | Gone | Told | Placed | Failed | Preempts
)
encoder = msgspec.msgpack.Encoder()
decoder: msgspec.msgpack.Decoder[list[AnyEntry]] = msgspec.msgpack.Decoder(list[AnyEntry])
