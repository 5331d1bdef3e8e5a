"""Policies move between the API server and the webhook while objects are created as fast as may be: nothing gets by."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.controlplane import namespaces
from tests.controlplane.api import Api, ApiError, Object
from tests.controlplane.cluster import Cluster, ControlPlane
from tests.controlplane.wait import wait_for
from tests.integration import admission
from tests.integration.admission import MANIFESTS, MUTATING, NAMESPACE, POLICIES, VALIDATING, Policed, policy
from tests.integration.rights import wait_granted
from tests.integration.ship import PATIENCE, SETS, Replica, rejects, writes
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

    def wait_registered(self, wanted: bool) -> None:
        """Until there are webhook configurations, or none."""
        wait_for(f"webhook configurations: {wanted}", lambda: set(map(self._there, HOOKS)) == {wanted}, PATIENCE)

    def _there(self, path: str) -> bool:
        with contextlib.suppress(ApiError):
            return bool(self.api.get(path))
        return False

    def objects(self) -> int:
        """Return how many admission policies and bindings there are, and sets in the namespace."""
        found = [one for plural in PLURALS.values() for one in self.api.list(f"{ROOT}/{plural}")]
        return len(found) + len(self.api.list(SETS.format(self.name)))

    def forget(self) -> None:
        """Take away all that the operator wrote, as the garbage collector does with the release."""
        for plural in reversed(PLURALS.values()):
            for one in self.api.list(f"{ROOT}/{plural}"):
                self.api.delete(f"{ROOT}/{plural}/{one['metadata']['name']}")

    def status(self, labels: dict[str, str]) -> int:
        """How a create with these labels is answered."""
        path = f"/api/v1/namespaces/{self.name}/configmaps"
        return self.api.tell("POST", path, {"metadata": {"name": "o", "labels": labels}}, dryRun="All").status

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
    """There and back, with a policy that comes in between, and a while with nobody but the API server."""
    team = Team(policed.api)
    judge = policed.start("--enforcement=auto")
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
        choose("webhook")
        team.put("forbid", rejects("bad", "Exists"))
        team.put("note", NOTE)
        team.wait(forbid="Webhook", note="Webhook")
        wait_for("both to be in force", lambda: not team.tried(), PATIENCE)
        assert team.objects() == 0
        with creates(team) as done:
            operator = choose("auto")
            team.wait(forbid="Native", note="Native")
            team.wait_registered(False)
            team.put("label", writes(team="a"))
            team.wait(forbid="Native", note="Native", label="Native")
            wait_for("the label", lambda: _labelled(team), PATIENCE)
            team.api.delete(f"{POLICIES.format(team.name)}/label")
            wait_for("the webhook to rest", lambda: _rests(judge, team), PATIENCE)
            operator.kill()
            judge.kill()
            for _ in range(20):
                assert team.tried() == ""
            started.clear()
            policed.start("--enforcement=webhook")
            choose("webhook")
            team.wait(forbid="Webhook", note="Webhook")
            wait_for("the objects to go", lambda: team.objects() == 0, PATIENCE)
            team.wait_registered(True)
        assert next(done) > 100
    finally:
        for one in started:
            one.kill()


def test_without_the_operator_nothing_gets_by(policed: Policed, tmp_path: Path) -> None:
    """The operator goes with all that it wrote, and the statuses stay: the webhook is asked again."""
    team = Team(policed.api)
    policed.start("--enforcement=auto")
    policed.wait_registered()
    token = operator_token(policed.cluster)
    kubeconfig = policed.cluster.kubeconfig(tmp_path / "operator.kubeconfig", token)
    options = ("--enforcement=auto", "--audit-interval=0", f"--namespace={NAMESPACE}")
    operator = Replica(tmp_path, kubeconfig, *options)
    operator.start()
    try:
        team.put("forbid", rejects("bad", "Exists"))
        team.wait(forbid="Native")
        team.wait_registered(False)
    finally:
        operator.kill()
    team.forget()
    team.wait_registered(True)
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
