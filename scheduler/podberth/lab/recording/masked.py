"""Writes a recording a second time with the masks of `berth dump` in place of names.

Masks sort as the words do, and so all words have to be known: a recording is masked when it is read. Messages are left
out; placements are the same, so a masked recording can be verified by them.
"""

from collections.abc import Iterator, Mapping, Set
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from podberth.explain.objects.dump import AS_THEY_ARE, Masks
from podberth.lab.recording.entries import (
    AnyEntry,
    Failed,
    Gone,
    Head,
    Placed,
    Preempts,
    PutObject,
    PutPod,
    Template,
    Told,
    packed,
)
from podberth.lab.recording.log import File, segments
from podberth.lab.recording.reading import frames_of

_UNTOLD = "a message that is masked"
_NAMELESS = ("Configured", "Follows", "Refreshed")
"""What holds names of profiles, plugins and APIs only."""


def write_masked(directory: Path, to: Path) -> int:
    """Write all that can be read to another directory; return the number of entries. Raises LogError, OSError."""
    held = segments(directory)
    masks = Masks(each for path in held for frame in frames_of(path) for entry in frame for each in _named(entry))
    uids = {each.uid for path in held for frame in frames_of(path) for each in frame if isinstance(each, PutPod)}
    to.mkdir(mode=0o700, parents=True, exist_ok=True)
    written = 0
    for path in held:
        file = File(to / path.name)
        try:
            for frame in frames_of(path):
                for content in packed([_masked(entry, masks, uids) for entry in frame]):
                    file.write(content)
                written += len(frame)
        finally:
            file.close()
    return written


def _named(entry: AnyEntry) -> Iterator[Mapping[str, Any]]:
    """Yield what is named in an entry, as objects whose texts are masked."""
    match entry:
        case Template() | PutObject() if entry.json:
            yield msgspec.json.decode(entry.json)
        case PutPod():
            yield {"labels": entry.labels, "owner": list(entry.owner or ()), "name": entry.name}
            yield {"nodes": [entry.node_name, entry.nominated_node_name]}


def _masked(entry: AnyEntry, masks: Masks, uids: Set[str]) -> AnyEntry:
    match entry:
        case Head():
            return replace(entry, masked=True)
        case Template():
            return replace(entry, json=_json(entry.json, "Pod", masks))
        case PutObject() | Gone():
            name = entry.name if entry.kind in AS_THEY_ARE else masks.text(entry.name)
            masked = replace(entry, namespace=masks.text(entry.namespace), name=name)
            if isinstance(masked, PutObject) and masked.json:
                masked.json = _json(masked.json, masked.kind, masks)
            return masked
        case PutPod():
            said = entry.condition
            return replace(
                entry,
                namespace=masks.text(entry.namespace),
                name=masks.text(entry.name),
                labels={key: masks.text(value) for key, value in entry.labels.items()},
                owner=None if entry.owner is None else (entry.owner[0], masks.text(entry.owner[1]), entry.owner[2]),
                node_name=masks.text(entry.node_name),
                nominated_node_name=masks.text(entry.nominated_node_name),
                condition=None if said is None else (said[0], said[1], _UNTOLD, said[3]),
                made_claims=tuple(
                    (key, None if claim is None else masks.text(claim)) for key, claim in entry.made_claims
                ),
            )
        case Told(name=name) if name not in _NAMELESS:
            return replace(entry, what=_plain(entry.what, masks, uids))
        case Placed() | Preempts():
            return replace(entry, node=masks.text(entry.node))
        case Failed():
            return replace(entry, message=_UNTOLD)
    return entry


def _json(json: str, kind: str, masks: Masks) -> str:
    found = masks.masked({**msgspec.json.decode(json), "kind": kind})
    del found["kind"]
    return msgspec.json.encode(found).decode()


def _plain(part: Any, masks: Masks, uids: Set[str]) -> Any:
    """Return what is in a stimulus: names of nodes and claims in it are masked, and so are the words of messages."""
    if isinstance(part, str):
        return part if part in uids else masks.text(part)
    if isinstance(part, dict):
        return {_plain(key, masks, uids): _plain(each, masks, uids) for key, each in part.items()}
    return [_plain(each, masks, uids) for each in part] if isinstance(part, list) else part
