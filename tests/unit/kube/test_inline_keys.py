"""Keys and certificates that a kubeconfig holds inline: where they are while we run, and after we were killed."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from podberth.kube.kubeconfig import PrivateFiles
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


@pytest.fixture
def files() -> Iterator[PrivateFiles]:
    """Room for four files."""
    made = PrivateFiles(4)
    yield made
    made.close()
    assert len(made) == 0


def test_the_same_contents_are_one_file_and_old_ones_go(files: PrivateFiles) -> None:
    """Certificates that a plugin renews for ever take no more files than there is room for."""
    kept = files.name_of(b"kept")
    names = []
    for i in range(20):
        names.append(files.name_of(b"%d" % i))
        assert files.name_of(b"kept") == kept
    assert len(files) == 4
    assert Path(kept).read_bytes() == b"kept"
    assert Path(names[-1]).read_bytes() == b"19"


def test_without_files_in_memory(files: PrivateFiles, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A private temporary file does where the system has none in memory."""
    monkeypatch.delattr(os, "memfd_create", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    name = Path(files.name_of(b"secret"))
    assert name.parent == tmp_path
    assert name.stat().st_mode & 0o077 == 0
    assert name.read_bytes() == b"secret"
