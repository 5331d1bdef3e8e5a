"""The `kubectl` commands that make a change. Nobody runs them here; they are there to be copied.

A pending pod's own spec may hardly be changed: tolerations may be added, and gates taken away. All else is changed
where its owner has its template; the owner then makes new pods. A pod without an owner is made again.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from shlex import quote
from typing import Any, NamedTuple

from scheduler.framework import changes, device_changes, storage_changes
from scheduler.framework.changes import CONDITION, Change, OnPod
from scheduler.framework.device_changes import OnClaim
from scheduler.model.kinds import Modelled
from scheduler.model.pod import Pod
from scheduler.whatif.documents import ObjectError
from scheduler.whatif.patches import NoPatchError, Operation, operations

_NUMBER = re.compile(r"\d+")
_HASH = "pod-template-hash"
_TEMPLATED = ("Deployment", "StatefulSet", "DaemonSet", "ReplicationController")
_OF_PODS = changes.Tolerate | changes.Ungate
"""What may be changed of a pod that is there."""
_DEFAULT_TOLERATIONS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


class Written(NamedTuple):
    """A pod as somebody wrote it, and the function that decodes one, which raises ObjectError.

    `file`: where it is written, empty for a pod of the cluster; `path`: of its spec there, as a JSON pointer.
    """

    pod: Mapping[str, Any]
    decode: Callable[[Mapping[str, Any]], Modelled]
    file: str = ""
    path: str = ""

    def decoded(self, pod: Mapping[str, Any]) -> Pod | None:
        """The pod that a command makes of this one; None: it can't be read."""
        try:
            made = self.decode(pod)
        except ObjectError:
            return None
        assert isinstance(made, Pod)
        return made


class Commands(NamedTuple):
    """What to run, and the pod that comes of it where a patch makes one."""

    lines: list[str]
    pod: Mapping[str, Any] | None = None


def commands(made: Sequence[Change], pod: Pod, written: Written | None) -> Commands:
    """One for each change of the cluster, and one for all of the pod; none at all where one of them has no command."""
    lines = [_command(change) for change in made if not isinstance(change, OnPod | OnClaim)]
    lines += _of_claims([change for change in made if isinstance(change, OnClaim)], pod, written)
    edits = [change for change in made if isinstance(change, OnPod)]
    if "" in lines:
        return Commands([])
    if not edits:
        return Commands(lines)
    if written is None:
        return Commands([])
    spec = written.pod.get("spec") or {}
    direct = not written.file and all(isinstance(each, _OF_PODS) for each in edits)
    owner = "" if direct or written.file else _owner(pod)
    if owner:
        spec = _as_in_the_template(spec)
    try:
        patch, after = operations(edits, spec, pod.namespace)
    except NoPatchError:
        return Commands([])
    made_of = {**written.pod, "spec": after}
    where = f"-n {quote(pod.namespace)}"
    if written.file:
        of_pod = [f"kubectl patch --local -f {quote(written.file)} -o yaml {_json(_below(written.path, patch))}"]
    elif direct:
        of_pod = [f"kubectl patch pod {quote(pod.name)} {where} {_json(_below('/spec', patch))}"]
    elif owner or pod.owner is None:
        create, patch = _with_its_class(patch, pod, spec)
        if owner:
            change = f"kubectl patch {owner} {where} {_json(_below('/spec/template/spec', patch))}"
        else:
            own = [{"op": "remove", "path": "/preemptionPolicy"}] if create else []
            change = _again(f"pod {quote(pod.name)} {where}", _json(_below("/spec", [*patch, *own])))
        of_pod = [*create, change]
    else:
        return Commands([])
    return Commands([*lines, *of_pod], made_of)


