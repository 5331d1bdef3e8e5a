"""The nodes of the tour, the pods that are on them already, and the cluster that the tour uses."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from podberth.testing.demo.objects import GPU, Object, node, pod

DEFAULT_SCHEDULER = "default-scheduler"
TRAINER_IMAGE = "trainer:v7"
DISK = "disk"
REPORT_CPU = 6000
DEVICES: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "gpu-a": {"gpu-0": ("A100", "40Gi"), "gpu-1": ("A100", "40Gi")},
    "gpu-b": {"gpu-0": ("L4", "24Gi"), "gpu-1": ("A100", "40Gi")},
}
"""Node → its devices, with model and memory."""
HOLDER = ("notebook-0", "gpu-a", "gpu-0")
"""The pod that has a device already, its node, and the device."""


@dataclass(frozen=True, slots=True)
class Setting:
    """Where the story takes place. `prefix` starts the names of its nodes; `scale` divides what its pods ask for.

    `own_nodes`, `own_server`: nodes, or the API server itself, are there for the story only.
    """

    namespace: str
    scheduler: str
    prefix: str = ""
    own_nodes: bool = True
    own_server: bool = False
    scale: int = 1

    @property
    def packer(self) -> str:
        """The schedulerName of the second profile, which packs."""
        return f"{self.scheduler}-packed"

    @property
    def profiles(self) -> tuple[str, str]:
        """The schedulerNames of the two profiles."""
        return self.scheduler, self.packer

    @property
    def shown_labels(self) -> Sequence[str]:
        """Node labels that the picture names."""
        return (DISK,) if self.own_nodes else ()

    def full(self, node: str) -> str:
        """A node's name in the API."""
        return f"{self.prefix}{node}"

    def short(self, node: str) -> str:
        """A node's name in the story."""
        return node.removeprefix(self.prefix)


def nodes(setting: Setting) -> list[Object]:
    """Nine workers of four sizes and two GPU machines in three zones."""
    ssd, hdd = {DISK: "ssd"}, {DISK: "hdd"}
    big = {TRAINER_IMAGE: 6 << 30}
    rows = [
        node("a1", "a", 8, 32, labels=ssd),
        node("a2", "a", 4, 16, labels=hdd),
        node("a3", "a", 4, 16, labels=hdd),
        node("b1", "b", 8, 32, labels=ssd),
        node("b2", "b", 8, 32, labels=hdd),
        node("b3", "b", 4, 16, labels=hdd),
        node("c1", "c", 12, 48, labels=ssd),
        node("c2", "c", 4, 16, labels=hdd),
        node("c3", "c", 8, 32, labels=ssd, cordoned=True),
        node("gpu-a", "a", 8, 64, labels=ssd, gpus=True),
        node("gpu-b", "b", 8, 64, labels=ssd, gpus=True, images=big),
    ]
    for row in rows:
        name = setting.full(row["metadata"]["name"])
        row["metadata"]["name"] = row["metadata"]["labels"]["kubernetes.io/hostname"] = name
    return rows


def others(setting: Setting, *, devices: bool) -> list[Object]:
    """Pods that the default scheduler has placed already: they take room and are nobody's business.

    `devices`: whether the cluster has some, one of which has a user.

    They leave less than REPORT_CPU on every open node with an SSD, so the report has to wait wherever the others go.
    """
    rows = [
        ("shop-web-0", "a1", 2500, 4096),
        ("shop-db-0", "a2", 2500, 8192),
        ("metrics-0", "a3", 1000, 2048),
        ("shop-web-1", "b1", 3000, 4096),
        ("logs-0", "b2", 1000, 8192),
        ("shop-cart-0", "b3", 2000, 2048),
        ("search-0", "c1", 4000, 16384),
        ("search-1", "c1", 2500, 8192),
        ("metrics-1", "c2", 1000, 2048),
        ("backup-0", "c3", 1000, 2048),
        ("notebook-0", "gpu-a", 2000, 8192),
    ]
    return [
        pod(
            name,
            DEFAULT_SCHEDULER,
            cpu=cpu,
            memory=memory,
            claim=f"{name}-gpu" if name == HOLDER[0] and devices else None,
            nodeName=setting.full(where),
            tolerations=[{"key": GPU, "operator": "Exists"}] if where in DEVICES else [],
        )
        for name, where, cpu, memory in rows
    ]
