"""A pod as somebody wrote it, and what becomes of it when it, or the template that it is made of, is changed."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from copy import deepcopy
from itertools import chain
from typing import Any, NamedTuple

from msgspec.structs import replace

from podberth.apiserver.patch import json_patch
from podberth.explain.admission import lets
from podberth.explain.documents import ObjectError
from podberth.explain.manifest import TOLERATED, of_daemon
from podberth.explain.patches import unmerged
from podberth.explain.world import TEMPLATED, World
from podberth.model.kinds import Modelled
from podberth.model.pod import Pod

Object = Mapping[str, Any]
_HASHES = ("pod-template-hash", "controller-revision-hash")
"""Labels that the pods of another template have another value of."""
_DEFAULT_TOLERATIONS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


class Written(NamedTuple):
    """`pod`: as it was written; `whole`: with what the API server puts in.

    `decode` reads a pod that is there, `create` one that the API server is to create; both raise ObjectError, `create`
    if it is refused. `full`: what a quota says against one more pod like this one; empty if none does. `file`: where it
    is written, empty for a pod of the cluster; `path`: of its spec there, as a JSON pointer. `owner`: the object that
    has its template, if it is among the objects.
    """

    pod: Object
    decode: Callable[[Object], Modelled]
    create: Callable[[Object], Modelled]
    whole: Object
    file: str = ""
    path: str = ""
    owner: Object | None = None
    full: Callable[[Object], str] = lambda made: ""

    @property
    def spec(self) -> Object:
        """The spec as it was written."""
        found: Object = self.pod.get("spec") or {}
        return found


def of_cluster(pod: Pod, world: World) -> Written | None:
    """A pod that waits in a cluster; None for one of which only what decisions read is known."""
    found = world.written(pod)
    if found is None:
        return None
    found = {**found, "metadata": {**found["metadata"], "namespace": pod.namespace}}
    admission = world.admission
    spec = found.get("spec") or {}
    own = {**found, "spec": json_patch(deepcopy(dict(spec)), unmerged(spec, pod.labels))}
    try:
        before = admission.wrong(admission.created(own, []))
    except ObjectError:  # it is there though: what admits it is not known here
        return Written(found, world.decode, world.decode, found, owner=_owner(pod, world))

    def create(made: Object) -> Modelled:
        whole = admission.created(made, [])
        new = admission.wrong(whole) - before
        if new:
            raise ObjectError(f"the API server refuses it: {min(new)}")
        return world.decode(whole)

    def full(made: Object) -> str:
        there = chain(world.placed.values(), world.waiting.values())
        refusal = lets(admission.created(made, []), 1, admission.quotas(pod.namespace, there))
        return "" if refusal is None else refusal.why

    return Written(found, world.decode, create, found, owner=_owner(pod, world), full=full)


def controller_of(pod: Pod) -> tuple[str, str] | None:
    """(kind, name) of what has the template of a pod, and makes new pods when it is changed; None: not known."""
    if pod.owner is None:
        return None
    kind, name = pod.owner[:2]
    suffix = f"-{pod.labels.get(_HASHES[0], '')}"
    if kind == "ReplicaSet" and len(suffix) > 1 and name.endswith(suffix):
        return "Deployment", name.removesuffix(suffix)
    return (kind, name) if kind in TEMPLATED else None


def _owner(pod: Pod, world: World) -> Object | None:
    owner = controller_of(pod)
    return None if owner is None else world.with_template(owner[0], pod.namespace, owner[1])


def in_the_template(written: Written, pod: Pod) -> Object:
    """The spec of a pod without what controllers and admission have put in, but for resources and selectors."""
    spec = dict(written.whole.get("spec") or {})
    daemon = pod.owner is not None and pod.owner[0] == "DaemonSet"
    theirs = TOLERATED if daemon else ()
    tolerations = [
        each
        for each in spec.get("tolerations") or ()
        if each.get("key") not in _DEFAULT_TOLERATIONS and each not in theirs
    ]
    spec = {**spec, "tolerations": tolerations}
    affinity = spec.get("affinity")
    if daemon and isinstance(affinity, dict) and _REQUIRED in (affinity.get("nodeAffinity") or {}):
        rest = {key: value for key, value in affinity["nodeAffinity"].items() if key != _REQUIRED}
        spec["affinity"] = {**affinity, "nodeAffinity": rest}
    return spec


def templates_of(written: Written, pod: Pod) -> Iterator[Object]:
    """The specs of templates that may have made a pod: the one that is known, else with and without its defaults."""
    if written.owner is not None:
        yield written.owner["spec"]["template"]["spec"]
        return
    spec = in_the_template(written, pod)
    full: dict[str, Any] = json_patch(deepcopy(dict(spec)), unmerged(spec, pod.labels))
    if full.get("priorityClassName"):
        full.pop("preemptionPolicy", None)  # it is the class's
    yield full
    for leaner in (_limits_only, _asking_nothing):
        lean = deepcopy(full)
        for each in (lean, *(lean.get("containers") or ()), *(lean.get("initContainers") or ())):
            leaner(each)
        if lean != full:
            with suppress(ObjectError):
                made = made_of(written, pod, lean)
                if made.shape.requests == pod.shape.requests:
                    yield lean


def made_of(written: Written, pod: Pod, template: Object) -> Pod:
    """The pod that its controller makes of a template instead. Raises ObjectError."""
    return as_asked(written.create(from_template(written, pod, template)), pod)


def from_template(written: Written, pod: Pod, template: Object) -> Object:
    """Return what a pod's controller sends to the API server, of a template."""
    metadata = dict(written.whole["metadata"])
    labels = dict(metadata.get("labels") or {})
    metadata["labels"] = {key: f"{value[:50]}-new" if key in _HASHES else value for key, value in labels.items()}
    spec = template
    if pod.owner is not None and pod.owner[0] == "DaemonSet":
        required = pod.shape.required_node_affinity
        spec = of_daemon(spec, next(iter((required and required.names) or ()), ""))
    return {**written.whole, "metadata": metadata, "spec": spec, "status": {}}


def as_asked(made: Modelled, pod: Pod) -> Pod:
    """A changed pod in the place of the one that was asked about."""
    assert isinstance(made, Pod)
    return replace(made, uid=pod.uid, name=pod.name, node_name="", nominated_node_name="")


def _limits_only(owner: dict[str, Any]) -> None:
    """Take requests away that are what the limits say."""
    resources = owner.get("resources")
    if not isinstance(resources, dict):
        return
    limits = resources.get("limits") or {}
    requests = {name: each for name, each in (resources.get("requests") or {}).items() if limits.get(name) != each}
    rest = {key: value for key, value in resources.items() if key != "requests"}
    owner["resources"] = {**rest, **({"requests": requests} if requests else {})}


def _asking_nothing(owner: dict[str, Any]) -> None:
    owner.pop("resources", None)
