"""A kubelet's work for tests without one: bound pods run and are ready, and what is deleted ends."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from tests.controlplane.api import Api, ApiError
from tests.integration import checks, evictor
from tests.integration.objects import pods_path


@contextlib.contextmanager
def kubelet(api: Api, namespace: str) -> Iterator[None]:
    """Until the block ends, run the pods of a namespace that have a node."""
    stopping = threading.Event()
    failed: list[BaseException] = []

    def work() -> None:
        try:
            while not stopping.wait(0.2):
                for pod in api.list(pods_path(namespace)):
                    if not checks.node_of(pod) or pod["status"].get("phase") != "Pending":
                        continue
                    try:
                        evictor.runs(api, namespace, pod["metadata"]["name"])
                    except ApiError as error:
                        if error.status not in (404, 409):  # it may be gone, and has its turn again
                            raise
        except BaseException as error:  # noqa: BLE001
            failed.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()
        if failed:  # also where the block gave up because of it
            raise failed[0]
