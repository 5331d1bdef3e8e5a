"""The enforcer against an API server that is a dict: what it writes, when it takes that for in force, and its moves."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs

import pytest

from podberth.kube.errors import ApiError
from podberth.kube.machine import Machine
from podberth.kube.resources import CLUSTER_ROLES, VALIDATING_POLICIES
from podberth.policy.native.admission_policies import IN_FORCE, admission_policies
from podberth.policy.native.policy_set import SET_NAME
from podberth.policy.operator import enforcement as module
from podberth.policy.operator.enforcement import KINDS, NOTHING_TOLD, SETS, Enforcer, Kept, kept
from podberth.policy.operator.judge import Stored
from podberth.policy.operator.settings import Settings
from podberth.policy.operator.status import NATIVE, NOT_ACCEPTED, OLDER, Enforcement
from tests.unit.policy.admission.conftest import until
from tests.unit.policy.build import has, rule
from tests.unit.policy.operator.conftest import Clock, Object, stored

USER = "system:serviceaccount:berth:berth-operator"
WANTED = admission_policies("berth", USER, Settings("berth").exempt)
ROOT, ROLES = VALIDATING_POLICIES.root, CLUSTER_ROLES.path()
WEBHOOKS = tuple(resource.path() for resource in module.WEBHOOKS)
HOOK = {"metadata": {"name": "hook", "uid": "hook"}, "webhooks": [{"clientConfig": {"caBundle": "Y2E="}}]}
FORBID = stored("forbid", rule(has(bad="yes"), reject=True))
NOTE = stored("note", rule(set_annotations={"note": "here"}))


def path_of(one: Object) -> str:
    """The path of an admission policy or binding."""
    return KINDS[one["kind"]].path(None, one["metadata"]["name"])


BINDING = next(path_of(one) for one in WANTED if one["kind"] == "MutatingAdmissionPolicyBinding")


class Cluster:
    """Objects by path, behind the few methods of `Client` that the enforcer calls; and both halves, which see sets."""

    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}
        self.kinds = [resource.plural for resource in KINDS.values()]
        self.version = 100
        self.wrote: list[str] = []
        self.asked: list[str] = []
        """Namespaces of dry runs."""
        self.refused: dict[str, int] = {}
        """Verb and the beginning of a path → the status of the answer."""
        self.failed = 0
        self.halves: list[float] = [float("inf"), float("inf")]
        """Each half has seen what was stored up to this resourceVersion."""
        self.tells = True
        """What tells of modes warn and observe is in force."""
        self.webhook_answers = False
        self.sets: dict[str, list[tuple[int, str]]] = {}
        """Namespace → resourceVersions of its set, and what either half answers from then on."""

    async def request(
        self, verb: str, path: str, *, query: str = "", body: bytes | None = None, content_type: str = ""
    ) -> bytes:
        """Any request."""
        for asked, status in self.refused.items():
            if f"{verb} {path}".startswith(asked):
                self.failed += 1
                raise ApiError(status, "Refused", "no")
        given: Object = json.loads(body) if body else {}
        if path.endswith("/selfsubjectreviews"):
            return json.dumps({"status": {"userInfo": {"username": USER}}}).encode()
        if "dryRun" in query:
            raise ApiError(403, "Forbidden", *self._judged(path.split("/")[4]))
        if verb == "GET":
            return json.dumps(self._read(path, query)).encode()
        if verb == "DELETE":
            return self._delete(path, given.get("preconditions", {}).get("uid"))
        self.wrote.append(f"{verb} {path}")
        self.put(path, given, whole=verb == "PUT")
        return json.dumps(self.objects[path]).encode()

    async def get(self, path: str, *, query: str = "", tries: int = 1) -> bytes:
        """GET."""
        return await self.request("GET", path, query=query)

    async def create(self, path: str, body: bytes) -> bytes:
        """POST."""
        return await self.request("POST", path, body=body)

    async def delete(self, path: str, body: bytes) -> bytes:
        """DELETE."""
        return await self.request("DELETE", path, body=body)

    def put(self, path: str, given: Object, *, whole: bool = False) -> None:
        """Store it, as the API server does: with fields of its own, and what an apply does not name stays."""
        before = self.objects.get(path)
        self.version += 1
        meta = {"uid": f"uid-{self.version}", "managedFields": [{}]} if before is None else before["metadata"]
        spec = {**({} if before is None or whole else before.get("spec", {})), **given.get("spec", {})}
        for defaulted in ("matchConstraints",):
            if defaulted in spec:
                spec[defaulted] = {"matchPolicy": "Equivalent", "objectSelector": {}, **spec[defaulted]}
        stored = {**given, "metadata": {**meta, **given["metadata"], "resourceVersion": str(self.version)}}
        self.objects[path] = {**stored, "spec": spec} if "spec" in given else stored
        if path.endswith(f"/{SET_NAME}"):
            said = given["metadata"]["annotations"]["podberth.dev/version"]
            self.sets.setdefault(path.split("/")[4], []).append((self.version, said))

    def gone(self, path: str) -> None:
        """Have somebody else delete it."""
        del self.objects[path]
        if path.endswith(f"/{SET_NAME}"):
            self.version += 1
            self.sets[path.split("/")[4]].append((self.version, ""))

    def kept(self, namespace: str) -> Kept | None:
        """What an index has that has seen everything."""
        found = self.objects.get(SETS.path(namespace, SET_NAME))
        return None if found is None else kept(found)

    def _read(self, path: str, query: str) -> Object:
        if path == ROOT:
            return {"resources": [{"name": plural} for plural in self.kinds]}
        if "labelSelector" in query:
            key, _, value = parse_qs(query)["labelSelector"][0].partition("=")
            below = [one for at, one in sorted(self.objects.items()) if at.startswith(f"{path}/")]
            return {"metadata": {}, "items": [one for one in below if one["metadata"]["labels"].get(key) == value]}
        if path not in self.objects:
            raise ApiError(404, "NotFound")
        return self.objects[path]

    def _delete(self, path: str, uid: str | None) -> bytes:
        found = self.objects.get(path)
        if found is None:
            raise ApiError(404, "NotFound")
        if uid is not None and uid != found["metadata"]["uid"]:
            raise ApiError(409, "Conflict")
        self.wrote.append(f"DELETE {path}")
        self.gone(path)
        return b"{}"

    def _judged(self, namespace: str) -> tuple[str, None, None, str, list[str]]:
        """The answer to a dry run in a namespace: what an `ApiError` has after its reason."""
        self.asked.append(namespace)
        if self.webhook_answers:
            return 'admission webhook "hook" denied the request: webhook', None, None, "", []
        said, warnings = [], []
        for half in self.halves if BINDING in self.objects else ():
            seen = [answer for version, answer in self.sets.get(namespace, ()) if version <= half]
            said += [answer for answer in seen[-1:] if answer]
        if self.tells and said:
            warnings.append(f'299 - "Validation failed for policy with binding: {said[-1]}"')
        return f"denied request: {' '.join(said)}" if said else "not refused", None, None, "", warnings

    @property
    def natively(self) -> set[str]:
        """The paths of the admission policies and bindings that are there."""
        return {path for path in self.objects if path.startswith(ROOT) and not path.startswith(WEBHOOKS)}

    @property
    def moved(self) -> bool:
        """Whether the binding says that the webhook has left policies to the API server."""
        return bool(self.objects.get(BINDING, {}).get("metadata", {}).get("annotations") == {IN_FORCE: "true"})


class Release:
    """An operator's enforcer, its clock, and the namespaces that it is told to have policies."""

    def __init__(self, cluster: Cluster, index: Callable[[str], Kept | None] | None = None, **settings: Any) -> None:
        self.clock = Clock()
        self.namespaces: list[str] | None = []
        self.looks = 0
        given = {"enforcement": "auto", "webhook": "hook", **settings}
        self.enforcer = Enforcer(
            cluster,  # type: ignore[arg-type]
            Settings("berth", **given),
            index or cluster.kept,
            lambda: self.namespaces,
            self._look_everywhere,
            Machine(monotonic=self.clock),
        )

    def _look_everywhere(self) -> None:
        self.looks += 1

    async def ways(self, namespace: str, *policies: Stored) -> dict[str, Enforcement]:
        """Who enforces each policy, once that can be said."""
        while True:
            found = await self.enforcer.enforce(namespace, policies)
            if not found.pending:
                return dict(found.ways)
            self.clock.now += found.again

    async def look(self) -> None:
        """Look at the whole once, as `run` does when something happens."""
        await self.enforcer._look()  # noqa: SLF001


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses are not tested."""
    for pause in ("PAUSE_SECONDS", "GATHER_SECONDS", "RETRY_SECONDS"):
        monkeypatch.setattr(module, pause, 0.0)


@pytest.fixture
def cluster() -> Cluster:
    """An API server with the webhook configurations of a release."""
    made = Cluster()
    register(made)
    return made


def register(cluster: Cluster) -> None:
    """Write the webhook configurations, as the admission server does."""
    for path in WEBHOOKS:
        cluster.put(f"{path}/hook", copy.deepcopy(HOOK))


async def started(cluster: Cluster, *namespaces: str, **settings: Any) -> Release:
    """An operator that has looked once; it is told of policies in these namespaces."""
    release = Release(cluster, **settings)
    release.namespaces = list(namespaces)
    await release.look()
    return release


async def test_the_webhook_stays_while_policies_are_not_listed(cluster: Cluster) -> None:
    """An operator that does not know yet where policies are does not take the API server for the one that enforces."""
    release = await started(cluster)
    release.namespaces = None
    await release.look()
    assert not cluster.moved
    assert all(f"{path}/hook" in cluster.objects for path in WEBHOOKS)
    release.namespaces = []
    await release.look()
    assert cluster.moved


async def moved(cluster: Cluster, **settings: Any) -> Release:
    """An operator that has moved a namespace with a policy to the API server."""
    release = await started(cluster, "team", **settings)
    assert await release.ways("team", FORBID) == {"forbid": NATIVE}
    await release.look()
    assert cluster.moved
    cluster.wrote.clear()
    cluster.asked.clear()
    return release


async def test_to_the_api_server(cluster: Cluster) -> None:
    """Validating objects come first, and the webhook goes once all namespaces are seen to be in force."""
    release = await started(cluster, "team", "other")
    assert cluster.wrote == [f"PATCH {path_of(one)}" for one in WANTED]
    await release.ways("team", FORBID)
    await release.look()
    assert not cluster.moved
    assert await release.ways("other", NOTE) == {"note": NATIVE}
    await release.look()
    assert cluster.moved
    sets = [f"PATCH {SETS.path(namespace, SET_NAME)}" for namespace in ("team", "other")]
    assert cluster.wrote[len(WANTED) :] == [*sets, f"PATCH {BINDING}", *(f"DELETE {path}/hook" for path in WEBHOOKS)]
    assert (release.enforcer.writes, release.enforcer.repairs) == (len(WANTED) + 5, 0)
    assert release.looks == 2


async def test_the_next_operator_writes_nothing(cluster: Cluster) -> None:
    """What another one left is as it should be, and one dry run shows that."""
    await moved(cluster)
    release = await started(cluster, "team")
    assert await release.ways("team", FORBID) == {"forbid": NATIVE}
    await release.look()
    assert release.enforcer.moved
    assert not cluster.wrote
    assert cluster.asked == ["team"]


def _deleted(cluster: Cluster, path: str) -> None:
    cluster.gone(path)


def _without_label(cluster: Cluster, path: str) -> None:
    cluster.objects[path]["metadata"]["labels"] = {}


def _renamed(cluster: Cluster, path: str) -> None:
    spec = cluster.objects[path]["spec"]
    spec["policyName" if "policyName" in spec else "paramKind"] = "other"


def _without_owner(cluster: Cluster, path: str) -> None:
    cluster.objects[path]["metadata"]["ownerReferences"] = []


@pytest.mark.parametrize("harm", [_deleted, _without_label, _renamed, _without_owner])
@pytest.mark.parametrize("number", [2, 3, 6, 7])
async def test_drift(cluster: Cluster, harm: Callable[[Cluster, str], None], number: int) -> None:
    """Of eight objects the one is written that is not as it should be. With the binding its mark may be gone: then all
    has to be proved again.
    """
    cluster.put(f"{ROLES}/berth-operator", {"metadata": {"name": "berth-operator"}})
    role = cluster.objects[f"{ROLES}/berth-operator"]["metadata"]["uid"]
    release = await moved(cluster, owner="berth-operator")
    path = path_of(WANTED[number])
    before = copy.deepcopy(cluster.objects[path])
    assert [one["uid"] for one in before["metadata"]["ownerReferences"]] == [role]
    harm(cluster, path)
    await release.look()
    assert cluster.wrote == [f"PATCH {path}"]
    assert release.enforcer.repairs == 1
    now = cluster.objects[path]
    assert now["spec"] == before["spec"]
    for field in ("labels", "ownerReferences"):
        assert now["metadata"][field] == before["metadata"][field]
    lost = harm is _deleted and path == BINDING
    assert cluster.moved is not lost
    if lost:
        assert release.looks == 3
        assert (await release.enforcer.enforce("team", [FORBID])).pending
        assert await release.ways("team", FORBID) == {"forbid": NATIVE}
        assert cluster.asked == ["team"]
        await release.look()
        assert cluster.moved


async def test_what_others_add_is_replaced(cluster: Cluster) -> None:
    """An apply leaves what it does not name, so an object that is not as it should be even then is put as a whole."""
    release = await moved(cluster)
    path = path_of(WANTED[1])
    cluster.objects[path]["spec"]["matchResources"] = {"resourceRules": [{"resources": ["none"]}]}
    await release.look()
    assert cluster.wrote == [f"PATCH {path}", f"PUT {path}"]
    assert "matchResources" not in cluster.objects[path]["spec"]


async def test_each_namespace_is_asked_for_itself(cluster: Cluster) -> None:
    """A set that is not seen yet does not hold up others, however new it is."""
    release = await started(cluster)
    await release.enforcer.enforce("a", [FORBID])
    cluster.halves = [float(cluster.version)] * 2
    await release.enforcer.enforce("b", [FORBID])
    assert not cluster.asked
    assert await release.ways("a", FORBID) == {"forbid": NATIVE}
    assert cluster.asked == ["a"]
    assert (await release.ways("b", FORBID))["forbid"].reason == "Starting"
    cluster.halves = [float("inf")] * 2
    assert await release.ways("b", FORBID) == {"forbid": NATIVE}


@pytest.mark.parametrize("mode", ["warn", "observe"])
async def test_what_changes_nothing_is_seen_by_a_warning(cluster: Cluster, mode: str) -> None:
    """The halves that enforce answer already; a set without such policies needs no warning."""
    release = await started(cluster, "team", "other")
    cluster.tells = False
    told = stored("told", rule(reject=True), mode=mode)
    found = (await release.ways("team", told))["told"]
    assert (found.reason, found.message.rpartition(": ")[2]) == ("Starting", NOTHING_TOLD)
    assert await release.ways("other", FORBID) == {"forbid": NATIVE}
    cluster.tells = True
    assert await release.ways("team", told) == {"told": NATIVE}


@pytest.mark.parametrize("half", [0, 1])
async def test_half_is_not_in_force(cluster: Cluster, half: int) -> None:
    """A policy that one half enforces is not called enforced, and the answer is told; an older version is Native."""
    release = await started(cluster, "team")
    cluster.halves[half] = 0.0
    found = (await release.ways("team", FORBID))["forbid"]
    assert (found.way, found.reason) == ("Webhook", "Starting")
    ((_, version),) = cluster.sets["team"]
    assert found.message.endswith(f"denied request: {version}")
    held = stored("forbid", rule(has(bad="yes"), reject=True), status={"enforcement": {"way": "Native"}})
    assert await release.ways("team", held) == {"forbid": OLDER}
    await release.look()
    assert not cluster.moved


async def test_an_older_version_proves_nothing(cluster: Cluster) -> None:
    """A policy was changed, and both halves still answer with what was before."""
    release = await moved(cluster)
    cluster.halves = [float(cluster.version)] * 2
    found = (await release.ways("team", NOTE))["note"]
    assert (found.way, found.reason) == ("None", "Starting")


async def test_an_index_that_is_behind(cluster: Cluster) -> None:
    """What we wrote is not written again because the index has an older set, or none yet."""
    index: list[Kept | None] = [None]
    release = await started(cluster, index=lambda _: index[0])
    await release.ways("team", FORBID)
    index[0] = cluster.kept("team")
    for _ in range(2):
        await release.ways("team", NOTE)
    assert cluster.wrote.count(f"PATCH {SETS.path('team', SET_NAME)}") == 2
    assert release.enforcer.repairs == 0


async def test_a_set_that_is_gone_comes_back(cluster: Cluster) -> None:
    """It is written once somebody tells that it is gone, as the index alone may be behind; and it is proved anew."""
    release = await moved(cluster)
    cluster.gone(SETS.path("team", SET_NAME))
    release.enforcer.forget("team")
    assert await release.ways("team", FORBID) == {"forbid": NATIVE}
    assert cluster.wrote == [f"PATCH {SETS.path('team', SET_NAME)}"]
    assert release.enforcer.repairs == 1
    assert cluster.asked == ["team"]


async def test_a_set_that_somebody_changed(cluster: Cluster) -> None:
    """It is written again, and called a repair."""
    release = await moved(cluster)
    cluster.put(SETS.path("team", SET_NAME), {"metadata": {"annotations": {"podberth.dev/version": "forged"}}})
    assert await release.ways("team", FORBID) == {"forbid": NATIVE}
    assert cluster.wrote == [f"PATCH {SETS.path('team', SET_NAME)}"]
    assert release.enforcer.repairs == 1


async def test_the_last_policy_takes_the_set_along(cluster: Cluster) -> None:
    """A namespace without policies has no set, and does not hold up a move."""
    release = await started(cluster, "team")
    await release.ways("team", FORBID)
    await release.ways("team")
    assert cluster.kept("team") is None


async def test_nobody_knows_what_unread_policies_say(cluster: Cluster) -> None:
    """What is in force stays; a namespace where nothing is yet is closed."""
    unread = Stored("large", "team", "uid", "1", 1, 0, {}, unread="too large")
    release = await moved(cluster)
    assert await release.ways("team", FORBID, unread) == {}
    assert not cluster.wrote
    await release.ways("other", unread)
    assert "podberth.dev/closed" in cluster.objects[SETS.path("other", SET_NAME)]["metadata"]["annotations"]


async def test_the_webhook_judges_by_itself(cluster: Cluster) -> None:
    """Nothing is written. What is not accepted is nobody's; what nobody here has read may well be the webhook's."""
    invalid = Stored("invalid", "team", "uid", "1", 1, 0, {}, problems=("no",))
    unread = Stored("large", "team", "uid", "1", 1, 0, {}, unread="too large")
    register(cluster)
    cluster.webhook_answers = True
    release = await started(cluster, "team", enforcement="webhook")
    ways = await release.ways("team", FORBID, invalid, unread)
    assert {name: one.reason for name, one in ways.items()} == {
        "forbid": "Switched",
        "invalid": "NotAccepted",
        "large": "Switched",
    }
    assert not cluster.wrote


def _no_configuration(cluster: Cluster) -> None:
    cluster.gone(f"{WEBHOOKS[1]}/hook")


def _no_bundle(cluster: Cluster) -> None:
    cluster.objects[f"{WEBHOOKS[0]}/hook"]["webhooks"] = [{"clientConfig": {}}]


def _no_answer(cluster: Cluster) -> None:
    cluster.webhook_answers = False


@pytest.mark.parametrize("lack", [_no_configuration, _no_bundle, _no_answer])
async def test_no_webhook_enforces(cluster: Cluster, lack: Callable[[Cluster], None]) -> None:
    """The release leaves policies to a webhook that is not there: then nobody enforces, until it is."""
    register(cluster)
    cluster.webhook_answers = True
    lack(cluster)
    release = await started(cluster, "team", enforcement="webhook")
    found = (await release.ways("team", FORBID))["forbid"]
    assert (found.way, found.reason) == ("None", "NoWebhook")
    register(cluster)
    cluster.webhook_answers = True
    await release.look()
    assert (await release.ways("team", FORBID))["forbid"].way == "Webhook"


async def test_what_is_left_out(cluster: Cluster) -> None:
    """A policy that is not accepted, one that does not fit, and one in an exempt namespace are nobody's, and say so."""
    invalid = Stored("invalid", "team", "uid", "1", 1, 0, {}, problems=("no",))
    large = stored("large", *(rule(set_annotations={f"y{i}": "y" * 8000}) for i in range(30)))
    release = await started(cluster, "team", "kube-system")
    ways = await release.ways("team", NOTE, invalid, large)
    assert (ways["note"], ways["invalid"]) == (NATIVE, NOT_ACCEPTED)
    assert (ways["large"].way, ways["large"].reason) == ("None", "NotNative")
    assert (await release.ways("kube-system", NOTE))["note"].reason == "ExemptNamespace"
    assert cluster.kept("kube-system") is None
    await release.look()
    assert cluster.moved


