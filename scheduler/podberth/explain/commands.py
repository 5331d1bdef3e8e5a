"""The `kubectl` commands that make a change. Nobody runs them here; they are there to be copied.

A pending pod's own spec may hardly be changed: tolerations may be added, and gates taken away. All else is changed
where its owner has its template; the owner then makes new pods. A pod without an owner is made again.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from shlex import quote
from typing import Any, NamedTuple

from podberth.apiserver.rules.patch import JSON_PATCH, STRATEGIC_PATCH, apply_patch, json_patch
from podberth.apiserver.rules.status import StatusError
from podberth.explain import changes
from podberth.explain.changes import Change, OnPod
from podberth.explain.objects.documents import ObjectError
from podberth.explain.written import (
    NoPatchError,
    Operation,
    Written,
    as_asked,
    by_name,
    controller_of,
    from_template,
    in_the_template,
    lowered,
    made_of,
    operations,
    templates_of,
    unmerged,
)
from podberth.model.pod import Pod

_TEMPLATE = "/spec/template/spec"
_OF_PODS = changes.Tolerate | changes.Ungate
"""The changes that can be made to a pod that exists."""
_LEAVING_PODS = ("StatefulSet", "ReplicationController")
"""Kinds whose pod stays, or may stay, when the template changes: a StatefulSet replaces no pod before others are
ready.
"""


class Commands(NamedTuple):
    """The commands to run, and the pods that come of it: one for each template that may be the pod's; none if it stays.

    `full`: what a quota says against the pod that would be created beside the one that is there; without commands then.
    """

    lines: list[str]
    pods: Sequence[Pod] = ()
    full: str = ""


_NONE = Commands([])


def commands(made: Sequence[Change], pod: Pod, written: Written | None) -> Commands | None:
    """Return commands for all the changes, none where one of them has none, and what the pod is once they are carried
    out.

    They are carried out by the API server's own code on what they name, as it is stored. None: they would be refused,
    or they do not say what is to be changed.
    """
    lines = [_command(change) for change in made if not isinstance(change, OnPod)]
    edits = [change for change in made if isinstance(change, OnPod)]
    if not edits or written is None:
        return Commands([] if "" in lines or edits else lines)
    try:
        found = _of_pod(edits, pod, written)
    except (NoPatchError, StatusError, ObjectError):
        return None
    told = "" not in lines and found.lines
    # The pod first: it is to wait already when there is room.
    return found._replace(lines=[*found.lines, *lines] if told else [])


def _of_pod(edits: Sequence[OnPod], pod: Pod, written: Written) -> Commands:
    """Return commands that change a pod, where it can be changed. Raises NoPatchError, StatusError, ObjectError."""
    if written.file:
        return _in_its_file(edits, pod, written)
    if all(isinstance(each, _OF_PODS) for each in edits):
        return _in_place(edits, pod, written)
    return _made_again(edits, pod, written) if pod.owner is None else _of_template(edits, pod, written)


def _in_its_file(edits: Sequence[OnPod], pod: Pod, written: Written) -> Commands:
    """Return the command that prints the file with the changes."""
    patch, after = _patch(operations(edits, written.spec, _whole(written), pod.namespace), written, written.path)
    line = f"kubectl patch --local -f {quote(written.file)} -o yaml {_json(patch)}"
    return _created([line], after, pod, written)


def _in_place(edits: Sequence[OnPod], pod: Pod, written: Written) -> Commands:
    """Return the command that changes the pod as it waits; none where a controller takes its gates away."""
    patch, after = _patch(operations(edits, written.spec, _whole(written), pod.namespace), written)
    line = f"kubectl patch pod {quote(pod.name)} -n {quote(pod.namespace)} {_json(patch)}"
    awaited = any(isinstance(each, changes.AwaitUngate) for each in edits)
    return Commands([] if awaited else [line], [as_asked(written.decode(after), pod)])


def _made_again(edits: Sequence[OnPod], pod: Pod, written: Written) -> Commands:
    """Return commands that delete a pod without an owner, and create it with the changes."""
    whole = _whole(written)
    lines, patch = _with_its_class(operations(edits, written.spec, whole, pod.namespace), pod, whole)
    patch += [{"op": "remove", "path": "/preemptionPolicy"}] if lines else []
    patch += unmerged(json_patch(deepcopy(dict(written.spec)), deepcopy(patch)), pod.labels)
    patch, after = _patch(patch, written)
    lines.append(_again(f"pod {quote(pod.name)} -n {quote(pod.namespace)}", _json(patch)))
    return _created(lines, after, pod, written)


def _created(lines: list[str], after: Mapping[str, Any], pod: Pod, written: Written) -> Commands:
    """Return the commands, if a quota leaves room for the pod that is created beside the one that is there."""
    full = written.full(after)
    return Commands([] if full else lines, [as_asked(written.create(after), pod)], full)


def _patch(patch: Iterable[Operation], written: Written, path: str = "/spec") -> tuple[list[Operation], dict[str, Any]]:
    """Return the patch with paths from the object on, and the pod after it. `path`: of the spec in the object."""
    below = _below(path, patch)
    return below, {**written.pod, "spec": _patched("Pod", path, written.spec, [(JSON_PATCH, below)])}


def _whole(written: Written) -> Mapping[str, Any]:
    return written.whole.get("spec") or {}


def _of_template(edits: Sequence[OnPod], pod: Pod, written: Written) -> Commands:
    """Return commands that change what has the pod's template."""
    whole, where = _whole(written), f"-n {quote(pod.namespace)}"
    spec = in_the_template(written, pod)
    smaller = [change for change in edits if isinstance(change, changes.Request)]
    others = [change for change in edits if not isinstance(change, changes.Request)]
    steps: list[tuple[str, Any]] = []
    if smaller:
        asked = by_name(each for change in smaller for each in lowered(change, whole))
        steps.append((STRATEGIC_PATCH, {"spec": {"template": {"spec": asked}}}))
    lines: list[str] = []
    if others:
        lines, patch = _with_its_class(operations(others, spec, whole, pod.namespace), pod, whole)
        steps.append((JSON_PATCH, _below(_TEMPLATE, patch)))
    controller = controller_of(pod)
    kind, name = controller or ("Deployment", "")
    templates = [_patched(kind, _TEMPLATE, template, steps) for template in templates_of(written, pod)]
    pods = [made_of(written, pod, template) for template in templates]
    full = written.full(from_template(written, pod, templates[0])) if kind == "Deployment" else ""
    if controller is None or full:
        return Commands([], pods, full)
    for content_type, body in steps:
        form = "json" if content_type == JSON_PATCH else "strategic"
        of = f"{kind.lower()} {quote(name)} {where}"
        lines.append(f"kubectl patch {of} --type={form} -p {quote(_compact(body))}")
    if kind in _LEAVING_PODS:
        lines.append(f"kubectl delete pod {quote(pod.name)} {where} --ignore-not-found")
    return Commands(lines, pods)