def _as_in_the_template(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """The spec without the tolerations that every pod is given on its creation."""
    kept = [t for t in spec.get("tolerations") or () if t.get("key") not in _DEFAULT_TOLERATIONS]
    return {**spec, "tolerations": kept}


def _with_its_class(patch: list[Operation], pod: Pod, spec: Mapping[str, Any]) -> tuple[list[str], list[Operation]]:
    """A pod has the preemption policy of its PriorityClass, which can't be changed: it gets another class."""
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
        case changes.RemoveTaint(node, taint) if not taint.startswith(CONDITION):
            return f"kubectl taint nodes {quote(node)} {quote(taint)}-"
        case changes.Label(node, key, value):
            return f"kubectl label nodes {quote(node)} {quote(f'{key}={value}')} --overwrite"
        case changes.FreeClaim(key) | changes.MovePod(key):
            namespace, _, name = key.partition("/")
            return f"kubectl delete pod {quote(name)} -n {quote(namespace)}"
        case device_changes.RemoveTaintRule(rule):
            return f"kubectl delete devicetaintrule {quote(rule)}"
        case device_changes.FreeDevices(claim, []):
            namespace, _, name = claim.partition("/")
            return f"kubectl delete resourceclaim {quote(name)} -n {quote(namespace)}"
        case device_changes.FreeDevices(claim, pods):
            namespace = claim.partition("/")[0]
            names = [quote(each.partition("/")[2]) for each in pods]
            return f"kubectl delete pod {' '.join(names)} -n {quote(namespace)}"
        case storage_changes.CreateClass(name, provisioner):
            made = {"provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
            return _created("storage.k8s.io/v1", "StorageClass", {"name": name}, made)
        case storage_changes.CreateClaim(namespace, name, storage_class, size):
            asked = {"requests": {"storage": size}}
            spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": storage_class, "resources": asked}
            return _created("v1", "PersistentVolumeClaim", {"name": name, "namespace": namespace}, {"spec": spec})
        case storage_changes.RecreateClaim(namespace, name, of) | storage_changes.ReplaceVolume(namespace, name, of):
            return _claim_again(namespace, name, {"storageClassName": of, "volumeName": None})
        case storage_changes.ShrinkClaim(namespace, name, size):
            return _claim_again(namespace, name, {"resources": {"requests": {"storage": str(size)}}})
        case storage_changes.ForgetNode(namespace, name):
            return f"kubectl annotate pvc {quote(name)} -n {quote(namespace)} volume.kubernetes.io/selected-node-"
    return ""


def _of_claims(made: Sequence[OnClaim], pod: Pod, written: Written | None) -> Iterator[str]:
    """Claims, or the templates that they are made from, are created again; a pod whose claims are made, too."""
    called = {one.name: one.template for one in pod.shape.claims if one.template}
    templates = {claim: called[name] for name, claim in pod.made_claims if claim and name in called}
    where, by_what = f"-n {quote(pod.namespace)}", dict[str, list[OnClaim]]()
    for change in made:
        name = change.claim.partition("/")[2]
        template = templates.get(name)
        key = f"resourceclaimtemplate {quote(template)}" if template else f"resourceclaim {quote(name)}"
        by_what.setdefault(key, []).append(change)
    for what, those in by_what.items():
        spec = "/spec/spec" if what.startswith("resourceclaimtemplate") else "/spec"
        patch = _in_order([each for change in those for each in change.patch])
        yield _again(f"{what} {where}", _json(_below(spec, patch))) if patch else ""
    if any(what.startswith("resourceclaimtemplate") for what in by_what) and not (written and written.file):
        which = f"pod {quote(pod.name)} {where}"
        yield f"kubectl delete {which}" if pod.owner else _again(which)


def _in_order(patch: Sequence[Operation]) -> list[Operation]:
    """What is removed first, from the last place of a list on, so that the places before it stay what they are."""
    removed = [each for each in patch if each["op"] == "remove"]
    others = [each for each in patch if each["op"] != "remove"]
    removed.sort(key=lambda each: _NUMBER.sub(lambda found: found[0].zfill(6), each["path"]), reverse=True)
    return removed + sorted(others, key=lambda each: str(each["path"]))


def _owner(pod: Pod) -> str:
    """`deployment web`: what has the template of the pod; empty where that is not known."""
    if pod.owner is None:
        return ""
    kind, name = pod.owner[:2]
    suffix = f"-{pod.labels.get(_HASH, '')}"
    if kind == "ReplicaSet" and len(suffix) > 1 and name.endswith(suffix):
        return f"deployment {quote(name.removesuffix(suffix))}"
    return f"{kind.lower()} {quote(name)}" if kind in _TEMPLATED else ""


def _claim_again(namespace: str, name: str, spec: Mapping[str, Any]) -> str:
    patch = _compact({"metadata": {"annotations": None}, "spec": spec})
    return _again(f"pvc {quote(name)} -n {quote(namespace)}", f"--type=merge -p {quote(patch)}")


def _again(which: str, patch: str = "") -> str:
    """Delete an object and create it again with a patch, if the API server would take it.

    Its creation is tried first: the answer that there is such an object comes after policies and quotas have agreed.
    """
    made = f"kubectl get {which} -o json" + (f" | kubectl patch --local -f - -o json {patch}" if patch else "")
    given = 'printf %s "$made" | kubectl'
    tried = f"{given} create --dry-run=server -f - 2>&1 | tee /dev/stderr | grep -q AlreadyExists"
    return f"made=$({made}) && {tried} && {given} replace --force -f -"


def _created(version: str, kind: str, metadata: Mapping[str, str], fields: Mapping[str, Any]) -> str:
    made = _compact({"apiVersion": version, "kind": kind, "metadata": metadata, **fields})
    return f"echo {quote(made)} | kubectl create -f -"


def _json(patch: Iterable[Operation]) -> str:
    return f"--type=json -p {quote(_compact(list(patch)))}"


def _below(path: str, patch: Iterable[Operation]) -> list[Operation]:
    return [{**operation, "path": f"{path}{operation['path']}"} for operation in patch]


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
