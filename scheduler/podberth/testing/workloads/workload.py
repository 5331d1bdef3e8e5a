"""The workload file, a list of steps as in kube-scheduler's scheduler_perf; see docs/evidence/benchmarks.md.

Read strictly: an unknown field, a step with two operations or a count of 0 is refused with its place in the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Any

import msgspec
from msgspec.structs import replace

from podberth.explain.objects.documents import ObjectError, parse
from podberth.kube.resources import POD_GROUPS
from podberth.model.mistakes import as_json, misfit
from podberth.testing.workloads import objects
from podberth.testing.workloads.objects import KINDS

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,30}[a-z0-9])?")
Document = dict[str, Any]


class WorkloadError(ValueError):
    """A workload that can't be run: each line of the text names the field, its value and what was expected."""


class Mode(StrEnum):
    """When the scheduler starts: with all pods there (backlog), or before the first is created (stream)."""

    BACKLOG = "backlog"
    STREAM = "stream"


class Stage(StrEnum):
    """The stage of a pod: bound (Scheduled), or bound or told why not (Attempted)."""

    SCHEDULED = "Scheduled"
    ATTEMPTED = "Attempted"


class Strict(msgspec.Struct, forbid_unknown_fields=True, rename="camel", frozen=True):
    """Unknown fields are errors."""


class CreateNodes(Strict, frozen=True):
    """Standard nodes (4 CPU, 32Gi, 110 pods, ten zones) with `node` merged over them.

    `scales`: whether there are more of them in a larger cluster.
    """

    count: int
    node: Document = {}
    allocatable: dict[str, str | int] = {}
    scales: bool = True


class CreateNamespaces(Strict, frozen=True):
    """`count` namespaces called `<name>-0`, `<name>-1`, … with these labels."""

    name: str
    count: int
    labels: dict[str, str] = {}


class CreateObjects(Strict, frozen=True):
    """Any objects of the kinds that a scheduler watches, PriorityClass, and ResourceClaimTemplate.

    A `status` is written after the object was created, as the API server does not take it earlier. `scales`: whether
    there are more of them in a larger cluster.
    """

    count: int
    object: Document
    namespace: str | None = None
    scales: bool = True


class CreatePods(Strict, frozen=True):
    """Standard pods (100m, 500Mi) with `pod` merged over them, in one namespace or over those of a name.

    `bound`: created on a node, in turn. `measured`: the run ends when these are bound. `waits`: whether anybody waits
    for them at all. `rate`: created so many a second instead of as fast as the API server takes them. `steady`: so many
    are there at a time; each that is bound is deleted, with the claims that were made for it, and the next is created,
    up to `count`, and for so many `seconds` if they are given. `awaited`: the next step begins when these are bound (in
    a stream). `gang`: so many after each other are one pod group, which is created before them; `group`: merged over
    it.
    """

    count: int
    namespace: str | None = None
    namespaces: str | None = None
    pod: Document = {}
    requests: dict[str, str | int] = {}
    bound: bool = False
    measured: bool = False
    waits: bool = True
    rate: float | None = None
    steady: int | None = None
    seconds: float | None = None
    awaited: bool = False
    gang: int | None = None
    group: Document = {}


class AllocateClaims(Strict, frozen=True):
    """Allocate devices to the claims of a namespace that have none, without pods."""

    namespace: str


class UpdateAny(Strict, frozen=True):
    """Merge `object` over objects that are there, by its kind and name; `rate` a second, or as fast as they are taken.

    Its `status` is merged over their status, anything else over what `subresource` names, or the objects themselves.
    `measured`: there are as many of them as of what is measured.
    """

    count: int
    object: Document
    namespace: str | None = None
    subresource: str | None = None
    rate: float | None = None
    measured: bool = False


class DeletePods(Strict, frozen=True):
    """Delete the pods of a namespace that have all these labels; `rate` a second, or as fast as they are taken.

    `waits`: whether the steps after it wait for that.
    """

    namespace: str
    label_selector: dict[str, str] = {}
    rate: float | None = None
    waits: bool = True


class Churn(Strict, frozen=True):
    """Create these objects every `interval` seconds until the measured pods are bound.

    `recreate`: those of the last round are deleted first. `number`: so many rounds create at most; with `recreate`, so
    many create and as many delete, in turn.
    """

    interval: float
    objects: list[Document]
    namespace: str = "churn"
    recreate: bool = True
    number: int | None = None


class Barrier(Strict, frozen=True):
    """Wait until all pods that somebody waits for, created so far, are bound.

    With `stageRequirement: Attempted`: until all pods that were created so far are bound, or known not to fit. Of those
    in `namespaces`, if there are any, and with all labels of `labelSelector`.
    """

    stage_requirement: Stage = Stage.SCHEDULED
    namespaces: tuple[str, ...] = ()
    label_selector: dict[str, str] = {}


class Sleep(Strict, frozen=True):
    """Wait so many `seconds` (in a stream)."""

    seconds: float


class PluginConfig(Strict, frozen=True):
    """Arguments of one plugin of the schedulers that are started."""

    name: str
    args: Document


