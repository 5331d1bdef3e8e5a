"""What a /metrics page declares, and the list of kube-scheduler's own families that ours are held against.

`python -m tests.integration.metric_families` runs kube-scheduler on a control plane of its own, has it bind, fail,
wait and preempt, and writes the list anew.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import TypedDict

from prometheus_client.parser import text_string_to_metric_families

from tests.controlplane import namespaces
from tests.controlplane.api import Api, ApiError
from tests.controlplane.cluster import Cluster, ControlPlane
from tests.controlplane.wait import wait_for
from tests.integration import checks
from tests.integration.classes import CLASSES, make_class
from tests.integration.objects import NODES, node, pod, pods_path

LIST = Path(__file__).with_name("kube-scheduler-metrics.json")
SAMPLED = "scheduler_plugin_execution_duration_seconds"
BOUND_LABELS = {"le", "quantile"}


class Family(TypedDict):
    """A family's type, its labels, and the upper bounds of its buckets."""

    type: str
    labels: list[str]
    buckets: list[float]


def families(text: str, prefix: str = "scheduler_") -> dict[str, Family]:
    """The families of a page, by the name that a dashboard asks for."""
    found: dict[str, Family] = {}
    for family in text_string_to_metric_families(text):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        if not name.startswith(prefix):
            continue
        labels = {label for sample in family.samples for label in sample.labels} - BOUND_LABELS
        bounds = {float(sample.labels["le"]) for sample in family.samples if sample.name.endswith("_bucket")}
        found[name] = {"type": family.type, "labels": sorted(labels), "buckets": sorted(bounds - {math.inf})}
    return found


@contextmanager
def exercise(api: Api, namespace: str, scheduler: str) -> Iterator[None]:
    """Make a scheduler do what it has metrics for: bind, fail, gate, preempt, score. Its nodes go after the block."""
    path = pods_path(namespace)
    make_class(api, namespace, 9)
    try:
        api.create(NODES, node(f"{namespace}-a", cpu="2"))
        api.create(path, pod("fits", scheduler, cpu="1500m"))
        checks.wait_bound(api, namespace, 1)
        api.create(path, pod("gated", scheduler, schedulingGates=[{"name": "example.com/wait"}]))
        api.create(path, pod("fits-not", scheduler, cpu="64"))
        checks.wait_condition(api, namespace, "fits-not", "Insufficient cpu")
        api.create(path, pod("preempts", scheduler, cpu="1500m", priorityClassName=namespace))
        wait_for("the preemption", lambda: checks.node_of(api.get(f"{path}/preempts")), checks.BOUND)
        api.create(NODES, node(f"{namespace}-b", cpu="2"))
        api.create(NODES, node(f"{namespace}-c", cpu="2"))
        api.create(path, pod("scored", scheduler))
        wait_for("the scored pod", lambda: checks.node_of(api.get(f"{path}/scored")), checks.BOUND)
        yield
    finally:
        api.delete(f"{CLASSES}/{namespace}")
        for letter in "abc":
            with suppress(ApiError):
                api.delete(f"{NODES}/{namespace}-{letter}")


def create_samples(api: Api, namespace: str, scheduler: str, batch: int) -> None:
    """Twenty more pods, bound: plugins are timed in one attempt of ten, by chance."""
    api.create_many(pods_path(namespace), [pod(f"more-{batch}-{i}", scheduler, cpu="1m") for i in range(20)])
    what = f"batch {batch} to be bound"
    last = [f"{pods_path(namespace)}/more-{batch}-{i}" for i in range(20)]
    wait_for(what, lambda: all(checks.node_of(api.get(path)) for path in last), checks.BOUND)


def kube_schedulers(cluster: Cluster, namespace: str, wanted: Collection[str] = ()) -> dict[str, Family]:
    """What the real one declares, as far as this exercise makes it; `wanted` are waited for.

    A family is there once something was observed, which may be a moment after the pod is bound.
    """
    process = cluster.start_kube_scheduler(scheduler_name=f"kube-{namespace}")
    serving = Api(process.url, ca=process.log.with_name("kube-scheduler.crt"))
    batches = count()

    def with_samples() -> dict[str, Family] | None:
        create_samples(cluster.api, namespace, f"kube-{namespace}", next(batches))
        found = families(serving.text("/metrics"))
        return found if found.keys() >= {SAMPLED, *wanted} else None

    with exercise(cluster.api, namespace, f"kube-{namespace}"):
        found = wait_for(SAMPLED, with_samples, checks.BOUND)
    serving.close()
    process.stop()
    return found


def main() -> None:
    """Write the list."""
    with ControlPlane() as cluster:
        found = kube_schedulers(cluster, namespaces.create(cluster.api))
    LIST.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    print(f"{LIST.name}: {len(found)} families")


if __name__ == "__main__":
    main()
