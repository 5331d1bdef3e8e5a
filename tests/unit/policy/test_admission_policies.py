"""The API server's own admission policies, evaluated here: they say what the evaluator says of the same requests.

`podberth.cel` evaluates their expressions in place of the API server, so that a mistake in them is seen in a second.
That they compile there, and what they cost, is asked of the real one (`tests/integration/test_native_policies.py`).
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from podberth.apiserver.rules.patch import json_patch
from podberth.cel.errors import METER, EvaluationError
from podberth.cel.parser import parsed
from podberth.cel.planner import Frame, planned
from podberth.cel.resolver import resolve
from podberth.cel.values import Map
from podberth.policy.evaluate import MOST_WARNINGS, Operation
from podberth.policy.keys import RESERVED
from podberth.policy.native.admission_policies import admission_policies, name_of
from podberth.policy.native.policy_set import TELLS_LABEL, Source, policy_set
from podberth.policy.native.requests import SEEN_NAME
from podberth.policy.parse import parse
from podberth.policy.spec import Mode, Policies
from tests.controlplane.api import Told
from tests.native import generate, judge
from tests.unit.policy.build import config_map, policy, rule

Object = dict[str, Any]

KNOWN = re.compile(r"\b(object|oldObject|params|request|variables)\.")
ADD = re.compile(r'JSONPatch\{op: "add", path: ([^,]*), value: (\{[^}]*\}|[^{}]*)\}')
REMOVE = re.compile(r'JSONPatch\{op: "remove", path: ([^}]*)\}')
NAMESPACE = "shop"
SEEDS = (3, 6, 19, 20, 22, 27, 34)
"""Sets of which many rules ask whether an annotation exists: few of the others do."""


class Cel:
    """An expression of an admission policy. What it reads is below the one variable that `podberth.cel` knows."""

    def __init__(self, expression: str) -> None:
        told = ADD.sub(r'{"op": dyn("add"), "path": dyn(\1), "value": dyn(\2)}', expression)
        told = REMOVE.sub(r'{"op": dyn("remove"), "path": dyn(\1)}', told)
        root = parsed(KNOWN.sub(r"dyn(device).\1.", told))
        assert resolve(root) == []
        METER.begin()
        self._code, self._slots, _ = planned(root)

    def of(self, known: Object) -> Any:
        """Its value. Raises EvaluationError."""
        METER.begin()
        return _plain(self._code(Frame(_value(known), self._slots)))


class Admission:
    """An admission policy as the API server asks it."""

    def __init__(self, spec: Object) -> None:
        self._conditions = [Cel(one["expression"]) for one in spec["matchConditions"]]
        self._variables = {one["name"]: Cel(one["expression"]) for one in spec["variables"]}
        self._validations = [
            (Cel(one["expression"]), Cel(one["messageExpression"])) for one in spec.get("validations", ())
        ]
        self._audits = [Cel(one["valueExpression"]) for one in spec.get("auditAnnotations", ())]
        self._mutations = [Cel(one["jsonPatch"]["expression"]) for one in spec.get("mutations", ())]

    def mutated(self, known: Object) -> Object:
        """The object with its patch."""
        found: Object = known["object"]
        for mutation in self._mutations if self._concerns(known) else ():
            found = json_patch(found, mutation.of(self._with_variables(known)))
        return found

    def messages(self, known: Object) -> list[str]:
        """What the validations that fail say."""
        if not self._concerns(known):
            return []
        known = self._with_variables(known)
        return [message.of(known) for valid, message in self._validations if valid.of(known) is not True]

    def audited(self, known: Object) -> list[str]:
        """What its audit annotations say."""
        if not self._concerns(known):
            return []
        known = self._with_variables(known)
        return [said for annotation in self._audits if (said := annotation.of(known))]

    def _concerns(self, known: Object) -> bool:
        return all(condition.of(known) for condition in self._conditions)

    def _with_variables(self, known: Object) -> Object:
        """With each variable that has a value: one without fails whoever reads it."""
        found: Object = {}
        for name, variable in self._variables.items():
            try:
                found[name] = variable.of({**known, "variables": found})
            except EvaluationError:
                continue
        return {**known, "variables": found}


def _value(value: Any) -> Any:
    if isinstance(value, dict):
        return Map({key: _value(one) for key, one in value.items()})
    return [_value(one) for one in value] if isinstance(value, list) else value


def _plain(value: Any) -> Any:
    if hasattr(value, "items"):
        return {key: _plain(one) for key, one in value.items.items()}
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value


@pytest.mark.parametrize("seed", SEEDS)
def test_they_say_what_the_evaluator_says(seed: int) -> None:
    """Of generated requests: whether they are let in and why not, what is written, and what mode warn says. Of every
    second set, pods are stamped only where they bring the annotation along.
    """
    stamp = seed % 2 == 0
    specs = {
        one["metadata"]["name"]: one["spec"]
        for one in admission_policies("berth", "operator", stamp=stamp)
        if one["kind"] == "ValidatingAdmissionPolicy"
    }
    validating, telling = Admission(specs[name_of("berth")]), Admission(specs[name_of("berth", tells=True)])
    *_, mutates, _ = admission_policies("berth", "operator", stamp=stamp)
    mutating = Admission(mutates["spec"])
    policies = Policies(parse(one) for one in generate.policies(seed))
    params = policy_set([Source(one, "", 1) for one in policies.policies], NAMESPACE, "berth", RESERVED).document
    assert params is not None
    tells = TELLS_LABEL in params["metadata"]["labels"]
    for new, old in generate.requests(seed):
        operation: Operation = "CREATE" if old is None else "UPDATE"
        request = {
            "kind": {"group": "", "kind": new["kind"]},
            "resource": {"resource": f"{new['kind'].lower()}s", "group": ""},
            "operation": operation,
            "userInfo": {"username": judge.ADMIN.username, "groups": [*judge.ADMIN.groups]},
            "name": new["metadata"]["name"],
        }
        known = {"params": params, "request": request, "object": new, "oldObject": old}
        known["object"] = stored = _with_defaults(mutating.mutated(known))
        refused = validating.messages(known)
        if refused:
            told = Told(403, {"message": f" denied request: {refused[0]}"}, [])
        else:
            said = telling.messages(known) if tells else []
            told = Told(201, stored, [f"Validation failed for policy with binding 'warn': {one}" for one in said])
        wanted = judge.expected(policies, NAMESPACE, operation, new, old, forged=False, stamp=stamp)
        assert judge.of_policies(told, wanted) == "", (new, old)


@pytest.mark.parametrize("more", [0, 1])
def test_so_many_warnings_are_sent(more: int) -> None:
    """The last one of too many counts those that are not."""
    said = _told("warn", [str(number) for number in range(MOST_WARNINGS + more)])
    assert len(said) == MOST_WARNINGS
    last = "and 2 more warnings about metadata policies" if more else said[0].replace(": 0", f": {MOST_WARNINGS - 1}")
    assert said[-1].replace(f"rules[{MOST_WARNINGS - 1}]", "rules[0]") == last


def test_what_is_audited() -> None:
    """Mode observe tells the audit log alone, and mode warn the requester alone."""
    telling, known = _asked("observe", ["no"] * 3)
    assert telling.audited(known) == ["p/rules[0]:reject,p/rules[1]:reject,p/rules[2]:reject"]
    assert telling.messages(known) == []
    telling, known = _asked("warn", ["no"])
    assert telling.audited(known) == []


@pytest.mark.parametrize("mode", ["warn", "observe"])
def test_the_dry_run_is_answered_by_what_tells(mode: Mode) -> None:
    telling, known = _asked(mode, ["no"])
    version = known["params"]["metadata"]["annotations"]["podberth.dev/version"]
    assert version not in telling.messages(known)
    asked = {**known["request"], "name": SEEN_NAME, "dryRun": True}
    assert version in telling.messages({**known, "request": asked})


@pytest.mark.parametrize("stamp", [True, False])
def test_a_pod_that_no_rule_concerns_is_looked_at_where_pods_are_stamped(stamp: bool) -> None:
    """All others are spared the cost of it."""
    *_, mutates, _ = admission_policies("berth", "operator", stamp=stamp)
    _, known = _asked("enforce", ["no"])
    of_others = parse(policy("p", rule(reject=True, kinds=["ConfigMap"])))
    plain = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": []}}
    request = {**known["request"], "kind": {"group": "", "kind": "Pod"}, "resource": {"resource": "pods", "group": ""}}
    params = policy_set([Source(of_others, "", 1)], NAMESPACE, "berth", RESERVED).document
    known = {**known, "params": params, "request": request, "object": plain}
    (concerned,) = mutates["spec"]["matchConditions"]
    assert Cel(concerned["expression"]).of(known) is stamp


def _told(mode: Mode, messages: list[str]) -> list[str]:
    """What is said of an object that so many rules would reject."""
    telling, known = _asked(mode, messages)
    return telling.messages(known)


def _asked(mode: Mode, messages: list[str]) -> tuple[Admission, Object]:
    """The policy that tells, and a request for an object that so many rules would reject."""
    document = parse(policy("p", *(rule(reject=True, message=one) for one in messages), mode=mode))
    specs = {
        one["metadata"]["name"]: one["spec"]
        for one in admission_policies("berth", "operator")
        if "variables" in one["spec"]
    }
    request = {
        "kind": {"group": "", "kind": "ConfigMap"},
        "resource": {"resource": "configmaps", "group": ""},
        "operation": "CREATE",
        "userInfo": {"username": "admin"},
    }
    params = policy_set([Source(document, "", 1)], NAMESPACE, "berth", RESERVED).document
    known = {"params": params, "request": request, "object": config_map(), "oldObject": None}
    return Admission(specs[name_of("berth", tells=True)]), known


def _with_defaults(stored: Object) -> Object:
    """The object as the API server hands it on."""
    if stored["kind"] != "Pod":
        return stored
    return {**stored, "spec": {"schedulerName": "default-scheduler", **stored["spec"]}}
