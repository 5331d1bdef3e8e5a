"""Kubeconfigs and certificates made on the spot, for the kube room's tests."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import yaml


class Authority:
    """A CA that issues certificates with openssl."""

    def __init__(self, where: Path, name: str) -> None:
        self.where = where
        self.cert = where / f"{name}.crt"
        self.key = where / f"{name}.key"
        self._openssl("req", "-x509", *self._new(self.key), "-out", self.cert, "-days", "2", "-subj", f"/CN={name}")

    def issue(self, name: str, names: str = "IP:127.0.0.1,DNS:api.test") -> tuple[Path, Path]:
        """A certificate for client use, and for that of a server of these names, with its key."""
        cert, key, request = (self.where / f"{name}.{end}" for end in ("crt", "key", "csr"))
        extensions = self.where / f"{name}.ext"
        extensions.write_text(f"subjectAltName={names}\n")
        self._openssl("req", *self._new(key), "-out", request, "-subj", f"/CN={name}")
        sign = ("-CA", self.cert, "-CAkey", self.key, "-CAcreateserial", "-days", "2", "-extfile", extensions)
        self._openssl("x509", "-req", "-in", request, "-out", cert, *sign)
        return cert, key

    @staticmethod
    def _new(key: Path) -> tuple[object, ...]:
        return ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key)

    @staticmethod
    def _openssl(*words: object) -> None:
        subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)


def kubeconfig(
    where: Path,
    *,
    cluster: dict[str, Any] | None = None,
    user: dict[str, Any] | None = None,
    name: str = "config",
    **more: Any,
) -> str:
    """Write a kubeconfig with one context `one`; `more` replaces whole top-level fields."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "one",
        "contexts": [{"name": "one", "context": {"cluster": "c", "user": "u", "namespace": "team"}}],
        "clusters": [{"name": "c", "cluster": {"server": "http://10.0.0.1:8080/", **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
        **more,
    }
    path = where / name
    path.write_text(yaml.safe_dump(document))
    return str(path)
