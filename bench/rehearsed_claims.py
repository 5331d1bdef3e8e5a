"""ResourceClaims on an engine alone: who makes them, writes them and removes them while no API server is there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from podberth.apiserver.rules.patch import merge
from podberth.engine.instructions import PreBindWrite
from podberth.engine.stimuli import Gone, PreBindWritten, Put, Stimulus
from podberth.explain.objects import resource_claims
from podberth.explain.objects.resource_claims import Templated, templated
from podberth.framework.binding import Create, ObjectKey, Patch
from podberth.model.kinds import Decoder
from podberth.model.pod import Pod

KIND = "ResourceClaim"
Document = dict[str, Any]


class Claims:
    """Those of one rehearsal, with their resourceVersions."""

    def __init__(self, decoder: Decoder) -> None:
        self._decode = decoder.of_kind(KIND)
        self._templates: dict[tuple[str, str], Document] = {}
        self._there: dict[ObjectKey, Document] = {}
        self._of_pod: dict[str, list[ObjectKey]] = {}
        self._written: dict[str, list[ObjectKey]] = {}
        """By pod, what was written and not shown yet."""
        self._of_groups: dict[tuple[str, str], set[Templated]] = {}
        """The claims that the pods of a group share."""
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
        meta, group = document["metadata"], document["spec"].get("schedulingGroup", {}).get("podGroupName", "")
        shared = self._of_groups.get((meta["namespace"], group), set())
        keys = self._made(document, [each for each in templated(document["spec"]) if each not in shared])
        for each in shared.intersection(templated(document["spec"])):
            document["status"]["resourceClaimStatuses"].append(resource_claims.named(group, each))
        self._of_pod.setdefault(meta["uid"], []).extend(keys)
        return [self._shown(key) for key in keys], msgspec.json.encode(document)

    def before_group(self, raw: bytes) -> tuple[list[Stimulus], bytes]:
        """The same for a pod group, whose pods share its claims."""
        document: Document = msgspec.json.decode(raw)
        meta, asked = document["metadata"], set(templated(document["spec"]))
        self._of_groups[meta["namespace"], meta["name"]] = asked
        keys = self._made(document, asked, of_group=True)
        return [self._shown(key) for key in keys], msgspec.json.encode(document)

    def _made(self, owner: Document, asked: Iterable[Templated], of_group: bool = False) -> list[ObjectKey]:
        """Make the claims that a pod or a pod group asks for by templates, and name them in its status."""
        meta = owner["metadata"]
        own = {"owner": meta["name"], "namespace": meta["namespace"], "uid": meta["uid"], "of_group": of_group}
        owner["status"] = {"resourceClaimStatuses": [resource_claims.named(meta["name"], each) for each in asked]}
        return [
            self._stored(resource_claims.claim(self._templates[meta["namespace"], each.template], each, **own))
            for each in asked
        ]

    def write(self, instruction: PreBindWrite) -> PreBindWritten:
        """What the API server would answer; its watch is not as quick."""
        written = {}
        for write in instruction.writes:
            kind = write.key[0]
            if isinstance(write, Create):
                document = {**write.document, "metadata": {**write.document["metadata"], **_named(write.key)}}
                written[self._stored(document)] = self._now()
                self._of_pod.setdefault(instruction.pod.uid, []).append(write.key)
                self._written.setdefault(instruction.pod.uid, []).append(write.key)
            elif isinstance(write, Patch) and kind == KIND:
                written[self._stored(merge(self._there[write.key], write.change))] = self._now()
                self._written.setdefault(instruction.pod.uid, []).append(write.key)
            else:
                written[write.key] = "1"
        return PreBindWritten(instruction.pod.uid, written)

    def seen(self, pod: Pod) -> Iterator[Stimulus]:
        """The watch shows what was written to claims for a pod."""
        yield from map(self._shown, self._written.pop(pod.uid, ()))

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
