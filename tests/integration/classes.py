"""Priority classes, which pods may name as soon as they are made here."""

from __future__ import annotations

from typing import Any

from tests.controlplane.api import Api, ApiError
from tests.controlplane.wait import wait_for
from tests.integration.objects import pod, pods_path

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


def make_class(api: Api, name: str, value: int, **more: Any) -> None:
    """Create a class, and return once pods may name it."""
    api.create(CLASSES, {"metadata": {"name": name}, "value": value, **more})
    wait_admitted(api, name)


def wait_admitted(api: Api, name: str) -> None:
    """Return once pods may name a class. Admission hears of it by a watch: until then it refuses them."""

    def admitted() -> bool:
        try:
            api.create(pods_path("default"), pod("probe", "nobody", priorityClassName=name), dryRun="All")
        except ApiError as error:
            if "no PriorityClass with name" not in str(error):
                raise
            return False
        return True

    wait_for(f"pods to be admitted with the class {name}", admitted)
