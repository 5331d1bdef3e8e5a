"""Who enforces which policy, and what is written for that, against an API server that is a dict."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from podberth.kube.errors import ApiError
from podberth.kube.machine import Machine
from podberth.policy.bounds import MOST
from podberth.policy.native.likeness import same
from podberth.policy.operator import enforcer as module
from podberth.policy.operator import natives as natives_module
from podberth.policy.operator.enforcer import HANDOVER_SECONDS, Enforced, Enforcer
from podberth.policy.operator.judge import Stored, bounded, read
from podberth.policy.operator.natives import KINDS, PAUSE_SECONDS, Natives
from podberth.policy.operator.settings import Settings
from podberth.policy.operator.status import change
from podberth.policy.operator.ways import Enforce
from tests.unit.policy.build import has, needs, rule
from tests.unit.policy.operator.conftest import Clock, Object, stored_object

NOTE = stored_object("note", rule(set_annotations={"note": "a"}))
REFUSE = stored_object("refuse", rule(has(bad="yes"), reject=True))
LONG = needs("k", "In", *(f"{i}" * 8000 for i in range(8)))
"""More than an expression of the API server may hold."""
LABEL = stored_object("label", rule(annotations=LONG, set_labels={"team": "a"}))
ROOT = "/apis/admissionregistration.k8s.io/v1"
CONFIGURATION = "zz-berth-admission"


class Server:
    """Admission policies and webhook configurations; `log` has what was written, in order."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], Object] = {}
        self.log: list[tuple[str, str]] = []
        self.dry_runs = 0
        self.used: dict[str, str] = {}
        """The version that each half uses in truth, where that is not what is stored."""
        self.role: str | None = "uid-role"
        self.refuses = ""
        """What an object may not hold."""
        self.excluded: list[str] | None = []
        """Namespaces that the webhook is not asked about; None: there are no configurations."""
        self.further: list[Object] = []
        """More entries of the webhook configurations."""

    async def get(self, path: str, *, query: str = "") -> bytes:
        name = path.rpartition("/")[2]
        if name == "berth-operator":
            if self.role is None:
                raise ApiError(404, "NotFound")
            return json.dumps({"metadata": {"name": name, "uid": self.role}}).encode()
        assert name == CONFIGURATION, path
        if self.excluded is None:
            raise ApiError(404, "NotFound")
        named = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": self.excluded}
        judges = {"name": "judge.metadatapolicy.podberth.dev", "namespaceSelector": {"matchExpressions": [named]}}
        return json.dumps({"webhooks": [judges, *self.further]}).encode()

    async def request(
        self, verb: str, path: str, *, query: str = "", body: bytes = b"", content_type: str = ""
    ) -> bytes:
        assert verb == "PATCH"
        if path == "/api/v1/namespaces/team/configmaps/in-force.podberth.dev":
            assert "dryRun=All" in query
            self._judge()
        plural, _, name = path.removeprefix(f"{ROOT}/").partition("/")
        given = json.loads(body)
        if self.refuses and self.refuses in body.decode():
            raise ApiError(422, "Invalid", f"it holds {self.refuses}")
        if "dryRun" in query:
            self.dry_runs += 1
            return body
        before = self.objects.get((plural, name))
        meta = {**given["metadata"], "uid": f"uid-{name}", "generation": 1}
        if before is not None:
            meta["generation"] = before["metadata"]["generation"] + (before["spec"] != given["spec"])
        self.objects[plural, name] = {**given, "metadata": meta}
        self.log.append(("apply", given["kind"]))
        return json.dumps(self.objects[plural, name]).encode()

    def _judge(self) -> None:
        """Refuse the dry run as the stored policies do, with the versions of both halves."""
        stored = {one["kind"]: one["spec"]["variables"] for one in self.objects.values() if "variables" in one["spec"]}
        said = []
        for kind in ("MutatingAdmissionPolicy", "ValidatingAdmissionPolicy"):
            version = next(one["expression"].strip('"') for one in stored[kind] if one["name"] == "version")
            said.append(self.used.get(kind, version))
        raise ApiError(403, "Forbidden", f"denied request: {' '.join(said)}")

    async def delete(self, path: str, body: bytes | None = None) -> bytes:
        plural, _, name = path.removeprefix(f"{ROOT}/").partition("/")
        gone = self.objects.pop((plural, name))
        self.log.append(("delete", gone["kind"]))
        return b"{}"


