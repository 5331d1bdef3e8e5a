"""What is changed, what a mutant is called, and that the tests of a small project are told from those that sleep."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutants.__main__ import EQUIVALENT, PACKAGES, ROOT, SOURCE, equivalent, files, sample
from tests.mutants.mutations import compiled, mutants


def changes(body: str) -> list[str]:
    """Of a function with this body."""
    return [mutant.change for mutant in mutants("m.py", f"def f(a, b):\n    {body}\n")]


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("return a + b", ["a + b → a - b"]),
        ("return a // b", ["a // b → a * b"]),
        ("a -= b", ["a -= b → a += b"]),
        ("return a < b", ["a < b → a <= b"]),
        ("return a is not b", ["a is not b → a is b"]),
        ("return 0 < a < b", ["0 < a < b → 0 <= a < b", "0 < a < b → 0 < a <= b", "0 < a < b → 1 < a < b"]),
        ("return a and b", ["a and b → a or b"]),
        ("return not a", ["not a → a"]),
        ("return ~a", ["~a → a"]),
        ("return True", ["return True → return False"]),
        ("return a[0]", ["a[0] → a[1]"]),
        ("return min(a, b)", ["min(a, b) → max(a, b)"]),
        ("return a.any()", ["a.any() → a.all()"]),
        ("return np.floor(a)", ["np.floor(a) → np.ceil(a)"]),
        ("return math.log(a)", ["math.log(a) → 1.0"]),
        ("return int(a * b)", ["int(a * b) → round(a * b)", "a * b → a + b"]),
        ("return a if b else a", ["a if b else a → a if not b else a"]),
        ("return a\n    if b:\n        pass", ["if b: → if not b:"]),
        ("return f'{a}' + b", []),
        ("raise ValueError(a + b)", []),
        ("assert a < b", []),
        ("x: int | None = a", []),
        ("return a + b - (a + b)", ["a + b - (a + b) → a + b + (a + b)", "a + b → a - b", "a + b → a - b #2"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_what_is_changed(body: str, wanted: list[str]) -> None:
    """One operator, number or function at a time; no texts of errors, nothing that only types read."""
    assert changes(body) == wanted


def test_the_change_is_in_the_code() -> None:
    """The one that is named and no other one."""
    source = "def f(a):\n    return [a + 1, a + 1]\n"
    found = []
    for mutant in mutants("m.py", source):
        names: dict[str, object] = {}
        exec(compiled(source, "m.py", mutant), names)
        found.append((mutant.change, eval("f(5)", names)))
    assert found == [
        ("a + 1 → a - 1", [4, 6]),
        ("a + 1 → a + 2", [7, 6]),
        ("a + 1 → a + 0", [5, 6]),
        ("a + 1 → a - 1 #2", [6, 4]),
        ("a + 1 → a + 2 #2", [6, 7]),
        ("a + 1 → a + 0 #2", [6, 5]),
    ]


def test_names_stay_when_code_comes() -> None:
    """Lists and samples name mutants, not lines."""
    source = "class C:\n    def f(self):\n        return 1\n"
    (before,), after = mutants("m.py", source)[:1], mutants("m.py", f"def g():\n    return 2\n\n\n{source}")
    assert before.name == "m.py C.f: return 1 → return 2"
    assert before.name in {mutant.name for mutant in after}


def test_a_sample_goes_by_names() -> None:
    """Of a larger module it keeps what still is among the first."""
    one = mutants("m.py", "def f(a):\n    return a + 1\n")
    more = mutants("m.py", "def f(a):\n    return a + 1\n\n\ndef g(a):\n    return a and a\n")
    assert sample(one, None, 1) == one
    assert len(sample(more, 2, 1)) == 2
    assert {each.name for each in sample(more, 3, 1)} - {"m.py g: a and a → a or a"} <= {each.name for each in one}


def test_equivalent_ones_are_there() -> None:
    """Each names a mutant that exists, and has a reason in a sentence."""
    named = [line for line in EQUIVALENT.read_text().splitlines() if line and not line.startswith("# ")]
    there = {
        mutant.name
        for path in {line.split()[0] for line in named}
        for mutant in mutants(path, (SOURCE / path).read_text())
    }
    assert [name for name in named if name not in there] == []
    assert len(set(named)) == len(named)
    assert [reason for reason in equivalent().values() if not reason.endswith(".")] == []


@pytest.mark.parametrize("room", PACKAGES)
def test_rooms_are_there(room: str) -> None:
    """With code and with tests."""
    places, tests = PACKAGES[room]
    for place in places:
        assert list(files(SOURCE, [place], "*.py"))
    for place in tests:
        assert list(files(ROOT, [place], "test_*.py"))


CODE = """
def half(a):
    return a // 2

def least(a, b, step):
    while b > a:
        b -= step
    return min(a, b)

def unseen(a):
    return a + 1

def outer(a):
    def inner():
        return a * 3
    return inner()
"""
TESTS = """
from code_here.small import half, least, outer

def test_half():
    assert half(4) == 2

def test_least():
    assert least(1, 3, 1) == least(1, 1, 1) == 1

def test_outer():
    assert outer(2) == 6
"""
JUDGE = """
import sys
from pathlib import Path
from tests.mutants.mutations import mutants
from tests.mutants.session import run

source = Path(sys.argv[1]) / "code_here"

def work(warm):
    text = (source / "small.py").read_text()
    for mutant in mutants("small.py", text):
        print(f"{mutant.change}: {warm.killer(mutant, text)}")

run([sys.argv[2]], source, [source / 'small.py'], Path(sys.argv[1]) / 'maps', work)
"""


def test_tests_are_told_from_those_that_sleep(tmp_path: Path) -> None:
    """A wrong result, a loop without an end, a line that no test runs, a change that changes nothing."""
    package, tests = tmp_path / "code_here", tmp_path / "test_small.py"
    package.mkdir()
    (package / "small.py").write_text(CODE)
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = .\nmarkers = real\n")
    tests.write_text(TESTS)
    argv = [sys.executable, "-c", JUDGE, str(tmp_path), str(tests)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True)
    said = dict(line.rsplit(": ", 1) for line in done.stdout.splitlines() if " → " in line)
    assert said == {
        "a // 2 → a * 2": "test_small.py::test_half",
        "a // 2 → a // 3": "test_small.py::test_half",
        "a // 2 → a // 1": "test_small.py::test_half",
        "b > a → b >= a": "test_small.py::test_least",
        "b -= step → b += step": "test_small.py::test_least",
        "min(a, b) → max(a, b)": "None",
        "a + 1 → a - 1": "None",
        "a + 1 → a + 2": "None",
        "a + 1 → a + 0": "None",
        "a * 3 → a + 3": "test_small.py::test_outer",
        "a * 3 → a * 4": "test_small.py::test_outer",
        "a * 3 → a * 2": "test_small.py::test_outer",
    }
