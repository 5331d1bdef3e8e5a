"""Generated storage: classes, volumes, claims, what CSI drivers say of nodes, and pods that use all of it."""

from __future__ import annotations

from tests.differential.generate.dice import HOST, REGION, ZONE, ZONES, Dice, Object

CSI = "csi.example.com"
OTHER_CSI = "other.example.com"
MIGRATED = "storage.alpha.kubernetes.io/migrated-plugins"
BOUND = "pv.kubernetes.io/bind-completed"
BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
SELECTED = "volume.kubernetes.io/selected-node"
IN_TREE = {
    "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
    "kubernetes.io/aws-ebs": "ebs.csi.aws.com",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
}
STORAGE = "storage.k8s.io/v1"
MODES = ("ReadWriteOnce", "ReadWriteOnce", "ReadWriteMany", "ReadOnlyMany", "ReadWriteOncePod")
SIZES = ("500Mi", "1Gi", "5Gi", "10Gi", "20Gi")


def cluster(dice: Dice, nodes: int) -> list[Object]:
    """Classes, and what the nodes' drivers say."""
    made = _classes(dice)
    for number in range(nodes):
        if dice.maybe(0.8):
            made.append(_csi_node(dice, f"node-{number}"))
    if dice.maybe(0.5):
        made.append(
            {
                "apiVersion": STORAGE,
                "kind": "CSIDriver",
                "metadata": {"name": CSI},
                "spec": {"storageCapacity": dice.maybe(0.7), "attachRequired": dice.maybe(0.8)},
            }
        )
    return made + _capacities(dice)


def claims(dice: Dice, count: int, nodes: int, namespace: str = "default") -> list[Object]:
    """Claims v0, v1, …, bound or not, with the volumes they are bound to, and some spare volumes."""
    made: list[Object] = []
    for number in range(count):
        name, fate = f"v{number}", dice.random()
        if fate < 0.05:
            continue  # pods that name it wait for it
        claim = _claim(dice, name, namespace)
        if fate < 0.45:
            made += _bind(dice, claim, nodes)
        elif fate < 0.55:
            claim["metadata"]["annotations"] = {SELECTED: f"node-{dice.randrange(nodes)}"}
        elif fate < 0.60:
            claim["spec"]["volumeName"] = f"spare-{dice.randint(0, 2)}"  # asked for, not bound
        elif fate < 0.63:
            claim["status"]["phase"] = "Lost"
        if dice.maybe(0.04):
            claim["metadata"]["deletionTimestamp"] = "2026-01-02T00:00:00Z"
            claim["metadata"]["deletionGracePeriodSeconds"] = 0
            claim["metadata"]["finalizers"] = ["kubernetes.io/pvc-protection"]
        made.append(claim)
    for number in range(dice.randint(0, 5)):
        spare = _volume(dice, f"spare-{number}", nodes)
        if dice.maybe(0.15):
            claimed = {"kind": "PersistentVolumeClaim", "namespace": namespace, "name": f"v{dice.randrange(count + 1)}"}
            if dice.maybe(0.5):
                claimed["uid"] = f"pvc-{claimed['name']}"
            spare["spec"]["claimRef"] = claimed
        made.append(spare)
    return made


def attachments(dice: Dice, objects: list[Object], nodes: int) -> list[Object]:
    """Volumes attached to nodes, also such that no pod there uses any more."""
    volumes = [one["metadata"]["name"] for one in objects if one["kind"] == "PersistentVolume"]
    return [
        {
            "apiVersion": STORAGE,
            "kind": "VolumeAttachment",
            "metadata": {"name": f"at-{number}"},
            "spec": {
                "attacher": dice.one(CSI, CSI, OTHER_CSI),
                "nodeName": f"node-{dice.randrange(nodes)}",
                "source": {"persistentVolumeName": volume},
            },
            "status": {"attached": dice.maybe(0.8)},
        }
        for number, volume in enumerate(dice.some(volumes, 0, 3))
    ]


