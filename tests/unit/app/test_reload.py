"""Reloading: what is said of a difference, and that an error changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from structlog.testing import capture_logs

from podberth.app.reload import Reloader, ReloadError, Source, differences
from podberth.app.scheduler import Scheduler
from podberth.cache.cluster import Cluster
from podberth.framework.config import SchedulerConfiguration, decode
from podberth.framework.profiles import build
from podberth.framework.runtime import Framework
from podberth.model.kinds import Decoder
from tests.builders import configuration, node, pod, profile
from tests.registered import registry

FIT = {"scoringStrategy": {"type": "MostAllocated"}}


@pytest.mark.parametrize(
    ("id", "old", "new", "want"),
    [
        ("the same", {}, {}, []),
        ("a number", {}, {"podMaxBackoffSeconds": 7}, ["podMaxBackoffSeconds: 10 → 7"]),
        (
            "arguments",
            {"profiles": [profile("berth")]},
            {"profiles": [profile("berth", NodeResourcesFit=FIT)]},
            [
                'profiles[0].pluginConfig[0]: nothing → {"name": "NodeResourcesFit", '
                '"args": {"scoringStrategy": {"type": "MostAllocated"}}}'
            ],
        ),
        (
            "another name",
            {"profiles": [profile("berth")]},
            {"profiles": [profile("other")]},
            ['profiles[0].schedulerName: "berth" → "other"'],
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_differences(id: str, old: dict[str, Any], new: dict[str, Any], want: list[str]) -> None:
    """By field path, old and new."""
    read = [decode({**configuration(), **document}) for document in (old, new)]
    assert list(differences(*read)) == want


class Schedules:
    """Stands in for the scheduler, and notes what it is told."""

    def __init__(self) -> None:
        self.told: list[SchedulerConfiguration] = []
        self.frameworks: Mapping[str, Framework] = {}

    def reconfigure(self, config: SchedulerConfiguration, frameworks: Mapping[str, Framework]) -> None:
        """As Scheduler.reconfigure."""
        self.told.append(config)
        self.frameworks = frameworks


def source(folder: Path, read: Callable[[], SchedulerConfiguration]) -> Source:
    """A file whose content is what `read` returns."""
    return Source(str(folder / "x.yaml"), read, lambda config: build(config, registry()))


def test_reload(tmp_path: Path) -> None:
    """A good file is taken over but for what needs a restart; a bad one is said, and then all is as before."""
    answers: list[SchedulerConfiguration | ReloadError] = []

    def read() -> SchedulerConfiguration:
        answer = answers.pop(0)
        if isinstance(answer, ReloadError):
            raise answer
        return answer

    scheduler = Schedules()
    first = decode(configuration())
    reloader = Reloader(cast(Scheduler, scheduler), None, first, source(tmp_path, read))
    answers = [
        ReloadError("x.yaml: profiles[0].schedulerName: Required value"),
        first,
        decode({**configuration(), "podMaxBackoffSeconds": 7, "clientConnection": {"qps": 1.0}}),
    ]
    reloader.reload()
    assert (scheduler.told, reloader.config) == ([], first)
    assert reloader.notes() == {"configuration": "not reloaded: x.yaml: profiles[0].schedulerName: Required value"}
    reloader.reload()
    assert (scheduler.told, reloader.notes()) == ([], {})
    reloader.reload()
    (told,) = scheduler.told
    assert told is reloader.config
    assert (told.pod_max_backoff_seconds, told.client_connection) == (7, first.client_connection)
    counts, last = (instrument.read().values for instrument in reloader.instruments())
    assert (counts, last) == ({("error",): 1.0, ("success",): 2.0}, {(): 1.0})


def test_what_needs_a_restart_is_named_as_in_the_file(tmp_path: Path) -> None:
    """The log names the fields that differ by the paths that a user writes, and shows no value: one may be a key."""
    first = decode(configuration())
    secret = {"urlPrefix": "https://x", "filterVerb": "f", "tlsConfig": {"certData": "YQ==", "keyData": "c2VjcmV0"}}
    asked = decode(
        {
            **configuration(),
            "leaderElection": {"leaseDuration": "30s"},
            "clientConnection": {"qps": 1.0},
            "extenders": [secret],
        }
    )
    reloader = Reloader(cast(Scheduler, Schedules()), None, first, source(tmp_path, lambda: asked))
    with capture_logs() as lines:
        reloader.reload()
    (said,) = (line for line in lines if line["event"] == "needs a restart to take effect")
    assert said["fields"] == ["leaderElection.leaseDuration", "clientConnection.qps", "extenders[0]"]
    assert "c2VjcmV0" not in str(lines)


@pytest.mark.parametrize("before", [pytest.param(True, id="removed"), pytest.param(False, id="added")])
def test_resources_are_left_to_the_extenders_that_are_asked(tmp_path: Path, before: bool) -> None:
    """What an extender manages is checked by NodeResourcesFit until a restart takes the extender over, and not after it
    went from the file.
    """
    gpu = "example.com/gpu"
    manages = {"urlPrefix": "https://x", "managedResources": [{"name": gpu, "ignoredByScheduler": True}]}
    without, with_one = configuration(), {**configuration(), "extenders": [manages]}
    first, asked = (with_one, without) if before else (without, with_one)
    scheduler = Schedules()
    changed = decode({**asked, "podMaxBackoffSeconds": 7})
    Reloader(cast(Scheduler, scheduler), None, decode(first), source(tmp_path, lambda: changed)).reload()
    assert scheduler.told[0].pod_max_backoff_seconds == 7
    (framework,) = scheduler.frameworks.values()
    cluster, decoder = Cluster(), Decoder()
    cluster.put_node(decoder.node(msgspec.json.encode(node("n"))))
    asking = decoder.pod(msgspec.json.encode(pod("p", others={gpu: "1"})))
    assert len(framework.decide(asking, cluster).feasible) == before
