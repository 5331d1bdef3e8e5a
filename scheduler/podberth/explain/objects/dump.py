"""Makes objects fit to be passed on: without what no decision reads, and with masks for names.

`smallest` keeps no environment, commands or Secrets. `Masks` masks names, namespaces, values of labels, selectors,
taints and tolerations, images, handles of volumes. Each word of letters and digits in them has one mask, wherever it
stands, so that a pod still belongs to its owner, a claim to its pod, a selector to its labels. Masks sort as the words
do, since some choices go by names. What is no secret of a cluster stays: keys of labels, resources, drivers, kinds,
schedulers, numbers, and the namespaces that every cluster has.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any

from podberth.explain.judging.schema import said
from podberth.explain.objects.controllers import mapping
from podberth.explain.objects.documents import ObjectError
from podberth.explain.objects.world import MADE_WITH
from podberth.model.annotated import DECIDING, NOTHING_READ, AnnotationsRead
from podberth.model.kinds import KINDS

Object = dict[str, Any]
KEPT = frozenset((*KINDS, *MADE_WITH))
"""The kinds of which anything is kept in a dump."""
_METADATA = (
    "name",
    "namespace",
    "uid",
    "labels",
    "ownerReferences",
    "creationTimestamp",
    "deletionTimestamp",
    "resourceVersion",
    "generation",
)
_CONTAINER = ("name", "image", "resources", "ports", "restartPolicy", "resizePolicy")
_CONTAINERS = ("containers", "initContainers")
_DROPPED_VOLUMES = ("secret", "configMap", "projected", "downwardAPI", "emptyDir", "hostPath")
_NODE_STATUS = ("allocatable", "capacity", "images", "conditions", "declaredFeatures")


def smallest(found: Mapping[str, Any], read: AnnotationsRead = NOTHING_READ) -> Object | None:
    """Return the object with only the fields that are read; None for a kind of which nothing is. Raises ObjectError.

    `read`: the annotations that plugins read besides.
    """
    kind = found.get("kind")
    if kind not in KEPT:
        return None
    made: Object = {key: value for key, value in found.items() if key not in ("metadata", "data", "stringData")}
    of_plugins = {"Node": read.of_nodes, "Pod": read.of_pods}.get(kind, frozenset())
    made["metadata"] = _metadata(mapping(found.get("metadata"), "metadata"), of_plugins)
    match kind:
        case "Pod":
            made["spec"] = _pod_spec(mapping(found.get("spec"), "spec"))
        case "Node":
            status = mapping(found.get("status"), "status")
            made["status"] = {key: status[key] for key in _NODE_STATUS if key in status}
        case "ResourceQuota":
            for part in ("spec", "status"):
                made[part] = _without_storage(mapping(found.get(part), part))
        case "ReplicaSet" | "StatefulSet" | "ReplicationController":
            spec = mapping(found.get("spec"), "spec")
            made = {**made, "spec": {key: spec[key] for key in ("selector", "replicas") if key in spec}}
    return made


def _without_storage(part: Mapping[str, Any]) -> Object:
    """Return a part of a quota without what it says of claims by the names of their classes."""
    return {
        key: {name: amount for name, amount in value.items() if ".storageclass." not in name}
        if key in ("hard", "used") and isinstance(value, Mapping)
        else value
        for key, value in part.items()
    }


def _metadata(found: Mapping[str, Any], of_plugins: Set[str]) -> Object:
    made = {key: found[key] for key in _METADATA if key in found}
    annotations = mapping(found.get("annotations"), "metadata.annotations")
    kept = {key: value for key, value in annotations.items() if key.startswith(DECIDING) or key in of_plugins}
    return made | ({"annotations": kept} if kept else {})


def _pod_spec(spec: Mapping[str, Any]) -> Object:
    made = dict(spec)
    for field in _CONTAINERS:
        if spec.get(field) is not None:
            made[field] = [{key: each[key] for key in _CONTAINER if key in each} for each in _mappings(spec, field)]
    made.pop("ephemeralContainers", None)
    if spec.get("volumes") is not None:
        volumes = _mappings(spec, "volumes")
        made["volumes"] = [each for each in volumes if not any(name in each for name in _DROPPED_VOLUMES)]
    return made


def _mappings(spec: Mapping[str, Any], field: str) -> list[Mapping[str, Any]]:
    value = spec[field]
    if not isinstance(value, list):
        raise ObjectError(said(f"spec.{field}", value, "expected a list"))
    return [mapping(each, f"spec.{field}[{i}]") for i, each in enumerate(value)]


_WORD = re.compile(r"[A-Za-z0-9]+")
_NUMBER = re.compile(r"-?[0-9]+$")
_MASK = re.compile(r"(?<![A-Za-z0-9])mask[0-9]+(?![A-Za-z0-9])")
_NAMES = frozenset(
    (
        *("name", "namespace", "generateName", "nodeName", "nominatedNodeName", "node", "claimName", "volumeName"),
        *("storageClassName", "resourceClaimName", "resourceClaimTemplateName", "priorityClassName", "pool"),
        "runtimeClassName",
        *("persistentVolumeName", "serviceAccountName", "hostname", "subdomain", "volumeHandle", "volumeID"),
        *("pdName", "diskName", "diskURI", "path", "server", "iqn", "volumeAttributesClassName"),
        *("podGroupName", "workloadName", "templateName", "parentCompositePodGroupName"),
    )
)
"""The fields that hold a name."""
_VALUES = frozenset(("labels", "matchLabels", "nodeSelector", "selector"))
"""The mappings whose values are those of labels."""
_ANNOTATED = frozenset(
    (
        "volume.kubernetes.io/selected-node",
        "volume.beta.kubernetes.io/storage-class",
        "resource.kubernetes.io/pod-claim-name",
    )
)
"""The annotations that hold a name."""
_DROPPED = frozenset(
    ("message", "description", "parameters", "volumeAttributes", "mountOptions", "nodeID", "addresses")
)
AS_THEY_ARE = {"CSIDriver", "DeviceClass"}
"""The kinds whose names are those of products, and are used in other objects' rules."""
_LEFT = {"CSINode": ("drivers",), "ResourceSlice": ("devices",), "ResourceClaim": ("devices",)}
"""Kind → parts of its spec that name drivers and devices."""
_KEPT = frozenset(
    (
        *("default", "kube-system", "kube-public", "kube-node-lease", "default-scheduler", "true", "false"),
        *("system-cluster-critical", "system-node-critical", "linux", "windows", "amd64", "arm64"),
    )
)


