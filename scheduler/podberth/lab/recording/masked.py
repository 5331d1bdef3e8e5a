"""Writes a recording a second time with the masks of `berth dump` in place of names.

Masks sort as the words do, and so all words have to be known: a recording is masked when it is read. Messages and
addresses of extenders are left out; placements are the same, so a masked recording can be verified by them.
"""

from collections.abc import Iterator, Mapping
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
from podberth.lab.recording.log import File, LogError, segments
from podberth.lab.recording.reading import frames_of
from podberth.lab.recording.verify import STIMULI

_UNTOLD = "a message that is masked"
_ADDRESS = "http://extender-that-is-masked"
_MALFORMED = (AttributeError, LookupError, TypeError, ValueError)
_SHOWN = frozenset(("uid", "victim", "question", "status", "quietly", "api", "followed", "profile", "plugin"))
"""The fields of stimuli that hold no names but those of APIs, profiles and plugins."""


def write_masked(directory: Path, to: Path) -> int:
    """Write all that can be read to another directory; return the number of entries. Raises LogError, OSError."""
    held = segments(directory)
    try:
        masks = Masks(each for path in held for frame in frames_of(path) for entry in frame for each in _named(entry))
    except _MALFORMED as error:
        raise LogError(f"is damaged: {type(error).__name__}: {error}") from None
    to.mkdir(mode=0o700, parents=True, exist_ok=True)
    written = 0
    for path in held:
        file = File(to / path.name)
        try:
            for frame in frames_of(path):
                try:
                    entries = [_masked(entry, masks) for entry in frame]
                except _MALFORMED as error:
                    raise LogError(f"{path.name}: is damaged: {type(error).__name__}: {error}") from None
                for content in packed(entries):
                    file.write(content)
                written += len(frame)
        finally:
            file.close()
    return written


def _named(entry: AnyEntry) -> Iterator[Mapping[str, Any]]:
    """Yield what is named in an entry, as objects whose texts are masked."""
    match entry:
        case Head():
            yield from _added(entry.configuration)
        case Told(name="Configured"):
            for each in entry.what:
                yield from _added(each)
        case Template() | PutObject() if entry.json:
            yield msgspec.json.decode(entry.json)
        case PutPod():
            yield {"labels": entry.labels, "owner": list(entry.owner or ()), "name": entry.name}
            yield {"nodes": [entry.node_name, entry.nominated_node_name]}


def _added(configuration: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the node affinities that a configuration adds to that of pods."""
    for profile in configuration.get("profiles") or ():
        for of_plugin in profile.get("pluginConfig") or ():
            yield {"addedAffinity": (of_plugin.get("args") or {}).get("addedAffinity")}


def _masked(entry: AnyEntry, masks: Masks) -> AnyEntry:
    match entry:
        case Head():
            return replace(entry, masked=True, configuration=_configuration(entry.configuration, masks))
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
        case Told(name="Configured"):
            return replace(entry, what=[_configuration(each, masks) for each in entry.what])
        case Told(name=name) if name in STIMULI:
            fields = [field for field in STIMULI[name].__struct_fields__ if field != "call"]
            what = [_of_stimulus(name, *each, masks) for each in zip(fields, entry.what, strict=True)]
            return replace(entry, what=what)
        case Placed() | Preempts():
            return replace(entry, node=masks.text(entry.node))
        case Failed():
            return replace(entry, message=_UNTOLD)
    return entry


def _json(json: str, kind: str, masks: Masks) -> str:
    found = masks.masked({**msgspec.json.decode(json), "kind": kind})
    del found["kind"]
    return msgspec.json.encode(found).decode()


def _configuration(given: dict[str, Any], masks: Masks) -> dict[str, Any]:
    """Return a configuration without addresses of extenders; values of the labels in addedAffinity are masked."""
    made = dict(given)
    if given.get("extenders"):
        made["extenders"] = [{**each, "urlPrefix": _ADDRESS} for each in given["extenders"]]
    if given.get("profiles"):
        made["profiles"] = [
            {**each, "pluginConfig": [_arguments(of_plugin, masks) for of_plugin in each["pluginConfig"]]}
            if each.get("pluginConfig")
            else each
            for each in given["profiles"]
        ]
    return made


def _arguments(of_plugin: dict[str, Any], masks: Masks) -> dict[str, Any]:
    args = of_plugin.get("args") or {}
    if not args.get("addedAffinity"):
        return of_plugin
    return {**of_plugin, "args": {**args, **masks.masked({"addedAffinity": args["addedAffinity"]})}}


def _of_stimulus(name: str, field: str, value: Any, masks: Masks) -> Any:
    """Return what a field of a stimulus says, as `podberth.lab.recording.verify.Twin` reads it."""
    match field:
        case "written":
            return [[_key(key, masks), version] for key, version in value]
        case "writes":
            return [_key(key, masks) for key in value]
        case "answer" if name == "ExtendersAnswered" and "kept" in value:
            return {
                "kept": [masks.text(node) for node in value["kept"]],
                **{why: {masks.text(node): _UNTOLD for node in value[why]} for why in ("failed", "unresolvable")},
                "scores": [_scores(each, masks) for each in value["scores"]],
            }
        case "answer" if name == "ExtendersAnswered":
            return {masks.text(node): victims for node, victims in value.items()}
        case _ if field in _SHOWN:
            return value
    return value if value is None or isinstance(value, (bool, int, float)) else _UNTOLD


def _scores(given: dict[str, Any], masks: Masks) -> dict[str, Any]:
    by_node = {masks.text(node): score for node, score in given["by_node"].items()}
    return {**given, "extender": _ADDRESS, "by_node": by_node}


def _key(key: list[str], masks: Masks) -> list[str]:
    """Return the key of an object that was written."""
    kind, namespace, name = key
    return [kind, masks.text(namespace), masks.text(name)]
