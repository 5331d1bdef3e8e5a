"""What a plugin says of a pod and of nodes (kube-scheduler `framework/interface.go`, Status and Code)."""

from collections.abc import Sequence
from dataclasses import dataclass

from scheduler.state.column import Bools

SUCCESS = "Success"
UNSCHEDULABLE = "Unschedulable"
UNRESOLVABLE = "UnschedulableAndUnresolvable"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a node (or a whole pod) is rejected. Unresolvable: removing pods would not help."""

    text: str
    unresolvable: bool = False

    @property
    def code(self) -> str:
        """The status code under its upstream name."""
        return UNRESOLVABLE if self.unresolvable else UNSCHEDULABLE


def Unschedulable(text: str) -> Reason:  # noqa: N802 (reads as the status it makes)
    """A reason that preemption may resolve."""
    return Reason(text)


def Unresolvable(text: str) -> Reason:  # noqa: N802 (reads as the status it makes)
    """A reason that no preemption resolves."""
    return Reason(text, unresolvable=True)


Rejections = Sequence[tuple[Reason, Bools]]
"""(reason, bool[rows] of the nodes rejected for it). A node may have several reasons of one plugin;
it is unresolvable when any of them is. An empty sequence rejects nothing."""


@dataclass(frozen=True, slots=True)
class Reject:
    """PreFilter's verdict on the pod as a whole."""

    reason: Reason


@dataclass(frozen=True, slots=True)
class Narrow:
    """PreFilter's finding that only nodes of these names can do."""

    names: frozenset[str]


class PluginError(Exception):
    """A plugin could not answer; the pod fails with this plugin's name and is tried again later."""

    def __init__(self, plugin: str, text: str, point: str = "") -> None:
        super().__init__(f'running {point}{" " if point else ""}plugin "{plugin}": {text}')
        self.plugin = plugin
        self.text = text
        self.point = point
