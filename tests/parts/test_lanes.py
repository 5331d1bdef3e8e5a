"""Parts at the same time: what is said of them, and that none is left when one of them ends everything."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.controlplane.wait import wait_for
from tests.parts.lanes import run
from tests.parts.part import Part

PASSES = "print('...'); print('== short test summary info =='); print('SKIPPED [1] no kubectl'); print('3 passed')"
FAILS = "print('..F'); print('=== FAILURES ==='); print('it is red'); print('1 failed'); raise SystemExit(1)"
LASTS = """
import pathlib, subprocess, sys
started = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
pathlib.Path(sys.argv[1]).write_text(str(started.pid))
started.wait()
"""


def part(name: str, program: str, home: Path, *more: str, gate: bool = False) -> Part:
    """A Python program as a part."""
    return Part(name, [sys.executable, "-c", program, *more], home / f"{name}.log", gate=gate)


@pytest.fixture
def lasting(tmp_path: Path) -> Part:
    """A part that ends only with the process that it has started, long after this test."""
    return part("lasting", LASTS, tmp_path, str(tmp_path / "pid"))


def is_gone(home: Path) -> bool:
    """Whether what the lasting part has started has ended."""
    stat = Path(f"/proc/{int((home / 'pid').read_text())}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z"


def test_all_are_run_and_each_is_told(tmp_path: Path) -> None:
    """Of a success the summary, without the dots before it."""
    said: list[str] = []
    one, two, three = (part(name, PASSES, tmp_path) for name in ("one", "two", "three"))
    assert run([[one, two], [three]], said.append) == []
    assert sorted(text.split(":")[0] for text in said) == ["\n== one", "\n== three", "\n== two"]
    assert all(text.endswith("\n== short test summary info ==\nSKIPPED [1] no kubectl\n3 passed") for text in said)


def test_who_is_free_takes_the_next(tmp_path: Path) -> None:
    """Beside a long part of one lane, the other lane runs all that is no lane's own, in its order."""
    said: list[str] = []
    ends = f"import os, time\nwhile not os.path.exists({str(tmp_path / 'b.log')!r}): time.sleep(0.01)\n{PASSES}"
    others = [part(name, PASSES, tmp_path) for name in "ab"]
    assert run([[part("long", ends, tmp_path)], [part("own", PASSES, tmp_path)]], said.append, others) == []
    names = [text.split(":")[0].removeprefix("\n== ") for text in said]
    assert [name for name in names if name != "long"] == ["own", "a", "b"]


def test_a_part_that_fails_fails_the_whole(tmp_path: Path) -> None:
    """The others are run all the same; what failed is shown from the failures on."""
    said: list[str] = []
    bad = part("bad", FAILS, tmp_path)
    assert run([[bad, part("good", PASSES, tmp_path)]], said.append) == [bad]
    assert bad.failures == ["bad"]
    assert len(said) == 2
    assert said[0].startswith("\n== bad: FAILED after ")
    assert said[0].endswith("s\n=== FAILURES ===\nit is red\n1 failed")


def test_a_gate_that_fails_ends_the_others(tmp_path: Path, lasting: Part) -> None:
    """What is not well formed need not be tested for twenty minutes; no process is left."""
    waits = f"import os, time\nwhile not os.path.getsize({str(tmp_path / 'pid')!r}): time.sleep(0.01)\n{FAILS}"
    (tmp_path / "pid").touch()
    said: list[str] = []
    gate = part("check", waits, tmp_path, gate=True)
    assert run([[lasting, part("never", PASSES, tmp_path)], [gate]], said.append) == [gate]
    assert said[-1] == "Nothing else is run."
    assert not (tmp_path / "never.log").exists()
    wait_for("the other to be gone", lambda: is_gone(tmp_path))


def test_an_interrupt_leaves_nothing_behind(tmp_path: Path, lasting: Part) -> None:
    """Ctrl-C reaches the one who runs the parts, who ends them with all that they have started."""

    def interrupted(_: str) -> None:
        wait_for("the other to be there", lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run([[lasting], [part("one", PASSES, tmp_path)]], interrupted)
    wait_for("it to be gone", lambda: is_gone(tmp_path))


def test_how_far_a_part_is(tmp_path: Path) -> None:
    """As pytest says at the end of each line of dots."""
    under_way = part("one", "print('....  [ 12%]'); print('....  [ 34%]'); print('..', end='')", tmp_path)
    under_way.start()
    wait_for("its end", lambda: under_way.ended)
    assert under_way.percent == "34 %"


def test_what_failed_is_named(tmp_path: Path) -> None:
    """By pytest's own summary; what is shown of an error before it does not count."""
    summary = "== short test summary info ==\nFAILED tests/test_a.py::test_b - assert 1\nERROR tests/test_c.py"
    said = f"ERROR in a log\n{summary}"
    failing = part("fast", f"print({said!r}); raise SystemExit(1)", tmp_path)
    failing.start()
    wait_for("its end", lambda: failing.ended)
    assert failing.failures == ["fast: tests/test_a.py::test_b - assert 1", "fast: tests/test_c.py"]


def test_a_part_that_takes_too_long_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lasting: Part) -> None:
    """So that what it prints is seen before CI's own time is over."""
    lasting.start()
    wait_for("it to begin", lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
    monkeypatch.setattr("tests.parts.part.SECONDS", 0.0)
    wait_for("its end", lambda: lasting.ended)
    assert lasting.failures == ["lasting: took too long"]
    wait_for("what it has started to be gone", lambda: is_gone(tmp_path))