async def test_the_api_server_refuses_a_set(cluster: Cluster) -> None:
    """It is told in its own words; a policy of which an older version holds stays Native; other failures are raised."""
    release = await started(cluster, "team")
    cluster.refused["PATCH /api/v1/namespaces/team"] = 422
    held = stored("held", rule(reject=True), status={"enforcement": {"way": "Native"}})
    ways = await release.ways("team", NOTE, held)
    assert {one.reason for one in ways.values()} == {"Refused"}
    assert ways["note"].message == "the API server refuses the set of this namespace: 422 Refused: no"
    assert (ways["note"].way, ways["held"].way, ways["held"].older) == ("Webhook", "Native", True)
    await release.look()
    assert not cluster.moved  # so the webhook enforces what the API server does not
    cluster.refused["PATCH /api/v1/namespaces/team"] = 500
    with pytest.raises(ApiError):
        await release.ways("team", NOTE)


@pytest.mark.parametrize("status", [403, 422])
async def test_admission_policies_that_can_not_all_be_written_go(cluster: Cluster, status: int) -> None:
    """Half of them would enforce half: what was written is taken away, and the webhook goes on."""
    mutating = f"PATCH {path_of(WANTED[6])}"
    cluster.refused[mutating] = status
    cluster.webhook_answers = True
    release = await started(cluster, "team")
    assert len(cluster.wrote) == 12
    assert not cluster.natively
    found = (await release.ways("team", FORBID))["forbid"]
    assert (found.way, found.reason) == ("Webhook", "KindsMissing")
    assert found.message == (f"the API server does not take the admission policies: {status} Refused: no")
    assert cluster.kept("team") is None
    del cluster.refused[mutating]
    await release.look()
    # Rights come and go, so they are asked for again; what the API server does not take, it never will.
    assert len(cluster.natively) == (len(WANTED) if status == 403 else 0)


