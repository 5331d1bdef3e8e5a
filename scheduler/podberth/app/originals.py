"""Keeps objects as the API server sent them, for HTTP extenders, which get whole objects. Without extenders, none."""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec


class Originals:
    """The bytes of nodes and pods by kind, namespace and name; empty for kinds that nobody asks for."""

    def __init__(self, kinds: Iterable[str]) -> None:
        self._kept: dict[str, dict[tuple[str, str], bytes]] = {kind: {} for kind in kinds}

    def keeping(self, kind: str, decode: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
        """The same decoding function, which keeps the bytes if the kind is wanted."""
        kept = self._kept.get(kind)
        if kept is None:
            return decode

        def keep(raw: bytes) -> Any:
            thing = decode(raw)
            kept[(thing.namespace, thing.name)] = bytes(raw)
            return thing

        return keep

    def get(self, kind: str, namespace: str, name: str) -> msgspec.Raw | None:
        """The object as JSON."""
        found = self._kept.get(kind, {}).get((namespace, name))
        return msgspec.Raw(found) if found is not None else None

    def drop(self, kind: str, namespace: str, name: str) -> None:
        """The object is gone."""
        self._kept.get(kind, {}).pop((namespace, name), None)
