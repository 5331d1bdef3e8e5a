"""Get axe-core once, into the user's cache, from the npm registry; `python -m tests.browser.axe`.

It finds what keeps people with a screen reader, or without a mouse, from using a page. The version is pinned by its
integrity, as a lock file would pin it.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

from tests.browser.tab import Tab
from tests.controlplane.once import BuildError, UnreachableError, cache, main, once, say

VERSION = "4.10.3"
INTEGRITY = "Xm7bpRXnDSX2YE2YFfBk2FnF0ep6tmG7xPh8iHee8MIcrgq762Nkce856dYtJYLkuIoYZvGfTs/PbZhideTcEg=="
"""The sha512 of the package."""
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]
"""The sets of rules that a page has to keep."""


def axe() -> Path:
    """The script, got first when it is not there; raise UnreachableError or BuildError."""
    target = cache() / "axe" / VERSION
    return once(target, "axe-core", _get) / "axe.min.js"


def _get(partial: Path) -> None:
    if shutil.which("npm") is None:
        raise UnreachableError("there is no npm to get axe-core with")
    say("Getting axe-core for tests: once, 0.6 MB.")
    command = ["npm", "pack", f"axe-core@{VERSION}", "--silent"]
    done = subprocess.run(command, cwd=partial, capture_output=True, text=True)
    package = partial / f"axe-core-{VERSION}.tgz"
    if done.returncode != 0 or not package.exists():
        raise UnreachableError(f"npm pack: {done.stderr[-300:]}")
    found = base64.b64encode(hashlib.sha512(package.read_bytes()).digest()).decode()
    if found != INTEGRITY:
        raise BuildError(f"axe-core {VERSION} is not the package that is pinned: sha512-{found}")
    with tarfile.open(package) as archive:
        script = archive.extractfile("package/axe.min.js")
        assert script is not None
        (partial / "axe.min.js").write_bytes(script.read())
    package.unlink()


async def faults(tab: Tab, script: Path) -> list[str]:
    """What axe finds in the page as it is now: rule, and the first element that breaks it."""
    if not await tab.ask("typeof axe === 'object'"):
        await tab.ask(f"{_source(script)}; true")
    said = "r.violations.map(v => `${v.id}: ${v.nodes[0].html}`)"
    found: Any = await tab.ask(f"axe.run(document, {{runOnly: {TAGS}}}).then(r => {said})")
    return list(found)


async def dressed(tab: Tab, scheme: str) -> None:
    """Show the page in light or dark."""
    await tab.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])


@functools.cache
def _source(script: Path) -> str:
    return script.read_text(encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main("axe-core", (axe,)))
