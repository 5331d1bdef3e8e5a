"""The metadata that models of API objects have; those of pods, of pod groups and of what selects pods have more."""

from typing import ClassVar

from msgspec import Struct


class ClusterScoped(Struct, gc=False, frozen=True):
    """An object of the cluster, in no namespace."""

    name: str
    uid: str
    resource_version: str

    namespace: ClassVar[str] = ""

    @property
    def key(self) -> str:
        """Return the name."""
        return self.name


class Namespaced(Struct, gc=False, frozen=True):
    """An object in a namespace."""

    namespace: str
    name: str
    uid: str
    resource_version: str

    @property
    def key(self) -> tuple[str, str]:
        """Return (namespace, name)."""
        return self.namespace, self.name

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"
