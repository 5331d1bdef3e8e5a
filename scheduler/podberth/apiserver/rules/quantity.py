"""Quantities: exact parsing, the canonical text that a real API server gives back, and what the containers of a pod
ask for together.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from typing import Any

from podberth.apiserver.rules.status import JsonObject

GRAMMAR = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
SUFFIX = "unable to parse quantity's suffix"
NANO = 10**9
MILLI = 10**6

_NUMBER = re.compile(r"([+-]?)(\d+(?:\.\d*)?|\.\d+|(?=[A-Za-z]))(.*)", re.DOTALL)
_EXPONENT = re.compile(r"[eE]([+-]?\d+)")
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_TEXT = ["", *_BINARY]
_DECIMAL_TEXT = {power: suffix for suffix, power in _DECIMAL.items()}
HUGE_PAGES = "hugepages-"


@lru_cache(maxsize=8192)
def parse(text: str) -> tuple[int, str]:
    """Return the value in 10⁻⁹ units, rounded away from zero, and the family it was written in: binary, decimal,
    exponent.
    """
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise ValueError(GRAMMAR)
    sign, digits, suffix = match.groups()
    family = "decimal"
    if suffix in _BINARY:
        factor = Fraction(1024 ** _BINARY[suffix])
        family = "binary"
    elif suffix in _DECIMAL:
        factor = Fraction(10) ** _DECIMAL[suffix]
    elif exponent := _EXPONENT.fullmatch(suffix):
        # An exponent outside int32 is refused upstream; one beyond 300 would only cost time here.
        if abs(int(exponent[1])) > 300:
            raise ValueError(GRAMMAR)
        factor = Fraction(10) ** int(exponent[1])
        family = "exponent"
    else:
        # Letters of the grammar in an order that means nothing are told apart from other letters.
        raise ValueError(SUFFIX if re.fullmatch(r"[eEinumkKMGTP]*[-+]?[0-9]*", suffix) else GRAMMAR)
    # No digits before a suffix are zero to the real parser.
    scaled = Fraction(digits or 0) * factor * NANO
    nano = -(-scaled.numerator // scaled.denominator)
    return (-nano if sign == "-" else nano), family


@lru_cache(maxsize=8192)
def canonical(text: str) -> str:
    """Return the shortest text without loss, in the family the writer chose."""
    return _written(*parse(text))


def _written(nano: int, family: str) -> str:
    if nano == 0:
        return "0"
    sign, size = ("-" if nano < 0 else ""), abs(nano)
    if family == "binary" and size >= 1024 * NANO and size % NANO == 0:
        units, power = size // NANO, 0
        while units % 1024 == 0 and power < 6:
            units, power = units // 1024, power + 1
        return f"{sign}{units}{_BINARY_TEXT[power]}"
    units, exponent = size, -9
    while units % 1000 == 0 and exponent < 18:
        units, exponent = units // 1000, exponent + 3
    if family == "exponent":
        return f"{sign}{units}" + (f"e{exponent}" if exponent else "")
    return f"{sign}{units}{_DECIMAL_TEXT[exponent]}"


def text_of(value: Any) -> str:
    """Return a quantity as it may stand in JSON: text or a bare number."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    raise ValueError(GRAMMAR)


def shown(value: Any) -> str:
    """Return a quantity as it stands in JSON in its canonical text."""
    return canonical(text_of(value))


