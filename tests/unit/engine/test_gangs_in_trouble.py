"""Between the decision and the last Binding of a gang: whatever happens to one pod, no part of the gang is bound.

The first pod has its claim written and waits for the second one, whose write has no answer yet.
"""

import pytest

from podberth.engine.binding_table import State
from podberth.engine.instructions import Instruction, PostFilterWrite, PreBindWrite, UnreserveWrite
from podberth.engine.stimuli import Follows, Gone, PreBindWritten
from podberth.framework.binding import Patch
from podberth.model.devices import FINALIZER
from podberth.model.pod_group import NATIVE
from tests.builders import Object
from tests.devices import claim, claiming, device, device_class, resource_slice

from .api import Api
from .conftest import Harness, node, pod
from .test_gangs import bound, group, member
from .test_gangs_that_share import carry_out


class Half:
    """A gang of two, half-way. Each node has room for one pod, and a device."""

    def __init__(self, harness: Harness, spare: bool) -> None:
        harness.handle(Follows(NATIVE, True))
        self.harness = harness
        self.api = Api(harness, device_class(), group(min_count=2))
        for name in ("n0", "n1", "n2") if spare else ("n0", "n1"):
            self.api.put(node(name, "1"))
            self.api.put(resource_slice(name, device("d"), node=name))
        for number in range(2):
            self.api.put(claim(f"c{number}", meta={"finalizers": [FINALIZER]}))
            self.api.put(claiming(member(f"w{number}", "600m", meta={"uid": f"default/w{number}"}), f"c{number}"))
        self.first, self.second = (one for one in harness.cycles() if isinstance(one, PreBindWrite))
        assert bound(harness.handle(self.api.write(self.first))) == []
        self.api.show(*(patch.key for patch in self.first.writes))
        assert self.state(self.first) is State.GROUP_GATHERING

    def state(self, one: PreBindWrite) -> State | None:
        return self.harness.engine.binding.state(one.pod.uid)

    def answer(self) -> PreBindWritten:
        return self.api.write(self.second)

    def later(self, said: list[Instruction]) -> list[str]:
        """Who is bound within some minutes from now on. `said`: what is still to be carried out."""
        found: list[str] = []
        for _ in range(40):
            for one in said:
                if isinstance(one, (PostFilterWrite, UnreserveWrite)):
                    for patch in one.writes:
                        assert isinstance(patch, Patch)
                        self.give_back(patch)
            said = carry_out(self.api, self.harness, self.harness.tick(15.0) + self.harness.cycles())
            found += bound(said)
        return sorted(found)

    def give_back(self, patch: Patch) -> None:
        """A claim is freed, a pod is taken out of it, or it only gets another version."""
        change = dict(patch.change)
        if patch.strategic:
            out = {one["uid"] for one in change["status"]["reservedFor"]}
            users = self.api.get(patch.key)["status"].get("reservedFor", ())
            change = {"status": {"reservedFor": [one for one in users if one["uid"] not in out]}}
        self.api.edit(patch.key, **change)


def other(on: str) -> Object:
    return pod("other", "900m", scheduler="else", nodeName=on, meta={"uid": "default/other"})


@pytest.mark.parametrize("spare", [False, True])
def test_a_member_is_deleted(harness: Harness, spare: bool) -> None:
    """The gang is short of a pod: nobody is bound, and after five minutes nothing is held."""
    half = Half(harness, spare)
    said = harness.handle(Gone("Pod", "default", half.second.pod.name, half.second.pod.uid))
    said += harness.handle(half.answer())
    assert bound(said) == []
    assert half.later(said) == []
    assert harness.engine.cluster.assumed() == 0


@pytest.mark.parametrize("which", ["first", "second"])
@pytest.mark.parametrize("spare", [False, True])
def test_a_node_is_gone_under_a_member(harness: Harness, which: str, spare: bool) -> None:
    """With a spare node and device for what is left, the gang starts there; else it waits whole."""
    half = Half(harness, spare)
    lost = getattr(half, which)
    said = harness.lose("Node", "", lost.node)
    said += harness.lose("ResourceSlice", "", lost.node)
    said += harness.handle(half.answer())
    assert bound(said) == []
    found = half.later(said)
    assert found == (["w0", "w1"] if spare else [])
    assert harness.engine.cluster.assumed() == (2 if spare else 0)


@pytest.mark.parametrize("which", ["first", "second"])
@pytest.mark.parametrize("spare", [False, True])
def test_another_scheduler_takes_the_room(harness: Harness, which: str, spare: bool) -> None:
    """Its pod is there first: ours goes elsewhere with the whole gang, or waits with it."""
    half = Half(harness, spare)
    said = half.api.put(other(getattr(half, which).node))
    said += harness.handle(half.answer())
    assert bound(said) == []
    assert half.later(said) == (["w0", "w1"] if spare else [])


def test_the_group_asks_for_more_meanwhile(harness: Harness) -> None:
    """Two are not enough any more."""
    half = Half(harness, True)
    half.api.put(group(min_count=3))
    said = harness.handle(half.answer())
    assert bound(said) == []
    assert half.later(said) == []
    assert harness.engine.cluster.assumed() == 0
