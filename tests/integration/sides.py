"""Berth and kube-scheduler beside each other, each on nodes of its own: what one is asked, the other is asked, too."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import pytest

from tests.controlplane.api import Object
from tests.controlplane.cluster import Cluster
from tests.controlplane.process import Process
from tests.controlplane.wait import wait_for
from tests.integration import checks
from tests.integration.berth import Berth, Harbour
from tests.integration.objects import node, pod, pods_path

OURS, THEIRS = WHOSE = ("ours", "theirs")


class Sides:
    """Two equal halves of a cluster. Names are given without the half that they are of."""

    def __init__(self, cluster: Cluster, namespace: str, harbour: Harbour, add_nodes: Callable[..., None]) -> None:
        self.cluster, self.api = cluster, cluster.api
        self.namespace, self.path = namespace, pods_path(namespace)
        self.scheduler = {whose: f"{whose}-{secrets.token_hex(4)}" for whose in WHOSE}
        self._harbour = harbour
        self._add_nodes = add_nodes
        self._berth: Berth | None = None
        self._kube: Process | None = None

    def start(self, gates: Sequence[str] = (), **config: Any) -> None:
        """Start both schedulers, kube-scheduler with these feature gates."""
        profiles: Object = {"profiles": [{"schedulerName": self.scheduler[THEIRS]}], **config}
        self._kube = self.cluster.start_kube_scheduler(profiles, gates=gates)
        self._harbour.started.append(self._kube)
        self._berth = self._harbour.berth(self.cluster, self.scheduler[OURS], **config)

    def kill(self) -> None:
        """Kill both."""
        assert self._berth is not None and self._kube is not None
        self._berth.kill()
        self._kube.kill()

    def end(self) -> None:
        """End Berth in order, if it runs."""
        if self._berth is not None and self._berth.running:
            self._berth.end()

    def node(self, name: str, of: str = "all", labels: Mapping[str, str] | None = None, **how: Any) -> None:
        """Create a node, on one side or on both. Pods with `at=of` go to it only if they say so."""
        for whose in WHOSE:
            mine = {"mine": f"{whose}-{of}", **(labels or {})}
            spec = how.get("spec", {})
            made = node(f"{whose}-{name}", labels=mine, **{key: value for key, value in how.items() if key != "spec"})
            self._add_nodes(self.cluster, [{**made, "spec": spec}])

    def pod(self, name: str, of: str = "all", on: str = "", **how: Any) -> None:
        """Create a pod that can go to nodes of its side only, or is on one already."""
        for whose in WHOSE:
            self.put(whose, name, of, on, **how)

    def put(self, whose: str, name: str, of: str = "all", on: str = "", **how: Any) -> None:
        """Create a pod of one side."""
        placed = {"nodeName": f"{whose}-{on}"} if on else {}
        asked = {"nodeSelector": {"mine": f"{whose}-{of}"}, **placed, **how}
        self.api.create(self.path, pod(f"{whose}-{name}", self.scheduler[whose], **asked))

    def get(self, whose: str, name: str) -> Object:
        """A pod as it is now."""
        return self.api.get(f"{self.path}/{whose}-{name}")

    def delete(self, name: str) -> None:
        """Delete a pod at once."""
        for whose in WHOSE:
            self.api.delete(f"{self.path}/{whose}-{name}")

    def nominate(self, name: str, at: str) -> None:
        """Nominate a pod for a node, as somebody other than its scheduler would."""
        for whose in WHOSE:
            status = {"status": {"nominatedNodeName": f"{whose}-{at}"}}
            self.api.patch(f"{self.path}/{whose}-{name}/status", status)

    def ends(self, want: Mapping[str, str], nominated: Mapping[str, str] | None = None) -> None:
        """Wait until these pods are on these nodes ("": on none), and nominated for those."""
        for whose in WHOSE:
            for name, at in want.items():
                self._wait(whose, name, "is on", at, checks.node_of)
            for name, at in (nominated or {}).items():
                self._wait(whose, name, "is nominated for", at, _nominated)

    def bound(self, names: Collection[str], count: int) -> None:
        """Wait until so many of these pods are on some node, on both sides."""
        for whose in WHOSE:

            def there(whose: str = whose) -> bool:
                return sum(bool(checks.node_of(self.get(whose, name))) for name in names) == count

            wait_for(f"{count} of {names} of {whose} to be bound", there, checks.BOUND)

    def _wait(self, whose: str, name: str, what: str, at: str, read: Callable[[Object], str]) -> None:
        full = at and f"{whose}-{at}"
        wait_for(f"{whose}-{name} {what} {full!r}", lambda: read(self.get(whose, name)) == full, checks.BOUND)

    def waits(self, name: str, text: str = "") -> str:
        """Wait until a pod is told that it has to wait, with this text; what is said, the same on both sides."""
        said = []
        for whose in WHOSE:
            found = checks.condition(checks.wait_condition(self.api, self.namespace, f"{whose}-{name}", text))
            said.append((found["reason"], found["message"].replace(f"{whose}-", "")))
        assert said[0] == said[1]
        return str(said[0][1])

    def going(self) -> set[str]:
        """The pods that are being deleted, which have to be the same on both sides."""
        ours, theirs = map(self._going, WHOSE)
        assert ours == theirs
        return ours

    def wait_going(self, want: Collection[str]) -> None:
        """Wait until these pods are being deleted, and no others."""
        for whose in WHOSE:

            def gone(whose: str = whose) -> bool:
                return self._going(whose) == set(want)

            wait_for(f"{want} of {whose} to go", gone, checks.BOUND)

    def _going(self, whose: str) -> set[str]:
        names = [one["metadata"]["name"] for one in self.api.list(self.path) if "deletionTimestamp" in one["metadata"]]
        return {name[len(whose) + 1 :] for name in names if name.startswith(whose)}


def _nominated(found: Object) -> str:
    name: str = found["status"].get("nominatedNodeName", "")
    return name


@pytest.fixture
def sides(
    control_plane: Cluster, real_namespace: str, harbour: Harbour, add_nodes: Callable[..., None]
) -> Iterator[Sides]:
    """Both halves of the shared control plane."""
    made = Sides(control_plane, real_namespace, harbour, add_nodes)
    yield made
    made.end()
