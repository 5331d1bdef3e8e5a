"""The `kubectl` command that makes a change. Nobody runs it here; it is there to be copied.

A pending pod's own spec may hardly be changed: tolerations may be added, and gates taken away. All else is changed
where its owner has its template; the owner then makes new pods.
"""

import json
from collections.abc import Iterable
from shlex import quote

from scheduler.framework import changes
from scheduler.framework.changes import CONDITION, Change
from scheduler.model.pod import Pod

_HASH = "pod-template-hash"
_TEMPLATED = ("Deployment", "StatefulSet", "DaemonSet", "ReplicationController")


def commands(made: Iterable[Change], pod: Pod) -> list[str]:
    """One for each change; none at all where one of them has no command."""
    found = [_command(change, pod) for change in made]
    return [] if "" in found else found


def _command(change: Change, pod: Pod) -> str:
    match change:
        case changes.Uncordon(node):
            return f"kubectl uncordon {quote(node)}"
        case changes.RemoveTaint(node, taint) if not taint.startswith(CONDITION):
            return f"kubectl taint nodes {quote(node)} {quote(taint)}-"
        case changes.Label(node, key, value):
            return f"kubectl label nodes {quote(node)} {quote(f'{key}={value}')} --overwrite"
        case changes.MovePod(key):
            namespace, _, name = key.partition("/")
            return f"kubectl delete pod {quote(name)} -n {quote(namespace)}"
        case changes.Tolerate(key, value, effect):
            toleration = {"key": key, "operator": "Equal", "value": value, "effect": effect}
            return _patched(f"pod {quote(pod.name)}", pod, "add", "/spec/tolerations/-", toleration)
        case changes.Ungate():
            return _patched(f"pod {quote(pod.name)}", pod, "remove", "/spec/schedulingGates")
        case changes.DropNodeSelector(key):
            return _of_owner(pod, "remove", f"/spec/template/spec/nodeSelector/{_pointer(key)}")
        case changes.AllowPreemption():
            return _of_owner(pod, "replace", "/spec/template/spec/preemptionPolicy", "PreemptLowerPriority")
    return ""


def _of_owner(pod: Pod, operation: str, path: str, *value: str) -> str:
    owner = _owner(pod)
    return _patched(owner, pod, operation, path, *value) if owner else ""


def _owner(pod: Pod) -> str:
    """`deployment web`: what has the template of the pod; empty where that is not known."""
    if pod.owner is None:
        return ""
    kind, name = pod.owner[:2]
    suffix = f"-{pod.labels.get(_HASH, '')}"
    if kind == "ReplicaSet" and len(suffix) > 1 and name.endswith(suffix):
        return f"deployment {quote(name.removesuffix(suffix))}"
    return f"{kind.lower()} {quote(name)}" if kind in _TEMPLATED else ""


def _patched(what: str, pod: Pod, operation: str, path: str, *value: object) -> str:
    step = {"op": operation, "path": path} | ({"value": value[0]} if value else {})
    patch = json.dumps([step], separators=(",", ":"))
    return f"kubectl patch {what} -n {quote(pod.namespace)} --type=json -p {quote(patch)}"


def _pointer(key: str) -> str:
    """A key in a JSON pointer (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")
