"""Changes of a cluster in the order in which they were seen. `berth shadow` follows them, and may keep them in a file.

A file has one line of JSON for the recording, then one for each change: an object that came or changed, one that is
gone, or the moment from which on everything is known.
"""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from podberth.explain.objects.documents import ObjectError, lowered
from podberth.explain.objects.dump import smallest

VERSION = 1
NOTHING = Raw()
KIND = "ShadowRecording"


class Recording(Struct, rename="camel", kw_only=True, omit_defaults=True):
    """The first line of a file. `of`: the scheduler that was followed; `began`: seconds since the epoch."""

    kind: str = ""
    version: int = 0
    of: str = ""
    began: float = 0.0
    masked: bool = False


class Change(Struct, kw_only=True, omit_defaults=True):
    """`at`: seconds since the recording began. One of `object`, `gone` (namespace, name, uid) and `synced` is set.

    `listed`: it comes from a list, not from a watch, so that what happened in between was not seen.
    """

    at: float = 0.0
    kind: str = ""
    object: Raw = NOTHING
    gone: tuple[str, str, str] | None = None
    synced: bool = False
    listed: bool = False

    @property
    def is_put(self) -> bool:
        """Return whether an object was added or changed."""
        return self.gone is None and not self.synced


_recording = msgspec.json.Decoder(Recording)
_change = msgspec.json.Decoder(Change)


def first_line(of: str, began: float, *, masked: bool) -> bytes:
    """Return the first line of a file, without its end."""
    return msgspec.json.encode(Recording(kind=KIND, version=VERSION, of=of, began=began, masked=masked))


def read_first(line: bytes) -> Recording:
    """Return the header in the first line. Raises ObjectError if this is no recording."""
    try:
        found = _recording.decode(line)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        found = Recording()
    if found.kind != KIND:
        raise ObjectError("expected what berth shadow --record writes")
    if found.version != VERSION:
        raise ObjectError(f"version: {found.version}: expected {VERSION}; another release of Berth has written it")
    return found


def line_of(change: Change) -> bytes:
    """Return a change as a line, without its end, and without what no decision reads. Raises ObjectError."""
    kept = NOTHING
    if change.is_put:
        found = smallest({**msgspec.json.decode(change.object), "kind": change.kind.partition(".")[0]})
        kept = NOTHING if found is None else Raw(msgspec.json.encode(found))
    return msgspec.json.encode(replace(change, at=round(change.at, 6), object=kept))


def read_line(line: bytes) -> Change:
    """Return the change that a line holds. Raises ObjectError."""
    try:
        return _change.decode(line)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ObjectError(f"expected a change of a recording: {lowered(error)}") from None


def objects_of(line: bytes) -> dict[str, Any]:
    """Return the names in a line, for masks: its object, or the name of what is gone."""
    change = _change.decode(line)
    if change.gone is not None:
        return {"namespace": change.gone[0], "name": change.gone[1]}
    return msgspec.json.decode(change.object) if change.object else {}


def masked(line: bytes, mask: Callable[[dict[str, Any]], dict[str, Any]], text: Callable[[str], str]) -> bytes:
    """Return a line with masked names. `mask`: of an object; `text`: of a name."""
    change = _change.decode(line)
    if change.object:
        change.object = Raw(msgspec.json.encode(mask(msgspec.json.decode(change.object))))
    if change.gone is not None:
        namespace, name, uid = change.gone
        change.gone = (text(namespace), text(name) if change.kind not in ("CSIDriver", "DeviceClass") else name, uid)
    return msgspec.json.encode(change)
