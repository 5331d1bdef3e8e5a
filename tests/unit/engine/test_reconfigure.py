"""Other profiles under way: whose pods leave, and who is tried again."""

from podberth.framework.config import decode
from podberth.framework.profiles import build
from tests.builders import configuration, profile
from tests.registered import registry
from tests.unit.engine.conftest import Harness, node, pod

WITHOUT_FIT = profile("berth", plugins={"filter": {"disabled": [{"name": "NodeResourcesFit"}]}})


def test_profiles_change(harness: Harness) -> None:
    """A profile without the plugin that rejected a pod takes it after its backoff; pods of a gone profile leave."""
    harness.put(node("a", cpu="1"), pod("big", "4"), pod("held", schedulingGates=[{"name": "example.com/wait"}]))
    assert harness.binds() == {}
    harness.put(pod("packed", scheduler="packed"), pod("failing", scheduler="packed"))
    assert harness.binds() == {"packed": "a", "failing": "a"}
    harness.put(pod("later", scheduler="packed"))
    frameworks = build(decode(configuration(WITHOUT_FIT)), registry())
    harness.engine.reconfigure(frameworks, 1, 10, harness.now)
    assert sorted(queued.pod.name for queued in harness.engine.queue) == ["big", "held"]
    harness.bind_failed("failing")  # was being bound: it is not put back for a profile that nobody has
    harness.bound("packed")
    harness.after(60)
    assert harness.binds() == {"big": "a"}
    assert sorted(queued.pod.name for queued in harness.engine.queue) == ["held"]
