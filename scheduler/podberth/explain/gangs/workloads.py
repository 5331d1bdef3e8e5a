"""The pod groups that a Job gets from its Workload, as kube-controller-manager's Job controller makes them.

A Workload of scheduling.k8s.io is a template. Of the controllers that Kubernetes has only that of Jobs makes a PodGroup
of it; the Workload names the Job in `spec.controllerRef`. Where the API server ends a name in random letters, names end
here with that of the template.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from podberth.explain.documents import Document, ObjectError, plain
from podberth.explain.manifest import Workload
from podberth.model.pod_group import NATIVE

KIND = "Workload"
_LONGEST = 63


class Made(NamedTuple):
    """`groups`: PodGroups that are made; `jobs`: (namespace as written, Job) → its group; `notes`: what is left out."""

    groups: list[Document]
    jobs: dict[tuple[str | None, str], str]
    notes: list[str]


def groups_made(documents: Iterable[Document]) -> Made:
    """The pod groups that controllers make of the Workloads in a file. Raises ObjectError."""
    made = Made([], {}, [])
    held = [(document, plain(document)) for document in documents if document.kind in (KIND, "PodGroup")]
    referred = {_referred(whole) for document, whole in held if document.kind == "PodGroup"}
    for document, whole in held:
        if document.kind != KIND or not str(whole.get("apiVersion", "")).startswith(f"{NATIVE}/"):
            continue
        metadata, spec = whole.get("metadata") or {}, whole.get("spec") or {}
        name, namespace = str(metadata.get("name", "")), metadata.get("namespace")
        job, found = spec.get("controllerRef") or {}, spec.get("podGroupTemplates")
        if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
            raise ObjectError(f"{_place(document)}{KIND} {name}: spec.podGroupTemplates: expected a list of mappings")
        if (namespace, name) in referred:
            continue  # its groups are in the file
        if job.get("kind") != "Job" or len(found) != 1:
            made.notes.append(
                f"{KIND} {name}: no pod group is made of it here: only a Job that it names in spec.controllerRef gets "
                "one, of a single template"
            )
            continue
        group = _group(name, namespace, found[0], str(whole["apiVersion"]))
        made.groups.append(Document("PodGroup", msgspec.json.encode(group), document.place))
        made.jobs[namespace, str(job.get("name", ""))] = group["metadata"]["name"]
    return made


def in_groups(workloads: Sequence[Workload], jobs: Mapping[tuple[str | None, str], str]) -> list[Workload]:
    """The workloads; the pods of Jobs that get a group name it."""
    return [_in_group(each, jobs) for each in workloads]


def _in_group(workload: Workload, jobs: Mapping[tuple[str | None, str], str]) -> Workload:
    group = jobs.get(((workload.pod.get("metadata") or {}).get("namespace"), workload.name))
    spec = workload.pod["spec"]
    if workload.kind != "Job" or group is None or spec.get("schedulingGroup"):
        return workload
    return workload._replace(pod={**workload.pod, "spec": {**spec, "schedulingGroup": {"podGroupName": group}}})


def _group(workload: str, namespace: str | None, template: Mapping[str, Any], version: str) -> dict[str, Any]:
    called = str(template.get("name", ""))
    name = f"{workload}-{called}"[:_LONGEST]
    metadata = {"name": name} if namespace is None else {"name": name, "namespace": namespace}
    own = {key: value for key, value in template.items() if key != "name"}
    reference = {"workloadName": workload, "templateName": called}
    return {"apiVersion": version, "kind": "PodGroup", "metadata": metadata, "spec": own | {"workloadRef": reference}}


def _referred(group: Mapping[str, Any]) -> tuple[str | None, str]:
    """(namespace, Workload) that a PodGroup was made of."""
    reference = (group.get("spec") or {}).get("workloadRef") or {}
    return (group.get("metadata") or {}).get("namespace"), str(reference.get("workloadName", ""))


def _place(document: Document) -> str:
    return f"{document.place}: " if document.place else ""
