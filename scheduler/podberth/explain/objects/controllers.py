"""Makes the pods that controllers make of an object: how many of each template, and the labels that only they set.

One function for each kind and API group, with the source that it mirrors. `docs/answers.md` has the table. What
operators' webhooks add to pods, and what they do once the first pods run, is not here.
"""

import hashlib
import json
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from podberth.explain.judging.schema import said
from podberth.explain.objects.documents import ObjectError
from podberth.explain.objects.versions import group_of, makes_no_pods

Object = Mapping[str, Any]
Labels = dict[str, str]
_HASHED = "bcdfghjklmnpqrstvwxz2456789"
"""The letters of a pod-template-hash (SafeEncodeString)."""


_DIGITS = 12
_NO_LABELS: Mapping[str, str] = {}


class Owner(NamedTuple):
    """The object that is the controller of pods. `selector`: of a ReplicaSet that a Deployment makes, and no file
    has."""

    api_version: str
    kind: str
    name: str
    selector: Object | None = None


TOLERATED = tuple(
    {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": effect}
    for key, effect in (
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
        ("network-unavailable", "NoSchedule"),
    )
)
"""The taints that the DaemonSet controller lets its pods tolerate, the last on the host's network only (upstream:
daemon/util, AddOrUpdateDaemonPodTolerations).
"""


def of_daemon(spec: Mapping[str, Any], node: str = "") -> dict[str, Any]:
    """Return the spec with the tolerations that the DaemonSet controller adds, and the affinity to its node."""
    done = dict(spec)
    given = spec.get("tolerations") or []
    more = TOLERATED if spec.get("hostNetwork") else TOLERATED[:-1]
    if isinstance(given, list):
        done["tolerations"] = [*given, *(each for each in more if each not in given)]
    if node:
        own = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
        affinity = dict(mapping(spec.get("affinity"), "spec.affinity"))
        affinity["nodeAffinity"] = {
            **mapping(affinity.get("nodeAffinity"), "spec.affinity.nodeAffinity"),
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [own]},
        }
        done["affinity"] = affinity
    return done


class Workload(NamedTuple):
    """A thing that makes pods: a pod itself, or an object with a template of them, which is at `path`.

    `pod`: as it is written; `name`: what its pods' names begin with. `wanted`: how many; None for a DaemonSet, which
    wants one on each node. `claims`: those that a StatefulSet makes for each pod; its pods are numbered from `start`.
    `labels`: what its controller sets on all its pods; `numbered`: on one, by its number and name. `own`: whether a pod
    that runs already is one of its, by the pod's labels; None: its owner says it. `owner`: the object's own name.
    `note`: what to say. `most`: how many pods may succeed; None: any number. `controller`: of its pods; None where it
    is not known. `in_turn`: each pod is made when the one before it is ready. `kind`, `place`: of the object, empty
    until it is known which one it is. `written`: its kind in the file, where `kind` lets it stand for
    many of its like.
    """

    path: str
    pod: dict[str, Any]
    name: str
    wanted: int | None = 1
    claims: Sequence[Mapping[str, Any]] = ()
    start: int = 0
    labels: Mapping[str, str] = _NO_LABELS
    numbered: Callable[[int, str], dict[str, str]] | None = None
    own: Callable[[Mapping[str, str]], bool] | None = None
    owner: str = ""
    daemon: bool = False
    note: str = ""
    most: int | None = None
    controller: Owner | None = None
    in_turn: bool = False
    kind: str = ""
    place: str = ""
    written: str = ""

    @property
    def alone(self) -> bool:
        """Return whether the workload is a single pod, which has the name that it was given."""
        return self.kind in ("Pod", "PodTemplate")

    @property
    def paused(self) -> bool:
        """Return whether the workload makes no pods of a new revision."""
        return self.kind == "Deployment" and bool(self.note)  # nothing else of a Deployment has one

    def named(self, number: int) -> str:
        """Return the name of one of its pods."""
        return self.name if self.alone else f"{self.prefix}{self.start + number}"

    @property
    def prefix(self) -> str:
        """Return the beginning of its pods' names, before their numbers."""
        return f"{self.name}-"

    def made(self, pod: Mapping[str, Any], number: int) -> dict[str, Any]:
        """Return a pod of this template as its controller makes it."""
        at = self.start + number
        labels = {**self.labels, **(self.numbered(at, f"{self.prefix}{at}") if self.numbered else {})}
        done = dict(pod)
        if labels:
            metadata = pod.get("metadata") or {}
            done["metadata"] = {**metadata, "labels": {**(metadata.get("labels") or {}), **labels}}
        if self.controller is not None:
            by = self.controller
            owner = {"apiVersion": by.api_version, "kind": by.kind, "name": by.name, "uid": "", "controller": True}
            done["metadata"] = {**(done.get("metadata") or {}), "ownerReferences": [owner]}
        if self.daemon:
            done["spec"] = of_daemon(pod["spec"])
        return done


