"""Single pods with affinity to and from other pods, and with spread constraints, as many as fit."""

from __future__ import annotations

from typing import Any

from bench.crowd import HOST, ZONE
from bench.hostile.scenario import Scenario, one
from bench.hostile.town import NODE_KEYS, PREFERRED, REQUIRED, TENANT, Object, pod


def spec_of(spec: Object, name: str = "worst") -> Object:
    """The hostile tenant's pod with this spec."""
    return pod(name, TENANT, {"app": name}, spec)


def needs(operator: str, values: list[str] | None = None, key: str = "zz") -> Object:
    """One requirement of a label selector."""
    return {"key": key, "operator": operator} | ({} if values is None else {"values": values})


def term(*requirements: Object, per: str = HOST, **more: Any) -> Object:
    """A term for pods of all namespaces, unless `more` says otherwise."""
    return {
        "topologyKey": per,
        "labelSelector": {"matchExpressions": list(requirements)},
        "namespaceSelector": {},
        **more,
    }


def apart(terms: list[Object], name: str = "worst") -> Object:
    """A pod with terms of required anti-affinity."""
    return spec_of({"affinity": {"podAntiAffinity": {REQUIRED: terms}}}, name)


def near(terms: list[Object]) -> Object:
    """A pod with terms of required affinity."""
    return spec_of({"affinity": {"podAffinity": {REQUIRED: terms}}})


def rather(terms: list[Object], kind: str = "podAntiAffinity") -> Object:
    """A pod with preferred terms."""
    weighted = [{"weight": 1 + i % 100, "podAffinityTerm": found} for i, found in enumerate(terms)]
    return spec_of({"affinity": {kind: {PREFERRED: weighted}}})


def not_in(count: int, salt: str = "x") -> list[Object]:
    """Terms that each select every pod there is."""
    return [term(needs("NotIn", [f"{salt}{i}"])) for i in range(count)]


def spread(count: int, when: str = "ScheduleAnyway", **more: Any) -> Object:
    """A pod with so many spread constraints, each of which counts every pod.

    The API server takes one for each topology key and kind: the first are by keys that nodes have, both kinds.
    """
    kinds = [(key, kind) for key in NODE_KEYS for kind in ("DoNotSchedule", "ScheduleAnyway")]
    kinds += [(f"example.com/k{i}", when) for i in range(count)]
    constraints = [
        {
            "maxSkew": 1_000_000 - i,
            "topologyKey": key,
            "whenUnsatisfiable": kind,
            "labelSelector": {"matchExpressions": [needs("NotIn", [f"x{i}"])]},
            **(more if kind == "DoNotSchedule" or "minDomains" not in more else {**more, "minDomains": None}),
        }
        for i, (key, kind) in enumerate(kinds[:count])
    ]
    return spec_of({"topologySpreadConstraints": constraints})


def _of_all_kinds() -> Object:
    """Required both ways, preferred both ways, constraints: a hundred of each."""
    terms = not_in(100)
    weighted = [{"weight": 50, "podAffinityTerm": found} for found in not_in(100, "y")]
    made = spread(100)
    made["spec"]["affinity"] = {
        "podAffinity": {REQUIRED: [term(needs("Exists", key="app"), per=ZONE)], PREFERRED: weighted},
        "podAntiAffinity": {
            REQUIRED: [{**found, "topologyKey": "example.com/rack"} for found in terms],
            PREFERRED: weighted,
        },
    }
    return made


def _long(count: int) -> list[Object]:
    return [needs("NotIn", [f"x{i}"], f"key-{i}") for i in range(count)]


