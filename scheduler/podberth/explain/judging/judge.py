"""One object of a file, judged as a whole: its types, and by the rules as much of it as has the right types."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from podberth.explain.controllers import made
from podberth.explain.documents import Document, ObjectError, plain
from podberth.explain.judging import rules
from podberth.explain.judging.schema import Misfit, fitting, meant, said, schemas
from podberth.explain.judging.twice import twice
from podberth.explain.templates import Template, templates

_MOST = 20
_SELECTING = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")
_METADATA = "&meta.v1.ObjectMeta"
_TEMPLATE = "&core.v1.PodTemplateSpec"
_MISSING = ": Required value"
_PATH = re.compile(r"[^:\s]+(?:\[[^\]]*\][^:\s]*)*")


def judge(document: Document, *, comparing: bool = False) -> list[str]:
    """Return what the API server would refuse, a line for each; empty for an object that it would take. Raises
    ObjectError.

    `comparing`: as for `rules.pod`.
    """
    kind, _, place = document
    found = plain(document)
    name = _name(found)
    where = f"{kind} {name}" if name else kind
    where = f"{place}: {where}" if place else where
    lines = [*twice(bytes(document.raw)), *_wrong({**found, "kind": kind}, kind, comparing)]
    more = [f"{where}: and {len(lines) - _MOST} more"] if len(lines) > _MOST else []
    return [f"{where}: {line}" for line in lines[:_MOST]] + more


def _wrong(found: Mapping[str, Any], kind: str, comparing: bool) -> Iterator[str]:
    wanted, problem = _type_of(found, kind)
    if problem:
        yield problem
    if not wanted:
        yield from _of_unknown_kind(found, kind, comparing)
        return
    misfits: list[Misfit] = []
    fits = fitting(found, f"&{wanted}", misfits)
    yield from (misfit.text for misfit in misfits)
    yield from _besides(misfits, _against_rules(fits, kind, comparing))


def _besides(misfits: Iterable[Misfit], lines: Iterable[str]) -> Iterator[str]:
    """Lines about other places than those where something is left out: what they say is because of that."""
    places = [_steps(misfit.path) for misfit in misfits]
    for line in lines:
        path = _PATH.match(line)
        here = _steps(path[0]) if path else []
        missing = _MISSING in line
        if not any(here[: len(place)] == place or (missing and place[: len(here)] == here) for place in places):
            yield line


def _steps(path: str) -> list[str]:
    """`spec.containers[0].name` in parts."""
    return re.findall(r"[^.\[\]]+|\[[^\]]*\]", path)


def _type_of(found: Mapping[str, Any], kind: str) -> tuple[str, str]:
    """(the name of the kind's type, what is wrong with its apiVersion), each empty where there is none."""
    version = found.get("apiVersion")
    kinds = schemas().kinds
    own = [each.partition(" ")[0] for each in kinds if each.partition(" ")[2] == kind]
    usual = kinds[f"{own[0]} {kind}"] if own else ""
    if version in (None, "") and own:
        return usual, "apiVersion: Required value"
    if version is not None and not isinstance(version, str):
        return usual, "" if usual else said("apiVersion", version, "expected text")
    if version is None:
        return "", ""
    if f"{version} {kind}" in kinds:
        return kinds[f"{version} {kind}"], ""
    same_group = [each for each in own if each.rpartition("/")[0] == version.rpartition("/")[0]]
    if version in schemas().served and not own:
        close = meant(kind, {each.partition(" ")[2] for each in kinds if each.startswith(f"{version} ")})
        return "", f"kind: {kind}: unknown in {version}{close}" if close else ""
    if own and (version in schemas().served or same_group) and not _beta(version):
        return usual, f'apiVersion: "{version}": expected {" or ".join(own)} for a {kind}'
    return "", ""


def _beta(version: str) -> bool:
    """Return whether the version is an earlier one that is served, of which no type is kept."""
    return version in schemas().served and ("alpha" in version or "beta" in version)


def _of_unknown_kind(found: Mapping[str, Any], kind: str, comparing: bool) -> Iterator[str]:
    """Yield what is wrong with a custom object: only its metadata and its pod templates are known."""
    of_metadata: list[Misfit] = []
    fitting(found.get("metadata"), _METADATA, of_metadata, "metadata")
    yield from (misfit.text for misfit in of_metadata)
    yield from _unnamed(found)
    try:
        known = made(kind, found)
    except ObjectError as error:
        yield str(error)
        return
    for template in templates(kind, found) if known is None else known:
        misfits: list[Misfit] = []
        fits = fitting(template.pod, _TEMPLATE, misfits, template.path)
        yield from (misfit.text for misfit in misfits)
        yield from _besides(misfits, rules.pod(fits, f"{template.path}.", comparing=comparing))
        if isinstance(template, Template):
            yield from rules.counts(template.beside, template.path.rpartition(".")[0] or "spec")


def _against_rules(found: Mapping[str, Any], kind: str, comparing: bool) -> Iterator[str]:
    yield from _unnamed(found)
    if kind != "Pod":
        yield from rules.metadata(found.get("metadata") or {}, "metadata")
    spec = found.get("spec")
    if isinstance(spec, dict):
        yield from rules.counts(spec, "spec")
    for template in templates(kind, found):
        yield from rules.pod(template.pod, f"{template.path}." if template.path else "", comparing=comparing)
        yield from rules.restarts(template.pod, f"{template.path}.", kind)
    match kind:
        case "Node":
            yield from rules.node(found)
        case "PriorityClass":
            yield from rules.priority_class(found)
        case "PersistentVolumeClaim":
            yield from rules.claim(found, "")
        case kind if kind in _SELECTING and isinstance(spec, dict):
            yield from rules.selects_its_own(spec, "spec")
            for i, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
                yield from rules.claim(claim, f"spec.volumeClaimTemplates[{i}].")


def _unnamed(found: Mapping[str, Any]) -> Iterator[str]:
    if not _name(found):
        yield "metadata.name: Required value: expected a name, or generateName"


def _name(found: Mapping[str, Any]) -> str:
    metadata = found.get("metadata")
    if not isinstance(metadata, dict):
        return ""
    return str(metadata.get("name") or metadata.get("generateName") or "")