class Town:
    """A namespace with policies, whose statuses are kept as the reconciler would."""

    def __init__(self, *documents: Object, webhook: str = CONFIGURATION, owner: str = "") -> None:
        self.clock = Clock()
        self.server = Server()
        self.documents = {one["metadata"]["name"]: json.loads(json.dumps(one)) for one in documents}
        client: Any = self.server
        self.natives = Natives(client, "berth", lambda _: None, Machine(monotonic=self.clock))
        self.natives.learned("")
        self._settings = Settings("berth", webhook=webhook, owner=owner)
        self.choose("auto")

    def choose(self, enforcement: Enforce) -> None:
        """Start the operator again with this value of the switch."""
        client: Any = self.server
        settings = dataclasses.replace(self._settings, enforcement=enforcement)
        self.enforcer = Enforcer(client, settings, self.natives, lambda: True, wall=self.clock, monotonic=self.clock)

    @property
    def stored(self) -> list[Stored]:
        return bounded(read(document) for document in self.documents.values())

    async def look(self) -> Enforced:
        """One look; the statuses say afterwards what it found."""
        found = await self.enforcer.enforce("team", self.stored)
        assert found is not None
        for one in self.stored:
            now = f"{datetime.fromtimestamp(int(self.clock.now), UTC):%Y-%m-%dT%H:%M:%SZ}"
            written = change(one, (), None, now, found.ways[one.name])
            if written is not None:
                self.documents[one.name].setdefault("status", {}).update(written.status)
        return found

    async def settle(self) -> Enforced:
        """Look again each time that a look asks for it."""
        for _ in range(20):
            found = await self.look()
            if not found.again:
                return found
            self.clock.now += found.again
        raise AssertionError("never settles")

    def edit(self, name: str, document: Object) -> None:
        """Give a policy another spec."""
        self.documents[name]["spec"] = document["spec"]
        self.documents[name]["metadata"]["generation"] += 1

    def ways(self) -> dict[str, str]:
        return {name: one["status"]["enforcement"]["way"] for name, one in self.documents.items()}

    def kinds(self) -> set[str]:
        return {one["kind"] for one in self.server.objects.values()}


