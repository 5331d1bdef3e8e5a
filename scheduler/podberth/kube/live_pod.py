"""What is read of a pod that the API server is asked for: whether it is still the one that was meant, and its node."""

from __future__ import annotations

import msgspec


class LiveMeta(msgspec.Struct, rename="camel"):
    """The metadata of a pod that say which one it is, and whether it is being deleted."""

    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: str | None = None


class LiveSpec(msgspec.Struct, rename="camel"):
    """The part of a pod's spec that says where it is."""

    node_name: str = ""


class LivePod(msgspec.Struct):
    """A pod as it is in the API now."""

    metadata: LiveMeta
    spec: LiveSpec = msgspec.field(default_factory=LiveSpec)


decode = msgspec.json.Decoder(LivePod).decode
