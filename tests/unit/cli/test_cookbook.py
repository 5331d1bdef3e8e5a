"""docs/answers.md: every command is run, and prints the lines that are shown."""

import re
import shlex
from pathlib import Path

import pytest

from podberth.explain.judging.judge import judge
from podberth.explain.objects.documents import read
from tests.unit.cli.conftest import Berth

ROOT = Path(__file__).parents[3]
FILES = ROOT / "examples" / "cookbook"
BLOCKS = re.findall(r"^```console\n\$ berth (.*?)\n(.*?)^```", (ROOT / "docs/answers.md").read_text(), re.M | re.S)


def plain(text: str) -> str:
    """Words with one blank between them."""
    return " ".join(text.split())


@pytest.mark.parametrize(("command", "shown"), BLOCKS, ids=[command for command, _ in BLOCKS])
def test_command(berth: Berth, monkeypatch: pytest.MonkeyPatch, command: str, shown: str) -> None:
    """Its lines are there, in their order."""
    monkeypatch.chdir(FILES)
    monkeypatch.setenv("COLUMNS", "200")
    found = berth(*shlex.split(command))
    lines = iter(plain(line) for line in (found.out + found.err).splitlines())
    for wanted in map(plain, shown.splitlines()):
        assert any(wanted in line for line in lines), wanted


def test_there_are_as_many() -> None:
    """As the title says."""
    assert len(BLOCKS) == 26


@pytest.mark.parametrize("file", sorted(FILES.iterdir()), ids=lambda file: file.name)
def test_files_are_right(file: Path) -> None:
    """The API server would take them, but for the one that is there to be refused."""
    wrong = [line for document in read(file.read_bytes()) for line in judge(document)]
    assert bool(wrong) is (file.name == "typo.yaml"), wrong
