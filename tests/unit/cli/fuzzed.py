"""`python -m tests.unit.cli.fuzzed SEED NUMBER`: mangled files through the commands, in 1 GiB and 120 s of CPU time.

It is a process of its own, as the bounds are those of a process. It says which input did what, and ends with 1 if a
command ended otherwise than a command may.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import resource
import sys
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any

import yaml

from podberth.cli.main import run
from tests.builders import configuration, pod, profile
from tests.unit.explain.story import DUMP

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


CONFIGURATION = configuration(
    profile(
        "berth", plugins={"score": {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeAffinity", "weight": 2}]}}
    ),
    profile("other", NodeResourcesFit={"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu"}]}}),
    profile("third", NodeAffinity={"addedAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}),
    leaderElection={"leaderElect": False, "leaseDuration": "15s"},
)
POLICY: dict[str, Any] = {
    "apiVersion": "podberth.dev/v1alpha1",
    "kind": "MetadataPolicy",
    "metadata": {"name": "tag", "namespace": "shop"},
    "spec": {
        "rules": [
            {
                "name": "front",
                "policyPredicate": {"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}},
                "policyAction": {"updatedLabels": {"tier": "front"}, "updatedAnnotations": {"x/y": "z"}},
            },
            {
                "name": "ban",
                "policyPredicate": {"annotationSelector": {"matchLabels": {"a": "b"}}},
                "policyAction": {"reject": True},
            },
        ]
    },
}
OBJECTS: dict[str, Any] = {"dump": DUMP, "asked": DEPLOYMENT, "config": CONFIGURATION, "policy": POLICY}
_WHATIF = [
    ["explain", "web", "-n", "shop", "--cluster", "{}"],
    ["simulate", "-f", "{}", "--cluster", "cluster.json"],
    ["capacity", "-f", "{}", "--cluster", "cluster.json"],
]
COMMANDS: dict[str, list[list[str]]] = {
    "dump": [
        *_WHATIF,
        ["explain", "--pending", "-A", "--cluster", "{}", "-o", "json"],
        ["dump", "--mask", "--cluster", "{}"],
    ],
    "asked": [
        *_WHATIF,
        ["simulate", "--no-validate", "-f", "{}", "--cluster", "cluster.json"],
        ["explain", "-f", "{}", "--cluster", "cluster.json", "-o", "html"],
    ],
    "config": [
        ["explain", "web", "-n", "shop", "--cluster", "cluster.json", "--config", "{}"],
        ["config", "view", "{}"],
        ["config", "lint", "{}"],
    ],
    "policy": [
        ["policy", "lint", "{}"],
        ["policy", "eval", "-f", "{}", "--policies", "policy.json"],
        ["policy", "eval", "-f", "pod.json", "--policies", "{}"],
        ["policy", "compile", "{}"],
    ],
}
MARKS = (
    *(b"&a ", b"*a", b"!!int ", b"!!map ", b"<<: *a", b"? ", b"- ", b": ", b"{", b"}", b"[", b"'", b'"', b"#", b"~"),
    *(b"\n", b"\n---\n", b"\n...\n", b"%YAML 1.1\n", b" |\n", b">-\n", b"\r\n", b"\t"),
    *(b"\0", b"\xff", b"\xef\xbb\xbf", b"\xe2\x80\xa8"),
)


LEAKS = re.compile(
    r"Traceback|NoneType|object has no attribute|list index|invalid literal|int\(\)|str-like|unhashable|\bdict\b"
    r"|`int`|`str`"
)


def torn(dice: Random, text: bytes) -> bytes:
    """A text with a few marks, cuts and repetitions in places that nobody chose."""
    for _ in range(dice.randint(1, 4)):
        at = dice.randrange(len(text) + 1)
        match dice.randrange(5):
            case 0:
                text = text[:at]
            case 1:
                text = text[:at] + text[at + dice.randrange(60) :]
            case 2:
                text = text[:at] + text[at : at + dice.randrange(200)] + text[at:]
            case _:
                text = text[:at] + dice.choice(MARKS) + text[at:]
    return text.replace(b"\n", b"\r\n") if dice.random() < 0.1 else text


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
        kind = dice.choice(list(OBJECTS))
        made = mangled(dice, OBJECTS[kind])
        if dice.random() < 0.5:
            printed = json.dumps(made, indent=dice.choice([None, 4])).encode()
            found.append((f"{kind}-{i}.json", torn(dice, printed) if dice.random() < 0.4 else printed))
            continue
        objects = [OBJECTS[kind], *([made] if len(json.dumps(made)) < 20_000 else []), OBJECTS[kind]]
        text = torn(dice, yaml.safe_dump_all(objects[: dice.randint(1, 3)]).encode())
        if dice.random() < 0.2:
            packed = gzip.compress(text)
            found.append((f"{kind}-{i}.yaml.gz", dice.choice([packed, torn(dice, packed)])))
        else:
            found.append((f"{kind}-{i}.yaml", text))
    return found


def _clear(said: str) -> bool:
    """Return whether wrong input is told in lines of ours, without a word of Python."""
    lines = said.splitlines()
    return bool(lines) and all(line.startswith("berth: ") for line in lines) and not LEAKS.search(said)


def main() -> int:
    """Run them all; say what went wrong."""
    seed, number = int(sys.argv[1]), int(sys.argv[2])
    files = inputs(seed, number)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name, made in (("cluster", DUMP), ("policy", POLICY), ("pod", pod("p", "1", namespace="shop"))):
            Path(f"{name}.json").write_text(json.dumps(made), encoding="utf-8")
        for name, content in files:
            Path(name).write_bytes(content)
            for words in COMMANDS.get(name.partition("-")[0], _WHATIF):
                command = [word.format(name) for word in words]
                out, err = io.TextIOWrapper(io.BytesIO()), io.StringIO()
                code: object
                try:
                    with redirect_stdout(out), redirect_stderr(err):
                        code = run(command)
                except BaseException as error:  # noqa: BLE001 (whatever it is, it is what is looked for)
                    code = f"{type(error).__name__}: {error}"[:200]
                if code not in (0, 1, 2) or (code == 2 and not _clear(err.getvalue())):
                    wrong += 1
                    print(f"seed {seed}: berth {' '.join(command)}: {code}\n{err.getvalue()[-600:]}")
            Path(name).unlink()
        os.chdir("/")
    print(f"{len(files)} files")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
