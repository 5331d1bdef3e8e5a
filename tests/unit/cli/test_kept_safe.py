"""Kept safe while files are read and answers written: no small file hangs a command, no name steers a terminal."""

import gzip
import json
import re
from pathlib import Path

import pytest
import yaml

from podberth.cli import inputs
from podberth.cli.main import run
from podberth.explain.objects import documents
from podberth.kube.errors import ConfigError
from podberth.kube.kubeconfig import select
from tests.builders import Object, node, pod

CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
HOSTILE = "a\x1b[31m\x9b\u202e\u2066b"


def merges(levels: int) -> str:
    """Mappings each of which merges nine times the one before: their entries grow as 9 to the power of their number."""
    lines = ["l0: &l0 {a: 1, b: 2}"]
    lines += [f"l{i}: &l{i} {{<<: [{', '.join([f'*l{i - 1}'] * 9)}]}}" for i in range(1, levels)]
    return "\n".join(lines)


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line that a command says of wrong input."""
    assert run(list(arguments)) == 2
    told = capsys.readouterr()
    assert told.out == ""
    (line,) = told.err.splitlines()
    return line


@pytest.mark.parametrize("command", [("explain", "p", "--cluster"), ("policy", "lint"), ("config", "lint")])
def test_merge_keys_count_like_aliases(
    command: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whichever command reads them; a few merges are YAML like any other."""
    file = tmp_path / "merge.yaml"
    file.write_text(merges(20))
    assert refused(capsys, *command, str(file)).endswith("not YAML: its merge keys expand beyond all bounds")
    assert documents.parse(merges(3).encode())["l2"] == {"a": 1, "b": 2}


def test_merge_keys_of_a_kubeconfig(tmp_path: Path) -> None:
    """They count there, too."""
    file = tmp_path / "config"
    file.write_text(merges(20))
    with pytest.raises(ConfigError, match="its merge keys expand beyond all bounds"):
        select([str(file)], None)


@pytest.mark.parametrize("word", ["server", "proxy-url"])
def test_a_port_that_is_none(word: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line names file, field and value."""
    cluster = {"server": "https://a:6443"} | {word: "https://a:99999"}
    file = tmp_path / "config"
    found = {"contexts": [{"name": "a", "context": {"cluster": "a"}}], "clusters": [{"name": "a", "cluster": cluster}]}
    file.write_text(yaml.safe_dump({"current-context": "a", **found}))
    line = refused(capsys, "explain", "p", "--kubeconfig", str(file))
    assert f'{file} (context a): clusters[a].{word}: "https://a:99999": expected a URL' in line


def test_what_a_packed_file_holds_is_bounded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Objects and lines of YAML: each is said in one line."""
    monkeypatch.setattr(documents, "_MOST", 50)
    monkeypatch.setattr(documents, "_MOST_LINES", 50)
    monkeypatch.setattr(inputs, "MOST_LINES", 50)
    files = {
        "one.json": '{"kind":"X"}\n' * 51,
        "list.json": json.dumps({"kind": "List", "items": [{"kind": "X"}] * 51}),
        "bad.json": '{"kind":"X"}\n' * 60 + "{",
        "many.yaml": "- a\n" * 51,
    }
    for name, text in files.items():
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(text.encode()))
    told = {}
    for name in files:
        file = str(tmp_path / f"{name}.gz")
        told[name] = refused(capsys, "explain", "p", "--cluster", file).partition(".gz: ")[2]
    assert told.pop("many.yaml").startswith("expected at most 32 MB and 50 lines of YAML")
    assert set(told.values()) == {"expected at most 50 objects"}


@pytest.mark.parametrize("form", ["table", "json", "yaml", "html"])
def test_no_form_of_an_answer_steers_a_terminal(form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Names and selectors are tenants' texts. What is data stays what it is."""
    there: list[Object] = [node("n", "4"), pod("p", "1", select={f"k{HOSTILE}": HOSTILE})]
    file = tmp_path / "dump.json"
    file.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": there}))
    assert run(["explain", "p", "--cluster", str(file), "-o", form]) == 1
    told = capsys.readouterr().out
    assert not CONTROL.search(told)
    if form in ("json", "yaml"):
        answer = json.loads(told) if form == "json" else yaml.safe_load(told)
        assert answer["remedies"][0]["changes"][0]["value"] == HOSTILE
