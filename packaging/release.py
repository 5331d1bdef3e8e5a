"""Make what a release has besides packages, image and chart: notes, archives of the kubectl plugin, a krew manifest.

`make release-notes TAG=v0.1.0`, `make archive` and `make krew` run it. Standard library only, so that it works in a
fresh clone.
"""

from __future__ import annotations

import argparse
import compileall
import gzip
import hashlib
import os
import py_compile
import re
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
HOME = "https://github.com/podberth/berth"
"""The address of the project; a test holds all other places to it."""
MACHINES = {"x86_64": "amd64", "aarch64": "arm64", "arm64": "arm64"}
KREW = """\
apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: berth
spec:
  version: v{version}
  homepage: {home}
  shortDescription: Why a pod waits, what if, how many more fit
  description: |
    Answers questions about scheduling from your cluster, or from a dump of it:
    why a pod waits (node by node, in numbers, with changes that would free
    it), what would happen if pods were created or nodes drained, how many
    more pods fit. It asks kube-scheduler's rules and writes nothing. Nothing
    has to be installed in the cluster.
  caveats: |
    Plugins of your own (Python packages) can't be added to this program:
    install podberth from PyPI for that.
  platforms:
{platforms}"""
PLATFORM = """\
    - selector:
        matchLabels: {{os: {os}, arch: {arch}}}
      uri: {uri}
      sha256: {sha256}
      bin: kubectl-berth
"""


def version() -> str:
    """The package's version."""
    found = re.search(r'^__version__ = "(.+)"$', (ROOT / "scheduler/podberth/__init__.py").read_text(), re.MULTILINE)
    assert found is not None
    return found[1]


def notes(changelog: str, tag: str, home: str = HOME) -> str:
    """The changelog's section of a tag, with links that lead to the pages as they were then.

    Raise ValueError where there is no such section, or nothing in it.
    """
    wanted = re.escape(tag.removeprefix("v"))
    found = re.search(rf"^## {wanted}(?: [^\n]*)?\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    if found is None or not found[1].strip():
        raise ValueError(f"CHANGELOG.md: want a section `## {tag.removeprefix('v')}` with something in it")
    blob = f"{home}/blob/{tag}/"
    # A link to a heading of the changelog stays in it; whole addresses are left alone.
    text = re.sub(r"\]\(#", f"]({blob}CHANGELOG.md#", found[1].strip())
    return re.sub(r"\]\((?![a-z]+:)", f"]({blob}", text) + "\n"


def pack(folder: Path, target: Path) -> None:
    """Write a .tar.gz of what is in a folder; equal contents make equal archives.

    A link becomes the file that it leads to, as krew unpacks no links.
    """

    def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = entry.mtime = 0
        entry.uname = entry.gname = ""
        return entry

    with (
        target.open("wb") as file,
        gzip.GzipFile("", "wb", 6, file, 0) as packed,
        tarfile.open(fileobj=packed, mode="w", dereference=True) as archive,
    ):
        for one in sorted(folder.iterdir()):
            archive.add(one, one.name, filter=plain)


def archive(folder: Path, target: Path) -> None:
    """Pack what PyInstaller has made, when all of its modules are compiled: a start writes nothing.

    Has to be run by the version of Python that is in the folder. Raise ValueError where there is none, or a module that
    can't be compiled.
    """
    if not folder.is_dir():
        raise ValueError(f"{folder}: is no folder: `make archive` makes one by PyInstaller first")
    never_old = py_compile.PycInvalidationMode.UNCHECKED_HASH
    if not compileall.compile_dir(folder, quiet=1, force=True, stripdir=str(folder), invalidation_mode=never_old):
        raise ValueError(f"{folder}: some of its modules can't be compiled")
    pack(folder, target)


def manifest(archives: list[Path], of: str, home: str = HOME) -> str:
    """The krew manifest of these archives, berth-VERSION-OS-ARCH.tar.gz each, of one version.

    Raise ValueError where there is none, or one of another version.
    """
    platforms = []
    for file in sorted(archives):
        found = re.fullmatch(rf"berth-{re.escape(of)}-([a-z]+)-([a-z0-9]+)\.tar\.gz", file.name)
        if found is None:
            raise ValueError(f"{file.name}: want berth-{of}-OS-ARCH.tar.gz")
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        uri = f"{home}/releases/download/v{of}/{file.name}"
        platforms.append(PLATFORM.format(os=found[1], arch=found[2], uri=uri, sha256=digest))
    if not platforms:
        raise ValueError(f"dist/: want archives, berth-{of}-OS-ARCH.tar.gz (make archive)")
    return KREW.format(version=of, home=home, platforms="".join(platforms))


def main(arguments: list[str]) -> int:
    """Make one of them in dist/, and print its name."""
    parser = argparse.ArgumentParser(description="Make one part of a release, in dist/.")
    parser.add_argument("part", choices=("notes", "archive", "krew"))
    parser.add_argument("of", nargs="?", help="notes: the tag; archive: the folder")
    given = parser.parse_args(arguments)
    if given.of is None and given.part != "krew":
        parser.error(f"{given.part}: want {'a tag' if given.part == 'notes' else 'a folder'}")
    DIST.mkdir(exist_ok=True)
    try:
        if given.part == "notes":
            if given.of != f"v{version()}":
                raise ValueError(f"tag {given.of}: want v{version()}, the version of the package")
            made = DIST / "notes.md"
            made.write_text(notes((ROOT / "CHANGELOG.md").read_text(), given.of))
        elif given.part == "archive":
            system = os.uname()
            if system.machine not in MACHINES:
                raise ValueError(f"machine {system.machine}: want one of {', '.join(MACHINES)}")
            platform = f"{system.sysname.lower()}-{MACHINES[system.machine]}"
            made = DIST / f"berth-{version()}-{platform}.tar.gz"
            archive(Path(given.of), made)
        else:
            made = DIST / "berth.yaml"
            made.write_text(manifest(list(DIST.glob("berth-*.tar.gz")), version()))
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    print(made.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
