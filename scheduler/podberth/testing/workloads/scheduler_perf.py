"""Test cases of kube-scheduler's scheduler_perf (`performance-config.yaml`), read as they are, as workloads of ours.

Each operation becomes steps that mean the same; `test/integration/scheduler_perf/operations.go` of Kubernetes says what
it has to mean. What is not known is refused with its place in the file. Names of cluster-wide objects and nodes stay as
manifests have them, so one run at a time fits into a cluster; namespaces begin with the name of the run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from podberth.explain.objects.documents import ObjectError, parse
from podberth.framework.config import parse_duration
from podberth.model.mistakes import as_json, misfit
from podberth.testing.workloads.go_template import INDEX, Expression, GoTemplateError, render
from podberth.testing.workloads.objects import KINDS, PRIORITY_CLASSES, merged
from podberth.testing.workloads.workload import (
    AllocateClaims,
    Barrier,
    Churn,
    CreateNamespaces,
    CreateNodes,
    CreateObjects,
    CreatePods,
    DeletePods,
    Document,
    Operation,
    PluginConfig,
    Sleep,
    Stage,
    Step,
    UpdateAny,
    Workload,
    WorkloadError,
    from_document,
    problems,
)

_POD: Document = {
    "spec": {
        "containers": [
            {
                "name": "pause",
                "image": "registry.k8s.io/pause:3.10",
                "ports": [{"containerPort": 80}],
                "resources": {
                    "limits": {"cpu": "100m", "memory": "500Mi"},
                    "requests": {"cpu": "100m", "memory": "500Mi"},
                },
            }
        ]
    }
}
"""The pod of a createPods without a manifest."""
_THROUGHPUT = "SchedulingThroughput"
_MOST_IN_STEADY_STATE = 1_000
"""Pods a second at most while a steady state lasts."""
_PLACE = re.compile(r"(\$\((?:[^()]|\([^()]*\))*\))")


class _Strict(msgspec.Struct, forbid_unknown_fields=True, rename="camel", frozen=True):
    """Unknown fields are errors."""


class _LabelNodes(_Strict, frozen=True):
    """Nodes get these values of a label in turn."""

    label_key: str
    label_values: list[str]


class _UniqueLabel(_Strict, frozen=True):
    """Each node gets a value of its own."""

    label_key: str


class _Allocatable(_Strict, frozen=True):
    """What nodes have more to give, and what their CSINodes say."""

    node_allocatable: dict[str, str] = {}
    csi_node_allocatable: dict[str, Document] = {}
    migrated_plugins: list[str] = []


class _Op(msgspec.Struct, forbid_unknown_fields=True, rename="camel", frozen=True, tag_field="opcode"):
    """One operation. What has a field with Param takes its value from the workload."""


class _CreateNodes(_Op, tag="createNodes", frozen=True):
    count: int = 0
    count_param: str = ""
    node_template_path: str | None = None
    node_allocatable_strategy: _Allocatable = _Allocatable()
    label_node_prepare_strategy: _LabelNodes | None = None
    unique_node_label_strategy: _UniqueLabel | None = None
    template_params: Document = {}


class _CreateNamespaces(_Op, tag="createNamespaces", frozen=True):
    prefix: str
    count: int = 0
    count_param: str = ""
    namespace_template_path: str | None = None


class _CreatePods(_Op, tag="createPods", frozen=True):
    count: int = 0
    count_param: str = ""
    count_multiplier_param: str = ""
    steady_state: bool = False
    steady_state_param: str = ""
    duration: str = "0s"
    duration_param: str = ""
    collect_metrics: bool = False
    namespace: str | None = None
    pod_template_path: str | None = None
    skip_wait_to_completion: bool = False
    persistent_volume_template_path: str | None = None
    persistent_volume_claim_template_path: str | None = None
    template_params: Document = {}
    signature_batch_size: int = 1
    signature_batch_size_param: str = ""


class _CreatePodSets(_Op, tag="createPodSets", frozen=True):
    namespace_prefix: str
    create_pods_op: _CreatePods
    count: int = 0
    count_param: str = ""


class _DeletePods(_Op, tag="deletePods", frozen=True):
    namespace: str
    label_selector: dict[str, str] = {}
    skip_wait_to_completion: bool = False
    delete_pods_per_second: int = 0


class _Churn(_Op, tag="churn", frozen=True):
    mode: str
    template_paths: list[str]
    number: int = 0
    interval_milliseconds: int = 500
    namespace: str | None = None


class _Barrier(_Op, tag="barrier", frozen=True):
    namespaces: list[str] = []
    label_selector: dict[str, str] = {}
    stage_requirement: Stage = Stage.SCHEDULED


class _Sleep(_Op, tag="sleep", frozen=True):
    duration: str = "0s"
    duration_param: str = ""


class _CreateAny(_Op, tag="createAny", frozen=True):
    template_path: str
    namespace: str = ""
    count: int = 1
    count_param: str = ""
    template_params: Document = {}


class _CreatePodGroups(_Op, tag="createPodGroups", frozen=True):
    template_path: str
    namespace: str
    count: int = 0
    count_param: str = ""
    template_params: Document = {}


class _CreateResourceClaims(_Op, tag="createResourceClaims", frozen=True):
    template_path: str
    namespace: str
    count: int = 0
    count_param: str = ""


class _AllocResourceClaims(_Op, tag="allocResourceClaims", frozen=True):
    namespace: str = ""


class _UpdateAny(_Op, tag="updateAny", frozen=True):
    template_path: str
    namespace: str = ""
    count: int = 1
    count_param: str = ""
    update_per_second: int = 0
    subresources: list[str] = []


class _StartCollecting(_Op, tag="startCollectingMetrics", frozen=True):
    namespaces: list[str]
    name: str = ""
    label_selector: dict[str, str] = {}


class _StopCollecting(_Op, tag="stopCollectingMetrics", frozen=True):
    pass


_AnyOp = (
    _CreateNodes
    | _CreateNamespaces
    | _CreatePods
    | _CreatePodSets
    | _DeletePods
    | _Churn
    | _Barrier
    | _Sleep
    | _CreateAny
    | _CreatePodGroups
    | _CreateResourceClaims
    | _AllocResourceClaims
    | _UpdateAny
    | _StartCollecting
    | _StopCollecting
)


class _Selector(_Strict, frozen=True):
    """The metric that a threshold is for."""

    name: str
    labels: dict[str, str] = {}
    data_bucket: str = ""
    expect_lower: bool = False


class _Sized(_Strict, frozen=True):
    """One workload of a test case."""

    name: str
    params: Document = {}
    labels: list[str] = []
    threshold: float | dict[str, float] = 0.0
    threshold_metric_selector: _Selector | None = None
    feature_gates: dict[str, bool] = {}


class _TestCase(_Strict, frozen=True):
    name: str
    workload_template: list[_AnyOp]
    workloads: list[_Sized]
    feature_gates: dict[str, bool] = {}
    metrics_collector_config: Any = None
    scheduler_config_path: str | None = None
    default_pod_template_path: str | None = None
    labels: list[str] = []
    default_threshold_metric_selector: _Selector | None = None


class _Profile(_Strict, frozen=True):
    scheduler_name: str = ""
    plugin_config: tuple[PluginConfig, ...] = ()


class _Configuration(_Strict, frozen=True):
    api_version: str
    kind: str
    profiles: list[_Profile]


class Case(msgspec.Struct, frozen=True):
    """One workload of a test case, as a workload of ours that is called `TestCase/workload`."""

    workload: Workload
    labels: frozenset[str]
    threshold: float | None
    """Pods a second that scheduler_perf wants on its own machines; None: it wants no rate."""


def read_cases(
    text: bytes, directory: Path, wanted: Callable[[str, frozenset[str]], bool], scale: float = 1.0
) -> list[Case]:
    """Return the workloads of a file: that of ours at its scale, or those of scheduler_perf that are wanted.

    `wanted` gets a workload's name and labels. Manifests are found from the file's directory. Raises WorkloadError,
    with a line for each problem.
    """
    try:
        document = parse(text)
    except ObjectError as error:
        raise WorkloadError(str(error)) from None
    if not isinstance(document, list):
        return [Case(from_document(document).scaled(scale), frozenset(), None)]
    if scale != 1.0:
        raise WorkloadError(f"a scale of {scale:g}: expected 1: workloads of scheduler_perf have sizes of their own")
    try:
        found = msgspec.json.decode(msgspec.json.encode(document), type=list[_TestCase])
    except msgspec.ValidationError as error:
        raise WorkloadError(misfit(error)) from None
    cases, wrong = [], []
    for i, test_case in enumerate(found):
        for j, sized in enumerate(test_case.workloads):
            name, labels = f"{test_case.name}/{sized.name}", frozenset([*test_case.labels, *sized.labels])
            if not wanted(name, labels):
                continue
            try:
                workload = _Reading(test_case, sized, directory, f"[{i}]", f"[{i}].workloads[{j}]").workload(name)
            except WorkloadError as error:
                wrong.append(str(error))
            else:
                cases.append(Case(workload, labels, _threshold(test_case, sized)))
    if wrong:
        raise WorkloadError("\n".join(dict.fromkeys(wrong)))
    return cases


def _threshold(test_case: _TestCase, sized: _Sized) -> float | None:
    """Return the least rate; of several by topic none, since a file does not say what its topic is."""
    metric = sized.threshold_metric_selector or test_case.default_threshold_metric_selector
    if metric is not None and metric.name != _THROUGHPUT:
        return None
    given = sized.threshold
    if isinstance(given, dict):
        return next(iter(given.values())) if len(given) == 1 else None
    return given or None


class _Reading:
    """One workload of one test case, while it is read. `case`, `sized`: the places of both in the file."""

    def __init__(self, test_case: _TestCase, sized: _Sized, directory: Path, case: str, place: str) -> None:
        self._case = test_case
        self._sized = sized
        self._directory = directory
        self._at = case
        self._sized_at = place
        self._priorities: dict[int, None] = {}
        self._known: dict[tuple[str, str, str], Document] = {}
        """Objects as they were created or last updated, by kind, namespace and name."""
        self._with_claims: dict[str, None] = {}
        """Namespaces in which claims were created."""
        self._namespaces = self._all_namespaces()
        self._collecting: _StartCollecting | None = None

    def workload(self, name: str) -> Workload:
        """Return the whole. Raises WorkloadError."""
        gates = {**self._case.feature_gates, **self._sized.feature_gates}
        operations = [one for number, op in enumerate(self._case.workload_template) for one in self._of(number, op)]
        first: list[Operation] = [one for one in operations if isinstance(one, CreateNamespaces)]
        first += [
            CreateObjects(1, {"kind": PRIORITY_CLASSES.kind, "metadata": {"name": _class(number)}, "value": number})
            for number in self._priorities
        ]
        rest = [one for one in operations if not isinstance(one, CreateNamespaces)]
        found = Workload(
            name=name,
            about=f"{name} of scheduler_perf.",
            steps=[_step(one) for one in [*first, *rest]],
            gates=tuple(sorted(gate for gate, on in gates.items() if on)),
            plugin_config=self._plugin_config(),
            ceiling=False,
        )
        wrong = next(problems(found), None)
        if wrong is not None:
            raise WorkloadError(f"{self._sized_at}: {name} can't be run here: {wrong}")
        return found

    def _of(self, number: int, op: _AnyOp) -> Iterator[Operation]:
        """Yield the steps that one operation comes to."""
        at = f"{self._at}.workloadTemplate[{number}]"
        match op:
            case _CreateNodes():
                yield from self._nodes(at, number, op)
            case _CreateNamespaces():
                yield from self._create_namespaces(at, op)
            case _CreatePods():
                yield from self._pods(at, number, op, op.namespace or f"namespace-{number}")
            case _CreatePodSets():
                for i in range(self._count(at, op.count, op.count_param)):
                    yield from self._pods(f"{at}.createPodsOp", number, op.create_pods_op, f"{op.namespace_prefix}-{i}")
            case _DeletePods():
                rate = op.delete_pods_per_second or None
                yield DeletePods(op.namespace, op.label_selector, rate, not op.skip_wait_to_completion)
            case _Churn():
                yield self._churn(at, number, op)
            case _Barrier():
                yield Barrier(op.stage_requirement, tuple(op.namespaces), op.label_selector)
            case _Sleep():
                yield Sleep(self._seconds(f"{at}.duration", op.duration, op.duration_param))
            case _CreateAny() | _CreatePodGroups():
                yield from self._objects(at, number, op, op.template_params)
            case _CreateResourceClaims():
                yield from self._objects(at, number, op, None)
            case _AllocResourceClaims():
                for namespace in self._with_claims:
                    if op.namespace in ("", namespace):
                        yield AllocateClaims(namespace)
            case _UpdateAny():
                yield self._update(at, op)
            case _StartCollecting():
                self._collecting = op
            case _StopCollecting():
                self._collecting = None

    # --- Nodes and namespaces -----------------------------------------------------------------------------------------

    def _nodes(self, at: str, number: int, op: _CreateNodes) -> Iterator[Operation]:
        count = self._count(at, op.count, op.count_param)
        prepare = op.label_node_prepare_strategy
        values = [None] if prepare is None else prepare.label_values
        for k, value in enumerate(values):
            some = len(range(k, count, len(values)))
            if not some:
                continue
            index = INDEX if len(values) == 1 else Expression(f"i * {len(values)} + {k}", 0)
            template = self._template(at, "nodeTemplatePath", op.node_template_path, op.template_params, count, index)
            labels = {} if prepare is None or value is None else {prepare.label_key: value}
            name = template.get("metadata", {}).get("name") or f"$(pool)-node-{number}-{index}"
            if op.unique_node_label_strategy is not None:
                labels[op.unique_node_label_strategy.label_key] = name
            more = op.node_allocatable_strategy
            document = _node(template, name, labels, more.node_allocatable)
            self._known["Node", "", name] = document
            yield CreateNodes(some, document, scales=False)
            if more.csi_node_allocatable or more.migrated_plugins:
                yield CreateObjects(some, _csi_node(name, more))

    def _create_namespaces(self, at: str, op: _CreateNamespaces) -> Iterator[Operation]:
        template = self._plain(at, "namespaceTemplatePath", op.namespace_template_path)
        count = self._count(at, op.count, op.count_param)
        if count:
            yield CreateNamespaces(op.prefix, count, template.get("metadata", {}).get("labels", {}))

    def _all_namespaces(self) -> frozenset[str]:
        """Return those that the case makes: where manifests name them, it is the run's that are meant."""
        found = set()
        for number, op in enumerate(self._case.workload_template):
            at = f"{self._at}.workloadTemplate[{number}]"
            match op:
                case _CreateNamespaces(prefix=prefix) | _CreatePodSets(namespace_prefix=prefix):
                    found |= {f"{prefix}-{i}" for i in range(self._count(at, op.count, op.count_param))}
                case _CreatePods() | _Churn():
                    found.add(op.namespace or f"namespace-{number}")
                case _CreateAny() | _CreatePodGroups() | _CreateResourceClaims() if op.namespace:
                    found.add(op.namespace)
        return frozenset(found)

    # --- Pods ---------------------------------------------------------------------------------------------------------

    def _pods(self, at: str, number: int, op: _CreatePods, namespace: str) -> Iterator[Operation]:
        count = self._count(at, op.count, op.count_param)
        if op.count_multiplier_param:
            count *= self._whole(f"{at}.countMultiplierParam", op.count_multiplier_param)
        if not count:
            return
        path = op.pod_template_path or self._case.default_pod_template_path
        field = "podTemplatePath" if op.pod_template_path else "defaultPodTemplatePath"
        pod = self._template(at, field, path, op.template_params, count, INDEX) if path else _POD
        labels: dict[str, str] = pod.get("metadata", {}).get("labels") or {}
        measured = op.collect_metrics or self._is_collected(namespace, labels)
        if path:
            batch = op.signature_batch_size
            if op.signature_batch_size_param:
                batch = self._whole(f"{at}.signatureBatchSizeParam", op.signature_batch_size_param)
            alike = "$(i)" if batch == 1 else f"$(i // {batch})"
            pod = merged(pod, {"metadata": {"labels": {**labels, "signature": f"signature-label-{alike}"}}})
        self._remember("Pod", namespace, pod)
        if op.persistent_volume_claim_template_path is not None:
            yield from self._volumes(at, op, namespace, count)
            claim = {"name": "vol", "persistentVolumeClaim": {"claimName": "pvc-$(i)"}}
            pod = merged(pod, {"spec": {"volumes": [claim]}})
        pod = self._in_run(_nameless(pod))
        steady = op.steady_state
        if op.steady_state_param:
            steady = self._param(f"{at}.steadyStateParam", op.steady_state_param, bool, "true or false")
        if not steady:
            waits = measured or not op.skip_wait_to_completion or self._awaited(number, namespace, labels)
            awaited = not op.skip_wait_to_completion
            yield CreatePods(count, namespace, pod=pod, measured=measured, waits=waits, awaited=awaited)
            return
        seconds = self._seconds(f"{at}.duration", op.duration, op.duration_param)
        most = max(round(seconds * _MOST_IN_STEADY_STATE), count)
        yield CreatePods(most, namespace, pod=pod, measured=measured, steady=count, seconds=seconds)

    def _is_collected(self, namespace: str, labels: dict[str, str]) -> bool:
        by = self._collecting
        return by is not None and namespace in by.namespaces and by.label_selector.items() <= labels.items()

    def _awaited(self, number: int, namespace: str, labels: dict[str, str]) -> bool:
        """Return whether a later barrier waits until these pods are bound."""
        return any(
            isinstance(op, _Barrier)
            and op.stage_requirement is Stage.SCHEDULED
            and (not op.namespaces or namespace in op.namespaces)
            and op.label_selector.items() <= labels.items()
            for op in self._case.workload_template[number + 1 :]
        )

    def _volumes(self, at: str, op: _CreatePods, namespace: str, count: int) -> Iterator[Operation]:
        """Yield a volume and a claim for each pod, bound to each other."""
        volume = self._plain(at, "persistentVolumeTemplatePath", op.persistent_volume_template_path)
        claim = self._plain(at, "persistentVolumeClaimTemplatePath", op.persistent_volume_claim_template_path)
        name = f"$(run)-{namespace}-vol-$(i)"
        whose = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": f"$(run)-{namespace}",
            "name": "pvc-$(i)",
        }
        source = {"csi": {"volumeHandle": name}} if "csi" in volume.get("spec", {}) else {}
        if "awsElasticBlockStore" in volume.get("spec", {}):
            source = {"awsElasticBlockStore": {"volumeID": "vol-$(i)"}}
        more = {"metadata": {"name": name}, "spec": {"claimRef": whose, **source}, "status": {"phase": "Bound"}}
        yield CreateObjects(count, merged(volume, {"kind": "PersistentVolume", **more}))
        more = {"metadata": {"name": "pvc-$(i)"}, "spec": {"volumeName": name}, "status": {"phase": "Bound"}}
        yield CreateObjects(count, merged(claim, {"kind": "PersistentVolumeClaim", **more}), namespace)

    # --- Other objects ------------------------------------------------------------------------------------------------

    def _objects(
        self, at: str, number: int, op: _CreateAny | _CreatePodGroups | _CreateResourceClaims, params: Document | None
    ) -> Iterator[Operation]:
        """Yield objects of any kind. `params`: None of a manifest that is no template."""
        count = self._count(at, op.count, op.count_param)
        if not count:
            return
        if params is None:
            document = self._plain(at, "templatePath", op.template_path)
        else:
            document = self._template(at, "templatePath", op.template_path, params, count, INDEX)
        document = self._named(self._of_kind(at, op.template_path, document), f"{number}-$(i)")
        if document["kind"] == "ResourceClaim":
            self._with_claims[op.namespace] = None
        self._remember(document["kind"], op.namespace, document)
        yield CreateObjects(count, self._in_run(document), op.namespace or None)

    def _churn(self, at: str, number: int, op: _Churn) -> Operation:
        if op.mode not in ("create", "recreate"):
            raise WorkloadError(f"{at}.mode: {as_json(op.mode)}: expected create or recreate")
        objects = []
        for k, path in enumerate(op.template_paths):
            place = f"templatePaths[{k}]"
            document = self._of_kind(at, path, self._plain(at, place, path))
            document = self._named(document, f"{number}-{k}-$(i)")
            if document["kind"] == "Node":
                document = {"kind": "Node", **_node(document, document["metadata"]["name"], {}, {})}
            objects.append(self._in_run(document))
        recreate = op.mode == "recreate"
        interval = (op.interval_milliseconds or 500) / 1000
        return Churn(interval, objects, op.namespace or f"namespace-{number}", recreate, op.number or None)

    def _update(self, at: str, op: _UpdateAny) -> Operation:
        """What upstream replaces is changed here: fields that are not in the new manifest go."""
        count = self._count(at, op.count, op.count_param)
        if len(op.subresources) > 1:
            raise WorkloadError(f"{at}.subresources: {len(op.subresources)} of them: expected one at most")
        document = self._template(at, "templatePath", op.template_path, {}, count, INDEX)
        document = self._of_kind(at, op.template_path, document)
        kind, name = document["kind"], document.get("metadata", {}).get("name", "")
        if kind == "Node":
            document = {"kind": "Node", **_node(document, name, {}, {})}
        document.get("spec", {}).pop("nodeName", None)  # where the pod is by now
        document.setdefault("metadata", {}).setdefault("labels", {})  # the run's own stay
        key = (kind, op.namespace, name)
        change = _difference(self._known.get(key, {}), document)
        self._known[key] = document
        change = {**change, "kind": kind, "metadata": {**change.get("metadata", {}), "name": name}}
        subresource = op.subresources[0] if op.subresources else None
        rate = op.update_per_second or None
        return UpdateAny(count, self._in_run(change), op.namespace or None, subresource, rate)

    def _remember(self, kind: str, namespace: str, document: Document) -> None:
        name = document.get("metadata", {}).get("name")
        if name:
            self._known[kind, namespace, name] = document

    def _of_kind(self, at: str, path: str, document: Document) -> Document:
        """Return the document without its version: it is written in the one that we know. Raises WorkloadError."""
        kind, version = document.get("kind"), document.get("apiVersion")
        known = KINDS.get(kind) if isinstance(kind, str) else None
        group = "" if not isinstance(version, str) or "/" not in version else version.partition("/")[0]
        if known is None or group != known.group:
            kinds = ", ".join(sorted(KINDS))
            raise WorkloadError(f"{at}.templatePath: {path}: a {version} {kind}: expected Kubernetes' own of {kinds}")
        return {field: value for field, value in document.items() if field != "apiVersion"}

    def _named(self, document: Document, end: str) -> Document:
        """Return the document with a name for each object, where the API server would make one up."""
        metadata = dict(document.get("metadata", {}))
        begin = metadata.pop("generateName", f"{document['kind'].lower()}-")
        return {**document, "metadata": {**metadata, "name": metadata.get("name") or f"{begin}{end}"}}

    def _in_run(self, document: Document) -> Document:
        """Return a manifest with the run's namespaces, and with a PriorityClass in place of a number.

        An API server with the admission plugin Priority takes no other priority than that of a class.
        """
        found: Document = self._namespaces_in(document)
        spec = found.get("spec")
        if isinstance(spec, dict) and isinstance(spec.get("priority"), int):
            number = spec.pop("priority")
            self._priorities[number] = None
            spec["priorityClassName"] = _class(number)
        return found

    def _namespaces_in(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._namespaces_in(each) for each in value]
        if not isinstance(value, dict):
            return value
        return {
            key: [f"$(run)-{name}" if name in self._namespaces else name for name in each]
            if key == "namespaces" and isinstance(each, list)
            else self._namespaces_in(each)
            for key, each in value.items()
        }

    # --- Manifests and parameters -------------------------------------------------------------------------------------

    def _template(
        self, at: str, field: str, path: str | None, params: Document, count: int, index: Expression
    ) -> Document:
        """Return a manifest that is a template; empty without a path. Raises WorkloadError."""
        if path is None:
            return {}
        text, place = self._text(at, field, path), f"{at}.{field}: {path}"
        values = {**self._resolved(f"{at}.templateParams", params), "Count": count}
        try:
            found = self._parsed(place, render(text, {**values, "Index": index}))
            one = self._parsed(place, render(text, {**values, "Index": 0}))
            return _with_numbers(found, one)  # type: ignore[no-any-return]
        except GoTemplateError as error:
            raise WorkloadError(f"{place}: {error}") from None

    def _plain(self, at: str, field: str, path: str | None) -> Document:
        """Return a manifest as it stands; empty without a path. Raises WorkloadError."""
        return {} if path is None else self._parsed(f"{at}.{field}: {path}", self._text(at, field, path))

    def _text(self, at: str, field: str, path: str) -> str:
        try:
            return (self._directory / path).read_text()
        except (OSError, UnicodeError) as error:
            said = getattr(error, "strerror", None) or "it is not UTF-8"
            raise WorkloadError(f"{at}.{field}: {path}: {said.lower()}") from None

    def _parsed(self, place: str, text: str) -> Document:
        try:
            found = parse(text.encode())
        except ObjectError as error:
            raise WorkloadError(f"{place}: {error}") from None
        if not isinstance(found, dict):
            raise WorkloadError(f"{place}: expected one object")
        return found

    def _resolved(self, at: str, params: Document) -> Document:
        """Return template parameters with the workload's own in place of `$name` and `$name|default`."""
        found = dict(params)
        for key, value in params.items():
            if isinstance(value, str) and value.startswith("$"):
                name, bar, default = value[1:].partition("|")
                if name in self._sized.params:
                    found[key] = self._sized.params[name]
                elif bar:
                    found[key] = _value(default)
                else:
                    raise WorkloadError(f"{self._sized_at}.params.{name}: Required value: {at}.{key} asks for it")
        return found

    def _count(self, at: str, count: int, param: str) -> int:
        return self._whole(f"{at}.countParam", param) if param else count

    def _whole(self, at: str, param: str) -> int:
        found: int = self._param(at, param, int, "a whole number")
        return found

    def _param(self, at: str, param: str, kind: type, expected: str) -> Any:
        name = param.removeprefix("$")
        if name not in self._sized.params:
            raise WorkloadError(f"{self._sized_at}.params.{name}: Required value: {at} asks for it")
        value = self._sized.params[name]
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise WorkloadError(f"{self._sized_at}.params.{name}: {as_json(value)}: expected {expected}")
        return value

    def _seconds(self, at: str, given: str, param: str) -> float:
        if param:
            given = self._param(f"{at}Param", param, str, "a duration")
        found = parse_duration(given)
        if found is None or found < 0:
            raise WorkloadError(f"{at}: {as_json(given)}: expected a duration such as 10s")
        return found

    def _plugin_config(self) -> tuple[PluginConfig, ...]:
        at, path = f"{self._at}.schedulerConfigPath", self._case.scheduler_config_path
        if path is None:
            return ()
        raw = msgspec.json.encode(self._plain(self._at, "schedulerConfigPath", path))
        try:
            profiles = msgspec.json.decode(raw, type=_Configuration).profiles
        except msgspec.ValidationError as error:
            raise WorkloadError(f"{at}: {path}: {misfit(error)}") from None
        if len(profiles) != 1:
            raise WorkloadError(f"{at}: {path}: {len(profiles)} profiles: expected one")
        return profiles[0].plugin_config


