"""Credentials and certificates that are replaced while Berth runs, on a real API server: nobody restarts it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.certificates import Authority
from tests.controlplane import namespaces
from tests.controlplane.api import Api, ApiError
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.wait import wait_for
from tests.integration import checks
from tests.integration.berth import START, Berth, Harbour
from tests.integration.objects import NODES, node, pod, pods_path

AddNodes = Callable[..., None]
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
LISTED = "list or watch failed, trying again"


def bound_token(api: Api, namespace: str, name: str) -> str:
    """A token of the service account `berth` that counts for as long as there is a Secret of this name."""
    secret = api.create(f"/api/v1/namespaces/{namespace}/secrets", {"metadata": {"name": name}})
    reference = {"apiVersion": "v1", "kind": "Secret", "name": name, "uid": secret["metadata"]["uid"]}
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/berth/token"
    made = api.create(path, {"spec": {"expirationSeconds": 7200, "boundObjectRef": reference}})
    token: str = made["status"]["token"]
    return token


def refused(api: Api) -> bool:
    """Whether the API server does not know this client's user."""
    try:
        api.get("/api/v1/namespaces/default")
    except ApiError as error:
        assert error.status == 401, error
        return True
    return False


def with_token_file(kubeconfig: Path, token: Path) -> Path:
    """The same kubeconfig, with the token in a file."""
    document = yaml.safe_load(kubeconfig.read_text())
    document["users"][0]["user"] = {"tokenFile": str(token)}
    kubeconfig.write_text(yaml.safe_dump(document))
    return kubeconfig


def test_a_token_is_rotated(
    audited: ControlPlane, audited_namespace: str, harbour: Harbour, add_nodes: AddNodes, tmp_path: Path
) -> None:
    """Its token counts no longer, and requests are answered 401; the file gets another one, and pods are bound."""
    api, where, file = audited.api, audited_namespace, tmp_path / "token"
    add_nodes(audited, [node(f"{where}-own", labels={"test": where})])
    api.create(f"/api/v1/namespaces/{where}/serviceaccounts", {"metadata": {"name": "berth"}})
    account = {"kind": "ServiceAccount", "name": "berth", "namespace": where}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    api.create(BINDINGS, {"metadata": {"name": where}, "roleRef": role, "subjects": [account]})
    try:
        old = bound_token(api, where, "old")
        file.write_text(old)
        kubeconfig = with_token_file(audited.kubeconfig(tmp_path / "kubeconfig"), file)
        berth = harbour.berth_at(kubeconfig, f"berth-{where}")
        berth.wait_synced()
        api.create(pods_path(where), pod("before", berth.scheduler_name, nodeSelector={"test": where}))
        checks.wait_bound(api, where, 1)
        api.delete(f"/api/v1/namespaces/{where}/secrets/old")
        stranger = audited.api_as(old)
        wait_for("the old token to be refused", lambda: refused(stranger), START)
        stranger.close()
        api.create(pods_path(where), pod("meanwhile", berth.scheduler_name, nodeSelector={"test": where}))
        wait_for("a request of Berth to be refused", lambda: _unauthorized(audited, where), checks.BOUND)
        assert not checks.node_of(api.get(f"{pods_path(where)}/meanwhile"))
        file.write_text(bound_token(api, where, "new"))
        api.create(pods_path(where), pod("after", berth.scheduler_name, nodeSelector={"test": where}))
        pods = checks.wait_bound(api, where, 3)
        checks.bound_once_each(audited, where, pods)
        assert checks.overfull(api) == []
        berth.end()
    finally:
        api.delete(f"{BINDINGS}/{where}")


def _unauthorized(cluster: ControlPlane, namespace: str) -> bool:
    """Whether Berth has asked for something in the namespace with a token that does not count."""
    return any(
        entry["responseStatus"]["code"] == 401 and f"/namespaces/{namespace}/pods/meanwhile" in entry["requestURI"]
        for entry in cluster.audit_events("/pods/meanwhile", namespace)
        if entry["userAgent"].startswith("berth/")
    )


@pytest.mark.usefixtures("control_plane_binaries")
def test_the_ca_is_rotated(harbour: Harbour, tmp_path: Path) -> None:
    """The API server comes back with a certificate of another CA: trusted once the CA file has it, and not before."""
    first, second = Authority(tmp_path, "first"), Authority(tmp_path, "second")
    certificate, key = tmp_path / "serving.crt", tmp_path / "serving.key"
    first.server("127.0.0.1", certificate, key)
    own = ControlPlane(audit=True, apiserver_args=(f"--tls-cert-file={certificate}", f"--tls-private-key-file={key}"))
    trusted = tmp_path / "trusted.crt"
    trusted.write_bytes(first.pem)
    own.trust(first.file)
    with own:
        berth = _started(own, trusted, harbour)
        namespace = namespaces.create(own.api)
        own.api.create(NODES, node("own"))
        own.api.create(pods_path(namespace), pod("before", berth.scheduler_name))
        checks.wait_bound(own.api, namespace, 1)
        own.apiserver.kill()
        second.server("127.0.0.1", certificate, key)
        own.trust(second.file)
        own.start_apiserver()
        own.api.create(pods_path(namespace), pod("after", berth.scheduler_name))
        wait_for("Berth to trust nobody", lambda: _distrusts(berth), checks.BOUND)
        assert not checks.node_of(own.api.get(f"{pods_path(namespace)}/after"))
        trusted.write_bytes(second.pem)
        pods = checks.wait_bound(own.api, namespace, 2)
        checks.bound_once_each(own, namespace, pods)
        berth.end()


def _started(cluster: ControlPlane, trusted: Path, harbour: Harbour) -> Berth:
    """A scheduler that trusts whom a file names."""
    kubeconfig = cluster.kubeconfig(harbour.home / "kubeconfig")
    document = yaml.safe_load(kubeconfig.read_text())
    document["clusters"][0]["cluster"] = {"server": cluster.url, "certificate-authority": str(trusted)}
    kubeconfig.write_text(yaml.safe_dump(document))
    berth = harbour.berth_at(kubeconfig, "berth-rotated")
    berth.wait_synced()
    return berth


def _distrusts(berth: Berth) -> bool:
    return any("certificate verify failed" in str(line) for line in berth.lines(LISTED))
