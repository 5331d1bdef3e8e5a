"""Single pods at their largest, none of which was placed before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from bench.crowd import HOST, ZONE
from bench.hostile.scenario import Scenario, Write, put
from bench.hostile.town import PREFERRED, REQUIRED, TENANT, Object, pod


def _one(make: Callable[[], Object]) -> Callable[[int], Iterator[Write]]:
    return lambda nodes: iter((put(make()),))


def spec_of(name: str, spec: Object) -> Object:
    """The hostile tenant's pod with this spec."""
    return pod(name, TENANT, {"app": name}, spec)


def anti(terms: list[Object], name: str = "worst") -> Object:
    """A pod with these terms of required anti-affinity."""
    return spec_of(name, {"affinity": {"podAntiAffinity": {REQUIRED: terms}}})


def term(key: str, operator: str, values: list[str] | None = None, per: str = HOST, **more: Any) -> Object:
    """A term with one requirement, for pods of all namespaces."""
    requirement: Object = {"key": key, "operator": operator}
    if values is not None:
        requirement["values"] = values
    selector = {"matchExpressions": [requirement]}
    return {"topologyKey": per, "labelSelector": selector, "namespaceSelector": {}, **more}


def weighted(terms: list[Object]) -> list[Object]:
    """As preferred terms."""
    return [{"weight": 1 + i % 100, "podAffinityTerm": one} for i, one in enumerate(terms)]


def not_in(count: int, name: str = "worst") -> Object:
    """S1: every term selects every pod there is."""
    return anti([term("zz", "NotIn", [f"x{i}"]) for i in range(count)], name)


def _spread(count: int) -> Object:
    return spec_of(
        "worst",
        {
            "topologySpreadConstraints": [
                {
                    "maxSkew": 1 + i,
                    "topologyKey": f"{'k' * (i % 40)}{i}.example/key" if i % 2 else HOST,
                    "whenUnsatisfiable": "ScheduleAnyway",
                    "labelSelector": {"matchExpressions": [{"key": "zz", "operator": "NotIn", "values": [f"x{i}"]}]},
                }
                for i in range(count)
            ]
        },
    )


def _node_affinity(count: int) -> Object:
    terms = [
        {"matchExpressions": [{"key": HOST, "operator": "In", "values": [f"node-{i}-{k}" for k in range(20)]}]}
        for i in range(count)
    ]
    return spec_of("worst", {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}})


SCENARIOS = [
    Scenario(
        "pod-anti-notin-700",
        "Pod",
        "700 terms of required anti-affinity, each selecting every pod of all namespaces (S1)",
        _one(lambda: not_in(700)),
    ),
    Scenario(
        "pod-preferred-notin-700",
        "Pod",
        "the same 700 terms, preferred",
        _one(
            lambda: spec_of(
                "worst",
                {
                    "affinity": {
                        "podAntiAffinity": {
                            PREFERRED: weighted([term("zz", "NotIn", [f"x{i}"]) for i in range(700)]),
                        }
                    }
                },
            )
        ),
    ),
    Scenario(
        "pod-anti-notin-8000",
        "Pod",
        "as many such terms as 1.5 MB hold: 8,000",
        _one(lambda: not_in(8_000)),
    ),
    Scenario(
        "pod-affinity-exists-700",
        "Pod",
        "700 terms of required affinity, each with a zone key and `app Exists` and 50 namespaces named",
        _one(
            lambda: spec_of(
                "worst",
                {
                    "affinity": {
                        "podAffinity": {
                            REQUIRED: [
                                {
                                    "topologyKey": ZONE,
                                    "labelSelector": {
                                        "matchExpressions": [
                                            {"key": "app", "operator": "Exists"},
                                            {"key": f"x{i}", "operator": "DoesNotExist"},
                                        ]
                                    },
                                    "namespaces": [f"tenant-{k}" for k in range(50)],
                                }
                                for i in range(700)
                            ]
                        }
                    }
                },
            )
        ),
    ),
    Scenario("pod-spread-500", "Pod", "500 spread constraints, half of them by hostname", _one(lambda: _spread(500))),
    Scenario(
        "pod-node-affinity-2000x20",
        "Pod",
        "2,000 node selector terms of 20 host names each, none of which is a node's",
        _one(lambda: _node_affinity(2_000)),
    ),
]