def made(kind: str, found: Object) -> list[Workload] | None:
    """Return the pods of an object; None for a kind that is not known here. Raises ObjectError."""
    make = _CONTROLLERS.get((group_of(found.get("apiVersion")), kind.partition(".")[0]))
    make = make or (_BY_KIND.get(kind) if kind in KINDS else None)
    return None if make is None else list(make(found))


# --- Kubernetes -------------------------------------------------------------------------------------------------------


def _pod(found: Object) -> Iterator[Workload]:
    """Yield the pod itself."""
    yield Workload("", dict(found), _name(found))


def _pod_template(found: Object) -> Iterator[Workload]:
    """Yield one pod of a PodTemplate, which no controller makes."""
    yield _each(found, ("template",), 1)


def _replicas(found: Object) -> Iterator[Workload]:
    """Yield what a ReplicaSet or ReplicationController makes: the labels are the template's (replica_set.go)."""
    yield _each(found, ("spec", "template"), _count(found))._replace(controller=_itself(found))


def _deployment(found: Object) -> Iterator[Workload]:
    """Yield what a Deployment makes, with a stand-in for the controller's hash (deployment/sync.go)."""
    [each] = _replicas(found)
    note = "it is paused, so no pods are made of a new revision" if _spec(found).get("paused") is True else ""
    own = {"pod-template-hash": _hash(each.pod)}
    yield each._replace(labels=own, note=note, controller=_replica_set(found, own))


def _stateful_set(found: Object) -> Iterator[Workload]:
    """Yield what a StatefulSet makes (stateful_set_utils.go: newStatefulSetPod, initIdentity)."""
    spec = _spec(found)
    claims = [each for _, each in _listed(spec, "volumeClaimTemplates", "spec.volumeClaimTemplates")]
    ordinals = spec.get("ordinals")
    start = (_number(ordinals, "start", "spec.ordinals.start", 0) or 0) if isinstance(ordinals, dict) else 0
    [each] = _replicas(found)
    labels = {"controller-revision-hash": f"{each.name}-{_hash(each.pod)}"}

    def numbered(number: int, name: str) -> Labels:
        return {"statefulset.kubernetes.io/pod-name": name, "apps.kubernetes.io/pod-index": str(number)}

    in_turn = spec.get("podManagementPolicy") != "Parallel"
    yield each._replace(labels=labels, numbered=numbered, start=start, claims=claims, in_turn=in_turn)


def _daemon_set(found: Object) -> Iterator[Workload]:
    """Yield what a DaemonSet makes (daemon_controller.go: CreatePodTemplate); nodes and tolerations: `arrivals`."""
    each = _each(found, ("spec", "template"), None)
    generation = _metadata(found).get("generation") or 1
    labels = {"controller-revision-hash": _hash(each.pod), "pod-template-generation": str(generation)}
    yield each._replace(labels=labels, controller=_itself(found))


