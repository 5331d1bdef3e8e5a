"""Judges an object of a file: its types, fields that it has twice, and by the rules all that has the right types.

Rules say what types do not: label syntax, amounts that are not negative, what belongs together.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from podberth.apiserver.rules import names, podgroups, validation
from podberth.apiserver.rules.status import FieldError
from podberth.explain.judging.schema import Misfit, fitting, meant, said, schemas, type_of
from podberth.explain.objects.controllers import Template, made, templates
from podberth.explain.objects.documents import Document, ObjectError, located, plain
from podberth.model.kinds import Decoder
from podberth.model.pod_group import NATIVE, NATIVE_KIND
from podberth.model.quantity import parse_nano
from podberth.model.taints import COMPARISONS, Toleration
from podberth.plugins.taint_toleration import COMPARING


class _Pairs(list[tuple[str, Any]]):
    """A mapping as a list of its pairs, with repeated keys."""


def twice(raw: bytes) -> Iterator[str]:
    """Yield a line for each key that a mapping of a JSON text has twice. Raises ObjectError."""
    try:
        whole = json.loads(raw, object_pairs_hook=_Pairs)
    except RecursionError:
        raise ObjectError("is nested too deep") from None
    left: list[tuple[str, Any]] = [("", whole)]
    while left:
        path, value = left.pop()
        if isinstance(value, _Pairs):
            seen: set[str] = set()
            below = []
            for key, each in value:
                here = f"{path}.{key}" if path else key
                if key in seen:
                    yield f"{here}: is there twice"
                seen.add(key)
                below.append((here, each))
        elif isinstance(value, list):
            below = [(f"{path}[{i}]", each) for i, each in enumerate(value)]
        else:
            continue
        left += reversed(below)


_AMOUNTS = ("capacity", "allocatable")
_HIGHEST_PRIORITY = 1_000_000_000
_NOT_NEGATIVE = ("replicas", "parallelism", "completions", "backoffLimit", "minReadySeconds", "activeDeadlineSeconds")
_EXAMPLE = re.compile(r" \(e\.g\. .*\)$")
_SUPPORTED = "supported values: "

Object = Mapping[str, Any]


def _metadata(found: Object, path: str) -> Iterator[str]:
    """Yield the mistakes in an object's name and labels."""
    yield from _said(validation.labels(found.get("labels"), f"{path}.labels"))
    name = found.get("name")
    if name:
        for text in names.subdomain_errors(name):
            yield said(f"{path}.name", name, _plain(text))


def _pod(template: Object, path: str, *, wants_metadata: bool = True, comparing: bool = False) -> Iterator[str]:
    """Yield the mistakes in a well-typed pod or template. `comparing`: tolerations may say Gt and Lt."""
    spec = template.get("spec") or {}
    if wants_metadata:
        yield from _metadata(template.get("metadata") or {}, f"{path}metadata")
    wrong = validation.pod({**template, "spec": _with_images(spec)})
    yield from _said([error for error in wrong if not (comparing and _needs_comparing(error))], path)
    for i, toleration in enumerate(spec.get("tolerations") or () if comparing else ()):
        value = toleration.get("value", "")
        if toleration.get("operator") in COMPARISONS and Toleration(value=value).bound is None:
            yield said(f"{path}spec.tolerations[{i}].value", value, "expected a whole number of 64 bits")
    for where, container in _all_containers(spec):
        for j, port in enumerate(container.get("ports") or ()):
            for field in ("containerPort", "hostPort"):
                number = port.get(field)
                if number is not None and not 0 < number < 65536 and (number or field == "containerPort"):
                    yield said(f"{path}{where}.ports[{j}].{field}", number, "expected 1 to 65535")
    for name, amount in (spec.get("overhead") or {}).items():
        yield from _amount(f"{path}spec.overhead.{name}", amount)


def _counts(spec: Object, path: str) -> Iterator[str]:
    """Yield the mistakes in the numbers of a workload."""
    for field in _NOT_NEGATIVE:
        number = spec.get(field)
        if isinstance(number, int) and number < 0:
            yield said(f"{path}.{field}", number, "expected 0 or more")


def _restarts(template: Object, path: str, kind: str) -> Iterator[str]:
    """Yield what is wrong with the restartPolicy in a template: Jobs may not have Always, others have to."""
    if kind in ("Pod", "PodTemplate"):
        return
    wanted = ("OnFailure", "Never") if kind in ("Job", "CronJob") else ("Always",)
    policy = (template.get("spec") or {}).get("restartPolicy") or "Always"
    if policy not in wanted:
        yield said(f"{path}spec.restartPolicy", policy, f"expected {' or '.join(wanted)} in a {kind}")