def use(dice: Dice, pod: Object, count: int) -> list[Object]:
    """Give a pod of the namespace default some volumes; the claims of its ephemeral volumes."""
    volumes: list[Object] = []
    made: list[Object] = []
    meta = pod["metadata"]
    if pod["spec"].get("nodeName") == "node-99":
        return []  # whether a claim is in use on a node that is gone depends on the cache's past, upstream
    for number in dice.some(range(count), 0, 2):
        source: Object = {"claimName": f"v{number}"}
        if dice.maybe(0.1):
            source["readOnly"] = True
        volumes.append({"name": f"d{number}", "persistentVolumeClaim": source})
    if dice.maybe(0.15):
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        spec["storageClassName"] = dice.one("wffc", "noprov")
        volumes.append({"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}})
        # A placed pod had its claim once; where it is unreadable, kube-scheduler fails others for it (docs/equal.md).
        placed = "nodeName" in pod["spec"]
        if placed or dice.maybe(0.7):
            claim = _claim(dice, f"{meta['name']}-scratch", meta["namespace"])
            owner = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"], "controller": True}
            if placed or dice.maybe(0.85):
                claim["metadata"]["ownerReferences"] = [owner]
            made.append(claim)
    if dice.maybe(0.25):
        volumes.append({"name": "inline"} | _inline(dice))
    if dice.maybe(0.2):
        volumes.append({"name": "empty", "emptyDir": {}})
    if volumes:
        pod["spec"]["volumes"] = volumes
    return made


def _classes(dice: Dice) -> list[Object]:
    provisioners = {"wffc": CSI, "noprov": "kubernetes.io/no-provisioner", "imm": CSI}
    provisioners["migrated"] = dice.one(*IN_TREE)
    made = []
    for name, provisioner in provisioners.items():
        if dice.maybe(0.04):
            continue  # claims that name it must wait
        mode = "Immediate" if name == "imm" else "WaitForFirstConsumer"
        one: Object = {"apiVersion": STORAGE, "kind": "StorageClass", "metadata": {"name": name}}
        one |= {"provisioner": provisioner, "volumeBindingMode": mode}
        if dice.maybe(0.25):
            one["allowedTopologies"] = [
                {"matchLabelExpressions": [{"key": key, "values": dice.some(values, 1)}]}
                for key, values in dice.some(((ZONE, ZONES), (REGION, ("r0", "r1"))), 1)
            ]
        made.append(one)
    return made


def _csi_node(dice: Dice, name: str) -> Object:
    drivers = []
    for driver in (CSI, OTHER_CSI, *IN_TREE.values()):
        if dice.maybe(0.8 if driver == CSI else 0.3):
            one: Object = {"name": driver, "nodeID": name, "topologyKeys": [ZONE]}
            if dice.maybe(0.7):
                one["allocatable"] = {"count": dice.one(0, 1, 1, 2, 5)}
            drivers.append(one)
    meta: Object = {"name": name}
    if dice.maybe(0.5):
        meta["annotations"] = {MIGRATED: ",".join(sorted(dice.some(list(IN_TREE), 1)))}
    return {"apiVersion": STORAGE, "kind": "CSINode", "metadata": meta, "spec": {"drivers": drivers}}


def _capacities(dice: Dice) -> list[Object]:
    """What is left of each class: one object at most for each node, since of several any may be meant."""
    made: list[Object] = []
    for name in dice.some(("wffc", "imm", "migrated")):
        topologies: tuple[Object, ...] = ({},) if dice.maybe(0.3) else tuple({"matchLabels": {ZONE: z}} for z in ZONES)
        for number, topology in enumerate(topologies):
            if dice.maybe(0.25):
                continue
            one: Object = {"apiVersion": STORAGE, "kind": "CSIStorageCapacity", "storageClassName": name}
            one["metadata"] = {"name": f"cap-{name}-{number}", "namespace": "default"}
            if dice.maybe(0.95):
                one["nodeTopology"] = topology
            if dice.maybe(0.9):
                one["capacity"] = dice.one("0", "1Gi", "7Gi", "20Gi", "100Gi")
            if dice.maybe(0.2):
                one["maximumVolumeSize"] = dice.one("1Gi", "5Gi")
            made.append(one)
    return made


def _claim(dice: Dice, name: str, namespace: str) -> Object:
    spec: Object = {"accessModes": [dice.one(*MODES)], "resources": {"requests": {"storage": dice.one(*SIZES)}}}
    if dice.maybe(0.95):
        spec["storageClassName"] = dice.one("wffc", "wffc", "noprov", "noprov", "imm", "migrated", "", "gone")
    if dice.maybe(0.1):
        spec["volumeMode"] = "Block"
    if dice.maybe(0.12):
        spec["selector"] = {"matchLabels": {"disk": dice.one("ssd", "hdd")}}
    metadata: Object = {"name": name, "namespace": namespace, "uid": f"pvc-{name}"}
    status = {"phase": "Pending"}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec, "status": status}


def _bind(dice: Dice, claim: Object, nodes: int) -> list[Object]:
    """Bind a claim to a volume of its own; the volume, unless it is gone."""
    meta = claim["metadata"]
    meta["annotations"] = {BOUND: "yes"} | ({BY_CONTROLLER: "yes"} if dice.maybe(0.7) else {})
    claim["spec"]["volumeName"] = f"pv-{meta['name']}"
    claim["status"]["phase"] = "Bound"
    if dice.maybe(0.06):
        return []
    volume = _volume(dice, f"pv-{meta['name']}", nodes)
    ref = {"kind": "PersistentVolumeClaim", "namespace": meta["namespace"], "name": meta["name"]}
    volume["spec"]["claimRef"] = ref | {"uid": meta["uid"]}
    volume["status"]["phase"] = "Bound"
    return [volume]


def _volume(dice: Dice, name: str, nodes: int) -> Object:
    spec: Object = {
        "capacity": {"storage": dice.one(*SIZES)},
        "accessModes": list(dict.fromkeys(dice.one(*MODES) for _ in range(dice.one(1, 1, 2)))),
        "storageClassName": dice.one("wffc", "noprov", "noprov", "imm", "migrated", ""),
        "persistentVolumeReclaimPolicy": "Retain",
    }
    spec |= _source(dice, name)
    if dice.maybe(0.1):
        spec["volumeMode"] = "Block"
    if dice.maybe(0.5) or "local" in spec:
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [_place(dice, nodes) for _ in range(dice.one(1, 2))]}}
    labels = {"disk": dice.one("ssd", "hdd")} if dice.maybe(0.6) else {}
    if dice.maybe(0.3) and "gcePersistentDisk" not in spec:  # whose zones have to be Google's
        labels[ZONE] = dice.one(*ZONES, "z0__z1")
    if dice.maybe(0.1):
        labels[REGION] = dice.one("r0", "r1")
    metadata = {"name": name, "labels": labels}
    status = {"phase": "Available"}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": spec, "status": status}


