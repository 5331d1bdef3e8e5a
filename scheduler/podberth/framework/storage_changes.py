"""Small changes of claims and storage classes, after which a pod may get its volumes."""

from typing import Any

from msgspec.structs import replace

from podberth.cache.volumes import Storage
from podberth.framework.small_change import SmallChange
from podberth.model.quantity import exact, parse_nano
from podberth.model.storage import WAIT_FOR_FIRST_CONSUMER, PersistentVolumeClaim, StorageClass, StorageKind

_NEW = "1"
"""The resourceVersion of what nobody has written yet."""
_UNBOUND: dict[str, Any] = {
    "volume_name": "",
    "bind_completed": False,
    "selected_node": None,
    "annotated": False,
    "lost": False,
    "terminating": False,
}
"""A claim as it is when it was just created: it has no volume and no node."""


class CreateClass(SmallChange, frozen=True):
    """Create the storage class that a claim names."""

    cost = 1.5
    name: str
    provisioner: str

    def __str__(self) -> str:
        return f"create the storage class {self.name}, with the provisioner {self.provisioner}"

    def made(self, storage: Storage) -> StorageKind | None:
        """The class: it waits for the pod's node, and makes volumes anywhere."""
        return StorageClass(
            name=self.name,
            uid=f"new/{self.name}",
            resource_version=_NEW,
            provisioner=self.provisioner,
            binding_mode=WAIT_FOR_FIRST_CONSUMER,
            topologies=None,
        )


class CreateClaim(SmallChange, frozen=True):
    """Create the claim that a pod names."""

    cost = 1.0
    namespace: str
    name: str
    storage_class: str
    size: str = "1Gi"

    def __str__(self) -> str:
        return f"create the claim {self.name}, {self.size} of the storage class {self.storage_class}"

    def made(self, storage: Storage) -> StorageKind | None:
        return PersistentVolumeClaim(
            namespace=self.namespace,
            name=self.name,
            uid=f"new/{self.namespace}/{self.name}",
            resource_version=_NEW,
            storage_class=self.storage_class,
            spec_class=self.storage_class,
            **_UNBOUND,
            access_modes=("ReadWriteOnce",),
            requested=parse_nano(self.size),
            volume_mode="Filesystem",
            attributes_class="",
            selector=None,
            problem=None,
            owner="",
        )


class _Again(SmallChange, frozen=True):
    """Delete a claim and create it again."""

    namespace: str
    name: str
    storage_class: str

    def made(self, storage: Storage) -> StorageKind | None:
        """The claim as it would be then; None when there is none to create again."""
        claim = storage.claims.get((self.namespace, self.name))
        if claim is None:
            return None
        uid, its = f"new/{self.namespace}/{self.name}", self.storage_class
        return replace(claim, uid=uid, storage_class=its, spec_class=its, **_UNBOUND)


class RecreateClaim(_Again, frozen=True):
    """Delete a claim that has no volume and create it again: its storage class can't be changed."""

    cost = 1.5
    instead_of: str

    def __str__(self) -> str:
        again = f"create the claim {self.name} again"
        if self.storage_class == self.instead_of:
            return again
        other = f" instead of {self.instead_of}" if self.instead_of else ""
        return f"{again} with the storage class {self.storage_class}{other}"


class ReplaceVolume(_Again, frozen=True):
    """Delete a claim that has a volume, and create it again: the pod gets an empty volume."""

    cost = 4.0
    volume: str

    def __str__(self) -> str:
        return f"create the claim {self.name} again, with an empty volume instead of {self.volume}"


class ShrinkClaim(SmallChange, frozen=True):
    """Delete a claim that has no volume and create it again, smaller."""

    cost = 2.0
    namespace: str
    name: str
    size: int
    instead_of: int

    def __str__(self) -> str:
        size, before = (exact("memory", amount) for amount in (self.size, self.instead_of))
        return f"create the claim {self.name} again, with {size} instead of {before}"

    def made(self, storage: Storage) -> StorageKind | None:
        """The smaller claim; None when there is none to create again."""
        claim = storage.claims.get((self.namespace, self.name))
        return None if claim is None else replace(claim, requested=parse_nano(str(self.size)))


class ForgetNode(SmallChange, frozen=True):
    """Let a claim forget the node that was chosen for its volume."""

    cost = 1.0
    namespace: str
    name: str
    node: str

    def __str__(self) -> str:
        return f"let the claim {self.name} forget the node {self.node}, which was chosen for its volume"

    def made(self, storage: Storage) -> StorageKind | None:
        """The claim without the node."""
        claim = storage.claims.get((self.namespace, self.name))
        return None if claim is None else replace(claim, selected_node=None)


class ForgetClaim(SmallChange, frozen=True):
    """Let a volume be claimed again whose claim is gone. What it holds stays on it."""

    cost = 1.5
    volume: str

    def __str__(self) -> str:
        return f"clear the claimRef of the volume {self.volume}, which is Released, with what it holds"

    def made(self, storage: Storage) -> StorageKind | None:
        """The volume as it is Available."""
        volume = storage.volumes.get(self.volume)
        if volume is None:
            return None
        return replace(volume, claim=None, bound_by_controller=False, released=False, available=True)


OnStorage = CreateClass | CreateClaim | RecreateClaim | ReplaceVolume | ShrinkClaim | ForgetNode | ForgetClaim
