"""The worlds of recordings: what happens in them whatever another configuration decides, and what does not."""

from pathlib import Path

from podberth.engine.instructions import Bind, Instruction
from podberth.engine.stimuli import BindFailed
from podberth.lab.recording.difference import difference
from podberth.lab.recording.reading import part
from podberth.lab.recording.world import Recorded
from tests.builders import node, pod
from tests.unit.lab.recording.flights import Flight


class Refused(Flight):
    """One in which the server refuses each Binding."""

    def _carry_out(self, instructions: list[Instruction]) -> None:
        super()._carry_out([one for one in instructions if not isinstance(one, Bind)])
        for one in instructions:
            if isinstance(one, Bind):
                self.tell(BindFailed(one.pod.uid, 403, "no"))


async def test_a_refused_binding_places_nothing(tmp_path: Path) -> None:
    """The pod ran nowhere, so nobody knows how long it would last: it goes when it was deleted."""
    flight = Refused(tmp_path)
    flight.put(node("n0", "4"))
    flight.put(pod("web", "3"))
    flight.work()
    flight.now += 500
    flight.gone("Pod", "web")
    flight.close()
    recorded = Recorded(part(tmp_path))
    assert recorded.placements() == [None]
    assert [change.gone for change in recorded.world("w").changes] == [("Pod", "default", "web")]


async def test_a_victim_goes_only_where_somebody_preempts_it(tmp_path: Path) -> None:
    """It ran already when the world began, and the recorded configuration made it go."""
    flight = Flight(tmp_path)
    flight.put(node("n0", "4"))
    flight.put(pod("victim", "4"))
    flight.work()
    flight.now += 10
    flight.put(pod("urgent", "4", priority=100))
    flight.work()
    flight.close()
    assert ("Pod", "victim") not in flight.objects
    world = Recorded(part(tmp_path), begin=5.0).world("w")
    assert [change.gone for change in world.changes] == []
    assert len(world.arrivals) == 1


async def test_pods_of_one_name_are_told_apart(tmp_path: Path) -> None:
    """As of a StatefulSet, that makes one of the same name where the first was deleted."""
    flight = Flight(tmp_path)
    flight.put(node("n0", "4"))
    flight.put(pod("web-0", "1", uid="one"))
    flight.work()
    flight.now += 10
    flight.gone("Pod", "web-0")
    flight.gone("Node", "n0")
    flight.put(node("n1", "4"))
    flight.put(pod("web-0", "1", uid="two"))
    flight.work()
    flight.close()
    recorded = Recorded(part(tmp_path))
    assert recorded.placements() == ["n0", "n1"]
    found = difference(part(tmp_path), flight.config, name="same")
    assert (found.pods, found.as_recorded) == (2, 2)
