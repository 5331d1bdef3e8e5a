"""Every component of the chart restarted as its Deployment would do it, while pods are created all the time."""

from __future__ import annotations

import itertools
import secrets
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.chart.rendering import Chart
from tests.controlplane.api import Api, ApiError, Object
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.wait import wait_for
from tests.integration import checks
from tests.integration.admission import POLICIES, Service
from tests.integration.berth import START
from tests.integration.installed import Installed, Replica
from tests.integration.objects import NODES, nodes, pod, pods_path

RATE = 100
"""Creates a second, as far as the machine takes them; nothing below depends on it."""
MOST = 4000
"""Pods at most, however long the restarts take."""
BEFORE, AFTER = 150, 150
"""Pods that are created before the first restart and after the last."""
CREATORS = 12
RELEASE, TEAM = "berth", "team"
VALUES: Object = {
    "evictor": {"enabled": True, "replicas": 1},
    "operator": {"replicas": 1},
    "policy": {"enforcement": "webhook"},  # so that its replicas have something to do
}
REPLICAS = {"admission": 2, "operator": 1, "evictor": 1, "scheduler": 2}
"""In the order in which they are restarted."""
ELSEWHERE = "default-scheduler"
KINDS = ("refused", *["routed"] * 6, *["direct"] * 2, "foreign")
"""What every ten pods are: the policies send most to Berth and refuse one; two name Berth themselves, one does not."""


def policy(name: str, kind: str, **action: Any) -> Object:
    """What becomes of pods of one kind."""
    rule = {"policyPredicate": {"labelSelector": {"matchLabels": {"kind": kind}}}, "policyAction": action}
    head = {"apiVersion": "podberth.dev/v1alpha1", "kind": "MetadataPolicy"}
    return {**head, "metadata": {"name": name}, "spec": {"rules": [rule]}}


ROUTE = policy(
    "route",
    "routed",
    updatedAnnotations={"scheduler.alpha.kubernetes.io/name": RELEASE},
    updatedLabels={"sent-by": "policy"},
)
REFUSE = policy("refuse", "refused", reject=True, message="not in this team")


class Creator:
    """Creates pods from several threads, and holds each answer against the policies."""

    def __init__(self, api: Api) -> None:
        self.answered: Counter[str] = Counter()
        self.wrong: list[str] = []
        self._api = api
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._work) for _ in range(CREATORS)]
        self._began = 0.0

    def __enter__(self) -> Creator:
        self._began = time.monotonic()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(START)

    @property
    def count(self) -> int:
        """Creates that were answered."""
        return sum(self.answered.values())

    @property
    def rate(self) -> float:
        """Creates a second so far."""
        return self.count / (time.monotonic() - self._began)

    def wait_more(self, count: int) -> None:
        """Return after so many more creates, or when there is nothing more to come."""
        wanted = self.count + count
        wait_for(f"{count} more creates", lambda: self.wrong or self.count >= min(wanted, MOST), START)

    def _work(self) -> None:
        while not self._stop.is_set():
            with self._lock:
                number = next(self._numbers)
            if number >= MOST:
                return
            self._stop.wait(self._began + number / RATE - time.monotonic())
            kind = KINDS[number % len(KINDS)]
            said = self._create(f"{kind}-{number}", kind)
            with self._lock:
                self.answered[kind] += 1
                if said:
                    self.wrong.append(said)

    def _create(self, name: str, kind: str) -> str:
        """What is wrong with the answer; nothing is empty."""
        wanted = RELEASE if kind == "direct" else ELSEWHERE
        body = pod(name, wanted, cpu="1m", memory="1Mi", labels={"kind": kind})
        try:
            made = self._api.create(pods_path(TEAM), body)
        except ApiError as error:
            expected = kind == "refused" and (error.status, "not in this team" in error.message) == (403, True)
            return "" if expected else f"{name}: {error}"
        except OSError as error:
            return f"{name}: {error!r}"
        routed = {"kind": "routed", "sent-by": "policy"}
        want = {
            "routed": (RELEASE, routed),
            "direct": (RELEASE, {"kind": "direct"}),
            "foreign": (ELSEWHERE, {"kind": "foreign"}),
        }
        got = made["spec"]["schedulerName"], made["metadata"]["labels"]
        return "" if want.get(kind) == got else f"{name}: {got}"


