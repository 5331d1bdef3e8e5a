"""What the evictor's shell tells the engine, and what the engine wants done.

Changes of the cluster come as the scheduler's own stimuli (`Put`, `Gone`).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from scheduler.engine.stimuli import Gone, Put
from scheduler.model.node import Node
from scheduler.model.pod import Pod


@dataclass(frozen=True, slots=True)
class Look:
    """Time has passed. `fresh`: nodes and pods are followed at this moment; on a stale cache nothing is decided."""

    fresh: bool


@dataclass(frozen=True, slots=True)
class Restored:
    """An earlier process meant to evict a pod of this owner, `ago` seconds ago, at `wall` by the server's clock."""

    owner: str
    ago: float
    wall: str


@dataclass(frozen=True, slots=True)
class WasRead:
    """The answer to a Read: the node and its pods as the API has them now; `node` None: there is none."""

    name: str
    node: Node | None
    pods: Mapping[str, Pod]


@dataclass(frozen=True, slots=True)
class NotRead:
    """A Read failed."""

    name: str


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer to an Evict. `status`: HTTP status; 0: it was never asked, or nobody answered.

    `budget`: a PodDisruptionBudget said no. `retry_after`: seconds, as the server asked.
    """

    uid: str
    status: int
    message: str = ""
    budget: bool = False
    retry_after: float = 0.0


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
    owner: str


@dataclass(frozen=True, slots=True)
class TellPod:
    """Post an Event about a pod."""

    pod: Pod
    kind: str
    reason: str
    note: str


@dataclass(frozen=True, slots=True)
class TellNode:
    """Post an Event about a node."""

    node: str
    uid: str
    kind: str
    reason: str
    note: str


@dataclass(frozen=True, slots=True)
class TellAll:
    """Post an Event about the evictor itself."""

    kind: str
    reason: str
    note: str


Stimulus = Put | Gone | Look | Restored | WasRead | NotRead | Answered
Instruction = Read | Evict | TellPod | TellNode | TellAll
