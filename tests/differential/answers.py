"""Berth's answer to a case, in process."""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import patch

from podberth.explain import cases
from podberth.explain.objects.world import World
from podberth.framework.config import decode, default_configuration
from podberth.framework.decision import Decision
from podberth.framework.profiles import build
from podberth.framework.runtime import Framework
from podberth.framework.status import PluginError
from podberth.model.devices import ResourceClaim
from podberth.model.pod import Pod
from podberth.plugins.dynamic_resources import plugin as devices
from podberth.plugins.dynamic_resources.allocation import EXTENDED_SUFFIX
from podberth.plugins.dynamic_resources.plugin import DynamicResources
from tests.conformance.comparison import Case
from tests.registered import registry

_MOST_STEPS = 50_000_000
"""kube-scheduler gives a search up after 10 s, which is about as far. What is compared is what they find."""


def answer(case: Case) -> Case:
    """The `got` of a case, with what would be written to claims; {"error"} where a plugin fails the pod's cycle.

    Nominated pods that are `queued` count whole, as in `berth run`, which knows them.

    Raises ObjectError or ConfigError: the case is at fault.
    """
    framework, world, pod = cases.asked(case, json.loads)
    if case.get("nominees") != "queued":
        cases.nominate_stubs(world)
    for document in case.get("pending", ()):
        claim = world.decode(document)
        assert isinstance(claim, ResourceClaim)
        assert claim.allocation is not None
        world.cluster.devices.assume(claim.uid, claim.allocation, claim.key)
    try:
        with patch.object(devices, "MOST_STEPS", _MOST_STEPS):
            decision = framework.decide(pod, world.cluster, score_always=True)
            found = cases.got(decision, framework, world)
            if written := _written(decision, framework, world):
                found["written"] = written
        return found
    except PluginError as error:
        return {"error": str(error)}


def framework_of(pod: Pod, config: str = "") -> Framework:
    """The profile of a configuration that a pod names, else the first; without a text, the default."""
    frameworks = build(decode(json.loads(config)) if config else default_configuration(), registry())
    return frameworks.get(pod.scheduler_name) or next(iter(frameworks.values()))


def _written(decision: Decision, framework: Framework, world: World) -> dict[str, dict[str, Any]]:
    """node → claim → what PreBind would write, as the oracle has it."""
    plugin, found = framework.plugin("DynamicResources"), {}
    if not isinstance(plugin, DynamicResources):
        return {}
    cluster, pod = world.cluster, decision.pod
    for row in decision.feasible.tolist():
        reservation = plugin.reserve(pod, cluster, row)
        if reservation is None:
            continue
        documents = dict[str, Any]()
        for one in reservation.claims:
            if one.document is None:
                continue
            name, document = one.key[1], dict[str, Any](allocation=one.document)
            if one.extended is not None:
                name = f"({pod.name}{EXTENDED_SUFFIX})"
                document["requests"] = [
                    [each.name, each.exactly.device_class, each.exactly.count]
                    for each in one.extended.spec.requests
                    if each.exactly is not None
                ]
            documents[name] = document
            cluster.devices.restore(one.uid)
        if documents:
            found[cluster.nodes.names[row] or ""] = documents
    return found