def _job(found: Object) -> Iterator[Workload]:
    """Yield what a Job makes (job_controller.go: manageJob; pkg/registry/batch/job/strategy.go)."""
    spec = _spec(found)
    note = _managed_elsewhere(spec)
    ended = mapping(found.get("status"), "status").get("succeeded")
    wanted = _job_size(spec, "spec", ended if isinstance(ended, int) else 0)
    each = _each(found, ("spec", "template"), 0 if note else wanted)
    most = _number(spec, "completions", "spec.completions", None)
    yield each._replace(note=note, most=most, controller=_itself(found), **_job_labels(found, each.name, spec))


def _cron_job(found: Object) -> Iterator[Workload]:
    """Yield the pods of one run of a CronJob (pkg/controller/cronjob/utils.go: getJobFromTemplate2)."""
    path = ("spec", "jobTemplate", "spec", "template")
    job = mapping(mapping(_spec(found).get("jobTemplate"), "spec.jobTemplate").get("spec"), "spec.jobTemplate.spec")
    note = _managed_elsewhere(job)
    wanted = 0 if note or _spec(found).get("suspend") is True else _job_size(job, "spec.jobTemplate.spec")
    each = _each(found, path, wanted)
    owner = Owner("batch/v1", "Job", each.name)
    yield each._replace(note=note, controller=owner, **_job_labels(found, each.name, job))


_JOB_CONTROLLER = "kubernetes.io/job-controller"
_INDEX = "batch.kubernetes.io/job-completion-index"


def _managed_elsewhere(job: Object) -> str:
    """Say that a job's pods are not made by its controller; empty if they are."""
    managed = job.get("managedBy")
    return f"{managed} makes its pods, and not the Job controller" if managed not in (None, _JOB_CONTROLLER) else ""


def _job_size(spec: Object, path: str, ended: int = 0) -> int:
    """Return the number of pods of a job that run at once when this many have succeeded."""
    parallelism = _number(spec, "parallelism", f"{path}.parallelism", None)
    completions = _number(spec, "completions", f"{path}.completions", None)
    if spec.get("suspend") is True:
        return 0
    # Without completions, one pod that succeeds ends the job; parallelism of them are started.
    parallelism = 1 if parallelism is None else parallelism
    return parallelism if completions is None else min(parallelism, max(0, completions - ended))


def _job_labels(found: Object, name: str, spec: Object) -> dict[str, Any]:
    uid = str(_metadata(found).get("uid") or _stand_in_uid(found, name))
    labels = {f"{prefix}job-name": name for prefix in ("", "batch.kubernetes.io/")}
    labels |= {f"{prefix}controller-uid": uid for prefix in ("", "batch.kubernetes.io/")}
    indexed = spec.get("completionMode") == "Indexed"
    return {"labels": labels, "numbered": (lambda number, _: {_INDEX: str(number)}) if indexed else None}


# --- others -----------------------------------------------------------------------------------------------------------