def _selects_its_own(spec: Object, path: str) -> Iterator[str]:
    """Yield the mistakes in the selector of an apps/v1 workload, which has to select the pods of its template."""
    yield from _said(validation.label_selector(spec.get("selector"), f"{path}.selector"))
    selector = spec.get("selector")
    if isinstance(selector, dict) and not (selector.get("matchLabels") or selector.get("matchExpressions")):
        yield f"{path}.selector: expected labels: an empty selector is not allowed"
    given = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    for key, value in ((spec.get("selector") or {}).get("matchLabels") or {}).items():
        if given.get(key) != value:
            yield (
                f"{path}.template.metadata.labels[{key}]: expected {value}, which spec.selector asks for"
                f"{meant(key, given) if key not in given else ''}"
            )


def _node(found: Object) -> Iterator[str]:
    """Yield the mistakes in the amounts and taints of a node."""
    for part in _AMOUNTS:
        for name, amount in ((found.get("status") or {}).get(part) or {}).items():
            yield from _amount(f"status.{part}.{name}", amount)
    for i, taint in enumerate((found.get("spec") or {}).get("taints") or ()):
        for text in names.qualified_name_errors(taint.get("key", "")):
            yield said(f"spec.taints[{i}].key", taint.get("key", ""), _plain(text))
        if not taint.get("effect"):
            yield f"spec.taints[{i}].effect: Required value"


def _priority_class(found: Object) -> Iterator[str]:
    """Yield a mistake if a user's class has a priority above those that users may have."""
    value = found.get("value", 0)
    name = str((found.get("metadata") or {}).get("name", ""))
    if value > _HIGHEST_PRIORITY and not name.startswith("system-"):
        yield said("value", value, f"expected at most {_HIGHEST_PRIORITY}")


def _claim(found: Object, path: str) -> Iterator[str]:
    """Yield the mistakes in a volume claim's requests and access modes."""
    asked = ((found.get("spec") or {}).get("resources") or {}).get("requests") or {}
    if "storage" not in asked:
        yield f"{path}spec.resources.requests.storage: Required value"
    elif parse_nano(asked["storage"]) <= 0:
        yield said(f"{path}spec.resources.requests.storage", asked["storage"], "expected more than 0")
    if not (found.get("spec") or {}).get("accessModes"):
        yield f"{path}spec.accessModes: Required value"


def _pod_group(found: Object) -> Iterator[str]:
    """Yield the mistakes in a pod group of Kubernetes, if it can be read: what can't be is told when it is."""
    try:
        Decoder().of_kind(NATIVE_KIND)(json.dumps(found).encode())
    except (msgspec.MsgspecError, ValueError):
        return
    for error in podgroups.rules(dict(found)):
        if error.field.endswith(".minCount"):
            count = found["spec"]["schedulingPolicy"]["gang"].get("minCount")
            yield f"{error.field}: Required value" if count is None else said(error.field, count, "expected 1 or more")
        elif error.value == "":
            yield f"{error.field}: {error.detail.replace('`', '')}"
        else:
            yield from (text.replace("`", "") for text in _said([error]))
    constraints = (found.get("spec") or {}).get("schedulingConstraints") or {}
    where, topology = "spec.schedulingConstraints.topology", constraints.get("topology") or []
    if len(topology) > 1:
        yield f"{where}: {len(topology)} constraints: expected at most 1"
    for i, constraint in enumerate(topology):
        key = constraint.get("key")
        if not key:
            yield f"{where}[{i}].key: Required value"
        else:
            yield from (said(f"{where}[{i}].key", key, _plain(text)) for text in names.qualified_name_errors(key))


def _amount(path: str, amount: Any) -> Iterator[str]:
    if parse_nano(amount) < 0:
        yield said(path, amount, "expected 0 or more")


def _all_containers(spec: Object) -> Iterator[tuple[str, Any]]:
    for field in ("initContainers", "containers"):
        yield from ((f"spec.{field}[{i}]", container) for i, container in enumerate(spec.get(field) or ()))


def _with_images(spec: Object) -> dict[str, Any]:
    """Return the spec with an image for each container that has none, as admission may add it."""
    return {
        **spec,
        **{
            field: [{"image": "unknown", **container} for container in spec[field]]
            for field in ("containers", "initContainers")
            if spec.get(field)
        },
    }


def _said(errors: Iterable[FieldError], prefix: str = "") -> Iterator[str]:
    for error in errors:
        field = f"{prefix}{error.field}"
        if error.type == "Required":
            yield f"{field}: Required value{f': {error.detail}' if error.detail else ''}"
        elif error.type in ("Forbidden", "Duplicate"):
            yield f"{field}: {error.detail or 'is there twice'}"
        elif _needs_comparing(error):
            yield said(field, error.value, f"needs the feature gate {COMPARING}, which is off by default")
        else:
            detail = error.detail.replace(_SUPPORTED, "expected one of ").replace('"', "")
            yield said(field, error.value, _plain(detail))


def _needs_comparing(error: FieldError) -> bool:
    """Return whether an error is about a toleration operator that another feature gate allows."""
    return error.type == "NotSupported" and error.value in COMPARISONS and f'"{error.value}"' in error.detail


def _plain(text: str) -> str:
    return _EXAMPLE.sub("", text)


