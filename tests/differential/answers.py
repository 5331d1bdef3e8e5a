"""Berth's answer to a case, in process."""

from __future__ import annotations

import json

from scheduler.framework.config import decode, default_configuration
from scheduler.framework.status import PluginError
from scheduler.model.pod import Pod
from scheduler.whatif import cases
from scheduler.whatif.cases import framework_for, got
from scheduler.whatif.world import World
from tests.conformance.comparison import Case


def answer(case: Case) -> Case:
    """The `got` of a case; {"error"} where a plugin fails the pod's cycle.

    Raises ObjectError or ConfigError: the case is at fault.
    """
    try:
        return _queued(case) if case.get("nominees") == "queued" else cases.answer(case, json.loads)
    except PluginError as error:
        return {"error": str(error)}


def _queued(case: Case) -> Case:
    """As `cases.answer`, with the nominated pods counted whole: the way of `berth run`, which knows them."""
    config = decode(json.loads(case["config"])) if case.get("config") else default_configuration()
    world = World()
    world.add_all(case["objects"])
    pod = world.decode(case["pod"])
    assert isinstance(pod, Pod)
    framework = framework_for(config, pod)
    return got(framework.decide(pod, world.cluster, score_always=True), framework, world)
