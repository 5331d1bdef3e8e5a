"""Berth under an administrator's hands: reload, comparison of the cache, a log that nobody reads."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import yaml

from tests.controlplane.api import Api, Object
from tests.controlplane.cluster import Cluster
from tests.controlplane.wait import wait_for
from tests.integration import checks
from tests.integration.berth import START, Harbour, configuration
from tests.integration.component import BERTH, environment
from tests.integration.objects import node, nodes, plain, pod, pods_path
from tests.integration.test_serving import ask, wait_serving


def replace(file: Path, text: str) -> None:
    """At once, as a kubelet does it with a ConfigMap: nobody reads a part."""
    new = file.with_suffix(".new")
    new.write_text(text)
    new.replace(file)


def test_configuration_is_reloaded(
    control_plane: Cluster, real_namespace: str, harbour: Harbour, add_nodes: Callable[..., None]
) -> None:
    """A new profile binds the pods that waited for it; a broken file changes nothing and is said in log and readyz."""
    api, path = control_plane.api, pods_path(real_namespace)
    add_nodes(control_plane, [node("reloaded")])
    berth = harbour.berth(control_plane, serving=True)
    wait_serving(berth)
    name = berth.scheduler_name
    api.create(path, pod("waits", f"{name}-two"))

    replace(berth.config, "profiles: [")
    (line,) = wait_for(
        "the error", lambda: berth.lines("the configuration was not reloaded, the one before stays in use"), START
    )
    assert "not YAML" in line["errors"][0]
    status, text = ask(berth, "/readyz?verbose")
    assert (status, "[!]configuration: not reloaded:" in text) == (200, True)
    api.create(path, pod("web", name))
    checks.wait_bound(api, real_namespace, 1)

    profiles = [{"schedulerName": name}, {"schedulerName": f"{name}-two"}]
    replace(berth.config, yaml.safe_dump(configuration(name, profiles=profiles, podMaxBackoffSeconds=7)))
    os.kill(berth.pid, signal.SIGHUP)  # whichever comes first, the signal or a look at the file
    (line,) = wait_for("the reload", lambda: berth.lines("configuration reloaded"), START)[:1]
    assert line["changes"][0] == "podMaxBackoffSeconds: 10 → 7"
    assert line["changes"][1].startswith("profiles[1]: nothing → ")
    checks.wait_bound(api, real_namespace, 2)
    assert "[!]" not in ask(berth, "/readyz?verbose")[1]
    berth.end()


def test_cache_is_compared(
    control_plane: Cluster, real_namespace: str, harbour: Harbour, add_nodes: Callable[..., None]
) -> None:
    """SIGUSR2: what the cache holds, and that a fresh list says the same."""
    api, path = control_plane.api, pods_path(real_namespace)
    add_nodes(control_plane, nodes(3, "compared"))
    berth = harbour.berth(control_plane)
    api.create_many(path, plain(5, berth.scheduler_name))
    api.create(path, pod("stuck", berth.scheduler_name, cpu="99"))
    checks.wait_bound(api, real_namespace, 5)
    checks.wait_condition(api, real_namespace, "stuck")
    os.kill(berth.pid, signal.SIGUSR2)
    (line,) = wait_for("the comparison", lambda: berth.lines("cache compared"), START)
    assert (line["differences"], line["first"]) == (0, [])
    (dump,) = berth.lines("cache dumped")  # written before the comparison
    assert (dump["nodes"] >= 3, dump["queue"]["unschedulable"]) == (True, 1)
    (waits,) = berth.lines("pod waits")
    assert (waits["pod"], waits["plugins"]) == (f"{real_namespace}/stuck", ["NodeResourcesFit"])
    berth.end()


def talkative(cluster: Cluster, name: str, home: Path) -> list[str | Path]:
    """The command of a scheduler that logs all that it can."""
    config = home / "config.yaml"
    config.write_text(yaml.safe_dump(configuration(name)))
    kubeconfig = cluster.kubeconfig(home / "kubeconfig")
    return [BERTH, "run", f"--config={config}", f"--kubeconfig={kubeconfig}", "--secure-port=0", "--log-level=debug"]


def schedules_and_ends(process: subprocess.Popen[bytes], api: Api, path: str, pods: list[Object]) -> None:
    """The pods are created and bound, and the scheduler ends in order when told to."""
    try:
        api.create_many(path, pods)
        checks.wait_bound(api, path.split("/")[-2], len(pods))
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(START) == 0
    finally:
        process.kill()
        process.wait()


def test_log_that_nobody_reads(
    control_plane: Cluster, real_namespace: str, add_nodes: Callable[..., None], tmp_path: Path
) -> None:
    """With a full pipe as standard error it schedules on, and ends in order when told to."""
    api, path = control_plane.api, pods_path(real_namespace)
    add_nodes(control_plane, nodes(20, "unread"))
    name = f"berth-{real_namespace}"
    argv = talkative(control_plane, name, tmp_path)
    reading, writing = os.pipe()
    process = subprocess.Popen(argv, stderr=writing, stdout=subprocess.DEVNULL, env=environment())
    os.close(writing)
    try:
        # Some 200 bytes a line and pod: several times what a pipe holds.
        schedules_and_ends(process, api, path, plain(450, name))
    finally:
        os.close(reading)


def test_log_on_a_full_disk(
    control_plane: Cluster, real_namespace: str, add_nodes: Callable[..., None], tmp_path: Path
) -> None:
    """Where no line of the log can be written (ENOSPC), it schedules, and ends in order when told to."""
    api, path = control_plane.api, pods_path(real_namespace)
    add_nodes(control_plane, nodes(3, "full-disk"))
    name = f"berth-{real_namespace}"
    argv = talkative(control_plane, name, tmp_path)
    with Path("/dev/full").open("wb") as full:
        process = subprocess.Popen(argv, stderr=full, stdout=full, env=environment())
    schedules_and_ends(process, api, path, plain(40, name))
