"""The change as RFC 6902 operations, and the object after it. Only maps on the way are copied."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from podberth.policy.objects import JsonObject

Operation = dict[str, Any]


@lru_cache(4096)  # of keys that policies write, which are few and always the same
def pointer(*parts: str) -> str:
    """Return a JSON pointer (RFC 6901)."""
    return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in parts)


class Patch:
    """Collects operations while it applies them to a copy."""

    def __init__(self, obj: JsonObject) -> None:
        self.object = obj
        self.operations: list[Operation] = []

    def merge(self, above: str, field: str, writes: Mapping[str, str]) -> None:
        """Write into a map two levels down, as metadata.labels; a map that is absent or null is added whole."""
        held = (self.object.get(above) or {}).get(field)
        changed = {key: writes[key] for key in sorted(writes) if (held or {}).get(key) != writes[key]}
        if not changed:
            return
        if self.object.get(above) is None:
            self.operations.append({"op": "add", "path": pointer(above), "value": {field: changed}})
        elif held is None:
            self.operations.append({"op": "add", "path": pointer(above, field), "value": changed})
        else:
            self.operations += [
                {"op": "replace" if key in held else "add", "path": pointer(above, field, key), "value": value}
                for key, value in changed.items()
            ]
        self._put(above, field, {**(held or {}), **changed})

    def set(self, above: str, field: str, value: str) -> None:
        """Set a text two levels down, as spec.schedulerName."""
        holder = self.object.get(above)
        if (holder or {}).get(field) == value:
            return
        if holder is None:
            self.operations.append({"op": "add", "path": pointer(above), "value": {field: value}})
        else:
            known = "replace" if field in holder else "add"
            self.operations.append({"op": known, "path": pointer(above, field), "value": value})
        self._put(above, field, value)

    def _put(self, above: str, field: str, value: Any) -> None:
        self.object = {**self.object, above: {**(self.object.get(above) or {}), field: value}}
