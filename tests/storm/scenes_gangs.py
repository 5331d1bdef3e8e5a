"""Small worlds in which gangs are in trouble; `seeds` has the others, and says what they are for."""

from __future__ import annotations

from typing import Any

from podberth.model.pod_group import COSCHEDULING, NATIVE
from tests.storm.actors import RIVAL
from tests.storm.casting import DEVICES, GANGS
from tests.storm.happenings import Happening, at
from tests.storm.plan import Plan
from tests.storm.towns import scene


def _gang(moment: float, least: int, cpu: int, **more: Any) -> Happening:
    given: dict[str, Any] = {"namespace": "blue", "name": "g0", "groups": NATIVE, "replicas": least, **more}
    return at(moment, "want", **given, gang=least, cpu=cpu)


def _half_way(moment: float, what: str, groups: str = NATIVE, seconds: float = 10.0) -> Happening:
    return at(moment, "half-way", namespace="blue", name="g0", groups=groups, what=what, seconds=seconds)


def _taken_out(seed: str, **how: float) -> Plan:
    claims = at(9.0, "requests", what="patch resourceclaims/status", chance=0.5, seconds=100.0, right=True, **how)
    gang = _gang(10.0, 6, 100, groups=COSCHEDULING, gives_up=5, claims="own")
    return scene(seed, claims, gang, cast=(DEVICES, GANGS))


TAKEN_OUT, TAKEN_OUT_LATE = _taken_out("entry gone", late=45.0), _taken_out("entry gone late", after=45.0)
FOUGHT_FOR = scene(
    "fought for",
    at(1.0, "want", namespace="green", name="w0", cpu=500, scheduler=RIVAL, replicas=14),
    _gang(60.0, 6, 1000, priority="high"),
    rival_every=0.3,
    cast=(GANGS,),
)
"""A gang removes pods of another scheduler, which gives their room to their successors each time."""
SCENES: dict[str, Plan] = {
    "gang too large": scene(
        "gang too large",
        _gang(120.0, 8, 1000),
        at(200.0, "want", namespace="green", name="w", cpu=1000, replicas=5),
        cast=(GANGS,),
    ),
    "gang half way": scene(
        "gang half way", _gang(10.0, 6, 500), *(_half_way(when, "kill") for when in (60.0, 150.0)), cast=(GANGS,)
    ),
    "gang gives up": scene(
        "gang gives up",
        at(9.0, "requests", what="patch resourceclaims/status", chance=0.5, seconds=100.0, right=True, late=25.0),
        _gang(10.0, 6, 100, groups=COSCHEDULING, gives_up=5, claims="own"),
        cast=(DEVICES, GANGS),
    ),
}
