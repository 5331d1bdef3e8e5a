"""A cluster built from plain API objects: a dump, a vector, a test, what a live API server listed."""

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from podberth.apiserver.rules import defaults
from podberth.apiserver.rules.status import StatusError
from podberth.cache.cluster import Cluster
from podberth.explain.judging.schema import Misfit, fitting, said, type_of
from podberth.explain.objects import admission, resource_claims
from podberth.explain.objects.admission import Admission
from podberth.explain.objects.documents import Document, ObjectError, located, named, plain
from podberth.explain.objects.versions import called
from podberth.model import wire
from podberth.model.devices import DEVICE_KINDS, DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from podberth.model.kinds import KINDS, SELECTING, Decoder, Modelled
from podberth.model.mistakes import misfit
from podberth.model.namespaced import Namespace, SelectingObject
from podberth.model.node import Node
from podberth.model.pod import Pod
from podberth.model.pod_group import POD_GROUP_KINDS, GroupKey, PodGroup, api_of_kind
from podberth.model.selectors import LabelSelector
from podberth.model.shape import PodShape
from podberth.model.storage import STORAGE_KINDS, PersistentVolumeClaim, StorageClass

__all__ = ["ObjectError", "World"]

_NAMESPACED = frozenset(
    (
        "Pod",
        *SELECTING,
        "PersistentVolumeClaim",
        "CSIStorageCapacity",
        "ResourceClaim",
        *POD_GROUP_KINDS,
    )
)
DUMP = "Dump"
"""The annotation that `berth dump` writes beside the objects: the kinds of which it holds all."""
MADE_WITH = (*admission.KINDS, resource_claims.TEMPLATE_KIND)
"""Kinds that API server and controllers read when they make pods."""
TEMPLATED = ("Deployment", "StatefulSet", "DaemonSet", "ReplicationController")
"""Kinds that make new pods when their template is changed."""
_LASTING = ("Namespace", "PersistentVolume", "PersistentVolumeClaim", "ResourceClaim", "StorageClass")
"""Kinds of which a file does not change what counts, where the cluster has the object."""
_WAITS = "WaitForFirstConsumer"
_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
_LATEST = "9999"
"""After the time of each object that is there."""
_WRONG = 100
"""Wrong objects of a dump that are told at once."""
_MALFORMED = (msgspec.MsgspecError, ValueError, ArithmeticError, RecursionError)