@pytest.mark.parametrize("verb", ["GET", "PATCH"])
async def test_rights_that_go_for_a_while(cluster: Cluster, verb: str) -> None:
    """What is in force stays, and is the API server's, also where the operator may not look at it for a while."""
    release = await moved(cluster)
    cluster.refused[f"{verb} {ROOT}/"] = 403
    _renamed(cluster, path_of(WANTED[1]))
    with pytest.raises(ApiError):
        await release.look()
    assert len(cluster.natively) == len(WANTED)
    assert await release.ways("team", FORBID) == {"forbid": NATIVE}
    cluster.refused.clear()
    await release.look()
    assert cluster.wrote == [f"PATCH {path_of(WANTED[1])}"]


async def test_an_older_api_server(cluster: Cluster) -> None:
    """It has no such kinds: nothing is written, and the webhook enforces, or nobody where that is not wanted."""
    cluster.kinds = cluster.kinds[:2]
    cluster.webhook_answers = True
    for enforcement, way in (("auto", "Webhook"), ("native", "None")):
        release = await started(cluster, enforcement=enforcement)
        found = (await release.ways("team", FORBID))["forbid"]
        assert (found.way, found.reason) == (way, "KindsMissing")
        assert "mutatingadmissionpolicies" in found.message
    assert not cluster.wrote


