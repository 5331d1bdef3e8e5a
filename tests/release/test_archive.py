"""The kubectl plugin as one download: built for this platform, installed by krew, used where there is nothing else."""

from __future__ import annotations

import hashlib
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import yaml

import podberth
from tests.controlplane.once import cache, once

pytestmark = pytest.mark.timeout(900)  # where PyInstaller has its part to do, beside all other tests
ROOT = Path(__file__).parents[2]
EXPLAIN: tuple[str | Path, ...] = ("berth", "explain", "report", "--cluster", ROOT / "examples/explain/cluster.yaml")
IMPORT = re.compile(r"^ *(?:import|from) +(?!podberth)([a-z]\S*)", re.MULTILINE)


def _key() -> str:
    """What PyInstaller's part of the archive follows from: Berth is in it as files, so its own code is not."""
    digest = hashlib.sha256(sys.version.encode())
    for file in (ROOT / "requirements.lock", *sorted((ROOT / "packaging").glob("kubectl*"))):
        digest.update(file.read_bytes())
    files = (ROOT / "scheduler" / "podberth").rglob("*.py")
    digest.update(" ".join(sorted({name for file in files for name in IMPORT.findall(file.read_text())})).encode())
    return digest.hexdigest()[:16]


def _built(partial: Path) -> None:
    """Have PyInstaller look through all packages: a minute of CPU, once."""
    where = [f"--distpath={partial}", f"--workpath={partial / 'work'}", "--noconfirm", "--log-level=ERROR"]
    command: list[str | Path] = [Path(sys.executable).with_name("pyinstaller"), *where]
    done = subprocess.run([*command, ROOT / "packaging" / "kubectl-berth.spec"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    shutil.rmtree(partial / "work")


@pytest.fixture(scope="module")
def home(
    release: ModuleType, krew: Path, control_plane_binaries: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A home where krew has installed the archive, and nothing else ever was."""
    work = tmp_path_factory.mktemp("archive")
    made = work / "kubectl-berth"
    shutil.copytree(once(cache() / "archive" / _key(), "the archive", _built) / "kubectl-berth", made, symlinks=True)
    ours = made / "_internal" / "podberth"
    shutil.rmtree(ours)
    shutil.copytree(ROOT / "scheduler" / "podberth", ours, ignore=shutil.ignore_patterns("__pycache__"))
    machine = release.MACHINES[platform.machine()]
    archive = work / f"berth-{podberth.__version__}-{sys.platform}-{machine}.tar.gz"
    release.archive(made, archive)
    manifest = work / "berth.yaml"
    manifest.write_text(release.manifest([archive], podberth.__version__))
    home = work / "home"
    home.mkdir()
    environment = {"HOME": str(home), "PATH": str(control_plane_binaries), "KREW_NO_UPGRADE_CHECK": "1"}
    command: list[str | Path] = [krew, "install", f"--manifest={manifest}", f"--archive={archive}"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return home


def kubectl(home: Path, binaries: Path, *args: str | Path) -> subprocess.CompletedProcess[str]:
    """Run kubectl with a PATH that has the plugin and nothing else."""
    environment = {"HOME": str(home), "PATH": str(home / ".krew" / "bin")}
    command = [binaries / "kubectl", *args]
    return subprocess.run(command, env=environment, cwd=home, capture_output=True, text=True, timeout=60)


def test_it_explains(home: Path, control_plane_binaries: Path) -> None:
    """As the package does, and leaves nothing in the home but what krew has put there."""
    before = sorted(home.rglob("*"))
    done = kubectl(home, control_plane_binaries, *EXPLAIN)
    assert done.returncode == 1, done.stderr
    assert sorted(home.rglob("*")) == before
    command: list[str | Path] = [Path(sys.executable).with_name("kubectl-berth"), *EXPLAIN[1:]]
    package = subprocess.run(command, env={"HOME": str(home)}, capture_output=True, text=True, check=False)
    assert done.stdout == package.stdout
    said = kubectl(home, control_plane_binaries, "berth", "version")
    assert said.stdout == f"berth {podberth.__version__}\n"


def test_what_it_starts_has_its_own_libraries(home: Path, control_plane_binaries: Path, tmp_path: Path) -> None:
    """A credential plugin is run by Kubernetes' client, which is in the archive, too; ours are no business of it."""
    seen = tmp_path / "seen"
    given = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "interactiveMode": "Never",
        "command": "/bin/sh",
        "args": ["-c", f"echo path=$LD_LIBRARY_PATH > {seen}; exit 3"],
    }
    config = {
        "clusters": [{"name": "a", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "a", "user": {"exec": given}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "current-context": "a",
    }
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    done = kubectl(home, control_plane_binaries, "berth", "explain", "web", f"--kubeconfig={tmp_path / 'config'}")
    assert done.returncode == 2
    assert "exited with code 3" in done.stderr.replace("process returned", "exited with code")
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert seen.read_text() == "path=\n"


def test_it_has_the_licenses(home: Path) -> None:
    """Ours, and those of what it carries."""
    store = home / ".krew" / "store" / "berth" / f"v{podberth.__version__}"
    assert list(store.rglob("LICENSE"))
    carried = {file.parent.name.partition("-")[0] for file in store.rglob("*.dist-info/METADATA")}
    assert {"podberth", "numpy", "kubernetes", "aiohttp", "cryptography"} <= carried
