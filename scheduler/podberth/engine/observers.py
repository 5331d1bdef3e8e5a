"""What follows the course of things beside scheduling: conflicts between schedulers, claims that nobody uses any more.

The engine tells each observer what has happened, once the columns and the queue know it. It knows none of them by name.
"""

from collections.abc import Mapping

from podberth.cache.cluster import Placement
from podberth.engine.stimuli import Gone, OfBindingCycle
from podberth.framework.runtime import Framework
from podberth.model.kinds import Modelled
from podberth.model.pod import Pod


class Observer:
    """Overrides what it wants to hear of. Times are engine seconds."""

    def placed(self, pod: Pod, before: Placement | None, now: float) -> None:
        """The API shows a pod on a node; `before`: where it was placed until now, if only by an assumption of ours."""

    def left_unbound(self, pod: Pod, now: float) -> None:
        """A pod that was not bound is gone, or is being deleted."""

    def put(self, thing: Modelled, now: float) -> None:
        """An object that is no pod was added or updated."""

    def gone(self, gone: Gone, now: float) -> None:
        """An object that is no pod was deleted."""

    def answered(self, stimulus: OfBindingCycle, now: float) -> None:
        """What was asked or written for a pod in its binding cycle has an answer."""

    def follow(self, frameworks: Mapping[str, Framework]) -> None:
        """The profiles are these from now on."""

    def next_tick(self) -> float | None:
        """The time at which `tick` has something to do."""
        return None

    def tick(self, now: float) -> None:
        """Time has passed."""
