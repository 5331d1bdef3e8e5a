"""The command line in-process: arguments in, exit code and both streams out."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from podberth.cli.main import run
from tests.unit.explain.story import DUMP


@dataclass
class Outcome:
    """The result of a command line."""

    code: int
    out: str
    err: str


Berth = Callable[..., Outcome]


@pytest.fixture
def berth(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Berth:
    """Run `berth ARGUMENTS` in an empty directory that has the story's dump as cluster.json."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    Path("cluster.json").write_text(json.dumps(DUMP), encoding="utf-8")

    def invoke(*arguments: str) -> Outcome:
        code = run(list(arguments))
        out, err = capsys.readouterr()
        return Outcome(code, out, err)

    return invoke
