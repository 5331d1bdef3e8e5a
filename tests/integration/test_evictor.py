"""Promises kept after scheduling, on a real API server: who goes, who stays, and what the audit says of it."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial

import pytest

from tests.controlplane.api import Api, Object
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.wait import wait_for
from tests.devices import allocated, claim, claiming, request, result
from tests.integration import checks, evictor
from tests.integration.berth import Harbour
from tests.integration.evictor import BRISK, evicted, evictions, pod, relabel, replicas, start, told, wait_gone
from tests.integration.objects import pods_path
from tests.integration.rights import may

SIZE = int(os.environ.get("BERTH_EVICTOR_NODES", "100"))
"""Nodes of the relabelling; ten pods each. `make evictor-scale` has 2,000."""
OWNERS = 50
PATIENCE = 300.0
BUDGETS = "/apis/policy/v1/namespaces/{}/poddisruptionbudgets"
AddNodes = Callable[..., None]


@pytest.mark.timeout(1800)
def test_relabel(audited: ControlPlane, audited_namespace: str, harbour: Harbour, add_nodes: AddNodes) -> None:
    """1 % of the nodes lose their label: exactly their pods go, once each, and are bound again where it fits.

    Then half of the nodes lose it at once: the breaker opens, nobody goes, and it closes once they have it again.
    """
    api, path = audited.api, pods_path(audited_namespace)
    names = [f"relabel-{i}" for i in range(SIZE)]
    add_nodes(audited, [evictor.node(name) for name in names])
    berth = harbour.berth(audited)
    kept = [pod(f"p-{i}", names[i % SIZE], berth.scheduler_name, f"web-{i % OWNERS}") for i in range(10 * SIZE)]
    api.create_many(path, kept)
    own = start(harbour, audited, audited_namespace, berth.scheduler_name, grace=8, max_changed=0.05, **BRISK)
    before = {pod["metadata"]["uid"]: checks.node_of(pod) for pod in api.list(path)}
    started = time.monotonic()
    changed = set(names[: SIZE // 100])
    leaving = {uid for uid, node in before.items() if node in changed}
    with replicas(api, audited_namespace):
        for name in changed:
            relabel(api, name, "hdd")

        def settled() -> list[Object]:
            pods = api.list(path)
            bound = all(map(checks.node_of, pods)) and len(pods) == len(before)
            return pods if bound and not leaving & {pod["metadata"]["uid"] for pod in pods} else []

        pods = wait_for("all pods bound where they fit", settled, PATIENCE, 0.5)
    print(f"{len(leaving)} of {len(before)} pods moved in {time.monotonic() - started:.1f} s")
    assert not [pod for pod in pods if checks.node_of(pod) in changed]
    assert before.keys() - {pod["metadata"]["uid"] for pod in pods} == leaving
    evicted(audited, audited_namespace, Counter({(uid, 201): 1 for uid in leaving}))
    assert checks.overfull(api) == []
    (event,) = wait_for(
        "the node's Event", lambda: told(api, "PromiseBroken", next(iter(changed)), "default"), PATIENCE, 0.2
    )
    assert 'disk in (ssd): the label was "ssd", is "hdd"' in event["note"]

    for name in names[SIZE // 2 :]:
        relabel(api, name, "hdd")
    (event,) = wait_for("the breaker to open", lambda: told(api, "EvictionBreakerOpen", own.lease), PATIENCE, 0.2)
    assert event["regarding"]["kind"] == "Lease"
    held = wait_for("a pod that the breaker holds to be told of", lambda: _held(api, audited_namespace), PATIENCE, 0.2)
    assert {event["regarding"]["kind"] for event in held} == {"Pod"}
    for name in names[SIZE // 2 :]:
        relabel(api, name, "ssd")
    wait_for("the breaker to close", lambda: told(api, "EvictionBreakerClosed", own.lease), PATIENCE, 0.2)
    own.end()
    assert len(evictions(audited, audited_namespace)) == len(leaving)
    berth.end()
    for i in range(OWNERS):  # in pieces: the server gives one request a minute
        api.delete(f"{path}?labelSelector=app%3Dweb-{i}")


def test_flapping_label(audited: ControlPlane, audited_namespace: str, harbour: Harbour, add_nodes: AddNodes) -> None:
    """A label flaps at 1 Hz for longer than the grace: its pod stays, while a pod whose node stays wrong goes."""
    api, path = audited.api, pods_path(audited_namespace)
    add_nodes(audited, [evictor.node(name) for name in ("flaps", "stays-wrong", "steady")])
    for name in ("flaps", "stays-wrong"):
        api.create(path, pod(f"on-{name}", name, "flap", name))
    wrong = api.get(f"{path}/on-stays-wrong")["metadata"]["uid"]
    own = start(harbour, audited, audited_namespace, "flap", grace=8, max_changed=1, **BRISK)
    relabel(api, "stays-wrong", "hdd")
    for disk in ("hdd", "ssd") * 5:
        relabel(api, "flaps", disk)
        time.sleep(1.0)  # the rate is what the test is about
    wait_gone(api, audited_namespace, "on-stays-wrong", wrong)
    own.end()
    evicted(audited, audited_namespace, Counter({(wrong, 201): 1}))
    assert told(api, "PromiseBroken", "on-flaps", audited_namespace) == []


def test_budgets(audited: ControlPlane, audited_namespace: str, harbour: Harbour, add_nodes: AddNodes) -> None:
    """One disruption allowed: one of two goes. Two budgets: reported, asked for once. Both stay counted."""
    api, path = audited.api, pods_path(audited_namespace)
    add_nodes(audited, [evictor.node("budget-old", "hdd"), evictor.node("budget-new")])
    names = {"one-a": "one", "one-b": "one", "two": "two"}
    for name, owner in names.items():
        api.create(path, pod(name, "budget-old", "budget", owner))
        evictor.runs(api, audited_namespace, name)
    for name, owner, allowed in (("one", "one", 1), ("two-x", "two", 1), ("two-y", "two", 1)):
        allow(audited, audited_namespace, name, owner, allowed)
    own = start(harbour, audited, audited_namespace, "budget", grace=1, max_changed=1, **BRISK)
    for reason, among in (("DisruptionBudget", ("one-a", "one-b")), ("TwoDisruptionBudgets", ("two",))):
        events = wait_for(reason, partial(_told_of_any, api, reason, among, audited_namespace), PATIENCE)
        assert len(events) == 1
    own.end()
    left = {pod["metadata"]["name"] for pod in api.list(path)}
    assert len(left & {"one-a", "one-b"}) == 1 and "two" in left

    def codes() -> Counter[int]:
        return Counter(code for _, code in evictions(audited, audited_namespace).elements())

    # The line of an answer is written a moment after it.
    wait_for("the audit of each answer", lambda: all(codes()[code] for code in (201, 429, 500)), PATIENCE)
    found = codes()
    assert found[201] == 1 and found[500] == 1


def allow(cluster: ControlPlane, namespace: str, name: str, owner: str, allowed: int) -> None:
    """Do the disruption controller's work: a budget for the pods of an owner, and how many may go."""
    path = BUDGETS.format(namespace)
    spec = {"minAvailable": 0, "selector": {"matchLabels": {"app": owner}}}
    made = cluster.api.create(path, {"metadata": {"name": name}, "spec": spec})
    counts = {"currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2, "disruptionsAllowed": allowed}
    status = {"observedGeneration": made["metadata"]["generation"], **counts}
    cluster.api.patch(f"{path}/{name}/status", {"status": status})


def test_killed_after_the_post(
    audited: ControlPlane, audited_namespace: str, harbour: Harbour, add_nodes: AddNodes
) -> None:
    """Killed once the pod is gone: the next evictor leaves the successor of the same name alone, and only it."""
    api, path = audited.api, pods_path(audited_namespace)
    add_nodes(audited, [evictor.node("killed-old", "hdd"), evictor.node("killed-new")])
    options: Object = {"grace": 1, "max_changed": 1, **BRISK}
    made = pod("web-0", "killed-old", "killed")
    uid = api.create(path, made)["metadata"]["uid"]
    first = start(harbour, audited, audited_namespace, "killed", **options)
    wait_gone(api, audited_namespace, "web-0", uid)
    first.kill()
    again = api.create(path, made)["metadata"]["uid"]
    witness = api.create(path, pod("witness", "killed-old", "killed", "another"))["metadata"]["uid"]
    second = start(harbour, audited, audited_namespace, "killed", **options)
    wait_gone(api, audited_namespace, "witness", witness)
    assert api.get(f"{path}/web-0")["metadata"]["uid"] == again
    second.end()
    evicted(audited, audited_namespace, Counter({(uid, 201): 1, (witness, 201): 1}))
    assert len(told(api, "Evicting", "web-0", audited_namespace)) == 1


def test_observe_with_the_manifests_rights(
    audited: ControlPlane, audited_namespace: str, harbour: Harbour, add_nodes: AddNodes
) -> None:
    """The server is asked for a dry run: it says yes, an Event says so, and the pod stays as it was.

    The rights of manifests/evictor-rbac.yaml suffice for it, and are not enough for more.
    """
    api, path = audited.api, pods_path(audited_namespace)
    add_nodes(audited, [evictor.node("observed", "hdd"), evictor.node("observed-new")])
    api.create(path, pod("web", "observed", "observe"))
    before = api.get(f"{path}/web")
    with evictor.rights(audited, audited_namespace) as token:
        own = start(
            harbour,
            audited,
            audited_namespace,
            "observe",
            token=token,
            lease="berth-evictor",
            grace=1,
            max_changed=1,
            observe=True,
            **BRISK,
        )
        wait_for("WouldEvict", lambda: told(api, "WouldEvict", "web", audited_namespace), PATIENCE)
        own.end()
        plan = evictor.dry_run(own)
        assert (plan.returncode, plan.stderr) == (1, "")
        assert [one["name"] for one in json.loads(plan.stdout)["evictions"]] == ["web"]
        account = audited.api_as(token)
        refused = [
            "delete pods",
            "patch pods",
            "create pods/binding",
            "patch pods/status",
            "patch nodes",
            "list secrets",
            "list priorityclasses scheduling.k8s.io",
            "list configmaps",
        ]
        assert [asked for asked in refused if may(account, *asked.split())] == []
        assert may(account, "create", "pods/eviction")
        account.close()
    assert [line for line in own.lines() if line["level"] not in ("info", "debug")] == []
    assert api.get(f"{path}/web") == before
    assert told(api, "Evicting", "web", audited_namespace) == []


@pytest.mark.newest
def test_a_pod_with_a_claim_goes_where_its_devices_are(
    audited: ControlPlane, audited_namespace: str, harbour: Harbour, add_nodes: AddNodes
) -> None:
    """Devices that all nodes reach let their pod go, and devices of one node keep theirs."""
    api, path = audited.api, pods_path(audited_namespace)
    add_nodes(audited, [evictor.node("claim-old", "hdd"), evictor.node("claim-new")])
    claims = f"/apis/resource.k8s.io/v1/namespaces/{audited_namespace}/resourceclaims"
    for name, where in (("everywhere", ""), ("local", "claim-old")):
        made = claim(name, request("r", "gpu.test"), meta={"namespace": audited_namespace})
        del made["status"], made["metadata"]["uid"]
        api.create(claims, {"apiVersion": "resource.k8s.io/v1", **made})
        status = allocated(result("d0", f"pool-{name}"), node=where)
        api.patch(f"{claims}/{name}/status", {"status": status})
        api.create(path, claiming(pod(name, "claim-old", "claims", name), name))
    with evictor.rights(audited, audited_namespace) as token:
        own = start(
            harbour,
            audited,
            audited_namespace,
            "claims",
            token=token,
            lease="berth-evictor",
            grace=1,
            max_changed=1,
            observe=True,
            **BRISK,
        )
        wait_for("WouldEvict", lambda: told(api, "WouldEvict", "everywhere", audited_namespace), PATIENCE)
        (event,) = wait_for("NoOtherNode", lambda: told(api, "NoOtherNode", "local", audited_namespace), PATIENCE)
        own.end()
    assert "resourceclaim not available on the node" in event["note"]


def _told_of_any(api: Api, reason: str, names: Iterable[str], namespace: str) -> list[Object]:
    return [event for name in names for event in told(api, reason, name, namespace)]


def _held(api: Api, namespace: str) -> list[Object]:
    found = api.list(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events", fieldSelector="reason=PromiseBroken")
    return [event for event in found if "the breaker is open" in event["note"]]
