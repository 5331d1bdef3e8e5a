"""One HTTP extender for kube-scheduler and Berth at once: the same nodes, the same words."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from tests.controlplane.api import Api, Object
from tests.controlplane.cluster import Cluster, ControlPlane, free_port
from tests.controlplane.wait import wait_for
from tests.extender import ExtenderServer, keep, names, rate
from tests.integration import checks
from tests.integration.berth import Harbour
from tests.integration.objects import node, nodes, pod, pods_path
from tests.integration.sides import WHOSE, Sides, sides

__all__ = ["sides"]

WHY = {"quay-0": "the crane is out of order", "quay-1": "too shallow", "quay-2": "too shallow"}


def rules(api: Api) -> dict[str, Callable[[Object], Any]]:
    """Pods named nowhere-… are kept from everywhere, others go to two nodes of four, best to the third."""

    def choose(asked: Object) -> Any:
        if asked["Pod"]["metadata"]["name"].startswith("nowhere"):
            return keep(failed={"quay-0": WHY["quay-0"]}, hopeless=WHY)(asked)
        return keep("quay-1", "quay-2", failed={"quay-0": WHY["quay-0"]})(asked)

    def bind(asked: Object) -> Object:
        binding = {
            "metadata": {"name": asked["PodName"], "uid": asked["PodUID"]},
            "target": {"kind": "Node", "name": asked["Node"]},
        }
        api.create(f"{pods_path(asked['PodNamespace'])}/{asked['PodName']}/binding", binding)
        return {}

    return {"filter": choose, "rank": rate(**{"quay-2": 9, "quay-1": 1}), "bind": bind}


@pytest.mark.parametrize("capable", [False, True], ids=["whole nodes", "names"])
def test_side_by_side(
    audited: ControlPlane, audited_namespace: str, harbour: Harbour, add_nodes: Callable[..., None], capable: bool
) -> None:
    """Each binds a pod through the extender where it scores best, and says of another why it goes nowhere."""
    api, path = audited.api, pods_path(audited_namespace)
    add_nodes(audited, nodes(4, "quay"))
    with ExtenderServer(rules(api)) as server:
        extender = {
            "urlPrefix": server.url,
            "filterVerb": "filter",
            "prioritizeVerb": "rank",
            "bindVerb": "bind",
            "weight": 50,
            "nodeCacheCapable": capable,
            "httpTimeout": "30s",
        }
        berth = harbour.berth(audited, extenders=[extender])
        kube_name = f"kube-{berth.scheduler_name}"
        kube = audited.start_kube_scheduler({"extenders": [extender]}, kube_name)
        harbour.started.append(kube)
        schedulers = {"ours": berth.scheduler_name, "theirs": kube_name}
        for whose, name in schedulers.items():
            api.create_many(path, [pod(f"{what}-{whose}", name) for what in ("somewhere", "nowhere")])
        pods = checks.wait_bound(api, audited_namespace, 2)
        said = {
            whose: checks.condition(checks.wait_condition(api, audited_namespace, f"nowhere-{whose}"))
            for whose in schedulers
        }
        events = checks.wait_events(api, audited_namespace, "Scheduled", 2)
        berth.end()
        kube.stop()
    bound = {found["metadata"]["name"]: checks.node_of(found) for found in pods if checks.node_of(found)}
    assert bound == {"somewhere-ours": "quay-2", "somewhere-theirs": "quay-2"}
    assert said["ours"]["message"] == said["theirs"]["message"]
    assert said["ours"]["reason"] == said["theirs"]["reason"] == "Unschedulable"
    assert "1 the crane is out of order, 2 too shallow" in said["ours"]["message"]
    assert {event["note"].split()[-1] for event in events} == {"quay-2"}
    asked: dict[str, list[tuple[str, Object]]] = {"ours": [], "theirs": []}
    for verb, body in server.asked:
        name = body["PodName"] if verb == "bind" else body["Pod"]["metadata"]["name"]
        if name.startswith("somewhere"):
            asked[name.partition("-")[2]].append((verb, body))
    assert [verb for verb, _ in asked["ours"]] == [verb for verb, _ in asked["theirs"]] == ["filter", "rank", "bind"]
    for (verb, ours), (_, theirs) in zip(asked["ours"], asked["theirs"], strict=True):
        assert set(ours) == set(theirs), verb


def test_preemption_side_by_side(
    control_plane: Cluster, real_namespace: str, harbour: Harbour, add_nodes: Callable[..., None], urgent: str
) -> None:
    """Both schedulers could preempt on two nodes each; the extender leaves one, and they say the same of it."""
    api, path = control_plane.api, pods_path(real_namespace)

    def choose(asked: Object) -> Object:
        found = asked["NodeNameToMetaVictims"]
        return {"NodeNameToMetaVictims": {name: victims for name, victims in found.items() if name.endswith("-b")}}

    with ExtenderServer({"preempt": choose}) as server:
        extender = {"urlPrefix": server.url, "preemptVerb": "preempt", "nodeCacheCapable": True, "httpTimeout": "30s"}
        berth = harbour.berth(control_plane, extenders=[extender])
        kube_name = f"kube-{berth.scheduler_name}"
        kube = control_plane.start_kube_scheduler({"extenders": [extender]}, kube_name)
        harbour.started.append(kube)
        names = {"ours": berth.scheduler_name, "theirs": kube_name}
        for whose in names:
            add_nodes(control_plane, [node(f"{whose}-{i}", cpu="1", labels={"owner": whose}) for i in "ab"])
            for i in "ab":
                victim = pod(f"{whose}-victim-{i}", "nobody", cpu="800m", terminationGracePeriodSeconds=300)
                victim["spec"]["nodeName"] = f"{whose}-{i}"
                api.create(path, victim)
        for whose, name in names.items():
            how: Object = {"nodeSelector": {"owner": whose}, "priorityClassName": urgent}
            api.create(path, pod(f"{whose}-urgent", name, cpu="500m", **how))

        def nominated(whose: str) -> Object | None:
            found = api.get(f"{path}/{whose}-urgent")
            return found if found["status"].get("nominatedNodeName") else None

        said = {
            whose: wait_for(f"the nomination of {whose}", partial(nominated, whose), checks.BOUND) for whose in names
        }
        # kube-scheduler writes the nomination before it deletes the victim.
        wait_for("the victims to go", lambda: _going(api, path) == {"ours-victim-b", "theirs-victim-b"}, checks.BOUND)
        berth.end()
        kube.stop()
    assert {whose: found["status"]["nominatedNodeName"] for whose, found in said.items()} == {
        "ours": "ours-b",
        "theirs": "theirs-b",
    }
    messages = [checks.condition(found)["message"].replace(whose, "…") for whose, found in said.items()]
    assert messages[0] == messages[1]
    assert _going(api, path) == {"ours-victim-b", "theirs-victim-b"}
    asked = {body["Pod"]["metadata"]["name"]: body for _, body in server.asked}
    shapes = []
    for whose in names:
        victims = asked[f"{whose}-urgent"]["NodeNameToMetaVictims"]
        shapes.append(
            {name.replace(whose, "…"): (len(v["Pods"]), v["NumPDBViolations"]) for name, v in victims.items()}
        )
    assert shapes[0] == shapes[1] == {"…-a": (1, 0), "…-b": (1, 0)}


def test_extenders_that_fail(sides: Sides) -> None:
    """Each is asked of pods with its resource only: one that is down and may be, one that fails, one that won't bind.

    The pods of the last two wait until the extender does its work.
    """
    sides.node("a")
    works = False

    def choose(asked: Object) -> Any:
        return {"NodeNames": names(asked)} if works else 503

    def bind(asked: Object) -> Object:
        return rules(sides.api)["bind"](asked) if works else {"Error": "the crane is out of order"}

    with ExtenderServer({"filter": choose, "bind": bind}) as server:
        common: Object = {"nodeCacheCapable": True, "httpTimeout": "30s"}
        extenders: list[Object] = [
            {"urlPrefix": f"http://127.0.0.1:{free_port()}", "filterVerb": "filter", "ignorable": True},
            {"urlPrefix": server.url, "filterVerb": "filter"},
            {"urlPrefix": server.url, "bindVerb": "bind"},
        ]
        kinds = ("down", "fails", "binds")
        for extender, kind in zip(extenders, kinds, strict=True):
            managed = [{"name": f"example.com/{kind}", "ignoredByScheduler": True}]
            extender |= {**common, "managedResources": managed}
        sides.start(extenders=extenders)
        sides.pod("plain")
        for kind in kinds:
            for whose in WHOSE:
                made = pod(f"{whose}-{kind}", sides.scheduler[whose], nodeSelector={"mine": f"{whose}-all"})
                resources = made["spec"]["containers"][0]["resources"]
                resources["limits"] = {f"example.com/{kind}": "1"}
                resources["requests"] |= resources["limits"]
                sides.api.create(sides.path, made)
        sides.ends({"plain": "a", "down": "a"})
        sides.waits("fails", "code 503")
        for whose in WHOSE:  # ours names the extender, too
            checks.wait_condition(sides.api, sides.namespace, f"{whose}-binds", "the crane is out of order")
        works = True
        sides.ends(dict.fromkeys(kinds, "a"))
        about = {body["PodName"] if verb == "bind" else body["Pod"]["metadata"]["name"] for verb, body in server.asked}
        assert about == {f"{whose}-{kind}" for whose in WHOSE for kind in kinds[1:]}
        sides.end()


def _going(api: Api, path: str) -> set[str]:
    """Names of the pods that are being deleted."""
    return {found["metadata"]["name"] for found in api.list(path) if "deletionTimestamp" in found["metadata"]}