Operation = (
    CreateNodes
    | CreateNamespaces
    | CreateObjects
    | CreatePods
    | AllocateClaims
    | UpdateAny
    | DeletePods
    | Churn
    | Barrier
    | Sleep
)


class Step(Strict, frozen=True):
    """One operation: exactly one field is given."""

    create_nodes: CreateNodes | None = None
    create_namespaces: CreateNamespaces | None = None
    create_objects: CreateObjects | None = None
    create_pods: CreatePods | None = None
    allocate_claims: AllocateClaims | None = None
    update_any: UpdateAny | None = None
    delete_pods: DeletePods | None = None
    churn: Churn | None = None
    barrier: Barrier | None = None
    sleep: Sleep | None = None

    @property
    def operations(self) -> list[Operation]:
        """Return the operations that are given: exactly one, in a workload that was checked."""
        given = (getattr(self, name) for name in self.__struct_fields__)
        return [operation for operation in given if operation is not None]

    @property
    def operation(self) -> Operation:
        """Return the one that is given."""
        return self.operations[0]


class Workload(Strict, frozen=True):
    """One file. `ceiling`: whether a binder that does not think may bind its pods for comparison.

    `gates`: the feature gates of Kubernetes without which it can't be run. `plugin_config`: what every scheduler that
    is started for it has in its profile.
    """

    name: str
    about: str
    steps: list[Step]
    modes: tuple[Mode, ...] = (Mode.STREAM,)
    gates: tuple[str, ...] = ()
    plugin_config: tuple[PluginConfig, ...] = ()
    ceiling: bool = True
    patience: float = 300.0
    """Seconds that a scheduler gets for the measured pods."""

    @property
    def lasting(self) -> int:
        """Return how many steps come before the first that needs a scheduler: what they make is there for all
        schedulers.
        """
        for i, step in enumerate(self.steps):
            if not all(map(_is_lasting, step.operations)):
                return i
        return len(self.steps)

    @property
    def nodes(self) -> int:
        """Return how many nodes are there for all schedulers."""
        made = self.steps[: self.lasting]
        return sum(step.create_nodes.count for step in made if step.create_nodes is not None)

    @property
    def has_devices(self) -> bool:
        """Return whether its steps publish devices."""
        made = [step.create_objects.object for step in self.steps if step.create_objects is not None]
        return any(each["kind"] == "ResourceSlice" for each in made)

    @property
    def measured(self) -> int:
        """Return how many pods are measured."""
        return sum(step.create_pods.count for step in self.steps if step.create_pods and step.create_pods.measured)

    def scaled(self, scale: float, measured: float = 1.0) -> Workload:
        """This workload with every count times `scale`, that of measured pods also times `measured`, and at least 1."""
        return replace(self, steps=[_scaled(step, scale, measured) for step in self.steps])


def read(text: bytes) -> Workload:
    """Return a workload from YAML.

    Raises WorkloadError.
    """
    try:
        document = parse(text)
    except ObjectError as error:
        raise WorkloadError(str(error)) from None
    if isinstance(document, list):
        raise WorkloadError(
            "a list, as of scheduler_perf's test cases, which `berth bench` runs: expected one workload"
        )
    return from_document(document)


def from_document(document: Any) -> Workload:
    """Return a workload from a document that was read already.

    Raises WorkloadError.
    """
    raw = msgspec.json.encode(document)
    try:
        found = msgspec.json.decode(raw, type=Workload)
    except msgspec.ValidationError as error:
        raise WorkloadError(misfit(error)) from None
    wrong = list(problems(found))
    if not _NAME.fullmatch(found.name):
        wrong.insert(0, f"name: {as_json(found.name)}: expected lower-case letters, digits and dashes")
    if wrong:
        raise WorkloadError("\n".join(wrong))
    return found


def problems(workload: Workload) -> Iterator[str]:
    """Yield what keeps a workload from being run, but for its name: a line each, with the field's path."""
    if not workload.modes:
        yield f"modes: []: expected some of {', '.join(Mode)}"
    if workload.patience <= 0:
        yield f"patience: {workload.patience:g}: expected more than 0 seconds"
    namespaces = set()
    needs_scheduler = False
    for i, step in enumerate(workload.steps):
        fields = msgspec.structs.fields(Step)
        if len(step.operations) != 1:
            names = ", ".join(each.encode_name for each in fields)
            yield f"steps[{i}]: {len(step.operations)} operations: expected one of {names}"
            continue
        operation = step.operation
        field = next(each.encode_name for each in fields if getattr(step, each.name) is operation)
        if isinstance(operation, CreateNamespaces):
            namespaces.add(operation.name)
        needs_scheduler |= not _is_lasting(operation)
        if needs_scheduler and (isinstance(operation, CreateNamespaces) or getattr(operation, "bound", False)):
            yield f"steps[{i}].{field}: expected before the first step that needs a scheduler"
        if isinstance(operation, CreatePods) and operation.steady is not None and Mode.BACKLOG in workload.modes:
            yield f"modes: backlog: expected stream alone, as steps[{i}].createPods.steady deletes what is bound"
        for path, problem in _step_problems(operation, namespaces):
            yield f"steps[{i}].{field}.{path}: {problem}"
    if not workload.nodes:
        yield "steps: no createNodes: expected one at least, before the first step that needs a scheduler"
    if not workload.measured:
        yield "steps: no createPods with measured: true: expected one at least"


