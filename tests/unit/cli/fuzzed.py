"""`python -m tests.unit.cli.fuzzed SEED NUMBER`: mangled files through the commands, in 1 GiB and 120 s of CPU time.

It is a process of its own, as the bounds are those of a process. It says which input did what, and ends with 1 if a
command ended otherwise than a command may.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import resource
import sys
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any

from scheduler.cli.main import run
from tests.builders import pod
from tests.unit.whatif.story import DUMP

MEMORY = 1 << 30
SECONDS = 120
NASTY: list[Any] = [
    *(10**18, 10**30, -1, 1e308, True, None, "", "\0", "9" * 100_000, "1e999999999", "1" + "0" * 5_000 + "Gi"),
    *("x" * 1_000_000, [], {}, ["a"] * 100_000, [[]] * 10_000, {"a": {"a": {"a": []}}}, "2026-99-99T99:99:99Z"),
]
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "d", "namespace": "shop"},
    "spec": {
        "replicas": 3,
        "selector": {"matchLabels": {"app": "d"}},
        "template": {"metadata": {"labels": {"app": "d"}}, "spec": pod("t", "100m")["spec"]},
    },
}
LAUGHS = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 12)
)
TEXTS = {
    "deep.json": "[" * 200_000,
    "deep-objects.json": '{"a":' * 100_000,
    "laughs.yaml": f"kind: List\nitems: []\n{LAUGHS}",
    "deep.yaml": "- " * 50_000 + "x",
    "numbers.json": '{"kind": "Pod", "metadata": {"name": "p"}, "spec": {"priority": ' + "9" * 1_000_000 + "}}",
}


def mangled(dice: Random, document: Any) -> Any:
    """A document with one to three of its values, or keys, replaced."""
    made = deepcopy(document)
    for _ in range(dice.randint(1, 3)):
        place = made
        while True:
            keys = list(place) if isinstance(place, dict) else range(len(place))
            key: Any = dice.choice(keys)
            below = place[key]
            if isinstance(below, (dict, list)) and below and dice.random() < 0.85:
                place = below
                continue
            if isinstance(place, dict) and dice.random() < 0.15:
                place["y" * dice.choice([1, 300, 100_000])] = place.pop(key)
            else:
                place[key] = deepcopy(dice.choice(NASTY))
            break
    return made


def inputs(seed: int, number: int) -> list[tuple[str, bytes]]:
    """(name, content) of files."""
    dice = Random(seed)
    found = [(name, text.encode()) for name, text in TEXTS.items()]
    found.append(("spaces.json.gz", gzip.compress(b" " * (64 << 20))))
    for i in range(number):
        whole = dice.random() < 0.5
        name = f"{'dump' if whole else 'asked'}-{i}.json"
        found.append((name, json.dumps(mangled(dice, DUMP if whole else DEPLOYMENT)).encode()))
    return found


def main() -> int:
    """Run them all; say what went wrong."""
    seed, number = int(sys.argv[1]), int(sys.argv[2])
    files = inputs(seed, number)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("cluster.json").write_text(json.dumps(DUMP), encoding="utf-8")
        for name, content in files:
            Path(name).write_bytes(content)
            for command in (
                ["explain", "web", "-n", "shop", "--cluster", name],
                ["simulate", "-f", name, "--cluster", "cluster.json"],
                ["capacity", "-f", name, "--cluster", "cluster.json"],
            ):
                out, err = io.StringIO(), io.StringIO()
                code: object
                try:
                    with redirect_stdout(out), redirect_stderr(err):
                        code = run(command)
                except BaseException as error:  # noqa: BLE001 (whatever it is, it is what is looked for)
                    code = f"{type(error).__name__}: {error}"[:200]
                if code not in (0, 1, 2) or "Traceback" in err.getvalue():
                    wrong += 1
                    print(f"seed {seed}: berth {' '.join(command)}: {code}\n{err.getvalue()[-600:]}")
            Path(name).unlink()
        os.chdir("/")
    print(f"{len(files)} files")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