def _leader_worker_set(found: Object) -> Iterator[Workload]:
    """Yield what a LeaderWorkerSet makes: `replicas` groups of `size` pods (lws leaderworkerset_controller.go)."""
    prefix = "leaderworkerset.sigs.k8s.io/"
    spec, name = _spec(found), _name(found)
    inner = mapping(spec.get("leaderWorkerTemplate"), "spec.leaderWorkerTemplate")
    groups = _count(found)
    size = max(1, _number(inner, "size", "spec.leaderWorkerTemplate.size", 1) or 1)
    space = _metadata(found).get("namespace") or "default"
    labels = {f"{prefix}name": name}

    def of(group: int, worker: int) -> Labels:
        key = hashlib.sha1(f"{space}/{name}-{group}".encode(), usedforsecurity=False).hexdigest()
        return {
            f"{prefix}group-index": str(group),
            f"{prefix}worker-index": str(worker),
            f"{prefix}group-key": key,
        }

    def leader(number: int, _: str) -> Labels:
        return of(number, 0)

    def worker(number: int, _: str) -> Labels:
        return of(number // (size - 1), number % (size - 1) + 1)

    def is_worker(given: Mapping[str, str]) -> bool:
        return given.get(f"{prefix}name") == name and given.get(f"{prefix}worker-index") != "0"

    each = _each(found, ("spec", "leaderWorkerTemplate", "workerTemplate"), groups * (size - 1))
    first = each._replace(wanted=groups)
    if isinstance(inner.get("leaderTemplate"), dict):
        first = _each(found, ("spec", "leaderWorkerTemplate", "leaderTemplate"), groups)
    yield first._replace(labels=labels, numbered=leader, own=_has({**labels, f"{prefix}worker-index": "0"}))
    if size > 1:
        yield each._replace(name=f"{name}-worker", labels=labels, numbered=worker, own=is_worker)


def _job_set(found: Object) -> Iterator[Workload]:
    """Yield the pods of the Jobs of a JobSet, which are Indexed (jobset_controller.go, jobset_webhook.go)."""
    prefix = "jobset.sigs.k8s.io/"
    spec, name = _spec(found), _name(found)
    for at, of_one in _listed(spec, "replicatedJobs", "spec.replicatedJobs"):
        job = mapping(mapping(of_one.get("template"), f"{at}.template").get("spec"), f"{at}.template.spec")
        times, size = _number(of_one, "replicas", f"{at}.replicas", 1) or 0, _job_size(job, f"{at}.template.spec")
        each_has = max(1, size)  # one is looked at also of a Job that makes none
        role = str(of_one.get("name", ""))
        labels = {f"{prefix}jobset-name": name, f"{prefix}replicatedjob-name": role}
        indexed = job.get("completionMode") in (None, "Indexed")

        def numbered(number: int, _: str, role: str = role, size: int = each_has, indexed: bool = indexed) -> Labels:
            of = number // size
            job_name = f"{name}-{role}-{of}"
            made = {"job-name": job_name, "batch.kubernetes.io/job-name": job_name, f"{prefix}job-index": str(of)}
            return made | ({_INDEX: str(number % size)} if indexed else {})

        wanted = 0 if spec.get("suspend") is True else times * size
        each = _inside(found, of_one, at, ("template", "spec", "template"), wanted)
        yield each._replace(name=f"{name}-{role}", labels=labels, numbered=numbered, own=_has(labels))


def _ray_cluster(found: Object) -> Iterator[Workload]:
    """Yield what a RayCluster makes (kuberay raycluster_controller.go: reconcilePods)."""
    yield from _ray(found, _spec(found), "spec")


def _ray_job(found: Object) -> Iterator[Workload]:
    """Yield the pods of a RayJob's cluster, and the submitter if that has a template (kuberay rayjob_controller.go)."""
    spec = _spec(found)
    stopped = spec.get("suspend") is True
    for each in _ray(found, mapping(spec.get("rayClusterSpec"), "spec.rayClusterSpec"), "spec.rayClusterSpec"):
        yield each._replace(wanted=0 if stopped else each.wanted)
    if isinstance(spec.get("submitterPodTemplate"), dict):
        each = _each(found, ("spec", "submitterPodTemplate"), 0 if stopped else 1)
        yield each._replace(name=f"{each.name}-submitter")


def _ray_service(found: Object) -> Iterator[Workload]:
    """Yield the pods of a RayService's cluster (kuberay rayservice_controller.go)."""
    yield from _ray(
        found, mapping(_spec(found).get("rayClusterConfig"), "spec.rayClusterConfig"), "spec.rayClusterConfig"
    )


def _ray(found: Object, spec: Object, path: str) -> Iterator[Workload]:
    name, stopped = _name(found), spec.get("suspend") is True

    def labelled(each: Workload, role: str, group: str) -> Workload:
        labels = {
            "ray.io/cluster": name,
            "ray.io/node-type": role,
            "ray.io/group": group,
            "ray.io/is-ray-node": "yes",
            "ray.io/identifier": f"{name}-{role}",
        }
        own = {key: labels[key] for key in ("ray.io/cluster", "ray.io/group")}
        called = f"{name}-head" if role == "head" else f"{name}-{group}-worker"
        return each._replace(name=called, labels=labels, own=_has(own), wanted=0 if stopped else each.wanted)

    head = mapping(spec.get("headGroupSpec"), f"{path}.headGroupSpec")
    yield labelled(_inside(found, head, f"{path}.headGroupSpec", ("template",), 1), "head", "headgroup")
    for at, group in _listed(spec, "workerGroupSpecs", f"{path}.workerGroupSpecs"):
        least = _number(group, "minReplicas", f"{at}.minReplicas", 0) or 0
        most = _number(group, "maxReplicas", f"{at}.maxReplicas", None)
        times = _number(group, "replicas", f"{at}.replicas", None)
        times = least if times is None else max(least, times if most is None else min(times, most))
        hosts = _number(group, "numOfHosts", f"{at}.numOfHosts", 1) or 1
        wanted = 0 if group.get("suspend") is True else times * hosts
        each = _inside(found, group, at, ("template",), wanted)
        yield labelled(each, "worker", str(group.get("groupName", "")))


def _kubeflow(field: str) -> Callable[[Object], Iterator[Workload]]:
    """Yield the replicas of each role of a training job (training-operator pkg/controller.v1/common/pod.go)."""

    def make(found: Object) -> Iterator[Workload]:
        prefix, name = "training.kubeflow.org/", _name(found)
        roles = mapping(_spec(found).get(field), f"spec.{field}")
        stopped = mapping(_spec(found).get("runPolicy"), "spec.runPolicy").get("suspend") is True
        for role, given in roles.items():
            at = f"spec.{field}.{role}"
            inner = mapping(given, at)
            wanted = 0 if stopped else _number(inner, "replicas", f"{at}.replicas", 1)
            kind_of = "job-role" if field == "mpiReplicaSpecs" else "replica-type"
            labels = {f"{prefix}job-name": name, f"{prefix}{kind_of}": role.lower()}
            yield _inside(found, inner, at, ("template",), wanted)._replace(
                name=f"{name}-{role.lower()}",
                labels=labels,
                numbered=lambda number, _: {f"{prefix}replica-index": str(number)},
                own=_has(labels),
            )

    return make


def _volcano_job(found: Object) -> Iterator[Workload]:
    """Yield the replicas of each task of a Volcano job (job_controller_util.go: createJobPod)."""
    name = _name(found)
    for at, task in _listed(_spec(found), "tasks", "spec.tasks"):
        role = str(task.get("name") or "default")
        labels = {"volcano.sh/job-name": name, "volcano.sh/task-spec": role}
        labels["volcano.sh/queue-name"] = str(_spec(found).get("queue") or "default")
        own = {key: labels[key] for key in ("volcano.sh/job-name", "volcano.sh/task-spec")}
        wanted = _number(task, "replicas", f"{at}.replicas", 1)
        yield _inside(found, task, at, ("template",), wanted)._replace(
            name=f"{name}-{role}",
            labels=labels,
            numbered=lambda number, _: {"volcano.sh/task-index": str(number)},
            own=_has(own),
        )


def _rollout(found: Object) -> Iterator[Workload]:
    """Yield what a Rollout makes: as a Deployment, with a label of its own (argo-rollouts rollout/sync.go)."""
    each = _each(found, ("spec", "template"), _count(found))
    own = {"rollouts-pod-template-hash": _hash(each.pod)}
    yield each._replace(labels=own, controller=_replica_set(found, own))


def _knative(found: Object) -> Iterator[Workload]:
    """Yield what a Knative service makes: the larger of its initial and min scale (revision/resources/deploy.go)."""
    name = _name(found)
    each = _each(found, ("spec", "template"), 1)
    given = mapping(each.pod.get("metadata"), "spec.template.metadata").get("annotations")
    scales = [_scale(given, "initial-scale", 1), _scale(given, "min-scale", 0)]
    labels = {
        "serving.knative.dev/service": name,
        "serving.knative.dev/configuration": name,
        "serving.knative.dev/revision": f"{name}-00001",
    }
    spec = each.pod.get("spec")
    if isinstance(spec, dict) and isinstance(spec.get("containers"), list):
        named = [
            {"name": "user-container" if not i else f"user-container-{i}", **container}
            if isinstance(container, dict)
            else container
            for i, container in enumerate(spec["containers"])
        ]
        each = each._replace(pod={**each.pod, "spec": {**spec, "containers": named}})
    own = {"serving.knative.dev/service": name}
    yield each._replace(wanted=max(scales), labels=labels, own=_has(own))


def _scale(annotations: Any, name: str, usual: int) -> int:
    given = annotations if isinstance(annotations, dict) else {}
    words = (f"autoscaling.knative.dev/{name}", f"autoscaling.knative.dev/{name.replace('-s', 'S')}")
    number = number_in(str(next((given[word] for word in words if word in given), "")))
    return usual if number is None else number


# --- the table --------------------------------------------------------------------------------------------------------

_CONTROLLERS: dict[tuple[str, str], Callable[[Object], Iterator[Workload]]] = {
    ("", "Pod"): _pod,
    ("", "PodTemplate"): _pod_template,
    ("", "ReplicationController"): _replicas,
    ("apps", "Deployment"): _deployment,
    ("apps", "ReplicaSet"): _replicas,
    ("apps", "StatefulSet"): _stateful_set,
    ("apps", "DaemonSet"): _daemon_set,
    ("batch", "Job"): _job,
    ("batch", "CronJob"): _cron_job,
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): _leader_worker_set,
    ("jobset.x-k8s.io", "JobSet"): _job_set,
    ("ray.io", "RayCluster"): _ray_cluster,
    ("ray.io", "RayJob"): _ray_job,
    ("ray.io", "RayService"): _ray_service,
    ("kubeflow.org", "MPIJob"): _kubeflow("mpiReplicaSpecs"),
    ("kubeflow.org", "PyTorchJob"): _kubeflow("pytorchReplicaSpecs"),
    ("kubeflow.org", "TFJob"): _kubeflow("tfReplicaSpecs"),
    ("kubeflow.org", "XGBoostJob"): _kubeflow("xgbReplicaSpecs"),
    ("kubeflow.org", "PaddleJob"): _kubeflow("paddleReplicaSpecs"),
    ("kubeflow.org", "JAXJob"): _kubeflow("jaxReplicaSpecs"),
    ("kubeflow.org", "MXJob"): _kubeflow("mxReplicaSpecs"),
    ("batch.volcano.sh", "Job"): _volcano_job,
    ("argoproj.io", "Rollout"): _rollout,
    ("apps.kruise.io", "CloneSet"): _replicas,
    ("serving.knative.dev", "Service"): _knative,
    ("serving.knative.dev", "Configuration"): _knative,
}
KINDS = tuple(kind for group, kind in _CONTROLLERS if group in ("", "apps", "batch"))
"""The kinds of Kubernetes that make pods."""
_BY_KIND = {kind: make for (_, kind), make in reversed(_CONTROLLERS.items()) if kind in KINDS}
"""Kind → maker, for objects without a version, or with one that is gone."""


