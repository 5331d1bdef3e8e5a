"""Reads what explain, simulate and capacity are given: a configuration, a cluster and files.

All that is wrong with any of them is told at once. A live cluster is only asked once the rest is right.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from podberth.cli.errors import Faults, complain
from podberth.cli.inputs import documents, judged, named, profiles, world
from podberth.explain.judging.schema import shown
from podberth.explain.objects.documents import Document, plain
from podberth.explain.objects.world import World
from podberth.framework.config import SchedulerConfiguration
from podberth.framework.profiles import annotated
from podberth.framework.runtime import Framework
from podberth.framework.status import shown as as_shown
from podberth.model.kinds import Decoder
from podberth.model.limits import LIMITS
from podberth.plugins.taint_toleration import TaintToleration

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
        settings, frameworks = profiles(config, scheduler)
    plugins = [framework.plugin("TaintToleration") for framework in frameworks.values()]
    comparing = any(isinstance(plugin, TaintToleration) and plugin.comparing for plugin in plugins)
    held: dict[str, list[Document]] = {}
    for file in files:
        with faults.noting():
            held[file] = judged(file, comparing=comparing) if validate else documents(file)
    decoder = Decoder(annotated(frameworks), limits=LIMITS if settings is None else settings.limits)
    there: World | None = None
    where, usual = ", ".join(map(named, cluster or ())), "default"
    if cluster:
        with faults.noting():
            there = world(list(cluster), decoder)
    faults.tell()
    assert settings is not None
    path = kubeconfig or settings.client_connection.kubeconfig or None
    if there is None:
        from podberth.cli.live import listed

        there, where, usual = listed(path, context, decoder, classes=classes, timeout=timeout)
    complain(unfetched(frameworks))
    complain([*there.problems[:_PROBLEMS], *_of_no_namespace(held, there, where, usual)])
    return Given(settings, frameworks, there, where, usual, held, path)


def unfetched(frameworks: Mapping[str, Framework]) -> list[str]:
    """Return which sources of plugins have no value here, where nothing is fetched, and what counts instead."""
    sources = {key: one for framework in frameworks.values() for key, one in framework.profile.sources.items()}
    return [
        f"source {name} of plugin {plugin} is not fetched here, its default counts: {as_shown(one.default)}"
        for (plugin, name), one in sources.items()
    ]


def unasked(settings: SchedulerConfiguration) -> list[str]:
    """Return a note on the HTTP extenders of a configuration, which are not asked here."""
    if not settings.extenders:
        return []
    addresses = ", ".join(extender.url_prefix for extender in settings.extenders)
    return [f"HTTP extenders are not asked here, and may reject nodes or change scores: {addresses}"]


def _of_no_namespace(files: Mapping[str, Sequence[Document]], world: World, where: str, usual: str) -> Iterator[str]:
    """Yield namespaces that files name, and that are neither in the cluster nor in a file: nothing can be created
    there.

    Of a cluster whose namespaces are not known nothing is said.
    """
    known = set(world.cluster.namespaces)
    if not known:
        return
    known |= {"default", usual}
    objects = [(file, document.kind, plain(document).get("metadata")) for file in files for document in files[file]]
    known |= {str(data.get("name")) for _, kind, data in objects if kind == "Namespace" and isinstance(data, dict)}
    named_in: dict[str, str] = {}
    for file, _, data in objects:
        namespace = data.get("namespace") if isinstance(data, dict) else None
        if isinstance(namespace, str) and namespace and namespace not in known:
            named_in.setdefault(namespace, file)
    for namespace, file in list(named_in.items())[:_PROBLEMS]:
        yield f"{named(file)}: metadata.namespace: {shown(namespace)}: there is no such namespace in {where}"