# --- What documents come to -------------------------------------------------------------------------------------------


def _node(template: Document, name: str, labels: dict[str, str], allocatable: dict[str, str]) -> Document:
    """Return what our standard node becomes: the template's capacity only, and no zone that it does not name."""
    metadata, status = dict(template.get("metadata", {})), template.get("status", {})
    metadata.pop("generateName", None)
    zone = {"topology.kubernetes.io/zone": None, "kubernetes.io/hostname": name}
    metadata = {**metadata, "name": name, "labels": {**zone, **(metadata.get("labels") or {}), **labels}}
    found: Document = {"metadata": metadata, **({"spec": template["spec"]} if template.get("spec") else {})}
    if not template:
        return merged(found, {"status": {"allocatable": allocatable}}) if allocatable else found
    capacity = {**dict.fromkeys(("cpu", "memory", "pods")), **(status.get("capacity") or {})}
    room = {**capacity, **(status.get("allocatable") or {}), **allocatable}
    return {**found, "status": {**status, "capacity": capacity, "allocatable": room}}


def _csi_node(name: str, strategy: _Allocatable) -> Document:
    drivers = [
        {"name": driver, "nodeID": name, "allocatable": allocatable}
        for driver, allocatable in strategy.csi_node_allocatable.items()
    ]
    annotations = {"storage.alpha.kubernetes.io/migrated-plugins": ",".join(strategy.migrated_plugins)}
    return {"kind": "CSINode", "metadata": {"name": name, "annotations": annotations}, "spec": {"drivers": drivers}}