class Fleet:
    """The replicas that run, and the Service before the admission servers."""

    def __init__(self, installed: Installed) -> None:
        self.installed = installed
        self.service = Service()
        self.running: dict[str, list[Replica]] = {name: [] for name in REPLICAS}
        self._ending: list[tuple[Replica, Future[int]]] = []
        self._threads = ThreadPoolExecutor(16)

    def start(self) -> None:
        """As many replicas as the chart says, all at once."""
        wanted = [name for name, count in REPLICAS.items() for _ in range(count)]
        for replica in self._threads.map(self._start, wanted):
            self._add(replica)

    def leading(self, component: str) -> Replica | None:
        """Who holds its Lease, among those that run; as its log says."""
        return next((one for one in self.running[component] if one.lines("leads")), None)

    def roll(self, component: str) -> None:
        """A new one first, until it is ready; then the old one is told to end, and not waited for. The leader first."""
        before = sorted(self.running[component], key=lambda one: not one.lines("leads"))
        for leaving in before:
            self._add(self._start(component))
            self.running[component].remove(leaving)
            self._ending.append((leaving, self._threads.submit(leaving.stop, START)))
            if component == "admission":
                # What a readiness probe does to the endpoints, a moment after it fails.
                wait_for(f"{leaving.name} not to be ready", partial(self._unready, leaving), START)
                self.service.backends = [one.ports["https"] for one in self.running["admission"]]
            if component == "scheduler" and leaving.lines("leads"):
                wait_for("the next leader", lambda: self.leading("scheduler"), START)

    @staticmethod
    def _unready(replica: Replica) -> bool:
        return not replica.probe("readinessProbe")

    def end(self) -> dict[str, int]:
        """End what runs; the exit code of each that was ever started."""
        for replica in itertools.chain(*self.running.values()):
            self._ending.append((replica, self._threads.submit(replica.stop, START)))
        codes = {replica.name: ended.result(2 * START) for replica, ended in self._ending}
        self.close()
        return codes

    def close(self) -> None:
        """Let go of everything."""
        self._threads.shutdown(cancel_futures=True)
        self.service.close()

    def _start(self, component: str) -> Replica:
        return self.installed.start(RELEASE, component, self.service.url)

    def _add(self, replica: Replica) -> None:
        self.running[replica.component].append(replica)
        if replica.component == "admission":
            self.service.backends = [*self.service.backends, replica.ports["https"]]


@pytest.fixture
def installed(control_plane_binaries: Path, chart: Chart, tmp_path: Path) -> Iterator[Installed]:
    """A control plane of its own with the release, the team's policies, and room for all."""
    with ControlPlane(audit=True) as cluster:
        made = Installed(cluster, chart, tmp_path)
        for name in (RELEASE, TEAM):
            made.api.create("/api/v1/namespaces", {"metadata": {"name": name}})
        made.helm("install", RELEASE, VALUES)
        made.api.create_many(NODES, nodes(20, "quay", pods="250"))
        for body in (ROUTE, REFUSE):
            made.api.create(POLICIES.format(TEAM), body)
        yield made
        made.close()


