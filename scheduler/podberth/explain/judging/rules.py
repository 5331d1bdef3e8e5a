"""Rules that types do not say: label syntax, amounts that are not negative, what belongs together.

Those of a pod are the ones that the embedded API server holds pods to, which the real one confirms
(`tests/contract/`); here are those of what makes pods.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from podberth.apiserver import names, podvalidation
from podberth.apiserver.status import FieldError
from podberth.explain.judging.schema import meant, said
from podberth.model.quantity import parse_nano
from podberth.model.taints import COMPARISONS, Toleration
from podberth.plugins.taint_toleration import COMPARING

_AMOUNTS = ("capacity", "allocatable")
_HIGHEST_PRIORITY = 1_000_000_000
_NOT_NEGATIVE = ("replicas", "parallelism", "completions", "backoffLimit", "minReadySeconds", "activeDeadlineSeconds")
_EXAMPLE = re.compile(r" \(e\.g\. .*\)$")
_SUPPORTED = "supported values: "

Object = Mapping[str, Any]


def metadata(found: Object, path: str) -> Iterator[str]:
    """Names and labels."""
    yield from _said(podvalidation.labels(found.get("labels"), f"{path}.labels"))
    name = found.get("name")
    if name:
        for text in names.subdomain_errors(name):
            yield said(f"{path}.name", name, _plain(text))


def pod(template: Object, path: str, *, wants_metadata: bool = True, comparing: bool = False) -> Iterator[str]:
    """A pod, or a template of one. Its fields are of the right types. `comparing`: tolerations may say Gt and Lt."""
    spec = template.get("spec") or {}
    if wants_metadata:
        yield from metadata(template.get("metadata") or {}, f"{path}metadata")
    wrong = podvalidation.pod({**template, "spec": _with_images(spec)})
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


def counts(spec: Object, path: str) -> Iterator[str]:
    """Numbers of a workload."""
    for field in _NOT_NEGATIVE:
        number = spec.get(field)
        if isinstance(number, int) and number < 0:
            yield said(f"{path}.{field}", number, "expected 0 or more")


def restarts(template: Object, path: str, kind: str) -> Iterator[str]:
    """Yield when the containers of a workload's pods are started again: of jobs not always, of others always."""
    if kind in ("Pod", "PodTemplate"):
        return
    wanted = ("OnFailure", "Never") if kind in ("Job", "CronJob") else ("Always",)
    policy = (template.get("spec") or {}).get("restartPolicy") or "Always"
    if policy not in wanted:
        yield said(f"{path}spec.restartPolicy", policy, f"expected {' or '.join(wanted)} in a {kind}")


def selects_its_own(spec: Object, path: str) -> Iterator[str]:
    """A workload of apps/v1 has to select the pods of its own template."""
    yield from _said(podvalidation.label_selector(spec.get("selector"), f"{path}.selector"))
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


def node(found: Object) -> Iterator[str]:
    """Amounts and taints."""
    for part in _AMOUNTS:
        for name, amount in ((found.get("status") or {}).get(part) or {}).items():
            yield from _amount(f"status.{part}.{name}", amount)
    for i, taint in enumerate((found.get("spec") or {}).get("taints") or ()):
        for text in names.qualified_name_errors(taint.get("key", "")):
            yield said(f"spec.taints[{i}].key", taint.get("key", ""), _plain(text))
        if not taint.get("effect"):
            yield f"spec.taints[{i}].effect: Required value"


def priority_class(found: Object) -> Iterator[str]:
    """A user's class stays below those of the system."""
    value = found.get("value", 0)
    name = str((found.get("metadata") or {}).get("name", ""))
    if value > _HIGHEST_PRIORITY and not name.startswith("system-"):
        yield said("value", value, f"expected at most {_HIGHEST_PRIORITY}")


def claim(found: Object, path: str) -> Iterator[str]:
    """A claim's request."""
    asked = ((found.get("spec") or {}).get("resources") or {}).get("requests") or {}
    if "storage" not in asked:
        yield f"{path}spec.resources.requests.storage: Required value"
    elif parse_nano(asked["storage"]) <= 0:
        yield said(f"{path}spec.resources.requests.storage", asked["storage"], "expected more than 0")
    if not (found.get("spec") or {}).get("accessModes"):
        yield f"{path}spec.accessModes: Required value"


def _amount(path: str, amount: Any) -> Iterator[str]:
    if parse_nano(amount) < 0:
        yield said(path, amount, "expected 0 or more")


def _all_containers(spec: Object) -> Iterator[tuple[str, Any]]:
    for field in ("initContainers", "containers"):
        yield from ((f"spec.{field}[{i}]", container) for i, container in enumerate(spec.get(field) or ()))


def _with_images(spec: Object) -> dict[str, Any]:
    """The spec as its rules are judged: who tries where pods go may leave out images, as admission may add them."""
    return {
        **spec,
        **{
            field: [{"image": "unknown", **container} for container in spec[field]]
            for field in ("containers", "initContainers")
            if spec.get(field)
        },
    }


def _said(errors: Sequence[FieldError], prefix: str = "") -> Iterator[str]:
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
    """Return whether a toleration is refused for an operator that another gate allows."""
    return error.type == "NotSupported" and error.value in COMPARISONS and f'"{error.value}"' in error.detail


def _plain(text: str) -> str:
    return _EXAMPLE.sub("", text)
