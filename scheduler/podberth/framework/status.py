"""A plugin's verdict on a pod and on nodes (kube-scheduler `framework/interface.go`, Status and Code)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from podberth.cache.column import Bools

SUCCESS = "Success"
UNSCHEDULABLE = "Unschedulable"
UNRESOLVABLE = "UnschedulableAndUnresolvable"
LONGEST_TEXT = 1000
"""The number of characters of a plugin's error that are kept."""
_LONGEST_VALUE = 200


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a node (or a whole pod) is rejected. Unresolvable: removing pods would not help."""

    text: str
    unresolvable: bool = False
    broken: bool = False
    """True if it is an error, not a reason: if the node gets so far, the attempt ends with it."""

    @property
    def code(self) -> str:
        """Return the status code under its upstream name."""
        return UNRESOLVABLE if self.unresolvable else UNSCHEDULABLE

    def text_on(self, row: int) -> str:
        """Return what it says of one node."""
        return self.text


@dataclass(frozen=True, slots=True)
class ErrorByNode(Reason):
    """An error that says something else of each node. The attempt ends with one of them, so the others are not made."""

    of_row: Callable[[int], str] = field(default=str, compare=False)

    def text_on(self, row: int) -> str:
        """Return what it says of one node."""
        return self.of_row(row)


def Unschedulable(text: str) -> Reason:  # noqa: N802 (reads as the status it makes)
    """Return a reason that preemption may resolve."""
    return Reason(text)


def Unresolvable(text: str) -> Reason:  # noqa: N802 (reads as the status it makes)
    """Return a reason that no preemption resolves."""
    return Reason(text, unresolvable=True)


Rejections = Sequence[tuple[Reason, Bools]]
"""(reason, bool[rows] of the nodes rejected for it). A node may have several reasons of one plugin;
it is unresolvable when any of them is. An empty sequence rejects nothing."""


@dataclass(frozen=True, slots=True)
class Reject:
    """A plugin keeps the pod from all nodes (PreFilter), or from the one that was chosen (Reserve and later)."""

    reason: Reason

    def __post_init__(self) -> None:
        if not isinstance(self.reason, Reason):
            raise TypeError(f"want a Reason in the Reject, got {shown(self.reason)}")


@dataclass(frozen=True, slots=True)
class Narrow:
    """PreFilter's answer that only nodes with these names come into question."""

    names: frozenset[str]

    def __post_init__(self) -> None:
        if not isinstance(self.names, frozenset | set):
            raise TypeError(f"want a set of names in the Narrow, got {shown(self.names)}")


class PluginError(Exception):
    """A plugin could not answer; the pod fails with this plugin's name and is tried again later."""

    def __init__(self, plugin: str, text: str, point: str = "", at: str = "") -> None:
        """`text` comes from the plugin: it may have any length and any content. `at`: file:line, in full."""
        text = printable(text)
        if at:
            text = f"{text} ({at.rpartition('/')[2]})"
        super().__init__(f'running {point}{" " if point else ""}plugin "{plugin}": {text}')
        self.plugin = plugin
        self.text = text
        self.point = point
        self.at = at


def printable(text: str, most: int = LONGEST_TEXT) -> str:
    """Return a text for conditions, events and logs: with control characters escaped, and no longer than `most`."""
    if len(text) <= most and text.isprintable():
        return text
    escaped = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text[:most])
    return escaped if len(text) <= most and len(escaped) <= most else f"{escaped[: most - 1]}…"


def shown(value: object) -> str:
    """Return a value as an error message shows it to a plugin's author, however long or broken its own text is."""
    try:
        text = f'"{value}"' if isinstance(value, str) else repr(value)
        if isinstance(value, type):
            text = f"the class {value.__name__}"
        return printable(text, _LONGEST_VALUE)
    except Exception:  # noqa: BLE001 (a plugin's object may raise anything)
        return f"a {type(value).__name__}"
