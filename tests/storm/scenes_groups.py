"""Small worlds with topology, claims that pods share, and room that is kept; `seeds` says what for."""

from __future__ import annotations

from typing import Any

from podberth.model.pod_group import COSCHEDULING, NATIVE
from tests.storm.casting import DEVICES, GANGS
from tests.storm.casting_groups import PREFERENCES, ROOMS, ZONES
from tests.storm.happenings import Happening, at
from tests.storm.plan import Plan
from tests.storm.towns import scene


def _gang(moment: float, name: str, least: int, cpu: int, **more: Any) -> Happening:
    given: dict[str, Any] = {"namespace": "blue", "name": name, "groups": NATIVE, "replicas": least, **more}
    return at(moment, "want", **given, gang=least, cpu=cpu)


def _that_end(*lasts: int) -> list[Happening]:
    """Pods that fill all nodes, and come again as soon as they have ended."""
    given: dict[str, Any] = {"namespace": "green", "cpu": 500, "replicas": 14 // len(lasts)}
    return [at(5.0, "want", **given, name=f"e{i}", lasts=seconds) for i, seconds in enumerate(lasts)]


SCENES: dict[str, Plan] = {
    "one zone": scene(
        "one zone",
        _gang(10.0, "z0", 4, 500, topology="zone"),
        at(50.0, "want", namespace="green", name="w", cpu=500, zone="b", replicas=2),
        _gang(60.0, "z0", 4, 500, topology="zone", replicas=8),
        cast=(GANGS, ZONES),
    ),
    "one zone if possible": scene(
        "one zone if possible",
        *(_gang(10.0, f"p{i}", least, 500, prefers="zone") for i, least in enumerate((9, 3))),
        cast=(GANGS, PREFERENCES),
    ),
    "shared claim": scene(
        "shared claim",
        _gang(10.0, "s0", 4, 250, claims="shared"),
        _gang(11.0, "s1", 4, 250, claims="group"),
        *(
            at(when, "half-way", namespace="blue", name=f"s{i}", groups=NATIVE, what="kill", seconds=10.0)
            for i, when in enumerate((100.0, 180.0))
        ),
        cast=(DEVICES, GANGS, ZONES),
    ),
    "refused while leaving": scene(
        "refused while leaving",
        at(9.0, "requests", what="patch resourceclaims/status", chance=0.5, seconds=4.0, right=True, after=45.0),
        at(9.0, "requests", what="create pods/binding", chance=0.5, seconds=4.0, code=403),
        at(10.0, "want", namespace="blue", name="d0", cpu=50, claims="own", replicas=6),
        cast=(DEVICES,),
    ),
    "behind small pods": scene("behind small pods", *_that_end(20), _gang(60.0, "r0", 3, 2000), cast=(GANGS, ROOMS)),
    "behind long pods": scene("behind long pods", *_that_end(220, 15), _gang(60.0, "r0", 3, 2000), cast=(GANGS, ROOMS)),
}
LATE_FROM_THE_DEAD = scene(
    "late from the dead",
    at(9.0, "requests", what="patch resourceclaims/status", chance=0.5, seconds=9.5, right=True, after=45.0),
    _gang(10.0, "g0", 6, 100, groups=COSCHEDULING, gives_up=5, claims="own"),
    *(at(19.0, "kill", who=f"berth-{machine}", seconds=1.0) for machine in "ab"),
    cast=(DEVICES, GANGS),
)
"""What the leader had sent before it died, to take pods out of their claims, is acted on under the next one."""
ALLOCATED_BY_THE_DEAD = scene(
    "allocated by the dead",
    at(9.0, "requests", what="patch resourceclaims/status", chance=1.0, seconds=4.0, right=True, after=45.0),
    at(10.0, "want", namespace="blue", name="d0", cpu=50, claims="own", replicas=6),
    *(at(12.5, "kill", who=f"berth-{machine}", seconds=1.0) for machine in "ab"),
    at(13.0, "want", namespace="green", name="d1", cpu=50, claims="own", replicas=6, priority="high"),
    cast=(DEVICES,),
)
"""The next leader gives its devices to more important pods; then the allocations of the former one are acted on."""
BEGUN_BY_THE_DEAD = scene(
    "begun by the dead",
    at(9.0, "requests", what="patch resourceclaims/status", chance=1.0, seconds=4.0, right=True, after=45.0),
    at(10.0, "want", namespace="blue", name="d0", cpu=50, claims="own", replicas=6),
    at(11.5, "want", namespace="blue", name="d0", cpu=50, claims="own", replicas=0),
    *(at(12.5, "kill", who=f"berth-{machine}", seconds=1.0) for machine in "ab"),
    at(13.0, "want", namespace="green", name="d1", cpu=50, claims="own", replicas=6, priority="high"),
    cast=(DEVICES,),
)
"""As before, but the pods for which the former leader has sent allocations are gone."""
BOUND_BY_THE_DEAD = scene(
    "bound by the dead",
    at(9.0, "requests", what="create pods/binding", chance=1.0, seconds=6.0, right=True, after=45.0),
    at(10.0, "want", namespace="blue", name="d0", cpu=50, claims="own", replicas=6),
    *(at(14.5, "cordon", node=node, seconds=200.0) for node in ("n0", "n1", "n2")),
    *(at(15.0, "kill", who=f"berth-{machine}", seconds=1.0) for machine in "ab"),
    cast=(DEVICES,),
)
"""Most claims have devices of nodes that take no pods any more, when the next leader tries the pods that the former
one has bound. Then those Bindings are carried out."""
REFUSED_BESIDE_THE_DEAD = scene(
    "refused beside the dead",
    at(9.0, "requests", what="create pods/binding", chance=1.0, seconds=6.0, right=True, after=45.0),
    at(10.0, "want", namespace="blue", name="d0", cpu=50, claims="own", replicas=6),
    *(at(15.0, "kill", who=f"berth-{machine}", seconds=1.0) for machine in "ab"),
    at(15.5, "requests", what="create pods/binding", chance=1.0, seconds=70.0, code=403),
    cast=(DEVICES,),
)
"""The next leader's Bindings are refused; then those of the former one are carried out."""
REFUSED_TOGETHER = scene(
    "refused together",
    at(249.0, "requests", what="patch resourceclaims/status", chance=1.0, seconds=4.0, code=409),
    _gang(250.0, "s1", 4, 250, claims="group"),
    cast=(DEVICES, GANGS, ZONES),
)
"""The pods of a gang share a claim, and its allocation is refused, though nobody has changed it."""
MADE_ANEW_UNSEEN = scene(
    "made anew unseen",
    _gang(10.0, "s1", 4, 250, claims="group"),
    at(280.0, "mute", plural="podgroups", part=1.0),
    at(290.0, "delete-namespace", namespace="blue", seconds=3.0),
    cast=(DEVICES, GANGS, ZONES),
)
"""The group whose claim its pods share goes with its namespace and is made again, and its watch stands still."""
HELD_IN_THE_END = scene(
    "held in the end",
    at(199.0, "requests", what="patch resourceclaims/status", chance=1.0, seconds=2.0, right=True, after=8.0),
    _gang(200.0, "g0", 3, 1500, claims="own"),
    at(204.0, "cordon", node="n0", seconds=300.0),
    cast=(DEVICES, GANGS),
)
"""Two pods of a gang wait for the third, and their time is not over in the end."""