async def test_the_refusing_half_comes_first_and_goes_last() -> None:
    """Without it, the reasons for a refusal would be stored: each half waits until the other is in force."""
    town = Town(NOTE)
    first = await town.look()
    validating = [("apply", kind) for kind in KINDS if kind.startswith("Validating")]
    assert town.server.log == validating
    assert first.again == PAUSE_SECONDS
    await town.settle()
    assert town.server.log == [("apply", kind) for kind in KINDS]
    assert town.ways() == {"note": "Native"}
    town.documents.clear()
    town.server.log.clear()
    assert (await town.look()).again > 0
    assert town.kinds() == {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
    await town.settle()
    assert town.server.log == [("delete", kind) for kind in reversed(KINDS)]


async def test_a_look_that_finds_all_as_it_was_writes_nothing() -> None:
    town = Town(NOTE, REFUSE)
    await town.settle()
    town.server.log.clear()
    found = await town.look()
    assert (town.server.log, found.writes, found.size) == ([], 0, 0)


async def test_the_webhook_judges_until_the_objects_are_in_force() -> None:
    town = Town(NOTE)
    found = await town.look()
    assert (found.ways["note"].way, found.ways["note"].reason) == ("Webhook", "Starting")
    town = Town(NOTE, webhook="")
    assert (await town.look()).ways["note"].way == "None"


@pytest.mark.parametrize("half", ["MutatingAdmissionPolicy", "ValidatingAdmissionPolicy"])
async def test_in_force_is_seen_in_force(half: str) -> None:
    """However long the API server takes for either half: the webhook judges until then, and at last it is said why."""
    town = Town(NOTE)
    town.server.used = {half: "none"}
    start = town.clock.now
    while town.clock.now < start + module.UNSEEN_SECONDS + 2 * PAUSE_SECONDS:
        found = await town.look()
        assert (found.ways["note"].way, found.ways["note"].reason) == ("Webhook", "Starting")
        assert found.again
        town.clock.now += found.again
    assert "a dry run does not show" in (await town.look()).ways["note"].message
    town.server.used = {}
    await town.settle()
    assert town.ways() == {"note": "Native"}


async def test_an_edited_policy_is_the_older_one_until_the_new_one_is_seen() -> None:
    town = Town(NOTE, REFUSE)
    await town.settle()
    town.server.used = {"MutatingAdmissionPolicy": "older"}
    town.edit("note", stored_object("note", rule(set_annotations={"note": "b"})))
    for _ in range(3):
        town.clock.now += (await town.look()).again
    held = {name: one["status"]["enforcement"] for name, one in town.documents.items()}
    assert {name: one["generation"] for name, one in held.items()} == {"note": 1, "refuse": 1}
    assert {one["way"] for one in held.values()} == {"Native"}
    town.server.used = {}
    await town.settle()
    assert town.documents["note"]["status"]["enforcement"]["generation"] == 2


async def test_policies_leave_only_when_the_webhook_has_them() -> None:
    """The statuses say so at once; the objects stay until the webhook is asked about the namespace for long enough."""
    town = Town(NOTE, REFUSE)
    town.server.further = [{"name": "new.podberth.dev", "namespaceSelector": {"matchLabels": {"some": "label"}}}]
    await town.settle()
    town.server.excluded = ["team"]
    town.server.log.clear()
    town.choose("webhook")
    await town.look()
    assert town.ways() == {"note": "Webhook", "refuse": "Webhook"}
    for _ in range(10):  # the webhook is not asked about the namespace: nothing may go
        town.clock.now += (await town.look()).again
        assert town.server.log == []
    town.server.excluded = []
    asked = town.clock.now
    while not town.server.log:
        town.clock.now += (await town.look()).again
    assert town.clock.now - asked >= HANDOVER_SECONDS


async def test_what_costs_too_much_is_nobodys() -> None:
    """There is one way of enforcement for a release: the webhook does not take over what the API server can't."""
    town = Town(NOTE, REFUSE)
    await town.settle()
    town.edit("note", LABEL)
    found = await town.settle()
    assert town.ways() == {"note": "None", "refuse": "Native"}
    assert found.ways["note"].condition.is_problem
    assert "too long" in found.ways["note"].message
    assert town.natives.policies("team") == {"refuse"}


async def test_switched_to_the_webhook_and_back() -> None:
    town = Town(NOTE)
    await town.settle()
    town.choose("webhook")
    await town.settle()
    assert (town.ways(), town.kinds()) == ({"note": "Webhook"}, set())
    town.choose("native")
    await town.settle()
    assert town.ways() == {"note": "Native"}


async def test_who_is_refused_goes_alone() -> None:
    """The API server refuses what one policy is in CEL: that one is nobody's, the other is in force."""
    town = Town(NOTE, stored_object("odd", rule(set_annotations={"other": "forbidden word"})))
    town.server.refuses = "forbidden word"
    found = await town.settle()
    assert town.ways() == {"note": "Native", "odd": "None"}
    assert found.ways["odd"].reason == "Refused"
    assert "it holds forbidden word" in found.ways["odd"].message
    assert found.ways["odd"].condition.is_problem
    asked = town.server.dry_runs
    await town.settle()
    assert town.server.dry_runs == asked


async def test_none_alone_is_refused() -> None:
    """Where it is all of them together, none is enforced."""
    town = Town(NOTE, REFUSE)
    town.server.refuses = "note refuse"  # the annotation that names the policies of an object
    await town.settle()
    assert set(town.ways().values()) == {"None"}
    assert not town.server.objects


async def test_an_owner_that_is_gone() -> None:
    """Objects are written without one, and what is owned already stays so."""
    town = Town(NOTE, owner="berth-operator")
    await town.settle()
    assert {one["metadata"]["ownerReferences"][0]["uid"] for one in town.server.objects.values()} == {"uid-role"}
    town.server.role = None
    town.clock.now += module.OWNER_SECONDS
    town.server.log.clear()
    await town.settle()
    assert town.server.log == []
    town = Town(NOTE, owner="berth-operator")
    town.server.role = None
    await town.settle()
    assert town.ways() == {"note": "Native"}


class Asked:
    """An API server that says this of its kinds."""

    def __init__(self, *answers: bytes | Exception) -> None:
        self.answers = [*answers]

    async def get(self, path: str, *, query: str = "") -> bytes:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (ApiError(404, "NotFound"), "the API server has no admissionregistration.k8s.io/v1"),
        (ApiError(403, "Forbidden", "no"), "the operator may not list admission policies: 403 Forbidden: no"),
        (
            b'{"resources": [{"name": "validatingadmissionpolicies"}]}',
            "the API server has no mutatingadmissionpolicies,",
        ),
    ],
)
async def test_a_cluster_without_these_kinds(answer: bytes | Exception, said: str) -> None:
    """It is known at once, policies are the webhook's, and each says why."""
    client: Any = Asked(answer)
    natives = Natives(client, "berth", lambda _: None)
    running = asyncio.create_task(natives.run())
    await natives.known()
    running.cancel()
    await asyncio.wait((running,))
    assert natives.missing.startswith(said)
    town = Town(NOTE)
    town.natives.missing = natives.missing
    found = await town.look()
    assert (found.ways["note"].way, found.ways["note"].reason) == ("Webhook", "KindsMissing")
    assert said in found.ways["note"].message


