"""What plugins may name as events."""

import re
from pathlib import Path

import podberth.engine
from podberth.framework.events import LABELS, ClusterEvent

SEVERAL = {name for name, event in ClusterEvent.__members__.items() if len(event) > 1}
"""Names for several events together."""


def test_every_event_is_reported() -> None:
    """A plugin that names an event waits for it: the engine's code reports each kind that there is."""
    sources = "".join(path.read_text() for path in Path(podberth.engine.__file__).parent.rglob("*.py"))
    reported = set(re.findall(r"ClusterEvent\.([A-Z_]+)", sources))
    # That a pod asks for other nodes than before is reported as any change.
    assert set(ClusterEvent.__members__) - SEVERAL - reported == {"OWN_AFFINITY"}


def test_every_event_has_a_label() -> None:
    """But those of the waiting pod itself, which have one label together."""
    unnamed = {event.name for event in ClusterEvent if event not in LABELS}
    assert all(name is not None and name.startswith("OWN_") for name in unnamed)
