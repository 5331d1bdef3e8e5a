"""Malformed documents: whichever command reads one, it ends as commands do, and says what is wrong in lines of ours."""

import gzip
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from podberth.cli.main import run
from podberth.explain.judging.judge import judge, mistyped
from podberth.explain.objects import documents, manifest
from podberth.explain.objects.documents import Document, ObjectError
from podberth.explain.objects.dump import Masks, smallest
from podberth.explain.objects.world import World
from podberth.lab.recording.log import MAGIC
from tests.unit.cli import malformed
from tests.unit.cli.conftest import Berth
from tests.unit.cli.fuzzed import CONFIGURATION, LAUGHS, LEAKS, POLICY
from tests.unit.cli.malformed import ON_DUMPS, ON_FILES, OTHER, Mutant, ended, mutants, write
from tests.unit.cli.test_bench import WORKLOAD

ONE_RULE = {**POLICY, "spec": {"rules": POLICY["spec"]["rules"][:1]}}
RUNS = 25
"""Malformed objects of a kind that commands are given, at most twice as many."""

PACKED = gzip.compress(json.dumps(WORKLOAD).encode() * 20)
TEXTS = {
    "empty": b"",
    "blank": b" \n\t\n",
    "a comment": b"# nothing",
    "separators": b"---\n---\n...\n",
    "a word": b"hello",
    "a number": b"5",
    "a list": b"[5, null]",
    "a list of objects": b"- {kind: Pod}\n- kind: 5",
    "null": b"null",
    "true": b"true",
    "an empty object": b"{}",
    "an object without kind": b"a: 1",
    "kinds of other types": b"kind: 5\n---\nkind: [a]\n---\nkind: {a: b}",
    "items of other types": b'{"kind": "List", "items": 5}',
    "items of numbers": b'{"kind": "List", "items": [5, null, "x", []]}',
    "names of other types": b'{"kind": "Pod", "apiVersion": 5, "metadata": {"name": [], "namespace": 5}}',
    "broken JSON": b'{"kind": "List", "items": [{"kind": "Pod"},',
    "broken YAML": b"a: [1\nb: 2",
    "a key twice": b"kind: Pod\nkind: Node",
    "keys of other types": b"? [a]\n: b\n",
    "keys that are numbers": b"kind: Pod\n1: 2\n2.5: {~: x}",
    "deep JSON": b'{"a":' * 100_000,
    "deep YAML": b"- " * 10_000,
    "many digits": b'{"kind": "Pod", "metadata": {"name": "x"}, "spec": {"priority": ' + b"9" * 5_000 + b"}}",
    "many digits in a list": b"- kind: Pod\n  a: 0x" + b"f" * 4_000,
    "laughs": f"kind: List\n{LAUGHS}".encode(),
    "laughs in pairs": LAUGHS.replace("[", "!!pairs [a: ").encode(),
    "an alias of itself": b"a: &a [*a]",
    "a merge of a text": b"a: &a x\nb: {<<: *a}",
    "a tag of another": b"kind: Pod\na: !!int [x]",
    "pairs, a set and bytes": b"kind: !!binary UG9k\na: !!pairs [b: c]\nd: !!set {e}\nf: !!timestamp 2024-01-01",
    "a tag of Python": b"a: !!python/object:os.system x",
    "a tag of nobody": b"a: !thing x",
    "a packed file that ends early": PACKED[:-9],
    "a packed file that begins only": PACKED[:5],
    "a packed file with damage": PACKED[:20] + bytes(20) + PACKED[40:],
    "a packed file in name only": b"\x1f\x8bhello",
    "a packed text": gzip.compress(b"hello"),
    "binary": bytes(range(256)),
    "no UTF-8": b"kind: Pod\nname: \xff\xfe",
    "half of UTF-16": b"\xff\xfek\x00i",
    "a NUL": b'{"kind": "Pod", "metadata": {"name": "a\\u0000b"}}',
    "SQLite": b"SQLite format 3\0" + bytes(100),
    "a recording": MAGIC + b"\xff" * 40,
    "Parquet": b"PAR1" + bytes(40) + b"PAR1",
    "tables": b"name,capacity,arrival\na,cpu=1\n",
}
"""What a file may hold that no command reads."""
AT_ALL = (
    "dump --mask --cluster {}",
    "explain one --cluster {}",
    *ON_FILES,
    "simulate --trace {}",
    "tune {} --goal packing",
    "tune cluster.json --goal packing --prices {}",
    "policy eval -f {} --policies policy.json",
    "policy eval -f pod.json --policies {}",
    "policy impact -f {} --policies policy.json",
    "policy lint -f {}",
    "policy compile -f {}",
    "config view {}",
    "config lint {}",
    "explain one -f pod.json --cluster cluster.json --config {}",
    "bench {} -s x",
    "run --config {}",
    "replay {}",
    "shadow --from {}",
)
"""Commands, each with a file that it reads in one of the ways in which a command reads one."""
DIRECTORIES = (
    *("openb_nodes.csv openb_pods.csv", "instance_events.json.gz machine_events.csv collection_events.jsonl"),
    *("cluster_log.csv cluster_gpu_number.csv", "nodes.csv.gz pods.csv", "nodes.parquet pods.parquet"),
    *("nodes.2024.csv pods.2024.csv", "trace.sqlite", "000000.log", "dump.yaml dump.json.gz", "policy_test.yaml"),
)
"""Names of files in directories that commands read."""
OF_DIRECTORIES = (
    "simulate --trace {}",
    "tune {} --goal packing",
    "explain one --cluster {}",
    "dump --cluster {}",
    "replay {}",
    "replay {} --verify",
    "replay {} --dump x.json",
    "policy test {}",
    "policy lint -f {}",
)


