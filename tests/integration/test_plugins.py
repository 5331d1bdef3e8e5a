"""Plugins of other packages in a `berth run` process, against a real API server."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.controlplane.api import Object
from tests.controlplane.cluster import Cluster
from tests.integration import checks
from tests.integration.berth import Harbour
from tests.integration.objects import nodes, pod, pods_path
from tests.packages import install_example, install_module

TROUBLE = '''
import time

from podberth.kit import ANYTHING, Plugin


class Trouble(Plugin):
    """Breaks for some pods, and holds the scheduler for others."""

    name = "Trouble"
    depends_on = ANYTHING

    def filter(self, pod, cluster):
        if pod.name == "breaks":
            raise LookupError("no such shelf")
        while pod.name == "sleeps":
            try:
                time.sleep(600)
            except Exception:
                pass
        return ()
'''


def line_of(code: str) -> int:
    """The line of Trouble that holds this."""
    return next(number for number, line in enumerate(TROUBLE.splitlines(), 1) if code in line)


def profile(name: str, *plugins: str) -> list[Object]:
    """One profile with these plugins at all their points."""
    return [{"schedulerName": name, "plugins": {"multiPoint": {"enabled": [{"name": one} for one in plugins]}}}]


def ship(name: str, scheduler: str) -> Object:
    """One of a convoy of two."""
    made = pod(name, scheduler)
    made["metadata"].setdefault("labels", {}).update({"convoy": "north", "convoy-size": "2"})
    return made


def test_installed_and_named(
    control_plane: Cluster,
    real_namespace: str,
    harbour: Harbour,
    add_nodes: Callable[..., None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The example's Convoy binds two pods together; a plugin that breaks or blocks fails its pods, nobody else's."""
    site = install_example(tmp_path / "site")
    install_module(site, "trouble", TROUBLE, "Trouble")
    monkeypatch.setenv("PYTHONPATH", str(site))
    api, path = control_plane.api, pods_path(real_namespace)
    add_nodes(control_plane, nodes(2, "quay"))
    berth = harbour.berth(control_plane, "seafaring", profiles=profile("seafaring", "Convoy", "Trouble"))

    api.create(path, ship("first", "seafaring"))
    api.create_many(path, [pod(name, "seafaring") for name in ("breaks", "plain")])
    checks.wait_bound(api, real_namespace, 1)
    assert checks.node_of(api.get(f"{path}/plain"))
    api.create(path, ship("second", "seafaring"))
    checks.wait_bound(api, real_namespace, 3)

    api.create(path, pod("sleeps", "seafaring"))
    wanted = {
        "breaks": f'running Filter plugin "Trouble": no such shelf (trouble.py:{line_of("raise LookupError")})',
        "sleeps": 'running Filter plugin "Trouble": held the scheduler for 5s without an answer '
        f"(trouble.py:{line_of('time.sleep')})",
    }
    for name, message in wanted.items():
        said = checks.condition(checks.wait_condition(api, real_namespace, name, message))
        assert (said["reason"], said["message"]) == ("SchedulerError", message)
        api.delete(f"{path}/{name}")
    assert {line["plugin"] for line in berth.lines("a plugin holds the loop")} == {"Trouble"}
    [at, *_] = [line["at"] for line in berth.lines("a plugin raised an exception")]
    assert at == f"{site}/trouble.py:{line_of('raise LookupError')}"
    berth.end()
