"""What seeds have told, kept in a file, so that a long run goes on where it was ended.

Each state of the code has a file of its own, with a line for each seed that was run: what one state has shown says
nothing of another one. A line is written whole as soon as its seed is done, so several runs may write to one file, and
a run may be killed at any time.
"""

from __future__ import annotations

import hashlib
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import msgspec

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "build" / "storm"
_PARTS = (
    *(f"scheduler/podberth/**/*.{kind}" for kind in ("py", "json", "txt")),
    "tests/builders.py",
    "tests/devices.py",
    "tests/storm/*.py",
    "helm/files/*.yaml",
    "requirements.lock",
)
"""What a run depends on, but for"""
_ASIDE = (
    *(f"scheduler/podberth/{folder}/" for folder in ("cli", "explain", "kit", "lab", "testing")),
    *(f"tests/storm/{name}" for name in ("found", "mutants", "scenes", "test_")),
)
"""how the paths of code begin that no seed ever loads."""


class Told(msgspec.Struct, frozen=True, omit_defaults=True):
    """What came of one seed."""

    seed: int
    violated: tuple[str, ...] = ()
    """The invariants that it violates, if no open hole is to blame."""
    hole: bool = False
    """It fails, and an open hole is to blame."""
    happened: dict[str, int] = {}
    hits: dict[str, int] = {}
    survived: dict[str, int] = {}
    seconds: float = 0.0
    """Of CPU."""


class Results:
    """The results in one file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.by_seed: dict[int, Told] = {}
        text = path.read_bytes() if path.exists() else b""
        self._whole = not text or text.endswith(b"\n")
        for line in text.splitlines():
            try:
                told = _decoder.decode(line)
            except msgspec.DecodeError:
                continue  # it was cut off when its run was killed: the seed is run again
            self.by_seed[told.seed] = told

    def add(self, told: Told) -> None:
        """Keep this."""
        self.by_seed[told.seed] = told
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab", buffering=0) as file:
            file.write((b"" if self._whole else b"\n") + msgspec.json.encode(told) + b"\n")
        self._whole = True


_decoder = msgspec.json.Decoder(Told)


def depends_on(root: Path = ROOT) -> list[str]:
    """The files that a run depends on, by their paths below `root`."""
    found = {path.relative_to(root).as_posix() for part in _PARTS for path in root.glob(part)}
    return sorted(path for path in found if not path.startswith(_ASIDE))


def state(root: Path = ROOT) -> str:
    """The name of this state of the code: a hash of all that a run depends on."""
    digest = hashlib.sha256(sys.version.encode())
    for path in depends_on(root):
        digest.update(f"\0{path}\0".encode())
        digest.update((root / path).read_bytes())
    return digest.hexdigest()[:12]


def kept(folder: Path = FOLDER) -> Results:
    """What this state of the code has told so far."""
    return Results(folder / f"{state()}.jsonl")


def report(found: Iterable[Told]) -> str:
    """All of it in some lines."""
    happened, hits, survived = Counter[str](), Counter[str](), Counter[str]()
    runs, seconds, failing, holes = 0, 0.0, list[int](), 0
    for told in found:
        runs += 1
        seconds += told.seconds
        happened.update(told.happened)
        hits.update(told.hits)
        survived.update(told.survived)
        holes += told.hole
        if told.violated:
            failing.append(told.seed)
    done = ", ".join(f"{count} pods {what}" for what, count in sorted(survived.items()))
    lines = [f"{runs} runs, {done}, {runs / seconds if seconds else 0.0:.1f} runs a second of CPU", "what happened:"]
    lines += [f"  {count:6} {kind}" for kind, count in happened.most_common()]
    lines += ["requests and events that went wrong:"]
    lines += [f"  {count:6} {effect}" for effect, count in hits.most_common()]
    return "\n".join([*lines, f"failing: {len(failing)} {failing}; for open holes: {holes}"])
