"""Remedies carried out on plain API objects, by code of its own: what `podberth.explain.trial` does, done anew."""

from copy import deepcopy
from typing import Any

import msgspec

from podberth.explain import changes
from podberth.explain.changes import Change
from podberth.model import wire
from podberth.model.selectors import parse_node_selector_term
from podberth.model.terms import parse_affinity_term
from tests.builders import REQUIRED

Object = dict[str, Any]


def carried_out(plan: list[Change], incoming: Object, objects: list[Object]) -> tuple[Object, list[Object]]:
    """The pod and the objects after a plan."""
    incoming, objects = deepcopy(incoming), deepcopy(objects)
    for change in plan:
        _carry_out(change, incoming, objects)
    return incoming, objects


def _carry_out(change: Change, incoming: Object, objects: list[Object]) -> None:
    spec = incoming["spec"]
    nodes = {each["metadata"]["name"]: each for each in objects if each["kind"] == "Node"}
    match change:
        case changes.Request(requests):
            [container] = spec["containers"]
            for name, amount in requests.items():
                container["resources"]["requests"][name] = f"{amount}m" if name == "cpu" else str(amount)
        case changes.Tolerate(key, value, effect):
            spec.setdefault("tolerations", []).append({"key": key, "value": value, "effect": effect})
        case changes.DropNodeSelector(key):
            del spec["nodeSelector"][key]
        case changes.RespellNodeSelector(key, _, meant_key, meant_value):
            del spec["nodeSelector"][key]
            spec["nodeSelector"][meant_key] = meant_value
        case changes.DropRequirement(term, requirement):
            _drop_requirement(spec["affinity"]["nodeAffinity"], term, requirement)
        case changes.DropPodTerm(anti, text):
            affinity = spec["affinity"]["podAntiAffinity" if anti else "podAffinity"]
            namespace = incoming["metadata"]["namespace"]
            affinity[REQUIRED] = [term for term in affinity[REQUIRED] if _said(term, namespace) != text]
        case changes.HonorPolicy(key, policy):
            for constraint in spec["topologySpreadConstraints"]:
                if constraint["topologyKey"] == key:
                    constraint[policy] = "Honor"
        case changes.SoftenSpread(key):
            for constraint in spec["topologySpreadConstraints"]:
                if constraint["topologyKey"] == key:
                    constraint["whenUnsatisfiable"] = "ScheduleAnyway"
        case changes.RaiseMaxSkew(key, skew):
            for constraint in spec["topologySpreadConstraints"]:
                if constraint["topologyKey"] == key:
                    constraint["maxSkew"] = max(constraint["maxSkew"], skew)
        case changes.DropHostPort(_, protocol, port):
            for container in spec["containers"]:
                container["ports"] = [
                    p for p in container["ports"] if (p["protocol"], p["hostPort"]) != (protocol, port)
                ]
        case changes.Ungate():
            del spec["schedulingGates"]
        case changes.Uncordon(node):
            nodes[node]["spec"].pop("unschedulable")
            _keep_taints(nodes[node], lambda taint: not taint["key"].endswith("/unschedulable"))
        case changes.RemoveTaint(node, text):
            _keep_taints(nodes[node], lambda taint: not text.startswith(taint["key"]))
        case changes.AwaitUntaint(node, key):
            _keep_taints(nodes[node], lambda taint: taint["key"] != key)
        case changes.Label(node, key, value):
            nodes[node]["metadata"]["labels"][key] = value
        case changes.FreeClaim(name) | changes.MovePod(name):
            objects[:] = [each for each in objects if each["kind"] != "Pod" or _key(each) != name]
        case changes.AddNode(like):
            clone = deepcopy(nodes[like])
            name = clone["metadata"]["name"] = f"{like}-more"
            clone["metadata"]["labels"] |= {"kubernetes.io/hostname": name, **change.but}
            clone["spec"].pop("unschedulable", None)
            _keep_taints(clone, lambda taint: not taint["key"].startswith("node.kubernetes.io/"))
            objects.append(clone)


def _key(made: Object) -> str:
    return f"{made['metadata']['namespace']}/{made['metadata']['name']}"


def _keep_taints(node: Object, keep: Any) -> None:
    node["spec"]["taints"] = [taint for taint in node["spec"].get("taints", []) if keep(taint)]


def _drop_requirement(affinity: Object, index: int, requirement: str) -> None:
    term = affinity[REQUIRED]["nodeSelectorTerms"][index]
    for field in ("matchExpressions", "matchFields"):
        term[field] = [
            each
            for each in term.get(field, [])
            if str(parse_node_selector_term(msgspec.convert({field: [each]}, wire.NodeSelectorTerm), "")) != requirement
        ]
    if not any(term.values()):
        del affinity[REQUIRED]


def _said(term: Object, namespace: str) -> str:
    return str(parse_affinity_term(msgspec.convert(term, wire.PodAffinityTerm), namespace, ""))
