"""Pages for readers: links lead somewhere, each page is in the list of pages, and the README's first commands run."""

import re
import shlex
from pathlib import Path

import pytest
import typer

from podberth.cli.commands import imported
from tests.unit.cli.conftest import Berth

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")]
PAGES += sorted(DOCS.rglob("*.md")) + sorted((ROOT / "examples").rglob("*.md"))
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)
SHOWN = re.compile(r"^(?:\$ )?(?:\.venv/bin/|kubectl )?(berth|make) (.*)$", re.MULTILINE)
START = re.search(r"cd (examples/\w+)\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)


def anchors(page: Path) -> set[str]:
    """The names of a page's headings in links, as GitHub makes them from the text."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = (re.sub(r"\]\([^)]*\)|[^\w\s-]", "", line) for line in re.findall(r"^#+ (.*)$", text, re.MULTILINE))
    return {heading.strip().lower().replace(" ", "-") for heading in headings}


def broken(page: Path) -> list[str]:
    """The links of a page to files or headings that are not there."""
    found = []
    for link in LINK.findall(CODE.sub("", page.read_text(encoding="utf-8"))):
        path, _, anchor = link.partition("#")
        if re.match(r"\w+:", path):
            continue
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file)):
            found.append(link)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    """To a file, and to a heading in it where one is named."""
    assert broken(page) == []


def test_each_page_is_in_the_list() -> None:
    """docs/README.md links every page beside it."""
    listed = set(LINK.findall((DOCS / "README.md").read_text(encoding="utf-8")))
    assert {page.name for page in DOCS.glob("*.md")} - {"README.md"} <= listed


def test_pages_stay_few_and_short() -> None:
    """A reader is sent to 20 pages and 40 decisions, 60,000 words in all. Evidence and generated pages stand apart."""
    pages, decisions = list(DOCS.glob("*.md")), list((DOCS / "decisions").glob("*.md"))
    words = sum(len(page.read_text(encoding="utf-8").split()) for page in [*PAGES[:3], *pages, *decisions])
    assert len(pages) <= 20
    assert len(decisions) - 1 <= 40
    assert words <= 60_000


@pytest.mark.parametrize("page", [*PAGES[:3], *DOCS.glob("*.md")], ids=lambda page: page.name)
def test_commands_exist(page: Path) -> None:
    """Each command that a page shows is one, with options that it has, and each target is in the Makefile."""
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for block in FENCE.findall(page.read_text(encoding="utf-8")):
        for program, line in SHOWN.findall(block.replace("\\\n", " ")):
            words = shlex.split(re.split(r"\s[|>]\s?", line)[0], comments=True)
            if program == "make":
                assert {word for word in words if "=" not in word} <= targets, line
                continue
            command, words = typer.main.get_command(imported(words[0])), words[1:]
            while groups := getattr(command, "commands", {}):
                command, words = groups[words[0]], words[1:]
            options = {name for one in command.params for name in (*one.opts, *one.secondary_opts)}
            given = {word.partition("=")[0] for word in words if word.startswith("-") and word != "-"}
            assert given <= options, line


@pytest.mark.parametrize("command", re.findall(r"^berth (.*?) *(?:#.*)?$", START[2] if START else "", re.MULTILINE))
def test_first_commands(berth: Berth, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    """They find what they name: the exit code is 0 or 1, and an answer is printed."""
    assert START is not None
    monkeypatch.chdir(ROOT / START[1])
    found = berth(*shlex.split(command))
    assert found.code in (0, 1), found.err
    assert found.out