_MOST = 20
_SELECTING = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")
_METADATA = "&meta.v1.ObjectMeta"
_TEMPLATE = "&core.v1.PodTemplateSpec"
_MISSING = ": Required value"
_PATH = re.compile(r"[^:\s]+(?:\[[^\]]*\][^:\s]*)*")


def judge(document: Document, *, comparing: bool = False) -> list[str]:
    """Return the mistakes for which the API server would refuse an object, a line each; empty: it would accept it.

    `comparing`: as for `_pod`.
    """
    found = plain(document)
    lines = [*twice(bytes(document.raw)), *_wrong({**found, "kind": document.kind}, document.kind, comparing)]
    return _told(document, found, lines)


def mistyped(document: Document) -> list[str]:
    """Return the values of an object that nobody can read as what they should be, a line each; empty: there is none.

    Unknown fields and rules of the API server are not looked at.
    """
    found = plain(document)
    wanted, misfits = type_of(document.kind), list[Misfit]()
    if wanted:
        fitting(found, wanted, misfits, strict=False)
    else:
        fitting(found.get("metadata"), _METADATA, misfits, "metadata", strict=False)
        for template in templates(document.kind, found):
            fitting(template.pod, _TEMPLATE, misfits, template.path, strict=False)
    return _told(document, found, [misfit.text for misfit in misfits if not misfit.unknown])


def _told(document: Document, found: Mapping[str, Any], lines: list[str]) -> list[str]:
    """Return lines that say which object they are about, and how many more there are."""
    name = _name(found)
    where = located(document.place, f"{document.kind} {name}" if name else document.kind)
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
    """Yield the lines that are no consequences of what was left out."""
    places = [_steps(misfit.path) for misfit in misfits]
    for line in lines:
        path = _PATH.match(line)
        here = _steps(path[0]) if path else []
        missing = _MISSING in line
        if not any(here[: len(place)] == place or (missing and place[: len(here)] == here) for place in places):
            yield line


def _steps(path: str) -> list[str]:
    """Return `spec.containers[0].name` in parts."""
    return re.findall(r"[^.\[\]]+|\[[^\]]*\]", path)


def _type_of(found: Mapping[str, Any], kind: str) -> tuple[str, str]:
    """Return (the name of the kind's type, what is wrong with its apiVersion), each empty where there is none."""
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
    gone = version.startswith("extensions/")  # its kinds moved to other groups; dumps of old clusters may have them
    if own and (gone or version in schemas().served or same_group) and not _beta(version):
        return usual, f'apiVersion: "{version}": expected {" or ".join(own)} for a {kind}'
    return "", ""


def _beta(version: str) -> bool:
    """Return whether the version is an earlier one that is served, and of which no type is kept here."""
    return version in schemas().served and ("alpha" in version or "beta" in version)


def _of_unknown_kind(found: Mapping[str, Any], kind: str, comparing: bool) -> Iterator[str]:
    """Yield what is wrong with a custom object: only its metadata and its pod templates are known."""
    of_metadata: list[Misfit] = []
    fitting(found.get("metadata"), _METADATA, of_metadata, "metadata")
    yield from (misfit.text for misfit in of_metadata)
    yield from _unnamed(found)
    if kind == NATIVE_KIND and str(found.get("apiVersion", "")).startswith(f"{NATIVE}/"):
        yield from _pod_group(found)
    try:
        known = made(kind, found)
    except ObjectError as error:
        yield str(error)
        return
    for template in templates(kind, found) if known is None else known:
        misfits: list[Misfit] = []
        fits = fitting(template.pod, _TEMPLATE, misfits, template.path)
        yield from (misfit.text for misfit in misfits)
        yield from _besides(misfits, _pod(fits, f"{template.path}.", comparing=comparing))
        if isinstance(template, Template):
            yield from _counts(template.beside, template.path.rpartition(".")[0] or "spec")


def _against_rules(found: Mapping[str, Any], kind: str, comparing: bool) -> Iterator[str]:
    yield from _unnamed(found)
    if kind != "Pod":
        yield from _metadata(found.get("metadata") or {}, "metadata")
    spec = found.get("spec")
    if isinstance(spec, dict):
        yield from _counts(spec, "spec")
    for template in templates(kind, found):
        yield from _pod(template.pod, f"{template.path}." if template.path else "", comparing=comparing)
        yield from _restarts(template.pod, f"{template.path}.", kind)
    match kind:
        case "Node":
            yield from _node(found)
        case "PriorityClass":
            yield from _priority_class(found)
        case "PersistentVolumeClaim":
            yield from _claim(found, "")
        case kind if kind in _SELECTING and isinstance(spec, dict):
            yield from _selects_its_own(spec, "spec")
            for i, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
                yield from _claim(claim, f"spec.volumeClaimTemplates[{i}].")


def _unnamed(found: Mapping[str, Any]) -> Iterator[str]:
    if not _name(found):
        yield "metadata.name: Required value: expected a name, or generateName"


def _name(found: Mapping[str, Any]) -> str:
    metadata = found.get("metadata")
    if not isinstance(metadata, dict):
        return ""
    return str(metadata.get("name") or metadata.get("generateName") or "")