class World:
    """A cluster and the pods that wait in it. `problems`: objects that can't be read or make no sense."""

    def __init__(self, decoder: Decoder | None = None) -> None:
        self.cluster = Cluster()
        self.cluster.devices.wall = time.time()
        self.waiting: dict[str, Pod] = {}
        self.placed: dict[str, Pod] = {}
        self.finished: dict[str, Pod] = {}
        self.admission = Admission()
        self.selected: set[str] = set()
        """Keys of labels by which pods and other objects of files select pods."""
        self.claim_templates: dict[tuple[str, str], dict[str, Any]] = {}
        """(namespace, name) → ResourceClaimTemplate."""
        self._default_classes: dict[str, str] = {}
        """StorageClass that claims get which name none → when it was made."""
        self.events: list[bytes | msgspec.Raw] = []
        """The Events of a dump, undecoded: the evictor's actions are read from them."""
        self.problems: list[str] = []
        self.dump = False
        """True if the objects come from files, which hold only the kinds that somebody asked for."""
        self._kinds: set[str] = set()
        self.decoder = decoder or Decoder()
        self._raw: dict[str, bytes | msgspec.Raw] = {}
        self._templated: dict[tuple[str, str, str], bytes | msgspec.Raw] = {}
        self._seen: dict[tuple[str, str, str], tuple[str, str]] = {}
        self._applied: set[tuple[str, str, str]] = set()
        """Those of `_seen` that files changed."""

    @property
    def default_class(self) -> str:
        """Return the StorageClass of claims that name none: of several the newest, then the first by name (upstream:
        storage/util, GetDefaultClass); empty if there is none.
        """
        newest = max(self._default_classes.values(), default="")
        return min((name for name, made in self._default_classes.items() if made == newest), default="")

    def add_all(self, objects: Iterable[Mapping[str, Any]]) -> None:
        """Add objects; kinds that a decision does not read are passed over.

        Raises ObjectError.
        """
        for document in objects:
            kind = called(str(document.get("kind")), document.get("apiVersion"))
            if kind in KINDS:
                self.add(self.decode(document))
            elif kind == resource_claims.TEMPLATE_KIND:
                self._add_claim_template(Document(kind, wire.encode(document), ""))

    def add_documents(self, documents: Iterable[Document], source: str = "") -> None:
        """Add what a dump holds, refusing an object that is there twice as two different ones.

        Raises ObjectError with a line for each object that is wrong, naming the source, the object and the field.
        """
        wrong: list[str] = []
        for document in documents:
            try:
                self.add_document(document, source)
            except ObjectError as error:
                wrong.append(str(error))
                if len(wrong) > _WRONG:
                    wrong[-1] = "and more objects are wrong"
                    break
        if wrong:
            raise ObjectError("\n".join(wrong))

    def added(self, documents: Iterable[Document], namespace: str = "default", source: str = "") -> list[Modelled]:
        """Return the objects of a file that come to the cluster later, but for pods; what pods are made with counts at
        once.

        Of what the cluster has already, claims and others whose specs can't be changed stay as they are there.
        `namespace`: of what names none; `source`: the file. Raises ObjectError.
        """
        found: list[Modelled] = []
        claims: list[dict[str, Any]] = []
        for document in documents:
            kind, raw, place = document
            if kind in KINDS and kind != "Pod":
                thing = self.as_shown(kind, raw, place, namespace)
                if isinstance(thing, PodGroup) and not thing.uid:
                    thing = replace(thing, uid=f"new/{thing.kind}/{thing.key}")
                if isinstance(thing, Node):
                    self.problems += [f"Node {thing.name}: {problem}" for problem in thing.problems]
                key = (kind, thing.namespace, thing.name)
                stays = kind in _LASTING and key in self._seen and key not in self._applied
                self._refuse_twin(kind, thing, _spot(source, place), applied=not isinstance(thing, Node | PodGroup))
                if stays:
                    continue
                if isinstance(thing, SelectingObject):
                    self.selected.update(each.key for each in thing.selector.requirements)
                if isinstance(thing, PersistentVolumeClaim) and not thing.volume_name:
                    claims.append(plain(document))
                    claims[-1]["metadata"]["namespace"] = thing.namespace
                    continue
                self._note_default(thing, raw, _LATEST)
                found.append(thing)
            elif kind in MADE_WITH:
                self.add_document(_inside(namespace, document))
        classes = {thing.name: thing for thing in found if isinstance(thing, StorageClass)}
        for claim in claims:
            made, said = self.claimed(claim, self.cluster.storage.classes | classes)
            found += made
            self.problems += [f"PersistentVolumeClaim {claim['metadata']['name']}: {said}"] if said else []
        return found

    def add_beside(self, documents: Iterable[Document], namespace: str) -> list[str]:
        """Add what stands beside the pods of a file, but for nodes and pod groups; return the problems with it.

        `namespace`: of what names none. Raises ObjectError.
        """
        known = len(self.problems)
        beside = (document for document in documents if document.kind not in ("Node", *POD_GROUP_KINDS))
        for thing in self.added(beside, namespace):
            self.add(thing)
        return self.problems[known:]

    def claimed(self, claim: Mapping[str, Any], classes: Mapping[str, StorageClass]) -> tuple[list[Modelled], str]:
        """Return a new claim as the API server and its controller have it, and what to say of it.

        It has the default class if it names none, and a volume if its class makes volumes at once. Raises ObjectError.
        """
        metadata, spec = dict(claim["metadata"]), dict(claim.get("spec") or {})
        namespace, name = metadata["namespace"], metadata["name"]
        metadata = {**metadata, "uid": metadata.get("uid") or f"new/{namespace}/{name}", "resourceVersion": "1"}
        annotations = metadata.get("annotations") or {}
        called_for = annotations.get(_BETA_CLASS, spec.get("storageClassName"))
        if called_for is None and self.default_class:
            called_for = spec["storageClassName"] = self.default_class
        made = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}
        of_class = classes.get(called_for or "")
        if of_class is None:
            absent = called_for or "for claims that name none"
            return [self.decode(made)], "" if called_for == "" else f"there is no StorageClass {absent}"
        if of_class.binding_mode == _WAITS or not of_class.provisions:
            return [self.decode(made)], ""
        volume = {
            "capacity": (spec.get("resources") or {}).get("requests") or {},
            "accessModes": spec.get("accessModes"),
            "storageClassName": of_class.name,
            "claimRef": {"namespace": namespace, "name": name, "uid": metadata["uid"]},
        }
        spec["volumeName"] = f"new-{namespace}-{name}"
        metadata["annotations"] = {**annotations, "pv.kubernetes.io/bind-completed": "yes"}
        bound = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": spec["volumeName"]}}
        return [self.decode({**bound, "spec": volume}), self.decode(made)], (
            f"class {of_class.name} makes volumes before pods have nodes: they are taken to suit any node"
        )

    def _note_default(self, thing: Modelled, raw: bytes | msgspec.Raw, made: str = "") -> None:
        """Remember a StorageClass if claims that name none get it. `made`: when, if the object does not say it."""
        if isinstance(thing, StorageClass) and thing.default:
            metadata = msgspec.json.decode(raw, type=_Named).metadata
            self._default_classes[thing.name] = str(metadata.get("creationTimestamp") or made)

    def add_document(self, document: Document, source: str = "") -> None:
        """Add one object of a dump; kinds that a decision does not read are passed over.

        Raises ObjectError.
        """
        kind, raw, place = document
        if kind in TEMPLATED:
            self._add_templated(kind, raw)
        if kind == "Event":
            self.events.append(raw)
        elif kind == DUMP:
            self._kinds.update(kinds_held(document))
        elif kind in admission.KINDS:
            self.admission.add(document)
        elif kind == resource_claims.TEMPLATE_KIND:
            self._add_claim_template(document)
        elif kind in KINDS:
            thing = self.as_shown(kind, raw, place)
            self._note_default(thing, raw)
            self._refuse_twin(kind, thing, _spot(source, place))
            if isinstance(thing, Pod) and not thing.node_name:
                self._raw[thing.key] = raw
            self.add(thing)

    def holds(self, kind: str) -> bool:
        """Return whether a dump holds an object of this kind, or says that the cluster has none."""
        return kind in self._kinds or any(known == kind for known, _, _ in self._seen)

    def written(self, pod: Pod) -> Mapping[str, Any] | None:
        """Return a pod that waits as it was read.

        None for one that did not come in a document, or has values of a wrong type in fields that no decision reads.
        """
        raw = self._raw.get(pod.key)
        found: dict[str, Any] = {} if raw is None else msgspec.json.decode(raw)
        return {**found, "kind": "Pod"} if found and not _misfit("Pod", found) else None  # lists leave the kind out

    def with_template(self, kind: str, namespace: str, name: str) -> Mapping[str, Any] | None:
        """Return an object of one of `TEMPLATED` as it was read, if it was with its pod template."""
        raw = self._templated.get((kind, namespace, name))
        found: dict[str, Any] = {} if raw is None else msgspec.json.decode(raw)
        if _misfit(kind, found):
            return None
        template = (found.get("spec") or {}).get("template") or {}
        return found if template.get("spec") else None

    def _add_templated(self, kind: str, raw: bytes | msgspec.Raw) -> None:
        with suppress(*_MALFORMED):
            metadata = msgspec.json.decode(raw, type=_Named).metadata
            self._templated[kind, str(metadata.get("namespace") or "default"), str(metadata.get("name"))] = raw

    def decode(self, document: Mapping[str, Any]) -> Modelled:
        """Decode one API dict.

        Raises ObjectError naming the object and the field.
        """
        try:
            raw = wire.encode(document)
        except (TypeError, ValueError, RecursionError) as error:
            raise ObjectError(f"{document.get('kind')}: not an API object: {error}") from None
        return self.decode_raw(str(document.get("kind")), raw)

    def decode_raw(self, kind: str, raw: bytes | msgspec.Raw, place: str = "") -> Modelled:
        """Decode the bytes of one object of one of `KINDS`.

        Raises ObjectError naming the object and the field.
        """
        thing: Modelled = self._decoded(kind, raw, self.decoder.of_kind(kind), place)
        if not thing.name:
            raise ObjectError(f"{_named(kind, thing.namespace, '?', place)}: metadata.name: Required value")
        return thing

    def as_shown(self, kind: str, raw: bytes | msgspec.Raw, place: str = "", namespace: str = "default") -> Modelled:
        """Decode an object of one of `KINDS` as the API server would show it: with defaults, and in a namespace.

        Raises ObjectError naming the object and the field.
        """
        shown = _as_read(kind, raw)
        thing = self.decode_raw(kind, shown, place)
        if not thing.namespace and kind in _NAMESPACED:
            thing = self.decode_raw(kind, _in_namespace(namespace, shown), place)
        return thing

    def add(self, thing: Modelled) -> None:
        """Add one decoded object."""
        match thing:
            case Node():
                self.problems += [f"Node {thing.name}: {problem}" for problem in thing.problems]
                self.cluster.put_node(thing)
            case Namespace():
                self.cluster.put_namespace(thing)
            case SelectingObject():
                self.cluster.put_selecting(thing)
            case Pod():
                self._add_pod(thing)
            case ResourceClaim() | ResourceSlice() | DeviceClass() | DeviceTaintRule():
                self.cluster.put_device(thing)
            case PodGroup():
                self.cluster.pod_groups.put(thing)
                self.cluster.pod_groups.follow(thing.key.api, followed=True)
            case _:
                self.cluster.storage.put(thing)

    def _add_claim_template(self, document: Document) -> None:
        found, namespace, name = named(document)
        self.claim_templates[namespace, name] = found

    def gone(self, kind: str, namespace: str, name: str, uid: str) -> None:
        """Remove a deleted object. `uid`: of the one that is meant, as another pod of its name may exist."""
        cluster = self.cluster
        match kind:
            case "Pod":
                for pods in (self.waiting, self.placed, self.finished):
                    known = pods.get(f"{namespace}/{name}")
                    if known is not None and known.uid == uid:
                        del pods[known.key]
                cluster.nominations.drop(uid)
                cluster.pod_groups.gone(uid)
                cluster.drop_pod(uid)
            case "Node":
                cluster.drop_node(name)
            case "Namespace":
                cluster.drop_namespace(name)
            case kind if kind in SELECTING:
                cluster.drop_selecting(kind, namespace, name)
            case kind if kind in DEVICE_KINDS:
                cluster.drop_device(kind, namespace, name)
            case kind if kind in STORAGE_KINDS:
                cluster.storage.drop(kind, namespace, name)
            case kind if kind in POD_GROUP_KINDS:
                cluster.pod_groups.drop(GroupKey(namespace, name, api_of_kind(kind)))

    def selects(self, keys: frozenset[str]) -> bool:
        """Return whether anything in the cluster selects pods by one of these keys of labels."""
        pods = chain(self.placed.values(), self.waiting.values())
        shapes = list({id(pod.shape): pod.shape for pod in pods}.values())
        if any(not keys.isdisjoint(constraint.match_label_keys) for shape in shapes for constraint in shape.spread):
            return True
        of_pods = (selector for shape in shapes for selector in _selectors(shape))
        spaces = chain.from_iterable(of_kind.values() for of_kind in self.cluster.selecting.values())
        of_objects = (each.selector for named in spaces for each in named.values())
        return any(each.key in keys for found in chain(of_pods, of_objects) for each in found.requirements)

    def take(self, pod: Pod) -> None:
        """Take a placed pod off its node, as if it were still to be scheduled."""
        self.cluster.drop_pod(pod.uid)
        self.placed.pop(pod.key, None)

    def _add_pod(self, pod: Pod) -> None:
        if not pod.uid:
            pod.uid = pod.key
        for others in (self.waiting, self.finished):
            before = others.pop(pod.key, None)
            if before is not None and before.scheduling_group is not None:
                self.cluster.pod_groups.gone(before.uid)
        self.cluster.nominations.drop(pod.uid)
        if pod.key in self.placed and (pod.finished or not pod.node_name):
            self.take(self.placed[pod.key])
        if pod.finished:
            self.finished[pod.key] = pod
            return
        if pod.node_name:
            self.problems += [f"Pod {pod.key}: {warning}" for warning in pod.shape.warnings]
            self.placed[pod.key] = pod
            self.cluster.put_pod(pod)
        else:
            self.waiting[pod.key] = pod
            if pod.scheduling_group is not None:
                self.cluster.pod_groups.waits(pod)
            if pod.nominated_node_name:
                self.cluster.nominations.put(pod, pod.nominated_node_name)

    def _decoded(self, kind: str, raw: bytes | msgspec.Raw, decode: Any, place: str) -> Any:
        try:
            return decode(raw)
        except _MALFORMED as error:
            if isinstance(error, ObjectError):
                raise
            try:
                metadata = msgspec.json.decode(raw, type=_Named).metadata
                namespace, name = metadata.get("namespace", ""), metadata.get("name", "?")
            except _MALFORMED:
                namespace, name = "", "?"
            raise ObjectError(f"{_named(kind, namespace, name, place)}: {_complaint(kind, raw, error)}") from None

    def _refuse_twin(self, kind: str, thing: Modelled, spot: str, *, applied: bool = False) -> None:
        """`applied`: it changes what is in the cluster, if it is there."""
        key = (thing.kind if isinstance(thing, PodGroup) else kind, thing.namespace, thing.name)
        uid, before = self._seen.get(key, ("", ""))
        changes = applied and key not in self._applied
        if applied:
            self._applied.add(key)
        if key in self._seen and not (uid and uid == thing.uid) and not changes:
            raise ObjectError(f"{_named(kind, thing.namespace, thing.name, '')}: is there twice: {before} and {spot}")
        if isinstance(thing, Pod) and thing.uid:
            other = self.cluster.placement(thing.uid)
            if other is not None and other.pod.key != thing.key:
                raise ObjectError(f"Pod {thing.key}: {other.pod.key} has the same uid")
        self._seen[key] = (thing.uid, spot)


