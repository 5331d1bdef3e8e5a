"""`berth demo` as a process, as people start it."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = "import sys; from podberth.cli.main import run; sys.exit(run(sys.argv[1:]))"


def berth(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a directory of its own."""
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, "demo", *arguments], cwd=directory, capture_output=True, text=True, timeout=60
    )


def test_tells_the_story_and_writes_the_page(tmp_path: Path) -> None:
    """Off a terminal: plain lines without pauses, and the page with its path; nothing else is written."""
    done = berth(tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    assert done.stdout.rstrip().endswith(": berth-demo.html")
    assert [path.name for path in tmp_path.iterdir()] == ["berth-demo.html"]


def test_no_page(tmp_path: Path) -> None:
    """--no-page writes nothing."""
    done = berth(tmp_path, "--no-page")
    assert (done.returncode, done.stderr, list(tmp_path.iterdir())) == (0, "", [])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--out", "-"], "berth: --out -: expected the name of a file: standard output has the story\n"),
        (["--out", "nowhere/page.html"], "berth: --out nowhere/page.html: there is no directory nowhere\n"),
        (["--out", "."], "berth: --out .: is a directory\n"),
    ],
)
def test_wrong_input_is_one_line(tmp_path: Path, arguments: list[str], said: str) -> None:
    """Exit code 2, one line that names what is wrong, before anything starts."""
    done = berth(tmp_path, *arguments)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", said)
