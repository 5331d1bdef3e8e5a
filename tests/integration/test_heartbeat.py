"""A scheduler that is not elected, on a real API server: others see by a Lease that it lives."""

from __future__ import annotations

from podberth.app.lease import SUFFIX
from podberth.service.schedulers import SCHEDULERS
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.wait import wait_for
from tests.integration.berth import START, Harbour

LEASES = "/apis/coordination.k8s.io/v1/namespaces/{}/leases"


def test_a_lease_without_an_election(harbour: Harbour, control_plane: ControlPlane, real_namespace: str) -> None:
    """It names the schedulers while the process runs, and is given back when it ends."""
    path = LEASES.format(real_namespace)
    election = {"leaderElect": False, "resourceNamespace": real_namespace}
    berth = harbour.berth(control_plane, leaderElection=election)
    wait_for("the Lease", lambda: control_plane.api.list(path) != [], START)
    [lease] = control_plane.api.list(path)
    assert lease["metadata"]["name"] == "berth" + SUFFIX
    assert lease["metadata"]["annotations"] == {SCHEDULERS: berth.scheduler_name}
    assert lease["spec"]["holderIdentity"]
    berth.end()
    [lease] = control_plane.api.list(path)
    assert lease["spec"]["holderIdentity"] == ""
