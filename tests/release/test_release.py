"""packaging/release.py: notes, archives and the krew manifest; and one home of the project in all files."""

from __future__ import annotations

import re
import subprocess
import tarfile
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
import yaml

import podberth
from tests.chart.rendering import CHART

ROOT = Path(__file__).parents[2]
CHANGELOG = """# Changelog

## Unreleased

- Not yet.

## 1.2.0 (2027-01-02)

A [page](docs/install.md#upgrade), [changes](#fixed), [elsewhere](https://example.org/a).

### Fixed
- All.

## 1.1.0

- Old.

## 1.0.0
"""


def test_notes(release: ModuleType) -> None:
    """The section of the tag, with links to what was there then."""
    blob = f"{release.HOME}/blob/v1.2.0"
    assert release.notes(CHANGELOG, "v1.2.0") == (
        f"A [page]({blob}/docs/install.md#upgrade), [changes]({blob}/CHANGELOG.md#fixed), "
        "[elsewhere](https://example.org/a).\n\n### Fixed\n- All.\n"
    )
    assert release.notes(CHANGELOG, "v1.1.0") == "- Old.\n"


@pytest.mark.parametrize("tag", ["v1.0.0", "v1.2", "v1x2.0"])
def test_no_notes(release: ModuleType, tag: str) -> None:
    """A section that is empty or absent is an error."""
    with pytest.raises(ValueError, match=f"want a section `## {tag[1:]}` with something in it"):
        release.notes(CHANGELOG, tag)


def test_the_tag_is_the_version(release: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    """Another is refused with one line."""
    assert release.main(["notes", "v9.9.9"]) == 2
    assert capsys.readouterr().err == f"tag v9.9.9: want v{podberth.__version__}, the version of the package\n"


def test_no_archive(release: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder that is missing, and a module that can't be compiled, are said in one line."""
    assert release.main(["archive", str(tmp_path / "none")]) == 2
    assert "is no folder" in capsys.readouterr().err
    (tmp_path / "broken.py").write_text("def")
    with pytest.raises(ValueError, match="can't be compiled"):
        release.archive(tmp_path, tmp_path / "made.tar.gz")
    with pytest.raises(SystemExit):
        release.main(["archive"])
    assert "archive: want a folder" in capsys.readouterr().err


def test_archives_are_reproducible(release: ModuleType, tmp_path: Path) -> None:
    """Equal files make equal archives, whoever made them when; modes are kept, and a link is a file."""
    made = []
    for number, name in enumerate(("one", "two")):
        folder = tmp_path / name
        (folder / "inner").mkdir(parents=True)
        (folder / "inner" / "program").write_text("#!/bin/sh\n")
        (folder / "inner" / "program").chmod(0o755)
        (folder / "link").symlink_to("inner/program")
        release.os.utime(folder / "inner" / "program", (number, number))
        made.append(tmp_path / f"{name}.tar.gz")
        release.pack(folder, made[-1])
    assert made[0].read_bytes() == made[1].read_bytes()
    with tarfile.open(made[0]) as archive:
        assert archive.getnames() == ["inner", "inner/program", "link"]
        assert archive.getmember("inner/program").mode == 0o755
        assert all(entry.isfile() or entry.isdir() for entry in archive)


PLATFORMS = ("darwin-arm64", "linux-amd64", "linux-arm64")


def archives(folder: Path, version: str = "1.2.0") -> list[Path]:
    """A file for each platform."""
    made = [folder / f"berth-{version}-{platform}.tar.gz" for platform in PLATFORMS]
    for file in made:
        file.write_text(file.name)
    return made


def test_krew_manifest(release: ModuleType, validate_krew_manifest: Path, tmp_path: Path) -> None:
    """Krew's validator takes it; each archive is there once with its hash."""
    file = tmp_path / "berth.yaml"
    files = archives(tmp_path)
    file.write_text(release.manifest(files, "1.2.0"))
    command: list[str | Path] = [validate_krew_manifest, "-manifest", file, "-skip-install"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    read = yaml.safe_load(file.read_text())["spec"]
    summed = subprocess.run(["sha256sum", *files], capture_output=True, text=True, check=True).stdout.split()[::2]
    assert [one["sha256"] for one in read["platforms"]] == summed
    assert len(read["shortDescription"]) <= 50
    file.write_text(release.manifest(files, "1.2.0").replace("arch: amd64", "arch: arm64"))
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode != 0
    assert "overlapping" in done.stderr


def test_no_krew_manifest(release: ModuleType, tmp_path: Path) -> None:
    """Of no archive, or of another version's."""
    with pytest.raises(ValueError, match="want archives"):
        release.manifest([], "1.2.0")
    with pytest.raises(ValueError, match=re.escape("berth-1.1.0-darwin-arm64.tar.gz: want berth-1.2.0-OS-ARCH.tar.gz")):
        release.manifest(archives(tmp_path, "1.1.0"), "1.2.0")


def test_one_home(release: ModuleType) -> None:
    """Package, chart, image, forms and pages name the same repository."""
    owner = release.HOME.removeprefix("https://github.com/")
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]
    assert urls["Source"] == release.HOME
    about = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert about["home"] == release.HOME
    assert release.HOME in about["sources"]
    assert yaml.safe_load((CHART / "values.yaml").read_text())["image"]["repository"] == f"ghcr.io/{owner}"
    assert f'image.source="{release.HOME}"' in (ROOT / "Dockerfile").read_text()
    install = (ROOT / "docs" / "install.md").read_text()
    (signer,) = re.findall(rf"{release.HOME}/(\S+)@refs/tags/v{podberth.__version__}", install)
    assert (ROOT / signer).is_file()
    texts = [
        *(ROOT / ".github").rglob("*.y*ml"),
        *ROOT.glob("*.md"),
        *(ROOT / "docs").glob("*.md"),
        CHART / "README.md",
    ]
    texts += [ROOT / "site" / name for name in ("hooks.py", "mkdocs.yml")]
    named = {found for file in texts for found in re.findall(r"github\.com/podberth/[\w-]+", file.read_text())}
    assert named == {f"github.com/{owner}"}
    built = (file.read_text() for file in (ROOT / "README.md", ROOT / "docs" / "install.md"))
    assert {found for text in built for found in re.findall(r"REGISTRY/([\w-]+)", text)} == {owner.split("/")[1]}