def path_of(kind: str) -> str:
    """Return the path of the template in a kind of `KINDS`."""
    paths = {"Pod": "", "PodTemplate": "template", "CronJob": "spec.jobTemplate.spec.template"}
    return paths.get(kind, "spec.template")


# --- reading ----------------------------------------------------------------------------------------------------------


def _each(found: Object, steps: Sequence[str], wanted: int | None) -> Workload:
    """Return the pods of the template at a path. Raises ObjectError where there is none."""
    return _inside(found, found, "", steps, wanted)


def _inside(found: Object, inner: Object, at: str, steps: Sequence[str], wanted: int | None) -> Workload:
    """Return the pods of the template at a path of a part of an object, which is `at` a path itself."""
    pod: Any = inner
    for step in steps:
        pod = pod.get(step) if isinstance(pod, dict) else None
    path = ".".join((*([at] if at else []), *steps))
    if pod is None:
        raise ObjectError(f"{path}: Required value")
    return Workload(path, mapping(pod, path), _name(found), wanted)


def _listed(spec: Object, field: str, path: str) -> Iterator[tuple[str, Object]]:
    listed = spec.get(field) or []
    if not isinstance(listed, list):
        raise ObjectError(said(path, listed, "expected a list"))
    for i, each in enumerate(listed):
        yield f"{path}[{i}]", mapping(each, f"{path}[{i}]")


