"""What is said and offered where amounts, labels, other pods or an even spread keep a pod from a node."""

import pytest

from tests.builders import Object, node, pod
from tests.unit.explain.plugins.offers import golden, shown

ZONE = "topology.kubernetes.io/zone"


def spreading(name: str, per: str = ZONE, **constraint: object) -> Object:
    return with_spread(pod(name, labels={"app": "web"}), per, constraint, app="web")


def with_spread(made: Object, per: str = ZONE, constraint: Object | None = None, **labels: str) -> Object:
    """The pod with one more constraint, of pods with these labels."""
    spread = {"maxSkew": 1, "topologyKey": per, "whenUnsatisfiable": "DoNotSchedule", **(constraint or {})}
    made["spec"].setdefault("topologySpreadConstraints", []).append(
        {"labelSelector": {"matchLabels": labels}, **spread}
    )
    return made


def named(name: str, on: str, **labels: str) -> Object:
    return pod(name, labels=labels, on=on)


A, B, C = (node(each, zone=each, labels={"disk": "ssd"}) for each in "abc")
GPU = "example.com/gpu"
CASES: dict[str, tuple[Object, list[Object]]] = {
    "half of the memory is free, in whole mebibytes": (
        pod("p", memory="2Gi"),
        [node("n", memory="4Gi"), pod("q", memory="3071.5Mi", on="n")],
    ),
    "a mebibyte is free": (pod("p", memory="2Mi"), [node("n", memory="3Mi"), pod("q", memory="2Mi", on="n")]),
    "less than a mebibyte is free": (
        pod("p", memory="1Mi"),
        [node("n", memory="2Mi"), pod("q", memory="1536Ki", on="n")],
    ),
    "a quarter of the cores is free": (pod("p", "2"), [node("n", "4"), pod("q", "3500m", on="n")]),
    "a tenth of what is asked for": (pod("p", "2"), [node("n", "4"), pod("q", "3800m", on="n")]),
    "less than a tenth": (pod("p", "2"), [node("n", "4"), pod("q", "3801m", on="n")]),
    "one of several, where two are asked for": (
        pod("p", others={GPU: "2"}),
        [node("n", others={GPU: "3"}), pod("q", others={GPU: "2"}, on="n")],
    ),
    "cores and memory, of which one is enough to ask for less": (
        pod("p", "2", "2Gi"),
        [node("n", "4", "4Gi"), pod("q", "3", "4Gi", on="n")],
    ),
    "too few places for pods, and too few cores": (
        pod("p", "2"),
        [node("n", "4", pods="1"), pod("q", "3", on="n")],
    ),
    "the first pods that make room together, where two do not": (
        pod("p", "3"),
        [node("n", "4"), *(pod(f"q{i}", cpu, on="n") for i, cpu in enumerate(("1500m", "400m", "1", "1100m")))],
    ),
    "three small pods make room": (pod("p", "3"), [node("n", "4"), *(pod(f"q{i}", "1", on="n") for i in range(4))]),
    "more small pods than are offered": (
        pod("p", "4"),
        [node("n", "4"), *(pod(f"q{i}", "500m", on="n") for i in range(8))],
    ),
    "two of many pods have what is asked for": (
        pod("p", others={GPU: "2"}),
        [
            node("n", others={GPU: "2"}),
            *(pod(f"q{i}", on="n") for i in range(8)),
            *(pod(f"g{i}", on="n", others={GPU: "1"}, priority=1) for i in range(2)),
        ],
    ),
    "cores of one and memory of another": (
        pod("p", "2", "2Gi"),
        [node("n", "4", "4Gi"), pod("cores", "3", "1Gi", on="n"), pod("memory", "1", "3Gi", on="n")],
    ),
    "a resource that no node has": (pod("p", others={GPU: "1"}), [node("n")]),
    "labels that are spelt nearly so": (
        pod("p", select={"dsik": "ssd", "pool": "genral"}),
        [node("n", labels={"disk": "ssd", "pool": "general"}), node("m", labels={"disk": "hdd", "pool": "general"})],
    ),
    "labels, of which the node misses some": (
        pod("p", select={"disk": "ssd", "pool": "large", "topology.kubernetes.io/zone": "z"}),
        [node("n", zone="y", labels={"disk": "ssd", "pool": ""})],
    ),
    "labels that can be given": (
        pod("p", need=["tier in b,a"]),
        [node("n", labels={"tier": "c", "gone": "no"})],
    ),
    "the nearest of several terms": (
        pod("p", need=["disk in hdd; pool in large", "disk in ssd; pool in larg", "gen > 3"]),
        [node("n", labels={"disk": "ssd", "pool": "large", "gen": "2"})],
    ),
    "a selector and a term": (
        pod("p", select={"disk": "sdd"}, need=["pool in larg"]),
        [node("n", labels={"disk": "ssd", "pool": "large"})],
    ),
    "near pods that are elsewhere": (
        pod("p", near=["app=db per zone"]),
        [A, B, C, *(named(f"d{i}", on, app="db") for i, on in enumerate("bccc"))],
    ),
    "near pods that are in more places than are told": (
        pod("p", near=["app=db per zone"]),
        [
            node("n", zone="z"),
            *(node(each, zone=each, cordoned=True) for each in "abcdef"),
            *(named(f"d{each}", each, app="db") for each in "abcdef"),
        ],
    ),
    "near a pod that is spelt nearly so": (
        pod("p", near=["app=databse per zone"]),
        [A, named("d", "a", app="database")],
    ),
    "near pods of one of two values": (
        pod("p", near=["app in databse,x per zone"]),
        [A, named("d", "a", app="database")],
    ),
    "near on a node without the label": (pod("p", near=["app=db per rack"]), [A, named("d", "a", app="db")]),
    "near and apart on a node without the label, where another node has an empty one": (
        pod("p", near=["app=db per rack"], apart=["app=web per rack"]),
        [A, node("n", labels={"rack": ""}), named("d", "n", app="db"), named("w", "n", app="web")],
    ),
    "apart from one": (pod("p", apart=["app=db per zone"]), [A, named("d", "a", app="db")]),
    "apart from more than are told": (
        pod("p", apart=["app=db per zone"]),
        [A, *(named(f"d{i}", "a", app="db") for i in range(6))],
    ),
    "apart from one, and near nobody": (
        pod("p", apart=["app=db per zone"], near=["app=web per zone"]),
        [A, B, named("d", "a", app="db"), named("w", "b", app="web")],
    ),
    "repelled by some": (
        pod("p", labels={"app": "db"}),
        [A, *(pod(f"d{i}", on="a", apart=["app=db per zone"]) for i in range(3))],
    ),
    "repelled by many": (
        pod("p", labels={"app": "db"}),
        [A, *(pod(f"d{i}", on="a", apart=["app=db per zone"]) for i in range(8))],
    ),
    "spread over zones": (
        spreading("p"),
        [A, B, C, *(named(f"w{i}", on, app="web") for i, on in enumerate("aaabb"))],
    ),
    "spread over zones of which two are as empty": (spreading("p"), [C, B, A, named("w", "a", app="web")]),
    "spread over zones that are there, of which one is full": (
        spreading("p"),
        [A, node("b", zone="b", cordoned=True), named("w", "a", app="web")],
    ),
    "spread over a zone more than there are": (
        spreading("p", minDomains=3),
        [A, B, named("w", "a", app="web"), named("v", "b", app="web")],
    ),
    "spread with a larger skew": (
        spreading("p", maxSkew=2),
        [A, B, *(named(f"w{i}", "a", app="web") for i in range(2))],
    ),
    "spread twice over zones": (
        with_spread(with_spread(pod("p", labels={"app": "web", "tier": "x"}), app="web"), tier="x"),
        [A, B, *(named(f"w{i}", "a", app="web") for i in range(2)), *(named(f"x{i}", "a", tier="x") for i in range(3))],
    ),
    "spread without the label": (spreading("p", per="rack"), [A]),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_said_and_offered(name: str) -> None:
    assert shown(CASES[name]) == golden("nodes")[name]


def test_every_case_is_there() -> None:
    assert list(golden("nodes")) == list(CASES)
