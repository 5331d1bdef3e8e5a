"""One namespace for each seed: its policies compiled and applied, its requests made, and what the evaluator says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from scheduler.policy import keys
from scheduler.policy.evaluate import Operation, evaluate
from scheduler.policy.native.compile import MOST_BYTES, Compiled, compile_namespace
from scheduler.policy.options import Options, UserInfo
from scheduler.policy.parse import parse
from scheduler.policy.powers import Reserved
from scheduler.policy.spec import Policies
from tests.controlplane import namespaces
from tests.controlplane.api import Api, Told
from tests.controlplane.wait import wait_for
from tests.native import generate

Object = dict[str, Any]
ROOT = "/apis/admissionregistration.k8s.io/v1"
PLURALS = {
    "MutatingAdmissionPolicy": "mutatingadmissionpolicies",
    "MutatingAdmissionPolicyBinding": "mutatingadmissionpolicybindings",
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}
PROBE = "probe.example.com/native"
ADMIN = UserInfo("admin", ("system:masters",))


class Expected(NamedTuple):
    """What the evaluator says: `denied` is "" for an object that is let in as `object`."""

    denied: str
    object: Object
    warnings: list[str]


class Town:
    """One seed's namespace on an API server."""

    def __init__(self, api: Api, seed: int) -> None:
        self.api, self.seed = api, seed
        self.name = namespaces.create(api, f"native-{seed}")
        documents = [*generate.policies(seed), _probe()]
        self.policies = Policies(parse(document) for document in documents)
        self.compiled: Compiled = compile_namespace(self.policies, self.name, "test", Reserved())
        stays = {one.policy for one in self.compiled.webhook}
        self.native = Policies(policy for policy in self.policies.policies if policy.name not in stays)
        self.requests = generate.requests(seed)

    def open(self) -> None:
        """Objects that are updated later come before the policies."""
        for number, (new, old) in enumerate(self.requests):
            if old is not None:
                made = self.api.tell("POST", self._path(old["kind"]), _named(old, f"o{number}"))
                if made.status == 422:  # what is no legal pod is tried as a new one
                    self.requests[number] = (new, None)
                else:
                    assert made.status == 201, made.body
        for one in self.compiled.objects:
            made = self.api.tell("POST", f"{ROOT}/{PLURALS[one['kind']]}", one)
            assert made.status == 201, made.body["message"]

    def wait(self) -> None:
        """Until both halves are in force."""
        pod = {"metadata": {"name": "probe"}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
        marked = {"metadata": {"name": "probe", "labels": {PROBE: "yes"}}}

        def works() -> bool | None:
            stamped = self.api.tell("POST", self._path("Pod"), pod, dryRun="All")
            annotations = stamped.body["metadata"].get("annotations") or {}
            told = self.api.tell("POST", self._path("ConfigMap"), marked, dryRun="All")
            judged = told.status == 403 or any(PROBE in one for one in told.warnings)
            return judged and (stamped.status == 403 or keys.QOS in annotations)

        wait_for(f"the policies of seed {self.seed} to be in force", works, 60)

    def differences(self) -> Iterator[str]:
        """What the API server says otherwise than the evaluator; a line for each."""
        for number, (new, old) in enumerate(self.requests):
            named = _named(new, f"o{number}")
            if old is None:
                operation: Operation = "CREATE"
                told = self.api.tell("POST", self._path(new["kind"]), named, dryRun="All")
                before = None
            else:
                operation = "UPDATE"
                before = self.api.get(f"{self._path(new['kind'])}/o{number}")
                named = {**before, "metadata": {**before["metadata"], **_replaced(named["metadata"])}}
                told = self.api.tell("PUT", f"{self._path(new['kind'])}/o{number}", named, dryRun="All")
            wanted = self._expected(operation, {**named, "apiVersion": "v1", "kind": new["kind"]}, before, new["kind"])
            wrong = _difference(told, wanted)
            if wrong:
                yield f"seed {self.seed} request {number} ({operation} {new['kind']}): {wrong}"

    def close(self) -> None:
        """Take everything away."""
        for one in self.compiled.objects:
            self.api.delete(f"{ROOT}/{PLURALS[one['kind']]}/{one['metadata']['name']}")
        namespaces.remove(self.api, self.name, by_hand=True)

    def _path(self, kind: str) -> str:
        return f"/api/v1/namespaces/{self.name}/{'pods' if kind == 'Pod' else 'configmaps'}"

    def _expected(self, operation: Operation, new: Object, old: Object | None, kind: str) -> Expected:
        if old is not None:
            old = {**old, "apiVersion": "v1", "kind": kind}
        options = Options(namespace=self.name, user_info=ADMIN)
        first = evaluate(self.native, operation, new, old, options)
        if not first.allowed:
            return Expected(first.message, new, [])
        if first.exempt is not None:
            return Expected("", new, [])
        stored: Object = first.object or {}
        stored = {**stored, "metadata": _without_verdict(stored["metadata"])}
        second = evaluate(self.native, operation, stored, old, msgspec.structs.replace(options, pass_="validate"))
        return Expected("" if second.allowed else second.message, stored, second.warnings)


def _difference(told: Told, wanted: Expected) -> str:
    if told.status == 422:  # before policies are asked
        return ""
    if wanted.denied:
        if told.status != 403:
            return f"let in, expected: {wanted.denied[:200]}"
        said = told.body["message"].partition(" denied request: ")[2]
        line = " ".join(wanted.denied.split("\n"))
        if len(line.encode()) > MOST_BYTES and said.endswith("..."):
            line = line[: len(said) - 3] + "..."
        return "" if said == line.strip() else f"message {said[:200]!r}, expected {line[:200]!r}"
    if told.status >= 300:
        return f"refused: {told.body['message'][:300]}"
    for field in ("labels", "annotations"):
        got = told.body["metadata"].get(field) or {}
        want = wanted.object["metadata"].get(field) or {}
        if got != want:
            return f"{field} {got}, expected {want}"
    scheduler = (wanted.object.get("spec") or {}).get("schedulerName", "default-scheduler")
    if wanted.object["kind"] == "Pod" and told.body["spec"]["schedulerName"] != scheduler:
        return f"schedulerName {told.body['spec']['schedulerName']}, expected {scheduler}"
    ours = [one for one in told.warnings if one.startswith("Validation failed for ")]
    got_said = sorted(one.partition("binding '")[2].partition("': ")[2] for one in ours)
    want_said = sorted(one for one in wanted.warnings if " would write " in one or one.startswith("would be rejected"))
    return "" if got_said == want_said else f"warnings {got_said}, expected {want_said}"


def _named(obj: Object, name: str) -> Object:
    return {**obj, "metadata": {**obj["metadata"], "name": name}}


def _replaced(meta: Object) -> Object:
    return {"labels": meta.get("labels") or {}, "annotations": meta.get("annotations") or {}}


def _without_verdict(meta: Object) -> Object:
    annotations = dict(meta.get("annotations") or {})
    annotations.pop(keys.VERDICT, None)
    return {**meta, "annotations": annotations}


def _probe() -> Object:
    """A rule by which one sees that policies are in force; it stands alone, so that it never needs the webhook."""
    predicate = {"labelSelector": {"matchExpressions": [{"key": PROBE, "operator": "Exists"}]}}
    rules = [{"policyPredicate": predicate, "policyAction": {"reject": True}}]
    return {
        "apiVersion": "podberth.dev/v1alpha1",
        "kind": "MetadataPolicy",
        "metadata": {"name": "probe"},
        "spec": {"mode": "warn", "rules": rules},
    }