@lru_cache(maxsize=8192)
def _in_a_list(text: str) -> str:
    """Resource lists know nothing finer than a thousandth (SetDefaults_ResourceList)."""
    nano_units, family = parse(text)
    if nano_units % MILLI == 0:
        return canonical(text)
    size = -(-abs(nano_units) // MILLI)
    rounded = canonical(f"{size}e-3" if family == "exponent" else f"{size}m")
    return f"-{rounded}" if nano_units < 0 else rounded


def canonicalise(amounts: dict[str, Any]) -> None:
    """Rewrite a resource list in place to canonical texts; raises ValueError for what is no quantity."""
    for name, value in amounts.items():
        amounts[name] = _in_a_list(text_of(value))


def add(first: Any, second: Any) -> str:
    """Return the sum of two, written as the first one is unless that is zero (Quantity.Add)."""
    (one, family), (other, others) = parse(text_of(first)), parse(text_of(second))
    return _written(one + other, family if one else others)


def times(amount: Any, number: int) -> str:
    """Return `number` times an amount, written as that is."""
    one, family = parse(text_of(amount))
    return _written(one * number, family)


def nano(amounts: dict[str, Any] | None, name: str) -> int:
    """Return one entry of a resource list in 10⁻⁹ units; absent is zero."""
    value = (amounts or {}).get(name)
    return 0 if value is None else parse(text_of(value))[0]


def containers(spec: JsonObject) -> Iterator[JsonObject]:
    """Yield all containers that are not ephemeral, init containers first."""
    yield from spec.get("initContainers") or []
    yield from spec.get("containers") or []


def overcommitted(name: str) -> bool:
    """Return whether more of a resource may be allowed than is asked for (helper.IsOvercommitAllowed)."""
    return ("/" not in name or "kubernetes.io/" in name) and not name.startswith(HUGE_PAGES)


def at_pod_level(name: str) -> bool:
    """Return whether a resource may be asked for by the pod as a whole (IsSupportedPodLevelResource)."""
    return name in ("cpu", "memory") or name.startswith(HUGE_PAGES)


def is_set(spec: JsonObject) -> bool:
    """Return whether the pod asks for anything as a whole (IsPodLevelResourcesSet)."""
    resources = spec.get("resources") or {}
    return bool(resources.get("requests") or resources.get("limits"))


def aggregated(spec: JsonObject, part: str) -> JsonObject:
    """Return the `requests` or `limits` of all containers: those side by side, or a larger init container's."""
    total = _sum([_of(each, part) for each in spec.get("containers") or []])
    sidecars: JsonObject = {}
    most: JsonObject = {}
    for each in spec.get("initContainers") or []:
        sidecar = each.get("restartPolicy") == "Always"
        here = _sum([_of(each, part), sidecars])
        if sidecar:
            total, sidecars = _sum([total, _of(each, part)]), here
        most = _larger(most, here)
    return _larger(total, most)


def default_pod_level(spec: JsonObject) -> None:
    """Complete pod-level resources by what containers ask for, and by each other."""
    if not is_set(spec):
        return
    resources = spec["resources"]
    limits, requests = dict(resources.get("limits") or {}), dict(resources.get("requests") or {})
    of_containers = aggregated(spec, "limits")
    for name, amount in of_containers.items():
        if name.startswith(HUGE_PAGES) and name not in requests:
            limits.setdefault(name, amount)
    for name, amount in aggregated(spec, "requests").items():
        if at_pod_level(name) and overcommitted(name):
            requests.setdefault(name, amount)
    for name, amount in limits.items():
        if at_pod_level(name):
            requests.setdefault(name, amount)
    everywhere = set.intersection(*(set(_of(each, "limits")) for each in containers(spec)), set(requests))
    for name in sorted(everywhere - limits.keys()):
        if at_pod_level(name):
            limits[name] = _larger({name: of_containers[name]}, {name: requests[name]})[name]
    for part, amounts in (("limits", limits), ("requests", requests)):
        if amounts:
            resources[part] = amounts


def _of(container: JsonObject, part: str) -> JsonObject:
    found: JsonObject = (container.get("resources") or {}).get(part) or {}
    return found


def _sum(lists: list[JsonObject]) -> JsonObject:
    found: JsonObject = {}
    for amounts in lists:
        for name, amount in amounts.items():
            found[name] = add(found[name], amount) if name in found else amount
    return found


def _larger(first: JsonObject, second: JsonObject) -> JsonObject:
    found = dict(first)
    for name, amount in second.items():
        if name not in found or nano(second, name) > nano(found, name):
            found[name] = amount
    return found
