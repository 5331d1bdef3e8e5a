"""The Dockerfile without a container engine: linted, and its build stage carried out in a clean folder."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import podberth
from tests.controlplane.golang import NETWORK_FAULTS

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "Dockerfile").read_text()
LOCKED = re.compile(r"^([a-z0-9][a-z0-9._-]*)==(\S+)", re.MULTILINE)


def stages() -> list[list[tuple[str, str]]]:
    """(instruction, what follows) of each stage."""
    lines = re.sub(r"^#.*\n", "", TEXT, flags=re.MULTILINE).replace("\\\n", " ")
    found: list[list[tuple[str, str]]] = []
    for line in filter(None, lines.splitlines()):
        word, _, rest = line.partition(" ")
        if word == "FROM":
            found.append([])
        if found:
            found[-1].append((word, rest.strip()))
    return found


def locked(name: str) -> dict[str, str]:
    """Package → version and hashes of a lock."""
    blocks = re.split(r"\n(?=[a-z0-9])", (ROOT / name).read_text())
    keys = [LOCKED.match(block) for block in blocks]
    hashes = [" ".join(sorted(re.findall(r"sha256:[0-9a-f]{64}", block))) for block in blocks]
    return {key[1]: f"{key[2]} {found}" for key, found in zip(keys, hashes, strict=True) if key}


class Kitchen:
    """Carries out a build stage below a folder: COPY, ENV, WORKDIR, and RUN with the same shell words."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.at = folder
        # Of the caller's variables only where packages come from.
        wanted = re.compile(r"^(PIP|UV|SSL|HTTPS?|NO|https?|no)_|^PATH$|^LANG$")
        self.environment = {key: value for key, value in os.environ.items() if wanted.match(key)}
        self.environment |= {"HOME": str(folder)}
        self.environment["PATH"] = f"{Path(sys.executable).parent}:{self.environment['PATH']}"

    def do(self, word: str, rest: str) -> None:
        """One instruction."""
        if word == "WORKDIR":
            self.at = self.folder / rest.strip("/")
            self.at.mkdir(parents=True)
        elif word == "ENV":
            self.environment |= dict(pair.split("=", 1) for pair in rest.split())
        elif word == "COPY":
            *sources, target = rest.split()
            for source in sources:
                self._copy(ROOT / source, self.at / target)
        elif word == "RUN":
            command = rest.replace("/opt/", f"{self.folder}/opt/")
            done = subprocess.run(
                ["sh", "-ec", command], cwd=self.at, env=self.environment, capture_output=True, text=True
            )
            if done.returncode != 0 and NETWORK_FAULTS.search(done.stderr):
                pytest.skip(f"packages are out of reach: {done.stderr.splitlines()[-1]}")
            assert done.returncode == 0, f"{rest}\n{done.stdout}{done.stderr}"
        else:
            assert word == "FROM", word

    def _copy(self, source: Path, target: Path) -> None:
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
            return
        if target.is_dir() or target.name == "image":
            target.mkdir(exist_ok=True)
            target /= source.name
        shutil.copy(source, target)


