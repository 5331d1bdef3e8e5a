"""What is said of a broken promise, in Events, logs, plans and explanations."""

from collections.abc import Mapping

from podberth.evictor.owners import Spared
from podberth.evictor.settings import SYSTEM_CRITICAL
from podberth.model.pod import Pod
from podberth.model.promise import ANNOTATION, NO_TERM, NodeRequirement
from podberth.model.selectors import Requirement

Labels = Mapping[str, str]
_MOST_MISSED, _LENGTH = 5, 300
"""Requirements that are named, and what one of them may take: a pod may ask for thousands of values."""


def breach(wanted: NodeRequirement, node: str, labels: Labels, before: Labels | None = None) -> str:
    """Return which requirements a node does not meet, with the label's value now, and `before` where that is known."""
    parts = []
    broken = wanted.broken(node, labels)
    for missed in broken[:_MOST_MISSED]:
        if missed is NO_TERM:
            parts.append("no term can match a node")
        elif isinstance(missed, Requirement):
            parts.append(f"{_cut(str(missed))}: {_change(missed.key, labels, before)}")
        else:
            parts.append(_cut(str(missed)))
    if len(broken) > _MOST_MISSED:
        parts.append(f"and {len(broken) - _MOST_MISSED} more")
    return "; ".join(parts)


def _cut(text: str) -> str:
    return text if len(text) <= _LENGTH else f"{text[: _LENGTH - 1]}…"


def _change(key: str, labels: Labels, before: Labels | None) -> str:
    now = _value(labels, key)
    if before is None or before.get(key) == labels.get(key):
        return f"the label is {now}" if key in labels else "the label is absent"
    return f"the label was {_value(before, key)}, is {now}"


def _value(labels: Labels, key: str) -> str:
    return f'"{labels[key]}"' if key in labels else "absent"


def succeeds(spared: Spared) -> str:
    """Return why the successor of an evicted pod is left alone."""
    if spared.turn is None:
        return "the API has not answered yet whether another pod of its owner is evicted"
    wait, number = _duration(spared.turn.spared), spared.turn.round
    said = f"a pod of its owner was evicted, and pods created since are left alone for {wait}"
    return f"{said} (owner backoff, round {number})"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return " ".join(part for part in (f"{minutes} min" if minutes else "", f"{rest} s" if rest else "") if part)


def source(pod: Pod) -> str:
    """Return where a pod's promise comes from."""
    promise = pod.shape.promise
    return ANNOTATION if promise is not None else "the profile's allPods"


def left_alone(pod: Pod, *, bare_pods: bool) -> str:
    """Return why a pod is never evicted, whatever it asks for; empty when it may be."""
    if pod.belongs_to_node:
        if pod.owner is not None and pod.owner[0] == "DaemonSet":
            return "a DaemonSet's pod: it would come back to the same node"
        return "a mirror pod: its kubelet would bring it back"
    if pod.priority >= SYSTEM_CRITICAL:
        return "a system-critical pod"
    if pod.owner is None and not bare_pods:
        return "a pod without a controller: nothing would create it again"
    return ""
