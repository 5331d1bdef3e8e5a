"""Claims of devices, on nodes with eight devices each, which drivers have published before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from bench.hostile.scenario import CROWD, Scenario, Write, put
from bench.hostile.town import TENANT, Object, pod

DRIVER = "gpu.example"
DEVICES = 8
"""Of each node."""
LONGEST = 10 << 10
"""Characters of an expression."""
_TERM = 'device.attributes["gpu.example"].model != "{}"'
_LOOPS = "lists.range(700).all(x, lists.range(700).all(y, x + y >= 0))"
"""490,000 turns: as much as Kubernetes lets an evaluation cost, and more."""


def published(nodes: int) -> Iterator[Write]:
    """A class, and a slice for each node: devices of four models."""
    spec: Object = {"selectors": [_cel(f'device.driver == "{DRIVER}"')]}
    yield put({"kind": "DeviceClass", "metadata": {"name": "gpu", "uid": "gpu"}, "spec": spec})
    for i in range(nodes):
        devices = [
            {"name": f"d{k}", "attributes": {"model": {"string": f"m{k % 4}"}, "index": {"int": k}, "node": {"int": i}}}
            for k in range(DEVICES)
        ]
        pool = {"name": f"node-{i}", "generation": 1, "resourceSliceCount": 1}
        slice_ = {"driver": DRIVER, "pool": pool, "nodeName": f"node-{i}", "devices": devices}
        yield put({"kind": "ResourceSlice", "metadata": {"name": f"s{i}", "uid": f"s{i}"}, "spec": slice_}, 0.5)


def _cel(expression: str) -> Object:
    return {"cel": {"expression": expression}}


def asks(*expressions: str, count: int = 1) -> Object:
    """What a request asks for: devices of the class for which all expressions hold."""
    return {
        "deviceClassName": "gpu",
        "allocationMode": "ExactCount",
        "count": count,
        "selectors": [_cel(one) for one in expressions],
    }


def claim_of(i: int, requests: list[Object], **devices: object) -> Object:
    """The claim of a number."""
    metadata = {"name": f"gpus-{i}", "namespace": TENANT, "uid": f"gpus-{i}"}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": metadata,
        "spec": {"devices": {"requests": requests, **devices}},
        "status": {},
    }


def user(i: int) -> Object:
    """The pod that uses the claim of a number."""
    named = [{"name": "gpus", "resourceClaimName": f"gpus-{i}"}]
    return pod(f"worst-{i}", TENANT, {"app": "worst"}, {"resourceClaims": named})


def asks_for(claims: Iterable[Object], after: float = 20.0) -> Iterator[Write]:
    """Claims, and for each the pod that uses it, so many milliseconds after the one before."""
    for i, claim in enumerate(claims):
        yield put(claim, 1)
        yield put(user(i), after)


def _with_pods(nodes: int, *claims: Object) -> Iterator[Write]:
    yield from published(nodes)
    yield from asks_for(claims)


def _long(begin: int) -> str:
    """As many terms as an expression has room for."""
    terms: list[str] = []
    size = 0
    while size < LONGEST - 80:
        terms.append(_TERM.format(f"x{begin + len(terms)}"))
        size += len(terms[-1]) + 4
    return " && ".join(terms)


def _constrained(nodes: int) -> Iterator[Write]:
    """32 requests that may have any device, of which no two may be of one index, and there are eight."""
    requests = [{"name": f"r{k}", "exactly": asks()} for k in range(32)]
    never = [{"requests": ["r7"], "matchAttribute": f"{DRIVER}/absent"}]
    eight = [{"name": f"r{k}", "exactly": asks()} for k in range(DEVICES)]
    yield from _with_pods(nodes, claim_of(0, requests), claim_of(1, eight, constraints=never))


def _alternatives(nodes: int) -> Iterator[Write]:
    """Four requests with eight alternatives each, and a constraint that only the last alternatives could meet."""
    alternatives = [{"name": f"a{k}", **asks(f'device.attributes["{DRIVER}"].index >= {k}')} for k in range(8)]
    requests = [{"name": f"r{k}", "firstAvailable": alternatives} for k in range(4)]
    same = [{"matchAttribute": f"{DRIVER}/index"}]
    yield from _with_pods(nodes, claim_of(0, requests, constraints=same))


def _expressions(nodes: int) -> Iterator[Write]:
    """20 claims, each with two expressions that nobody had before."""
    claims = [
        claim_of(i, [{"name": "r", "exactly": asks(_long(1_000 * i), _long(1_000 * i + 500))}]) for i in range(20)
    ]
    yield from _with_pods(nodes, *claims)


def _loops(nodes: int) -> Iterator[Write]:
    """A selector at the cost limit, for each device anew."""
    yield from _with_pods(nodes, claim_of(0, [{"name": "r", "exactly": asks(_LOOPS)}]))


def _dearest(nodes: int) -> Iterator[Write]:
    """As many selectors as a request may have, each as long as it may be, for devices with as many attributes."""
    yield from published(nodes)
    attributes = {f"a{k}": {"string": "x" * 64} for k in range(31)} | {"model": {"string": "m1"}}
    devices = [{"name": f"d{k}", "attributes": attributes} for k in range(128)]
    pool = {"name": "many", "generation": 1, "resourceSliceCount": 1}
    slice_ = {"driver": DRIVER, "pool": pool, "nodeName": "node-0", "devices": devices}
    yield put({"kind": "ResourceSlice", "metadata": {"name": "many", "uid": "many"}, "spec": slice_}, 5)
    expressions = [_sums(i) if i % 2 else _list(i) for i in range(32)]
    yield from asks_for([claim_of(0, [{"name": "r", "exactly": asks(*expressions)}])])


def _sums(salt: int) -> str:
    """No chain of terms, and nothing that is computed once: sums in comparisons."""
    one = f"({'1 + ' * 230}{salt}) == {230 + salt}"
    return " && ".join([one] * (LONGEST // (len(one) + 4)))


def _list(salt: int) -> str:
    """A list that is made for each device, in which nothing is what is looked for."""
    items = ", ".join(f"1 + {salt}" for _ in range(1_150))
    return f"![{items}].exists(x, x == 7777)"


SCENARIOS = [
    Scenario(
        "devices-dearest-selectors",
        "ResourceClaim",
        "32 selectors of 10 KiB that are no chains of short terms, for 128 devices with 32 attributes on one node",
        _dearest,
        1,
        6.0,
        bounds=CROWD,
    ),
    Scenario(
        "devices-requests-32",
        "ResourceClaim",
        "32 requests on nodes of eight devices; and eight with a constraint that nothing meets",
        _constrained,
        2,
        6.0,
        bounds=CROWD,
    ),
    Scenario(
        "devices-first-available-8",
        "ResourceClaim",
        "four requests of eight alternatives, which have to have the same index",
        _alternatives,
        1,
        6.0,
        bounds=CROWD,
    ),
    Scenario(
        "devices-expressions-10k",
        "ResourceClaim",
        "20 claims with two expressions of 10 KiB each, which are all different",
        _expressions,
        20,
        6.0,
        bounds=CROWD,
    ),
    Scenario(
        "devices-expression-limit",
        "ResourceClaim",
        "an expression of loops in loops, up to the limit of its cost",
        _loops,
        1,
        6.0,
        bounds=CROWD,
    ),
]
