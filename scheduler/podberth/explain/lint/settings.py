"""Settings of the whole process: the lease, extenders, and fields that do nothing here."""

from collections.abc import Iterator, Mapping

from podberth.explain.judging.schema import shown
from podberth.explain.lint.finding import Finding
from podberth.framework.config import Extender, LeaderElection, SchedulerConfiguration

_ITS_LEASE = ("kube-scheduler", "kube-system")


def settings(config: SchedulerConfiguration) -> Iterator[Finding]:
    """Yield findings on settings above the profiles."""
    yield from _lease(config.leader_election)
    if config.parallelism != SchedulerConfiguration().parallelism:
        yield Finding(
            "field-without-effect",
            "parallelism",
            f"parallelism is {config.parallelism}",
            "Berth looks at all nodes at once, in columns; there are no workers to set the number of.",
            "Remove it.",
        )
    if config.delay_cache_until_active:
        yield Finding(
            "field-without-effect",
            "delayCacheUntilActive",
            "delayCacheUntilActive is true",
            "Berth fills its cache at once, so that a standby can take over without a pause.",
            "Remove it.",
        )
    for i, extender in enumerate(config.extenders):
        yield from _extender(extender, f"extenders[{i}]")


def between_files(configs: Mapping[str, SchedulerConfiguration]) -> Iterator[tuple[str, Finding]]:
    """Yield (file, finding) for settings that the files of several schedulers must not have in common."""
    names: dict[str, str] = {}
    leases: dict[tuple[str, str], str] = {}
    for file, config in configs.items():
        for i, profile in enumerate(config.profiles):
            other = names.setdefault(profile.scheduler_name or "", file)
            if other != file:
                yield (
                    file,
                    Finding(
                        "profile-in-two-files",
                        f"profiles[{i}].schedulerName",
                        f"{profile.scheduler_name} is a profile of {other} too",
                        "Two schedulers would race for every pod of this name.",
                        "Give one of them another name, or run both files as replicas of one, with one lease.",
                    ),
                )
        election = config.leader_election
        lease = (election.resource_name, election.resource_namespace)
        other = leases.setdefault(lease, file) if election.leader_elect else file
        if other != file:
            yield (
                file,
                Finding(
                    "lease-shared",
                    "leaderElection.resourceName",
                    f"the lease {election.resource_name} is that of {other} too",
                    "Only one of the two schedulers is active at a time; pods of the other's profiles stay pending.",
                    "Give each its own resourceName.",
                ),
            )


def _lease(election: LeaderElection) -> Iterator[Finding]:
    name, namespace = election.resource_name, election.resource_namespace
    if election.leader_elect and name == _ITS_LEASE[0] and namespace in (_ITS_LEASE[1], ""):
        yield Finding(
            "lease-of-kube-scheduler",
            "leaderElection.resourceName",
            f"the lease is {namespace + '/' if namespace else ''}{name}",
            "kube-scheduler holds it: Berth waits for it for ever, or takes it, and then kube-scheduler stops.",
            "Use another name, such as berth (the default).",
        )


def _extender(extender: Extender, path: str) -> Iterator[Finding]:
    asked = {
        "filterVerb": extender.filter_verb,
        "prioritizeVerb": extender.prioritize_verb,
        "preemptVerb": extender.preempt_verb,
        "bindVerb": extender.bind_verb,
    }
    if not any(asked.values()):
        yield Finding(
            "extender-never-asked",
            path,
            f"the extender {extender.url_prefix} has none of {', '.join(asked)}",
            "An extender is asked only for what it has a verb for: this one is never called.",
            "Give the verbs that it answers, or remove it.",
        )
    if not extender.url_prefix.startswith(("http://", "https://")):
        yield Finding(
            "extender-address",
            f"{path}.urlPrefix",
            f"{shown(extender.url_prefix)} does not begin with http:// or https://",
            "The extender can't be called, and every pod that it is asked about fails"
            f"{' over to the rest of the scheduler (it is ignorable)' if extender.ignorable else ''}.",
            "Write the whole address, such as http://extender.kube-system:8888.",
        )
    elif extender.tls_config is not None and extender.url_prefix.startswith("http://"):
        yield Finding(
            "extender-setting-unused",
            f"{path}.tlsConfig",
            "there are TLS settings for an http address",
            "The connection is not encrypted.",
            "Use https in urlPrefix, and enableHTTPS: true.",
        )
    if extender.weight and not extender.prioritize_verb:
        yield _unused(f"{path}.weight", f"weight is {extender.weight}", "prioritizeVerb")
    if extender.node_cache_capable and not (extender.filter_verb or extender.prioritize_verb):
        yield _unused(f"{path}.nodeCacheCapable", "nodeCacheCapable is true", "filterVerb or prioritizeVerb")


def _unused(path: str, what: str, verb: str) -> Finding:
    return Finding(
        "extender-setting-unused", path, f"{what} without {verb}", "It has no effect.", f"Give {verb}, or remove it."
    )
