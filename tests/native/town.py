"""One set of policies in force in two namespaces of an API server: in one by itself, in the other by the webhook."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from podberth.policy import keys
from podberth.policy.evaluate import Operation
from podberth.policy.keys import Reserved
from podberth.policy.native.admission_policies import admission_policies
from podberth.policy.native.policy_set import Source, policy_set
from podberth.policy.parse import parse
from podberth.policy.spec import Policies
from tests.controlplane import namespaces
from tests.controlplane.api import Api, Told
from tests.controlplane.cluster import ADMIN
from tests.controlplane.wait import wait_for
from tests.integration.admission import POLICIES, Policed
from tests.native import judge
from tests.native.questions import COLLECTIONS, Asked, Request

Object = dict[str, Any]
ROOT = "/apis/admissionregistration.k8s.io/v1"
PLURALS = {
    "MutatingAdmissionPolicy": "mutatingadmissionpolicies",
    "MutatingAdmissionPolicyBinding": "mutatingadmissionpolicybindings",
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}
SETS = "/api/v1/namespaces/{}/limitranges"
PROBE = "probe.example.com/native"
RELEASE = "test"


def enforce_natively(api: Api, *, stamp: bool = True, release: str = RELEASE) -> None:
    """Write the admission policies of a release; the administrator is its operator."""
    for one in admission_policies(release, ADMIN, stamp=stamp):
        api.create(f"{ROOT}/{PLURALS[one['kind']]}", one)


def native_name(asked: Asked) -> str:
    """The namespace in which the API server enforces by itself, which the webhook has to leave out."""
    return f"native-{asked.name}"


class Answer(NamedTuple):
    """What was sent, and what came back."""

    operation: Operation
    new: Object
    old: Object | None
    told: Told


class Town:
    """The two namespaces of one set. Policies that the API server can't enforce by itself are in neither."""

    def __init__(self, policed: Policed, asked: Asked, stamp: bool = True) -> None:
        self.api: Api = policed.api
        self._asked = asked
        self._stamp = stamp
        self.native = native_name(asked)
        self.webhook = f"webhook-{asked.name}"
        documents = [*asked.policies, _probe()]
        given = Policies(map(parse, documents))
        sources = [Source(one, f"uid-{one.name}", 1) for one in given.policies]
        made = policy_set(sources, self.native, RELEASE, Reserved())
        assert made.document is not None
        self.stays = set(made.left)
        self._documents = [one for one in documents if one["metadata"]["name"] not in self.stays]
        self._policies = Policies(map(parse, self._documents))
        self._set = made.document
        self.requests: list[Request] = [*asked.requests]

    def open(self) -> None:
        """Objects that are updated later come before the policies."""
        for name in (self.native, self.webhook):
            self.api.create("/api/v1/namespaces", {"metadata": {"name": name}})
        for number, (new, old) in enumerate(self.requests):
            if old is not None and not self._make(number, old):
                self.requests[number] = (new, None)  # what is no legal object is tried as a new one
        self.api.create(SETS.format(self.native), self._set)
        for one in self._documents:
            # A namespace that a case names is the one that it would be in.
            self.api.create(POLICIES.format(self.webhook), {**one, "metadata": {"name": one["metadata"]["name"]}})

    def _make(self, number: int, old: Object) -> bool:
        """Store what is updated later, the same in both; False when it is not legal.

        The webhook stamps pods of all namespaces, and translates the scheduler's annotation. The one is taken away by
        an update of the status, about which nobody is asked, and the other is given to both.
        """
        named = _named(old, number)
        webhook = self.api.tell("POST", _path(self.webhook, old), named)
        if webhook.status == judge.INVALID:
            return False
        assert webhook.status == 201, webhook.body
        if old["kind"] == "Pod":
            named = {**named, "spec": {**named["spec"], "schedulerName": webhook.body["spec"]["schedulerName"]}}
        native = self.api.create(_path(self.native, old), named)
        if old["kind"] == "Pod":
            bare = {**webhook.body["metadata"], **_replaced(native["metadata"])}
            self.api.replace(f"{_path(self.webhook, old)}/{bare['name']}/status", {**webhook.body, "metadata": bare})
        return True

    def wait(self) -> None:
        """Until both ways are in force."""
        forged = {"name": "probe", "annotations": {keys.QOS: "Guaranteed"}}
        pod = {"kind": "Pod", "metadata": forged, "spec": {"containers": [{"name": "c", "image": "x"}]}}
        marked = {"kind": "ConfigMap", "metadata": {"name": "probe", "labels": {PROBE: "yes"}}}

        def works(name: str) -> bool:
            stamped = self.api.tell("POST", _path(name, pod), pod, dryRun="All")
            if stamped.status == 403:
                mutated = "the class of this pod is" not in stamped.body["message"]
            else:
                mutated = stamped.body["metadata"]["annotations"][keys.QOS] == "BestEffort"
            told = self.api.tell("POST", _path(name, marked), marked, dryRun="All")
            return mutated and (told.status == 403 or any("probe" in one for one in told.warnings))

        for name in (self.native, self.webhook):
            wait_for(f"the policies of {name} to be in force", lambda name=name: works(name), 60)  # type: ignore[misc]

    def differences(self) -> Iterator[str]:
        """A line for each way that answers a request otherwise than the evaluator, or than the other way."""
        for number in range(len(self.requests)):
            native, webhook = self._ask(self.native, number), self._ask(self.webhook, number)
            wrong = {
                "native": judge.of_policies(native.told, self._expected(self.native, native, forged=False)),
                "webhook": judge.of_webhook(webhook.told, self._expected(self.webhook, webhook, forged=True)),
                "both": judge.between(native.told, webhook.told),
            }
            for way, said in wrong.items():
                if said:
                    kind = native.new["kind"]
                    yield f"{self._asked.name} request {number} ({native.operation} {kind}), {way}: {said}"

    def _ask(self, name: str, number: int) -> Answer:
        new, old = self.requests[number]
        named, kind = _named(new, number), new["kind"]
        typed = {"apiVersion": new["apiVersion"], "kind": kind}
        path = _path(name, new)
        if old is None:
            return Answer("CREATE", named, None, self.api.tell("POST", path, named, dryRun="All"))
        path += f"/{named['metadata']['name']}"
        before = self.api.get(path)
        named = {**before, **typed, "metadata": {**before["metadata"], **_replaced(named["metadata"])}}
        return Answer("UPDATE", named, {**before, **typed}, self.api.tell("PUT", path, named, dryRun="All"))

    def _expected(self, name: str, answer: Answer, *, forged: bool) -> judge.Expected:
        return judge.expected(
            self._policies, name, answer.operation, answer.new, answer.old, forged=forged, stamp=self._stamp
        )

    def close(self) -> None:
        """Take everything away."""
        for name in (self.native, self.webhook):
            namespaces.remove(self.api, name, by_hand=True)

    def run(self) -> list[str]:
        """Wait, ask everything, and take everything away: the differences."""
        self.wait()
        found = list(self.differences())
        self.close()
        return found


def _path(namespace: str, obj: Object) -> str:
    root, plural = COLLECTIONS[obj["kind"]]
    return f"{root}/namespaces/{namespace}/{plural}"


def _named(obj: Object, number: int) -> Object:
    meta = {key: value for key, value in obj["metadata"].items() if key != "namespace"}
    return {**obj, "metadata": {**meta, "name": f"o{number}"}}


def _replaced(meta: Object) -> Object:
    return {"labels": meta.get("labels") or {}, "annotations": meta.get("annotations") or {}}


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
