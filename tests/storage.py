"""Builders of storage objects: plain API dicts, as `tests.builders` gives for pods and nodes."""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.builders import Object, label, node_selector, selector

MODES = {"RWO": "ReadWriteOnce", "ROX": "ReadOnlyMany", "RWX": "ReadWriteMany", "RWOP": "ReadWriteOncePod"}
BOUND = "pv.kubernetes.io/bind-completed"
SELECTED = "volume.kubernetes.io/selected-node"
BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
MIGRATED = "storage.alpha.kubernetes.io/migrated-plugins"


def using(pod: Object, *volumes: str | Object) -> Object:
    """The pod with volumes: `data` is a claim, `+scratch` an ephemeral volume; a dict is a volume source."""
    made: list[Object] = []
    for i, volume in enumerate(volumes):
        if isinstance(volume, dict):
            made.append({"name": f"v{i}", **volume})
        elif volume.startswith("+"):
            made.append({"name": volume[1:], "ephemeral": {"volumeClaimTemplate": {"spec": {}}}})
        else:
            made.append({"name": f"v{i}", "persistentVolumeClaim": {"claimName": volume}})
    pod["spec"]["volumes"] = made
    return pod


def claim(
    name: str,
    size: str | None = "1Gi",
    *,
    storage_class: str | None = "wait",
    modes: str = "RWO",
    to: str | None = None,
    namespace: str = "default",
    selected: str | None = None,
    owner: str | None = None,
    select: str | None = None,
    annotations: Mapping[str, str] | None = None,
    phase: str | None = None,
    leaving: bool = False,
    **spec: Any,
) -> Object:
    """A claim. `to`: the volume it is bound to, in both directions; `selected`: the node to provision for."""
    notes = dict(annotations or {})
    if to is not None:
        notes[BOUND] = "yes"
    if selected is not None:
        notes[SELECTED] = selected
    meta: Object = {"name": name, "namespace": namespace, "uid": f"claim/{namespace}/{name}"}
    if notes:
        meta["annotations"] = notes
    if owner is not None:
        meta["ownerReferences"] = [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": owner, "controller": True}]
    if leaving:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    made: Object = {"accessModes": [MODES[mode] for mode in modes.split()], **spec}
    optional = {
        "storageClassName": storage_class,
        "volumeName": to,
        "resources": None if size is None else {"requests": {"storage": size}},
        "selector": None if select is None else selector(select),
    }
    made.update({key: value for key, value in optional.items() if value is not None})
    status = {"phase": phase or ("Bound" if to is not None else "Pending")}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": made, "status": status}


def volume(
    name: str,
    size: str = "1Gi",
    *,
    storage_class: str = "wait",
    modes: str = "RWO",
    claimed: str | None = None,
    uid: str | None = None,
    on: Sequence[str] = (),
    labels: Mapping[str, str] | None = None,
    driver: str | None = "csi.test",
    phase: str = "Available",
    leaving: bool = False,
    **spec: Any,
) -> Object:
    """A volume. `claimed`: `namespace/name` of its claim, with `uid`; `on`: terms of node affinity."""
    made: Object = {
        "capacity": {"storage": size},
        "accessModes": [MODES[mode] for mode in modes.split()],
        "storageClassName": storage_class,
        **spec,
    }
    if driver is not None:
        made["csi"] = {"driver": driver, "volumeHandle": name}
    if claimed is not None:
        namespace, _, claim_name = claimed.rpartition("/")
        made["claimRef"] = {"kind": "PersistentVolumeClaim", "namespace": namespace or "default", "name": claim_name}
        if uid is not None:
            made["claimRef"]["uid"] = uid
    if on:
        made["nodeAffinity"] = {"required": node_selector(*on)}
    meta: Object = {"name": name, "uid": f"volume/{name}"}
    if labels:
        meta["labels"] = {label(key): value for key, value in labels.items()}
    if leaving:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    status = {"phase": phase}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": meta, "spec": made, "status": status}


def storage_class(
    name: str = "wait",
    provisioner: str = "kubernetes.io/no-provisioner",
    *,
    waits: bool | None = True,
    allowed: Sequence[str] | None = None,
) -> Object:
    """A class; `allowed`: topology terms, `zone in a,b; host in n1`."""
    made: Object = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name, "uid": f"class/{name}"},
        "provisioner": provisioner,
    }
    if waits is not None:
        made["volumeBindingMode"] = "WaitForFirstConsumer" if waits else "Immediate"
    if allowed is not None:
        terms = [(node_selector(text)["nodeSelectorTerms"][0]).get("matchExpressions", []) for text in allowed]
        made["allowedTopologies"] = [
            {"matchLabelExpressions": [{"key": r["key"], "values": r.get("values", [])} for r in term]}
            for term in terms
        ]
    return made


def csi_node(name: str, *, migrated: Sequence[str] = (), **limits: int | None) -> Object:
    """A CSINode; drivers by keyword with `_` for `.`, None is no limit."""
    meta: Object = {"name": name, "uid": f"csinode/{name}"}
    if migrated:
        meta["annotations"] = {MIGRATED: ",".join(migrated)}
    drivers = [
        {"name": driver.replace("_", "."), "nodeID": name}
        | ({} if limit is None else {"allocatable": {"count": limit}})
        for driver, limit in limits.items()
    ]
    return {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": meta, "spec": {"drivers": drivers}}


def csi_driver(name: str = "csi.test", *, capacity: bool = False, needed: bool = False) -> Object:
    """A CSIDriver that publishes capacity, or must be installed where its volumes go."""
    spec = {"storageCapacity": capacity, "preventPodSchedulingIfMissing": needed}
    meta = {"name": name, "uid": f"driver/{name}"}
    return {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": meta, "spec": spec}


def capacity(
    name: str, amount: str | None, where: str | None = "", *, storage_class: str = "wait", largest: str | None = None
) -> Object:
    """A CSIStorageCapacity; `where` is a label selector, None for nowhere."""
    made: Object = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIStorageCapacity",
        "metadata": {"name": name, "namespace": "default", "uid": f"capacity/{name}"},
        "storageClassName": storage_class,
    }
    optional = {"capacity": amount, "maximumVolumeSize": largest, "nodeTopology": selector(where)}
    return made | {key: value for key, value in optional.items() if value is not None}


def attachment(name: str, node: str, volume: str | None, attacher: str = "csi.test") -> Object:
    """A VolumeAttachment."""
    source: Object = {"inlineVolumeSpec": {}} if volume is None else {"persistentVolumeName": volume}
    spec = {"attacher": attacher, "nodeName": node, "source": source}
    meta = {"name": name, "uid": f"attachment/{name}"}
    return {"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": meta, "spec": spec}
