"""Reads what evictors did lately, from a live cluster's Events or a dump's, for `berth explain` and `--dry-run`.

It is apart from `berth evictor`, which starts without any of this.
"""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from podberth.app.evictor.watcher import restored
from podberth.evictor.gates import Settings
from podberth.explain.promises import Past
from podberth.kube.evictions import past_evictions, seconds
from podberth.kube.objects import MALFORMED

if TYPE_CHECKING:
    from podberth.explain.objects.world import World


def past(
    world: "World",
    settings: Settings,
    *,
    dump: bool,
    kubeconfig: str | None,
    context: str | None,
    timeout: str = "30s",
    taken: str = "",
) -> tuple[Past, list[str]]:
    """Return what is known of earlier evictions, and what kept us from knowing. `taken`: a pod that was taken off its
    node.
    """

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
