"""Mixed churn for a long time, and what `berth run` and `berth evictor` keep of it: `make soak MINUTES=60`.

On a real etcd and kube-apiserver. Pods of many kinds come and go, nodes change, go and come back, devices are claimed,
another scheduler places pods of its own, and the API server is killed and started again now and then. Memory, open
descriptors, asyncio tasks and the sizes of caches are looked at again and again.

The load ends twice, after the first quarter and at the end, and all pods go. Then as much has to be in use as the first
time, nothing may be left over, the cache has to be what a fresh list shows, and the columns have to be right. If any of
that does not hold, the exit code is 1.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import yaml

from bench.churn import Churn
from bench.soaked import COLUMNS, SIZES
from bench.telling import ASK, BOUNDS, CLOSED, KEPT, LET_GO
from tests.controlplane import namespaces
from tests.controlplane.api import Object
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.process import Process
from tests.controlplane.wait import wait_for
from tests.integration.berth import configuration
from tests.integration.component import Component, environment
from tests.integration.evictor import BRISK, Evictor

SCHEDULER = "soaked"
GROWTH = 1.05
"""How much more C code may have allocated after the load than after the first quarter of it, less open connections; and
by medians in the last quarter of the load than in the second eighth of it."""
OBJECTS = 1.1
"""The same of Python objects. What stories hold varies: 110,000 to 123,000 in an hour in which nothing grew."""
RESIDENT = 1.25
"""The same of resident memory. What was freed stays with the allocators (glibc's and Python's), in pages that are
partly in use, so it goes by the busiest moment of a run and not by what is kept."""
CONNECTION_KIB = 288
"""What an open connection with TLS has in use; asyncio's buffer is 256 of it."""
MORE_DESCRIPTORS = 48
"""Connections that happen to be open: after a burst, each later request closes one that was idle for 45 s."""
MORE_TASKS = 8
EMPTY = ("pods", "assumed", "inFlight", "pending", "binding", "statuses", "bindings", "calls", "devices")
"""What has to be 0 once all pods are gone."""
PATIENCE = 120.0
LEAST_MB = 1.0
"""So much more may always be in use: three or four connections."""
UNDER_LOAD = "in use under load"
_ANSWERS = (SIZES, COLUMNS, KEPT, CLOSED, "cache compared")
"""Events of lines that `berth run` is asked for."""
_FEWEST = 5
"""Samples that make a median."""
_TYPES = 12
"""Types of objects that are named when there are more."""
_LINES, _LETTERS = 40, 3000
"""What is shown of a traceback."""
_SHARE_OF_WARM_UP = 0.25
_ROOT = Path(__file__).parents[1]
_MORE: dict[str, str] = {}
"""Variables of both processes, and not of the API server beside them."""


class Telling(Evictor):
    """`berth evictor` that tells what it keeps (`bench.telling`)."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.argv = [sys.executable, "-m", "bench.telling", *self.argv[1:]]
        self._env = _told()

    def asked(self, number: signal.Signals, event: str) -> Object:
        """Send a signal; the line that answers it."""
        before = len(self.lines(event))
        os.kill(self.pid, number)
        found: Object = wait_for(f"the line {event!r}", lambda: self.lines(event)[before:], PATIENCE)[0]
        return found


class Soaked(Component):
    """`berth run` that tells of itself (`bench.soaked`)."""

    def __init__(self, home: Path, kubeconfig: Path) -> None:
        super().__init__("berth soaked", home)
        place = home / "config.yaml"
        place.write_text(yaml.safe_dump(configuration(SCHEDULER)))
        self.argv = [sys.executable, "-m", "bench.soaked", str(place), str(kubeconfig)]
        self._env = _told()
        self._read = 0
        self._said: list[Object] = []

    def asked(self, number: signal.Signals, event: str) -> Object:
        """Send a signal; the line that answers it."""
        before = len(self.said(event))
        os.kill(self.pid, number)

        def answered() -> list[Object]:
            self.check()
            return self.said(event)[before:]

        found: Object = wait_for(f"the line {event!r}", answered, PATIENCE)[0]
        return found

    def said(self, event: str) -> list[Object]:
        """Lines of an event; of the log, which becomes long, only what is new is read."""
        with self.log.open() as lines:
            lines.seek(self._read)
            while (line := lines.readline()).endswith("\n"):
                self._read += len(line.encode())
                if line.startswith("{") and any(f'"{one}"' in line for one in _ANSWERS):
                    self._said.append(yaml.safe_load(line))
        return [one for one in self._said if one["event"] == event]


def _told() -> dict[str, str]:
    """Return the environment of both processes."""
    return {**environment(), **_MORE, "PYTHONPATH": str(_ROOT), BOUNDS: os.environ.get(BOUNDS, "1")}


def used(process: Process) -> dict[str, float]:
    """Memory in MB, open descriptors, and CPU in seconds since the start (Linux)."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    resident = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
    descriptors = len(list(Path(f"/proc/{process.pid}/fd").iterdir()))
    return {"memory": resident / 1024, "descriptors": descriptors, "cpu": process.cpu_seconds()}


