"""One object of a file, judged as a whole: its types first, and where these are right, the rules."""

from collections.abc import Iterator, Mapping
from typing import Any

from scheduler.whatif.documents import Document, plain
from scheduler.whatif.judging import rules
from scheduler.whatif.judging.schema import meant, misfits, schemas
from scheduler.whatif.templates import templates

_MOST = 20
_SELECTING = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")
_TEMPLATE = "&core.v1.PodTemplateSpec"


def judge(document: Document) -> list[str]:
    """What the API server would refuse, a line for each; empty for an object that it would take. Raises ObjectError."""
    kind, _, place = document
    found = plain(document)
    name = _name(found)
    where = f"{kind} {name}" if name else kind
    where = f"{place}: {where}" if place else where
    lines = list(_wrong({**found, "kind": kind}, kind))
    more = [f"{where}: and {len(lines) - _MOST} more"] if len(lines) > _MOST else []
    return [f"{where}: {line}" for line in lines[:_MOST]] + more


def _wrong(found: Mapping[str, Any], kind: str) -> Iterator[str]:
    known = _type_of(found, kind)
    if known is None:
        yield from _of_unknown_kind(found, kind)
        return
    wanted, problem = known
    if problem:
        yield problem
        return
    wrong = list(misfits(found, f"&{wanted}"))
    yield from wrong or _against_rules(found, kind)


def _type_of(found: Mapping[str, Any], kind: str) -> tuple[str, str] | None:
    """(the name of the kind's type, what is wrong with its apiVersion); None for a kind that is not ours to judge."""
    version = found.get("apiVersion")
    kinds = schemas().kinds
    own = [each.partition(" ")[0] for each in kinds if each.partition(" ")[2] == kind]
    if version is None and own:
        return "", "apiVersion: Required value"
    if not isinstance(version, str):
        return None
    if f"{version} {kind}" in kinds:
        return kinds[f"{version} {kind}"], ""
    same_group = [each for each in own if each.rpartition("/")[0] == version.rpartition("/")[0]]
    if version in schemas().served and not own:
        close = meant(kind, {each.partition(" ")[2] for each in kinds if each.startswith(f"{version} ")})
        return ("", f"kind: {kind}: unknown in {version}{close}") if close else None
    if own and (version in schemas().served or same_group) and not _beta(version):
        return "", f'apiVersion: "{version}": expected {" or ".join(own)} for a {kind}'
    return None


def _beta(version: str) -> bool:
    """Whether the version is an earlier one that is served, of which no type is kept."""
    return version in schemas().served and ("alpha" in version or "beta" in version)


def _of_unknown_kind(found: Mapping[str, Any], kind: str) -> Iterator[str]:
    """Of a custom kind only the templates of its pods are known."""
    for template in templates(kind, found):
        wrong = list(misfits(template.pod, _TEMPLATE, template.path))
        yield from wrong or rules.pod(template.pod, f"{template.path}.")
        yield from rules.counts(template.beside, template.path.rpartition(".")[0] or "spec")


def _against_rules(found: Mapping[str, Any], kind: str) -> Iterator[str]:
    if kind != "Pod":
        yield from rules.metadata(found.get("metadata") or {}, "metadata")
    spec = found.get("spec")
    if isinstance(spec, dict):
        yield from rules.counts(spec, "spec")
    for template in templates(kind, found):
        yield from rules.pod(template.pod, f"{template.path}." if template.path else "")
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


def _name(found: Mapping[str, Any]) -> str:
    metadata = found.get("metadata")
    if not isinstance(metadata, dict):
        return ""
    return str(metadata.get("name") or metadata.get("generateName") or "")
