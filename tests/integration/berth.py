"""`berth run` as a process of its own, as people run it."""

from __future__ import annotations

import os
import secrets
import signal
from collections.abc import Sequence
from pathlib import Path

import yaml

from tests.controlplane.api import Object
from tests.controlplane.cluster import Cluster, free_port
from tests.controlplane.process import Process
from tests.controlplane.wait import wait_for
from tests.integration.component import Component

START = 120.0
"""Seconds that a start, or an orderly end, may take on a machine busy with other things."""


class Berth(Component):
    """One scheduler for one test: a schedulerName of its own, and its log as objects."""

    def __init__(
        self,
        home: Path,
        scheduler_name: str,
        kubeconfig: Path,
        config: Object,
        replica: str = "",
        port: int = 0,
        verify: int = 0,
        log_level: str = "info",
    ) -> None:
        self.scheduler_name = scheduler_name
        name = f"{scheduler_name}{replica}"
        self.config = home / f"{name}.yaml"
        self.config.write_text(yaml.safe_dump(config))
        serving = ["--bind-address=127.0.0.1", f"--secure-port={port}"]
        given = [f"--config={self.config}", f"--kubeconfig={kubeconfig}", f"--log-level={log_level}", *serving]
        super().__init__(f"berth {name}", home, "run", *given, *([f"--verify={verify}"] if verify else []))
        self.url = f"https://127.0.0.1:{port}"

    def wait_synced(self) -> None:
        """Return once it schedules."""
        wait_for(f"{self.name} to be synced", self._synced, START)

    def compared(self) -> Object:
        """What its comparison of the cache with a fresh list says."""
        before = len(self.lines("cache compared"))
        os.kill(self.pid, signal.SIGUSR2)
        found: Object = wait_for("the comparison", lambda: self.lines("cache compared")[before:], START)[0]
        return found

    def wait_known(self) -> None:
        """Return once its cache is as the cluster is.

        Pods and nodes come by a watch each: of a pod that is created after a change of a node, it may hear first.
        """
        wait_for("the cache to be as the cluster is", lambda: self.compared()["differences"] == 0, START)

    def end(self) -> Object:
        """SIGTERM, as a rollout does: it must end with 0 and cut no write off. Its last line."""
        code = self.stop(START)
        assert code == 0, f"{self.name} ended with {code}:\n{self.tail()}"
        (said,) = self.lines("stopped")[-1:] or [{}]
        assert said.get("writes_cut_off") == 0, f"{self.name} cut writes off:\n{self.tail()}"
        assert "Traceback" not in self.log.read_text(errors="replace"), self.tail(60)
        return said

    def _synced(self) -> bool:
        self.check()
        return bool(self.lines("synced"))


def configuration(scheduler_name: str, **more: object) -> Object:
    """A KubeSchedulerConfiguration with one profile, no election, and a client that is not held back."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"qps": 5000, "burst": 5000},
        "profiles": [{"schedulerName": scheduler_name}],
        **more,
    }


class Harbour:
    """Starts schedulers for a test, shows their logs when it fails, and ends them after it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.started: list[Process] = []

    def berth(
        self,
        cluster: Cluster,
        scheduler_name: str = "",
        *,
        token: str | None = None,
        synced: bool = True,
        replica: str = "",
        serving: bool = False,
        verify: int = 0,
        log_level: str = "info",
        **more: object,
    ) -> Berth:
        """Start `berth run` on a cluster, as administrator or with this token, and wait until it schedules.

        `replica` tells processes apart that have the same schedulerName; `serving`: health and metrics, at `url`;
        `verify`: every so many decisions, one is verified.
        """
        name = scheduler_name or f"berth-{secrets.token_hex(4)}"
        kubeconfig = cluster.kubeconfig(self.home / f"{name}.kubeconfig", token)
        started = self.berth_at(
            kubeconfig,
            name,
            replica=replica,
            port=free_port() if serving else 0,
            verify=verify,
            log_level=log_level,
            **more,
        )
        if synced:
            started.wait_synced()
        return started

    def berth_at(
        self,
        kubeconfig: Path,
        name: str,
        *,
        replica: str = "",
        port: int = 0,
        verify: int = 0,
        log_level: str = "info",
        **more: object,
    ) -> Berth:
        """Start `berth run` with this kubeconfig, whether or not somebody answers there."""
        started = Berth(self.home, name, kubeconfig, configuration(name, **more), replica, port, verify, log_level)
        self.started.append(started)
        started.start()
        return started

    def kube_scheduler(self, cluster: Cluster, scheduler_name: str = "") -> tuple[Process, str]:
        """Start kube-scheduler beside it, under a name of its own; the process and that name."""
        name = scheduler_name or f"kube-{secrets.token_hex(4)}"
        started = cluster.start_kube_scheduler(scheduler_name=name)
        self.started.append(started)
        return started, name

    def close(self) -> None:
        """End what the test left running."""
        for process in self.started:
            process.kill()

    def logs(self) -> Sequence[tuple[str, str]]:
        """(title, end of the log) of each."""
        return [(f"end of the log of {process.name}", process.tail(25)) for process in self.started]
