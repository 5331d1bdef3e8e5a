"""docs/evidence/first-users.md: every command prints the lines that are shown; every test that it names is there."""

import json
import re
import shlex
from pathlib import Path

import pytest

from tests.unit.cli import first_users
from tests.unit.cli.conftest import Berth
from tests.unit.cli.test_cookbook import plain

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/evidence/first-users.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```console\n\$ berth (.*?)\n(.*?)^```", PAGE, re.M | re.S)
WAITING = [pod["metadata"]["name"] for pod in first_users.pending()]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory with the dump and the files."""
    directory = tmp_path_factory.mktemp("first-users")
    first_users.write(directory)
    return directory


@pytest.mark.parametrize(("command", "shown"), BLOCKS, ids=[command for command, _ in BLOCKS])
def test_command(berth: Berth, files: Path, monkeypatch: pytest.MonkeyPatch, command: str, shown: str) -> None:
    """Its lines are there, in their order."""
    monkeypatch.chdir(files)
    monkeypatch.setenv("COLUMNS", "250")
    found = berth(*shlex.split(command))
    assert found.code == (2 if not found.out else found.code)
    lines = iter(plain(line) for line in (found.out + found.err).splitlines())
    for wanted in map(plain, shown.splitlines()):
        assert any(wanted in line for line in lines), (wanted, found.out + found.err)


@pytest.mark.parametrize("name", WAITING)
def test_every_pod_that_waits_has_a_cause_and_a_change(
    berth: Berth, files: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The first line says why; a change has a command, unless an object of storage is wanted."""
    monkeypatch.chdir(files)
    found = berth("explain", f"shop/{name}", "--cluster", "dump.json", "-o", "json")
    answer = json.loads(found.out)
    assert found.code == 1
    assert answer["cause"] or answer["outcome"] in ("gated", "unclaimed")
    offered = any(each["nodes"] and each["commands"] for each in answer["remedies"])
    assert offered == (name not in ("claim", "class"))


def test_the_dump_is_what_the_page_says() -> None:
    """50 nodes, 400 pods, 22 of them waiting."""
    kinds = [each["kind"] for each in first_users.small()]
    assert (kinds.count("Node"), kinds.count("Pod"), len(WAITING)) == (50, 400, 22)


@pytest.mark.parametrize("named", sorted(set(re.findall(r"`([a-z_/]+\.py)(?:::(\w+))?`", PAGE))), ids="::".join)
def test_tests_that_are_named_are_there(named: tuple[str, str]) -> None:
    """By file, and by name where one is given."""
    file, test = named
    found = ROOT / file if file.startswith("tests/") else ROOT / "tests/unit" / file
    assert f"def {test}" in found.read_text(encoding="utf-8")