async def test_no_answer_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """An API server that is starting says nothing about its kinds: nobody concludes from that."""
    monkeypatch.setattr(natives_module, "RETRY_SECONDS", 0.0)
    client: Any = Asked(ApiError(503, "Unavailable"), b"<html>", ApiError(404, "NotFound"))
    natives = Natives(client, "berth", lambda _: None)
    running = asyncio.create_task(natives.run())
    await natives.known()
    running.cancel()
    await asyncio.wait((running,))
    assert client.answers == [client.answers[-1]]
    assert natives.missing == "the API server has no admissionregistration.k8s.io/v1"


async def test_too_many_namespaces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_NAMESPACES", 0)
    town = Town(NOTE)
    found = await town.settle()
    assert (found.ways["note"].way, found.ways["note"].reason) == ("Webhook", "TooManyNamespaces")
    assert not town.server.objects


async def test_namespaces_that_come_at_once_share_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two that are looked at side by side do not both take the last place."""
    monkeypatch.setattr(module, "MOST_NAMESPACES", 1)
    town = Town(NOTE)
    found = await asyncio.gather(*(town.enforcer.enforce(name, town.stored) for name in ("team", "other")))
    reasons = [None if one is None else one.ways["note"].reason for one in found]
    assert sorted(map(str, reasons)) == ["Starting", "TooManyNamespaces"]
    assert len(town.natives.namespaces) == 1


DEAR = [
    rule(has(**{f"{name}{i}": "v" for i in range(16)}), set_annotations={f"{name}{i}": "1" for i in range(32)})
    for name in "abcdef"
]
"""More than half of what the API server may spend in a namespace."""


async def test_rejections_come_first_within_the_budget() -> None:
    """A policy that writes does not push out one that rejects, whatever their names are."""
    writers = [stored_object(f"a{i}", *DEAR) for i in range(2)]
    town = Town(*writers, REFUSE, webhook="")
    await town.settle()
    assert town.ways() == {"a0": "Native", "a1": "None", "refuse": "Native"}


async def test_a_rejection_beyond_the_budget_closes_the_namespace() -> None:
    """Nobody knows what it would have rejected, so nothing is let in."""
    refusing = [stored_object(f"z{i}", *DEAR, rule(has(bad="yes"), reject=True)) for i in range(2)]
    town = Town(NOTE, *refusing, webhook="")
    await town.settle()
    assert town.ways() == {"note": "Native", "z0": "Native", "z1": "None"}
    [policy] = [one for one in town.server.objects.values() if one["kind"] == "ValidatingAdmissionPolicy"]
    verdict = next(one["expression"] for one in policy["spec"]["variables"] if one["name"] == "verdict")
    assert "nothing is let in" in verdict


async def test_what_can_not_be_looked_at_stays() -> None:
    town = Town(NOTE)
    await town.settle()
    unread = [Stored("note", "team", "uid-note", "1", 2, 0, {}, unread="too large")]
    assert await town.enforcer.enforce("team", unread) is None
    assert len(town.server.objects) == len(KINDS)


async def test_a_namespace_that_is_closed() -> None:
    """Where a policy that rejects is left out for its cost, the API server lets nothing in, as the webhook does."""
    many = [rule(has(**{f"k{i}": "v" for i in range(16)}), reject=True) for _ in range(64)]
    town = Town(stored_object("a", rule(reject=True)), *(stored_object(f"p{i:02}", *many) for i in range(MOST // 256)))
    stored = [one for one in town.stored if one.name == "a" or one.over]
    assert any(one.closes for one in stored)
    await town.enforcer.enforce("team", stored)
    [policy] = [one for one in town.server.objects.values() if one["kind"] == "ValidatingAdmissionPolicy"]
    verdict = next(one["expression"] for one in policy["spec"]["variables"] if one["name"] == "verdict")
    assert "nothing is let in" in verdict


def test_same() -> None:
    """Defaults are no difference; what somebody added is one."""
    assert same({"a": 1, "matchPolicy": "Equivalent", "namespaceSelector": {}}, {"a": 1})
    assert not same({"a": 1, "matchConditions": [{"name": "never", "expression": "false"}]}, {"a": 1})
    assert not same({"a": [1, 2]}, {"a": [1]})
    assert not same({"matchPolicy": "Exact"}, {})
