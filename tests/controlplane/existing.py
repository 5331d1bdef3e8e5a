"""A cluster that somebody already has, from a kubeconfig."""

from __future__ import annotations

import tempfile
from base64 import b64decode
from pathlib import Path
from typing import Any

import yaml

from tests.controlplane import warden
from tests.controlplane.api import Api
from tests.controlplane.cluster import Cluster


class ExistingCluster(Cluster):
    """The cluster of a kubeconfig's current context; tokens and client certificates, no exec plugins."""

    def __init__(self, kubeconfig: Path) -> None:
        document = yaml.safe_load(kubeconfig.read_text())
        directory = Path(tempfile.mkdtemp(prefix="berth-cluster-"))
        warden.sweep(directory)
        context = _named(document["contexts"], document["current-context"])["context"]
        server = _named(document["clusters"], context["cluster"])["cluster"]
        user = _named(document["users"], context["user"])["user"]
        understood = {"token", "client-certificate", "client-certificate-data", "client-key", "client-key-data"}
        if not user.keys() <= understood:
            raise ValueError(f"{kubeconfig}: user {context['user']!r} needs {', '.join(user.keys() - understood)}")
        files = {name: _file(user, name, kubeconfig, directory) for name in ("client-certificate", "client-key")}
        ca = _file(server, "certificate-authority", kubeconfig, directory)
        admin = {name: str(file) for name, file in files.items() if file is not None}
        if "token" in user:
            admin["token"] = user["token"]
        super().__init__(server["server"], admin, ca, directory)

    def _admin_api(self) -> Api:
        certificate = None
        if "client-certificate" in self.admin:
            certificate = (Path(self.admin["client-certificate"]), Path(self.admin["client-key"]))
        return Api(self.url, token=self.admin.get("token"), ca=self.ca, certificate=certificate)


def _named(entries: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(entry for entry in entries if entry["name"] == name)


def _file(entry: dict[str, Any], name: str, kubeconfig: Path, directory: Path) -> Path | None:
    """The file that a field names, relative to the kubeconfig, or one written from its inline `-data`."""
    if f"{name}-data" in entry:
        written = directory / name
        written.write_bytes(b64decode(entry[f"{name}-data"]))
        written.chmod(0o600)
        return written
    return kubeconfig.parent / entry[name] if name in entry else None
