"""Messages from the evictor's shell to its engine, and the engine's instructions.

Changes of the cluster come as the scheduler's own stimuli (`Put`, `Gone`).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from podberth.engine.stimuli import Gone, Put
from podberth.model.node import Node
from podberth.model.pod import Pod


@dataclass(frozen=True, slots=True)
class Look:
    """Time has passed. `fresh`: nodes and pods are followed at this moment; on a stale cache nothing is decided."""

    fresh: bool


@dataclass(frozen=True, slots=True)
class Turn:
    """One eviction among those of its owner's pods: which `round` it is part of. `owner`: as in `owner_key`.

    `spared`: seconds for which pods that were created after it are left alone; 0: as the settings say.
    `asked_at`: when it was asked for by the server's clock (RFC 3339), or at the earliest; empty while it was not.
    """

    owner: str
    round: int = 1
    spared: float = 0.0
    asked_at: str = ""


@dataclass(frozen=True, slots=True)
class Restored:
    """An eviction that an earlier process announced in an Event. It is passed on only once the pods are listed.

    `ago`: seconds since the eviction took place, or fewer; None: nobody wrote down that it did.
    """

    pod: Gone
    turn: Turn
    ago: float | None


@dataclass(frozen=True, slots=True)
class WasRead:
    """The answer to a Read: the node and its pods as the API has them now; `node` None: there is none."""

    name: str
    node: Node | None
    pods: Mapping[str, Pod]


@dataclass(frozen=True, slots=True)
class NotRead:
    """A Read that failed."""

    name: str


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer to an Evict. `status`: HTTP status; 0: it was never asked, or nobody answered.

    `budget`: a PodDisruptionBudget said no. `retry_after`: seconds, as the server asked. `asked_at`: as in Turn.
    """

    uid: str
    status: int
    message: str = ""
    budget: bool = False
    retry_after: float = 0.0
    asked_at: str = ""


@dataclass(frozen=True, slots=True)
class Read:
    """Read a node and the pods on it from the API: the second observation. Answer with WasRead or NotRead."""

    node: str


@dataclass(frozen=True, slots=True)
class Evict:
    """Write the intent down, then ask the API to evict this very pod. Answer with Answered."""

    pod: Pod
    node: str
    target: str
    reason: str
    breach: str
    turn: Turn


@dataclass(frozen=True, slots=True)
class RecordPodEvent:
    """Post an Event about a pod, which may be gone.

    `until`: engine time before which it is not evicted, to be said in the note. `turn`: the Event is the record that
    this eviction took place; the next process reads it.
    """

    pod: Pod | Gone
    kind: str
    reason: str
    note: str
    until: float | None = None
    turn: Turn | None = None


@dataclass(frozen=True, slots=True)
class RecordNodeEvent:
    """Post an Event about a node."""

    node: str
    uid: str
    kind: str
    reason: str
    note: str


@dataclass(frozen=True, slots=True)
class RecordEvictorEvent:
    """Post an Event about the evictor itself."""

    kind: str
    reason: str
    note: str


Stimulus = Put | Gone | Look | Restored | WasRead | NotRead | Answered
Instruction = Read | Evict | RecordPodEvent | RecordNodeEvent | RecordEvictorEvent
