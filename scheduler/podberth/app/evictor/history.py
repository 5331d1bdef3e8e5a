"""What Events tell of earlier evictions, as the engine takes it: for a new leader, `--dry-run` and `explain` alike."""

from collections.abc import Iterable

from podberth.engine.stimuli import Gone
from podberth.evictor.messages import Restored, Turn
from podberth.kube.evictions import PastEviction


def restored(past: Iterable[PastEviction], now: float, *, by_settings: bool = True) -> list[Restored]:
    """`now`: Unix time by the clock that the Events go by, or one that is behind.

    How long successors are left alone goes by the settings of whoever asks, or by what the Events say.
    """
    return [
        Restored(
            Gone("Pod", one.namespace, one.name, one.uid),
            Turn(f"{one.namespace}/{one.owner}", one.round, 0.0 if by_settings else one.spared, one.asked_at),
            one.ago(now),
        )
        for one in past
    ]
