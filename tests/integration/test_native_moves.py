"""Policies move between the API server and the webhook while objects are created as fast as may be: nothing gets by."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from podberth.model.promise import ANNOTATION as PROMISE
from tests.controlplane import namespaces
from tests.controlplane.api import Api, Object
from tests.controlplane.cluster import Cluster, ControlPlane
from tests.controlplane.wait import wait_for
from tests.integration import admission
from tests.integration.admission import MANIFESTS, MUTATING, NAMESPACE, POLICIES, VALIDATING, Policed, policy
from tests.integration.rights import wait_granted
from tests.integration.ship import PATIENCE, Replica, rejects, writes
from tests.native.town import PLURALS, ROOT

NOTE: Object = {"policyPredicate": {}, "policyAction": {"updatedAnnotations": {"note": "here"}}}
THREADS = 3


@pytest.fixture
def policed(control_plane_binaries: Path, tmp_path: Path) -> Iterator[Policed]:
    """A control plane of its own: the webhook configurations are the whole cluster's."""
    with ControlPlane() as cluster:
        made = Policed(cluster, tmp_path)
        made.prepare()
        cluster.kubectl("apply", "-f", str(MANIFESTS / "operator-rbac.yaml"))
        yield made
        made.unregister()


class Team:
    """A namespace whose policies move."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.name = namespaces.create(api, "team")

    def put(self, name: str, *rules: Object) -> None:
        """Create a policy."""
        self.api.create(POLICIES.format(self.name), policy(name, *rules))

    def wait(self, **wanted: str) -> None:
        """Until the statuses say who enforces which policy."""

        def ways() -> bool:
            found = self.api.list(POLICIES.format(self.name))
            said = {one["metadata"]["name"]: one.get("status", {}).get("enforcement", {}).get("way") for one in found}
            return said == wanted

        wait_for(f"policies to be {wanted}", ways, PATIENCE)

    def wait_asked(self, wanted: bool) -> None:
        """Until the webhook configurations say that the webhook is asked about this namespace, or is not."""
        wait_for(f"the webhook to be asked: {wanted}", lambda: set(map(self._asked, HOOKS)) == {wanted}, PATIENCE)

    def _asked(self, path: str) -> bool:
        hook, *_ = self.api.get(path)["webhooks"]
        (criterion,) = hook["namespaceSelector"]["matchExpressions"]
        return self.name not in criterion["values"]

    def objects(self) -> int:
        """Return how many admission policies there are for the namespace."""
        found = (one["metadata"]["name"] for plural in PLURALS.values() for one in self.api.list(f"{ROOT}/{plural}"))
        return sum(f".{self.name}." in name for name in found)

    def forget(self) -> None:
        """Take away all that the operator wrote, as the garbage collector does with the release."""
        for plural in PLURALS.values():
            for one in self.api.list(f"{ROOT}/{plural}"):
                self.api.delete(f"{ROOT}/{plural}/{one['metadata']['name']}")

    def status(self, labels: dict[str, str]) -> int:
        """How a create with these labels is answered."""
        path = f"/api/v1/namespaces/{self.name}/configmaps"
        return self.api.tell("POST", path, {"metadata": {"name": "o", "labels": labels}}, dryRun="All").status

    def promised(self, text: str) -> int:
        """How a pod is answered that asks this of its node while it runs."""
        meta = {"name": "p", "annotations": {PROMISE: text}}
        body = {"metadata": meta, "spec": {"containers": [{"name": "c", "image": "x"}]}}
        return self.api.tell("POST", f"/api/v1/namespaces/{self.name}/pods", body, dryRun="All").status

    def tried(self) -> str:
        """Create an object as a dry run: what is wrong with the answer; empty for nothing."""
        path = f"/api/v1/namespaces/{self.name}/configmaps"
        bad = self.api.tell("POST", path, {"metadata": {"name": "o", "labels": {"bad": "yes"}}}, dryRun="All")
        if bad.status != 403:
            return f"let in: {bad.status} {bad.body}"
        good = self.api.tell("POST", path, {"metadata": {"name": "o"}}, dryRun="All")
        if good.status != 201:
            return f"refused: {good.status} {good.body}"
        annotations = good.body["metadata"].get("annotations")
        return "" if annotations == {"note": "here"} else f"written: {annotations}"


HOOKS = (MUTATING, VALIDATING)


def operator_token(cluster: Cluster) -> str:
    """Of the operator's account, once its rights count."""
    token = cluster.service_account_token(NAMESPACE, "berth-operator")
    wait_granted(cluster, token, yaml.safe_load_all((MANIFESTS / "operator-rbac.yaml").read_text()))
    return token


