"""The picture of the packages in docs/architecture.md is what the import contract in pyproject.toml says.

Tests are in the same folders.
"""

import re
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/architecture.md").read_text()
CONTRACTS: dict[str, dict[str, Any]] = {
    contract["name"]: contract
    for contract in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
}
PICTURE = re.search(r"^## Packages\n.*?^```\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def names(text: str) -> set[str]:
    return set(re.findall(r"\w+", text))


def rooms(contract: str, what: str) -> set[str]:
    """The rooms in a list of a contract."""
    found = (name.split(".") for name in CONTRACTS[contract][what])
    return {path[1] for path in found if path[0] == "podberth"}


def drawn() -> tuple[list[set[str]], set[str], set[str]]:
    """The lines of the picture from the top down, the rooms beside them, and the rooms below the rule."""
    assert PICTURE is not None
    lines, beside, pure = [], set(), set()
    ruled = False
    for line in PICTURE[1].splitlines():
        if line.lstrip().startswith("─"):
            ruled = True
            continue
        left, _, right = line.partition("beside:")
        lines.append(names(left))
        beside |= names(right)
        pure |= names(left) if ruled else set()
    return lines, beside, pure


def test_lines_are_the_layers() -> None:
    """As import-linter checks them, in that order."""
    layers = [names(layer.replace("podberth.", "")) for layer in CONTRACTS["Packages import downward only"]["layers"]]
    assert drawn()[0] == layers


def test_below_the_rule_are_the_pure_rooms() -> None:
    """Those of which a contract says that they have no clock."""
    assert drawn()[2] == rooms("Pure packages have no clock, log, network or event loop", "source_modules")


def test_beside_are_rooms_that_import_no_other() -> None:
    """Their contracts forbid them every room of the lines."""
    lines, beside, _ = drawn()
    through = "The cluster is reached through kube only"
    alone = "The embedded API server shares no code with its clients"
    assert beside == rooms(through, "source_modules") | rooms(alone, "source_modules")
    for contract in (through, alone):
        assert rooms(contract, "forbidden_modules") >= set().union(*lines)


def test_every_room_is_drawn_and_described() -> None:
    """In the picture once, and in the table below it."""
    there = {path.parent.name for path in (ROOT / "scheduler" / "podberth").glob("*/__init__.py")}
    lines, beside, _ = drawn()
    assert sorted([*beside, *(name for line in lines for name in line)]) == sorted(there)
    table = PAGE[PAGE.index("| package | what is in it") :].partition("\n\n")[0]
    described = [name for row in table.splitlines()[2:] for name in re.findall(r"`(\w+)`", row.split("|")[1])]
    assert sorted(described) == sorted(there)


def test_folders_of_tests_mirror_the_rooms() -> None:
    """Tests of a room, or of a package in it, are in the folder of the same path; `bench` is beside the scheduler."""
    code, tests = ROOT / "scheduler" / "podberth", ROOT / "tests/unit"
    packages = {path.parent.relative_to(code).as_posix() for path in code.rglob("__init__.py")}
    folders = {path.parent.relative_to(tests).as_posix() for path in tests.rglob("test_*.py")}
    assert folders - packages == {"bench"}


def test_files_that_it_names_are_there() -> None:
    """A file is named by its path below scheduler/podberth/, or alone behind another one of its folder."""
    code = ROOT / "scheduler" / "podberth"
    there = {path.relative_to(code).as_posix() for path in code.rglob("*.py")}
    named = set(re.findall(r"`(?:scheduler/podberth/)?([\w/]+\.py)`", PAGE))
    assert len(named) > 50
    assert {name for name in named if not any(f"/{path}".endswith(f"/{name}") for path in there)} == set()


def test_names_of_the_code_are_defined_there() -> None:
    """Classes, methods and attributes that the page has in backticks."""
    code = "".join(path.read_text() for path in (ROOT / "scheduler" / "podberth").rglob("*.py"))
    named = {word for text in re.findall(r"`([A-Z]?[A-Za-z_.]+)`", PAGE) for word in text.split(".")}
    words = set(re.findall(r"\w+", code)) | {path.name for path in (ROOT / "scheduler" / "podberth").rglob("*")}
    outside = {"in"} | {"md", "toml", "pyproject"}
    assert {word for word in named if word not in words} - outside == set()
