"""Answers vectors: one scheduling question as JSON in, kube-scheduler's own categories of answer out."""

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from podberth.explain.objects.documents import ObjectError
from podberth.explain.objects.world import World
from podberth.framework.config import decode, default_configuration
from podberth.framework.decision import Decision, fit_error
from podberth.framework.profiles import annotated, build
from podberth.framework.runtime import Framework
from podberth.model.devices import AllocatedDevice
from podberth.model.kinds import Decoder
from podberth.model.pod import Pod
from podberth.model.wire import encode
from podberth.plugins.dynamic_resources.plugin import DynamicResources
from podberth.plugins.registry import registry

known_plugins = cache(registry)
"""Looked up once: a case takes less time than a look through all installed packages."""


class Asked(NamedTuple):
    """A case that is ready to be decided."""

    framework: Framework
    world: World
    pod: Pod


def answer(case: Mapping[str, Any], parse_config: Any) -> dict[str, Any]:
    """Return the `got` of one case. `parse_config` turns the case's configuration text into a document.

    Raises ObjectError, ConfigError, PluginError.
    """
    framework, world, pod = asked(case, parse_config)
    nominate_stubs(world)
    return got(framework.decide(pod, world.cluster, score_always=True), framework, world)


def asked(case: Mapping[str, Any], parse_config: Any) -> Asked:
    """Return the profile, the cluster and the pod of one case.

    Raises ObjectError or ConfigError.
    """
    text, objects, incoming = (case.get(field) for field in ("config", "objects", "pod"))
    if not (isinstance(text, str | None) and isinstance(objects, list | None) and isinstance(incoming, dict)):
        raise ObjectError("case: expected {id, config: text, objects: a list, pod: an object}")
    config = decode(parse_config(text)) if text else default_configuration()
    frameworks = build(config, known_plugins())
    world = World(Decoder(annotated(frameworks)))
    world.add_all(each for each in objects or () if isinstance(each, dict))
    pod = world.decode({**incoming, "kind": "Pod"})
    if not isinstance(pod, Pod):
        raise ObjectError("pod: expected a Pod")
    return Asked(frameworks.get(pod.scheduler_name) or next(iter(frameworks.values())), world, pod)


def nominate_stubs(world: World) -> None:
    """Nominated pods as the vectors' oracle has them: nobody queued them, so only their identity is known.

    kube-scheduler keeps nominations by name and takes everything else from its queue (nominatedPodToInfo);
    a pod that is not there counts as one of priority 0 without labels and requests. `berth run` and
    `berth explain` know the pods themselves and count them whole.
    """
    nominations = world.cluster.nominations
    for pod in world.waiting.values():
        if pod.nominated_node_name:
            meta = {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid}
            nominations.put(world.decoder.pod(encode({"metadata": meta})), pod.nominated_node_name)


def got(decision: Decision, framework: Framework, world: World) -> dict[str, Any]:
    """Return a decision in the fields of a vector's `want`; absent parts are left out."""
    nodes = world.cluster.nodes
    names = [name or "" for name in nodes.names]
    out: dict[str, Any] = {"feasible": sorted(names[row] for row in decision.feasible)}
    if decision.verdict is not None:
        plugin, reason = decision.verdict
        out["preFilter"] = {"plugin": plugin, "code": reason.code, "reasons": [reason.text]}
    if decision.narrowed is not None:
        out["preFilterNodes"] = sorted(decision.narrowed)
    rejected = _rejected(decision, names)
    if rejected:
        out["filter"] = rejected
    if decision.totals is not None:
        feasible = [names[row] for row in decision.feasible]
        out["raw"] = {name: {} for name in feasible}
        out["weighted"] = {name: {} for name in feasible}
        for scores in decision.scores:
            for name, raw, weighted in zip(feasible, scores.raw.tolist(), scores.weighted.tolist(), strict=True):
                out["raw"][name][scores.plugin] = raw
                out["weighted"][name][scores.plugin] = weighted
        out["total"] = dict(zip(feasible, decision.totals.tolist(), strict=True))
        out["best"] = sorted(names[row] for row in decision.best())
    given = _allocations(decision, framework, world)
    if given:
        out["allocations"] = given
    if not len(decision.feasible):
        result = framework.post_filter_result(decision.pod, world.cluster, decision)
        out["message"] = fit_error(decision, result.text)
        if result.node:
            out["preemption"] = [
                {
                    "node": result.node,
                    "victims": sorted(victim.key for victim in result.victims if not victim.terminating),
                }
            ]
    return out


def _allocations(decision: Decision, framework: Framework, world: World) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Return node → claim → the devices that would be given there, sorted by request, pool and device."""
    plugin = framework.plugin("DynamicResources")
    out = {}
    if isinstance(plugin, DynamicResources):
        for row in decision.feasible.tolist():
            given = plugin.given(decision.pod, world.cluster, row)
            if given is not None:
                name = world.cluster.nodes.names[row] or ""
                out[name] = {
                    claim: [_device(one) for one in sorted(devices, key=_by_request)]
                    for claim, devices in given.items()
                }
    return out


def _by_request(device: AllocatedDevice) -> tuple[str, str, str]:
    return device.request, device.id.pool, device.id.device


def _device(device: AllocatedDevice) -> dict[str, Any]:
    driver, pool, name = device.id
    out: dict[str, Any] = {"request": device.request, "driver": driver, "pool": pool, "device": name}
    if device.admin_access:
        out["adminAccess"] = True
    if device.share is not None:
        out["shared"] = True
    if device.consumed:
        out["consumedCapacity"] = {key: str(amount) for key, amount in device.consumed.items()}
    return out


def _rejected(decision: Decision, names: list[str]) -> dict[str, dict[str, Any]]:
    """Return node → {plugin, code, reasons} of the first plugin that rejected it."""
    out: dict[str, dict[str, Any]] = {}
    for rejected in decision.rejected:
        for reason, where in rejected.reasons:
            for row in np.flatnonzero(where):
                entry = out.setdefault(names[row], {"plugin": rejected.plugin, "code": reason.code, "reasons": []})
                if reason.unresolvable:
                    entry["code"] = reason.code
                if reason.text not in entry["reasons"]:
                    entry["reasons"].append(reason.text)
    return out
