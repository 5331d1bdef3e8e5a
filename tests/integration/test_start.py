"""What is wrong with the input is one line and exit code 2; a server that is not there is waited for."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

from tests.controlplane.api import Object
from tests.controlplane.cluster import ControlPlane, free_port
from tests.controlplane.wait import wait_for
from tests.integration import checks
from tests.integration.berth import START, Harbour, configuration
from tests.integration.component import BERTH, environment
from tests.integration.objects import NODES, node, pod, pods_path

KUBECONFIG: Object = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [{"name": "test", "cluster": {"server": "https://127.0.0.1:1"}}],
    "users": [{"name": "test", "user": {"token": "secret"}}],
    "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
    "current-context": "test",
}


def profile(**more: object) -> Object:
    """A configuration whose one profile has this."""
    return configuration("berth", profiles=[{"schedulerName": "berth", **more}])


# id: (config, kubeconfig, more arguments, what the line says); a text is written as it is, None is no file at all
WRONG: dict[str, tuple[object, object, list[str], list[str]]] = {
    "unknown field": (configuration("b", percentageOfNodes=5), KUBECONFIG, [], ["config.yaml", "percentageOfNodes"]),
    "unknown field below": (profile(plugin={}), KUBECONFIG, [], ["config.yaml", "profiles[0].plugin"]),
    "unknown plugin": (
        profile(plugins={"score": {"enabled": [{"name": "NodeAffinty"}]}}),
        KUBECONFIG,
        [],
        ["config.yaml", "NodeAffinty"],
    ),
    "value out of range": (profile(percentageOfNodesToScore=120), KUBECONFIG, [], ["config.yaml", "120", "[0-100]"]),
    "wrong type": (configuration("b", parallelism="many"), KUBECONFIG, [], ["config.yaml", "parallelism"]),
    "wrong kind": ({"apiVersion": "v1", "kind": "Pod"}, KUBECONFIG, [], ["config.yaml", "apiVersion", '"v1"']),
    "no YAML": ("profiles: [\n", KUBECONFIG, [], ["config.yaml"]),
    "binary": ("\x00\x01", KUBECONFIG, [], ["config.yaml"]),
    "empty": ("", KUBECONFIG, [], ["config.yaml"]),
    "no such config": (None, KUBECONFIG, [], ["config.yaml", "no such file"]),
    "no such kubeconfig": (configuration("b"), None, [], ["kubeconfig", "no such file"]),
    "no kubeconfig at all": (configuration("b"), "hello", [], ["kubeconfig", "expected a kubeconfig"]),
    "no such context": (configuration("b"), KUBECONFIG, ["--context=other"], ["kubeconfig", "other"]),
    "server is no URL": (
        configuration("b"),
        {**KUBECONFIG, "clusters": [{"name": "test", "cluster": {"server": "localhost"}}]},
        [],
        ["kubeconfig", "server", '"localhost"'],
    ),
    "log level": (configuration("b"), KUBECONFIG, ["--log-level=loud"], ["log-level", "loud"]),
    "seed": (configuration("b"), KUBECONFIG, ["--seed=dice"], ["seed", "whole number", '"dice"']),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_input(case: str, tmp_path: Path) -> None:
    """One line on stderr that names the file and the field, exit code 2, no traceback."""
    config, kubeconfig, more, says = WRONG[case]
    arguments = [
        BERTH,
        "run",
        f"--config={tmp_path / 'config.yaml'}",
        f"--kubeconfig={tmp_path / 'kubeconfig'}",
        *more,
    ]
    for name, contents in (("config.yaml", config), ("kubeconfig", kubeconfig)):
        if contents is not None:
            text = contents if isinstance(contents, str) else yaml.safe_dump(contents)
            (tmp_path / name).write_text(text)
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=START, env=environment())
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()
    assert all(word in line for word in says), line
    assert done.stdout == ""


@pytest.mark.usefixtures("control_plane_binaries")
def test_server_comes_later(harbour: Harbour) -> None:
    """Started before its API server, Berth says that it tries again, does so, and then schedules."""
    with ControlPlane() as own:
        api = own.api
        name = api.create("/api/v1/namespaces", {"metadata": {"name": "early"}})["metadata"]["name"]
        api.create(NODES, node("early"))
        api.create(pods_path(name), pod("web", "berth-early"))
        own.apiserver.kill()
        berth = harbour.berth(own, "berth-early", synced=False)
        tries = "list or watch failed, trying again"
        wait_for("two attempts", lambda: len(berth.lines(tries)) >= 2, START)
        assert not berth.lines("synced")
        own.start_apiserver()
        checks.wait_bound(own.api, name, 1)
        berth.end()


def test_stopped_before_the_server_comes(harbour: Harbour, tmp_path: Path) -> None:
    """SIGTERM while nothing listens there: exit code 0, and no word of having synced."""
    kubeconfig = tmp_path / "nobody.kubeconfig"
    server = {"server": f"https://127.0.0.1:{free_port()}"}
    kubeconfig.write_text(yaml.safe_dump({**KUBECONFIG, "clusters": [{"name": "test", "cluster": server}]}))
    berth = harbour.berth_at(kubeconfig, "berth-alone")
    (first, *_) = wait_for("an attempt", lambda: berth.lines("list or watch failed, trying again"), START)
    assert "Pod" in first["kinds"]
    berth.end()
    assert not berth.lines("synced")
