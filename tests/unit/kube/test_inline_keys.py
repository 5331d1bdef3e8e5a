"""Keys and certificates that a kubeconfig holds inline: where they are while we run, and after we were killed."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from podberth.kube.connection import as_file
from tests.unit.kube.kubeconfigs import Authority, kubeconfig

CONNECTS = """
import sys, time
from podberth.kube.kubeconfig import connect
connect(sys.argv[1]).tls.context()
print("connected", flush=True)
time.sleep(300)
"""


def _token() -> str:
    parts = ({"alg": "none"}, {"exp": 4102444800})
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts) + ".x"


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="only Linux has files in memory")
@pytest.mark.parametrize("provider", [False, True], ids=["plain", "auth provider"])
def test_nothing_stays_after_a_kill(tmp_path: Path, provider: bool) -> None:
    """While a process uses inline keys they are in no directory, so that nothing is left when it is killed."""
    authority = Authority(tmp_path, "ca")
    cert, key = authority.issue("jane")

    def data(path: Path) -> str:
        return base64.b64encode(path.read_bytes()).decode()

    cluster = {"server": "https://127.0.0.1:1", "certificate-authority-data": data(authority.cert)}
    user: dict[str, object] = {"client-certificate-data": data(cert), "client-key-data": data(key)}
    if provider:
        user["auth-provider"] = {"name": "oidc", "config": {"id-token": _token()}}
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-c", CONNECTS, kubeconfig(tmp_path, cluster=cluster, user=user)],
        env={**os.environ, "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"connected\n"
        during = sorted(temporary.rglob("*"))
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert during == []
    assert sorted(temporary.rglob("*")) == []


def test_without_files_in_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A private temporary file does where the system has none in memory, for as long as it is read."""
    monkeypatch.delattr(os, "memfd_create", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with as_file(b"secret") as name:
        path = Path(name)
        assert path.parent == tmp_path
        assert path.stat().st_mode & 0o077 == 0
        assert path.read_bytes() == b"secret"
    assert not path.exists()
