"""Berth's answer to a case, in process."""

from __future__ import annotations

import json

from scheduler.framework.config import decode, default_configuration
from scheduler.framework.profiles import build
from scheduler.framework.runtime import Framework
from scheduler.framework.status import PluginError
from scheduler.model.pod import Pod
from scheduler.plugins.registry import registry
from scheduler.whatif import cases
from scheduler.whatif.cases import got
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
    world = World()
    world.add_all(case["objects"])
    pod = world.decode(case["pod"])
    assert isinstance(pod, Pod)
    framework = framework_of(pod, case.get("config", ""))
    return got(framework.decide(pod, world.cluster, score_always=True), framework, world)


def framework_of(pod: Pod, config: str = "") -> Framework:
    """The profile of a configuration that a pod names, else the first; without a text, the default."""
    frameworks = build(decode(json.loads(config)) if config else default_configuration(), registry())
    return frameworks.get(pod.scheduler_name) or next(iter(frameworks.values()))
