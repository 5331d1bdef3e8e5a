"""Questions of all kinds with kube-scheduler's answers: generated from seeds, and the chosen ones that are recorded."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from tests.conformance import vectors
from tests.conformance.comparison import Case
from tests.differential import replay
from tests.differential.client import Oracle
from tests.differential.generate import changes, changing, groups
from tests.differential.generate.families import FAMILIES, case
from tests.differential.verdict import judge

FOLDER = vectors.FOLDER / "boundaries"
PER_SEED = 8


def plain(family: str) -> list[Case]:
    """The vectors of a family, as questions here."""
    return [{**json.loads(vector.line), "kind": "one"} for vector in vectors.family(family)]


def file_of(kind: str) -> Path:
    """Where the questions of a kind are recorded."""
    return FOLDER / f"{kind}.jsonl.gz"


def of_kind(kind: str) -> list[Case]:
    """The recorded questions of a kind."""
    file = file_of(kind)
    return [json.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines()] if file.exists() else []


def all_of_them() -> list[Case]:
    """All recorded questions."""
    return [one for kind in replay.KINDS for one in of_kind(kind)]


def write(kind: str, cases: Iterable[Case]) -> None:
    """Record these of a kind, and no others: the same cases make the same file."""
    FOLDER.mkdir(exist_ok=True)
    ordered = sorted(cases, key=lambda one: str(one["id"]))
    text = "".join(json.dumps(one, separators=(",", ":"), sort_keys=True) + "\n" for one in ordered)
    file_of(kind).write_bytes(gzip.compress(text.encode(), mtime=0))


def add(cases: Sequence[Case]) -> None:
    """Record these beside those that are there."""
    for kind in {one["kind"] for one in cases}:
        write(kind, [*of_kind(kind), *(one for one in cases if one["kind"] == kind)])


def generated(oracle: Oracle, seeds: Iterable[int]) -> Iterator[Case]:
    """All that can be generated from these seeds, where Berth says what kube-scheduler says, or is right to differ.

    Others are left to `make differential`, which tells them.
    """
    numbers = [(seed, number) for seed in seeds for number in range(PER_SEED)]
    for kind, answered in (
        ("one", (one for family in FAMILIES for one in _one(oracle, family, numbers))),
        ("changing", (one for family in FAMILIES for one in _changing(oracle, family, numbers))),
        ("engine", (one for family in groups.FAMILIES for one in _engine(oracle, family, numbers))),
        ("hint", (one for plugin in changes.CHANGES for one in _hint(oracle, plugin, numbers))),
    ):
        for one in answered:
            vector = {**one, "kind": kind}
            if not replay.differences(vector):
                yield vector


def _one(oracle: Oracle, family: str, numbers: list[tuple[int, int]]) -> Iterator[Case]:
    found = oracle.vectors(case(family, *each) for each in numbers)
    return (one for one, verdict in zip(found, judge(oracle, found), strict=True) if verdict.kind != "refused")


def _changing(oracle: Oracle, family: str, numbers: list[tuple[int, int]]) -> Iterator[Case]:
    runs = [changing.states(family, *each) for each in numbers]
    answers = iter(oracle.vectors(state for states in runs for state in states))
    for states in runs:
        good = [one for one in islice(answers, len(states)) if "error" not in one and "error" not in one["want"]]
        name = states[0]["id"].rpartition(".")[0]
        same: Case = {field: states[0][field] for field in ("config", "nominees") if field in states[0]}
        if good:
            yield {"id": f"changing-{name}", **same, "steps": [*changing.steps(good)]}


def _engine(oracle: Oracle, family: str, numbers: list[tuple[int, int]]) -> Iterator[Case]:
    asked = [groups.case(family, *each) for each in numbers]
    for one, answer in zip(asked, oracle.groups(asked, *groups.OPTIONS.get(family, ())), strict=True):
        if "want" in answer:
            yield {**one, "want": answer["want"]}


def _hint(oracle: Oracle, plugin: str, numbers: list[tuple[int, int]]) -> Iterator[Case]:
    asked = [changes.question(plugin, *each) for each in numbers]
    for one, answer in zip(asked, oracle.hints(asked), strict=True):
        if "error" not in answer:
            yield {**one, "id": f"hint-{one['id']}", "want": bool(answer["queue"])}
