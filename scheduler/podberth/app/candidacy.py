"""A scheduler's candidacy for its Lease, as leaderElection of the KubeSchedulerConfiguration asks for it."""

from podberth.framework.config import SchedulerConfiguration
from podberth.framework.durations import seconds
from podberth.kube.client import Client
from podberth.kube.lease import DURATION, RENEW_DEADLINE, RETRY, Candidate
from podberth.kube.schedulers import SCHEDULERS
from podberth.service.election import candidate, lease_namespace


def candidacy(client: Client, config: SchedulerConfiguration) -> Candidate | None:
    """A candidate for the Lease; the client sends no write without it. None when there is no election."""
    wanted = config.leader_election
    if not wanted.leader_elect:
        return None
    namespace, otherwise = lease_namespace(client.connection, wanted.resource_namespace)
    elector = candidate(
        client,
        namespace,
        wanted.resource_name,
        duration=seconds(wanted.lease_duration) or DURATION,
        renew_deadline=seconds(wanted.renew_deadline) or RENEW_DEADLINE,
        retry=seconds(wanted.retry_period) or RETRY,
        annotations=lease_annotations(config),
        otherwise=otherwise,
    )
    client.fence = elector.left
    return elector


def lease_annotations(config: SchedulerConfiguration) -> dict[str, str]:
    """Return what the Lease says of its holder."""
    return {SCHEDULERS: ",".join(profile.scheduler_name or "" for profile in config.profiles)}