def _nameless(pod: Document) -> Document:
    """Return a pod without what is not its own: its kind, and the beginning of a name that its step gives it."""
    metadata = {key: value for key, value in pod.get("metadata", {}).items() if key != "generateName"}
    rest = {key: value for key, value in pod.items() if key not in ("apiVersion", "kind")}
    return {**rest, "metadata": metadata}


def _difference(before: Document, after: Document) -> Document:
    """Return what has to be merged over the first to come to the second; null takes a field away."""
    found: Document = {}
    for key in {**before, **after}:
        if key not in after:
            if key != "status":
                found[key] = None
        elif before.get(key) != after[key]:
            both = isinstance(after[key], dict) and isinstance(before.get(key), dict)
            found[key] = _difference(before[key], after[key]) if both else after[key]
    return found


def _with_numbers(found: Any, one: Any) -> Any:
    """Return the manifest in which each place is a number where it is one in the manifest of the first object."""
    if isinstance(found, dict) and isinstance(one, dict):
        return {key: _with_numbers(a, b) for (key, a), b in zip(found.items(), one.values(), strict=True)}
    if isinstance(found, list) and isinstance(one, list):
        return [_with_numbers(a, b) for a, b in zip(found, one, strict=True)]
    if isinstance(found, str) and isinstance(one, int) and not isinstance(one, bool):
        parts = [part for part in _PLACE.split(found) if part]
        if not all(_PLACE.fullmatch(part) or part.isdecimal() for part in parts):
            raise GoTemplateError(f"{found}: expected digits and whole numbers")
        places = [part if part.startswith("$") else f"$({part})" for part in parts]
        return "$int" + "".join(places).removeprefix("$")
    return found


