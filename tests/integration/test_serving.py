"""Health, metrics and configuration over HTTPS, as probes, Prometheus and kube-scheduler's dashboards ask for them."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from itertools import count
from pathlib import Path

import pytest

from tests.controlplane.api import Object
from tests.controlplane.cluster import Cluster, ControlPlane, free_port
from tests.controlplane.process import Process
from tests.controlplane.wait import wait_for
from tests.integration import checks, metric_families
from tests.integration.berth import START, Berth, Harbour
from tests.integration.component import BERTH, environment
from tests.integration.metric_families import LIST, families

NOT_OURS = {
    "scheduler_batch_attempts_total": "no opportunistic batching; berth_decisions_total tells of memos",
    "scheduler_batch_cache_flushed_total": "the same",
    "scheduler_get_node_hint_duration_seconds": "the same",
    "scheduler_store_schedule_results_duration_seconds": "the same",
    "scheduler_goroutines": "there are none",
    "scheduler_inflight_events": "one thread applies events and decides, nothing arrives during an attempt",
    "scheduler_preemption_goroutines_execution_total": "there are none",
    "scheduler_queueing_hint_execution_duration_seconds": "hints are asked for whole groups of pods, and not timed",
}
"""What kube-scheduler has and we do not, and why."""


def ask(server: Process, path: str, token: str | None = None) -> tuple[int, str]:
    """GET; the status and the text. The certificate is its own, and nobody's secret goes there."""
    context = ssl._create_unverified_context()
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    request = urllib.request.Request(f"{server.url}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=30, context=context) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def wait_serving(berth: Berth) -> None:
    """Return when it answers."""
    wait_for("it to serve", lambda: berth.lines("serving"), START)


def test_list_is_true(audited: ControlPlane, audited_namespace: str) -> None:
    """The list in the repository is what kube-scheduler declares; of what we do not have, as far as it shows here."""
    listed = json.loads(LIST.read_text())
    found = metric_families.kube_schedulers(audited, audited_namespace, listed.keys() - NOT_OURS.keys())
    assert found == {name: family for name, family in listed.items() if name in found or name not in NOT_OURS}


def test_metrics_are_kube_schedulers(audited: ControlPlane, audited_namespace: str, harbour: Harbour) -> None:
    """After the same exercise: the same names, types, labels and buckets; what is missing is known, with a reason."""
    berth = harbour.berth(audited, serving=True)
    wait_serving(berth)
    batches = count()

    def sampled() -> str | None:
        metric_families.create_samples(audited.api, audited_namespace, berth.scheduler_name, next(batches))
        status, text = ask(berth, "/metrics", audited.admin_token)
        assert status == 200, text
        return text if metric_families.SAMPLED in text else None

    with metric_families.exercise(audited.api, audited_namespace, berth.scheduler_name):
        text = wait_for("plugins to be timed", sampled, checks.BOUND)
    ours, theirs = families(text), json.loads(LIST.read_text())
    assert {name: ours.get(name) for name in theirs if name not in NOT_OURS} == {
        name: family for name, family in theirs.items() if name not in NOT_OURS
    }
    assert not NOT_OURS.keys() & ours.keys()
    assert ours.keys() <= theirs.keys()
    assert "_created" not in text
    assert families(text, "berth_")["berth_event_loop_lag_seconds"]["type"] == "histogram"
    berth.end()


SCRAPER = "metrics-scraper"


def test_who_may_ask(control_plane: Cluster, real_namespace: str, harbour: Harbour) -> None:
    """Health is open; the rest is for those whom the API server knows and allows the path."""
    berth = harbour.berth(control_plane, serving=True)
    wait_serving(berth)
    stranger = control_plane.service_account_token(real_namespace, "stranger")
    scraper = control_plane.service_account_token(real_namespace, SCRAPER)
    tokens = {"nobody": None, "liar": "no-such-token", "stranger": stranger, "scraper": scraper}
    role = f"berth-test-{real_namespace}"
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    rules = [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
    subject = {"kind": "ServiceAccount", "name": SCRAPER, "namespace": real_namespace}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    api = control_plane.api
    api.create(f"{rbac}/clusterroles", {"metadata": {"name": role}, "rules": rules})
    api.create(f"{rbac}/clusterrolebindings", {"metadata": {"name": role}, "roleRef": reference, "subjects": [subject]})
    try:
        # Roles take a moment to reach the server's authorizer, and a refusal is remembered for ten seconds.
        wait_for("the scraper to be allowed", lambda: ask(berth, "/metrics", scraper)[0] == 200, START)
        got = {
            (path, who): ask(berth, path, token)[0]
            for path in ("/livez", "/healthz", "/readyz", "/metrics", "/configz", "/nowhere")
            for who, token in tokens.items()
        }
    finally:
        api.delete(f"{rbac}/clusterrolebindings/{role}")
        api.delete(f"{rbac}/clusterroles/{role}")
    health = {(path, who): 200 for path in ("/livez", "/healthz", "/readyz") for _, who in got if (path, who) in got}
    assert got == {
        **health,
        ("/metrics", "nobody"): 401,
        ("/metrics", "liar"): 401,
        ("/metrics", "stranger"): 403,
        ("/metrics", "scraper"): 200,
        ("/configz", "nobody"): 401,
        ("/configz", "liar"): 401,
        ("/configz", "stranger"): 403,
        ("/configz", "scraper"): 403,
        ("/nowhere", "nobody"): 401,
        ("/nowhere", "liar"): 401,
        ("/nowhere", "stranger"): 403,
        ("/nowhere", "scraper"): 403,
    }
    log = berth.log.read_text()
    assert stranger not in log
    assert scraper not in log
    berth.end()


def test_lease_is_forbidden(control_plane: Cluster, real_namespace: str, harbour: Harbour) -> None:
    """Without rights on the Lease it does not lead and is not ready, and both log and /readyz say why; it lives."""
    account = control_plane.service_account_token(real_namespace, "leaseless")
    binding = f"berth-test-{real_namespace}-reader"
    bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    subject = {"kind": "ServiceAccount", "name": "leaseless", "namespace": real_namespace}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:kube-scheduler"}
    control_plane.api.create(bindings, {"metadata": {"name": binding}, "roleRef": reference, "subjects": [subject]})
    try:
        election = {"leaderElect": True, "resourceNamespace": real_namespace}
        berth = harbour.berth(control_plane, token=account, serving=True, leaderElection=election)
        wait_serving(berth)
        said, *_ = wait_for("the refusal", lambda: berth.lines("lease not reached"), START)
        assert "cannot get resource" in said["error"]
        _, text = wait_for("not ready", lambda: got if (got := ask(berth, "/readyz"))[0] == 503 else None, START)
        assert "[-]leaderElection failed: does not lead" in text
        assert "[+]informer-sync ok" in text
        assert "cannot get resource" in text
        assert ask(berth, "/livez")[0] == 200
        assert not berth.lines("leads")
        berth.end()
    finally:
        control_plane.api.delete(f"{bindings}/{binding}")


def test_configuration_and_verbose_health(control_plane: Cluster, harbour: Harbour) -> None:
    """/configz is the KubeSchedulerConfiguration in use; ?verbose lists every check."""
    berth = harbour.berth(control_plane, serving=True, podMaxBackoffSeconds=7)
    wait_serving(berth)
    token = control_plane.admin.get("token")
    if token is not None:
        status, text = ask(berth, "/configz", token)
        assert status == 200
        shown: Object = json.loads(text)["componentconfig"]
        assert shown["podMaxBackoffSeconds"] == 7
        assert [profile["schedulerName"] for profile in shown["profiles"]] == [berth.scheduler_name]
    wait_for("it to be ready", lambda: ask(berth, "/readyz")[0] == 200, START)
    status, text = ask(berth, "/readyz?verbose")
    assert (status, text.splitlines()) == (
        200,
        [
            "[+]ping ok",
            "[+]event-loop ok",
            "[+]informer-sync ok",
            "[+]watches ok",
            "[+]shutdown ok",
            "readyz check passed",
        ],
    )
    berth.end()


def test_port_in_use(control_plane: Cluster, harbour: Harbour) -> None:
    """A second one on the same address ends with 2 and one line that says so."""
    first = harbour.berth(control_plane, serving=True)
    wait_serving(first)
    port = int(first.url.rpartition(":")[2])
    second = harbour.berth_at(harbour.home / f"{first.scheduler_name}.kubeconfig", "berth-second", port=port)
    wait_for("the second to end", lambda: not second.running, START)
    assert second.stop() == 2
    assert second.lines()[-1]["event"] == f"berth: 127.0.0.1:{port}: can't listen there: address already in use"
    first.end()


COMPONENTS = {
    "operator": ([], "watch", {"leader_election_master_status", "berth_operator_watch_age_seconds"}),
    "admission": (["--no-register", "--host=127.0.0.1", "--drain=0"], "policies", {"berth_admission_policies"}),
}


@pytest.mark.parametrize("component", COMPONENTS)
def test_other_components(
    control_plane: Cluster, real_namespace: str, tmp_path: Path, harbour: Harbour, component: str
) -> None:
    """Operator and admission server serve the same way: not ready without the CRD, and saying so; metrics by token."""
    options, check, names = COMPONENTS[component]
    port = free_port()
    argv = [
        BERTH,
        component,
        f"--kubeconfig={control_plane.kubeconfig(tmp_path / 'kubeconfig')}",
        f"--namespace={real_namespace}",
        f"--port={free_port()}",
        f"--secure-port={port}",
        "--bind-address=127.0.0.1",
        *options,
    ]
    process = Process(component, argv, tmp_path / "log", environment())
    process.url = f"https://127.0.0.1:{port}"
    harbour.started.append(process)
    process.start()
    wait_for("it to serve", lambda: '"event": "serving"' in process.tail(), START)
    status, text = ask(process, "/readyz")
    assert (status, f"[-]{check} failed: " in text) == (503, True)
    assert ask(process, "/livez?verbose")[0] == 200
    assert ask(process, "/metrics")[0] == 401
    token = control_plane.service_account_token(real_namespace, "root")
    binding = f"berth-test-{real_namespace}-{component}"
    bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    subject = {"kind": "ServiceAccount", "name": "root", "namespace": real_namespace}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    body = {"metadata": {"name": binding}, "roleRef": reference, "subjects": [subject]}
    control_plane.api.create(bindings, body)

    def served() -> bool:
        status, text = ask(process, "/metrics", token)
        return status == 200 and names <= {**families(text, "berth_"), **families(text, "leader_")}.keys()

    try:
        # A refusal is remembered for ten seconds; and that there is no CRD is known after a moment.
        wait_for("the page", served, START)
    finally:
        control_plane.api.delete(f"{bindings}/{binding}")
    assert process.stop(START) == 0