@contextlib.contextmanager
def creates(team: Team) -> Iterator[itertools.count[int]]:
    """Objects meanwhile, each of which has to be answered as the policies say."""
    stop, wrong, done = threading.Event(), list[str](), itertools.count()

    def work() -> None:
        while not stop.is_set() and not wrong:
            found = team.tried()
            if found:
                wrong.append(found)
            next(done)

    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    try:
        yield done
    finally:
        stop.set()
        for thread in threads:
            thread.join(PATIENCE)
    assert wrong == []


def test_moves_without_a_gap(policed: Policed, tmp_path: Path) -> None:
    """There and back, with a policy that comes in between, and at last with nobody but the API server."""
    team = Team(policed.api)
    judge = policed.start("--enforcement=auto", "--count-interval=0")
    policed.wait_registered()
    token = operator_token(policed.cluster)
    kubeconfig = policed.cluster.kubeconfig(tmp_path / "operator.kubeconfig", token)
    started: list[Replica] = []

    def choose(enforcement: str) -> Replica:
        """Give the release's switch another value: the operator is started again."""
        for one in started:
            one.stop(PATIENCE)
        options = ("--owner=berth-operator", "--audit-interval=0", f"--namespace={NAMESPACE}")
        started.append(Replica(tmp_path, kubeconfig, f"--enforcement={enforcement}", *options))
        started[-1].start()
        return started[-1]

    try:
        _move(team, judge, choose)
    finally:
        for one in started:
            one.kill()


def _move(team: Team, judge: admission.Replica, choose: Callable[[str], Replica]) -> None:
    choose("webhook")
    team.put("forbid", rejects("bad", "Exists"))
    team.put("note", NOTE)
    team.wait(forbid="Webhook", note="Webhook")
    wait_for("both to be in force", lambda: not team.tried(), PATIENCE)
    assert team.objects() == 0
    with creates(team) as done:
        choose("auto")
        team.wait(forbid="Native", note="Native")
        team.wait_asked(False)
        team.put("label", writes(team="a"))
        team.wait(forbid="Native", note="Native", label="Native")
        wait_for("the label", lambda: _labelled(team), PATIENCE)
        team.api.delete(f"{POLICIES.format(team.name)}/label")
        team.wait_asked(False)
        wait_for("the webhook to rest", lambda: _rests(judge, team), PATIENCE)
        choose("webhook")
        team.wait(forbid="Webhook", note="Webhook")
        wait_for("the objects to go", lambda: team.objects() == 0, PATIENCE)
        team.wait_asked(True)
        operator = choose("native")
        team.wait(forbid="Native", note="Native")
        team.wait_asked(False)
        operator.kill()
        wait_for("the webhook to rest", lambda: _rests(judge, team), PATIENCE)
        team.put("late", rejects("late", "Exists"))  # nobody says who enforces it, so the webhook does
        wait_for("the late policy to hold", lambda: team.status({"late": "yes"}) == 403, PATIENCE)
        judge.kill()
        for _ in range(20):
            assert team.tried() == ""
    assert next(done) > 100


def test_without_the_operator_nothing_gets_by(policed: Policed, tmp_path: Path) -> None:
    """The operator goes with all that it wrote, and the statuses stay: the webhook is asked again."""
    team = Team(policed.api)
    policed.start("--enforcement=auto", "--count-interval=0")
    policed.wait_registered()
    token = operator_token(policed.cluster)
    kubeconfig = policed.cluster.kubeconfig(tmp_path / "operator.kubeconfig", token)
    options = ("--enforcement=auto", "--audit-interval=0", f"--namespace={NAMESPACE}")
    operator = Replica(tmp_path, kubeconfig, *options)
    operator.start()
    try:
        team.put("forbid", rejects("bad", "Exists"))
        team.wait(forbid="Native")
        team.wait_asked(False)
    finally:
        operator.kill()
    wait_for("the annotation to be looked at", lambda: team.promised("not a selector") == 403, PATIENCE)
    assert team.promised('{"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}') == 201
    team.forget()
    team.wait_asked(True)
    team.wait(forbid="Native")
    wait_for("the policy to hold", lambda: team.status({"bad": "yes"}) == 403, PATIENCE)


def _labelled(team: Team) -> bool:
    path = f"/api/v1/namespaces/{team.name}/configmaps"
    found = team.api.create(path, {"metadata": {"name": "o"}}, dryRun="All")
    return bool(found["metadata"].get("labels") == {"team": "a"})


def _rests(judge: admission.Replica, team: Team) -> bool:
    """Whether objects are created and the replica is not asked about them."""
    before = _reviews(judge)
    for _ in range(5):
        assert team.tried() == ""
    return _reviews(judge) == before


def _reviews(judge: admission.Replica) -> float:
    return sum(count for name, count in judge.metrics().items() if name.startswith("berth_admission_reviews_total"))
