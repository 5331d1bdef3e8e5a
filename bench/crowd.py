"""Placed pods that are just there: of 200 apps, ten templates of which spread or avoid their own kind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from podberth.testing.workloads import objects
from podberth.testing.workloads.objects import Template

APPS = 200
"""Of ten, one spreads over zones and one avoids its own kind's nodes."""
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


def crowd(pods: int, nodes: int, pool: str, requests: dict[str, str | int]) -> Iterator[bytes]:
    """So many pods in turn on nodes called `<pool>-node-<i>`, as JSON; their UID is their name.

    `nodes` has to be a multiple of `APPS`.
    """
    for app in range(APPS):
        count = pods // APPS + (app < pods % APPS)
        yield from rendered(_placed(app, requests), count, nodes, pool)


def rendered(document: object, count: int, nodes: int, pool: str) -> Iterator[bytes]:
    """`count` objects of a template, as JSON."""
    made = Template(document, {"run": pool, "pool": pool}, {"count": count, "nodes": nodes})
    return map(made.render, range(count))


def _placed(app: int, requests: dict[str, str | int]) -> dict[str, Any]:
    spec: dict[str, object] = {"nodeName": f"$(pool)-node-$({APPS} * i % nodes + {app})"}
    own = {"labelSelector": {"matchLabels": {"app": f"app-{app}"}}}
    if app % 10 == 0:
        constraint = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway", **own}
        spec["topologySpreadConstraints"] = [constraint]
    if app % 10 == 1:
        term = {"weight": 100, "podAffinityTerm": {"topologyKey": HOST, **own}}
        spec["affinity"] = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}
    name = f"app-{app}-$(i)"
    metadata = {"namespace": "crowd", "uid": name, "labels": {"app": f"app-{app}"}}
    return objects.pod(name, "other", {"metadata": metadata, "spec": spec}, requests)