@pytest.fixture(autouse=True)
def _beside(berth: Berth) -> None:
    """The files that are well-formed, in the directory of the command."""
    malformed.beside()
    Path("policy.json").write_text(json.dumps(POLICY), encoding="utf-8")


def wrong(commands: Iterable[str], name: str) -> list[str]:
    """What is wrong with how these commands end on a file."""
    return [fault for command in commands if (fault := ended(command, name)[1])]


@pytest.mark.parametrize("what", TEXTS)
def test_texts(what: str) -> None:
    """All commands, and the standard input as well as a file."""
    Path("bad").write_bytes(TEXTS[what])
    assert not wrong(AT_ALL, "bad")


@pytest.mark.parametrize("names", DIRECTORIES)
def test_directories(names: str) -> None:
    """Of files that a trace, a recording or a dump has."""
    for number, (what, text) in enumerate(TEXTS.items()):
        directory = Path(f"d{number}")
        directory.mkdir()
        for name in names.split():
            (directory / name).write_bytes(text)
        assert not wrong(OF_DIRECTORIES[number % 3 :: 3], str(directory)), what


def test_a_closed_standard_input(berth: Berth, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the shell has it with <&-."""
    monkeypatch.setattr(sys, "stdin", None)
    for command in AT_ALL:
        found = berth(*command.format("-").split())
        assert (found.code, len(found.err.splitlines())) == (2, 1), command


def test_closed_output(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the shell has it with >&- and 2>&-: nobody reads the answer, and the exit code is what it is."""
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    assert run(["explain", "db-0", "--cluster", "cluster.json"]) == 0
    assert run(["explain", "nobody", "--cluster", "cluster.json"]) == 2
    sys.stdout.close()
    sys.stderr.close()


TAGS = ("int", "float", "bool", "null", "str", "binary", "timestamp", "seq", "map", "set", "omap", "pairs", "merge")


@pytest.mark.parametrize("tag", TAGS)
def test_tags(tag: str) -> None:
    """A value is what its tag says, or is refused; what is read is mappings, lists, texts, numbers and booleans."""
    for value in ("", "x", "5", "[x]", "{x: y}", "[x: y]", "2024-01-01", "/w==", "&a [*a]", "!!pairs [x: y]"):
        for text in (f"!!{tag} {value}", f"a: !!{tag} {value}", f"? !!{tag} {value}\n: b", f"<<: !!{tag} {value}"):
            documents.readable(text.encode())
            try:
                found = documents.parse(text.encode())
            except ObjectError:
                continue
            msgspec.json.encode(found)
            assert not set(_types(found)) - {dict, list, str, int, float, bool, type(None)}, text


def _types(value: Any) -> Iterator[type]:
    """Yield the type of a value, and of all within it."""
    yield type(value)
    for each in (*value, *value.values()) if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _types(each)


def taken(mutant: Mutant, read: Callable[[Document], object]) -> bool:
    """Return whether an object can be read. What can't be is refused in lines that name no word of Python."""
    try:
        for document in documents.read(json.dumps(mutant.made).encode()):
            read(document)
    except ObjectError as error:
        assert not LEAKS.search(str(error)), mutant
        return False
    return True


def of_a_dump(document: Document) -> None:
    """Read an object as commands do that are given a dump."""
    smaller = smallest({**documents.plain(document), "kind": document.kind})
    if smaller is not None:
        Masks([smaller]).masked(smaller)
    World().add_document(document)


def of_a_file(document: Document) -> None:
    """Read an object as commands do that are given a file, with --no-validate."""
    refused = mistyped(document)
    if refused:
        raise ObjectError("\n".join(refused))
    manifest.groups_made([document])
    manifest.unknown_kinds([document])
    manifest.workloads([document])


def judged(document: Document) -> None:
    """Read an object as commands do that are given a file."""
    refused = judge(document)
    if refused:
        raise ObjectError("\n".join(refused))
    of_a_file(document)


@pytest.mark.parametrize("kind", sorted({each["kind"] for each in malformed.THERE}))
def test_objects_of_dumps(kind: str) -> None:
    """Each place with each value is read or refused; of what is read, some are looked at, each by another command."""
    cases = [(mutant, there) for mutant, there in malformed.dumps(kind) if taken(mutant, of_a_dump)]
    for number, (mutant, there) in enumerate(cases[:: len(cases) // RUNS + 1]):
        fault = ended(ON_DUMPS[number % len(ON_DUMPS)], write("bad.json", *there))[1]
        assert not fault, f"{mutant}: {fault}"


@pytest.mark.parametrize("kind", sorted({each["kind"] for each in malformed.MADE}))
@pytest.mark.parametrize("more", ["", " --no-validate"], ids=["judged", "not judged"])
def test_objects_of_files(kind: str, more: str) -> None:
    """As of dumps, with the API server's rules and without."""
    read = of_a_file if more else judged
    cases = [(mutant, held) for mutant, held in malformed.files(kind) if taken(mutant, read)]
    for number, (mutant, held) in enumerate(cases[:: len(cases) // RUNS + 1]):
        fault = ended(ON_FILES[number % len(ON_FILES)] + more, write("bad.json", *held))[1]
        assert not fault, f"{mutant}: {fault}"


@pytest.mark.parametrize(
    ("made", "commands"),
    [
        (
            CONFIGURATION,
            ("config view {}", "config lint {}", "explain one -f pod.json --cluster cluster.json --config {}"),
        ),
        (ONE_RULE, ("policy lint -f {}", "policy compile -f {}", "policy eval -f pod.json --policies {}")),
        (WORKLOAD | {"kind": "Workload"}, ("bench {} -s x",)),
        ({"kind": "Dump", "kinds": ["Node"]}, ("dump --cluster {}", "config lint {}")),
    ],
    ids=["configuration", "policy", "workload", "kinds"],
)
def test_other_documents(made: Any, commands: tuple[str, ...]) -> None:
    """Each place with one of the values."""
    for mutant in list(mutants(made))[:: len(OTHER) + 1]:
        Path("bad.json").write_text(json.dumps(mutant.made), encoding="utf-8")
        assert not wrong(commands, "bad.json"), mutant