def _value(text: str) -> Any:
    """Return the value of a default, which is YAML; nothing where it is empty."""
    return parse(b"x: " + text.encode())["x"] if text.strip() else None


def _class(priority: int) -> str:
    return f"$(run)-priority-{priority}" if priority >= 0 else f"$(run)-priority-minus-{-priority}"


_FIELDS: dict[type, str] = {
    CreateNodes: "create_nodes",
    CreateNamespaces: "create_namespaces",
    CreateObjects: "create_objects",
    CreatePods: "create_pods",
    AllocateClaims: "allocate_claims",
    UpdateAny: "update_any",
    DeletePods: "delete_pods",
    Churn: "churn",
    Barrier: "barrier",
    Sleep: "sleep",
}


def _step(operation: Operation) -> Step:
    return Step(**{_FIELDS[type(operation)]: operation})  # type: ignore[arg-type]


def chosen_by(labels: str, names: Sequence[str]) -> Callable[[str, frozenset[str]], bool]:
    """Return what chooses workloads: by name, `TestCase` or `TestCase/workload`, or else by labels.

    Labels are scheduler_perf's own filter: `performance,-short`, where `-` means that a workload must not have it.
    """
    terms = [each.strip() for each in labels.split(",") if each.strip()]
    without = {term[1:] for term in terms if term.startswith("-")}
    required = {term.removeprefix("+") for term in terms if not term.startswith("-")}

    def wanted(name: str, has: frozenset[str]) -> bool:
        if names:
            return any(name == each or name.startswith(f"{each}/") for each in names)
        return required <= has and not without & has

    return wanted
