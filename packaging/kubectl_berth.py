"""The program that the archive of the kubectl plugin starts; PyInstaller builds it (kubectl-berth.spec)."""

import os

from podberth.cli.main import entry

# What this program starts, such as a cloud's exec plugin, is to find its own libraries, not ours.
for name in ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"):
    before = os.environ.pop(f"{name}_ORIG", None)
    if before is not None:
        os.environ[name] = before
    else:
        os.environ.pop(name, None)

entry()
