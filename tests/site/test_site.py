"""The site of docs/: built as a release builds it, each link followed, looked at in a browser."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import threading
from collections import Counter
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from pathlib import Path
from urllib.parse import unquote

import pytest
from markdown_it import MarkdownIt

import podberth.kit
import podberth.lab
from tests.browser.axe import dressed, faults
from tests.browser.tab import opened

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
ELSEWHERE = {"README.md": "", "CHANGELOG.md": "changelog", "CONTRIBUTING.md": "contributing"}
"""Files beside docs/ that are pages, and where."""
SHAPES = ("blockquote", "code", "em", "h1", "h2", "h3", "img", "li", "pre", "strong", "table", "td")
LOADED = {("script", "src"), ("img", "src"), ("link", "href"), ("iframe", "src")}
PLACES = ("", "configuration/", "reference/metadatapolicy/", "api/kit/", "decisions/")
WIDTHS = {"desktop": 1280, "phone": 400}
OF_THE_THEME = ("aria-dialog-name", "landmark-unique", "scrollable-region-focusable")
"""Faults of the theme's own parts: the box of the search has no name, and code is not reached by the keyboard."""
SHOWN = """
new Promise(done => {
  const look = () => { const found = FOUND; found ? done(found) : setTimeout(look, 50); };
  look();
})
"""
"""Waits until a page shows something."""
SEARCH = """
{
  const box = document.querySelector('input[name=query]');
  box.focus();
  box.value = 'QUERY';
  box.dispatchEvent(new KeyboardEvent('keyup', {bubbles: true}));
}
"""


class Page(HTMLParser):
    """What an HTML page links, loads and names, and of what its article consists."""

    def __init__(self, text: str, *, whole: bool = False) -> None:
        super().__init__()
        self.links: list[tuple[str, str, str]] = []
        self.names: set[str] = set()
        self.shapes: Counter[str] = Counter()
        self._inside = whole
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._inside |= tag == "article"
        self.shapes[tag] += self._inside and tag in SHAPES
        for name, value in attrs:
            if name in ("href", "src") and value is not None:
                self.links.append((tag, name, value))
            if name in ("id", "name") and value:
                self.names.add(value)

    def handle_endtag(self, tag: str) -> None:
        self._inside &= tag != "article"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The branch that a release commits, as files: a version, `latest`, and the list of versions."""
    home = tmp_path_factory.mktemp("site")
    who = {f"GIT_{role}_{what}": "berth" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, **who, "PATH": path, "NO_MKDOCS_2_WARNING": "1"}
    run = partial(subprocess.run, cwd=home, env=env, capture_output=True)
    run(["git", "init", "-q"], check=True)
    run(["git", "commit", "-q", "--allow-empty", "-m", "The sources"], check=True)
    built = run(["mike", "deploy", "-F", ROOT / "site" / "mkdocs.yml", "-b", "pages", "0.1", "latest"], text=True)
    assert (built.returncode, "WARNING" in built.stderr) == (0, False), built.stderr
    run(["git", "archive", "-o", "tree.tar", "pages"], check=True)
    with tarfile.open(home / "tree.tar") as archive:
        archive.extractall(home / "tree", filter="data")
    return home / "tree"


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    """Every page of the version."""
    found = {path: Page(path.read_text(encoding="utf-8")) for path in (site / "0.1").rglob("*.html")}
    assert len(found) > 90
    return found


def test_links_lead_somewhere(site: Path, pages: dict[Path, Page]) -> None:
    """To a file of the site, and to what it names; nothing is loaded from others."""
    wrong = []
    for path, page in pages.items():
        for tag, attribute, link in page.links:
            target, _, anchor = link.partition("#")
            if "://" in link or link.startswith(("mailto:", "data:")):
                if (tag, attribute) in LOADED and "podberth.github.io" not in link:
                    wrong.append((path, link))
                continue
            base = site / "0.1" if target.startswith("/berth/latest/") else path.parent
            there = (base / unquote(target.removeprefix("/berth/latest/"))).resolve() if target else path
            there = there / "index.html" if there.is_dir() else there
            if not there.exists() or (anchor and there in pages and unquote(anchor) not in pages[there].names):
                wrong.append((path, link))
    assert wrong == []


def test_pages_read_as_on_github(site: Path, pages: dict[Path, Page]) -> None:
    """Each file has its page, and the site's Markdown finds the lists, tables and code in it that GitHub's finds."""
    markdown = MarkdownIt("gfm-like", {"linkify": False})
    places = {ROOT / name: place for name, place in ELSEWHERE.items()}
    for path in DOCS.rglob("*.md"):
        places[path] = path.relative_to(DOCS).as_posix().removesuffix(".md").removesuffix("README").rstrip("/")
    places[DOCS / "README.md"] = "pages"
    different: dict[str, tuple[int, int]] = {}
    for path, place in places.items():
        wanted = Page(markdown.render(path.read_text(encoding="utf-8")), whole=True).shapes
        got = pages[site / "0.1" / place / "index.html"].shapes
        different |= {f"{place} {tag}": (wanted[tag], got[tag]) for tag in SHAPES if wanted[tag] != got[tag]}
    assert different == {}


def test_every_name_of_the_apis_is_explained(site: Path, pages: dict[Path, Page]) -> None:
    """With the docstrings of the code."""
    named = pages[site / "0.1/api/lab/index.html"].names
    assert {f"podberth.lab.{name}" for name in podberth.lab.__all__} - named == set()
    named = pages[site / "0.1" / "api" / "kit" / "index.html"].names
    assert {f"podberth.kit.{name}" for name in podberth.kit.__all__} - named == {"podberth.kit.changes"}
    assert "podberth.explain.changes.Change" in pages[site / "0.1" / "api" / "changes" / "index.html"].names


class Quiet(SimpleHTTPRequestHandler):
    """Serves files, and says nothing of it."""

    def log_message(self, *_: object) -> None:
        """Drop the line."""


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """The site on a server of this machine."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


async def test_in_a_browser(chromium: Path, axe: Path, address: str, tmp_path: Path) -> None:
    """Pages fit a desktop and a phone in light and dark; the picture is there, the version is named, search finds."""
    ground = "getComputedStyle(document.body).backgroundColor"
    async with opened(chromium, address, tmp_path / "profile") as tab:
        tab.complaints.clear()  # the root of the branch has no page before a version is the default
        grounds, wrong = set(), []
        for scheme in ("light", "dark"):
            await dressed(tab, scheme)
            for place, (size, width) in product(PLACES, WIDTHS.items()):
                await tab.overflows(width)  # that wide while it loads
                await tab.visit(f"{address}latest/{place}")
                wrong += [f"{scheme} {place} {size}: overflows"] * await tab.overflows(width)
            grounds.add(await tab.ask(ground))
            await tab.visit(f"{address}latest/")
            found = await faults(tab, axe)
            wrong += [f"{scheme}: {fault}" for fault in found if fault.partition(":")[0] not in OF_THE_THEME]
        assert wrong == []
        assert len(grounds) == 2
        await tab.visit(f"{address}latest/")
        assert await tab.ask("document.querySelector('article img').naturalWidth") > 0
        version = await tab.ask(SHOWN.replace("FOUND", "document.querySelector('.md-version__current')?.textContent"))
        assert "0.1" in version
        await tab.ask(SEARCH.replace("QUERY", "percentageOfNodesToScore"))
        first = await tab.ask(SHOWN.replace("FOUND", "document.querySelector('.md-search-result__link')?.href"))
        assert "/latest/reference/configuration/" in first or "/latest/configuration/" in first
        assert tab.complaints == []