@pytest.mark.parametrize("lack", [_no_configuration, _no_bundle, _no_answer])
async def test_to_the_webhook(cluster: Cluster, lack: Callable[[Cluster], None]) -> None:
    """The API server enforces until the webhook is seen to; then bindings go before policies, and sets last."""
    await moved(cluster)
    register(cluster)
    cluster.webhook_answers = True
    lack(cluster)
    release = await started(cluster, "team", enforcement="webhook")
    assert not cluster.wrote
    assert len(cluster.natively) == len(WANTED)
    register(cluster)
    cluster.webhook_answers = True
    await release.look()
    assert not cluster.natively
    assert cluster.kept("team") is not None
    found = (await release.ways("team", FORBID))["forbid"]
    assert (found.way, found.reason) == ("Webhook", "Switched")
    assert cluster.kept("team") is None
    order = list(dict.fromkeys(path.split("/")[-2] for path in cluster.wrote))
    assert order == [*(resource.plural for resource in reversed(KINDS.values())), SETS.plural]


async def test_new_admission_policies_are_proved_anew(cluster: Cluster) -> None:
    """Sets that were seen by those before say nothing about them."""
    release = await moved(cluster)
    await release.enforcer.enforce("other", [FORBID])
    await release.ways("team", NOTE)
    cluster.gone(BINDING)
    await release.look()
    cluster.asked.clear()
    assert await release.ways("other", FORBID) == {"forbid": NATIVE}
    assert cluster.asked