class Soak:
    """One run."""

    def __init__(self, cluster: ControlPlane, home: Path, seed: int, nodes: int, pods: int) -> None:
        self.berth = Soaked(home, cluster.kubeconfig(home / "kubeconfig"))
        self._cluster = cluster
        namespace = namespaces.create(cluster.api, "soak")
        self.churn = Churn(cluster.api, namespace, SCHEDULER, random.Random(seed), nodes, pods)
        self._evictor = Telling(home, SCHEDULER, cluster.kubeconfig(home / "evictor"), namespace, grace=2, **BRISK)
        self.samples: list[dict[str, Any]] = []
        self.began = time.monotonic()

    def run(
        self, seconds: float, restart_every: float, sample_every: float, growth: float = GROWTH, least: int = 0
    ) -> list[str]:
        """Everything that does not hold. `growth`: how much more memory may be in use at the end.

        `least`: so many acts at least, however long they take.
        """
        self.churn.set_up()
        for process in (self.berth, self._evictor):
            process.start()
        wait_for("berth to be synced", lambda: '"synced"' in self.berth.log.read_text(), PATIENCE)
        self._evictor.wait_synced()
        self.began = time.monotonic()
        self._load(_SHARE_OF_WARM_UP * seconds, restart_every, sample_every)
        warm = len(self.samples)
        before, kept_before = self._rest(), self._kept()
        self._load((1 - _SHARE_OF_WARM_UP) * seconds, restart_every, sample_every, least)
        loaded = self.samples[warm + 1 :]
        after, kept_after = self._rest(), self._kept()
        usual_before, usual_after = usual(self.samples[warm // 2 : warm]), usual(loaded[-(len(loaded) // 3) :])
        if usual_before and usual_after:
            before, after = {**before, UNDER_LOAD: usual_before}, {**after, UNDER_LOAD: usual_after}
        wrong = grown(before, after, growth) + left_over(after)
        for name, was in kept_before.items():
            wrong += more_kept(name, was, kept_after[name], growth)
        compared = self.berth.asked(signal.SIGUSR2, "cache compared")
        if compared["differences"]:
            wrong.append(f"the cache differs from a fresh list: {compared['first']}")
        columns = self.berth.asked(signal.SIGWINCH, COLUMNS)
        wrong += [f"columns: {one}" for one in columns["wrong"]]
        for process in (self.berth, self._evictor):
            code = process.stop(60)
            if code:
                wrong.append(f"{process.name} ended with {code}:\n{process.tail(10)}")
            wrong += tracebacks(process)
        return wrong

    def end(self) -> None:
        """End what is left of it, whatever happened."""
        for process in (self.berth, self._evictor):
            process.kill()

    def _load(self, seconds: float, restart_every: float, sample_every: float, least: int = 0) -> None:
        until = time.monotonic() + seconds
        restart, sample = time.monotonic() + restart_every, time.monotonic()
        while (now := time.monotonic()) < until or self.churn.done.total() < least:
            if now >= restart:
                self._cluster.restart_apiserver()
                self.churn.restarts += 1
                restart = time.monotonic() + restart_every
            if now >= sample:
                self._sample("load")
                sample = now + sample_every
            self.churn.act()

    def _rest(self) -> dict[str, Any]:
        """No load, and no pod: what is in use then."""
        self.churn.clear()

        def rests() -> bool:
            self.churn.release_claims()  # as the claim controller, which does not look at a claim only once
            said = self.berth.asked(signal.SIGUSR1, SIZES)
            return not any(said[name] for name in EMPTY)

        try:
            wait_for("nothing to be left over", rests, PATIENCE, 2.0)
        except AssertionError:
            print("something is left over", flush=True)
        for process in (self.berth, self._evictor):
            process.asked(LET_GO, CLOSED)
        time.sleep(5.0)  # closed connections and finished tasks go
        return self._sample("rest")

    def _kept(self) -> dict[str, Object]:
        """What each process keeps once its cycles are freed. After `_rest`: this would hide what only cycles keep."""
        found = {self.berth.name: self.berth.asked(ASK, KEPT), "berth evictor": self._evictor.asked(ASK, KEPT)}
        descriptors = {
            "berth evictor": used(self._evictor)["descriptors"],
            self.berth.name: used(self.berth)["descriptors"],
        }
        kept = {name: {**one, "descriptors": descriptors[name]} for name, one in found.items()}
        for name, one in kept.items():
            numbers = (f"{key} {value}" for key, value in one.items() if isinstance(value, int))
            print(f"kept by {name}: {'  '.join(numbers)}", flush=True)
        return kept

    def _sample(self, when: str) -> dict[str, Any]:
        for process in (self.berth, self._evictor):
            process.check()
        said = self.berth.asked(signal.SIGUSR1, SIZES)
        numbers = {name: value for name, value in said.items() if isinstance(value, int)}
        of_evictor = {f"evictor {name}": value for name, value in used(self._evictor).items()}
        found = {"seconds": round(time.monotonic() - self.began), "when": when, **used(self.berth), **of_evictor}
        self.samples.append({**found, **numbers})
        print(line(self.samples[-1]), flush=True)
        return self.samples[-1]


def grown(before: dict[str, Any], after: dict[str, Any], growth: float = GROWTH) -> list[str]:
    """What is in use beyond what may be."""
    before, after = ({**one, **in_use(one)} for one in (before, after))
    bounds: dict[str, Callable[[float], float]] = {
        "in use": lambda was: growth * was,
        UNDER_LOAD: lambda was: growth * was,
        "objects": lambda was: max(growth, OBJECTS) * was,
        "memory": lambda was: max(growth, RESIDENT) * was,
        "evictor memory": lambda was: max(growth, RESIDENT) * was,
        "descriptors": lambda was: was + MORE_DESCRIPTORS,
        "evictor descriptors": lambda was: was + MORE_DESCRIPTORS,
        "tasks": lambda was: was + MORE_TASKS,
    }
    return [
        f"{name}: {before[name]:.4g} after the first quarter, {after[name]:.4g} at the end, want at most {bound:.4g}"
        for name, of in bounds.items()
        if name in before and after[name] > (bound := of(before[name]))
    ]


def in_use(sample: dict[str, Any]) -> dict[str, float]:
    """MB that C code has allocated, but for open connections; nothing where the allocator does not tell glibc."""
    if not sample.get("heapUsed"):
        return {}
    return {"in use": (sample["heapUsed"] - CONNECTION_KIB * sample["descriptors"]) / 1024}


def usual(samples: Sequence[dict[str, Any]]) -> float | None:
    """What is in use under load, as a median, since buffers of connections come and go; None of too few samples."""
    found = [one["in use"] for one in map(in_use, samples) if one]
    return median(found) if len(found) >= _FEWEST else None


def more_kept(name: str, before: Object, after: Object, growth: float = GROWTH) -> list[str]:
    """What a process keeps beyond what it may once its cycles are freed, with the types that grew most."""
    wrong = []
    if after["objects"] > growth * before["objects"]:
        more: Counter[str] = Counter(after["types"])
        more.subtract(before["types"])
        most = ", ".join(f"{count:+d} {kind}" for kind, count in more.most_common(_TYPES) if count > 0)
        wrong.append(
            f"{name} keeps {after['objects']} objects, {before['objects']} after the first quarter, "
            f"want at most {growth * before['objects']:.0f}: {most}"
        )
    was, now = (in_use(one).get("in use", 0.0) for one in (before, after))
    bound = max(growth * was, was + LEAST_MB)
    if now > bound:
        wrong.append(f"{name} has {now:.4g} MB in use, {was:.4g} after the first quarter, want at most {bound:.4g}")
    return wrong


def tracebacks(process: Process) -> list[str]:
    """The first traceback in the log of a process, with the line before it; nothing if there is none."""
    lines = process.log.read_text(errors="replace").splitlines()
    found = [at for at, line in enumerate(lines) if "Traceback" in line]
    if not found:
        return []
    shown = "\n".join(line[:_LETTERS] for line in lines[max(found[0] - 1, 0) : found[0] + _LINES])
    return [f"{process.name} logged {len(found)} tracebacks, the first of them:\n{shown}"]


def left_over(after: dict[str, Any]) -> list[str]:
    """What is not 0 though all pods are gone."""
    return [f"{name}: {after[name]} are left, want 0" for name in EMPTY if after[name]]


def line(sample: dict[str, Any]) -> str:
    """One sample, for people."""
    main = f"{sample['seconds']:6d} s  {sample['when']:<4}  {sample['memory']:6.1f} MB  {sample['descriptors']:3d} fds"
    main += f"  {sample['cpu']:6.1f} s of CPU"
    of_evictor = f"evictor {sample['evictor memory']:6.1f} MB  {sample['evictor descriptors']:3d} fds"
    names = (
        "heapUsed",
        "heapFree",
        "tasks",
        "objects",
        "blocks",
        "nodes",
        "pods",
        "pending",
        "stories",
        "podClasses",
        "sums",
        "devices",
    )
    return f"{main}  {of_evictor}  {'  '.join(f'{name} {sample[name]}' for name in names if name in sample)}"


def main() -> int:
    """Run, and say what does not hold."""
    options = argparse.ArgumentParser(prog="python -m bench.soak", description=(__doc__ or "").partition("\n\n")[0])
    options.add_argument("--minutes", type=float, default=10.0, help="how long the load takes (default: 10)")
    options.add_argument("--seed", type=int, default=1, help="what comes when follows from it (default: 1)")
    options.add_argument("--nodes", type=int, default=40, help="how many nodes there are (default: 40)")
    options.add_argument("--pods", type=int, default=400, help="how many pods there are at most (default: 400)")
    options.add_argument(
        "--restart", type=float, default=180.0, help="seconds between two restarts of the API server (default: 180)"
    )
    options.add_argument("--sample", type=float, default=30.0, help="seconds between two samples (default: 30)")
    options.add_argument("--bounds", type=int, default=1, help="divide by this what bounds that which fills for hours")
    options.add_argument(
        "--env", action="append", default=[], metavar="NAME=VALUE", help="for both processes; LD_PRELOAD: an allocator"
    )
    chosen = options.parse_args()
    os.environ[BOUNDS] = str(chosen.bounds)
    _MORE.update(each.partition("=")[::2] for each in chosen.env)
    with tempfile.TemporaryDirectory(prefix="berth-soak-") as directory, ControlPlane() as cluster:
        soak = Soak(cluster, Path(directory), chosen.seed, chosen.nodes, chosen.pods)
        try:
            wrong = soak.run(60 * chosen.minutes, chosen.restart, chosen.sample)
        finally:
            soak.end()
    print(soak.churn.summary())
    for one in wrong:
        print(f"WRONG: {one}")
    print("all is well" if not wrong else f"{len(wrong)} things are wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
