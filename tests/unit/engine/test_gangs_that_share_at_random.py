"""Gangs that share claims, whatever happens to their writes: no device twice, no part of a gang, nothing stuck."""

from copy import deepcopy
from random import Random

import pytest

from podberth.cache.validate import validate
from podberth.engine.instructions import Bind, Instruction, PostFilterWrite, PreBindWrite, UnreserveWrite
from podberth.engine.stimuli import Bound, Cycle, Follows, Gone, PreBindWriteFailed, PreBindWritten, Put, Tick
from podberth.framework.binding import NOW, ObjectKey, Patch
from podberth.model import wire
from podberth.model.pod_group import NATIVE, GroupKey
from tests.builders import Object, node
from tests.devices import claim, claiming, device, device_class, resource_slice

from .api import key_of
from .conftest import Harness
from .test_gangs import group, member

CLAIMS = ("a", "b", "c")
STEPS = 150


class World(Harness):
    """Two nodes with two devices each, gangs that share claims, and an API server whose watch and answers are late."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.dice = Random(seed)
        self.version = 0
        self.stored: dict[ObjectKey, Object] = {}
        self.shown: dict[ObjectKey, list[Object]] = {}
        """What the watch has still to show of each object."""
        self.asked: list[PreBindWrite] = []
        self.answers: list[PreBindWritten | PreBindWriteFailed] = []
        self.bound_pods: set[str] = set()
        self.pods: dict[str, str] = {}
        """Pod → its gang."""
        self.needed: dict[str, int] = {}
        self.names = 0
        self.do(Follows(NATIVE, True))
        self.store(device_class())
        for name in ("n", "m"):
            self.store(node(name))
            self.store(resource_slice(name, device(f"{name}0"), device(f"{name}1"), node=name))
        for name in CLAIMS:
            self.store(claim(name))
        while self.show_one():
            pass

    # -- the API server ----------------------------------------------------------------------------------------------

    def store(self, document: Object) -> str:
        self.version += 1
        document = deepcopy(document)
        document["metadata"].setdefault("uid", document["metadata"]["name"])
        document["metadata"]["resourceVersion"] = str(self.version)
        key = key_of(document)
        self.stored[key] = document
        self.shown.setdefault(key, []).append(document)
        return str(self.version)

    def show_one(self) -> bool:
        """The watch brings the next event of some object."""
        waiting = [key for key, events in self.shown.items() if events]
        if not waiting:
            return False
        document = self.shown[self.dice.choice(waiting)].pop(0)
        self.do(Put(self.decoder.of_kind(document["kind"])(wire.encode(document))))
        return True

    def patch(self, one: Patch) -> str | None:
        """Carry a write out; None: it is refused for its version."""
        document = deepcopy(self.stored[one.key])
        if one.resource_version not in ("", document["metadata"]["resourceVersion"]):
            return None
        status = document.setdefault("status", {})
        if one.strategic:
            out = {each["uid"] for each in one.change["status"]["reservedFor"]}
            status["reservedFor"] = [each for each in status.get("reservedFor", ()) if each["uid"] not in out]
            return self.store(document)
        document["metadata"].update(one.change.get("metadata", {}))
        for name, value in one.change.get("status", {}).items():
            status[name] = value
        given = status.get("allocation")
        assert not status.get("reservedFor") or given, "the API refuses a reservation of what has no device"
        if given is not None and given.get("allocationTimestamp") == NOW:
            status["allocation"] = {**given, "allocationTimestamp": "2026-01-01T00:00:00Z"}
        if given is None:
            status.clear()
        return self.store(document)

    def write_one(self) -> None:
        """One of the writes that were asked for arrives, and is answered later."""
        if not self.asked:
            return
        one = self.asked.pop(self.dice.randrange(len(self.asked)))
        if self.dice.random() < 0.1:
            self.answers.append(PreBindWriteFailed(one.pod.uid, self.dice.choice((403, 500)), "boom", {}))
            return
        written: dict[ObjectKey, str] = {}
        for each in one.writes:
            assert isinstance(each, Patch)
            version = self.patch(each)
            if version is None:
                self.answers.append(PreBindWriteFailed(one.pod.uid, 409, "conflict", written))
                return
            written[each.key] = version
        self.answers.append(PreBindWritten(one.pod.uid, written))

    def answer_one(self) -> None:
        if self.answers:
            self.do(self.answers.pop(self.dice.randrange(len(self.answers))))

    def control(self) -> None:
        """The claim controller: reservations of pods that are gone end, and then the devices are free."""
        for key, document in list(self.stored.items()):
            users = document.get("status", {}).get("reservedFor") or []
            left = [one for one in users if one["uid"] in self.pods]
            if key[0] == "ResourceClaim" and len(left) < len(users):
                found = deepcopy(document)
                found["status"]["reservedFor"] = left
                if not left:
                    found["status"] = {}
                self.store(found)

    # -- what Berth says ---------------------------------------------------------------------------------------------

    def do(self, stimulus: object) -> None:
        self.look(self.handle(stimulus))  # type: ignore[arg-type]

    def look(self, said: list[Instruction]) -> None:
        for one in said:
            if isinstance(one, PreBindWrite):
                self.asked.append(one)
            elif isinstance(one, (UnreserveWrite, PostFilterWrite)):
                for each in one.writes:
                    assert isinstance(each, Patch)
                    self.patch(each)
        binds = [one for one in said if isinstance(one, Bind)]
        for one in binds:
            self.bound_pods.add(one.pod.name)
        for one in binds:
            self.judge(one.pod.name, one.node)
        for one in binds:
            document = deepcopy(self.stored["Pod", "default", one.pod.name])
            document["spec"]["nodeName"] = one.node
            self.store(document)
            self.do(Bound(one.pod.uid))

    def judge(self, name: str, where: str) -> None:
        """A pod that is bound has its claims where it is, reserved for it; and enough of its gang are bound."""
        for used in self.stored["Pod", "default", name]["spec"]["resourceClaims"]:
            status = self.stored["ResourceClaim", "default", used["resourceClaimName"]].get("status", {})
            assert [one["pool"] for one in status["allocation"]["devices"]["results"]] == [where]
            assert name in [one["name"] for one in status["reservedFor"]]
        of = self.pods[name]
        state = self.engine.cluster.pod_groups.state(GroupKey("default", of, NATIVE))
        assert state is not None
        there = sum(gang == of and pod in self.bound_pods for pod, gang in self.pods.items())
        assert there >= state.object.needed if state.object is not None else False

    def devices(self) -> list[tuple[str, str]]:
        """(device, claim) of all claims, as stored."""
        return [
            (one["device"], key[2])
            for key, document in self.stored.items()
            if key[0] == "ResourceClaim"
            for one in (document.get("status", {}).get("allocation") or {}).get("devices", {}).get("results", ())
        ]

    def fits(self, name: str) -> bool:
        """Whether a waiting pod could have its claims somewhere, if those that nobody bound uses were freed."""
        taken = dict(self.used())
        wanted = [one["resourceClaimName"] for one in self.stored["Pod", "default", name]["spec"]["resourceClaims"]]
        for where in ("n", "m"):
            elsewhere = any(taken.get(one, where) != where for one in wanted)
            there = {used for used, pool in taken.items() if pool == where}
            if not elsewhere and len(there.union(wanted)) <= 2:
                return True
        return False

    def used(self) -> list[tuple[str, str]]:
        """(claim, node) of the claims of pods that are bound."""
        found = []
        for key, document in self.stored.items():
            given = document.get("status", {}).get("allocation") if key[0] == "ResourceClaim" else None
            if given and {one["name"] for one in document["status"].get("reservedFor", ())} & self.bound_pods:
                found.append((key[2], given["devices"]["results"][0]["pool"]))
        return found

    # -- what happens ------------------------------------------------------------------------------------------------

    def gang(self) -> None:
        if len(self.needed) >= 4:
            return
        self.names += 1
        of, count = f"g{self.names}", self.dice.randint(1, 4)
        self.needed[of] = count
        self.store(group(of, count))
        claims = self.dice.sample(CLAIMS, self.dice.choice((1, 1, 2)))
        for number in range(count + self.dice.choice((0, 0, 1))):
            name = f"{of}-{number}"
            self.pods[name] = of
            self.store(claiming(member(name, "100m", of, meta={"uid": name}), *claims))

    def delete(self) -> None:
        if self.pods:
            name = self.dice.choice(sorted(self.pods))
            del self.pods[name]
            self.bound_pods.discard(name)
            self.stored.pop(("Pod", "default", name))
            self.shown.pop(("Pod", "default", name))
            self.do(Gone("Pod", "default", name, name))

    def something(self) -> None:
        dice = self.dice.random()
        if dice < 0.2:
            self.do(Cycle())
        elif dice < 0.45:
            self.show_one()
        elif dice < 0.65:
            self.write_one()
        elif dice < 0.82:
            self.answer_one()
        elif dice < 0.87:
            self.gang()
        elif dice < 0.90:
            self.delete()
        elif dice < 0.93:
            self.control()
        else:
            self.now += self.dice.choice((0.1, 2.0, 20.0))
            self.do(Tick())
        names = [device for device, _ in self.devices()]
        assert len(names) == len(set(names)), f"a device is given twice: {self.devices()}"

    def settle(self) -> None:
        """From now on all goes well; gangs whose pods were deleted go."""
        for of, count in self.needed.items():
            mine = [name for name, gang in self.pods.items() if gang == of]
            if len(mine) < count:
                self.store(group(of, max(len(mine), 1)))
        for _ in range(60):
            for _ in range(400):
                before = (self.version, len(self.asked), len(self.answers), self.engine.has_work)
                self.show_one()
                self.write_one()
                self.answer_one()
                self.do(Cycle())
                self.control()
                if before == (self.version, 0, 0, False) and not any(self.shown.values()):
                    break
            self.now += 15.0
            self.do(Tick())


@pytest.mark.parametrize("seed", [*range(20), 33, 53])
def test_whatever_happens(seed: int) -> None:
    world = World(seed)
    for _ in range(STEPS):
        world.something()
    world.settle()
    assert validate(world.engine.cluster) == []
    devices = world.engine.cluster.devices
    assert (len(devices.users), devices.users.unseen, devices.in_flight) == (0, {}, {})
    waiting = sorted(set(world.pods) - world.bound_pods)
    stuck = [name for name in waiting if world.fits(name)]
    assert stuck == []
    for _, used in world.devices():
        assert world.stored["ResourceClaim", "default", used]["status"].get("reservedFor"), f"{used} is held for nobody"