async def test_what_can_not_be_read_is_looked_at_again(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    """A failure ends nothing, and is said once; `wake` has the whole looked at at once."""
    release = Release(cluster)
    cluster.refused[f"GET {ROOT}"] = 500
    working = asyncio.create_task(release.enforcer.run())
    await until(lambda: cluster.failed >= 3)
    cluster.refused.clear()
    await until(lambda: len(cluster.natively) == len(WANTED))
    cluster.gone(BINDING)
    release.enforcer.wake()
    await until(lambda: BINDING in cluster.objects)
    working.cancel()
    await asyncio.wait((working,))
    assert capsys.readouterr().out.count("can't be read or written") == 1


def test_kept_is_what_has_to_be_the_same() -> None:
    """Of a set's labels and annotations those of our own, and its owners; whatever else others add is theirs."""
    meta: Object = {"uid": "u", "resourceVersion": "7", "annotations": {"podberth.dev/version": "v"}, "labels": {}}
    plain = kept({"metadata": meta})
    assert (plain.uid, plain.version) == ("u", 7)
    same: list[Object] = [{"annotations": {**meta["annotations"], "note": "x"}}, {"labels": {"team": "a"}}]
    assert {kept({"metadata": {**meta, **more}}).digest for more in same} == {plain.digest}
    other: list[Object] = [
        {"annotations": {"podberth.dev/version": "w"}},
        {"labels": {"podberth.dev/release": "other"}},
        {"ownerReferences": [{"uid": "p"}]},
    ]
    digests = {kept({"metadata": {**meta, **more}}).digest for more in other}
    assert len(digests | {plain.digest}) == 4
