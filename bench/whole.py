"""`python -m bench.whole` (`make whole`): each limit of a pod at its maximum, alone and in a crowd, beside other pods.

An attempt runs to its end, so what a pod may ask for bounds how long others wait: one pod delays nobody by more than
100 ms, and a thousand in a row at most double the 99th percentile of others. `bench.hostile` has what is beyond the
limits, and what is no pod. The exit code is 1 when a bound is broken.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial

from bench.crowd import HOST
from bench.hostile import engines, page
from bench.hostile.row import Chosen
from bench.hostile.scenario import CROWD, ONE, Scenario, Write, put
from bench.hostile.shapes.specs import containers, node_terms
from bench.hostile.shapes.terms import apart, needs, not_in, spec_of, spread, term
from bench.hostile.town import TENANT, Object, pod
from podberth.model.limits import LIMITS, NAMES

NODES = 5_000
CROWD_SIZE = 1_000
_TOGETHER = 256
"""Requirements and values of a term, where only their sum is to be at its maximum."""


def _node_terms(number: int, salt: str) -> Object:
    return node_terms([{"matchExpressions": [needs("NotIn", [f"{salt}-{i}"], HOST)]} for i in range(number)])


def _requirements(number: int, salt: str) -> Object:
    return apart([term(*(needs("NotIn", [salt], f"k{i}") for i in range(number)))])


def _values(number: int, salt: str) -> Object:
    return apart([term(needs("NotIn", [f"{salt}-{i}" for i in range(number)]))])


def _in_all(number: int, salt: str) -> Object:
    sizes = [_TOGETHER] * (number // _TOGETHER) + [number % _TOGETHER] * (number % _TOGETHER > 0)
    names = ([f"{salt}-{i}-{k}" for k in range(size - 1)] for i, size in enumerate(sizes))
    return apart([term(needs("NotIn", some) if some else needs("DoesNotExist", key=salt)) for some in names])


def _tolerations(number: int, salt: str) -> Object:
    return spec_of({"tolerations": [{"key": f"{salt}-{i}", "operator": "Exists"} for i in range(number)]})


def _containers(number: int, salt: str) -> Object:
    return spec_of({"containers": containers(number, image=f"registry.example/{salt}:{{}}")})


def _resources(number: int, salt: str) -> Object:
    amounts = {f"example.com/{salt}-{i}": "1" for i in range(number)}
    return spec_of({"containers": [{"name": "c", "image": "a", "resources": {"requests": amounts, "limits": amounts}}]})


def _host_ports(number: int, salt: str) -> Object:
    ports = [{"containerPort": 1, "hostPort": 1 + i, "protocol": "TCP"} for i in range(number)]
    return spec_of({"containers": [{"name": "c", "image": salt, "ports": ports}]})


def _volumes(number: int, salt: str) -> Object:
    disks = [{"name": f"v{i}", "gcePersistentDisk": {"pdName": f"{salt}-{i}"}} for i in range(number)]
    return spec_of({"volumes": disks})


def _claims(number: int, salt: str) -> Object:
    return spec_of({"resourceClaims": [{"name": f"c{i}", "resourceClaimName": f"{salt}-{i}"} for i in range(number)]})


def _labels(number: int, salt: str) -> Object:
    return pod("worst", TENANT, {f"example.com/{salt}-{i}": "x" for i in range(number)})


def _spread(number: int, salt: str) -> Object:
    made = spread(number)
    for one in made["spec"]["topologySpreadConstraints"]:
        one["labelSelector"] = {"matchExpressions": [needs("NotIn", [salt])]}
    return made


SHAPES: dict[str, tuple[str, Callable[[int, str], Object]]] = {
    "affinity_terms": (
        "terms of required anti-affinity, each selects every pod",
        lambda n, salt: apart(not_in(n, salt)),
    ),
    "node_terms": ("required node terms, each meets every node", _node_terms),
    "spread_constraints": ("spread constraints, each counts every pod", _spread),
    "selector_requirements": ("requirements of a term that selects every pod", _requirements),
    "requirement_values": ("values of a requirement that every pod meets", _values),
    "values_in_all": ("values in terms that each select every pod", _in_all),
    "tolerations": ("tolerations of taints that nobody has", _tolerations),
    "containers": ("containers, each with an image of its own", _containers),
    "resources": ("resources that no node has", _resources),
    "host_ports": ("host ports", _host_ports),
    "volumes": ("disks of which no other pod has one", _volumes),
    "resource_claims": ("claims that are not there", _claims),
    "labels": ("labels that nobody else has", _labels),
}
"""By limit: what there is of it, and a pod with so many, unlike those with another salt. Annotations are missing: what
those cost that a plugin reads depends on the plugin."""


def largest(limit: str, salt: str, more: int = 0) -> Object:
    """Return a pod of the tenant that has as much of something as its limit allows, and `more` of it."""
    made = SHAPES[limit][1](getattr(LIMITS, limit) + more, salt)
    metadata = made["metadata"]
    metadata["name"] = f"{limit.replace('_', '-')}-{salt}"
    metadata["uid"] = f"{metadata['namespace']}/{metadata['name']}"
    return made


def _writes(limit: str, number: int, _nodes: int) -> Iterator[Write]:
    return (put(largest(limit, f"s{i}"), 10.0) for i in range(number))


def scenarios(crowd: int = CROWD_SIZE) -> list[Scenario]:
    """Return two rows for each limit: one pod, and a crowd of them, 10 ms one after the other."""
    found = []
    for limit, (what, _) in SHAPES.items():
        name, shape = NAMES[limit], f"{getattr(LIMITS, limit):,} {what}"
        alone, many = {"others_ms": ONE["others_ms"]}, {"p99_times": CROWD["p99_times"]}
        found.append(Scenario(name, "Pod", shape, partial(_writes, limit, 1), bounds=alone))
        seconds = 0.01 * crowd + 1
        found.append(
            Scenario(f"{name}-{crowd}", "Pod", shape, partial(_writes, limit, crowd), crowd, seconds, bounds=many)
        )
    return found


def main() -> int:
    """Measure and print."""
    options = argparse.ArgumentParser(prog="python -m bench.whole", description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--nodes", type=int, default=NODES, help="nodes of the cluster, with ten pods each")
    options.add_argument("--crowd", type=int, default=CROWD_SIZE, help="how many pods come in a row")
    options.add_argument("--rows", default="", help="parts of names of rows, comma-separated; all without it")
    asked = options.parse_args()
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:6.0f} s  {text}", file=sys.stderr, flush=True)

    chosen, rows = Chosen((asked.nodes,), tuple(filter(None, asked.rows.split(",")))), []
    for row in engines.rows(chosen, scenarios(asked.crowd), say):
        rows.append(row)
        say(page.line(row))
    print(page.tables(rows))
    return 0 if rows and all(row.held for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