def _patched(kind: str, path: str, spec: Mapping[str, Any], steps: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return the pod spec at a path of an object after the API server's code has applied the patches."""
    first, *inner = path.strip("/").split("/")
    found: Any = deepcopy(dict(spec))
    for step in reversed(inner):
        found = {step: found}
    patched: Any = {"kind": kind, first: found}
    for content_type, body in steps:
        patched = apply_patch(content_type, kind, patched, _compact(body).encode())
    for step in (first, *inner):
        patched = patched[step]
    done: dict[str, Any] = patched
    return done


def _with_its_class(patch: list[Operation], pod: Pod, spec: Mapping[str, Any]) -> tuple[list[str], list[Operation]]:
    """Return the commands and patch for another PriorityClass, as a pod's preemption policy can't be changed."""
    named = spec.get("priorityClassName")
    rest = [operation for operation in patch if operation["path"] != "/preemptionPolicy"]
    if not named or len(rest) == len(patch):
        return [], patch
    other = f"{named}-preempting"
    rest.append({"op": "replace", "path": "/priorityClassName", "value": other})
    return [f"kubectl create priorityclass {quote(other)} --value={pod.priority}"], rest


def _command(change: Change) -> str:
    match change:
        case changes.Uncordon(node):
            return f"kubectl uncordon {quote(node)}"
        case changes.RemoveTaint(node, taint):
            return f"kubectl taint nodes {quote(node)} {quote(taint)}-"
        case changes.Label(node, key, value):
            return f"kubectl label nodes {quote(node)} {quote(f'{key}={value}')} --overwrite"
        case changes.FreeClaim(key) | changes.MovePod(key) | changes.GiveUpNode(key):
            namespace, _, name = key.partition("/")
            return f"kubectl delete pod {quote(name)} -n {quote(namespace)}"
    return ""


def _again(which: str, patch: str = "") -> str:
    """Delete an object and create it again with a patch, if the API server would take it.

    Its creation is tried first: the answer that there is such an object comes after policies and quotas have agreed.
    """
    made = f"kubectl get {which} -o json" + (f" | kubectl patch --local -f - -o json {patch}" if patch else "")
    given = 'printf %s "$made" | kubectl'
    tried = f"{given} create --dry-run=server -f - 2>&1 | tee /dev/stderr | grep -q AlreadyExists"
    return f"made=$({made}) && {tried} && {given} replace --force -f -"


def _json(patch: Iterable[Operation]) -> str:
    return f"--type=json -p {quote(_compact(list(patch)))}"


def _below(path: str, patch: Iterable[Operation]) -> list[Operation]:
    return [
        {key: f"{path}{value}" if key in ("path", "from") else value for key, value in operation.items()}
        for operation in patch
    ]


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