class Masks:
    """Word → mask. `text` masks a name with it."""

    def __init__(self, objects: Iterable[Mapping[str, Any]]) -> None:
        words = sorted({word for each in objects for text in _texts(each) for word in _WORD.findall(text)})
        width = len(str(len(words)))
        self._masks = {word: f"mask{number:0{width}}" for number, word in enumerate(words)}

    def table(self) -> dict[str, str]:
        """Return mask → word, to tell what a masked answer is about."""
        return {mask: word for word, mask in self._masks.items()}

    def text(self, text: str) -> str:
        """Return the mask of a name, or of a value of a label."""
        if text in _KEPT or _NUMBER.match(text):
            return text
        return _WORD.sub(lambda found: self._masks.get(found[0], found[0]), text)

    def masked(self, found: Mapping[str, Any]) -> Object:
        """Return an object with masked names."""
        kind = str(found.get("kind"))
        made: Object = {}
        for key, value in found.items():
            if key == "metadata" and kind in AS_THEY_ARE:
                made[key] = {name: value[name] for name in ("name", "uid", "resourceVersion") if name in value}
            elif key == "spec" and kind in _LEFT and isinstance(value, dict):
                made[key] = {k: _left(v) if k in _LEFT[kind] else self._field(k, v) for k, v in value.items()}
            elif key in ("kind", "apiVersion", "provisioner") or kind in AS_THEY_ARE:
                made[key] = value
            else:
                made[key] = self._field(key, value)
        return made

    def _field(self, key: str, value: Any) -> Any:
        if key in _NAMES and isinstance(value, str):
            return self.text(value)
        if key == "annotations" and isinstance(value, dict):
            return {name: self._annotation(name, text) for name, text in value.items()}
        if key in _VALUES and isinstance(value, dict) and _plain(value):
            return {name: self.text(text) for name, text in value.items()}
        if key in ("image", "names"):
            return [self._image(each) for each in value] if isinstance(value, list) else self._image(value)
        return self._any(value)

    def _any(self, value: Any) -> Any:
        if isinstance(value, dict):
            if ("key" in value or "scopeName" in value) and value.get("operator") not in ("Gt", "Lt"):
                value = {k: self._of_requirement(k, v) for k, v in value.items()}
            return {key: self._field(key, each) for key, each in value.items() if key not in _DROPPED}
        return [self._any(each) for each in value] if isinstance(value, list) else value

    def _of_requirement(self, key: str, value: Any) -> Any:
        """Return a part of a requirement, a taint or a toleration."""
        if key == "values" and isinstance(value, list):
            return [self.text(each) if isinstance(each, str) else each for each in value]
        return self.text(value) if key == "value" and isinstance(value, str) else value

    def _annotation(self, name: str, text: Any) -> Any:
        if not isinstance(text, str):
            return text
        if name in _ANNOTATED:
            return self.text(text)
        if text.lstrip()[:1] not in ("{", "["):
            return text
        try:
            return json.dumps(self._any(json.loads(text)), separators=(",", ":"))
        except (ValueError, RecursionError):
            return self.text(text)  # nobody can read it, and it may hold names

    def _image(self, image: Any) -> Any:
        """Return an image's names without tag or digest, which are no secret and decide whether a node has it."""
        if not isinstance(image, str):
            return image
        name, at, digest = image.partition("@")
        path, colon, tag = name.rpartition(":")
        if not colon or "/" in tag:
            path, colon, tag = name, "", ""
        return f"{self.text(path)}{colon}{tag}{at}{digest}"


def is_masked(text: str) -> bool:
    """Return whether there is a mask in a name or a value, so that its spelling says nothing."""
    return _MASK.search(text) is not None


def _left(value: Any) -> Any:
    """Return drivers and devices, without the names that drivers have for nodes."""
    if not isinstance(value, list):
        return value
    return [{k: v for k, v in each.items() if k not in _DROPPED} if isinstance(each, dict) else each for each in value]


def _plain(value: Mapping[str, Any]) -> bool:
    return all(isinstance(each, str) for each in value.values())


def _texts(value: Any) -> Iterator[str]:
    """Yield every text in an object, and the texts within annotations that hold JSON."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)