def _source(dice: Dice, name: str) -> Object:
    kind = dice.random()
    if kind < 0.6:
        return {"csi": {"driver": dice.one(CSI, CSI, OTHER_CSI), "volumeHandle": name}}
    if kind < 0.7:
        return {"local": {"path": f"/mnt/{name}"}}
    if kind < 0.8:
        return {"gcePersistentDisk": {"pdName": dice.one("disk-a", "disk-b", name)}}
    if kind < 0.9:
        return {"awsElasticBlockStore": {"volumeID": dice.one("vol-1", "vol-2", f"vol-{name}")}}
    return {"nfs": {"server": "nfs.test", "path": f"/{name}"}}


def _place(dice: Dice, nodes: int) -> Object:
    if dice.maybe(0.5):
        return {"matchExpressions": [{"key": ZONE, "operator": "In", "values": dice.some(ZONES, 1, 2)}]}
    names = [f"node-{i}" for i in dice.some(range(nodes), 1)]
    return {"matchExpressions": [{"key": HOST, "operator": "In", "values": names}]}


def _inline(dice: Dice) -> Object:
    """A disk without a claim, the kinds that nodes may not share."""
    kind = dice.random()
    read_only = {"readOnly": True} if dice.maybe(0.3) else {}
    if kind < 0.3:
        return {"gcePersistentDisk": {"pdName": dice.one("disk-a", "disk-b"), **read_only}}
    if kind < 0.55:
        return {"awsElasticBlockStore": {"volumeID": dice.one("vol-1", "vol-2"), **read_only}}
    if kind < 0.8:
        source = {"monitors": dice.some(("10.0.0.1", "10.0.0.2"), 1), "image": dice.one("a", "b")}
        return {"rbd": source | ({"pool": "p"} if dice.maybe(0.5) else {}) | read_only}
    target = {"targetPortal": "10.0.0.9:3260", "lun": 0, "iqn": dice.one("iqn.2026-01.test:a", "iqn.2026-01.test:b")}
    return {"iscsi": target | read_only}
