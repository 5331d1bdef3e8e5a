"""A leader whose event loop is held on a real API server: it keeps its Lease while there is hope, and ends when not."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.controlplane.api import Object
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.wait import wait_for
from tests.integration import checks
from tests.integration.berth import START, Harbour
from tests.integration.objects import nodes, plain, pod, pods_path
from tests.integration.test_serving import ask, wait_serving
from tests.packages import install_module

PAST_THE_DEADLINE = timedelta(seconds=8)
"""From one renewal of the held leader to another: more than the renew deadline of seven seconds."""
TAKEOVER = 120.0
"""A generous bound on a busy machine for 21 s without a turn of the loop, and 9 s until the Lease has ended."""
HOLDER = '''
import sys
from pathlib import Path

from podberth.kit import ANYTHING, Plugin


class Holder(Plugin):
    """Holds the event loop of the first replica for some pods, whatever is thrown at it, until a file appears."""

    name = "Holder"
    depends_on = ANYTHING

    def filter(self, pod, cluster):
        here = Path({home!r})
        if pod.name == "holds" and any("-one" in word for word in sys.argv):
            (here / "holding").touch()
            while True:
                try:
                    while not (here / "let-go").exists():
                        sum(range(10_000))
                    break
                except BaseException:
                    pass
        return ()
'''


class Held:
    """Two replicas, of which the first leads and has a pod that holds its loop."""

    def __init__(self, harbour: Harbour, cluster: ControlPlane, namespace: str) -> None:
        self.api = cluster.api
        self.lease = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/berth"
        name = f"held-{namespace}"
        more: Object = {
            "leaderElection": {
                "leaderElect": True,
                "resourceNamespace": namespace,
                "leaseDuration": "9s",
                "renewDeadline": "7s",
                "retryPeriod": "1s",
            },
            "profiles": [{"schedulerName": name, "plugins": {"multiPoint": {"enabled": [{"name": "Holder"}]}}}],
        }
        self.first = harbour.berth(cluster, name, replica="-one", serving=True, **more)
        wait_serving(self.first)
        wait_for("the first to lead", lambda: self.first.lines("leads"), START)
        self.second = harbour.berth(cluster, name, replica="-two", **more)
        self.home = harbour.home
        self.api.create(pods_path(namespace), pod("holds", name))
        wait_for("the loop to be held", lambda: (self.home / "holding").exists(), START)

    def renewed(self) -> tuple[str, str]:
        """Who holds the Lease, and when it was last renewed."""
        spec = self.api.get(self.lease)["spec"]
        return spec.get("holderIdentity", ""), spec["renewTime"]


@pytest.fixture
def held(
    audited: ControlPlane,
    audited_namespace: str,
    harbour: Harbour,
    add_nodes: Callable[..., None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Held:
    """A leader that is held up, and its standby."""
    site = tmp_path / "site"
    site.mkdir()
    install_module(site, "holder", HOLDER.format(home=str(harbour.home)), "Holder")
    monkeypatch.setenv("PYTHONPATH", str(site))
    add_nodes(audited, nodes(2, "held"))
    return Held(harbour, audited, audited_namespace)


def test_goes_on_as_the_leader(audited: ControlPlane, audited_namespace: str, held: Held) -> None:
    """Held for longer than the renew deadline it keeps the Lease, is alive and not ready; then it binds as before."""
    holder, since = held.renewed()

    def renewed() -> bool:
        """By the times that it writes: on a busy machine there are fewer renewals, and it does not live for ever."""
        held.first.check()
        who, at = held.renewed()
        assert who == holder
        return datetime.fromisoformat(at) - datetime.fromisoformat(since) > PAST_THE_DEADLINE

    wait_for("the Lease to be renewed", renewed, START)
    assert ask(held.first, "/livez")[0] == 200
    assert ask(held.first, "/readyz")[0] == 503
    audited.api.create_many(pods_path(audited_namespace), plain(5, held.first.scheduler_name))
    (held.home / "let-go").touch()
    pods = checks.wait_bound(audited.api, audited_namespace, 6)
    checks.bound_once_each(audited, audited_namespace, pods)
    assert held.renewed()[0] == holder
    assert not held.second.lines("leads")
    wait_for("the first to be ready", lambda: ask(held.first, "/readyz")[0] == 200, START)
    held.first.end()
    held.second.end()


def test_ends_when_it_is_dead(audited: ControlPlane, audited_namespace: str, held: Held) -> None:
    """Held beyond the bound it ends with 1, says where it was, and the standby takes over; nothing is bound twice."""
    audited.api.create_many(pods_path(audited_namespace), plain(5, held.first.scheduler_name))
    wait_for("the first to end", lambda: not held.first.running, TAKEOVER)
    assert held.first.stop() == 1
    (line,) = held.first.lines("the process is stuck and ends, so that another replica takes over")
    assert "has not turned for" in line["reason"]
    assert any("holder.py" in frame for frame in line["at"])
    assert "Traceback" not in held.first.log.read_text()
    wait_for("the standby to lead", lambda: held.second.lines("leads"), TAKEOVER)
    pods = checks.wait_bound(audited.api, audited_namespace, 6)
    checks.bound_once_each(audited, audited_namespace, pods)
    held.second.end()
