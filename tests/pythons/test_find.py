"""Which Pythons are found on a machine, with stand-ins that say a version."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.pythons.find import NEXT, find, of_the_image, supported, tried

OWN = f"{sys.version_info[0]}.{sys.version_info[1]}"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home and a PATH with nothing in them."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("PYENV_ROOT", "UV_PYTHON_INSTALL_DIR"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def stand_in(file: Path, says: str, code: int = 0) -> str:
    """An interpreter that says this, whatever it is asked."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\necho '{says}'\nexit {code}\n")
    file.chmod(0o755)
    return str(file)


def test_nothing_is_here(machine: Path) -> None:
    """Not an error: `make test` says so."""
    assert find("3.13") is None


def test_by_name_on_the_path(machine: Path) -> None:
    """python3.13, or a python3 that is one."""
    stand_in(machine / "bin" / "python3", "3.13")
    assert find("3.13") == "python3"
    assert find("3.12") is None
    stand_in(machine / "bin" / "python3.12", "3.12")
    assert find("3.12") == "python3.12"


def test_a_name_that_only_complains(machine: Path) -> None:
    """pyenv puts a name on the PATH for each version that it has, and most of them end with an error."""
    stand_in(machine / "bin" / "python3.13", "3.13", 127)
    kept = stand_in(machine / ".pyenv" / "versions" / "3.13.0" / "bin" / "python3", "3.13")
    stand_in(machine / ".pyenv" / "versions" / "3.12.1" / "bin" / "python3", "3.12")
    assert find("3.13") == kept


def test_as_uv_keeps_them(machine: Path) -> None:
    """Below the folder that uv installs into."""
    kept = stand_in(machine / ".local/share/uv/python/cpython-3.13.5-linux-x86_64-gnu/bin/python3", "3.13")
    assert find("3.13") == kept


def test_what_ships_is_supported() -> None:
    """The image's Python is one of those that the package names, and so is the one that runs this."""
    assert {of_the_image(), OWN} <= set(supported())


def test_what_is_tried_is_supported_or_comes_next() -> None:
    """Once the package names the next version, another one is next."""
    assert tried() == [*supported(), NEXT]
    assert NEXT not in supported()
    assert int(NEXT.removeprefix("3.")) == 1 + max(int(version.removeprefix("3.")) for version in supported())
