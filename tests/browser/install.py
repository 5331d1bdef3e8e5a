"""Get a Chromium once, into the user's cache, from Debian's packages; `python -m tests.browser.install`.

Nothing on the machine changes and no rights are wanted: packages are unpacked beside each other, with those libraries
that the machine lacks. A Chromium on the PATH is taken as it is.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.controlplane.once import BuildError, UnreachableError, cache, main, once, say

NAMES = ("chromium", "chromium-browser", "google-chrome", "chromium-headless-shell")
PACKAGE = "chromium-headless-shell"
SCRIPT = """\
#!/bin/sh
export LD_LIBRARY_PATH='{libraries}'
exec '{program}' "$@"
"""


def chromium() -> Path:
    """The command, installed first when it is not there; raise UnreachableError or BuildError."""
    if found := next(filter(None, map(shutil.which, NAMES)), None):
        return Path(found)
    target = cache() / "chromium" / os.uname().machine
    return once(target, "Chromium", functools.partial(_install, target)) / "chromium"


def _install(target: Path, partial: Path) -> None:
    if shutil.which("apt-get") is None:
        raise UnreachableError("there is no Chromium on the PATH, and no apt-get to get one with")
    say("Getting Chromium for tests: once, 100 MB.")
    for name in ("lists/partial", "cache/archives/partial", "debs"):
        (partial / name).mkdir(parents=True)
    _apt(partial, "update", "-o", "APT::Update::Error-Mode=any")
    planned = _apt(partial, "install", "--simulate", "--no-install-recommends", PACKAGE)
    missing = [line.split()[1] for line in planned.splitlines() if line.startswith("Inst ")]
    _apt(partial, "download", *missing)
    for package in sorted((partial / "debs").iterdir()):
        done = subprocess.run(["dpkg-deb", "--extract", package, partial / "root"], capture_output=True, text=True)
        if done.returncode != 0:
            raise BuildError(f"unpacking {package.name}: {done.stderr}")
    for name in ("lists", "cache", "debs"):
        shutil.rmtree(partial / name)
    program = target / "root/usr/lib/chromium" / PACKAGE
    folders = sorted({file.parent for file in (partial / "root/usr/lib").rglob("*.so*")})
    libraries = ":".join(str(target / folder.relative_to(partial)) for folder in folders)
    script = partial / "chromium"
    script.write_text(SCRIPT.format(libraries=libraries, program=program))
    script.chmod(0o755)


def _apt(home: Path, *arguments: str) -> str:
    """What apt-get says, with lists and archives of our own, as others are root's and may be old."""
    options = {
        "Dir::State::lists": home / "lists",
        "Dir::State::status": "/var/lib/dpkg/status",
        "Dir::Cache": home / "cache",
        "Debug::NoLocking": "true",
        "APT::Sandbox::User": "",  # or, for root, a user that can't write here
    }
    given = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    command = ["apt-get", *given, *arguments]
    english = os.environ | {"LC_ALL": "C"}
    done = subprocess.run(command, cwd=home / "debs", env=english, capture_output=True, text=True)
    if done.returncode != 0:
        said = [line for line in done.stderr.splitlines() if line.startswith("E:")] or [done.stderr[-300:]]
        raise UnreachableError(f"apt-get {arguments[0]}: {said[0]}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main("Chromium", (chromium,)))
