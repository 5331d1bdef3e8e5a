"""What explain, simulate and capacity are given: a configuration, a cluster and files.

All that is wrong with any of them is told at once. A live cluster is only asked once the rest is right.
"""

from collections.abc import Sequence
from typing import NamedTuple

from scheduler.cli.errors import Faults, InputError, about, complain
from scheduler.cli.inputs import configuration, documents, judged, named, world
from scheduler.framework.config import SchedulerConfiguration
from scheduler.framework.profiles import annotated, build
from scheduler.framework.runtime import Framework
from scheduler.model.kinds import Decoder
from scheduler.plugins.registry import registry
from scheduler.whatif.documents import Document
from scheduler.whatif.world import World

_PROBLEMS = 8


class Given(NamedTuple):
    """`where`: how to call the cluster in messages; `usual`: the namespace of what names none; `files`: by name."""

    settings: SchedulerConfiguration
    frameworks: dict[str, Framework]
    world: World
    where: str
    usual: str
    files: dict[str, list[Document]]
    kubeconfig: str | None


def given(
    config: str | None,
    cluster: Sequence[str] | None,
    files: Sequence[str],
    *,
    scheduler: str | None,
    validate: bool,
    kubeconfig: str | None,
    context: str | None,
    timeout: str,
    classes: bool = True,
) -> Given:
    """Read all of it. `validate`: refuse what the API server would refuse. Raises InputError."""
    faults = Faults()
    frameworks: dict[str, Framework] = {}
    settings: SchedulerConfiguration | None = None
    with faults.noting():
        settings = configuration(config)
        with about(named(config) if config else "configuration"):
            frameworks = build(settings, registry())
        if scheduler is not None and scheduler not in frameworks:
            raise InputError(f"--scheduler: {scheduler}: expected one of the profiles {', '.join(frameworks)}")
    held: dict[str, list[Document]] = {}
    for file in files:
        with faults.noting():
            held[file] = judged(file) if validate else documents(file)
    decoder = Decoder(annotated(frameworks))
    there: World | None = None
    where, usual = ", ".join(map(named, cluster or ())), "default"
    if cluster:
        with faults.noting():
            there = world(list(cluster), decoder)
    faults.tell()
    assert settings is not None
    path = kubeconfig or settings.client_connection.kubeconfig or None
    if there is None:
        from scheduler.cli.live import listed

        there, where, usual = listed(path, context, decoder, classes=classes, timeout=timeout)
    complain(there.problems[:_PROBLEMS])
    return Given(settings, frameworks, there, where, usual, held, path)
