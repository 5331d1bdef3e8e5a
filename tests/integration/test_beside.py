"""Beside kube-scheduler: what a race between the two broke is found afterwards, said, counted, and mended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from tests.controlplane.api import Object
from tests.controlplane.cluster import ControlPlane, free_port
from tests.controlplane.wait import wait_for
from tests.integration import checks, evictor
from tests.integration.berth import START, Harbour
from tests.integration.evictor import BRISK, evicted, start, told, wait_gone
from tests.integration.objects import ZONE, apart, node, pod, pods_path
from tests.integration.proxy import Proxy
from tests.integration.test_serving import ask, wait_serving

PODS = "/api/v1/pods"


def test_anti_affinity_of_a_zone(
    audited: ControlPlane, audited_namespace: str, harbour: Harbour, add_nodes: Callable[..., None]
) -> None:
    """kube-scheduler's pod and ours come into one zone, though ours must be alone there.

    Berth hears of the other pod only after its own Binding. One event says so, on our pod alone. Its owner has allowed
    the evictor to keep what it requires, so once there is another zone our pod goes, and kube-scheduler's stays.
    """
    api, path, zone = audited.api, pods_path(audited_namespace), f"zone-{audited_namespace}"
    here = {"test": audited_namespace}
    add_nodes(audited, [node(f"{audited_namespace}-{i}", zone, labels=here) for i in (1, 2)])
    _, kube_name = harbour.kube_scheduler(audited)
    port = free_port()
    with Proxy(audited) as proxy:
        proxy.loses = lambda of, event: of == PODS and event["object"]["metadata"].get("name") == "theirs"
        name = f"berth-{audited_namespace}"
        berth = harbour.berth_at(proxy.kubeconfig(harbour.home / "behind.kubeconfig"), name, port=port)
        berth.wait_synced()
        wait_serving(berth)
        web = {"app": "web"}
        ours = evictor.pod("ours", None, name, promise="true")
        ours["spec"] |= {"affinity": apart(web, ZONE), "nodeSelector": here}
        theirs = pod("theirs", kube_name, labels=web, nodeSelector=here)
        # One after the other: kube-scheduler would heed the anti-affinity of a pod that it sees bound.
        api.create(path, theirs)
        checks.wait_bound(api, audited_namespace, 1)
        api.create(path, ours)
        uids = {one["metadata"]["name"]: one["metadata"]["uid"] for one in checks.wait_bound(api, audited_namespace, 2)}
        proxy.loses = lambda of, event: False
        api.patch(f"{path}/theirs", {"metadata": {"annotations": {"news": "of a pod that Berth has not seen"}}})
        (said,) = checks.wait_events(api, audited_namespace, "PlacementConflict", 1)
        assert (said["regarding"]["uid"], said["type"], said["action"]) == (uids["ours"], "Warning", "Scheduling")
        assert said["note"] == (
            f"pod anti-affinity does not hold: pod {audited_namespace}/theirs of scheduler {kube_name} was placed in "
            f'{ZONE} "{zone}" about the same time'
        )
        counted = 'berth_placement_conflicts_total{constraint="anti_affinity"} 1'
        wait_for("the metric", lambda: counted in ask(berth, "/metrics", token=audited.admin_token)[1], START)
        own = start(harbour, audited, audited_namespace, name, grace=2, max_changed=1, **BRISK)
        wait_for(
            "it to stay for want of another zone", lambda: told(api, "NoOtherNode", "ours", audited_namespace), START
        )
        add_nodes(audited, [node(f"{audited_namespace}-far", f"{zone}-far", labels=here)])
        wait_gone(api, audited_namespace, "ours", uids["ours"])
        own.end()
        berth.end()
    evicted(audited, audited_namespace, Counter({(uids["ours"], 201): 1}))
    (left,) = api.list(path)
    assert left["metadata"]["uid"] == uids["theirs"]

    def about() -> list[Object]:
        found = checks.events(api, audited_namespace)
        return [event for event in found if event["regarding"].get("uid") == uids["theirs"]]

    about_theirs = wait_for("the events of the other pod", about, START)
    assert {event["reportingController"] for event in about_theirs} == {kube_name}
    assert len(checks.events(api, audited_namespace, "PlacementConflict")) == 1
