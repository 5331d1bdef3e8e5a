"""Writes a recording a second time, if asked to with the masks of `berth dump` in place of names.

Masks sort as the words do, and so all words have to be known: a recording is masked when it is read. Messages are left
out; placements are the same, so a masked recording can be verified by them.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from podberth.explain.objects.dump import Masks
from podberth.lab.recording.entries import Kind, decoder, encoder
from podberth.lab.recording.log import Limits, Log, To
from podberth.lab.recording.reading import Recording

_UNTOLD = "a message that is masked"
_SAME = frozenset(("CSIDriver", "DeviceClass"))


def write_copy(recording: Recording, to: Path, *, mask: bool) -> int:
    """Write all that can be read to another directory; return the number of entries. Raises LogError, OSError."""
    masks = None
    if mask:
        masks = Masks(
            each for frames in _files(recording) for frame in frames for each in _named(decoder.decode(frame))
        )
    log = Log(to, Limits(size=1 << 62, age=1e12), patience=3600.0)
    written = 0
    for number, segment in enumerate(recording.segments):
        if number:
            log.put(To.NEXT_SEGMENT)
        if segment.state.exists():
            for frame in segment.known():
                log.put(To.STATE, encoder.encode([_masked(entry, masks) for entry in decoder.decode(frame)]))
            log.put(To.STATE_ENDS)
        for frame in segment.frames():
            entries = [_masked(entry, masks) for entry in decoder.decode(frame)]
            written += len(entries)
            log.put(To.LOG, encoder.encode(entries))
    log.close(3600.0)
    if log.error is not None:
        raise OSError(0, log.error)
    return written


def _files(recording: Recording) -> Iterator[Iterator[bytes]]:
    for segment in recording.segments:
        if segment.state.exists():
            yield segment.known()
        yield segment.frames()


def _named(entries: list[list[Any]]) -> Iterator[dict[str, Any]]:
    """Yield what is named in entries, as objects whose texts are masked."""
    for entry in entries:
        match Kind(entry[0]):
            case Kind.TEMPLATE:
                yield msgspec.json.decode(entry[1])
            case Kind.OBJECT:
                yield msgspec.json.decode(entry[5])
            case Kind.LABELS:
                yield entry[1]
            case Kind.TEXT:
                yield {"name": entry[1]}
            case Kind.POD:
                yield {"name": entry[6]}


def _masked(entry: list[Any], masks: Masks | None) -> list[Any]:
    if masks is None:
        return entry
    kind = Kind(entry[0])
    match kind:
        case Kind.HEAD:
            return [kind, {**entry[1], "masked": True}]
        case Kind.TEMPLATE:
            return [kind, _json(entry[1], "Pod", masks)]
        case Kind.OBJECT:
            return [*entry[:5], _json(entry[5], entry[3], masks)]
        case Kind.OBJECT_AGAIN | Kind.OBJECT_GONE:
            at = 3 if kind is Kind.OBJECT_AGAIN else 2
            name = entry[at + 2] if entry[at] in _SAME else masks.text(entry[at + 2])
            return [*entry[: at + 1], masks.text(entry[at + 1]), name, *entry[at + 3 :]]
        case Kind.LABELS:
            return [kind, {key: masks.text(value) for key, value in entry[1].items()}]
        case Kind.TEXT:
            return [kind, masks.text(entry[1])]
        case Kind.MESSAGE:
            return [kind, _UNTOLD]
        case Kind.POD:
            return [*entry[:6], masks.text(entry[6]), *entry[7:]]
        case Kind.STIMULUS:
            return [*entry[:3], *(_plain(part, masks) for part in entry[3:])]
    return entry


def _json(json: bytes, kind: str, masks: Masks) -> bytes:
    found = masks.masked({**msgspec.json.decode(json), "kind": kind})
    del found["kind"]
    return msgspec.json.encode(found)


def _plain(part: Any, masks: Masks) -> Any:
    """Return a part of a rarer stimulus: names of claims in it are masked, and so are messages."""
    if isinstance(part, str):
        return masks.text(part)
    return [_plain(each, masks) for each in part] if isinstance(part, list) else part
