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
        (["--context", "x"], "berth: --context x: goes with --kubeconfig\n"),
        (["--out", "-"], "berth: --out -: expected the name of a file: standard output has the story\n"),
        (["--out", "nowhere/page.html"], "berth: --out nowhere/page.html: there is no directory nowhere\n"),
        (["--out", "."], "berth: --out .: is a directory\n"),
        (["--kubeconfig", "none"], "berth: none: no such file; expected a kubeconfig\n"),
    ],
)
def test_wrong_input_is_one_line(tmp_path: Path, arguments: list[str], said: str) -> None:
    """Exit code 2, one line that names what is wrong, before anything starts."""
    done = berth(tmp_path, *arguments)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", said)


def test_an_unreachable_cluster_is_one_line(tmp_path: Path) -> None:
    """No traceback when nobody answers."""
    cluster = "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]"
    rest = "users: [{name: u, user: {}}]\ncontexts: [{name: x, context: {cluster: c, user: u}}]\ncurrent-context: x\n"
    (tmp_path / "kubeconfig").write_text(f"apiVersion: v1\nkind: Config\n{cluster}\n{rest}")
    done = berth(tmp_path, "--kubeconfig", "kubeconfig", "--no-page")
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert "127.0.0.1" in done.stderr