SCENARIOS = [
    Scenario(
        "anti-notin-700",
        "Pod",
        "700 required anti-affinity terms, each selects every pod (S1)",
        one(lambda: apart(not_in(700))),
    ),
    Scenario("anti-notin-8000", "Pod", "8,000 of them, 1.2 MB", one(lambda: apart(not_in(8_000)))),
    Scenario("preferred-notin-700", "Pod", "the 700 terms, preferred", one(lambda: rather(not_in(700)))),
    Scenario(
        "preferred-near-notin-700",
        "Pod",
        "the 700 terms, preferred affinity",
        one(lambda: rather(not_in(700), "podAffinity")),
    ),
    Scenario(
        "affinity-exists-700",
        "Pod",
        "700 required affinity terms, each meets every pod of 50 named namespaces",
        one(
            lambda: near(
                [
                    {
                        "topologyKey": ZONE,
                        "labelSelector": {
                            "matchExpressions": [needs("Exists", key="app"), needs("DoesNotExist", key=f"x{i}")]
                        },
                        "namespaces": [f"tenant-{k}" for k in range(50)],
                    }
                    for i in range(700)
                ]
            )
        ),
    ),
    Scenario(
        "anti-exists-unique-700",
        "Pod",
        "700 anti-affinity terms, each for StatefulSet pods and a different absent label",
        one(
            lambda: apart(
                [
                    term(needs("Exists", key="statefulset.kubernetes.io/pod-name"), needs("DoesNotExist", key=f"k{i}"))
                    for i in range(700)
                ]
            )
        ),
    ),
    Scenario(
        "anti-in-5000-values",
        "Pod",
        "100 terms, each `statefulset.kubernetes.io/pod-name In` 500 names that exist",
        one(
            lambda: apart(
                [
                    term(
                        needs(
                            "In",
                            [f"app-{i * 7919 % 2000}-{i}" for i in range(4 + k, 2504 + k, 5)],
                            "statefulset.kubernetes.io/pod-name",
                        ),
                        needs("NotIn", [f"x{k}"]),
                    )
                    for k in range(100)
                ]
            )
        ),
    ),
    Scenario(
        "anti-20000-values",
        "Pod",
        "one term of 20,000 values",
        one(lambda: apart([term(needs("NotIn", [f"x{i}" for i in range(20_000)]))])),
    ),
    Scenario(
        "anti-10000-requirements",
        "Pod",
        "one term of 10,000 requirements, all met",
        one(lambda: apart([term(*_long(10_000))])),
    ),
    Scenario(
        "anti-namespaces-700",
        "Pod",
        "700 terms, each with a namespaceSelector of 20 requirements that all namespaces meet",
        one(
            lambda: apart(
                [term(needs("NotIn", [f"x{i}"]), namespaceSelector={"matchExpressions": _long(20)}) for i in range(700)]
            )
        ),
    ),
    Scenario(
        "anti-named-namespaces",
        "Pod",
        "300 terms, each names 100 namespaces of which it means all",
        one(
            lambda: apart(
                [
                    {
                        "topologyKey": HOST,
                        "labelSelector": {"matchExpressions": [needs("NotIn", [f"x{i}"])]},
                        "namespaces": [f"tenant-{k}" for k in range(100)],
                    }
                    for i in range(300)
                ]
            )
        ),
    ),
    Scenario(
        "anti-8000-keys",
        "Pod",
        "8,000 anti-affinity terms, each by a topology key that no node has",
        one(lambda: apart([term(needs("Exists"), per=f"example.com/k{i}") for i in range(8_000)])),
    ),
    Scenario(
        "preferred-8000-keys",
        "Pod",
        "8,000 preferred terms, each by a topology key that no node has",
        one(lambda: rather([term(needs("NotIn", ["x"]), per=f"example.com/k{i}") for i in range(8_000)])),
    ),
    Scenario(
        "preferred-empty-20000",
        "Pod",
        "20,000 preferred terms without a selector",
        one(lambda: rather([{"topologyKey": "a"} for _ in range(20_000)])),
    ),
    Scenario(
        "spread-500",
        "Pod",
        "500 spread constraints, by the keys that nodes have and by others, each counts every pod",
        one(lambda: spread(500)),
    ),
    Scenario("spread-hard-500", "Pod", "the same, required", one(lambda: spread(500, "DoNotSchedule"))),
    Scenario(
        "spread-hard-honour-500",
        "Pod",
        "the same, with minDomains and both policies",
        one(
            lambda: spread(
                500,
                "DoNotSchedule",
                minDomains=1000,
                nodeAffinityPolicy="Ignore",
                nodeTaintsPolicy="Honor",
                matchLabelKeys=["app"],
            )
        ),
    ),
    Scenario("spread-8000", "Pod", "8,000 constraints", one(lambda: spread(8_000))),
    Scenario(
        "terms-of-all-kinds", "Pod", "a hundred of each: required, preferred, both ways, spread", one(_of_all_kinds)
    ),
]
