"""The API server of the engine's volume tests: objects with resourceVersions, and who else writes them."""

from copy import deepcopy
from typing import Any

from podberth.engine.instructions import Instruction, PreBindWrite
from podberth.engine.stimuli import PreBindWritten
from podberth.framework.binding import Create, ObjectKey, Patch
from tests.builders import Object
from tests.storage import BOUND

from .conftest import Harness

DATA: ObjectKey = ("PersistentVolumeClaim", "default", "data")


class Api:
    """The objects that the engine sees, with resourceVersions, and who else writes them."""

    def __init__(self, harness: Harness, *objects: Object) -> None:
        self._harness = harness
        self._objects: dict[ObjectKey, Object] = {}
        self._version = 0
        for document in objects:
            self.put(document)

    def put(self, document: Object) -> list[Instruction]:
        """Write an object and let the engine see it."""
        self._store(document)
        return self.show(key_of(document))

    def show(self, *keys: ObjectKey) -> list[Instruction]:
        """The watch brings these objects as they are now."""
        found: list[Instruction] = []
        for key in keys:
            found += self._harness.tell(deepcopy(self._objects[key]))
        return found

    def store(self, document: Object) -> str:
        """Write an object that the watch is slow to show; its new resourceVersion."""
        return self._store(document)

    def write(self, prepare: PreBindWrite) -> PreBindWritten:
        """Carry a PreBindWrite out; the watch is not as quick."""
        written = {}
        for patch in prepare.writes:
            if isinstance(patch, Create):
                written[patch.key] = self._create(patch)
                continue
            assert isinstance(patch, Patch)
            document = deepcopy(self._objects[patch.key])
            assert document["metadata"]["resourceVersion"] == (patch.resource_version or self._version_of(patch.key))
            assert document["metadata"]["uid"] == (patch.uid or document["metadata"]["uid"])
            if not patch.change:  # nothing is stored, and no event comes
                written[patch.key] = document["metadata"]["resourceVersion"]
                continue
            _merge(document, patch.change)
            written[patch.key] = self._store(document)
        return PreBindWritten(prepare.pod.uid, written)

    def _create(self, create: Create) -> str:
        kind, namespace, name = create.key
        document = {**deepcopy(dict(create.document)), "kind": kind}
        document["metadata"] = {**document["metadata"], "namespace": namespace, "name": name, "uid": f"made/{name}"}
        return self._store(document)

    def _version_of(self, key: ObjectKey) -> str:
        version: str = self._objects[key]["metadata"]["resourceVersion"]
        return version

    def bind(self, claim_key: ObjectKey = DATA, volume_name: str = "v") -> list[Instruction]:
        """What the PV controller does to a claim."""
        document = deepcopy(self._objects[claim_key])
        document["spec"]["volumeName"] = volume_name
        document["metadata"].setdefault("annotations", {})[BOUND] = "yes"
        document["status"]["phase"] = "Bound"
        return self.put(document)

    def edit(self, key: ObjectKey, **change: Any) -> list[Instruction]:
        """Anybody changes an object."""
        document = deepcopy(self._objects[key])
        _merge(document, change)
        return self.put(document)

    def get(self, key: ObjectKey) -> Object:
        return self._objects[key]

    def _store(self, document: Object) -> str:
        self._version += 1
        document["metadata"]["resourceVersion"] = str(self._version)
        self._objects[key_of(document)] = document
        return str(self._version)


def key_of(document: Object) -> ObjectKey:
    """Kind, namespace and name."""
    meta = document["metadata"]
    return document["kind"], meta.get("namespace", ""), meta["name"]


def _merge(document: Object, change: Any) -> None:
    """RFC 7386."""
    for name, value in change.items():
        if value is None:
            document.pop(name, None)
        elif isinstance(value, dict):
            _merge(document.setdefault(name, {}), value)
        else:
            document[name] = value
