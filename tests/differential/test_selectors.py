"""The recorded answers are what Kubernetes' compiler says, and generated selectors get the same from ours."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from tests.conformance.selectors import EXPRESSIONS, Answer, agrees, recorded
from tests.differential.selectors import Compiler, compare, generated


def test_the_recorded_answers(compiler: Compiler) -> None:
    """Each answer that is given is one of those that were recorded."""
    given = compiler.answers(EXPRESSIONS, 1)
    wrong = [
        text
        for text, now, then in zip(EXPRESSIONS, given, recorded(), strict=True)
        if now.get("compile") != then.get("compile") or not _among(now, then)
    ]
    assert wrong == []


def _among(now: Answer, then: Answer) -> bool:
    pairs = zip(now.get("answers", ()), then.get("answers", ()), strict=True)
    return all(agrees(one, known) for several, known in pairs for one in several)


LEFT_OUT = re.compile(r"duration|timestamp|\bauthorization\b|URL|NamedFormat|string_format", re.IGNORECASE)
"""What no device's attribute or capacity is, and templates."""


@pytest.mark.parametrize("seed", [1000, 1001])
def test_generated_selectors(seed: int, compiler: Compiler) -> None:
    """Same result and error; `python -m tests.differential.selectors` makes many more."""
    assert compare(compiler, generated(seed)) == []


def test_the_declarations(compiler: Compiler) -> None:
    """The functions, their overloads and types are those of the environment, without what is left out."""
    hidden = ("__not_strictly_false__|", "_in_|", "in|")
    lines = [
        line
        for line in compiler.declarations().splitlines()
        if not line.startswith(("#", *hidden)) and LEFT_OUT.search(line) is None
    ]
    written = files("podberth.cel").joinpath("declarations.txt").read_text(encoding="utf-8").splitlines()
    assert [_declared(line) for line in lines] == written


def _declared(line: str) -> str:
    name = "_||_" if line.startswith("_||_") else line.partition("|")[0]
    overload, style, args, result = line[len(name) + 1 :].split("|")
    return f"{name} {overload} {style} ({', '.join(args.split(';'))}) -> {result}"
