"""Reads what explain, simulate and capacity are given: a configuration, a cluster and files, and what evictors did.

All that is wrong with any of them is told at once. A live cluster is only asked once the rest is right.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from podberth.cli.errors import Faults, complain
from podberth.cli.inputs import judged, named, profiles, unfetched, world
from podberth.explain.judging.schema import shown
from podberth.explain.objects.documents import Document, plain
from podberth.explain.objects.world import World
from podberth.framework.config import SchedulerConfiguration
from podberth.framework.profiles import annotated
from podberth.framework.runtime import Framework
from podberth.model.kinds import Decoder
from podberth.model.limits import LIMITS
from podberth.plugins.taint_toleration import TaintToleration

if TYPE_CHECKING:
    from podberth.evictor.gates import Settings
    from podberth.explain.promises import Past

_PROBLEMS = 8


class Given(NamedTuple):
    """`framework`: of the profile that is named, else of the first. `where`: how to call the cluster in messages;
    `usual`: the namespace of what names none; `files`: by name.
    """

    settings: SchedulerConfiguration
    frameworks: dict[str, Framework]
    framework: Framework
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
    namespace: str | None = None,
    classes: bool = True,
) -> Given:
    """Read all of it. `validate`: refuse what the API server would refuse; `namespace`: what -n says.

    Raises InputError.
    """
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
            held[file] = judged(file, types_only=not validate, comparing=comparing)
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
    complain([*there.problems[:_PROBLEMS], *_of_no_namespace(held, namespace, there, where, usual)])
    framework = frameworks[scheduler] if scheduler else next(iter(frameworks.values()))
    return Given(settings, frameworks, framework, there, where, usual, held, path)


def _of_no_namespace(
    files: Mapping[str, Sequence[Document]], asked: str | None, world: World, where: str, usual: str
) -> Iterator[str]:
    """Yield namespaces that files or -n (`asked`) name, and that are neither in the cluster nor in a file: nothing can
    be created there.

    Of a cluster whose namespaces are not known nothing is said.
    """
    known = set(world.cluster.namespaces)
    if not known:
        return
    known |= {"default", usual}
    objects = [(file, document.kind, plain(document).get("metadata")) for file in files for document in files[file]]
    known |= {str(data.get("name")) for _, kind, data in objects if kind == "Namespace" and isinstance(data, dict)}
    if files and asked and asked not in known:
        yield f"--namespace: {shown(asked)}: there is no such namespace in {where}"
    named_in: dict[str, str] = {}
    for file, _, data in objects:
        namespace = data.get("namespace") if isinstance(data, dict) else None
        if isinstance(namespace, str) and namespace and namespace not in known:
            named_in.setdefault(namespace, file)
    for namespace, file in list(named_in.items())[:_PROBLEMS]:
        yield f"{named(file)}: metadata.namespace: {shown(namespace)}: there is no such namespace in {where}"


def past(
    world: World,
    settings: "Settings",
    *,
    dump: bool,
    kubeconfig: str | None,
    context: str | None,
    timeout: str = "30s",
    taken: str = "",
) -> tuple["Past", list[str]]:
    """Return what is known of earlier evictions by Events of a live cluster or a dump, and what kept us from knowing.

    `taken`: the UID of a pod that was taken off its node.
    """
    # Only pods whose node is to stay as they asked for need any of this.
    from podberth.app.evictor.evictions import past_evictions, seconds
    from podberth.app.evictor.watcher import restored
    from podberth.explain.promises import Past
    from podberth.kube.objects import MALFORMED

    def there(uid: str) -> bool:
        placement = world.cluster.placement(uid)
        return uid == taken or (placement is not None and not placement.pod.terminating)

    if dump:
        found, problems = [], []
        try:
            found = past_evictions(world.events)
        except MALFORMED as error:
            problems = [f"Events of the dump can't be read: {error}; left out"]
    else:
        from podberth.cli.live import listed_evictions

        found, problems = listed_evictions(kubeconfig, context, timeout)
    # Ours may be behind the server's clock, by which the Events go.
    now = max([datetime.now(UTC).timestamp(), *(seconds(one.done_at) for one in found if one.done_at)])
    evictions = restored(found, now, by_settings=False)
    return Past(evictions, datetime.fromtimestamp(now, UTC), settings, there), problems
