"""ResourceClaims on an engine alone: who makes them, writes them and removes them while no API server is there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from scheduler.apiserver.patch import merge
from scheduler.engine.instructions import PreBindWrite
from scheduler.engine.stimuli import Gone, PreBindWritten, Put, Stimulus
from scheduler.framework.binding import Create, ObjectKey, Patch
from scheduler.model.kinds import Decoder
from scheduler.model.pod import Pod
from scheduler.whatif import claim_templates
from scheduler.whatif.claim_templates import templated

KIND = "ResourceClaim"
Document = dict[str, Any]


class Claims:
    """Those of one rehearsal, with their resourceVersions."""

    def __init__(self, decoder: Decoder) -> None:
        self._decode = decoder.of_kind(KIND)
        self._templates: dict[tuple[str, str], Document] = {}
        self._there: dict[ObjectKey, Document] = {}
        self._of_pod: dict[str, list[ObjectKey]] = {}
        self._version = 0

    def learn(self, raw: bytes) -> None:
        """A ResourceClaimTemplate."""
        document = msgspec.json.decode(raw)
        self._templates[document["metadata"]["namespace"], document["metadata"]["name"]] = document

    def put(self, raw: bytes) -> Stimulus:
        """A claim that is there from the start."""
        return self._shown(self._stored(msgspec.json.decode(raw)))

    def before(self, raw: bytes) -> tuple[list[Stimulus], bytes]:
        """The claims for a pod that is about to come, and the pod, which names them in its status."""
        document: Document = msgspec.json.decode(raw)
        meta, spec = document["metadata"], document["spec"]
        made = [
            claim_templates.claim(
                self._templates[meta["namespace"], each.template],
                each,
                pod=meta["name"],
                namespace=meta["namespace"],
                uid=meta["uid"],
            )
            for each in templated(spec)
        ]
        document["status"] = {"resourceClaimStatuses": claim_templates.status(meta["name"], spec)}
        keys = [self._stored(each) for each in made]
        self._of_pod.setdefault(meta["uid"], []).extend(keys)
        return [self._shown(key) for key in keys], msgspec.json.encode(document)

    def write(self, instruction: PreBindWrite) -> PreBindWritten:
        """What the API server would answer; its watch is not as quick."""
        written = {}
        for write in instruction.writes:
            kind = write.key[0]
            if isinstance(write, Create):
                document = {**write.document, "metadata": {**write.document["metadata"], **_named(write.key)}}
                written[self._stored(document)] = self._now()
                self._of_pod.setdefault(instruction.pod.uid, []).append(write.key)
            elif isinstance(write, Patch) and kind == KIND:
                written[self._stored(merge(self._there[write.key], write.change))] = self._now()
            else:
                written[write.key] = "1"
        return PreBindWritten(instruction.pod.uid, written)

    def seen(self, pod: Pod) -> Iterator[Stimulus]:
        """The watch shows what was written to the claims of a pod."""
        yield from map(self._shown, self._of_pod.get(pod.uid, ()))

    def ended(self, pod: Pod) -> Iterator[Stimulus]:
        """A pod is gone, and its claims go."""
        for key in self._of_pod.pop(pod.uid, ()):
            document = self._there.pop(key)
            yield Gone(*key, document["metadata"]["uid"])

    def _stored(self, document: Mapping[str, Any]) -> ObjectKey:
        self._version += 1
        meta = document["metadata"]
        key: ObjectKey = (KIND, meta["namespace"], meta["name"])
        meta = {"uid": "/".join(key), **meta, "resourceVersion": self._now()}
        self._there[key] = {**document, "metadata": meta}
        return key

    def _now(self) -> str:
        return str(self._version)

    def _shown(self, key: ObjectKey) -> Put:
        return Put(self._decode(msgspec.json.encode(self._there[key])))


def _named(key: ObjectKey) -> Document:
    return {"namespace": key[1], "name": key[2]}
