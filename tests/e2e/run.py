"""A suite of end-to-end tests, run by ginkgo on a cluster of each scheduler's own."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack

from tests.controlplane.build import ROOT
from tests.controlplane.once import say
from tests.controlplane.process import Process
from tests.e2e import results
from tests.e2e.build import COMMANDS, TESTS
from tests.e2e.cluster import NODES, WholeCluster
from tests.e2e.suites import Suite

PLACE = ROOT / "build" / "e2e"
"""Reports and logs, for who wants to know why a test failed."""
_SAY_SECONDS = 30.0
_GRACE_MINUTES = 3
"""Minutes that ginkgo has for its report, after the suite's own time is over."""


class Run:
    """One suite on one cluster, as a process of ginkgo's."""

    def __init__(self, suite: Suite, scheduler: str, cluster: WholeCluster) -> None:
        self.scheduler = scheduler
        self._cluster = cluster
        self._minutes = suite.minutes
        name = f"{suite.name}-{scheduler}"
        self._report = PLACE / f"{name}.xml"
        self._report.unlink(missing_ok=True)
        log = PLACE / f"{name}.log"
        log.unlink(missing_ok=True)
        self._process = Process(
            f"ginkgo {name}",
            [
                COMMANDS.built() / "ginkgo",
                f"--procs={suite.processes}",
                f"--focus={suite.focus}",
                f"--skip={suite.skipped}",
                f"--timeout={suite.minutes}m",
                "--no-color",
                f"--junit-report={self._report.name}",
                f"--output-dir={PLACE}",
                TESTS.command(),
                "--",
                f"--kubeconfig={cluster.kubeconfig}",
                f"--kubectl-path={cluster.kubectl}",
                "--provider=skeleton",
                f"--num-nodes={NODES}",
                "--disable-log-dump",
                "--dump-logs-on-failure=false",
            ],
            log,
        )
        self._process.start()
        self._began = time.monotonic()

    @property
    def ended(self) -> bool:
        """It has ended; a run of which ginkgo itself does not see the end is ended."""
        if self._process.running and time.monotonic() - self._began > 60 * (self._minutes + _GRACE_MINUTES):
            self.kill()
        if self._process.running:
            self._cluster.check()
        return not self._process.running

    @property
    def done(self) -> int:
        """The number of tests that have ended, as far as ginkgo shows it."""
        return self._process.log.read_text(errors="replace").count("•")

    def results(self) -> dict[str, results.Result]:
        """Return the results of the tests that were run."""
        return results.read(self._report)

    def kill(self) -> None:
        """End it, and what it started."""
        self._process.kill()


def run(suites: Sequence[Suite], schedulers: Sequence[str]) -> dict[str, list[results.Row]]:
    """Run the suites, each with all schedulers at the same time, each on a cluster of its own; the rows by suite."""
    PLACE.mkdir(parents=True, exist_ok=True)
    found = {}
    for gated in sorted({suite.gated for suite in suites}):
        with ExitStack() as stack:
            clusters = {name: stack.enter_context(WholeCluster(name, gated, PLACE)) for name in schedulers}
            for suite in (suite for suite in suites if suite.gated == gated):
                found[suite.name] = _run(suite, clusters)
                passed = sum(row.berth.status == results.PASSED for row in found[suite.name])
                say(f"{suite.name}: {passed} of {len(found[suite.name])} tests pass with Berth")
    return found


def _run(suite: Suite, clusters: dict[str, WholeCluster]) -> list[results.Row]:
    runs = [Run(suite, name, cluster) for name, cluster in clusters.items()]
    said = time.monotonic()
    try:
        while not all(one.ended for one in runs):
            time.sleep(0.2)
            if time.monotonic() - said > _SAY_SECONDS:
                said = time.monotonic()
                say(f"{suite.name}: " + ", ".join(f"{one.done} tests with {one.scheduler}" for one in runs))
    finally:
        for one in runs:
            one.kill()
    by_scheduler = {one.scheduler: one.results() for one in runs}
    kube = by_scheduler.get("kube-scheduler")
    return results.rows(
        results.of_kube_scheduler(suite.focus, suite.skipped) if kube is None else kube, by_scheduler["berth"]
    )
