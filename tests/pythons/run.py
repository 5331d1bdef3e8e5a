"""The fast tests on each supported Python but the one that runs this, at the same time: `python -m tests.pythons.run`.

Versions that this machine lacks are named at the end. Exit code 1 when a test failed, or did not end in time.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.pythons.find import ROOT, find, of_the_image, supported

OWN = f"{sys.version_info[0]}.{sys.version_info[1]}"
HOMES = Path(sys.prefix) / "pythons"
"""`make clean` removes them with the virtual environment."""
SLOW = ("tests/storm", "tests/unit/bench")
"""Fast tests that take minutes, and say nothing of a version that the others do not say."""
SECONDS = 1800
"""For the setup and the tests of one version."""
SHOWN = 60
"""Lines of a run that failed."""


class Run:
    """One version: a virtual environment of its own, and the fast tests in it."""

    def __init__(self, version: str, interpreter: str) -> None:
        self.version = version
        self._log = HOMES / f"{version}.log"
        home = HOMES / version
        HOMES.mkdir(exist_ok=True)
        with self._log.open("wb") as log:
            make = ["make", "--no-print-directory", "unit", f"VENV={home}", f"PYTHON={interpreter}"]
            env = os.environ | {"PYTEST_ADDOPTS": " ".join(f"--ignore={folder}" for folder in SLOW)}
            # A group of its own, so that it can be ended with all that it started.
            self._process = subprocess.Popen(
                make, cwd=ROOT, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def end(self) -> bool:
        """Wait, say how it went, and whether it went well."""
        try:
            code = self._process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            code = self._process.wait()
        lines = self._log.read_text(errors="replace").splitlines()
        print(f"Python {self.version}, fast tests:")
        print("\n".join(lines[-1:] if code == 0 else lines[-SHOWN:]), flush=True)
        return code == 0

    def kill(self) -> None:
        """End it, if it still runs."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)


def main() -> int:
    """Run them all; the exit code."""
    places = {version: find(version) for version in supported() if version != OWN}
    runs = [Run(version, place) for version, place in places.items() if place is not None]
    try:
        well = [run.end() for run in runs]
    finally:
        for run in runs:
            run.kill()
    ran = ", ".join(["all tests on Python " + OWN, *(f"the fast ones on {run.version}" for run in runs)])
    print(f"Ran {ran}.")
    lacking = [version for version, place in places.items() if place is None]
    if lacking:
        image = f" The image runs {of_the_image()}." if of_the_image() in lacking else ""
        print(f"Not here, and so not tested: Python {', '.join(lacking)}.{image}")
    return 0 if all(well) else 1


if __name__ == "__main__":
    sys.exit(main())
