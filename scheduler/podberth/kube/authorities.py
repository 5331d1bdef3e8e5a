"""The CAs that sign client certificates, read from the ConfigMap `kube-system/extension-apiserver-authentication`.

The API server writes its own `--client-ca-file` there, for components that check certificates as it does.
Mirrors k8s.io/apiserver `pkg/server/dynamiccertificates/configmap_cafile_content.go` (DynamicConfigMapCAController):
what was known stays while the ConfigMap is gone or can't be read.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from podberth.kube.changes import Change, Deleted
from podberth.kube.client import Client
from podberth.kube.errors import ApiError
from podberth.kube.reflector import Reflector
from podberth.kube.resources import CONFIG_MAPS, Resource
from podberth.kube.wire import Partial

NAMESPACE, NAME, KEY = "kube-system", "extension-apiserver-authentication", "client-ca-file"


class _ConfigMap(Partial, gc=False):
    data: dict[str, str] | None = None


async def follow(client: Client, found: Callable[[bytes], None], kept: Callable[[str], None]) -> None:
    """Call `found` with the bundle (PEM), now and after each change, and `kept` when there is none; until cancelled."""

    seen = False

    def changed(changes: list[Change[_ConfigMap]], _replaced: bool) -> None:
        nonlocal seen
        if seen and not changes:
            return
        seen = True
        there = [change.object for change in changes if not isinstance(change, Deleted)]
        bundle = (there[-1].data or {}).get(KEY) if there else None
        if bundle:
            found(bundle.encode())
        else:
            kept(f"no {KEY} in ConfigMap {NAMESPACE}/{NAME}")

    def refused(_resource: Resource, error: ApiError | None) -> None:
        if error is not None:
            kept(str(error))

    reflector = Reflector(
        client,
        CONFIG_MAPS,
        msgspec.json.Decoder(_ConfigMap).decode,
        changed,
        namespace=NAMESPACE,
        field_selector=f"metadata.name={NAME}",
        on_refused=refused,
    )
    await reflector.run()