@pytest.mark.timeout(600)
def test_rolling_restart(installed: Installed) -> None:
    """Nothing is lost: every create is answered by the policies, every pod bound once."""
    api, fleet = installed.api, Fleet(installed)
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}
    for component in REPLICAS:
        assert installed.deployment(RELEASE, component)["spec"]["strategy"] == strategy
    fleet.start()
    wait_for("the webhooks to be called", lambda: _enforced(api), START)
    wait_for("a scheduler to lead", lambda: fleet.leading("scheduler"), START)

    with Creator(api) as creator:
        creator.wait_more(BEFORE)
        for component in REPLICAS:
            fleet.roll(component)
        creator.wait_more(AFTER)
        rate = creator.rate
    assert creator.wrong == []

    made = creator.answered
    ours = made["routed"] + made["direct"]
    found = checks.wait_bound(api, TEAM, ours)
    wait_for("the policy's status", lambda: _available(api), START, 0.2)
    codes = fleet.end()
    assert set(codes.values()) == {0}, codes

    assert len(found) == made.total() - made["refused"]
    bound = [one for one in found if checks.node_of(one)]
    assert {one["spec"]["schedulerName"] for one in bound} == {RELEASE}
    checks.bound_once_each(installed.cluster, TEAM, bound)
    assert _failed_open(installed) == []
    for replica in installed.started:
        text = replica.log.read_text()
        assert "Traceback" not in text, replica.tail(60)
        cut_off = [line["writes_cut_off"] for line in replica.lines("stopped") if "writes_cut_off" in line]
        assert not any(cut_off), replica.tail()
    print(f"\n{made.total()} creates, {rate:.0f} a second, through {len(codes)} processes: {dict(made)}")
    _one_after_another(installed)


def _one_after_another(installed: Installed) -> None:
    """No Binding of a scheduler after it gave the Lease back, and none of the next before; prints the gaps."""
    bindings: dict[str, list[datetime]] = {}
    leases: dict[str, list[datetime]] = {}
    for event in installed.cluster.audit_events():
        asked, (who, *_) = event.get("objectRef", {}), event["user"].get("extra", {}).get(CREDENTIAL, [""])
        when = datetime.fromisoformat(event["requestReceivedTimestamp"])
        if asked.get("subresource") == "binding":
            bindings.setdefault(who, []).append(when)
        elif (asked.get("resource"), asked.get("name"), event["verb"]) == ("leases", RELEASE, "update"):
            leases.setdefault(who, []).append(when)
    terms = sorted((min(bindings[who]), max(bindings[who]), max(leases[who])) for who in bindings)
    assert bindings.keys() <= {one.credential for one in installed.started if one.component == "scheduler"}
    assert len(terms) > 1, "no scheduler took over"
    for (_, last, released), (first, _, _) in itertools.pairwise(terms):
        assert last < released < first
        print(f"handover: the next Binding {(first - last).total_seconds():.2f} s after the one before", end=", ")
        print(f"{(first - released).total_seconds():.2f} s after the Lease was given back")


CREDENTIAL = "authentication.kubernetes.io/credential-id"


def _enforced(api: Api) -> bool:
    """Both policies and both webhooks are in force."""
    path = f"{pods_path(TEAM)}?dryRun=All"
    name = f"canary-{secrets.token_hex(3)}"
    made = api.create(path, pod(name, ELSEWHERE, labels={"kind": "routed"}))
    if made["spec"]["schedulerName"] != RELEASE:
        return False
    try:
        api.create(path, pod(name, ELSEWHERE, labels={"kind": "refused"}))
    except ApiError as error:
        return error.status == 403
    return False


def _available(api: Api) -> bool:
    status = api.get(f"{POLICIES.format(TEAM)}/route").get("status", {})
    return any(one["type"] == "SchedulerAvailable" and one["status"] == "True" for one in status.get("conditions", []))


def _failed_open(installed: Installed) -> list[str]:
    """Requests that no webhook answered."""
    return [
        event["requestURI"]
        for event in installed.cluster.audit_events()
        if event.get("objectRef", {}).get("namespace") == TEAM
        and any("failed-open" in key for key in event.get("annotations", {}))
        and "dryRun" not in event["requestURI"]
    ]
