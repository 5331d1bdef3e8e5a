"""Which Pythons are here. As a script, prints the one that the image runs, or else any: `make setup` takes that.

The Makefile starts this with whatever `python3` is, before there is a virtual environment.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
NEXT = "3.14"
"""What the package does not name yet: CI does not have it."""
_SECONDS = 20
"""For an interpreter to say its version."""


def supported() -> list[str]:
    """The versions that the package says it runs on, as 3.11."""
    return re.findall(r'"Programming Language :: Python :: (3\.\d+)"', (ROOT / "pyproject.toml").read_text())


def tried() -> list[str]:
    """The same, and the next one: wheels of all that is locked are there for it, so `make test` takes it if it can."""
    return [*supported(), NEXT]


def of_the_image() -> str:
    """The version that the image runs."""
    found = re.search(r"^ARG PYTHON_IMAGE=python:(3\.\d+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert found is not None, "the Dockerfile names no Python"
    return found[1]


def find(version: str) -> str | None:
    """An interpreter of this version that starts: on the PATH, or as pyenv and uv keep them."""
    return next((one for one in _candidates(version) if _starts(one, version)), None)


def _candidates(version: str) -> Iterator[str]:
    yield f"python{version}"
    yield "python3"
    home = Path.home()
    pyenv = Path(os.environ.get("PYENV_ROOT", home / ".pyenv")) / "versions"
    uv = Path(os.environ.get("UV_PYTHON_INSTALL_DIR", home / ".local/share/uv/python"))
    for folder, names in ((pyenv, f"{version}.*"), (uv, f"cpython-{version}.*")):
        yield from (str(found / "bin" / "python3") for found in sorted(folder.glob(names), reverse=True))


def _starts(interpreter: str, version: str) -> bool:
    """A name on the PATH may be pyenv's, which only says that the version is not chosen."""
    says = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"
    try:
        asked = subprocess.run([interpreter, "-c", says], capture_output=True, text=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return asked.returncode == 0 and asked.stdout.strip() == version


if __name__ == "__main__":
    sys.stdout.write(f"{find(of_the_image()) or 'python3'}\n")
