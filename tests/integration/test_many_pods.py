"""Thousands of pods that fit nowhere, and one that does, on a real API server: it does not wait behind them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.controlplane.api import Object
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.wait import wait_for
from tests.integration import checks
from tests.integration.berth import Berth, Harbour
from tests.integration.objects import node, pod, pods_path
from tests.integration.test_serving import ask, wait_serving

AddNodes = Callable[..., None]
WAITING = 2000
SHAPES = 20
RATE = {"qps": 50, "burst": 50}
"""The conditions of all that wait take forty seconds to be written."""
AHEAD = 500
"""So many of them, ten seconds' worth on a busy machine, may be written before the Binding of the pod that fits."""
MEMORY_MB = 250


@pytest.mark.timeout(600)
def test_one_that_fits_beside_thousands_that_do_not(
    audited: ControlPlane, audited_namespace: str, harbour: Harbour, add_nodes: AddNodes
) -> None:
    """It is bound on its first attempt, long before all conditions of the others are written; they are tried once each.

    What comes first is counted in the audit log, and not timed.
    """
    api, where, path = audited.api, audited_namespace, pods_path(audited_namespace)
    add_nodes(audited, [node(f"{where}-own", labels={"test": where})])
    berth = harbour.berth(audited, serving=True, clientConnection=RATE)
    wait_serving(berth)

    def too_large(i: int) -> str:
        return str(5 + i % SHAPES)

    def one(name: str, cpu: str) -> Object:
        return pod(name, berth.scheduler_name, cpu=cpu, nodeSelector={"test": where})

    api.create_many(path, [one(f"w-{i}", too_large(i)) for i in range(WAITING)])
    api.create(path, one("fits", "100m"))
    checks.wait_bound(api, where, 1)
    (line,) = wait_for("its line in the log", lambda: berth.lines("bound"), checks.BOUND)
    assert (line["pod"], line["attempt"]) == (f"{where}/fits", 1)
    tried = attempts(berth, audited.admin_token)
    assert tried["scheduled"] == 1
    assert tried["unschedulable"] <= WAITING
    wait_for("all to be told", lambda: told(audited, where) >= WAITING, 3 * checks.BOUND, 2.0)
    assert conditions_before_the_binding(audited, where) <= AHEAD
    assert attempts(berth, audited.admin_token)["unschedulable"] == WAITING
    memory = berth.peak_memory_mb()
    berth.end()
    assert memory < MEMORY_MB


def attempts(berth: Berth, token: str) -> dict[str, float]:
    """How many attempts there were, by how they ended."""
    status, text = ask(berth, "/metrics", token)
    assert status == 200, text
    found = dict.fromkeys(("scheduled", "unschedulable", "error"), 0.0)
    for row in text.splitlines():
        if row.startswith("scheduler_schedule_attempts_total{"):
            found[row.partition('result="')[2].partition('"')[0]] += float(row.rpartition(" ")[2])
    return found


def statuses(cluster: ControlPlane, namespace: str) -> list[str]:
    """When each condition was written (RFC 3339), in the order of the log."""
    return [
        entry["requestReceivedTimestamp"]
        for entry in cluster.audit_events("/status", namespace)
        if entry["verb"] == "patch"
        and entry.get("objectRef", {}).get("subresource") == "status"
        and entry["objectRef"].get("namespace") == namespace
        and entry["responseStatus"]["code"] == 200
    ]


def told(cluster: ControlPlane, namespace: str) -> int:
    """How many conditions were written."""
    return len(statuses(cluster, namespace))


def conditions_before_the_binding(cluster: ControlPlane, namespace: str) -> int:
    """How many conditions were written between the creation of the pod that fits and its Binding."""
    created = next(
        entry["requestReceivedTimestamp"]
        for entry in cluster.audit_events("/pods", namespace)
        if entry["verb"] == "create"
        and entry["requestURI"].partition("?")[0] == pods_path(namespace)
        and entry["objectRef"].get("name") == "fits"
    )
    (bound,) = checks.bindings(cluster, namespace)
    return sum(created <= when <= bound["requestReceivedTimestamp"] for when in statuses(cluster, namespace))
