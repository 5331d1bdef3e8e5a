"""Build etcd, kube-apiserver, kube-scheduler and kubectl once, into the user's cache.

Run as `python -m tests.controlplane.build` (which `make controlplane` does). Standard library only: it may be the first
thing that a fresh clone runs. Exit code 0 built or already there, 1 failed, 3 the Go modules can't be reached.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tests.controlplane import golang, warden
from tests.controlplane.golang import BuildError, UnreachableError

HERE = Path(__file__).parent
MODULE = (HERE / "go.mod").read_text()
VERSION = re.findall(r"^(?:require)?\s+k8s\.io/kubernetes (v\S+)", MODULE, re.MULTILINE)[0]
GO_WANTED = re.findall(r"^go (\S+)$", MODULE, re.MULTILINE)[0]

ORACLE = HERE.parent / "differential" / "oracle"
BINARIES = ("etcd", "kube-apiserver", "kube-scheduler", "kubectl")
PACKAGES = ("./etcd", *(f"k8s.io/kubernetes/cmd/{name}" for name in BINARIES[1:]))


def _stamps() -> str:
    """Linker flags that make the binaries answer with their release, as upstream's hack/lib/version.sh does."""
    major, minor, _ = VERSION.removeprefix("v").split(".")
    facts = {"gitMajor": major, "gitMinor": minor, "gitVersion": VERSION, "gitCommit": "", "gitTreeState": "clean"}
    modules = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return " ".join(["-s -w"] + [f"-X {module}.{name}={value}" for module in modules for name, value in facts.items()])


# The tags are upstream's (hack/lib/golang.sh); grpcnotrace lets the linker drop unused code.
FLAGS = ("-trimpath", "-tags", "selinux,notest,grpcnotrace", "-ldflags", _stamps())


def cache() -> Path:
    """Where Berth keeps what is costly to make."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "berth"


def place() -> Path:
    """The directory for exactly these sources and flags on this kind of machine."""
    digest = hashlib.sha256()
    for file in ("go.mod", "go.sum", "etcd/main.go"):
        digest.update((HERE / file).read_bytes())
    digest.update(" ".join((*FLAGS, *PACKAGES, sys.platform, os.uname().machine)).encode())
    return cache() / "controlplane" / digest.hexdigest()[:16]


def binaries() -> Path:
    """The directory with the binaries, built first when they are not there; raise UnreachableError or BuildError."""
    given = os.environ.get("KUBEBUILDER_ASSETS")
    if given:
        missing = [name for name in ("etcd", "kube-apiserver") if not (Path(given) / name).is_file()]
        if missing:
            raise BuildError(f"KUBEBUILDER_ASSETS={given} has no {' and no '.join(missing)}")
        return Path(given)
    target = place()
    _once(target, "the control plane", PACKAGES, "once, about 7 minutes on 2 cores")
    return target


def oracle() -> Path:
    """The oracle of tests/differential, built first when it is not there; raise UnreachableError or BuildError.

    Its files are compiled in the control plane's module and with its flags: all packages but its own are shared.
    """
    return _compiled("oracle", "the oracle", sorted(ORACLE.glob("*.go")))


def garbage_collector() -> Path:
    """kube-controller-manager's garbage collector alone, built as the oracle is."""
    return _compiled("gc", "the garbage collector", [HERE / "gc" / "main.go"])


def _compiled(name: str, what: str, sources: Sequence[Path]) -> Path:
    digest = hashlib.sha256()
    for file in (HERE / "go.mod", HERE / "go.sum", *sources):
        digest.update(file.read_bytes())
    digest.update(" ".join((*FLAGS, sys.platform, os.uname().machine)).encode())
    target = cache() / name / digest.hexdigest()[:16]
    _once(target, what, [str(file) for file in sources], "once, half a minute after the control plane")
    return target / name


def _once(target: Path, what: str, packages: Sequence[str], long: str) -> None:
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with _alone(target.parent / "lock", what):
            if not target.exists():
                _build(target, what, packages, long)


@contextlib.contextmanager
def _alone(lock: Path, what: str) -> Iterator[None]:
    with lock.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say(f"Another run is building {what}; waiting for it.")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _build(target: Path, what: str, packages: Sequence[str], long: str) -> None:
    _say(f"Building {what} for tests, Kubernetes {VERSION}: {long}.")
    began = time.monotonic()
    go = golang.find(GO_WANTED, cache())
    listed = _run(
        [go, "list", "-deps", *FLAGS[:3], *packages],
        "downloading Go modules",
        "{said} modules",
        golang.download_failure,
    )
    total = len(listed)
    partial = target.with_suffix(".partial")  # whoever holds the lock owns it
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    # Files are one command, which Go would name after the first of them.
    output = f"{partial}/{target.parent.name}" if packages[0].endswith(".go") else f"{partial}/"
    _run(
        [go, "build", "-v", *FLAGS, "-o", output, *packages],
        f"building {what}",
        f"{{packages:,}} packages of at most {total:,}",
        golang.failure,  # everything is downloaded: from here on the network is no excuse
    )
    partial.rename(target)
    _say(f"Built in {_clock(time.monotonic() - began)}, kept in {target}")


def _run(command: list[str | Path], step: str, counted: str, failure: Callable[[str, str], Exception]) -> list[str]:
    """Run a go command, showing how far it is; give its lines that name a package."""
    child = subprocess.Popen(
        command,
        cwd=HERE,
        env=golang.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    warden.watch(child.pid)
    packages: list[str] = []
    said: list[str] = []

    def read() -> None:
        assert child.stdout is not None
        for line in child.stdout:
            (said if " " in line or ":" in line else packages).append(line.rstrip())

    reader = threading.Thread(target=read)
    reader.start()
    try:
        _show_until(reader, lambda: f"{step}: {counted.format(packages=len(packages), said=len(said))}")
    finally:
        if reader.is_alive():  # interrupted
            os.killpg(child.pid, 9)
            reader.join()
        code = child.wait()
        warden.forget(child.pid)
        assert child.stdout is not None
        child.stdout.close()
    if code != 0:
        raise failure(step, "\n".join(said))
    return packages


def _show_until(reader: threading.Thread, now: Callable[[], str]) -> None:
    live = sys.stderr.isatty()
    began = time.monotonic()
    while True:
        reader.join(1 if live else 30)
        if live:
            sys.stderr.write(f"\r\x1b[K{_clock(time.monotonic() - began)} {now()}")
            sys.stderr.flush()
        if not reader.is_alive():
            break
        if not live:
            _say(f"{_clock(time.monotonic() - began)} {now()}")
    if live:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main() -> int:
    """Build if needed, and print where the control plane, the oracle and the garbage collector are."""
    try:
        print(binaries())
        print(oracle())
        print(garbage_collector())
    except UnreachableError as error:
        _say(f"The control plane can't be built here, what it needs is out of reach: {error}")
        return 3
    except BuildError as error:
        _say(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
