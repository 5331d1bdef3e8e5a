"""What comes of preemption for a pod group that found too few nodes."""

from msgspec import Struct, field

from podberth.framework.binding import Write
from podberth.framework.status import PluginError
from podberth.model.pod import Pod


class Plan(Struct):
    """Whom it removes, where the group waits then, and what is said."""

    said: str = ""
    """What the message of the group ends with."""
    waits: bool = False
    """The group waits for victims to leave."""
    nominated: dict[str, str] = field(default_factory=dict)
    """UID → node for which a pod of the group is nominated."""
    victims: list[Pod] = field(default_factory=list)
    """The most important first."""
    groups: int = 0
    """How many groups go as a whole."""
    violations: int = 0
    """How many of them overdraw a disruption budget."""
    error: str = ""
    """A plugin has failed."""
    writes: list[tuple[Pod, Write]] = field(default_factory=list)
    """What plugins want written, so that the group fits later."""
    stale: bool = False
    """Others were tried since plugins were asked what they want written: they are asked again."""
    misbehaved: list[PluginError] = field(default_factory=list)
    """Plugins that failed, so that they could do nothing for the group."""

    def node_for(self, pod: Pod) -> str | None:
        """The node for which a pod of the group is nominated; None: its nomination stays as it is."""
        return self.nominated.get(pod.uid) if self.waits else None