def _spec(found: Object) -> Object:
    return mapping(found.get("spec"), "spec")


def _name(found: Object) -> str:
    given = _metadata(found)
    return str(given.get("name") or given.get("generateName") or "pod").removesuffix("-")


def _metadata(found: Object) -> Object:
    return mapping(found.get("metadata"), "metadata")


def _itself(found: Object) -> Owner:
    return Owner(str(found.get("apiVersion") or ""), str(found.get("kind") or ""), _name(found))


def _replica_set(found: Object, own: Labels) -> Owner:
    """Return the ReplicaSet of a template, with the template's hash in its name and selector."""
    selector = mapping(_spec(found).get("selector"), "spec.selector")
    labels = {**mapping(selector.get("matchLabels"), "spec.selector.matchLabels"), **own}
    [revision] = own.values()
    return Owner("apps/v1", "ReplicaSet", f"{_name(found)}-{revision}", {**selector, "matchLabels": labels})


def _count(found: Object) -> int:
    return _number(_spec(found), "replicas", "spec.replicas", 1) or 0


def _number(beside: Object, field: str, path: str, usual: int | None) -> int | None:
    number = beside.get(field)
    if number is None:
        return usual
    whole = isinstance(number, int) and not isinstance(number, bool)
    if not whole or number < 0:
        expected = "expected 0 or more" if whole else "expected a whole number, 0 or more"
        raise ObjectError(said(path, number, expected))
    return int(number)


