"""The manifest's FlowSchemas on an API server that has priority and fairness switched on, as clusters do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.controlplane.api import Api, ApiError
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.wait import wait_for

MANIFESTS = Path(__file__).parents[2] / "manifests"
FAIR = (
    "--enable-priority-and-fairness=true",
    "--max-requests-inflight=400",
    "--max-mutating-requests-inflight=200",
)
COUNTED = "apiserver_flowcontrol_dispatched_requests_total{"


@pytest.fixture
def fair(control_plane_binaries: Path) -> Iterator[ControlPlane]:
    """One with the scheduler's rights and FlowSchemas."""
    with ControlPlane(apiserver_args=FAIR) as own:
        for name in ("namespace.yaml", "scheduler-rbac.yaml"):
            own.kubectl("apply", "-f", "-", stdin=(MANIFESTS / name).read_text())
        yield own


def levels(api: Api) -> dict[str, str]:
    """FlowSchema → priority level, of requests that were served so far."""
    lines = [line[len(COUNTED) :] for line in api.text("/metrics").splitlines() if line.startswith(COUNTED)]
    labels = [dict(part.split("=", 1) for part in line.split("}")[0].split(",")) for line in lines]
    return {each["flow_schema"].strip('"'): each["priority_level"].strip('"') for each in labels}


def test_requests_wait_in_queues_of_their_own(fair: ControlPlane) -> None:
    """The Lease is served at leader-election, and what else the scheduler asks for at workload-high."""
    account = fair.api_as(fair.service_account_token("berth", "berth-scheduler"))

    def served() -> bool:
        account.list("/api/v1/nodes", limit=1)
        with suppress(ApiError):  # it is not there
            account.get("/apis/coordination.k8s.io/v1/namespaces/berth/leases/berth")
        return {"berth-scheduler", "berth-scheduler-lease"} <= levels(fair.api).keys()

    try:
        wait_for("requests of the account under both FlowSchemas", served)
        found = levels(fair.api)
    finally:
        account.close()
    assert (found["berth-scheduler-lease"], found["berth-scheduler"]) == ("leader-election", "workload-high")