@pytest.fixture(scope="module")
def cooked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What the build stage leaves at /opt/berth."""
    folder = tmp_path_factory.mktemp("image")
    kitchen = Kitchen(folder)
    for word, rest in stages()[0]:
        kitchen.do(word, rest)
    yield folder / "opt" / "berth"
    shutil.rmtree(folder)  # a hundred megabytes


@pytest.mark.real
def test_build_stage(cooked: Path) -> None:
    """What it leaves starts, from its own files alone, and has exactly the packages of run.lock and Berth.

    All that a service imports of it has its byte code: the image writes none, and would compile it at each start.
    """
    bare = {"PATH": f"{cooked}/bin:/usr/bin:/bin"}
    done = subprocess.run(["berth", "version"], env=bare, cwd=cooked, capture_output=True, text=True, check=True)
    assert done.stdout == f"berth {podberth.__version__}\n"
    code = (
        "import importlib.metadata as m, podberth.cli.run, podberth.cli.operator, podberth.cli.admission\n"
        "print(podberth.__file__, *sorted(d.name.lower() for d in m.distributions()))"
    )
    done = subprocess.run(["python", "-Ic", code], env=bare, cwd=cooked, capture_output=True, text=True, check=True)
    where, *packages = done.stdout.split()
    assert Path(where).is_relative_to(cooked)
    wanted = set(LOCKED.findall((ROOT / "image" / "run.lock").read_text()))
    names = {name.replace("_", "-") for name in packages}
    # The lock is for every platform: some of it is for others.
    assert names - {name for name, _ in wanted} == {"podberth"}
    assert {"numpy", "aiohttp", "kopf", "uvloop", "msgspec"} <= names
    code = (
        "import os, sys, podberth.app.run, podberth.cli.run, podberth.service.certificate, uvloop\n"
        "found = [m.__cached__ for m in [*sys.modules.values()] if getattr(m, '__cached__', None)]\n"
        "print(*(one for one in found if one.startswith(sys.prefix) and not os.path.exists(one)))"
    )
    asked = ["python", "-BIc", code]
    done = subprocess.run(asked, env=bare, cwd=cooked, capture_output=True, text=True, check=True)
    assert done.stdout == "\n"


@pytest.mark.real
def test_a_newcomer_gets_to_an_explanation(cooked: Path, control_plane_binaries: Path, tmp_path: Path) -> None:
    """With the wheel and the lock in a fresh virtual environment, in a home where nothing is: the README's commands.

    kubectl finds the plugin by itself, and nothing is written into the home.
    """
    readme = (ROOT / "README.md").read_text()
    found = re.search(r"^cd (examples/\w+)\n(.*?)```", readme, re.MULTILINE | re.DOTALL)
    assert found is not None
    commands = re.findall(r"^(berth explain .*?) *(?:#.*)?$", found[2], re.MULTILINE)
    assert len(commands) > 1
    bare = {"PATH": f"{cooked}/bin", "HOME": str(tmp_path)}
    for command in commands:
        asked: list[str | Path] = [control_plane_binaries / "kubectl", *shlex.split(command)]
        done = subprocess.run(asked, env=bare, cwd=ROOT / found[1], capture_output=True, text=True)
        assert done.returncode in (0, 1), done.stderr
        assert "node" in done.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(shutil.which("hadolint", path=str(Path(sys.executable).parent)) is None, reason="amd64 only")
def test_lint() -> None:
    """hadolint has nothing to say."""
    hadolint = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([hadolint, ROOT / "Dockerfile"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


def test_locks_agree() -> None:
    """What the image has is what the tests ran with, hash by hash; nothing of the tests' tools is in it."""
    everything = locked("requirements.lock")
    run, build = locked("image/run.lock"), locked("image/build.lock")
    assert {name for name in run if run[name] != everything.get(name)} == set()
    assert {name for name in build if name != "uv" and build[name] != everything.get(name)} == set()
    assert not {"pytest", "mypy", "ruff", "hypothesis", "hatchling", "pip", "uv"} & set(run)


def test_runtime_stage() -> None:
    """It takes the environment and an allocator, removes pip, compiles what stays, and is nobody with a number."""
    _, runtime = stages()
    assert [rest for word, rest in runtime if word == "COPY"] == ["--from=build /opt/berth /opt/berth"]
    assert ("USER", "65532:65532") in runtime
    assert ("ENTRYPOINT", '["berth"]') in runtime
    allocator, removal = (rest for word, rest in runtime if word == "RUN")
    assert re.findall(r"apt-get install .* '(\S+)=", allocator) == ["libjemalloc2"]
    # By its soname alone it is found on every architecture.
    assert ("ENV", "LD_PRELOAD=libjemalloc.so.2") in runtime
    assert "pip uninstall" in removal
    compiled = removal.partition("compileall")[2].split()
    assert compiled == ["-q", "--invalidation-mode", "unchecked-hash", "/usr/local/lib/python3*"]


def test_context() -> None:
    """.dockerignore lets through what is copied, and nothing else."""
    lines = (ROOT / ".dockerignore").read_text().split("\n")
    let = {line[1:] for line in lines if line.startswith("!")}
    copied = [rest.split()[:-1] for word, rest in stages()[0] if word == "COPY"]
    assert {source for sources in copied for source in sources} == (let - {"image/*.lock"}) | {
        "image/build.lock",
        "image/run.lock",
    }