def mapping(value: Any, path: str) -> dict[str, Any]:
    """Return the mapping at a path, which may be absent. Raises ObjectError."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ObjectError(said(path, value, "expected a mapping"))
    return value


def number_in(text: str) -> int | None:
    """Return the number that a text is; None: it is none, or has more digits than any number of pods."""
    return int(text) if text.isdecimal() and len(text) <= _DIGITS else None


def _has(labels: Labels) -> Callable[[Mapping[str, str]], bool]:
    return lambda given: labels.items() <= given.items()


def _hash(template: Object) -> str:
    """Return a stand-in for a template's hash, which differs for other templates."""
    digest = hashlib.sha256(json.dumps(template, sort_keys=True, default=str).encode()).digest()
    return "".join(_HASHED[byte % len(_HASHED)] for byte in digest[:10])


def _stand_in_uid(found: Object, name: str) -> str:
    space = _metadata(found).get("namespace") or ""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{found.get('kind')}/{space}/{name}"))


_DEPTH = 8


class Template(NamedTuple):
    """A pod template: its path, the pod, and the mapping that it stands in."""

    path: str
    pod: dict[str, Any]
    beside: Object


def templates(kind: str, found: Object) -> list[Template]:
    """Return the pod templates of an object, as far as they are mappings."""
    if kind not in KINDS:
        return [] if makes_no_pods(kind, found.get("apiVersion")) else list(_found(found, "", _DEPTH))
    beside: Any = found
    pod: Any = found
    path = path_of(kind)
    for step in path.split(".") if path else ():
        beside, pod = pod, pod.get(step) if isinstance(pod, dict) else None
    return [Template(path, pod, beside)] if isinstance(pod, dict) else []


def _found(value: Any, path: str, depth: int) -> Iterator[Template]:
    if not isinstance(value, dict) or not depth:
        return
    for name, each in value.items():
        below = f"{path}.{name}" if path else name
        if name.lower().endswith("template") and _is_pod(each):
            yield Template(below, each, value)
        elif isinstance(each, dict):
            yield from _found(each, below, depth - 1)
        elif isinstance(each, list):
            for i, element in enumerate(each):
                yield from _found(element, f"{below}[{i}]", depth - 1)


def _is_pod(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("spec"), dict) and "containers" in value["spec"]
