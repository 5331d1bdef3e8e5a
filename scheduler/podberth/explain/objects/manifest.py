"""Finds what makes pods in a file, each pod as the API server would store it, and the pod groups that Jobs get."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from podberth.explain.judging.schema import said
from podberth.explain.objects.admission import Admission
from podberth.explain.objects.controllers import KINDS, Workload, made, mapping, templates
from podberth.explain.objects.documents import Document, ObjectError, located, plain
from podberth.explain.objects.versions import called, makes_no_pods
from podberth.model.pod_group import NATIVE


def workloads(documents: Iterable[Document]) -> list[Workload]:
    """Return the workloads of a file in its order, without those that another object of the file makes.

    Raises ObjectError.
    """
    found: list[Workload] = []
    held = list(documents)
    there = _names(held)
    for document, whole in _that_make_pods(held):
        if not _made_by(whole, there):
            found += _workloads(document.kind, whole, document.place)
    return found


def made_by_others(documents: Iterable[Document]) -> int:
    """Return the number of objects of a file that `workloads` leaves out because another one of it makes them."""
    held = list(documents)
    there = _names(held)
    return sum(_made_by(whole, there) for _, whole in _that_make_pods(held))


def _that_make_pods(documents: Iterable[Document]) -> Iterator[tuple[Document, dict[str, Any]]]:
    """Yield the objects that make pods, or may, as they stand and as plain values."""
    for document in documents:
        whole = plain(document)
        if not makes_no_pods(document.kind, whole.get("apiVersion")):
            yield document, whole


def unknown_kinds(documents: Iterable[Document]) -> list[str]:
    """Return a line for each object of a kind of which it is not known whether it makes pods."""
    strange = []
    for (kind, _, place), whole in _that_make_pods(documents):
        if kind not in KINDS and made(kind, whole) is None and not templates(kind, whole):
            metadata = whole.get("metadata")
            name = metadata.get("name", "?") if isinstance(metadata, dict) else "?"
            strange.append(located(place, f"{kind} {name}: it has no pod template that is known here"))
    return strange


_Names = set[tuple[str, str, str]]


def _names(documents: Iterable[Document]) -> _Names:
    """Return (kind, namespace, name) of all objects of a file but pods."""
    found = set()
    for document in documents:
        metadata = plain(document).get("metadata")
        if isinstance(metadata, dict) and document.kind != "Pod":
            found.add((document.kind, str(metadata.get("namespace") or ""), str(metadata.get("name") or "")))
    return found


def _made_by(whole: Mapping[str, Any], there: _Names) -> bool:
    """Return whether one of the named objects is the controller of this one."""
    metadata = whole.get("metadata")
    if not isinstance(metadata, dict):
        return False
    owners, namespace = metadata.get("ownerReferences"), str(metadata.get("namespace") or "")
    return any(
        isinstance(each, dict)
        and each.get("controller") is True
        and (called(str(each.get("kind")), each.get("apiVersion")), namespace, str(each.get("name"))) in there
        for each in (owners if isinstance(owners, list) else ())
    )


def _workloads(kind: str, whole: Any, place: str) -> Iterable[Workload]:
    where = f"{place}: " if place else ""
    metadata = mapping(whole.get("metadata"), f"{where}metadata")
    name = metadata.get("name", "?")
    try:
        namespace = _namespace(metadata)
        known = made(kind, whole)
    except ObjectError as error:
        raise ObjectError(f"{where}{kind} {name}: {error}") from None
    for each in _counted_once(kind, whole, metadata) if known is None else known:
        pod = each.pod
        if kind != "Pod":
            own = mapping(pod.get("metadata"), f"{where}{each.path}.metadata")
            kept = {
                key: mapping(own[key], f"{where}{each.path}.metadata.{key}")
                for key in ("labels", "annotations")
                if key in own
            }
            pod = {**pod, "metadata": {"name": each.name, "namespace": namespace, **kept}}
        spec = pod.get("spec")
        if not isinstance(spec, dict) or not spec.get("containers"):
            field = "spec.containers" if isinstance(spec, dict) else "spec"
            at = f"{each.path}.{field}" if each.path else field
            raise ObjectError(f"{where}{kind} {name}: {at}: Required value")
        yield each._replace(
            kind=kind,
            place=place,
            pod={"apiVersion": "v1", **pod, "kind": "Pod"},
            owner=str(metadata.get("name") or ""),
            daemon=kind == "DaemonSet",
        )


def _namespace(metadata: Mapping[str, Any]) -> str | None:
    """Return the namespace as it is written. Raises ObjectError."""
    namespace = metadata.get("namespace")
    if namespace is not None and not isinstance(namespace, str):
        raise ObjectError(said("metadata.namespace", namespace, "expected text"))
    return namespace


def _counted_once(kind: str, whole: Mapping[str, Any], metadata: Mapping[str, Any]) -> list[Workload]:
    """Return one pod for each template of a kind that is not known."""
    name = str(metadata.get("name") or metadata.get("generateName") or "pod").removesuffix("-")
    found = templates(kind, whole)
    note = f"how many pods a {kind} makes is not known here: each pod template counts once"
    return [
        Workload(each.path, each.pod, f"{name}-{number}" if len(found) > 1 else name, note=note)
        for number, each in enumerate(found)
    ]


def completed(
    pod: Mapping[str, Any], namespace: str | None, usual: str, admission: Admission, notes: list[str]
) -> dict[str, Any]:
    """Return the pod as the API server would store it in `namespace`, else its own, else the `usual` one.

    `notes` gets what is not known. Raises ObjectError.
    """
    metadata = {key: value for key, value in (pod.get("metadata") or {}).items() if value is not None}
    metadata.setdefault("name", metadata.pop("generateName", "pod"))
    metadata["namespace"] = namespace or metadata.get("namespace") or usual
    return admission.created({**pod, "kind": "Pod", "metadata": metadata}, notes)


_WORKLOAD = "Workload"
_LONGEST = 63
"""Characters of a made name at most."""


class MadeGroups(NamedTuple):
    """`groups`: PodGroups that are made; `jobs`: (namespace as written, Job) → its group; `notes`: what is left out."""

    groups: list[Document]
    jobs: dict[tuple[str | None, str], str]
    notes: list[str]


def groups_made(documents: Iterable[Document]) -> MadeGroups:
    """Return the pod groups that controllers make of the Workloads in a file. Raises ObjectError."""
    found_groups = MadeGroups([], {}, [])
    held = list(documents)
    groups = [_Read.of(document, "workloadRef") for document in held if document.kind == "PodGroup"]
    referred = {(group.namespace, str(group.reference.get("workloadName", ""))) for group in groups}
    for document in held:
        version = str(plain(document).get("apiVersion", "")) if document.kind == _WORKLOAD else ""
        if not version.startswith(f"{NATIVE}/"):
            continue
        name, namespace, spec, job = _Read.of(document, "controllerRef")
        found = spec.get("podGroupTemplates")
        if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
            wrong = said("spec.podGroupTemplates", found, "expected a list of mappings")
            raise ObjectError(located(document.place, f"{_WORKLOAD} {name}", wrong))
        if (namespace, name) in referred:
            continue  # its groups are in the file
        if job.get("kind") != "Job" or len(found) != 1:
            found_groups.notes.append(
                f"{_WORKLOAD} {name}: no pod group is made of it here: only a Job that it names in spec.controllerRef "
                "gets one, of a single template"
            )
            continue
        group = _group(name, namespace, found[0], version)
        found_groups.groups.append(Document("PodGroup", msgspec.json.encode(group), document.place))
        found_groups.jobs[namespace, str(job.get("name", ""))] = group["metadata"]["name"]
    return found_groups


class _Read(NamedTuple):
    """A PodGroup or Workload, of whose versions no types are kept, as far as it is read here.

    `reference`: what it says of another object.
    """

    name: str
    namespace: str | None
    spec: Mapping[str, Any]
    reference: Mapping[str, Any]

    @classmethod
    def of(cls, document: Document, reference: str) -> "_Read":
        """Return what is read of a document; `reference` is a field of its spec. Raises ObjectError."""
        whole = plain(document)
        name = "?"
        try:
            metadata = mapping(whole.get("metadata"), "metadata")
            name = str(metadata.get("name", ""))
            spec = mapping(whole.get("spec"), "spec")
            return cls(name, _namespace(metadata), spec, mapping(spec.get(reference), f"spec.{reference}"))
        except ObjectError as error:
            raise ObjectError(located(document.place, f"{document.kind} {name}", str(error))) from None


def in_groups(workloads: Sequence[Workload], jobs: Mapping[tuple[str | None, str], str]) -> list[Workload]:
    """Return the workloads; the pods of Jobs that get a pod group name it."""
    return [_in_group(each, jobs) for each in workloads]


def _in_group(workload: Workload, jobs: Mapping[tuple[str | None, str], str]) -> Workload:
    group = jobs.get(((workload.pod.get("metadata") or {}).get("namespace"), workload.name))
    spec = workload.pod["spec"]
    if workload.kind != "Job" or group is None or spec.get("schedulingGroup"):
        return workload
    return workload._replace(pod={**workload.pod, "spec": {**spec, "schedulingGroup": {"podGroupName": group}}})


def _group(workload: str, namespace: str | None, template: Mapping[str, Any], version: str) -> dict[str, Any]:
    template_name = str(template.get("name", ""))
    name = f"{workload}-{template_name}"[:_LONGEST]
    metadata = {"name": name} if namespace is None else {"name": name, "namespace": namespace}
    own = {key: value for key, value in template.items() if key != "name"}
    reference = {"workloadName": workload, "templateName": template_name}
    return {"apiVersion": version, "kind": "PodGroup", "metadata": metadata, "spec": own | {"workloadRef": reference}}