def _is_lasting(operation: Operation) -> bool:
    """Return whether what a step makes is there for all schedulers."""
    match operation:
        case CreatePods(bound=False) | UpdateAny() | DeletePods() | Churn() | Barrier() | Sleep():
            return False
        case CreateObjects(object={"kind": POD_GROUPS.kind}):
            return False  # once a group was scheduled, its condition stays: each scheduler gets groups of its own
    return True


def _step_problems(operation: Any, namespaces: set[str]) -> Iterator[tuple[str, str]]:
    count = getattr(operation, "count", 1)
    if count < 1:
        yield "count", f"{count}: expected 1 or more"
    for field in ("name", "namespace"):
        name = getattr(operation, field, None)
        if name is not None and not _NAME.fullmatch(name):
            yield field, f"{as_json(name)}: expected lower-case letters, digits and dashes, at most 32"
    rate = getattr(operation, "rate", None)
    if rate is not None and rate <= 0:
        yield "rate", f"{rate:g}: expected more than 0 a second"
    match operation:
        case CreatePods():
            if (operation.namespace is None) == (operation.namespaces is None):
                yield "namespace", "expected either namespace or namespaces"
            if operation.namespaces is not None and operation.namespaces not in namespaces:
                named = as_json(operation.namespaces)
                yield "namespaces", f"{named}: expected the name of an earlier createNamespaces"
            if operation.steady is not None and operation.steady < 1:
                yield "steady", f"{operation.steady}: expected 1 or more"
            if operation.steady is not None and (operation.bound or operation.rate is not None):
                yield "steady", f"{operation.steady}: expected neither bound nor rate beside it"
            if operation.seconds is not None and (operation.steady is None or operation.seconds <= 0):
                yield "seconds", f"{operation.seconds:g}: expected more than 0, and steady beside it"
            if operation.gang is not None and operation.gang < 1:
                yield "gang", f"{operation.gang}: expected 1 or more"
            elif operation.gang is not None and operation.count % operation.gang:
                yield "gang", f"{operation.gang}: expected that count, {operation.count}, is a multiple of it"
            if operation.gang is not None and (operation.namespace is None or operation.steady):
                yield "gang", f"{operation.gang}: expected one namespace beside it, and no steady"
            if operation.group and operation.gang is None:
                yield "group", "expected gang beside it"
            yield from _template_problems("group", operation.group)
            if operation.measured and (operation.bound or not operation.waits):
                yield "measured", "true: expected pods that are waited for and not created bound"
            yield from _template_problems("pod", operation.pod)
            yield from _template_problems("requests", operation.requests)
        case CreateNodes():
            yield from _template_problems("node", operation.node)
            yield from _template_problems("allocatable", operation.allocatable)
        case CreateObjects() | UpdateAny():
            yield from _object_problems("object", operation.object, operation.namespace)
        case Churn():
            if operation.interval < 0.01:
                yield "interval", f"{operation.interval:g}: expected seconds, 0.01 or more"
            if operation.number is not None and operation.number < 1:
                yield "number", f"{operation.number}: expected 1 or more"
            if not operation.objects:
                yield "objects", "[]: expected one at least"
            for i, each in enumerate(operation.objects):
                yield from _object_problems(f"objects[{i}]", each, operation.namespace)


def _object_problems(path: str, document: Document, namespace: str | None) -> Iterator[tuple[str, str]]:
    kind = document.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        yield f"{path}.kind", f"{as_json(kind)}: expected one of {', '.join(sorted(KINDS))}"
        return
    if KINDS[kind].namespaced and namespace is None:
        yield "namespace", f"a {kind} lives in one: expected its name"
    metadata = document.get("metadata")
    if not isinstance(metadata, dict) or not metadata.get("name"):
        yield f"{path}.metadata.name", "Required value"
    yield from _template_problems(path, document)


def _template_problems(path: str, document: Any) -> Iterator[tuple[str, str]]:
    try:
        objects.check(document)
    except objects.TemplateError as error:
        yield path, str(error)


def _scaled(step: Step, scale: float, measured: float) -> Step:
    changed: dict[str, Operation] = {}
    for name in step.__struct_fields__:
        operation = getattr(step, name)
        if not getattr(operation, "scales", True):
            continue
        if isinstance(operation, CreateNodes | CreateNamespaces | CreateObjects | CreatePods | UpdateAny):
            times = scale * measured if getattr(operation, "measured", False) else scale
            count = max(1, round(operation.count * times))
            if isinstance(operation, CreatePods) and operation.gang is not None:
                gang = min(operation.gang, count)
                changed[name] = replace(operation, count=count // gang * gang, gang=gang)
            else:
                changed[name] = replace(operation, count=count)
    return replace(step, **changed)