class _Named(Struct):
    """The few fields that identify an object which could not be read."""

    metadata: dict[str, Any] = {}


def kinds_held(document: Document) -> list[str]:
    """Return the kinds that a dump says it holds all objects of. Raises ObjectError."""
    kinds = plain(document).get("kinds") or []
    if not isinstance(kinds, list) or not all(isinstance(each, str) for each in kinds):
        raise ObjectError(located(document.place, DUMP, said("kinds", kinds, "expected a list of texts")))
    return kinds


def _complaint(kind: str, raw: bytes | msgspec.Raw, error: Exception) -> str:
    """Return what is wrong with an object that does not decode: by the API's types, else in the decoder's words."""
    if not isinstance(error, RecursionError):
        with suppress(*_MALFORMED):
            return _misfit(kind, msgspec.json.decode(raw)) or misfit(error)
    return misfit(error)


def _misfit(kind: str, found: Any) -> str:
    """Return the complaint about the first value of a type that its kind does not have there; empty if all fit."""
    wanted, misfits = type_of(kind), list[Misfit]()
    if wanted:
        fitting(found, wanted, misfits, strict=False)
    return next((each.text for each in misfits if not each.unknown), "")


def _selectors(shape: PodShape) -> Iterator[LabelSelector]:
    """Yield how a pod of this shape selects others."""
    for term in chain(shape.affinity_terms, shape.anti_affinity_terms):
        yield term.selector
    for weighted in shape.preferred_pod_terms:
        yield weighted.term.selector
    for constraint in shape.spread:
        yield constraint.selector


