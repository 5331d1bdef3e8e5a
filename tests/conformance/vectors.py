"""The recorded vectors (`tests/vectors`): questions, each with the answer of kube-scheduler 1.37's own plugins."""

from __future__ import annotations

import gzip
from pathlib import Path

import msgspec

FOLDER = Path(__file__).parents[1] / "vectors"
FAMILIES = tuple(sorted(file.name.removesuffix(".jsonl.gz") for file in FOLDER.glob("*.jsonl.gz")))


class Vector(msgspec.Struct):
    """A line of a file. Only its name is read before its test runs: all of them are large."""

    id: str
    line: bytes = b""


def family(name: str) -> list[Vector]:
    """All vectors of a family."""
    return _vectors(gzip.decompress((FOLDER / f"{name}.jsonl.gz").read_bytes()))


def own() -> list[Vector]:
    """Cases written by hand: each was a difference from the real plugins once, or guards one of the ten traps."""
    return _vectors((FOLDER / "own.jsonl").read_bytes())


def _vectors(text: bytes) -> list[Vector]:
    decode = msgspec.json.Decoder(Vector).decode
    found = [(decode(line), line) for line in text.splitlines()]
    return [Vector(vector.id, line) for vector, line in found]