_UNSAID = {"Pod": b'"schedulerName"', "Node": b'"allocatable"'}
"""Kind → what the API server always says of it: an object without was written by hand."""


def _as_read(kind: str, raw: bytes | msgspec.Raw) -> bytes | msgspec.Raw:
    """Return the object with the API server's defaults. One that is malformed stays: its decoder says why."""
    if kind not in _UNSAID or _UNSAID[kind] in bytes(raw):
        return raw
    try:
        found = msgspec.json.decode(raw)
        defaults.apply(kind, found)
    except (*_MALFORMED, StatusError, AttributeError, TypeError, KeyError):
        return raw
    return wire.encode(found)


def _inside(namespace: str, document: Document) -> Document:
    """Return an object of `MADE_WITH` in a namespace, if it names none; of classes that means nothing."""
    if named(document)[0]["metadata"].get("namespace"):
        return document
    return document._replace(raw=_in_namespace(namespace, document.raw))


def _in_namespace(namespace: str, raw: bytes | msgspec.Raw) -> bytes:
    """Return the object as the API server would have it that was written without a namespace."""
    document = msgspec.json.decode(raw)
    document["metadata"]["namespace"] = namespace
    return wire.encode(document)


def _named(kind: str, namespace: Any, name: Any, place: str) -> str:
    which = f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"
    return f"{which} ({place})" if place else which


def _spot(source: str, place: str) -> str:
    return " ".join(part for part in (source, place) if part) or "here"
